"""What every dialog is: a titled box above the screen that opened it, with its keys at its foot."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import Footer

from adaptrag_cli.terminal import printable


def plain(text: str, style: str = "", *, keep_newlines: bool = False) -> Content:
    """Text from anywhere as it may be shown: neither markup nor escape sequences in it mean anything."""
    return Content.styled(printable(text, keep_newlines=keep_newlines), style)


class Dialog(ModalScreen[ScreenResultType]):
    """A box of at most 100 columns that fits into any terminal. Escape closes it with nothing chosen.

    It shrinks to what it holds. Of what `compose_body` yields, the widget of class `body` scrolls when there is too
    much of it; what stands above that is one widget of class `head`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Close")]

    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        & > .dialog {
            width: 94%;
            max-width: 100;
            height: auto;
            max-height: 94%;
            padding: 0 1;
            background: $surface;
            border: round $accent;
            border-title-color: $text;
            border-title-style: bold;
        }
        & .head { dock: top; height: auto; }
        & .body { height: auto; max-height: 100%; scrollbar-size-vertical: 1; }
        & Footer {
            height: 2;
            padding-top: 1;
            background: $surface;
            & FooterKey { margin-right: 1; background: $surface; }
        }
    }
    """

    def __init__(self, heading: str) -> None:
        super().__init__()
        self._heading = heading

    def compose(self) -> ComposeResult:
        box = Vertical(classes="dialog")
        box.border_title = plain(self._heading)
        with box:
            yield from self.compose_body()
            yield Footer(show_command_palette=False)

    def compose_body(self) -> ComposeResult:
        """Yield what stands in the box."""
        raise NotImplementedError

    def action_leave(self) -> None:
        self.dismiss(None)
