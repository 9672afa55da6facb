"""A line of words that changes while a run goes on, at the least cost for the screen."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static


class Line(Static):
    """Plain text. The screen is laid out anew only where the height depends on the text, and never for equal text."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes, markup=False)
        self._told = Content("")

    def tell(self, content: Content) -> None:
        """Show this now."""
        if content.is_same(self._told):
            return
        self._told = content
        height = self.styles.height
        has_room = height is not None and not height.is_auto
        self.update(content, layout=not has_room and self._rows(content) != self.content_size.height)

    def _rows(self, content: Content) -> int:
        width = self.content_size.width
        return content.get_height(self.styles.get_rules(), width) if width else -1
