"""A failure in words: what went wrong, and what mends it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalGroup, VerticalScroll
from textual.widgets import Static

from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.screens.dialog import Dialog, plain


class ErrorDialog(Dialog[None]):
    """Tell a failure; the application lives on.

    Args:
        title: what failed, in a few words.
        message: what is wrong, and where.
        remedy: what mends it; may be empty.
        details: for example the last words of a process that died; may be long.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "leave", "Close", show=False),
        Binding("y", "copy", "Copy"),
    ]

    DEFAULT_CSS = """
    ErrorDialog {
        & > .dialog { border: round $error; }
        & .told { overflow-y: auto; }
        & .head { max-height: 50vh; }
        & .remedy { margin-top: 1; }
        & .details {
            margin-top: 1;
            padding: 0 1;
            border: round $panel-lighten-2;
            border-title-color: $text-muted;
            &:focus { border: round $accent; }
        }
    }
    """

    def __init__(self, title: str, message: str, remedy: str, details: str = "") -> None:
        super().__init__(title)
        self._message = message
        self._remedy = remedy
        self._details = details.strip()

    def compose_body(self) -> ComposeResult:
        with VerticalGroup(classes="told head" if self._details else "told body"):
            yield Static(plain(self._message, keep_newlines=True))
            if self._remedy:
                yield Static(plain("What to do: ", "dim") + plain(self._remedy, "bold"), classes="remedy")
        if self._details:
            box = VerticalScroll(Static(plain(self._details, keep_newlines=True)), classes="details body")
            box.border_title = "Details"
            yield box

    def on_mount(self) -> None:
        for box in self.query(".details"):
            box.focus()
            self.call_after_refresh(box.scroll_end, animate=False)  # what a process said last tells most

    def action_copy(self) -> None:
        """Copy everything that is told, for a report."""
        parts = (self._heading, self._message, self._remedy, self._details)
        self.app.copy_to_clipboard("\n".join(printable(part, keep_newlines=True) for part in parts if part))
        self.notify("Copied", timeout=2)
