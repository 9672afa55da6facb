"""Play a recorded run: which events are due, without a clock of its own."""

from __future__ import annotations

from collections.abc import Sequence

from adaptrag_cli.events import AnyEvent

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


class Player:
    """A position in a trace. The screen tells it how much time has passed and feeds the panels what it gives."""

    def __init__(self, events: Sequence[AnyEvent]) -> None:
        self._events = tuple(events)
        self._next = 0
        self._clock_ms = 0.0
        self._speed = SPEEDS.index(1.0)
        self.is_playing = False

    @property
    def position(self) -> int:
        """Events shown so far."""
        return self._next

    @property
    def length(self) -> int:
        return len(self._events)

    @property
    def shown(self) -> tuple[AnyEvent, ...]:
        return self._events[: self._next]

    @property
    def speed(self) -> float:
        return SPEEDS[self._speed]

    @property
    def is_at_end(self) -> bool:
        return self._next == len(self._events)

    @property
    def elapsed_ms(self) -> float:
        """Recorded time at this position."""
        return self._events[self._next - 1].elapsed_ms if self._next else 0.0

    @property
    def total_ms(self) -> float:
        return self._events[-1].elapsed_ms

    def toggle(self) -> None:
        """Play or pause; at the end, play from the start."""
        self.is_playing = not self.is_playing
        if self.is_playing and self.is_at_end:
            self.rewind()
            self.is_playing = True

    def rewind(self) -> None:
        """Back to before the first event, paused."""
        self._next = 0
        self._clock_ms = 0.0
        self.is_playing = False

    def change_speed(self, step: int) -> None:
        """Faster (+1) or slower (-1), within the speeds there are."""
        self._speed = min(max(self._speed + step, 0), len(SPEEDS) - 1)

    def advance(self, ms: float) -> tuple[AnyEvent, ...]:
        """Let so much time pass; returns the events that became due."""
        if not self.is_playing:
            return ()
        self._clock_ms += ms * self.speed
        first = self._next
        while not self.is_at_end and self._events[self._next].elapsed_ms <= self._clock_ms:
            self._next += 1
        self.is_playing = not self.is_at_end
        return self._events[first : self._next]

    def step(self) -> tuple[AnyEvent, ...]:
        """Pause, and show one event more."""
        self.is_playing = False
        if self.is_at_end:
            return ()
        self._next += 1
        self._clock_ms = self.elapsed_ms
        return self._events[self._next - 1 : self._next]

    def finish(self) -> tuple[AnyEvent, ...]:
        """Show all that is left."""
        rest = self._events[self._next :]
        self._next = len(self._events)
        self._clock_ms = self.total_ms
        self.is_playing = False
        return rest
