"""A figure before it is drawn: series in panels, a table of all its numbers, and a short one for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from adaptrag_cli.evaluation.statistics import Interval
from adaptrag_cli.events import Scalar

Mark = Literal["line", "dots", "linked", "bars", "cells"]
"""A line; separate points; points with a line between them; bars side by side; cells, the darker the more."""
Dash = Literal["solid", "dash", "dot"]
Scale = Literal["linear", "log", "category", "percent", "gain"]


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis of every panel. Shares are drawn in percent."""

    title: str
    scale: Scale = "linear"
    limits: tuple[float, float] | None = None
    rows: tuple[str, ...] = ()
    """Names of its whole numbers, from 0."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """What gets one entry in the legend; the same name in several panels gets one."""

    panel: str
    name: str
    x: tuple[float | str, ...]
    """Degrees in a polar figure."""
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    """Ends of 95 % intervals, where there are any."""
    high: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
    """What cells show, from 0."""
    mark: Mark = "line"
    colour: int = 0
    """Number of a colour, the same for what belongs together."""
    dash: Dash = "solid"
    is_hollow: bool = False
    words: tuple[str, ...] = ()
    """What is told of each point when it is pointed at."""
    labels: tuple[str, ...] = ()
    """What stands beside each point."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Named columns. Numbers are raw."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Scalar, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure with its data, or the reason why there is none."""

    name: str
    """For file and element names."""
    title: str
    source: str
    """The papers' figures that this is."""
    reading: str = ""
    """What to read out of it, in a sentence."""
    notes: tuple[str, ...] = ()
    """Which strategies it was taken from, and of how many questions."""
    drawing: tuple[str, ...] = ()
    """Notes on what is only seen where it is drawn."""
    x: Axis = Axis(title="")
    y: Axis = Axis(title="")
    panels: tuple[str, ...] = ()
    series: tuple[Series, ...] = ()
    is_polar: bool = False
    is_isometric: bool = False
    """Whether a unit is as long on one axis as on the other."""
    panel_titles: tuple[str, ...] = ()
    """Titles of the panels' x axes, where each measures something else."""
    data: Table = Table(columns=(), rows=())
    brief: Table = Table(columns=(), rows=())
    missing: str = ""


def absent(name: str, title: str, source: str, missing: str) -> Figure:
    """A figure that cannot be drawn, and what it needs."""
    return Figure(name=name, title=title, source=source, missing=missing)


def missing_by_reason(figures: Sequence[Figure]) -> dict[str, list[str]]:
    """Titles and sources of the figures that cannot be drawn, by what they need."""
    found: dict[str, list[str]] = {}
    for figure in figures:
        if figure.missing:
            found.setdefault(figure.missing, []).append(f"{figure.title} ({figure.source})")
    return found


def percent(share: float | None) -> str:
    """A share as `45.0`, or nothing."""
    return "" if share is None else f"{100 * share:.1f}"


def interval(value: Interval | None) -> str:
    """Shares as `45.0 [33.3, 56.7]`, or nothing."""
    return "" if value is None else f"{percent(value.mean)} [{percent(value.low)}, {percent(value.high)}]"


def ordinals(names: Sequence[str]) -> dict[str, int]:
    """A number for each name, in order."""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}
