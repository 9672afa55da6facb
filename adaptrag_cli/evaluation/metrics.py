"""Scores of answers, retrievals and decisions (METHODS 7 and 9.7). All are from 0 to 1 unless they say otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adaptrag_cli.answers import contains, contains_words, normalise_answer, same_answer, token_f1
from adaptrag_cli.events import Record

_CLOSED = frozenset({"yes", "no", "noanswer"})


def exact_match(prediction: str, golds: Sequence[str]) -> bool:
    """Whether the normalised prediction equals any gold answer; an empty prediction never does."""
    return any(same_answer(prediction, gold) for gold in _required(golds))


def f1(prediction: str, golds: Sequence[str]) -> float:
    """Token F1, the largest over all gold answers, with HotpotQA's rule for yes and no."""
    return max(_f1(prediction, gold) for gold in _required(golds))


def f1_first_gold(prediction: str, golds: Sequence[str]) -> float:
    """Token F1 against the first gold answer alone: how PAIRS' figures were made, so far as they can be explained."""
    return _f1(prediction, _required(golds)[0])


def contains_gold(prediction: str, golds: Sequence[str]) -> bool:
    """ACC: whether a normalised gold answer is a substring of the normalised prediction.

    Inflated for yes and no ("no" is in "know"), as in the papers.
    """
    return any(contains(prediction, gold) for gold in _required(golds))


def recall_at_k(documents: Sequence[str], gold: Sequence[str], gold_sets: Sequence[Sequence[str]] = ()) -> float | None:
    """Share of the gold documents among the consulted ones; None where nothing is gold.

    With several evidence sets (StrategyQA: one of each annotator) the best covered one counts: any of them tells.
    """
    sets = [frozenset(s) for s in (gold_sets or (gold,)) if s]
    found = frozenset(documents)
    return max((len(found & wanted) / len(wanted) for wanted in sets), default=None)


def all_gold_at_k(
    documents: Sequence[str], gold: Sequence[str], gold_sets: Sequence[Sequence[str]] = ()
) -> bool | None:
    """Whether every gold document (of one evidence set) is consulted; None where nothing is gold."""
    recall = recall_at_k(documents, gold, gold_sets)
    return None if recall is None else recall == 1.0


def answer_in_text(texts: Sequence[str], golds: Sequence[str]) -> bool:
    """Recall of open-domain sets: whether a consulted text holds an answer as words in a row."""
    return any(contains_words(text, gold) for text in texts for gold in _required(golds))


def consistency(draft_right: Sequence[bool], still_right: Sequence[bool]) -> float | None:
    """Of the questions whose draft was right, the share that is still right after retrieval; None without any.

    What retrieval does not spoil: DTR's Fig. 5 and PAIRS' Fig. 3 show the same loss where drafts are sure.
    """
    kept = [after for before, after in zip(draft_right, still_right, strict=True) if before]
    return sum(kept) / len(kept) if kept else None


class DecisionQuality(Record, frozen=True, kw_only=True):
    """How well "do not look up" predicts that the draft is right (DeepRAG Tab. 3)."""

    n: int
    answerable: float
    """Share of questions whose draft is right."""
    f1: float
    accuracy: float
    balanced_accuracy: float
    mcc: float
    """Matthews correlation, from -1 to 1; 0 for a constant decision."""
    auroc: float | None
    """Of minus the uncertainty; None where no uncertainty was measured or all drafts are alike."""


def decision_quality(
    *, answerable: Sequence[bool], retrieved: Sequence[bool], uncertainty: Sequence[float | None]
) -> DecisionQuality | None:
    """Measure decisions against what the drafts turned out to be; positive is "answerable without retrieval".

    An always-retrieving method has F1 0, balanced accuracy .5, MCC 0 (METHODS 9.7). An undefined uncertainty counts as
    the largest: it retrieves.
    """
    n = len(answerable)
    if n == 0:
        return None
    pairs = list(zip(answerable, retrieved, strict=True))
    tp = sum(1 for a, r in pairs if a and not r)
    fp = sum(1 for a, r in pairs if not a and not r)
    fn = sum(1 for a, r in pairs if a and r)
    tn = n - tp - fp - fn
    rates = [hit / total for hit, total in ((tp, tp + fn), (tn, tn + fp)) if total]
    spread = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    return DecisionQuality(
        n=n,
        answerable=(tp + fn) / n,
        f1=2 * tp / (2 * tp + fp + fn) if tp else 0.0,
        accuracy=(tp + tn) / n,
        balanced_accuracy=sum(rates) / len(rates),
        mcc=(tp * tn - fp * fn) / spread if spread else 0.0,
        auroc=auroc(answerable, uncertainty),
    )


def auroc(positive: Sequence[bool], uncertainty: Sequence[float | None]) -> float | None:
    """The chance that a right draft is less uncertain than a wrong one; ties count half; None with one kind only."""
    if all(value is None for value in uncertainty):
        return None
    values = [math.inf if value is None else value for value in uncertainty]
    right = [value for value, is_right in zip(values, positive, strict=True) if is_right]
    wrong = [value for value, is_right in zip(values, positive, strict=True) if not is_right]
    if not right or not wrong:
        return None
    wins = sum((a < b) + 0.5 * (a == b) for a in right for b in wrong)
    return wins / (len(right) * len(wrong))


def _f1(prediction: str, gold: str) -> float:
    a, b = normalise_answer(prediction), normalise_answer(gold)
    if (a in _CLOSED or b in _CLOSED) and a != b:
        return 0.0
    return token_f1(prediction, gold)


def _required(golds: Sequence[str]) -> Sequence[str]:
    if not golds:
        raise ValueError("a question without gold answers cannot be scored")
    return golds
