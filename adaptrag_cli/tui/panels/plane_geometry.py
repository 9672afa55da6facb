"""Where query, pseudo-context and chunks lie in a plane, and how the plane fits into character cells. Pure numbers.

All vectors are unit vectors, q at angle 0. With theta0 between query q and pseudo-context p, e1 = q and
e2 = (p - q cos theta0) / sin theta0 are perpendicular unit vectors of their plane, so a chunk c with s1 = q.c and
s2 = p.c has the projection

    x = e1.c = s1        y = e2.c = (s2 - s1 cos theta0) / sin theta0

whose length is at most 1: 1 for a chunk in the plane itself, and less the more of the chunk points elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Point = tuple[float, float]

LEAST_SINE = 0.05
"""Of theta0. Below (3 degrees from the same or the opposite direction) q and p span no plane that can be drawn."""
_LEAST_GAIN = 1.25
"""How much larger the picture must get for the origin to be left out of it."""
_INWARDS = 0.85
"""Where the picture ends without the origin, as a share of the way to the points."""
_CELL_RATIO = 2.0
"""Height of a cell over its width."""


def spans_plane(query_pseudo_angle: float) -> bool:
    """Whether q and p point in directions that are different enough; the angle is in radians."""
    return math.sin(query_pseudo_angle) >= LEAST_SINE


def project(query_score: float, pseudo_context_score: float, query_pseudo_angle: float) -> Point:
    """Project a chunk onto the plane of q and p. Rounding may put it outside the unit circle: it is pulled back."""
    x = _clipped(query_score)
    y = (_clipped(pseudo_context_score) - x * math.cos(query_pseudo_angle)) / math.sin(query_pseudo_angle)
    length = math.hypot(x, y)
    return (x, y) if length <= 1.0 else (x / length, y / length)


def on_arc(query_score: float) -> Point:
    """The point of the unit circle at the angle to q: all that is known of a chunk when there is no p."""
    x = _clipped(query_score)
    return x, math.sqrt(1.0 - x * x)


def direction(angle: float) -> Point:
    """The point of the unit circle at an angle in radians."""
    return math.cos(angle), math.sin(angle)


def arc(end: float, steps: int) -> list[Point]:
    """Points of the unit circle from q to the angle `end` in radians, both included."""
    return [direction(end * step / steps) for step in range(steps + 1)]


@dataclass(frozen=True, kw_only=True)
class View:
    """Maps the plane to cells, counted from the upper left corner; a cell is twice as high as wide."""

    scale: float
    """Cells in height of one unit."""
    left: float
    """In cells, where x = 0 lies."""
    top: float
    """In cells, where y = 0 lies."""

    def cell(self, point: Point) -> Point:
        """Column and row of a point, with fractions."""
        return self.left + point[0] * self.scale * _CELL_RATIO, self.top - point[1] * self.scale


def fit(points: Sequence[Point], *, width: int, height: int, margin: tuple[int, int]) -> View:
    """Show all points as large as `width` x `height` cells allow, in the middle, without distortion.

    `margin` are the columns and rows that stay free at each side.
    """
    xs, ys = [x for x, _ in points], [y for _, y in points]
    across, high = max(xs) - min(xs), max(ys) - min(ys)
    columns, rows = max(width - 1 - 2 * margin[0], 1), max(height - 1 - 2 * margin[1], 1)
    scale = min(columns / _CELL_RATIO / (across or 1.0), rows / (high or 1.0))
    return View(
        scale=scale,
        left=(width - across * scale * _CELL_RATIO) / 2 - min(xs) * scale * _CELL_RATIO,
        top=(height + high * scale) / 2 + min(ys) * scale,
    )


def fit_sector(
    points: Sequence[Point], rim: Sequence[Point], *, width: int, height: int, margin: tuple[int, int]
) -> View:
    """Show points and rim with the origin, or without it where they are far from it and get larger that way."""
    whole = fit([(0.0, 0.0), *rim, *points], width=width, height=height, margin=margin)
    inner = [(x * _INWARDS, y * _INWARDS) for x, y in points]
    part = fit([*rim, *points, *inner], width=width, height=height, margin=margin)
    return part if part.scale >= _LEAST_GAIN * whole.scale else whole


def _clipped(score: float) -> float:
    return min(max(score, -1.0), 1.0)
