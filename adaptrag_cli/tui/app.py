"""The application: it owns the engine's process and hands what it says to the main screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from textual import work
from textual.app import App, SystemCommand
from textual.message import Message
from textual.screen import Screen
from textual.worker import get_current_worker

from adaptrag_cli.errors import AdaptRAGError
from adaptrag_cli.service.client import EngineProcess
from adaptrag_cli.service.protocol import AnyReply, AnyRequest
from adaptrag_cli.tui.launch import Launch
from adaptrag_cli.tui.main_screen import MainScreen


class Engine(Protocol):
    """What the application needs of `EngineProcess`."""

    def send(self, request: AnyRequest) -> None: ...
    def batches(self) -> Iterator[list[AnyReply]]: ...
    def last_words(self) -> str: ...
    def close(self) -> None: ...


class EngineReplied(Message):
    """A batch of replies."""

    def __init__(self, replies: Sequence[AnyReply]) -> None:
        super().__init__()
        self.replies = replies


class EngineEnded(Message):
    """The engine's process is gone, and nobody had closed it."""

    def __init__(self, last_words: str) -> None:
        super().__init__()
        self.last_words = last_words


class AdaptRAGApp(App[None]):
    """`adaptrag tui`."""

    TITLE = "AdaptRAG"
    CSS_PATH = Path(__file__).with_name("app.tcss")

    def __init__(self, launch: Launch, *, start_engine: Callable[[], Engine] = EngineProcess) -> None:
        super().__init__()
        self._launch = launch
        self._start_engine = start_engine
        self._engine: Engine | None = None
        self._main = MainScreen(launch, self.send)

    def on_mount(self) -> None:
        self.push_screen(self._main)

    def on_unmount(self) -> None:
        self._close_engine()

    async def action_quit(self) -> None:
        """Leave at once: the engine is not waited for."""
        self._main.is_leaving = True
        self._close_engine()
        self.exit()

    def send(self, request: AnyRequest) -> None:
        """Hand a request to the engine; a process that is gone is started anew."""
        if self._engine is None:
            self._engine = self._start_engine()
            self._read(self._engine)
        try:
            self._engine.send(request)
        except AdaptRAGError as error:  # no process can be started
            self._close_engine()
            self._main.lose_engine(error.message)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every key of the main screen, and the application's own commands."""
        if screen is self._main:
            yield from self._main.commands()
        yield from super().get_system_commands(screen)

    @work(thread=True, group="engine", exit_on_error=False)
    def _read(self, engine: Engine) -> None:
        worker = get_current_worker()
        for batch in engine.batches():
            if worker.is_cancelled:
                return
            self.post_message(EngineReplied(batch))
        if self._engine is engine:
            self.post_message(EngineEnded(engine.last_words()))

    def on_engine_replied(self, message: EngineReplied) -> None:
        self._main.receive(message.replies)

    def on_engine_ended(self, message: EngineEnded) -> None:
        self._close_engine()
        self._main.lose_engine(message.last_words)

    def _close_engine(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()
