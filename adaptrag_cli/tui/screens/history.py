"""The questions of the session, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from adaptrag_cli.render import seconds
from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.screens.dialog import Dialog


@dataclass(frozen=True, kw_only=True)
class HistoryRow:
    """One run of the session."""

    number: int
    question: str
    verdict: str
    answer: str
    strategy: str
    seconds: float


class HistoryScreen(Dialog[int | None]):
    """Return the number of the run to reopen, or None when the person left."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "reopen", "Reopen", priority=True)]

    DEFAULT_CSS = """
    HistoryScreen OptionList {
        border: none;
        padding: 0;
        background: $surface;
        &:focus { border: none; background-tint: transparent; }
    }
    """

    def __init__(self, rows: Sequence[HistoryRow]) -> None:
        super().__init__("History")
        self._rows = sorted(rows, key=lambda row: row.number, reverse=True)

    def compose_body(self) -> ComposeResult:
        if self._rows:
            yield OptionList(*(Option(_prompt(row)) for row in self._rows), classes="body")
        else:
            yield Static("No question was asked yet.")

    def on_mount(self) -> None:
        for options in self.query(OptionList):
            options.highlighted = 0
            options.focus()

    def action_reopen(self) -> None:
        for options in self.query(OptionList):
            options.action_select()

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._rows[event.option_index].number)


def _prompt(row: HistoryRow) -> Group:
    """Question, strategy and time on one line; answer and verdict beneath, each cut to its line."""
    table = Table.grid(padding=(0, 1, 0, 0), expand=True, pad_edge=True)
    table.add_column(width=3, justify="right")
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", no_wrap=True)
    cost = f"{row.strategy}  {seconds(1000 * row.seconds)}" if row.seconds else row.strategy
    table.add_row(str(row.number), _line(row.question, "bold"), _line(cost))
    beneath = [_line(row.answer), _line(row.verdict, "dim")]
    return Group(table, *(Padding(line, (0, 1, 0, 4)) for line in beneath if line.plain))


def _line(text: str, style: str = "") -> Text:
    return Text(printable(" ".join(text.split())), style=style, no_wrap=True, overflow="ellipsis")
