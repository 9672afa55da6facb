"""An application that holds one panel, for tests that feed it events."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import App, ComposeResult
from textual.message import Message

from adaptrag_cli.events import Event
from adaptrag_cli.tui.messages import ChunkOpened, PromptOpened, SelectionChanged, ThresholdMoved
from adaptrag_cli.tui.panels.base import Panel


class PanelHost(App[None]):
    """Shows one panel full-screen and keeps what it asked for."""

    CSS = "Panel { height: 1fr; }"

    def __init__(self, panel: Panel, events: Sequence[Event] = (), *, consulted: bool = True) -> None:
        super().__init__()
        self.panel = panel
        self.asked: list[Message] = []
        self._events = events
        self._consulted = consulted

    def compose(self) -> ComposeResult:
        yield self.panel

    def on_mount(self) -> None:
        self.animation_level = "none"
        self.panel.begin()
        if self._events:
            self.panel.show(self._events, consulted=self._consulted)
        self.panel.enter()

    def on_chunk_opened(self, message: ChunkOpened) -> None:
        self.asked.append(message)

    def on_prompt_opened(self, message: PromptOpened) -> None:
        self.asked.append(message)

    def on_threshold_moved(self, message: ThresholdMoved) -> None:
        self.asked.append(message)

    def on_selection_changed(self, message: SelectionChanged) -> None:
        self.asked.append(message)
