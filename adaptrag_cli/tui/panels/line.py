"""A line of words that changes while a run goes on, at the least cost for the screen."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static


class Line(Static):
    """Plain text. The screen is laid out anew only where its own size depends on the text, and never for equal text."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes, markup=False)
        self._told = Content("")

    def tell(self, content: Content) -> None:
        """Show this now."""
        if content.is_same(self._told):
            return
        self._told = content
        self.update(content, layout=self._changes_size(content))

    def _changes_size(self, content: Content) -> bool:
        styles, size = self.styles, self.content_size
        if styles.width is not None and styles.width.is_auto and content.cell_length != size.width:
            return True
        if styles.height is not None and not styles.height.is_auto:
            return False
        return not size.width or content.get_height(styles.get_rules(), size.width) != size.height
