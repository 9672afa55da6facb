"""Show how far a pull is: a bar on a terminal, else one plain line per ten per cent. All of it goes to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from adaptrag_cli.cli.boundary import say
from adaptrag_cli.errors import UnknownName
from adaptrag_cli.models.catalogue import find_entry
from adaptrag_cli.models.sources import OnProgress, Progress, megabytes
from adaptrag_cli.terminal import printable

if TYPE_CHECKING:
    import rich.progress

_STEPS = 10


@contextmanager
def showing_pulls() -> Iterator[OnProgress]:
    """Give a callback for `pull` and `ensure_models`; what it shows ends with the block."""
    if not sys.stderr.isatty():
        yield _PlainLines().show
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    name = TextColumn("{task.description}", markup=False)
    note = TextColumn("{task.fields[note]}", markup=False)
    columns = (name, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(), note)
    with Progress(*columns, console=Console(stderr=True, markup=False, highlight=False)) as bars:
        yield _Bars(bars).show


def introduction(progress: Progress) -> str:
    """Licence, size and purpose of what is about to be fetched, in one line."""
    try:
        entry = find_entry(progress.name)
    except UnknownName:  # a hub name, whose licence the user looks up there
        licence, purpose = "licence: see its page on the hub", ""
    else:
        licence, purpose = f"licence {entry.licence}", f"; {entry.purpose}"
    size = "" if progress.total_bytes is None else f", {megabytes(progress.total_bytes)}"
    return printable(f"{progress.name}: {licence}{size}{purpose}")


class _PlainLines:
    def __init__(self) -> None:
        self._last_step: dict[str, int] = {}
        self._last_note = ""

    def show(self, progress: Progress) -> None:
        if progress.total_bytes is None:
            if progress.note and progress.note != self._last_note:
                self._last_note = progress.note
                say(printable(f"{progress.name}: {progress.note}"))
            return
        if progress.name not in self._last_step:
            say(introduction(progress))
        step = _STEPS * progress.done_bytes // max(1, progress.total_bytes)
        if step > self._last_step.setdefault(progress.name, 0):
            self._last_step[progress.name] = step
            detail = f", {progress.note}" if progress.note else ""
            done, total = megabytes(progress.done_bytes), megabytes(progress.total_bytes)
            say(printable(f"{progress.name}: {step * 100 // _STEPS} % ({done} of {total}{detail})"))


class _Bars:
    def __init__(self, bars: rich.progress.Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, rich.progress.TaskID] = {}

    def show(self, progress: Progress) -> None:
        note = printable(progress.note)
        task = self._tasks.get(progress.name)
        if progress.total_bytes is None:
            if task is None:
                self._bars.console.print(printable(f"{progress.name}: {progress.note}"))
            else:
                self._bars.update(task, note=note)
            return
        if task is None:
            self._bars.console.print(introduction(progress))
            # Bytes kept from an earlier try are no part of this try's speed.
            start = progress.done_bytes
            task = self._bars.add_task(progress.name, total=progress.total_bytes, completed=start, note=note)
            self._tasks[progress.name] = task
        self._bars.update(task, completed=progress.done_bytes, total=progress.total_bytes, note=note)
