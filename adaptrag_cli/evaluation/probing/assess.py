"""What the held-out texts say of a prober: against simpler signals, at every theta, with fewer layers, on answers.

All of it follows from what its file keeps; nothing is generated. Answers are those of one look-up at most: where the
prober says retrieve, the text that was written with passages is the answer, and it is not probed again. They are of the
questions both of whose texts have states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from adaptrag_cli.evaluation.probing.measures import (
    Bools,
    Floats,
    Quality,
    as_numbers,
    below,
    compared,
    correlation,
    mean_by_question,
    quality,
    stop_probability,
)
from adaptrag_cli.evaluation.probing.outcome import CurvePoint, HeldOut, Outcome
from adaptrag_cli.evaluation.statistics import Interval, Paired, holm, mean_interval
from adaptrag_cli.events import Record
from adaptrag_cli.probing.decision import stops

THETAS = (-8.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0)
"""The paper's (Tab. 8) are -2 to 2; with many layers the sums are larger."""
TOGETHER = "all layers"
MAJORITY = "majority"
PASSAGES = "has passages"
UNCERTAINTY = "uncertainty u"


class ThetaPoint(Record, frozen=True, kw_only=True):
    """The decisions at one theta."""

    theta: float
    accuracy: Interval
    looked_up: float
    """Share of the held-out questions that are looked up."""
    answers: Interval | None
    """ACC of the answers that follow; None where no text with passages was written."""


class LayersPoint(Record, frozen=True, kw_only=True):
    """The decisions of the first so many layers."""

    layers: tuple[int, ...]
    accuracy: Interval
    answers: Interval | None


class SizePoint(Record, frozen=True, kw_only=True):
    """The decisions of networks that were trained on so many rows."""

    rows: int
    quality: Quality
    answers: Interval | None


class Assessment(Record, frozen=True, kw_only=True):
    """All figures of what was held out."""

    layers: tuple[Quality, ...]
    """Of each layer alone, by number."""
    together: Quality
    baselines: tuple[Quality, ...]
    comparisons: dict[str, Paired]
    """All layers less each baseline, by question; p corrected for their number (Holm)."""
    thetas: tuple[ThetaPoint, ...]
    by_layers: tuple[LayersPoint, ...]
    curve: tuple[SizePoint, ...]
    """Ever more rows; the last point is that of all."""
    answers: dict[str, Interval]
    """ACC of the held-out questions: never and always looked up, by uncertainty, by the prober, and the better text."""
    correlation: float | None
    """Of the decisions' accuracy with the answers', over thetas and numbers of layers."""
    correlation_points: int


def assess(outcome: Outcome, *, seed: int = 0) -> Assessment:
    """Measure what was held out."""
    held = _Columns(outcome)
    together = held.probed(TOGETHER, held.balanced_logits.sum(axis=1), seed)
    baselines = held.baselines(seed)
    thetas = tuple(held.at_theta(theta, seed) for theta in THETAS)
    numbers = [layer.layer for layer in outcome.layers]
    by_layers = tuple(held.of_first(numbers[:count], seed) for count in range(1, len(numbers) + 1))
    swept = [(point.accuracy, point.answers) for point in thetas] + [(p.accuracy, p.answers) for p in by_layers]
    points = [(accuracy.mean, answers.mean) for accuracy, answers in swept if answers is not None]
    return Assessment(
        layers=tuple(held.probed(str(number), held.balanced_logits[:, at], seed) for at, number in enumerate(numbers)),
        together=together,
        baselines=baselines,
        comparisons=held.comparisons(seed),
        thetas=thetas,
        by_layers=by_layers,
        curve=tuple(held.trained_on(point, seed) for point in outcome.curve),
        answers=held.answers(seed),
        correlation=correlation(points),
        correlation_points=len(points),
    )


def held_out_accuracy(outcome: Outcome) -> float:
    """Accuracy of all layers together, without its interval, which takes a hundred times as long."""
    held = _Columns(outcome)
    return float((stops(held.balanced_logits.sum(axis=1)) == held.right).mean())


