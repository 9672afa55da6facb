"""A command line whose session is a recorded run: parsing, streams and exit codes without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from typer.testing import CliRunner, Result

from adaptrag_cli.config import Settings
from adaptrag_cli.errors import AdaptRAGError
from adaptrag_cli.events import Event


@dataclass
class RecordedModel:
    """A model that can only be cancelled."""

    cancelled: int = 0

    def cancel(self) -> None:
        self.cancelled += 1


@dataclass
class RecordedSession:
    """A session that answers every question with the same events."""

    events: list[Event]
    model: RecordedModel = field(default_factory=RecordedModel)
    queries: list[str] = field(default_factory=list)
    is_closed: bool = False

    def ask(self, query: str) -> Iterator[Event]:
        self.queries.append(query)
        yield from self.events

    def close(self) -> None:
        self.is_closed = True


@dataclass
class CommandLine:
    """Runs `adaptrag` in this process; `settings` is what the last session was opened with."""

    session: RecordedSession
    settings: Settings | None = None
    failure: AdaptRAGError | None = None
    """Raised instead of opening the session."""

    def open_session(self, settings: Settings, *, on_note: Callable[[str], None]) -> RecordedSession:
        self.settings = settings
        on_note("loading the recorded model")
        if self.failure:
            raise self.failure
        return self.session

    def __call__(self, *words: str, stdin: bytes | None = None) -> Result:
        from adaptrag_cli.cli.app import app

        return CliRunner().invoke(app, list(words), input=stdin, prog_name="adaptrag")
