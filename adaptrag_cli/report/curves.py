"""Curves with intervals: one for each method in each panel, a point for whatever the method was varied by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from adaptrag_cli.evaluation.statistics import Interval
from adaptrag_cli.report.figure import Dash, Series, ordinals


class _Point(Protocol):
    @property
    def method(self) -> str: ...

    @property
    def panel(self) -> str: ...


P = TypeVar("P", bound=_Point)


def curves(
    points: Sequence[P],
    what: str,
    *,
    at: Callable[[P], float | str],
    value: Callable[[P], Interval | None],
    words: Callable[[P], str],
    dash: Dash = "solid",
) -> tuple[Series, ...]:
    """A linked series of each method and panel; `what` names the value where a figure shows several."""
    colours = ordinals([point.method for point in points])
    made = []
    for panel, method in dict.fromkeys((point.panel, point.method) for point in points):
        own = [point for point in points if (point.panel, point.method) == (panel, method)]
        known = [(point, found) for point in own if (found := value(point)) is not None]
        made.append(
            Series(
                panel=panel,
                name=f"{method}: {what}" if what else method,
                x=tuple(at(point) for point, _ in known),
                y=tuple(found.mean for _, found in known),
                low=tuple(found.low for _, found in known),
                high=tuple(found.high for _, found in known),
                mark="linked",
                colour=colours[method],
                dash=dash,
                words=tuple(words(point) for point, _ in known),
            )
        )
    return tuple(made)
