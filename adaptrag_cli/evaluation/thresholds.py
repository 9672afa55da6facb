"""Choose a threshold for drafts, and map uncertainty to the chance that a draft is right. Pure numbers.

Decoding is greedy and bit-equal, so at any threshold t a question is answered by its draft where u <= t and from
documents elsewhere: one pass over the questions gives the whole curve (DTR section 4.1, Fig. 3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.calibration import FittedThreshold
from adaptrag_cli.evaluation.statistics import LEVEL, mean_difference, mean_interval
from adaptrag_cli.events import DraftOdds

FOLDS = 5
REPEATS = 10
CHOICES = 500
"""Bootstrap resamples of the choice."""
_MIN_BAND = 5
"""Bands of fewer drafts say nothing and join their neighbour."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Drafts:
    """What was measured for some questions, in one order; scores are from 0 to 1."""

    uncertainty: Floats
    """Infinite where it is undefined: such a question is always looked up."""
    draft: Floats
    """Score of the draft."""
    documents: Floats
    """Score of the answer from documents."""

    def __len__(self) -> int:
        return len(self.uncertainty)

    def of(self, rows: NDArray[np.intp]) -> Drafts:
        """Some of the questions, with repeats."""
        return Drafts(uncertainty=self.uncertainty[rows], draft=self.draft[rows], documents=self.documents[rows])

    def scores_at(self, threshold: float) -> Floats:
        """Score of each question under a threshold, shape (n,)."""
        return np.where(self.uncertainty <= threshold, self.draft, self.documents)


