"""How the interface is started."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from adaptrag_cli.events import AnyEvent
from adaptrag_cli.tui.record import Flags


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What was typed on the command line, already checked."""

    flags: Flags = field(default_factory=dict)
    """Dotted settings."""
    config_file: Path | None = None
    question: str = ""
    """Asked as soon as the models are loaded."""
    trace: tuple[AnyEvent, ...] = ()
    """A recorded run. No engine is started then."""
    trace_path: Path | None = None

    @property
    def is_replay(self) -> bool:
        return bool(self.trace)
