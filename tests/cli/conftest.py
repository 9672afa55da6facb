"""The command line with a recorded run in place of a model."""

from __future__ import annotations

import pytest

import traces
from recorded import CommandLine, RecordedSession


@pytest.fixture
def command_line(monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A command line that answers with a skipped run, until a test changes `session.events`."""
    line = CommandLine(session=RecordedSession(traces.skipped()))
    monkeypatch.setattr("adaptrag_cli.session.session.open_session", line.open_session)
    return line
