"""What an exported page is made of: elements, tables, and the two pictures (gauge and plane) as inline SVG.

A page is a tree of elements that the standard library writes, so tags always close and text can never become a tag or
an attribute, whatever a document holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element

from adaptrag_cli.events import Candidate, ChunksSelected
from adaptrag_cli.plane import direction, project, spans_plane
from adaptrag_cli.render import numbers_apart
from adaptrag_cli.tables import degrees
from adaptrag_cli.terminal import printable

Child = Element | str
_GAUGE_WIDTH = 640.0
_UNIT = 440.0
"""Length of a unit vector in the plane picture, in SVG units."""


def element(tag: str, *children: Child, **attributes: str | float) -> Element:
    """Make an element; of an attribute's name, a trailing `_` is dropped and any other stands for `-`."""
    made = Element(tag, {name.strip("_").replace("_", "-"): _text(value) for name, value in attributes.items()})
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + _text(child)
        else:
            made.text = (made.text or "") + _text(child)
    return made


def _text(value: str | float) -> str:
    return printable(value, keep_newlines=True) if isinstance(value, str) else f"{value:g}"


def note(text: str) -> Element:
    """A quiet line that explains."""
    return element("p", text, class_="note")


def table(columns: Sequence[str], rows: Iterable[Sequence[Child]], *, right: Sequence[int] = ()) -> Element:
    """Make a table that scrolls sideways where it is too wide; the columns in `right` hold numbers."""

    def row(tag: str, cells: Sequence[Child]) -> Element:
        made = (element(tag, cell, class_="number" if at in right else "words") for at, cell in enumerate(cells))
        return element("tr", *made)

    body = element("tbody", *(row("td", cells) for cells in rows))
    head = [element("thead", row("th", columns))] if any(columns) else []
    return element("div", element("table", *head, body), class_="wide")


def gauge(uncertainty: float, threshold: float | None) -> Element:
    """Draw u as a bar from 0, and the threshold as a mark on it."""
    end = max(2 * (threshold or 0.0), 1.1 * uncertainty, 1.0)
    u_text, threshold_text = (f"{uncertainty:.2f}", "") if threshold is None else numbers_apart(uncertainty, threshold)
    length = _GAUGE_WIDTH * uncertainty / end
    parts = [
        element("rect", class_="track", x=0.0, y=24.0, width=_GAUGE_WIDTH, height=16.0, rx=3.0),
        element("rect", class_="bar", x=0.0, y=24.0, width=length, height=16.0, rx=3.0),
        _gauge_text(f"u = {u_text}", length, 16.0),
    ]
    if threshold is not None:
        at = _GAUGE_WIDTH * threshold / end
        parts.append(element("line", class_="mark", x1=at, x2=at, y1=20.0, y2=44.0))
        parts.append(_gauge_text(f"threshold {threshold_text}", at, 58.0))
    if threshold is None or threshold / end < 0.7:
        parts.append(element("text", f"{end:.2f} nats", x=_GAUGE_WIDTH, y=58.0, text_anchor="end", class_="quiet"))
    label = f"u {u_text}" + (f" against the threshold {threshold_text}" if threshold_text else "")
    return element("svg", *parts, class_="gauge", viewBox=f"0 0 {_GAUGE_WIDTH:g} 64", role="img", aria_label=label)


def _gauge_text(text: str, x: float, y: float) -> Element:
    anchor = "start" if x < 60 else "end" if x > _GAUGE_WIDTH - 60 else "middle"
    return element("text", text, x=x, y=y, text_anchor=anchor)


def plane(selection: ChunksSelected) -> Element | None:
    """Draw query, pseudo-context and candidates in the plane of the first two; None where they span none.

    See `adaptrag_cli.plane` for where they stand.
    """
    if selection.query_pseudo_similarity is None:
        return None
    angle = math.acos(min(max(selection.query_pseudo_similarity, -1.0), 1.0))
    if not spans_plane(angle):
        return None
    cosine, sine = direction(angle)
    points = [
        (chunk, project(chunk.query_score, chunk.pseudo_context_score, angle))
        for chunk in selection.candidates
        if chunk.pseudo_context_score is not None
    ]
    ends = [(0.0, 0.0), (1.0, 0.0), (cosine, sine), *(place for _, place in points)]
    left, right = (pick(x for x, _ in ends) for pick in (min, max))
    bottom, top = (pick(y for _, y in ends) for pick in (min, max))
    labels = _Labels()
    parts = [
        element("path", class_="arc", d=_arc(1.0, cosine, sine)),
        element("path", class_="arc", d=_arc(0.15, cosine, sine)),
        _ray((1.0, 0.0)),
        _ray((cosine, sine)),
        labels.add("question", (1.0, 0.0)),
        labels.add("pseudo-context", (cosine, sine)),
        element("text", f"theta0 {degrees(angle)}°", x=-8.0, y=4.0, text_anchor="end", class_="quiet"),
    ]
    for _, place in points:
        labels.occupy(place)
    for chunk, place in points:
        parts += [_dot(chunk, place), labels.add(str(chunk.rank), place)]
    margin = 24.0
    box = (
        _UNIT * left - 5 * margin,
        -_UNIT * top - margin,
        _UNIT * (right - left) + 9 * margin,
        _UNIT * (top - bottom) + 2 * margin,
    )
    view = " ".join(f"{number:.1f}" for number in box)
    label = f"{len(points)} candidates in the plane of question and pseudo-context"
    return element("svg", *parts, class_="plane", viewBox=view, role="img", aria_label=label)


def _place(at: tuple[float, float]) -> tuple[float, float]:
    """Where a point of the plane stands in the picture, whose y grows downwards."""
    return round(_UNIT * at[0], 1), round(0.0 - _UNIT * at[1], 1)  # never -0


def _ray(end: tuple[float, float]) -> Element:
    x, y = _place(end)
    return element("line", class_="direction", x1=0.0, y1=0.0, x2=x, y2=y)


def _arc(radius: float, cosine: float, sine: float) -> str:
    length = _UNIT * radius
    return f"M {length:.1f} 0 A {length:.1f} {length:.1f} 0 0 0 {length * cosine:.1f} {-length * sine:.1f}"


def _dot(chunk: Candidate, at: tuple[float, float]) -> Element:
    x, y = _place(at)
    title = element("title", f"{chunk.rank}: {chunk.location}")
    return element("circle", title, class_="kept" if chunk.kept else "left", cx=x, cy=y, r=5.0)


class _Labels:
    """Words beside points, at the first of four places that is free."""

    def __init__(self) -> None:
        self._boxes: list[tuple[float, float, float, float]] = []

    def occupy(self, at: tuple[float, float]) -> None:
        x, y = _place(at)
        self._boxes.append((x - 6, y - 6, x + 6, y + 6))

    def add(self, text: str, at: tuple[float, float]) -> Element:
        x, y = _place(at)
        width = 8.0 * len(text)
        places = [(x + 10, y + 5), (x + 6, y - 9), (x + 6, y + 18), (x - 10 - width, y + 5)]
        boxes = [(left, base - 12, left + width, base + 3) for left, base in places]
        chosen = next((number for number, box in enumerate(boxes) if self._is_free(box)), 0)
        self._boxes.append(boxes[chosen])
        left, base = places[chosen]
        return element("text", text, x=left, y=base)

    def _is_free(self, box: tuple[float, float, float, float]) -> bool:
        left, top, right, bottom = box
        return all(right < x1 or x2 < left or bottom < y1 or y2 < top for x1, y1, x2, y2 in self._boxes)
