"""What right answers cost: strategies, and DTR at every threshold, by seconds, LLM calls and tokens a question.

Compared over the questions that every strategy of the line was asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from adaptrag_cli.report.lines import Line
from adaptrag_cli.report.thresholds import tokens_of

Cost = Literal["seconds", "llm_calls", "tokens"]
Score = Literal["em", "f1"]
COSTS: tuple[Cost, ...] = ("seconds", "llm_calls", "tokens")
SCORES: tuple[Score, ...] = ("em", "f1")


@dataclass(frozen=True, kw_only=True)
class CostPoint:
    """A strategy's means over the shared questions."""

    line: str
    strategy: str
    questions: int
    seconds: float
    llm_calls: float
    tokens: float
    em: float
    f1: float


def cost_points(lines: Sequence[Line]) -> tuple[CostPoint, ...]:
    """A point for each strategy of each line."""
    points = []
    for line in lines:
        shared = set.intersection(*(set(answers) for answers in line.answers.values())) if line.answers else set()
        for label, answers in line.answers.items():
            results = [result for key, result in answers.items() if key in shared]
            count = len(results)
            if count:
                points.append(
                    CostPoint(
                        line=line.name,
                        strategy=label,
                        questions=count,
                        seconds=sum(result.seconds for result in results) / count,
                        llm_calls=sum(result.llm_calls for result in results) / count,
                        tokens=sum(map(tokens_of, results)) / count,
                        em=sum(result.em for result in results) / count,
                        f1=sum(result.f1 for result in results) / count,
                    )
                )
    return tuple(points)


def pareto_front(points: Sequence[CostPoint], cost: Cost, score: Score) -> tuple[CostPoint, ...]:
    """The points that no other beats at no greater cost, cheapest first; of equal points the first one stands."""
    front: list[CostPoint] = []
    for point in sorted(points, key=lambda p: (getattr(p, cost), -getattr(p, score))):
        if not front or getattr(point, score) > getattr(front[-1], score):
            front.append(point)
    return tuple(front)