def drafts_of(uncertainty: Sequence[float | None], draft: Sequence[float], documents: Sequence[float]) -> Drafts:
    """Put measured numbers together."""
    return Drafts(
        uncertainty=np.asarray([math.inf if u is None else u for u in uncertainty], dtype=np.float64),
        draft=np.asarray(draft, dtype=np.float64),
        documents=np.asarray(documents, dtype=np.float64),
    )


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Mean score and trigger ratio at every threshold that makes a difference, rising. All arrays have one shape."""

    thresholds: Floats
    """0 first, then each distinct uncertainty: the outcome stays the same up to the next one."""
    scores: Floats
    trigger_ratios: Floats


def threshold_curve(drafts: Drafts) -> Curve:
    """The exact curve. score(t) = (sum of draft scores with u <= t + sum of other documents' scores) / n."""
    n = len(drafts)
    order = np.argsort(drafts.uncertainty, kind="stable")
    ordered = drafts.of(order)
    gains = np.concatenate([[0.0], np.cumsum(ordered.draft - ordered.documents)])
    steps = np.unique(np.concatenate([[0.0], ordered.uncertainty[np.isfinite(ordered.uncertainty)]]))
    skipped = np.searchsorted(ordered.uncertainty, steps, side="right")
    return Curve(
        thresholds=steps,
        scores=(float(drafts.documents.sum()) + gains[skipped]) / n,
        trigger_ratios=1.0 - skipped / n,
    )


def best_threshold(drafts: Drafts, budget: float | None = None) -> float:
    """The threshold with the best mean score; with a budget, among those that look up at most this share.

    Of equally good ones it takes the middle one: at either edge the next question may count against it. It stands
    halfway to the next uncertainty that was seen, except at the ends: 0 looks up all but what is certain, and the
    largest answers all from memory. Where undefined uncertainties alone exceed the budget, the largest.
    """
    curve = threshold_curve(drafts)
    scores = curve.scores
    if budget is not None:
        allowed = curve.trigger_ratios <= budget + 1e-12
        if not allowed.any():
            return float(curve.thresholds[-1])
        scores = np.where(allowed, scores, -np.inf)
    equal = np.flatnonzero(scores >= scores.max() - 1e-12)
    best = int(equal[(len(equal) - 1) // 2])
    value = float(curve.thresholds[best])
    if value == 0.0 or best + 1 == len(curve.thresholds):
        return value
    return (value + float(curve.thresholds[best + 1])) / 2


def fit_threshold(
    drafts: Drafts, *, target: str, shipped: float, budget: float | None = None, seed: int = 0
) -> FittedThreshold:
    """Choose on folds, and measure the gain on what each choice has not seen.

    The choice is the median of the folds' choices (repeated K-fold); its interval is a bootstrap over questions. The
    gain is each question's score under the choices made without it, less its score under the shipped threshold.

    Args:
        target: what the scores are, in words for the file: `em`, `f1` or `budget 0.5`.
        shipped: the threshold in use without a calibration.
        budget: largest share of questions to look up; None for no limit.
    """
    generator = np.random.default_rng(seed)
    n = len(drafts)
    choices: list[float] = []
    held_out = np.zeros(n)
    for _ in range(REPEATS):
        for fold in np.array_split(generator.permutation(n), min(FOLDS, n)):
            rest = np.setdiff1d(np.arange(n), fold)
            choice = best_threshold(drafts.of(rest), budget) if len(rest) else shipped
            choices.append(choice)
            held_out[fold] += drafts.of(fold).scores_at(choice)
    threshold = float(np.median(choices))
    if budget is not None:
        threshold = max(threshold, _least_allowed(drafts, budget))
    resampled = [best_threshold(drafts.of(generator.integers(0, n, n)), budget) for _ in range(CHOICES)]
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(resampled, [tail, 100 - tail]).tolist()
    score = mean_interval((held_out / REPEATS).tolist(), seed=seed)
    gain = mean_difference((held_out / REPEATS - drafts.scores_at(shipped)).tolist(), seed=seed)
    assert score is not None and gain is not None
    return FittedThreshold(
        threshold=threshold,
        low=min(low, threshold),
        high=max(high, threshold),
        target=target,
        gain=gain.mean,
        gain_low=gain.low,
        gain_high=gain.high,
        held_out=score.mean,
        held_out_low=score.low,
        held_out_high=score.high,
    )


def fit_odds(uncertainty: Sequence[float | None], right: Sequence[bool]) -> tuple[DraftOdds, ...]:
    """Bands of uncertainty in which the share of right drafts never rises: isotonic regression, small bands joined.

    A bound stands halfway between the two uncertainties beside it; drafts without an uncertainty are left out.
    """
    known = sorted((u, float(is_right)) for u, is_right in zip(uncertainty, right, strict=True) if u is not None)
    if not known:
        return ()
    from sklearn.isotonic import IsotonicRegression

    values = np.asarray([u for u, _ in known])
    outcomes = np.asarray([is_right for _, is_right in known])
    fitted = IsotonicRegression(increasing=False).fit_transform(values, outcomes)
    starts = [0, *(np.flatnonzero(~np.isclose(np.diff(fitted), 0.0)) + 1).tolist()]
    starts = _joined(starts, len(known), max(_MIN_BAND, len(known) // 20))
    bounds: list[float] = [0.0, *(float(values[s - 1] + values[s]) / 2 for s in starts[1:])]
    ends = [*starts[1:], len(known)]
    return tuple(
        DraftOdds(
            above=bounds[i],
            up_to=bounds[i + 1] if i + 1 < len(starts) else None,
            right=int(outcomes[start:end].sum()),
            drafts=end - start,
        )
        for i, (start, end) in enumerate(zip(starts, ends, strict=True))
    )


def _least_allowed(drafts: Drafts, budget: float) -> float:
    """The smallest threshold within the budget; the largest there is, where none is."""
    curve = threshold_curve(drafts)
    allowed = np.flatnonzero(curve.trigger_ratios <= budget + 1e-12)
    return float(curve.thresholds[allowed[0] if len(allowed) else -1])


def _joined(starts: list[int], total: int, smallest: int) -> list[int]:
    """Drop starts until every band has enough members; the last short one joins the band before it."""
    kept: list[int] = []
    for start, end in zip(starts, [*starts[1:], total], strict=True):
        if kept and start - kept[-1] < smallest:
            continue  # the open band is still too small, so this one joins it
        if kept and total - start < smallest:
            break
        kept.append(start)
        del end
    return kept
