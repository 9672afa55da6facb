"""Intervals and paired tests over questions. Deterministic for a seed.

Intervals are percentile bootstraps over questions (scipy); differences of right/wrong scores are tested by McNemar's
exact test, of graded ones by a paired permutation test. Several comparisons with one reference are corrected by Holm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from adaptrag_cli.events import Record

RESAMPLES = 2000
LEVEL = 0.95


class Interval(Record, frozen=True, kw_only=True):
    """A mean with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float
    n: int


class Paired(Record, frozen=True, kw_only=True):
    """How two strategies differ on the same questions: first minus second."""

    difference: float
    low: float
    high: float
    """95 % bootstrap interval of the difference."""
    p_value: float
    n: int
    wins: int
    losses: int
    ties: int
    comparisons: int = 1
    """How many comparisons `p_value` is corrected for."""

    @property
    def verdict(self) -> str:
        """`better`, `worse` or `inconclusive` at 5 %."""
        if self.p_value >= 1 - LEVEL or self.difference == 0:
            return "inconclusive"
        return "better" if self.difference > 0 else "worse"


def mean_interval(values: Sequence[float], *, seed: int = 0) -> Interval | None:
    """Mean and interval; None of nothing. Equal values have no spread that a bootstrap could see."""
    if not values:
        return None
    low, high = _bootstrap_mean(np.asarray(values, dtype=np.float64), seed)
    return Interval(mean=math.fsum(values) / len(values), low=low, high=high, n=len(values))


def paired_test(first: Sequence[float], second: Sequence[float], *, seed: int = 0) -> Paired | None:
    """Compare question by question; None of nothing.

    McNemar's exact test where all scores are 0 or 1, else a sign-flipping permutation test of the mean difference.
    """
    if not first:
        return None
    differences = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    is_binary = set(first) | set(second) <= {0.0, 1.0}
    low, high = _bootstrap_mean(differences, seed)
    return Paired(
        difference=math.fsum(differences) / len(differences),
        low=low,
        high=high,
        p_value=_mcnemar(wins, losses) if is_binary else _permutation(differences, seed),
        n=len(differences),
        wins=wins,
        losses=losses,
        ties=len(differences) - wins - losses,
    )


def holm(comparisons: Sequence[Paired | None]) -> list[Paired | None]:
    """Correct p-values for their number (Holm's step-down); None stays None."""
    indices = [i for i, c in enumerate(comparisons) if c is not None]
    order = sorted(indices, key=lambda i: _p(comparisons[i]))
    corrected: list[Paired | None] = list(comparisons)
    largest = 0.0
    for step, i in enumerate(order):
        comparison = comparisons[i]
        assert comparison is not None
        largest = max(largest, min(1.0, comparison.p_value * (len(order) - step)))
        corrected[i] = msgspec.structs.replace(comparison, p_value=largest, comparisons=len(order))
    return corrected


def median_and_p95(values: Sequence[float]) -> tuple[float, float]:
    """Median and 95th percentile (linear between neighbours); zeros of nothing."""
    if not values:
        return 0.0, 0.0
    median, p95 = np.percentile(np.asarray(values, dtype=np.float64), [50, 95]).tolist()
    return median, p95


def _p(comparison: Paired | None) -> float:
    return math.inf if comparison is None else comparison.p_value


def _bootstrap_mean(values: np.ndarray[tuple[int], np.dtype[np.float64]], seed: int) -> tuple[float, float]:
    if len(values) == 1 or np.ptp(values) == 0.0:
        return float(values[0]), float(values[0])
    from scipy.stats import bootstrap

    found = bootstrap(
        (values,),
        np.mean,
        n_resamples=RESAMPLES,
        confidence_level=LEVEL,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(found.low), float(found.high)


def _mcnemar(wins: int, losses: int) -> float:
    if wins + losses == 0:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(wins, wins + losses, 0.5).pvalue)


def _permutation(differences: np.ndarray[tuple[int], np.dtype[np.float64]], seed: int) -> float:
    if not differences.any():
        return 1.0
    from scipy.stats import permutation_test

    found = permutation_test(
        (differences, np.zeros_like(differences)),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        permutation_type="samples",
        n_resamples=10_000,
        vectorized=True,
        rng=np.random.default_rng(seed),
    )
    return float(found.pvalue)
