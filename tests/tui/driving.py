"""Drive the whole application in a test: start it over a stub engine, wait for what must come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input

from adaptrag_cli.tui.app import AdaptRAGApp
from adaptrag_cli.tui.launch import Launch
from adaptrag_cli.tui.main_screen import MainScreen
from stub_engine import StubEngine

QUERY = "Who lit the lamp?"


@dataclass
class Driven:
    """A running application and its engines, the newest last."""

    app: AdaptRAGApp
    pilot: Pilot[None]
    engines: list[StubEngine]

    @property
    def engine(self) -> StubEngine:
        return self.engines[-1]

    @property
    def main(self) -> MainScreen:
        return next(screen for screen in self.app.screen_stack if isinstance(screen, MainScreen))

    @property
    def records(self):
        return self.main.desk.records

    async def until(self, claim: Callable[[], Any]) -> None:
        """Let the application run until the claim holds."""
        for _ in range(2000):  # a loaded machine takes its time
            await self.pilot.pause()
            if claim():
                return
            await asyncio.sleep(0.01)
        raise AssertionError("it never came")

    async def ask(self, query: str = QUERY) -> None:
        """Type a question and wait for its answer."""
        count = len(self.records)
        self.main.query_one(Input).value = query
        self.main.query_one(Input).focus()
        await self.pilot.press("enter")
        await self.until(lambda: len(self.records) == count + 1 and self.records[-1].is_over and self.is_idle)

    @property
    def is_idle(self) -> bool:
        return not self.main.desk.is_busy

    def text(self) -> str:
        """What stands on the screen, line by line."""
        screen = self.app.screen
        return "\n".join("".join(segment.text for segment in line) for line in screen._compositor.render_strips())


@asynccontextmanager
async def driving(
    folder: Path,
    *,
    launch: Launch | None = None,
    size: tuple[int, int] = (120, 40),
    prepare: Callable[[StubEngine], None] = lambda _: None,
) -> AsyncIterator[Driven]:
    """Start the application on a stub engine; `prepare` sees each engine before it is used."""
    engines: list[StubEngine] = []

    def start() -> StubEngine:
        engine = StubEngine(folder / f"world{len(engines)}")
        prepare(engine)
        engines.append(engine)
        return engine

    app = AdaptRAGApp(launch or Launch(), start_engine=start)
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        driven = Driven(app, pilot, engines)
        await pilot.pause()
        if engines:
            await driven.until(lambda: driven.main.desk.ready or driven.app.screen is not driven.main)
        yield driven


def drive(body: Coroutine[Any, Any, None]) -> None:
    """Run the coroutine of a test."""
    asyncio.run(body)
