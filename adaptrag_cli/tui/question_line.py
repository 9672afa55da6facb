"""One line: which question is on the screen, and what became of it."""

from __future__ import annotations

from rich.cells import cell_len
from textual.content import Content
from textual.widget import Widget

from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.fitting import cut_end
from adaptrag_cli.tui.record import Record

_FEWEST = 10
"""Cells that the question keeps, however long the verdict is."""


class QuestionLine(Widget):
    """The question is cut where both do not fit."""

    DEFAULT_CSS = """
    QuestionLine { height: 1; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._record: Record | None = None

    def show(self, record: Record | None) -> None:
        """Tell of this run, as it stands now."""
        self._record = record
        self.refresh()

    def render(self) -> Content:
        record = self._record
        if record is None:
            return Content.styled("Type a question above and press Enter; Esc, then ? for help.", "dim")
        head, verdict = f"#{record.number} ", printable(record.verdict)
        question = printable(" ".join(record.query.split()))
        free = self.content_size.width - len(head) - 3
        verdict = cut_end(verdict, max(free - cell_len(question), free // 2))
        room = max(_FEWEST, free - cell_len(verdict))
        return Content.assemble((head, "dim"), (cut_end(question, room), "bold"), "   ", (verdict, "dim"))
