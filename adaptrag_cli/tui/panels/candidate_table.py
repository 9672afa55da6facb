"""All candidates of a selection as a table that sorts by any column."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any

from rich.text import Text
from textual import events
from textual.widgets import DataTable

from adaptrag_cli.events import Candidate
from adaptrag_cli.tables import PATH_LETTERS, degrees, number
from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.fitting import cut_middle

KEPT, NEWLY_KEPT, NO_LONGER_KEPT = "✓", "+", "-"
_LEAST_PLACE = 18
_UP, _DOWN = "▲", "▼"


@dataclass(frozen=True, kw_only=True)
class _Column:
    key: str
    label: str
    width: int
    order: Callable[[Candidate], Any]
    text: Callable[[Candidate], str]
    is_descending: bool = False
    """Whether the best stands first in descending order."""
    is_angle: bool = False
    needs_pseudo_context: bool = False
    needs_score: bool = False


def _missing_last(value: float | None) -> float:
    return -math.inf if value is None else value


def _path_letters(candidate: Candidate) -> str:
    return "both" if len(candidate.paths) > 1 else "".join(PATH_LETTERS[path] for path in candidate.paths)


_RANK = _Column(key="rank", label="rank", width=5, order=lambda c: c.rank, text=lambda c: str(c.rank))
_COLUMNS = (
    _RANK,
    _Column(
        key="s1",
        label="s1",
        width=7,
        order=lambda c: c.query_score,
        text=lambda c: number(c.query_score, 3),
        is_descending=True,
    ),
    _Column(
        key="s2",
        label="s2",
        width=7,
        order=lambda c: _missing_last(c.pseudo_context_score),
        text=lambda c: number(c.pseudo_context_score, 3),
        is_descending=True,
        needs_pseudo_context=True,
    ),
    _Column(
        key="theta1",
        label="θ1°",
        width=6,
        order=lambda c: c.query_angle,
        text=lambda c: degrees(c.query_angle),
        is_angle=True,
    ),
    _Column(
        key="theta2",
        label="θ2°",
        width=6,
        order=lambda c: _missing_last(c.pseudo_context_angle),
        text=lambda c: degrees(c.pseudo_context_angle),
        is_angle=True,
        needs_pseudo_context=True,
    ),
    _Column(
        key="ais",
        label="AIS",
        width=7,
        order=lambda c: _missing_last(c.ais_score),
        text=lambda c: number(c.ais_score, 3),
        is_descending=True,
        needs_score=True,
    ),
    _Column(key="path", label="path", width=6, order=_path_letters, text=_path_letters),
)
_PLACE = _Column(key="place", label="place", width=0, order=lambda c: c.location, text=lambda c: printable(c.location))
_MARK_WIDTH = 2


class CandidateTable(DataTable[Text]):
    """One row a candidate; the key of a row is its number in selection order, from 0."""

    DEFAULT_CSS = """
    CandidateTable {
        background: transparent;
        scrollbar-size: 1 1;
        overflow-x: hidden;
        & > .datatable--header { background: transparent; color: $text-muted; text-style: none; }
        & > .datatable--cursor { background: $primary 15%; color: $foreground; text-style: none; }
        &:focus {
            background-tint: transparent;
            & > .datatable--header { background-tint: transparent; }
            & > .datatable--cursor { background: $primary 40%; color: $foreground; text-style: none; }
        }
    }
    """

    def __init__(self) -> None:
        super().__init__(cursor_type="row", cell_padding=0, zebra_stripes=False)
        self._candidates: Sequence[Candidate] = ()
        self._kept_before: Set[str] | None = None
        self._sorted_by = _RANK
        self._is_reversed = False
        self._columns_shown: list[_Column] = []
        self._score_label = "AIS"

    def show(
        self, candidates: Sequence[Candidate], kept_before: Set[str] | None = None, score_label: str = "AIS"
    ) -> None:
        """Show candidates, in selection order; the cursor stays on its chunk when that is still there.

        Where other chunks were kept before, the differences are marked. `score_label` heads the column of the score
        that they were selected by.
        """
        self._score_label = score_label
        pointed = self.pointed
        chunk_id = None if pointed is None else self._candidates[pointed].chunk_id
        self._candidates = candidates
        self._kept_before = kept_before
        self._draw(next((i for i, candidate in enumerate(candidates) if candidate.chunk_id == chunk_id), 0))

    @property
    def pointed(self) -> int | None:
        """The candidate under the cursor, from 0 in selection order."""
        if not self.row_count:
            return None
        return int(self.coordinate_to_cell_key(self.cursor_coordinate).row_key.value or 0)

    def point(self, index: int) -> None:
        """Put the cursor on a candidate."""
        if 0 <= index < self.row_count:
            self.move_cursor(row=self.get_row_index(str(index)))

    def sort_next(self) -> None:
        """Sort by the next column, the best first."""
        columns = self._columns_shown
        at = columns.index(self._sorted_by) if self._sorted_by in columns else -1
        self._sort(columns[(at + 1) % len(columns)] if columns else _RANK, is_reversed=False)

    def reverse(self) -> None:
        """Turn the order round."""
        self._sort(self._sorted_by, is_reversed=not self._is_reversed)

    def on_data_table_header_selected(self, message: DataTable.HeaderSelected) -> None:
        message.stop()
        column = next((column for column in self._columns_shown if column.key == message.column_key.value), None)
        if column is not None:
            self._sort(column, is_reversed=column is self._sorted_by and not self._is_reversed)

    def on_resize(self, event: events.Resize) -> None:
        self._draw(self.pointed)

    # --- drawing

    def _sort(self, column: _Column, *, is_reversed: bool) -> None:
        self._sorted_by, self._is_reversed = column, is_reversed
        self._draw(self.pointed)

    def _draw(self, pointed: int | None) -> None:
        self.clear(columns=True)
        if not self._candidates or not self.size.width:
            return
        self._columns_shown = self._fitting()
        self.add_column("", width=_MARK_WIDTH, key="mark")
        for column in self._columns_shown:
            self.add_column(self._label(column), width=column.width or self._place_width, key=column.key)
        for index in self._order():
            self.add_row(*self._row(self._candidates[index]), key=str(index))
        self.point(pointed or 0)

    def _fitting(self) -> list[_Column]:
        """The columns that leave room for the place: without a pseudo-context, and narrow, there are fewer."""
        has_second = any(c.pseudo_context_score is not None for c in self._candidates)
        has_score = any(c.ais_score is not None for c in self._candidates)
        columns = [
            column
            for column in _COLUMNS
            if (has_second or not column.needs_pseudo_context) and (has_score or not column.needs_score)
        ]
        if self._room_beside(columns) < _LEAST_PLACE:
            columns = [column for column in columns if not column.is_angle]
        self._place_width = max(self._room_beside(columns), 1)
        return [*columns, _PLACE]

    def _room_beside(self, columns: Sequence[_Column]) -> int:
        scrollbar = 1
        return self.size.width - scrollbar - _MARK_WIDTH - sum(column.width for column in columns)

    def _order(self) -> list[int]:
        column = self._sorted_by
        return sorted(
            range(len(self._candidates)),
            key=lambda index: column.order(self._candidates[index]),
            reverse=column.is_descending != self._is_reversed,
        )

    def _label(self, column: _Column) -> Text:
        is_down = column.is_descending != self._is_reversed
        arrow = (_DOWN if is_down else _UP) if column is self._sorted_by else " "
        label = (self._score_label if column.needs_score else column.label) + arrow
        style = "bold" if column is self._sorted_by else ""
        return Text(f"{label:>{column.width}}" if column.width else label, style=style)

    def _row(self, candidate: Candidate) -> list[Text]:
        mark = self._mark(candidate)
        style = "bold" if candidate.kept else ""
        cells = [Text(mark, style="bold" if mark else "")]
        for column in self._columns_shown:
            text = column.text(candidate)
            cell = f"{text:>{column.width - 1}} " if column.width else cut_middle(text, self._place_width)
            cells.append(Text(cell, style=style, no_wrap=True, end=""))
        return cells

    def _mark(self, candidate: Candidate) -> str:
        if self._kept_before is None:
            return KEPT if candidate.kept else ""
        was_kept = candidate.chunk_id in self._kept_before
        if candidate.kept:
            return KEPT if was_kept else NEWLY_KEPT
        return NO_LONGER_KEPT if was_kept else ""
