"""The picture of a selection: query, pseudo-context and chunks as directions in one plane."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Static
from textual_hires_canvas import Canvas, HiResMode

from adaptrag_cli.events import Candidate, ChunksSelected
from adaptrag_cli.plane import Point, arc, direction, on_arc, project, spans_plane
from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.fitting import cut_middle
from adaptrag_cli.tui.panels.plane_view import View, fit_sector

_ARC_STEPS = 120
_MARGIN = (4, 1)
"""Columns and rows for the letters at the ends of the rays."""
_KEPT, _OTHER = "●", "○"
_TITLES = {
    "cos": "kept chunks lie close to the arc between q and p",
    "sum": "kept chunks reach farthest along q + p",
    "dynamic": "kept chunks turn little from q and p, weighed",
    "rerank": "kept chunks were read as most relevant, wherever they lie",
    "split": "kept chunks are the first of each path, wherever they lie",
}


class _Sheet(Canvas):
    """A canvas that is blank until it is drawn in its own size: lines that it lacks would have no style to filter."""

    def __init__(self) -> None:
        super().__init__(default_hires_mode=HiResMode.BRAILLE)

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        if self._canvas_size != self.size:
            return Strip.blank(self.size.width, self.rich_style)
        return super().render_line(y)


class PlanePicture(Vertical, can_focus=True):
    """Rays to query and pseudo-context, and a numbered mark for each candidate; kept ones are joined to the origin."""

    DEFAULT_CSS = """
    PlanePicture {
        min-height: 8;
        &:focus .plane-title { text-style: bold; color: $text; }
        .plane-title { height: auto; max-height: 2; color: $text-muted; }
        .plane-pointed { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
        _Sheet { height: 1fr; width: 100%; }
        & > .plane--line { color: $foreground-muted; }
        & > .plane--letter { color: $foreground; text-style: bold; }
        & > .plane--kept { color: $text-accent; text-style: bold; }
        & > .plane--ray { color: $text-accent; }
        & > .plane--other { color: $foreground-muted; }
        & > .plane--pointed { color: $foreground; text-style: bold reverse; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "plane--line",
        "plane--letter",
        "plane--kept",
        "plane--ray",
        "plane--other",
        "plane--pointed",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,left", "point(-1)", "Rank before", show=False),
        Binding("down,right", "point(1)", "Rank after", show=False),
        Binding("home", "point_end(0)", "First rank", show=False),
        Binding("end", "point_end(-1)", "Last rank", show=False),
        Binding("enter", "open", "Read", show=False),
    ]

    class Pointed(Message):
        """The person points at a candidate; `index` counts from 0 in selection order."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    class Opened(Message):
        """The person wants to read the candidate that is pointed at."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self) -> None:
        super().__init__()
        self._selection = ChunksSelected(score_name="query", candidates=())
        self._pointed: int | None = None
        self._canvas = _Sheet()
        self._cells: dict[tuple[int, int], int] = {}
        """The candidate whose mark or number stands in a cell."""

    def compose(self) -> ComposeResult:
        yield Static(classes="plane-title", markup=False)
        yield self._canvas
        yield Static(classes="plane-pointed", markup=False)

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self.call_after_refresh(self._draw))

    def show(self, selection: ChunksSelected) -> None:
        """Show a selection with a pseudo-context, or an empty one; nothing is pointed at."""
        self._selection = selection
        self._pointed = None
        self._draw()

    @property
    def pointed(self) -> int | None:
        """The candidate that is pointed at, from 0 in selection order."""
        return self._pointed

    def point(self, index: int | None) -> None:
        """Highlight a candidate."""
        if index != self._pointed and (index is None or index < len(self._selection.candidates)):
            self._pointed = index
            self._draw()

    # --- keys and mouse

    def action_point(self, step: int) -> None:
        """Point at the candidate before or after."""
        now = -1 if self._pointed is None else self._pointed
        self._ask(min(max(now + step, 0), len(self._selection.candidates) - 1))

    def action_point_end(self, index: int) -> None:
        """Point at the first (0) or last (-1) candidate."""
        self._ask(len(self._selection.candidates) - 1 if index else 0)

    def action_open(self) -> None:
        """Read the candidate."""
        if self._pointed is not None:
            self.post_message(self.Opened(self._pointed))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self._canvas)
        near = [] if offset is None else [(offset.x + step, offset.y) for step in (0, -1, 1)]
        index = next((self._cells[cell] for cell in near if cell in self._cells), None)
        if index is not None:
            self._ask(index)

    def _ask(self, index: int) -> None:
        if 0 <= index < len(self._selection.candidates):
            self.point(index)
            self.post_message(self.Pointed(index))

    # --- drawing

    def on_canvas_resize(self, message: Canvas.Resize) -> None:
        message.stop()
        self._draw()

    @property
    def _angle(self) -> float | None:
        """Of q and p in radians; None where they span no plane."""
        similarity = self._selection.query_pseudo_similarity
        if similarity is None:
            return None
        angle = math.acos(min(max(similarity, -1.0), 1.0))
        return angle if spans_plane(angle) else None

    def _draw(self) -> None:
        self.query_one(".plane-title", Static).update(Content(self._title()))
        self.query_one(".plane-pointed", Static).update(Content(self._told()))
        self._cells = {}
        size = self._canvas.size
        if not size.area:
            return
        with self._canvas.batch_refresh():
            self._canvas.reset(size=size)
            if self._selection.candidates and size.width > 2 * _MARGIN[0] + 2 and size.height > 2 * _MARGIN[1] + 2:
                self._draw_plane(self._angle)

    def _draw_plane(self, angle: float | None) -> None:
        points = _places(self._selection.candidates, angle)
        end = angle if angle is not None else max(math.atan2(y, x) for x, y in points)
        rim = arc(end, _ARC_STEPS)
        size = self._canvas.size
        view = fit_sector(points, rim, width=size.width, height=size.height, margin=_MARGIN)
        letters = {"q": direction(0.0)} | ({"p": direction(angle)} if angle is not None else {})
        kept = [point for point, candidate in zip(points, self._selection.candidates, strict=True) if candidate.kept]
        origin = (0.0, 0.0)
        self._draw_lines(view, [*pairwise(rim), *((origin, tip) for tip in letters.values())], "plane--line")
        self._draw_lines(view, [(origin, point) for point in kept], "plane--ray")
        for letter, tip in letters.items():
            self._write_letter(view, letter, tip)
        self._draw_candidates(view, points)

    def _draw_lines(self, view: View, lines: Sequence[tuple[Point, Point]], name: str) -> None:
        """Draw over what is there; where dots of two lines share a cell, both stay."""
        style = self._style(name)
        size = self._canvas.size
        before = [[self._canvas.get_pixel(x, y)[0] for x in range(size.width)] for y in range(size.height)]
        self._canvas.draw_hires_lines([(*view.cell(one), *view.cell(other)) for one, other in lines], style=style)
        for y, row in enumerate(before):
            for x, old in enumerate(row):
                new = self._canvas.get_pixel(x, y)[0]
                if old not in (" ", new):
                    self._canvas.set_pixel(x, y, char=chr(ord(old) | ord(new)), style=style)  # dots are bits

    def _write_letter(self, view: View, letter: str, tip: Point) -> None:
        """Beyond the end of its ray."""
        (x, y), (center_x, center_y) = view.cell(tip), view.cell((0.0, 0.0))
        length = math.hypot(x - center_x, y - center_y) or 1.0
        column = math.floor(x + 2 * (x - center_x) / length)
        self._write(column, math.floor(y + (y - center_y) / length), letter, "plane--letter")

    def _draw_candidates(self, view: View, points: Sequence[Point]) -> None:
        """Marks first, then numbers where there is room; what is pointed at and what is kept come before the rest."""
        order = sorted(
            range(len(points)), key=lambda i: (i != self._pointed, not self._selection.candidates[i].kept, i)
        )
        spots = {index: _cell(view, points[index]) for index in order}
        for index in reversed(order):
            mark = _KEPT if self._selection.candidates[index].kept else _OTHER
            self._write(*spots[index], mark, self._look(index), index)
        marks, digits = set(spots.values()), set[tuple[int, int]]()
        for index in order:
            number = str(index + 1)
            spot = next(
                (s for s in _beside(*spots[index], len(number)) if self._has_room(s, number, marks, digits)), None
            )
            if spot is not None:
                digits |= {(spot[0] + step, spot[1]) for step in range(len(number))}
                self._write(*spot, number, self._look(index), index)

    def _look(self, index: int) -> str:
        if index == self._pointed:
            return "plane--pointed"
        return "plane--kept" if self._selection.candidates[index].kept else "plane--other"

    def _has_room(
        self, spot: tuple[int, int], number: str, marks: set[tuple[int, int]], digits: set[tuple[int, int]]
    ) -> bool:
        """Whether a number hides no mark and touches no other number, with which it would read as one."""
        column, row = spot
        size = self._canvas.size
        if column < 0 or row < 0 or column + len(number) > size.width or row >= size.height:
            return False
        cells = {(column + step, row) for step in range(len(number))}
        around = {(column + step, row) for step in range(-1, len(number) + 1)}
        return not (cells & marks or around & digits)

    def _write(self, column: int, row: int, text: str, name: str, index: int | None = None) -> None:
        style = self._style(name)
        for step, character in enumerate(text):
            self._canvas.set_pixel(column + step, row, char=character, style=style)
            if index is not None:
                self._cells[column + step, row] = index

    def _style(self, name: str) -> str:
        return str(self.get_component_rich_style(name))

    # --- words

    def _title(self) -> str:
        selection = self._selection
        if not selection.candidates or selection.query_pseudo_similarity is None:
            return ""
        degrees = math.degrees(math.acos(min(max(selection.query_pseudo_similarity, -1.0), 1.0)))
        if self._angle is None:
            return f"q and p lie on one line (θ0\u00a0=\u00a0{degrees:.1f}°): each chunk at its angle θ1 to q"
        title = _TITLES.get(selection.score_name, "directions in the plane of q and p")
        return f"{title} (θ0\u00a0=\u00a0{degrees:.1f}°)"

    def _told(self) -> str:
        """The candidate that is pointed at, in numbers."""
        if self._pointed is None:
            return ""
        candidate = self._selection.candidates[self._pointed]
        numbers = f"θ1 {math.degrees(candidate.query_angle):.1f}°"
        if candidate.pseudo_context_angle is not None:
            total = math.degrees(candidate.query_angle + candidate.pseudo_context_angle)
            numbers += f" + θ2 {math.degrees(candidate.pseudo_context_angle):.1f}° = {total:.1f}°"
        mark = _KEPT if candidate.kept else _OTHER
        head = f"{mark} {self._pointed + 1}  {numbers}  "
        return head + cut_middle(printable(candidate.location), max(self.size.width - len(head), 8))


def _places(candidates: Sequence[Candidate], angle: float | None) -> list[Point]:
    if angle is None:
        return [on_arc(candidate.query_score) for candidate in candidates]
    return [project(c.query_score, c.pseudo_context_score or 0.0, angle) for c in candidates]


def _cell(view: View, point: Point) -> tuple[int, int]:
    x, y = view.cell(point)
    return math.floor(x), math.floor(y)


def _beside(column: int, row: int, width: int) -> Iterator[tuple[int, int]]:
    """Where a number may stand, best first."""
    yield column + 1, row
    yield column - width, row
    yield from ((column, row + step) for step in (-1, 1))
    yield from ((column + 1, row + step) for step in (-1, 1))
    yield from ((column - width, row + step) for step in (-1, 1))
    yield from ((column + 2, row + step) for step in (0, -1, 1))
