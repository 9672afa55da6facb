"""Where query, pseudo-context and chunks lie in the plane of the first two. Pure numbers.

All vectors are unit vectors, q at angle 0. With theta0 between query q and pseudo-context p, e1 = q and
e2 = (p - q cos theta0) / sin theta0 are perpendicular unit vectors of their plane, so a chunk c with s1 = q.c and
s2 = p.c has the projection

    x = e1.c = s1        y = e2.c = (s2 - s1 cos theta0) / sin theta0

whose length is at most 1: 1 for a chunk in the plane itself, and less the more of the chunk points elsewhere.
"""

from __future__ import annotations

import math

Point = tuple[float, float]

LEAST_SINE = 0.05
"""Of theta0. Below (3 degrees from the same or the opposite direction) q and p span no plane that can be drawn."""


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


def _clipped(score: float) -> float:
    return min(max(score, -1.0), 1.0)
