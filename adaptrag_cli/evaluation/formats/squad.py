"""SQuAD 1.1 (`dev-v1.1.json`) and sets in its shape: articles, paragraphs, questions about one paragraph.

Fields: `datasets/squad/squad.py` of huggingface/datasets. Titles are page names: their underscores become spaces.
Unanswerable questions (SQuAD 2.0) are left out.
"""

from __future__ import annotations

from adaptrag_cli.evaluation.formats.base import Collected, Format, Parsed, distinct, list_of, text_of
from adaptrag_cli.evaluation.questions import Question


def _sniff(parsed: Parsed) -> bool:
    data = parsed.document.get("data") if isinstance(parsed.document, dict) else None
    return isinstance(data, list) and bool(data) and isinstance(data[0], dict) and "paragraphs" in data[0]


def _read(parsed: Parsed, into: Collected) -> None:
    for article in parsed.document["data"]:
        title = str(article.get("title", "")).replace("_", " ")
        for paragraph in list_of(article, "paragraphs"):
            gold = into.passage(title, text_of(paragraph, "context"))
            for asked in list_of(paragraph, "qas"):
                if asked.get("is_impossible"):
                    into.skip("unanswerable")
                    continue
                into.questions.append(
                    Question(
                        id=str(asked["id"]),
                        text=text_of(asked, "question"),
                        answers=distinct(text_of(answer, "text") for answer in asked.get("answers") or ()),
                        gold_ids=distinct([gold]),
                    )
                )


FORMAT = Format(name="squad", sniff=_sniff, read=_read)
