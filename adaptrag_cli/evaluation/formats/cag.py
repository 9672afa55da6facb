"""CAG's benchmark of credibility (`EvoTemp.json`, time-sensitive, which DeepRAG measures on; `NewsPolluted.json`).

Fields: `datasets/` of panruotong/CAG. A question's `docs` are its own knowledge base. Those of high credibility are the
ones that tell the answer (`base_dataset.py` takes them as positive); one of them is enough.
"""

from __future__ import annotations

from adaptrag_cli.evaluation.formats.base import (
    Collected,
    Format,
    Malformed,
    Parsed,
    distinct,
    list_of,
    optional_texts,
    plain_facts,
    text_of,
)
from adaptrag_cli.evaluation.questions import Question


def _sniff(parsed: Parsed) -> bool:
    first = parsed.first
    docs = first.get("docs")
    in_fields = isinstance(docs, list) and bool(docs) and isinstance(docs[0], dict) and "cred" in docs[0]
    return ("question" in first and in_fields) or "conversations" in first


def _read(parsed: Parsed, into: Collected) -> None:
    for record in parsed.records:
        if "docs" not in record and "conversations" in record:
            raise Malformed("its passages are part of a prompt; give the file whose records have 'docs'")
        own, high = [], []
        for doc in list_of(record, "docs"):
            identifier = into.passage(str(doc.get("title") or ""), text_of(doc, "text"))
            own.append(identifier)
            if str(doc.get("cred")).lower() == "high":
                high.append(identifier)
        gold = distinct(high)
        into.questions.append(
            Question(
                id=str(record["id"]),
                text=text_of(record, "question"),
                answers=distinct(optional_texts(record, "answers") or optional_texts(record, "answer")),
                gold_ids=gold,
                gold_sets=tuple((identifier,) for identifier in gold),
                own_passages=distinct(own),
                meta=plain_facts(record, ("q_date",)),
            )
        )


FORMAT = Format(name="cag", sniff=_sniff, read=_read)
