"""The line of a replay: playing or paused, how fast, where; and the clock that moves it."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from adaptrag_cli.events import AnyEvent
from adaptrag_cli.render import seconds
from adaptrag_cli.tui.player import Player

_TICK_S = 0.1


class TransportBar(Widget):
    """Plays a run; hidden while there is none."""

    DEFAULT_CSS = """
    TransportBar { height: 1; padding: 0 1; background: $panel; display: none; &.shown { display: block; } }
    """

    class Rewound(Message):
        """The run starts anew: forget what was shown of it."""

    class Played(Message):
        """These events are due."""

        def __init__(self, events: Sequence[AnyEvent]) -> None:
            super().__init__()
            self.events = events

    def __init__(self) -> None:
        super().__init__()
        self._player: Player | None = None

    def on_mount(self) -> None:
        self.set_interval(_TICK_S, self._tick)

    @property
    def player(self) -> Player | None:
        """What is played; None while nothing is."""
        return self._player

    def open(self, events: Sequence[AnyEvent]) -> None:
        """Play a run from its beginning."""
        self._player = Player(events)
        self.post_message(self.Rewound())
        self._player.toggle()
        self._tell()

    def close(self) -> None:
        """Stop for good."""
        self._player = None
        self._tell()

    def toggle(self) -> None:
        """Play or pause; at the end, play from the beginning."""
        if self._player is None:
            return
        if self._player.is_at_end:
            self.post_message(self.Rewound())
        self._player.toggle()
        self._tell()

    def step(self) -> None:
        """Show one event more."""
        if self._player is not None:
            self._give(self._player.step())

    def finish(self) -> None:
        """Show all that is left."""
        if self._player is not None:
            self._give(self._player.finish())

    def change_speed(self, step: int) -> None:
        """Play faster or slower."""
        if self._player is not None:
            self._player.change_speed(step)
            self._tell()

    def _tick(self) -> None:
        if self._player is not None and self._player.is_playing:
            self._give(self._player.advance(_TICK_S * 1000))

    def _give(self, events: Sequence[AnyEvent]) -> None:
        if events:
            self.post_message(self.Played(events))
        self._tell()

    def _tell(self) -> None:
        self.set_class(self._player is not None, "shown")
        self.refresh()

    def render(self) -> Content:
        player = self._player
        if player is None:
            return Content("")
        state = "playing" if player.is_playing else "at the end" if player.is_at_end else "paused"
        head = f"{state:10}  x{player.speed:g}  "
        tail = f"  event {player.position}/{player.length}  {seconds(player.elapsed_ms)} of {seconds(player.total_ms)}"
        room = max(0, self.content_size.width - len(head) - len(tail))
        done = round(room * player.position / player.length)
        return Content.assemble((head, "bold"), ("━" * done, "$text-accent"), ("─" * (room - done), "dim"), tail)
