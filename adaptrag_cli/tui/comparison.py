"""Two runs of one question, shown side by side as soon as both have begun."""

from __future__ import annotations

from adaptrag_cli.tui.record import Record
from adaptrag_cli.tui.screens.compare import CompareScreen


class Comparison:
    """Keeps a comparison up to date while one of its runs is still going on."""

    def __init__(self, left: Record, right: Record) -> None:
        self._left = left
        self._right = right
        self._screen: CompareScreen | None = None

    def concerns(self, record: Record) -> bool:
        """Whether news of this run are news for the comparison."""
        return record is self._left or record is self._right

    def news(self, record: Record) -> CompareScreen | None:
        """Take what has happened to a run; returns the screen when it is to be opened."""
        left, right = self._left.summary, self._right.summary
        if left is None or right is None:
            return None
        if self._screen is None:
            self._screen = CompareScreen(left, right)
            return self._screen
        if self._screen.is_mounted:
            self._screen.update(*(("left", left) if record is self._left else ("right", right)))
        return None
