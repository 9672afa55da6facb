"""What right answers cost: strategies, and DTR at every threshold, by seconds, LLM calls and tokens a question.

All points of a line are means over the same questions: those that every strategy was asked, and that have the draft and
the answer from documents of which DTR at any threshold is made.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from adaptrag_cli.report.lines import Answers, Line, QuestionKey
from adaptrag_cli.report.thresholds import ThresholdPoint, priced_points, tokens_of

Cost = Literal["seconds", "llm_calls", "tokens"]
Score = Literal["em", "f1"]
COSTS: tuple[Cost, ...] = ("seconds", "llm_calls", "tokens")
SCORES: tuple[Score, ...] = ("em", "f1")


@dataclass(frozen=True, kw_only=True)
class CostPoint:
    """A strategy's means over the line's questions."""

    line: str
    strategy: str
    threshold: float | None = None
    """Of DTR as computed at that threshold; None for a strategy as it ran."""
    questions: int
    seconds: float
    llm_calls: float
    tokens: float
    em: float
    f1: float


def cost_points(lines: Sequence[Line]) -> tuple[CostPoint, ...]:
    """For each line a point of every strategy, then one of every threshold, rising."""
    points: list[CostPoint] = []
    for line in lines:
        shared = frozenset.intersection(*map(frozenset, line.answers.values())) if line.answers else frozenset()
        keys, swept = priced_points(line, shared)
        questions = keys or shared
        if questions:
            points += [_as_run(line.name, label, answers, questions) for label, answers in line.answers.items()]
            points += [point for at in swept if (point := _at_threshold(line.name, at, len(questions))) is not None]
    return tuple(points)


def _as_run(line: str, label: str, answers: Answers, questions: Collection[QuestionKey]) -> CostPoint:
    results = [answers[key] for key in answers if key in questions]
    count = len(results)
    return CostPoint(
        line=line,
        strategy=label,
        questions=count,
        seconds=sum(result.seconds for result in results) / count,
        llm_calls=sum(result.llm_calls for result in results) / count,
        tokens=sum(map(tokens_of, results)) / count,
        em=sum(result.em for result in results) / count,
        f1=sum(result.f1 for result in results) / count,
    )


def _at_threshold(line: str, at: ThresholdPoint, questions: int) -> CostPoint | None:
    if at.seconds is None or at.llm_calls is None or at.tokens is None or at.em is None or at.f1 is None:
        return None
    return CostPoint(
        line=line,
        strategy=f"dtr at {at.threshold:.4g}",
        threshold=at.threshold,
        questions=questions,
        seconds=at.seconds,
        llm_calls=at.llm_calls,
        tokens=at.tokens,
        em=at.em,
        f1=at.f1,
    )


def pareto_front(points: Sequence[CostPoint], cost: Cost, score: Score) -> tuple[CostPoint, ...]:
    """The points that no other beats at no greater cost, cheapest first; of equal points the first one stands."""
    front: list[CostPoint] = []
    for point in sorted(points, key=lambda p: (getattr(p, cost), -getattr(p, score))):
        if not front or getattr(point, score) > getattr(front[-1], score):
            front.append(point)
    return tuple(front)
