"""Scores of answers, retrievals and decisions (METHODS 7 and 9.7). All are from 0 to 1 unless they say otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from adaptrag_cli.answers import contains, contains_words, normalise_answer, same_answer, token_f1
from adaptrag_cli.evaluation.statistics import Floats, Interval, bootstrap
from adaptrag_cli.events import Record

Bools = npt.NDArray[np.bool_]

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

    Probing-RAG's model consistency (Tab. 4). The paper counts every question, so that a method keeps what it does not
    look up; over the questions that were looked up it is what retrieval spoils (DTR Fig. 5, PAIRS Fig. 3).
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
    intervals: dict[str, Interval]
    """95 % bootstrap interval of each measure that is defined, by its name."""


def decision_quality(
    *, answerable: Sequence[bool], retrieved: Sequence[bool], uncertainty: Sequence[float | None], seed: int = 0
) -> DecisionQuality | None:
    """Measure decisions against what the drafts turned out to be; positive is "answerable without retrieval".

    An always-retrieving method has F1 0, balanced accuracy .5, MCC 0 (METHODS 9.7). An undefined uncertainty counts as
    the largest: it retrieves.
    """
    if not len(answerable) == len(retrieved) == len(uncertainty):
        raise ValueError("decisions, drafts and uncertainties are not of the same questions")
    if not answerable:
        return None
    truth, skipped = np.asarray(answerable, dtype=bool), ~np.asarray(retrieved, dtype=bool)
    intervals = {name: bootstrap(measure, truth, skipped, seed=seed) for name, measure in _MEASURES.items()}
    if any(value is not None for value in uncertainty):
        intervals["auroc"] = bootstrap(auroc, truth, _uncertainties(uncertainty), seed=seed)
    known = {name: interval for name, interval in intervals.items() if interval is not None}
    values = {name: interval.mean for name, interval in known.items()}
    return DecisionQuality(
        n=len(answerable),
        answerable=float(truth.mean()),
        f1=values["f1"],
        accuracy=values["accuracy"],
        balanced_accuracy=values["balanced_accuracy"],
        mcc=values["mcc"],
        auroc=values.get("auroc"),
        intervals=known,
    )


def _uncertainties(uncertainty: Sequence[float | None]) -> Floats:
    return np.asarray([math.inf if value is None else value for value in uncertainty], dtype=np.float64)


def auroc(truth: Bools, uncertainty: Floats) -> Floats:
    """The chance that a right draft is less uncertain than a wrong one; ties count half; NaN with one kind only.

    From rank sums: (R - P (P + 1) / 2) / (P N), where R sums the ranks of the P right drafts among all, most uncertain
    first.
    """
    from scipy.stats import rankdata

    right = truth.sum(axis=-1, dtype=np.float64)
    wrong = truth.shape[-1] - right
    ranks = (rankdata(-uncertainty, axis=-1) * truth).sum(axis=-1)
    return _ratio(ranks - right * (right + 1) / 2, right * wrong, undefined=math.nan)


def _decision_f1(truth: Bools, skipped: Bools) -> Floats:
    tp, fp, fn, _ = _counts(truth, skipped)
    return _ratio(2 * tp, 2 * tp + fp + fn)


def _accuracy(truth: Bools, skipped: Bools) -> Floats:
    return np.asarray((truth == skipped).mean(axis=-1))


def _balanced_accuracy(truth: Bools, skipped: Bools) -> Floats:
    """Mean of the shares decided well among right and among wrong drafts; of one kind where the other is missing."""
    tp, fp, fn, tn = _counts(truth, skipped)
    kinds = (tp + fn > 0).astype(np.float64) + (tn + fp > 0)
    return (_ratio(tp, tp + fn) + _ratio(tn, tn + fp)) / kinds


def _mcc(truth: Bools, skipped: Bools) -> Floats:
    tp, fp, fn, tn = _counts(truth, skipped)
    return _ratio(tp * tn - fp * fn, np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)))


_MEASURES = {"f1": _decision_f1, "accuracy": _accuracy, "balanced_accuracy": _balanced_accuracy, "mcc": _mcc}


def _counts(truth: Bools, skipped: Bools) -> tuple[Floats, Floats, Floats, Floats]:
    """True positives, false positives, false negatives and true negatives along the last axis."""
    cells = (truth & skipped, ~truth & skipped, truth & ~skipped, ~truth & ~skipped)
    tp, fp, fn, tn = (np.asarray(cell.sum(axis=-1, dtype=np.float64)) for cell in cells)
    return tp, fp, fn, tn


def _ratio(above: Floats, below: Floats, *, undefined: float = 0.0) -> Floats:
    return np.divide(above, below, out=np.full_like(below, undefined), where=below > 0)


def _f1(prediction: str, gold: str) -> float:
    a, b = normalise_answer(prediction), normalise_answer(gold)
    if (a in _CLOSED or b in _CLOSED) and a != b:
        return 0.0
    return token_f1(prediction, gold)


def _required(golds: Sequence[str]) -> Sequence[str]:
    if not golds:
        raise ValueError("a question without gold answers cannot be scored")
    return golds