@dataclass(frozen=True)
class _Columns:
    """The held-out texts as columns; those that are balanced, and the questions with their two texts."""

    outcome: Outcome

    @cached_property
    def balanced(self) -> tuple[HeldOut, ...]:
        return tuple(text for text in self.outcome.texts if text.balanced)

    @cached_property
    def questions(self) -> tuple[str, ...]:
        """What each balanced text is of."""
        return tuple(text.question for text in self.balanced)

    @cached_property
    def right(self) -> Bools:
        return np.asarray([text.right for text in self.balanced], dtype=bool)

    @cached_property
    def balanced_logits(self) -> Floats:
        """(texts, layers, 2)."""
        return _logits(self.balanced)

    @cached_property
    def pairs(self) -> tuple[tuple[HeldOut, HeldOut], ...]:
        """The two texts of each question that has both."""
        alone = {(text.set, text.question): text for text in self.outcome.texts if not text.retrieved}
        read = (text for text in self.outcome.texts if text.retrieved)
        return tuple((alone[key], text) for text in read if (key := (text.set, text.question)) in alone)

    @cached_property
    def first_logits(self) -> Floats:
        """(pairs, layers, 2), of the texts without passages; of all such texts where no others were written."""
        return _logits([first for first, _ in self.pairs] or self.outcome.texts)

    @cached_property
    def signals(self) -> dict[str, Bools]:
        """What each baseline decides of the balanced texts; true: stop."""
        without, with_passages = self.outcome.passages_stop
        signals: dict[str, Bools] = {MAJORITY: np.ones(len(self.balanced), dtype=bool)}
        if any(text.retrieved for text in self.balanced):
            signals[PASSAGES] = np.asarray([with_passages if t.retrieved else without for t in self.balanced])
        signals[UNCERTAINTY] = below([text.uncertainty for text in self.balanced], self.outcome.threshold)
        return signals

    def baselines(self, seed: int) -> tuple[Quality, ...]:
        scores = {UNCERTAINTY: -as_numbers([text.uncertainty for text in self.balanced])}
        if PASSAGES in self.signals:
            scores[PASSAGES] = self.signals[PASSAGES].astype(float)
        return tuple(
            quality(name, stopped, self.right, self.questions, scores=scores.get(name), seed=seed)
            for name, stopped in self.signals.items()
        )

    def probed(self, name: str, logits: Floats, seed: int) -> Quality:
        """How well summed logits (balanced texts, 2) do."""
        return quality(
            name,
            stops(logits),
            self.right,
            self.questions,
            scores=logits[:, 1] - logits[:, 0],
            probabilities=stop_probability(logits),
            seed=seed,
        )

    def comparisons(self, seed: int) -> dict[str, Paired]:
        probed = stops(self.balanced_logits.sum(axis=1)) == self.right
        tests = [
            compared(probed, stopped == self.right, self.questions, seed=seed) for stopped in self.signals.values()
        ]
        return {name: test for name, test in zip(self.signals, holm(tests), strict=True) if test is not None}

    def at_theta(self, theta: float, seed: int) -> ThetaPoint:
        first = stops(self.first_logits.sum(axis=1), theta=theta)
        return ThetaPoint(
            theta=theta,
            accuracy=self._accuracy(stops(self.balanced_logits.sum(axis=1), theta=theta), seed),
            looked_up=float(1 - first.mean()),
            answers=self._answers(lambda at: bool(first[at]), seed),
        )

    def of_first(self, layers: Sequence[int], seed: int) -> LayersPoint:
        first = stops(self.first_logits[:, : len(layers)].sum(axis=1))
        decided = stops(self.balanced_logits[:, : len(layers)].sum(axis=1))
        return LayersPoint(
            layers=tuple(layers),
            accuracy=self._accuracy(decided, seed),
            answers=self._answers(lambda at: bool(first[at]), seed),
        )

    def trained_on(self, point: CurvePoint, seed: int) -> SizePoint:
        logits = np.asarray(point.logits, dtype=np.float64)
        balanced = [text.balanced for text in self.outcome.texts]
        of_text = {id(text): at for at, text in enumerate(self.outcome.texts)}
        first = stops(logits[[of_text[id(text)] for text, _ in self.pairs]])
        return SizePoint(
            rows=point.rows,
            quality=self.probed(TOGETHER, logits[balanced], seed),
            answers=self._answers(lambda at: bool(first[at]), seed),
        )

    def answers(self, seed: int) -> dict[str, Interval]:
        certain = below([first.uncertainty for first, _ in self.pairs], self.outcome.threshold)
        probed = stops(self.first_logits.sum(axis=1))
        policies: dict[str, Callable[[int], bool]] = {
            "never look up": lambda _: True,
            "always look up": lambda _: False,
            UNCERTAINTY: lambda at: bool(certain[at]),
            "the prober": lambda at: bool(probed[at]),
            "the better text": lambda at: self.pairs[at][0].right,
        }
        found = {name: self._answers(stands, seed) for name, stands in policies.items()}
        return {name: interval for name, interval in found.items() if interval is not None}

    def _accuracy(self, stopped: Bools, seed: int) -> Interval:
        return mean_by_question((stopped == self.right).astype(float), self.questions, seed=seed)

    def _answers(self, stands: Callable[[int], bool], seed: int) -> Interval | None:
        """ACC when the text without passages stands where that is decided, and the one with passages elsewhere."""
        return mean_interval(
            [float(pair[0 if stands(at) else 1].right) for at, pair in enumerate(self.pairs)], seed=seed
        )


def _logits(texts: Sequence[HeldOut]) -> Floats:
    return np.asarray([text.logits for text in texts], dtype=np.float64)
