"""How well something tells right texts from wrong ones: accuracy, AUROC, calibration, and a fitted threshold.

The two texts of a question are right or wrong together more often than by chance. So where a question has several,
intervals come from resampling questions, each with all its texts, and tests flip the sign of whole questions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.evaluation.metrics import auroc
from adaptrag_cli.evaluation.statistics import (
    Interval,
    Paired,
    bootstrap,
    mean_interval,
    paired_test,
    quantiles,
    resampled,
)
from adaptrag_cli.events import Record

BINS = 10
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Bin(Record, frozen=True, kw_only=True):
    """Texts whose probability of being right lies in a range."""

    low: float
    high: float
    texts: int
    predicted: float
    """Mean probability."""
    right: float
    """Share that is right."""


class Quality(Record, frozen=True, kw_only=True):
    """How well one thing tells right from wrong on what was held out."""

    name: str
    accuracy: Interval
    auroc: Interval | None = None
    """None where it gives no order, or one label is missing."""
    calibration_error: float | None = None
    """Expected calibration error: mean distance of predicted and true share, weighted by bin; None without odds."""
    bins: tuple[Bin, ...] = ()


def quality(
    name: str,
    stops: Bools,
    right: Bools,
    questions: Sequence[str],
    *,
    scores: Floats | None = None,
    probabilities: Floats | None = None,
    seed: int = 0,
) -> Quality:
    """Measure decisions; the greater a score, the rather a text is right.

    Args:
        stops: (n,), what was decided: stop, for the text is right.
        right: (n,), what is so.
        questions: (n,), what each text is of.
        probabilities: (n,), of being right.
    """
    accuracy = mean_by_question((stops == right).astype(float), questions, seed=seed)
    bins = calibration_bins(probabilities, right) if probabilities is not None else ()
    return Quality(
        name=name,
        accuracy=accuracy,
        auroc=auroc_by_question(right, scores, questions, seed=seed) if scores is not None else None,
        calibration_error=expected_calibration_error(bins) if bins else None,
        bins=bins,
    )


def mean_by_question(values: Floats, questions: Sequence[str], *, seed: int = 0) -> Interval:
    """Mean of texts' values (n,); Wilson's interval where they are 0 or 1 and each is of another question.

    Equal values have no spread to resample: their interval is that of as many texts as there are questions.

    Raises:
        ValueError: there is no text.
    """
    interval = mean_interval(values.tolist(), seed=seed)
    if interval is None:
        raise ValueError("nothing was held out")
    count = len(set(questions))
    if count == len(questions):
        return interval
    if np.ptp(values) == 0.0 and (of_questions := mean_interval([float(values[0])] * count)) is not None:
        return msgspec.structs.replace(of_questions, n=interval.n)
    weights = resampled(questions, seed)
    low, high = quantiles(weights @ values / weights.sum(axis=1))
    return Interval(mean=interval.mean, low=low, high=high, n=interval.n)


def auroc_by_question(right: Bools, scores: Floats, questions: Sequence[str], *, seed: int = 0) -> Interval | None:
    """Share of pairs of a right and a wrong text (n,) in which the right one has the greater score, ties half."""
    if len(set(questions)) == len(questions):
        return bootstrap(auroc, right, -scores, seed=seed)
    value = float(auroc(right, -scores))
    if math.isnan(value):
        return None
    over = (scores[right][:, np.newaxis] > scores[~right]) + 0.5 * (scores[right][:, np.newaxis] == scores[~right])
    weights = resampled(questions, seed)
    right_weights, wrong_weights = weights[:, right], weights[:, ~right]
    with np.errstate(invalid="ignore"):  # a resample without a right or without a wrong text has none
        found = ((right_weights @ over) * wrong_weights).sum(axis=1) / (
            right_weights.sum(axis=1) * wrong_weights.sum(axis=1)
        )
    low, high = quantiles(found)
    return Interval(mean=value, low=low, high=high, n=len(right))


def compared(first: Bools, second: Bools, questions: Sequence[str], *, seed: int = 0) -> Paired | None:
    """How much oftener the first (n,) holds than the second; wins, losses and ties are of questions. None of nothing.

    McNemar's exact test where each text is of another question, else a permutation test that flips whole questions.
    """
    names, of_question = np.unique(np.asarray(questions), return_inverse=True)
    sums = [np.bincount(of_question, held.astype(float), len(names)).tolist() for held in (first, second)]
    test = paired_test(*sums, seed=seed)
    if test is None or len(names) == len(questions):
        return test
    interval = mean_by_question(first.astype(float) - second.astype(float), questions, seed=seed)
    return msgspec.structs.replace(test, difference=interval.mean, low=interval.low, high=interval.high)


def stop_probability(logits: Floats) -> Floats:
    """Softmax of the last axis' pair (retrieve, stop), its second part; (..., 2) to (...)."""
    with np.errstate(over="ignore"):
        odds: Floats = 1 / (1 + np.exp(logits[..., 0] - logits[..., 1]))
    return odds


def calibration_bins(probabilities: Floats, right: Bools) -> tuple[Bin, ...]:
    """Ten ranges of equal width, each with its lower end; those without a text are left out."""
    numbers = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    return tuple(
        Bin(
            low=number / BINS,
            high=(number + 1) / BINS,
            texts=int(inside.sum()),
            predicted=float(probabilities[inside].mean()),
            right=float(right[inside].mean()),
        )
        for number in range(BINS)
        if (inside := numbers == number).any()
    )


def expected_calibration_error(bins: Sequence[Bin]) -> float:
    """Mean of |predicted - right| over the texts (Naeini et al. 2015)."""
    total = sum(part.texts for part in bins)
    return math.fsum(part.texts * abs(part.predicted - part.right) for part in bins) / total


def fit_threshold(uncertainties: Sequence[float | None], right: Sequence[bool]) -> float | None:
    """The uncertainty up to which a text is best held right; None: up to none. Of equal ones the smallest wins.

    An undefined uncertainty counts as the largest.
    """
    truth = np.asarray(right, dtype=bool)
    values = as_numbers(uncertainties)
    best, best_hits = None, int((~truth).sum())
    for threshold in sorted({value for value in values.tolist() if math.isfinite(value)}):
        hits = int(((values <= threshold) == truth).sum())
        if hits > best_hits:
            best, best_hits = threshold, hits
    return best


def below(uncertainties: Sequence[float | None], threshold: float | None) -> Bools:
    """Which texts are held right at a threshold."""
    values = as_numbers(uncertainties)
    return values <= threshold if threshold is not None else np.zeros(len(values), dtype=bool)


def as_numbers(uncertainties: Sequence[float | None]) -> Floats:
    """Uncertainties with infinity for what is undefined."""
    return np.asarray([math.inf if value is None else value for value in uncertainties], dtype=np.float64)


def correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Pearson's r; None of fewer than three pairs, or where one side never changes."""
    if len(pairs) < 3 or any(len(set(side)) < 2 for side in zip(*pairs, strict=True)):
        return None
    matrix = np.atleast_2d(np.corrcoef(np.asarray(pairs, dtype=np.float64).T))
    return float(matrix[0, 1])


def density(values: Floats, grid: Floats) -> Floats | None:
    """Gaussian kernel density of values at the grid's points, its width by Silverman's rule; None of equal values."""
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    if not spread:
        return None
    width = spread * (0.75 * len(values)) ** -0.2
    distances = (grid[:, np.newaxis] - values) / width
    heights: Floats = np.exp(-0.5 * distances**2).mean(axis=1) / (width * math.sqrt(2 * math.pi))
    return heights
