"""HotpotQA (`hotpot_dev_distractor_v1.json` and its kin): ten paragraphs a question, two of them gold.

Fields: README of hotpotqa/hotpot. A paragraph's sentences are joined by a space, as DTR does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
)
from adaptrag_cli.evaluation.questions import Question, passage_id


def has_paragraphs(parsed: Parsed) -> bool:
    """Whether the records look like HotpotQA's or those of a set that follows it."""
    first = parsed.first
    return {"_id", "question", "context"} <= first.keys() and isinstance(first["context"], list)


def read_paragraphs(
    parsed: Parsed, into: Collected, *, aliases: Callable[[Mapping[str, Any]], list[str]] = lambda record: []
) -> None:
    """Read questions whose `context` is a list of `[title, sentences]`.

    A supporting paragraph that the file lacks (fullwiki setting) stays gold, so that recall counts it as missed.

    Args:
        aliases: further answers of a record.
    """
    for record in parsed.records:
        by_title: dict[str, str] = {}
        for paragraph in list_of(record, "context"):
            title, sentences = _paragraph(paragraph)
            title = title.strip()  # as `distinct` strips the titles of supporting facts
            if identifier := into.passage(title, " ".join(s.strip() for s in sentences if s.strip())):
                by_title.setdefault(title, identifier)
        titles = distinct(str(fact[0]) for fact in record.get("supporting_facts") or ())
        answer = record.get("answer")
        into.questions.append(
            Question(
                id=str(record["_id"]),
                text=text_of(record, "question"),
                answers=distinct([answer, *aliases(record)]) if isinstance(answer, str) else (),
                gold_ids=tuple(by_title.get(title) or passage_id(title, "") for title in titles),
                meta=plain_facts(record, ("type", "level")),
            )
        )


def _paragraph(paragraph: Any) -> tuple[str, list[str]]:
    match paragraph:
        case [str(title), list(sentences)] if all(isinstance(s, str) for s in sentences):
            return title, sentences
    raise Malformed("a paragraph of 'context' is not [title, sentences]")


FORMAT = Format(name="hotpotqa", sniff=has_paragraphs, read=read_paragraphs)
