"""How much the question should weigh against the pseudo-context, by the angle between them (PAIRS Fig. 10).

Weights and line are those of a calibration (`evaluation/alpha.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adaptrag_cli.evaluation.alpha import best_weight, fit_line
from adaptrag_cli.report.lines import Line
from adaptrag_cli.selection import angles


@dataclass(frozen=True, kw_only=True)
class WeightPoint:
    """A gold chunk. Angles are in radians."""

    line: str
    set: str
    question_id: str
    chunk_id: str
    theta0: float
    """Between question and pseudo-context."""
    alpha: float
    """The weight of the question under which both angles count the same."""


@dataclass(frozen=True, kw_only=True)
class WeightLine:
    """alpha* = slope * theta0 + intercept."""

    line: str
    chunks: int
    slope: float
    """Per radian."""
    intercept: float
    explained: float
    """R squared."""


def weight_points(lines: Sequence[Line]) -> tuple[WeightPoint, ...]:
    """alpha* of every gold chunk that a search on two paths found; one that lies on both has none."""
    points = []
    for line in lines:
        label = line.on_two_paths()
        for result in line.answers[label].values() if label else ():
            if result.query_pseudo_similarity is None:
                continue
            for chunk in result.candidates:
                if not chunk.gold or chunk.pseudo_context_score is None:
                    continue
                weight = best_weight(chunk.query_score, chunk.pseudo_context_score)
                if weight is not None:
                    points.append(
                        WeightPoint(
                            line=line.name,
                            set=result.set,
                            question_id=result.question_id,
                            chunk_id=chunk.chunk_id,
                            theta0=float(angles(result.query_pseudo_similarity)),
                            alpha=weight,
                        )
                    )
    return tuple(points)


def weight_lines(points: Sequence[WeightPoint]) -> tuple[WeightLine, ...]:
    """The least-squares line of each line's points; none where theta0 is the same everywhere."""
    fitted = []
    for name in dict.fromkeys(point.line for point in points):
        own = [point for point in points if point.line == name]
        x = np.array([point.theta0 for point in own])
        y = np.array([point.alpha for point in own])
        if float(((x - x.mean()) ** 2).sum()) < 1e-12:
            continue
        slope, intercept = fit_line(x, y)
        around_mean = float(((y - y.mean()) ** 2).sum())
        around_line = float(((y - slope * x - intercept) ** 2).sum())
        explained = 1.0 - around_line / around_mean if around_mean > 0.0 else 0.0
        fitted.append(WeightLine(line=name, chunks=len(own), slope=slope, intercept=intercept, explained=explained))
    return tuple(fitted)
