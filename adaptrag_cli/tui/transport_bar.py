"""The line of a replay: playing or paused, how fast, where."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from adaptrag_cli.render import seconds
from adaptrag_cli.tui.player import Player


class TransportBar(Widget):
    """Shows a player's position; the main screen moves it."""

    DEFAULT_CSS = """
    TransportBar { height: 1; padding: 0 1; background: $panel; display: none; &.shown { display: block; } }
    """

    def __init__(self) -> None:
        super().__init__()
        self._player: Player | None = None

    def show(self, player: Player | None) -> None:
        """Show where the player stands; None hides the line."""
        self._player = player
        self.set_class(player is not None, "shown")
        self.refresh()

    def render(self) -> Content:
        player = self._player
        if player is None:
            return Content("")
        state = "playing" if player.is_playing else "at the end" if player.is_at_end else "paused"
        head = f"{state:10}  x{player.speed:g}  "
        tail = f"  event {player.position}/{player.length}  {seconds(player.elapsed_ms)} of {seconds(player.total_ms)}"
        room = max(0, self.content_size.width - len(head) - len(tail))
        done = round(room * player.position / player.length) if player.length else 0
        return Content.assemble(
            (head, "bold"), ("━" * done, "$text-accent"), ("─" * (room - done), "$text-muted"), tail
        )
