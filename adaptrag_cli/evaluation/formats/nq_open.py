"""NQ-open (`NQ-open.dev.jsonl`): questions and answers only; a question's id is its number in the file.

Fields: the files in `nq_open/` of google-research-datasets/natural-questions.
"""

from __future__ import annotations

from adaptrag_cli.evaluation.formats.base import Collected, Format, Malformed, Parsed, distinct, list_of, text_of
from adaptrag_cli.evaluation.questions import Question


def _sniff(parsed: Parsed) -> bool:
    first = parsed.first
    return "question" in first and isinstance(first.get("answer"), list)


def _read(parsed: Parsed, into: Collected) -> None:
    for number, record in enumerate(parsed.records, start=1):
        answers = list_of(record, "answer")
        if not all(isinstance(answer, str) for answer in answers):
            raise Malformed("'answer' holds something that is not a text")
        into.questions.append(
            Question(id=str(record.get("id", number)), text=text_of(record, "question"), answers=distinct(answers))
        )


FORMAT = Format(name="nq-open", sniff=_sniff, read=_read)
