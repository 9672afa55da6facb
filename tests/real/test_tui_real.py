"""The whole interface with the 0.5B model, MiniLM and a real index: asked, stopped in its prefill, left at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.widgets import Input

from adaptrag_cli.events import PromptBuilt
from adaptrag_cli.index.build import BuildOptions, build_index
from adaptrag_cli.models.encoder import load_encoder
from adaptrag_cli.service.client import EngineProcess
from adaptrag_cli.tui.app import AdaptRAGApp
from adaptrag_cli.tui.launch import Launch
from adaptrag_cli.tui.main_screen import MainScreen
from adaptrag_cli.tui.record import Flags
from adaptrag_cli.tui.screens.document import DocumentScreen

pytestmark = pytest.mark.small_model

PRIVATE = "Who lit the harbour lamp at Skarvik?"
LONG = "Who lit the harbour lamp? " * 500
"""3,000 tokens and more: seconds of prefill."""
BEFORE = "Long ago the harbour was dark.\n\n"
DOCUMENT = "The harbour lamp at Skarvik burns whale-green and was lit in 1887 by Ottilie Brandt."


@pytest.fixture(scope="module")
def flags(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Flags:
    folder = tmp_path_factory.mktemp("real")
    (folder / "notes").mkdir()
    (folder / "notes/lamp.txt").write_text(BEFORE + DOCUMENT, encoding="utf-8")
    (folder / "notes/fees.md").write_text("# Fees\n\nThe mooring fee at Skarvik is 1,473 crowns.\n", encoding="utf-8")
    encoder = load_encoder("all-minilm-l6-v2", models_dir)
    build_index(folder / "notes", name="notes", index_dir=folder / "ix", encoder=encoder, options=BuildOptions())
    return {
        "models.dir": str(models_dir),
        "models.answer": "qwen2.5-coder-0.5b-instruct",
        "index.dir": str(folder / "ix"),
        "ask.threshold": 0.0,
        "ask.top_k": 2,
    }


async def until(claim: Callable[[], object], seconds: float = 240.0) -> None:
    """Wait for what the engine's process will bring."""
    for _ in range(int(seconds / 0.02)):
        if claim():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it never came")


def test_a_question_is_stopped_in_its_prefill_the_next_is_answered_and_quitting_ends_the_process(flags: Flags):
    engines: list[EngineProcess] = []

    def start() -> EngineProcess:
        engines.append(EngineProcess())
        return engines[-1]

    async def body() -> None:
        app = AdaptRAGApp(Launch(flags=flags), start_engine=start)
        async with app.run_test(size=(120, 40)) as pilot:
            main = app.screen
            assert isinstance(main, MainScreen)
            records = main.desk.records
            main.query_one(Input).value = LONG
            await pilot.press("enter")
            await until(lambda: any(isinstance(event, PromptBuilt) for event in records[0].events))
            await pilot.press("escape")
            await until(lambda: records[0].is_over and not main.desk.is_busy)
            assert records[0].verdict == "stopped"

            await pilot.press("slash")
            main.query_one(Input).value = PRIVATE
            await pilot.press("enter")
            await until(lambda: len(records) == 2 and records[1].is_over and not main.desk.is_busy)
            run = records[1].summary
            assert run is not None and run.finished is not None
            assert "Brandt" in run.finished.answer

            await pilot.press("5")
            await pilot.pause()
            await pilot.press("enter")
            await until(lambda: isinstance(app.screen, DocumentScreen))
            await pilot.press("escape")
            await until(lambda: app.screen is main)

            await pilot.press("slash")
            main.query_one(Input).value = LONG
            await pilot.press("enter")
            await until(lambda: len(records) == 3 and len(records[2].events) > 1)
            await pilot.press("ctrl+q")
            await until(lambda: not app.is_running)
            assert not engines[0].is_running

    asyncio.run(body())
    assert len(engines) == 1
