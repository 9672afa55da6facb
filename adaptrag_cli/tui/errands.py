"""What a person does with runs and settings beside asking: choose, reopen, save, export; each with its dialogs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from textual.app import App

from adaptrag_cli.config import NO_ADAPTER
from adaptrag_cli.errors import AdaptRAGError
from adaptrag_cli.identity import parted
from adaptrag_cli.terminal import printable
from adaptrag_cli.tui import choices, copying
from adaptrag_cli.tui.desk import Desk
from adaptrag_cli.tui.record import Record
from adaptrag_cli.tui.screens.error import ErrorDialog
from adaptrag_cli.tui.screens.history import HistoryRow, HistoryScreen
from adaptrag_cli.tui.screens.picker import Choice, Picker
from adaptrag_cli.tui.screens.save import SaveDialog


def report(app: App[None], error: AdaptRAGError) -> None:
    """Tell an expected failure; the application lives on."""
    app.push_screen(ErrorDialog("This did not work", error.message, error.hint))


async def choose(app: App[None], desk: Desk, config_file: Path | None) -> bool:
    """Choose strategy, model, adapter or index for the questions to come; returns whether anything is another now."""
    ready = desk.ready
    model, adapter = parted(ready.model) if ready else ("", "")
    kinds = [
        Choice(value="ask.strategy", label="Strategy", detail=ready.strategy if ready else ""),
        Choice(value="models.answer", label="Model", detail=model),
        Choice(value="models.adapter", label="Adapter", detail=adapter or NO_ADAPTER),
        Choice(value="index.name", label="Index", detail=ready.index if ready else ""),
    ]
    setting = await app.push_screen_wait(Picker("Choose", kinds, ""))
    if setting is None:
        return False
    try:  # indexes and models lie on disk, and the screen must not wait for a disk
        offered = await asyncio.to_thread(choices.offered, setting, dict(desk.choices), config_file)
    except AdaptRAGError as error:
        report(app, error)
        return False
    kind = next(kind for kind in kinds if kind.value == setting)
    value = await app.push_screen_wait(Picker(f"Choose: {kind.label.lower()}", offered, kind.detail))
    if value is None or value == kind.detail:
        return False
    desk.choices[setting] = value
    if setting == "models.answer":
        desk.choices["models.adapter"] = NO_ADAPTER  # what was set belongs to the model before
    return True


async def choose_other_strategy(app: App[None], record: Record) -> str | None:
    """Choose what a run is compared with."""
    others = [choice for choice in choices.strategies() if choice.value != record.strategy]
    others.sort(key=lambda choice: choice.value != "always")  # what most tools do is what most want to compare with
    return await app.push_screen_wait(Picker("Compare with strategy", others, ""))


async def choose_record(app: App[None], records: Sequence[Record]) -> Record | None:
    """Choose a question of this session."""
    rows = [_history_row(record) for record in reversed(records)]
    number = await app.push_screen_wait(HistoryScreen(rows))
    return next((record for record in records if record.number == number), None)


async def save(app: App[None], record: Record) -> None:
    """Save a run as a trace."""
    path = await app.push_screen_wait(SaveDialog("Save the trace", Path(f"run-{record.number}.jsonl")))
    if path is not None:
        await _write(app, partial(copying.save_trace, record, path), path)


async def export(app: App[None], record: Record) -> None:
    """Export a run as a page, or the screen as a picture."""
    title = f"AdaptRAG: {printable(record.query)}"
    picture = app.export_screenshot(title=title)
    kinds = [
        Choice(value="html", label="HTML page", detail="the whole run on one page, to read or to mail"),
        Choice(value="svg", label="SVG picture", detail="this screen as it is"),
    ]
    kind = await app.push_screen_wait(Picker("Export", kinds, ""))
    if kind is None:
        return
    path = await app.push_screen_wait(SaveDialog("Export to", Path(f"run-{record.number}.{kind}")))
    if path is not None:
        write = partial(copying.save_page, record) if kind == "html" else partial(copying.save_picture, picture)
        await _write(app, partial(write, path), path)


async def _write(app: App[None], write: Callable[[], None], path: Path) -> None:
    try:
        await asyncio.to_thread(write)
    except AdaptRAGError as error:
        report(app, error)
    else:
        app.notify(f"written: {printable(str(path))}", markup=False)


def _history_row(record: Record) -> HistoryRow:
    run = record.summary
    end = run.finished if run else None
    return HistoryRow(
        number=record.number,
        question=record.query,
        verdict=record.verdict,
        answer=end.answer if end else "",
        strategy=record.strategy,
        seconds=run.total_ms / 1000 if run else 0.0,
    )
