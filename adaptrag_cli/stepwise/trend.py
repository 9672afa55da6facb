"""When to look up by the trend of word entropies (ETC, METHODS 4.2 to 4.6).

H_1..H_m are the entropies of the content words of one call, dH_i = H_{i+1} - H_i and d2H_i = H_{i+2} - 2 H_{i+1} + H_i.
d2H_i is known only with word i+2 and belongs to it: the first two content words of a call cannot fire.

Three readings of the smoothing, of which only the code's is of use (each is a test): the paper's Eq. 12 has weights
that do not sum to 1; with weights that do, the result is the mean E_t whenever d_t and d_{t-1} lie on both sides of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from adaptrag_cli.config import Difference, Mode, Smoothing
from adaptrag_cli.stepwise.firing import Watched, exceeds, finite, reaches, sentence_normalised
from adaptrag_cli.stepwise.spans import Word, pooled

FIXED_WEIGHT = 0.9


@dataclass(frozen=True, kw_only=True)
class TrendPoint:
    """A content word's part of the trend, in nats; what it does not have is None."""

    entropy: float
    first_difference: float | None = None
    second_difference: float | None = None
    expectation: float | None = None
    """E_t: mean of the watched differences up to and with this one (Eq. 11)."""
    weight: float | None = None
    """w_t (Eq. 10)."""
    smoothed: float | None = None
    """m_t: what is held against the threshold."""


def measure_trend(
    entropies: Sequence[float],
    *,
    smoothing: Smoothing = "code",
    difference: Difference = "second",
    skip_zeros: bool = False,
) -> tuple[TrendPoint, ...]:
    """Measure the entropies of the content words of one call, one point for each.

    Args:
        entropies: H_1..H_m; NaN makes every later number NaN.
        smoothing: how d_t and d_{t-1} become m_t.
        difference: watch d2H, or dH (the ablation "ETC 1st").
        skip_zeros: as the released code: the second difference looks back past words whose first difference is
            exactly 0, and a watched difference of exactly 0 counts for nothing.
    """
    first = _first_differences(entropies)
    second = _second_differences(first, skip_zeros=skip_zeros)
    watched = second if difference == "second" else first
    points: list[TrendPoint] = []
    total, count, last, last_weight = 0.0, 0, 0.0, 0.0
    for entropy, d1, d2, d in zip(entropies, first, second, watched, strict=True):
        point = TrendPoint(entropy=entropy, first_difference=d1, second_difference=d2)
        if d is not None and not (skip_zeros and d == 0):
            total, count = total + d, count + 1
            expectation = total / count
            weight = _weight(d, last, expectation)
            smoothed = _SMOOTHINGS[smoothing](d, last, weight, last_weight)
            point = replace(point, expectation=expectation, weight=weight, smoothed=smoothed)
            last, last_weight = d, weight
        points.append(point)
    return tuple(points)


def watch_trend(
    words: Sequence[Word],
    token_entropies: Sequence[float],
    threshold: float,
    *,
    smoothing: Smoothing = "code",
    difference: Difference = "second",
    mode: Mode = "paper",
    attention: Sequence[float] = (),
) -> tuple[Watched, ...]:
    """Hold the content words of one call against the threshold, one entry for each.

    `paper`: |m_t| >= threshold. `code`: a_i m_t > threshold, where a_i is the word's attention normalised over its
    sentence. Other than the code, a word without attention fires by m_t alone.

    Args:
        words: all words of the call, by the rule `etc`.
        token_entropies: one for each token; a word has the greatest of its tokens'.
        threshold: alpha, in nats.
        smoothing: see `measure_trend`.
        difference: see `measure_trend`.
        mode: the rule; `code` also skips zeros.
        attention: for `code`, what each of `words` pays (`firing.attention_paid`).
    """
    content = [(number, word) for number, word in enumerate(words) if word.is_content]
    points = measure_trend(
        pooled([word for _, word in content], token_entropies, "max"),
        smoothing=smoothing,
        difference=difference,
        skip_zeros=mode == "code",
    )
    shares = sentence_normalised(attention, words) if mode == "code" else None
    watched: list[Watched] = []
    for (number, word), point in zip(content, points, strict=True):
        share = shares[number] if shares is not None else None
        value = point.smoothed
        if value is not None and share is not None:
            value *= share
        fires = value is not None and (reaches(value, threshold) if mode == "paper" else exceeds(value, threshold))
        watched.append(
            Watched(
                word=number,
                sentence=word.sentence,
                is_content=True,
                entropy=point.entropy,
                first_difference=finite(point.first_difference),
                second_difference=finite(point.second_difference),
                attention=finite(share),
                value=finite(value),
                is_absolute=mode == "paper",
                fires=fires,
            )
        )
    return tuple(watched)


def _first_differences(entropies: Sequence[float]) -> list[float | None]:
    pairs = zip(entropies[1:], entropies, strict=False)
    return ([None] if entropies else []) + [now - before for now, before in pairs]


def _second_differences(first: Sequence[float | None], *, skip_zeros: bool) -> list[float | None]:
    second: list[float | None] = []
    before: float | None = None
    for now in first:
        second.append(now - before if now is not None and before is not None else None)
        if now is not None and not (skip_zeros and now == 0):
            before = now
    return second


def _weight(d: float, last: float, expectation: float) -> float:
    """w_t = |d_{t-1} - E_t| / (|d_t - E_t| + |d_{t-1} - E_t|), with d_0 = 0 (Eq. 10); 1 where both are E_t."""
    near, far = abs(last - expectation), abs(d - expectation)
    if math.isnan(near + far):
        return math.nan
    return near / (far + near) if far + near else 1.0


def _code(d: float, last: float, weight: float, _: float) -> float:
    return (0.9 + 0.1 * weight) * d + (0.1 - 0.1 * weight) * last


def _literal(d: float, last: float, weight: float, last_weight: float) -> float:
    return weight * d + last_weight * last


def _normalised(d: float, last: float, weight: float, _: float) -> float:
    return weight * d + (1 - weight) * last


def _fixed(d: float, last: float, _weight: float, _: float) -> float:
    return FIXED_WEIGHT * d + (1 - FIXED_WEIGHT) * last


def _none(d: float, _last: float, _weight: float, _: float) -> float:
    return d


_SMOOTHINGS: dict[Smoothing, Callable[[float, float, float, float], float]] = {
    "code": _code,
    "literal": _literal,
    "normalised": _normalised,
    "fixed": _fixed,
    "none": _none,
}
