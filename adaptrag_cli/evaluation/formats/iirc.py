"""IIRC (`train.json`, `dev.json`): questions about a passage that lacks something its links tell.

Fields: `process_iirc.py` of StonyBrookNLP/ircot and `make_drop_style.py` of jferguson144/IIRC-baseline. The corpus is
the passages and the annotated snippets of the linked articles; the articles themselves (`context_articles.json`) are
not read, which makes retrieval easier than over all of them. Spans of one answer belong together and are joined by a
comma; a value is right with and without its unit. Unanswerable and bad questions are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adaptrag_cli.evaluation.formats.base import Collected, Format, Malformed, Parsed, distinct, list_of, text_of
from adaptrag_cli.evaluation.questions import Question

_UNANSWERABLE = {"none": "unanswerable", "bad": "marked as bad"}


def _sniff(parsed: Parsed) -> bool:
    first = parsed.first
    return {"title", "text", "links", "questions"} <= first.keys()


def _read(parsed: Parsed, into: Collected) -> None:
    into.notes.append("the corpus holds passages and annotated snippets only, not the linked articles")
    for number, passage in enumerate(parsed.records, start=1):
        title = text_of(passage, "title").strip()
        main = into.passage(title, text_of(passage, "text").strip())
        for place, asked in enumerate(list_of(passage, "questions"), start=1):
            gold = [_evidence(context, main, into) for context in asked.get("context") or ()]
            answer = asked.get("answer") or {}
            if reason := _UNANSWERABLE.get(str(answer.get("type"))):
                into.skip(reason)
                continue
            into.questions.append(
                Question(
                    id=str(asked.get("qid") or f"{passage.get('pid') or number}-{place}"),
                    text=text_of(asked, "question"),
                    answers=_answers(answer),
                    gold_ids=distinct(gold),
                    meta={"type": answer["type"]} if answer else {},
                )
            )


def _evidence(context: Mapping[str, Any], main: str, into: Collected) -> str:
    source = text_of(context, "passage").strip()
    return main if source == "main" else into.passage(source, text_of(context, "text").strip())


def _answers(answer: Mapping[str, Any]) -> tuple[str, ...]:
    match answer.get("type"):
        case None:
            return ()
        case "span":
            return distinct([", ".join(text_of(span, "text").strip() for span in list_of(answer, "answer_spans"))])
        case "binary":
            return distinct([text_of(answer, "answer_value").strip()])
        case "value":
            value, unit = text_of(answer, "answer_value").strip(), str(answer.get("answer_unit") or "").strip()
            return distinct([value, f"{value} {unit}".strip()])
    raise Malformed(f"the answer type {answer.get('type')!r} is unknown")


FORMAT = Format(name="iirc", sniff=_sniff, read=_read)
