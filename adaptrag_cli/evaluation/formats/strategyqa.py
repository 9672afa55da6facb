"""StrategyQA (`strategyqa_train.json`): yes/no questions, with evidence by annotator in a file of paragraphs beside it.

Fields: `strategy_qa_reader.py`, `elasticsearch_utils.py` and `ir_evaluation/recall@10.py` of eladsegal/strategyqa.
Each annotator gives, for each step, lists of paragraph ids or a word such as `operation`. An annotator whose evidence
is not whole in the paragraphs counts for nothing; without the paragraphs there is neither corpus nor gold evidence.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.formats.base import Collected, Format, Malformed, Parsed, distinct, text_of
from adaptrag_cli.evaluation.questions import Question
from adaptrag_cli.events import Scalar

_BESIDE = ("strategyqa_train_paragraphs.json", "strategyqa_test_paragraphs.json")


def _sniff(parsed: Parsed) -> bool:
    first = parsed.first
    return {"qid", "question"} <= first.keys() and ("answer" not in first or isinstance(first["answer"], bool))


def _read(parsed: Parsed, into: Collected) -> None:
    passages = _paragraphs(parsed.path, into)
    if not passages:
        into.notes.append(f"no {_BESIDE[0]} beside it: no corpus and no gold evidence")
    for record in parsed.records:
        answer = record.get("answer")
        if answer is not None and not isinstance(answer, bool):
            raise Malformed("'answer' is not true or false")
        evidence = [_evidence(annotator, passages) for annotator in record.get("evidence") or ()]
        sets = tuple(dict.fromkeys(found for found in evidence if found))
        steps = len(record.get("decomposition") or ())
        hops: dict[str, Scalar] = {"hops": steps} if steps else {}
        into.questions.append(
            Question(
                id=str(record["qid"]),
                text=text_of(record, "question"),
                answers=() if answer is None else ("yes" if answer else "no",),
                gold_ids=distinct(identifier for found in sets for identifier in found),
                gold_sets=sets,
                meta=hops,
            )
        )


def _paragraphs(path: Path, into: Collected) -> dict[str, str]:
    """Passages of the paragraph files beside the questions, by the id that the evidence names them with."""
    own = f"{path.name.split('.')[0]}_paragraphs.json"
    passages: dict[str, str] = {}
    for beside in (path.with_name(name) for name in dict.fromkeys((own, *_BESIDE))):
        try:
            for key, paragraph in json.loads(into.companion(beside) or "{}").items():
                passages[key] = into.passage(str(paragraph.get("title") or ""), text_of(paragraph, "content"))
        except (ValueError, AttributeError, Malformed) as error:
            raise ConfigError(f"{beside}: no object of paragraphs: {error}", "fetch it again") from error
    return passages


def _evidence(annotator: Any, passages: dict[str, str]) -> tuple[str, ...]:
    """Passages that one annotator names; nothing where one of them is unknown."""
    named = [key for step in annotator for part in step if isinstance(part, list) for key in part]
    return distinct(passages[key] for key in named) if all(passages.get(key) for key in named) else ()


FORMAT = Format(name="strategyqa", sniff=_sniff, read=_read)
