"""One question of the session, with everything that was run for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from adaptrag_cli.errors import ExitCode
from adaptrag_cli.events import AnyEvent, RunFailed, RunFinished, RunStarted
from adaptrag_cli.render import verdict
from adaptrag_cli.run_summary import RunSummary, advance, fold

Flags = Mapping[str, str | int | float | bool]


@dataclass(kw_only=True)
class Record:
    """A run, live or recorded. Events are appended as they come."""

    number: int
    query: str
    flags: Flags
    """Dotted settings that were typed or chosen when it was asked."""
    events: list[AnyEvent] = field(default_factory=list)
    unconsulted: list[AnyEvent] = field(default_factory=list)
    """What would have been looked up, when nothing was."""
    _summary: RunSummary | None = None
    _folded: int = 0

    @property
    def started(self) -> RunStarted | None:
        first = self.events[0] if self.events else None
        return first if isinstance(first, RunStarted) else None

    @property
    def is_over(self) -> bool:
        return bool(self.events) and isinstance(self.events[-1], RunFinished | RunFailed)

    @property
    def summary(self) -> RunSummary | None:
        """The run as a whole, so far; None before its first event. Events that were folded are not folded again."""
        if self._summary is None and self.events:
            self._summary = fold(self.events[:1])
            self._folded = 1
        if self._summary is not None and self._folded < len(self.events):
            self._summary = advance(self._summary, self.events[self._folded :])
            self._folded = len(self.events)
        return self._summary

    @property
    def was_looked_up(self) -> bool:
        """Whether a search was made for the answer."""
        return self.summary is not None and self.summary.was_looked_up

    @property
    def unconsulted_summary(self) -> RunSummary | None:
        return fold(self.unconsulted) if self.unconsulted else None

    @property
    def reusable(self) -> tuple[AnyEvent, ...]:
        """Events whose draft and pseudo-context another run of the same question may take over."""
        return (*self.events, *self.unconsulted)

    @property
    def strategy(self) -> str:
        return self.started.strategy if self.started else ""

    @property
    def verdict(self) -> str:
        """In words what was decided, or how the run ended."""
        if not self.is_over:  # asked five times a second
            return "running" if self.events else "waiting"
        run = self.summary
        assert run is not None
        if run.failed:
            is_cancelled = run.failed.exit_code == ExitCode.INTERRUPTED
            return "stopped" if is_cancelled else f"failed: {run.failed.message}"
        return verdict(run)

    def fail(self, failure: RunFailed) -> RunFailed:
        """End the run from outside, as when the engine's process died; returns the event as it was appended."""
        last = self.events[-1]
        event = msgspec.structs.replace(failure, seq=last.seq + 1, elapsed_ms=last.elapsed_ms)
        self.events.append(event)
        return event
