"""What a run was set up with: strategy, model, machine, index and settings."""

from __future__ import annotations

import textwrap

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from adaptrag_cli.events import RunStarted
from adaptrag_cli.identity import shortened
from adaptrag_cli.terminal import printable


class SetUp(VerticalScroll):
    """A line for each fact, wrapped to the room there is."""

    DEFAULT_CSS = """
    SetUp { scrollbar-size-vertical: 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._start: RunStarted | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="timeline-setup", markup=False)

    def show(self, start: RunStarted | None) -> None:
        """Tell the facts of another run."""
        self._start = start
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        width = self.scrollable_content_region.width
        told = "" if self._start is None else _setup(self._start, width)
        self.query_one("#timeline-setup", Static).update(Content(told))


def _setup(start: RunStarted, width: int) -> str:
    """Model, machine, index and settings of the run, each with its name before it."""
    index = f"{start.index} ({start.index_fingerprint[:19]})" if start.index else "none"
    lines = [
        ("strategy", start.strategy),
        ("model", f"{start.model} ({shortened(start.model_fingerprint)})"),
        ("context", f"{start.context_length:,} tokens, {start.threads} thread{'' if start.threads == 1 else 's'}"),
        ("GPU layers", f"{start.gpu_layers_requested} -> {start.gpu_layers_used}: {start.gpu_reason}"),
        ("index", index),
        ("entropy", "over the whole vocabulary" if start.entropy_support == "full" else "over the best tokens only"),
        ("adaptrag", start.adaptrag_version),
        *((setting.name, f"{setting.value}  ({setting.origin})") for setting in start.settings),
    ]
    names = max(len(name) for name, _ in lines) + 2
    room = max(16, width - names)
    told = []
    for name, value in lines:
        first, *rest = textwrap.wrap(printable(value), room) or [""]
        told += [f"{printable(name):{names}}{first}", *(" " * names + line for line in rest)]
    return "\n".join(told)
