"""Plain text that grows: wrapped, scrollable, and no slower when it is long."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from adaptrag_cli.tui.panels.token_lines import NEWLINE_MARK, TokenLines, wrapped


class StreamedText(ScrollView):
    """Follows its end while text comes."""

    DEFAULT_CSS = """
    StreamedText {
        width: 100%;
        height: auto;
        min-height: 1;  /* a widget without height is never told its width */
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        &:focus { background: $boost; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_up", show=False),
        Binding("down", "scroll_down", show=False),
        Binding("pageup", "page_up", show=False),
        Binding("pagedown", "page_down", show=False),
        Binding("home", "scroll_home", show=False),
        Binding("end", "scroll_end", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._lines = TokenLines(0)

    @property
    def is_empty(self) -> bool:
        return not self._parts

    def replace(self, text: str) -> None:
        """Show this text, from its beginning."""
        self._parts = [text] if text else []
        self._wrap(self._lines.width)
        self.scroll_home(animate=False, immediate=True)

    def append(self, text: str) -> None:
        """Show more, and its end."""
        if text:
            self._parts.append(text)
            if self._lines.width:
                self._lines.add(text)
            self._update_size()
            self.scroll_end(animate=False, immediate=False, x_axis=False)

    def on_resize(self, event: events.Resize) -> None:
        width = self.scrollable_content_region.width
        if width > 0 and width != self._lines.width:
            self._wrap(width)

    def _wrap(self, width: int) -> None:
        self._lines = wrapped(self._parts if width else (), width)
        self._update_size()

    def _update_size(self) -> None:
        size = Size(self._lines.width, len(self._lines.lines))
        grows = size.height != self.virtual_size.height
        if size != self.virtual_size:
            self.virtual_size = size
        self.refresh(layout=grows)  # its height is that of its text

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        number = y + self.scroll_offset.y
        width, base = self.scrollable_content_region.width, self.rich_style
        if number >= len(self._lines.lines):
            return Strip.blank(width, base)
        pieces = (piece.text for piece in self._lines.lines[number] if piece.text != NEWLINE_MARK)
        return Strip([Segment("".join(pieces), base)]).crop_extend(0, width, base)
