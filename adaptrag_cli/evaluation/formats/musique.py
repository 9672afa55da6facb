"""MuSiQue (`musique_ans_v1.0_dev.jsonl`): twenty paragraphs a question, two to four hops.

Fields: `raw_data_to_official_format.py` of StonyBrookNLP/musique. Unanswerable questions (MuSiQue-Full) are left out.
"""

from __future__ import annotations

from adaptrag_cli.evaluation.formats.base import Collected, Format, Parsed, distinct, list_of, optional_texts, text_of
from adaptrag_cli.evaluation.questions import Question
from adaptrag_cli.events import Scalar


def _sniff(parsed: Parsed) -> bool:
    first = parsed.first
    paragraphs = first.get("paragraphs")
    return (
        "question" in first
        and isinstance(paragraphs, list)
        and bool(paragraphs)
        and isinstance(paragraphs[0], dict)
        and "paragraph_text" in paragraphs[0]
    )


def _read(parsed: Parsed, into: Collected) -> None:
    for record in parsed.records:
        gold = []
        for paragraph in list_of(record, "paragraphs"):
            identifier = into.passage(text_of(paragraph, "title"), text_of(paragraph, "paragraph_text"))
            if paragraph.get("is_supporting"):
                gold.append(identifier)
        if record.get("answerable") is False:
            into.skip("unanswerable")
            continue
        identifier = str(record["id"])
        hops = len(record.get("question_decomposition") or ())
        meta: dict[str, Scalar] = {"type": identifier.partition("__")[0]}
        into.questions.append(
            Question(
                id=identifier,
                text=text_of(record, "question"),
                answers=distinct([*optional_texts(record, "answer"), *optional_texts(record, "answer_aliases")]),
                gold_ids=distinct(gold),
                meta=meta | ({"hops": hops} if hops else {}),
            )
        )


FORMAT = Format(name="musique", sniff=_sniff, read=_read)
