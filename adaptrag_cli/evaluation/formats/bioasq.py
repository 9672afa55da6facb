"""BioASQ task B (`training11b.json`, `11B1_golden.json`): biomedical questions with the snippets that tell the answer.

Fields: `bioasq_task_b.py` of bigscience-workshop/biomedical. The names in a factoid's answer are equally right; a list
is right with all its items, so their first names are joined by a comma. Summary questions have no exact answer and are
left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adaptrag_cli.evaluation.formats.base import (
    Collected,
    Format,
    Malformed,
    Parsed,
    distinct,
    list_of,
    plain_facts,
    text_of,
    texts_of,
)
from adaptrag_cli.evaluation.questions import Question


def _sniff(parsed: Parsed) -> bool:
    asked = parsed.document.get("questions") if isinstance(parsed.document, dict) else None
    return (
        isinstance(asked, list) and bool(asked) and isinstance(asked[0], dict) and {"body", "type"} <= asked[0].keys()
    )


def _read(parsed: Parsed, into: Collected) -> None:
    for record in list_of(parsed.document, "questions"):
        gold = [into.passage("", text_of(snippet, "text").strip()) for snippet in record.get("snippets") or ()]
        if record["type"] == "summary":
            into.skip("summary questions")
            continue
        into.questions.append(
            Question(
                id=str(record["id"]),
                text=text_of(record, "body"),
                answers=_answers(record),
                gold_ids=distinct(gold),
                meta=plain_facts(record, ("type",)),
            )
        )


def _answers(record: Mapping[str, Any]) -> tuple[str, ...]:
    items = _items(record.get("exact_answer"))
    match record["type"]:
        case "yesno":
            return distinct(name.lower() for names in items for name in names)
        case "factoid":
            return distinct(name for names in items for name in names)
        case "list":
            return distinct([", ".join(names[0].strip() for names in items if names)])
    raise Malformed(f"the question type {record['type']!r} is unknown")


def _items(value: object) -> list[list[str]]:
    """The items of an exact answer, each with its names; some years write a text for a list of one."""
    items = [] if value is None else value if isinstance(value, list) else [value]
    return [texts_of({"exact_answer": item if isinstance(item, list) else [item]}, "exact_answer") for item in items]


FORMAT = Format(name="bioasq", sniff=_sniff, read=_read)
