"""How a picture of points fits into character cells. Pure numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adaptrag_cli.plane import Point

_LEAST_GAIN = 1.25
"""How much larger the picture must get for the origin to be left out of it."""
_INWARDS = 0.85
"""Where the picture ends without the origin, as a share of the way to the points."""
_CELL_RATIO = 2.0
"""Height of a cell over its width."""


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
