"""NQ-open (`NQ-open.dev.jsonl`): questions and answers only; a question's id is its number in the file.

Fields: the files in `nq_open/` of google-research-datasets/natural-questions.
"""

from __future__ import annotations

from adaptrag_cli.evaluation.formats.base import Collected, Format, Parsed, distinct, text_of, texts_of
from adaptrag_cli.evaluation.questions import Question


def _sniff(parsed: Parsed) -> bool:
    first = parsed.first
    return "question" in first and isinstance(first.get("answer"), list)


def _read(parsed: Parsed, into: Collected) -> None:
    for number, record in enumerate(parsed.records, start=1):
        into.questions.append(
            Question(
                id=str(record.get("id", number)),
                text=text_of(record, "question"),
                answers=distinct(texts_of(record, "answer")),
            )
        )


FORMAT = Format(name="nq-open", sniff=_sniff, read=_read)
