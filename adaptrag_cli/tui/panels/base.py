"""What every panel is: a titled box that is fed the events of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.containers import Vertical

from adaptrag_cli.events import Event


class Panel(Vertical):
    """One side of a run. It renders what it is told and computes nothing that the stream holds.

    The screen calls `begin` when another run is to be shown, then `show` with each batch of its events, in order; a
    live run, a replay and a reopened run are fed the same way. A panel takes the events it knows, ignores the others,
    and draws once per batch: batches come five times a second beside a model that needs the processor.
    """

    DEFAULT_CSS = """
    Panel {
        border: round $foreground 30%;
        border-title-color: $text-muted;
        border-subtitle-color: $text-muted;
        padding: 0 1;
        &:focus-within { border: round $accent; border-title-color: $text; border-title-style: bold; }
    }
    """

    ALLOW_MAXIMIZE: ClassVar[bool | None] = True

    number: ClassVar[int]
    """Its key, 1 to 6."""
    title: ClassVar[str]

    def on_mount(self) -> None:
        self.border_title = f"{self.number} {self.title}"

    def begin(self) -> None:
        """Forget the run that was shown."""
        raise NotImplementedError

    def show(self, events: Sequence[Event], *, consulted: bool = True) -> None:
        """Take the next events of the run.

        `consulted` is False for what would have been looked up after a skipped retrieval: it is shown, and labelled
        "not consulted".
        """
        raise NotImplementedError

    def enter(self) -> None:
        """Focus the part that keys act on; where there is none, nothing has the focus and the screen hears the keys."""
        part = next((child for child in self.query("*") if child.focusable), None)
        self.screen.set_focus(part)
