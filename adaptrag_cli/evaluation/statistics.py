"""Intervals and paired tests over questions. Deterministic for a seed.

A mean of scores that are all 0 or 1 is a share, and has Wilson's score interval (E. B. Wilson 1927): it covers what it
says for few questions, too, and does not shrink to nothing where all are right or all are wrong. Every other interval
is a percentile bootstrap over questions: 2,000 resamples, less those in which a statistic is undefined. scipy's
function gives the same figures where all are defined, but has no place for undefined ones. Differences of right/wrong
scores are tested by McNemar's exact test, of graded ones by a paired permutation test. Several comparisons with one
reference are corrected by Holm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from adaptrag_cli.events import Record

RESAMPLES = 2000
PERMUTATIONS = 10_000
"""Fewer where all sign flips are fewer (up to 13 differences): the test is exact then."""
LEVEL = 0.95
SIGNIFICANCE = 0.05
_CELLS = 1 << 22
"""Values drawn at once, which bounds memory for large sets."""

Floats = npt.NDArray[np.float64]
Statistic = Callable[..., Floats]
"""From columns (..., n) to values (...); NaN where it is undefined."""


class Interval(Record, frozen=True, kw_only=True):
    """A mean, or the statistic that its holder names, with its 95 % interval."""

    mean: float
    low: float
    high: float
    n: int


class Paired(Record, frozen=True, kw_only=True):
    """How two strategies differ on the same questions: first minus second."""

    difference: float
    low: float
    high: float
    """95 % bootstrap interval of the difference, not corrected for the number of comparisons."""
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
        if self.p_value >= SIGNIFICANCE or self.difference == 0:
            return "inconclusive"
        return "better" if self.difference > 0 else "worse"


def mean_interval(values: Sequence[float], *, seed: int = 0) -> Interval | None:
    """Mean of scores and interval, Wilson's where all are 0 or 1 and a bootstrap else; None of nothing.

    One graded value, or equal ones, have no spread that a bootstrap could see: their interval is the value itself,
    which for few questions promises too much.
    """
    if values and set(values) <= {0.0, 1.0}:
        return _wilson(round(math.fsum(values)), len(values))
    return mean_difference(values, seed=seed)


def mean_difference(values: Sequence[float], *, seed: int = 0) -> Interval | None:
    """Mean of paired differences and bootstrap interval, whatever their values; None of nothing.

    A difference is no share even where all are 0 or 1, so that Wilson's interval is not for it.
    """
    if not values:
        return None
    mean, low, high = _mean_interval(np.asarray(values, dtype=np.float64), seed)
    return Interval(mean=mean, low=low, high=high, n=len(values))


def bootstrap(statistic: Statistic, *columns: npt.NDArray[Any], seed: int = 0) -> Interval | None:
    """A statistic of whole columns (n,), resampled by question; None where it is undefined for the questions given."""
    value = float(statistic(*columns))
    if math.isnan(value):
        return None
    low, high = _percentiles(statistic, columns, seed)
    return Interval(mean=value, low=low, high=high, n=len(columns[0]))


def resampled(groups: Sequence[str], seed: int) -> Floats:
    """How often each value (n,) counts in each resample of whole groups: (RESAMPLES, n).

    Values that belong together are drawn together (the cluster bootstrap), so a resample need not have n of them.
    """
    names, of_group = np.unique(np.asarray(groups), return_inverse=True)
    drawn = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), RESAMPLES)
    return drawn[:, of_group].astype(np.float64)


def quantiles(found: Floats) -> tuple[float, float]:
    """Ends of the 95 % interval of a statistic's resamples; NaN is left out."""
    low, high = np.nanquantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return low, high


def paired_test(first: Sequence[float], second: Sequence[float], *, seed: int = 0) -> Paired | None:
    """Compare question by question; None of nothing.

    McNemar's exact test where all scores are 0 or 1, else a sign-flipping permutation test of the mean difference.

    Raises:
        ValueError: the scores are not of the same questions, so that their numbers differ.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} scores cannot be paired with {len(second)}")
    if not first:
        return None
    differences = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    is_binary = set(first) | set(second) <= {0.0, 1.0}
    mean, low, high = _mean_interval(differences, seed)
    return Paired(
        difference=mean,
        low=low,
        high=high,
        p_value=_mcnemar(wins, losses) if is_binary else _permutation(differences, seed),
        n=len(differences),
        wins=wins,
        losses=losses,
        ties=len(differences) - wins - losses,
    )


def holm(comparisons: Sequence[Paired | None]) -> list[Paired | None]:
    """Correct p-values for their number (Holm's step-down); None stays None and does not count."""
    found = sorted(((i, c) for i, c in enumerate(comparisons) if c is not None), key=lambda pair: pair[1].p_value)
    corrected: list[Paired | None] = list(comparisons)
    largest = 0.0
    for step, (i, comparison) in enumerate(found):
        largest = max(largest, min(1.0, comparison.p_value * (len(found) - step)))
        corrected[i] = msgspec.structs.replace(comparison, p_value=largest, comparisons=len(found))
    return corrected


def median_and_p95(values: Sequence[float]) -> tuple[float, float]:
    """Median and 95th percentile (linear between neighbours); zeros of nothing."""
    if not values:
        return 0.0, 0.0
    median, p95 = np.percentile(np.asarray(values, dtype=np.float64), [50, 95]).tolist()
    return median, p95


def _wilson(right: int, n: int) -> Interval:
    """Solve |p - right / n| = z sqrt(p (1 - p) / n) for p; the interval never leaves 0 to 1."""
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    centre = (right + z * z / 2) / (n + z * z)
    half = z * math.sqrt(right * (n - right) / n + z * z / 4) / (n + z * z)
    return Interval(
        mean=right / n,
        low=0.0 if right == 0 else centre - half,  # exactly, whatever rounding says
        high=1.0 if right == n else centre + half,
        n=n,
    )


def _mean_interval(values: Floats, seed: int) -> tuple[float, float, float]:
    if np.ptp(values) == 0.0:
        constant = float(values[0])
        return constant, constant, constant
    return math.fsum(values) / len(values), *_percentiles(_mean, (values,), seed)


def _mean(values: Floats) -> Floats:
    return np.asarray(values.mean(axis=-1))


def _percentiles(statistic: Statistic, columns: Sequence[npt.NDArray[Any]], seed: int) -> tuple[float, float]:
    n = len(columns[0])
    rng = np.random.default_rng(seed)
    rows = max(1, _CELLS // n)
    parts = []
    for start in range(0, RESAMPLES, rows):
        picks = rng.integers(0, n, (min(rows, RESAMPLES - start), n))
        parts.append(statistic(*(column[picks] for column in columns)))
    return quantiles(np.concatenate(parts))


def _mcnemar(wins: int, losses: int) -> float:
    if wins + losses == 0:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(wins, wins + losses, 0.5).pvalue)


def _permutation(differences: Floats, seed: int) -> float:
    moved = differences[differences != 0.0]  # a tie stays a tie under either sign
    if len(moved) < 2:
        return 1.0  # of two sign patterns both are as extreme; scipy refuses a single value
    from scipy.stats import permutation_test

    found = permutation_test(
        (moved,),  # of a single sample the signs are flipped
        np.sum,
        permutation_type="samples",
        n_resamples=PERMUTATIONS,
        vectorized=True,
        batch=max(1, _CELLS // len(moved)),
        rng=np.random.default_rng(seed),
    )
    return float(found.pvalue)
