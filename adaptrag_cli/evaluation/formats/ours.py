"""Our own JSON lines: `{"id", "question", "answers", "gold_passage_ids", "own_passage_ids", "meta"}`.

Only question and answers must be there. `meta.gold_sets` are evidence sets of several annotators; what else is plain in
`meta` is kept, but for texts that tell the answer.
"""

from __future__ import annotations

from adaptrag_cli.evaluation.formats.base import (
    Collected,
    Format,
    Malformed,
    Parsed,
    distinct,
    optional_texts,
    plain_facts,
    text_of,
    texts_of,
)
from adaptrag_cli.evaluation.questions import Question

_TELLS = frozenset({"long_answer"})


def _sniff(parsed: Parsed) -> bool:
    return "question" in parsed.first and isinstance(parsed.first.get("answers"), list)


def _read(parsed: Parsed, into: Collected) -> None:
    for number, record in enumerate(parsed.records, start=1):
        meta = record.get("meta") or {}
        if not isinstance(meta, dict):
            raise Malformed("'meta' is not an object")
        gold_sets = [texts_of({"gold_sets": evidence}, "gold_sets") for evidence in meta.get("gold_sets") or ()]
        into.questions.append(
            Question(
                id=str(record.get("id", number)),
                text=text_of(record, "question"),
                answers=distinct(texts_of(record, "answers")),
                gold_ids=distinct(optional_texts(record, "gold_passage_ids")),
                gold_sets=tuple(distinct(evidence) for evidence in gold_sets),
                own_passages=distinct(optional_texts(record, "own_passage_ids")),
                meta=plain_facts(meta, sorted(meta.keys() - _TELLS)),
            )
        )


FORMAT = Format(name="adaptrag", sniff=_sniff, read=_read)
