"""PubMedQA (`ori_pqal.json`): yes/no/maybe questions by PubMed id, each with the abstract it is about.

Fields: `data/ori_pqal.json` of pubmedqa/pubmedqa. `LONG_ANSWER` is the abstract's conclusion, which tells the answer:
it stays out of the corpus.
"""

from __future__ import annotations

from adaptrag_cli.evaluation.formats.base import (
    Collected,
    Format,
    Malformed,
    Parsed,
    distinct,
    optional_texts,
    text_of,
    texts_of,
)
from adaptrag_cli.evaluation.questions import Question
from adaptrag_cli.events import Scalar


def _sniff(parsed: Parsed) -> bool:
    first = next(iter(parsed.document.values()), None) if isinstance(parsed.document, dict) else None
    return isinstance(first, dict) and {"QUESTION", "CONTEXTS"} <= first.keys()


def _read(parsed: Parsed, into: Collected) -> None:
    for identifier, record in parsed.document.items():
        if not isinstance(record, dict):
            raise Malformed("it is not an object")
        gold = into.passage("", "\n".join(texts_of(record, "CONTEXTS")))
        year: dict[str, Scalar] = {"year": record["YEAR"]} if isinstance(record.get("YEAR"), str) else {}
        into.questions.append(
            Question(
                id=identifier,
                text=text_of(record, "QUESTION"),
                answers=distinct(optional_texts(record, "final_decision")),
                gold_ids=distinct([gold]),
                meta=year,
            )
        )


FORMAT = Format(name="pubmedqa", sniff=_sniff, read=_read)
