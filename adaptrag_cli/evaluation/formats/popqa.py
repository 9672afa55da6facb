"""PopQA (`popQA.tsv`): one fact about an entity whose popularity is known; `possible_answers` is JSON in a cell.

Fields: card of the data set akariasai/PopQA and `run_model.py` of AlexTMallen/adaptive-retrieval. `s_pop`, the monthly
page views of the subject, is what the popularity gate reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
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
)
from adaptrag_cli.evaluation.questions import Question


def _sniff(parsed: Parsed) -> bool:
    first = parsed.first
    return {"question", "possible_answers", "s_pop"} <= first.keys()


def _read(parsed: Parsed, into: Collected) -> None:
    for number, record in enumerate(parsed.records, start=1):
        into.questions.append(
            Question(
                id=str(record.get("id") or number),
                text=text_of(record, "question"),
                answers=distinct([*optional_texts(record, "obj"), *_names(record.get("possible_answers"))]),
                meta=plain_facts(record, ("prop", "subj"))
                | {key: _count(record, key) for key in ("s_pop", "o_pop") if record.get(key) not in {None, ""}},
            )
        )


def _names(value: object) -> list[str]:
    try:
        names = json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError as error:
        raise Malformed("'possible_answers' is not a JSON list") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Malformed("'possible_answers' is not a list of texts")
    return names


def _count(record: Mapping[str, Any], key: str) -> int:
    try:
        return int(float(record[key]))
    except (TypeError, ValueError, OverflowError) as error:
        raise Malformed(f"{key!r} is not a number") from error


FORMAT = Format(name="popqa", sniff=_sniff, read=_read)
