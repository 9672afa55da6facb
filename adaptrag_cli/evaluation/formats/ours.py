"""Our own JSON lines: `{"id", "question", "answers", "gold_passage_ids", "own_passage_ids", "meta"}`.

Only question and answers must be there. `meta.gold_sets` are evidence sets of several annotators; what else is plain in
`meta` is kept, but for texts that tell the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

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
_FIELDS = ("id", "question", "answers", "gold_passage_ids", "own_passage_ids", "meta")


def _sniff(parsed: Parsed) -> bool:
    return "question" in parsed.first and isinstance(parsed.first.get("answers"), list)


def complaint_of(record: Mapping[str, Any]) -> str:
    """What keeps a record that looks like one of ours from being read, in words; empty for nothing, or another's."""
    if not record.keys() & {"question", "answers"}:
        return ""
    for name, is_right, must in (
        ("question", lambda value: isinstance(value, str), "a text"),
        ("answers", _is_texts, 'a list of texts, such as ["yes"]'),
    ):
        if name not in record:
            near = get_close_matches(name, [key for key in record if key not in _FIELDS], n=1)
            return f"unknown field {near[0]!r}; did you mean {name!r}?" if near else f"{name!r} is missing"
        if not is_right(record[name]):
            return f"{name!r} must be {must}"
    return ""


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


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
