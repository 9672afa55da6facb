"""Show how far an index is: bars on a terminal, else a few plain lines. All of it goes to stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from adaptrag_cli.cli.boundary import say

if TYPE_CHECKING:
    import rich.progress

    from adaptrag_cli.index.build import BuildProgress

_STEPS = 10


@contextmanager
def showing_build(clock: Callable[[], float] = time.monotonic) -> Iterator[Callable[[BuildProgress], None]]:
    """Give a callback for `build_index`; what it shows ends with the block."""
    if not sys.stderr.isatty():
        yield _PlainLines(clock).show
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[detail]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True, markup=False, highlight=False)) as bars:
        yield _Bars(bars, clock).show


class _Stages:
    """Notices when a stage begins, and how fast it goes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._stage = ""
        self._started = 0.0

    def is_new(self, progress: BuildProgress) -> bool:
        if progress.stage == self._stage:
            return False
        self._stage, self._started = progress.stage, self._clock()
        return True

    def elapsed(self) -> float:
        return max(self._clock() - self._started, 1e-9)


def _share(progress: BuildProgress) -> float:
    if progress.stage == "embedding":
        return progress.characters_embedded / max(1, progress.characters_to_embed)
    return progress.files_done / max(1, progress.files_total)


def _detail(progress: BuildProgress, seconds: float) -> str:
    if progress.stage == "checking":
        return f"{progress.files_done:,} of {progress.files_total:,} files"
    if progress.stage == "reading":
        return (
            f"{progress.files_done:,} of {progress.files_total:,} files, {progress.documents:,} documents, "
            f"{progress.chunks:,} chunks"
        )
    if progress.stage == "embedding":
        rate = progress.chunks_embedded / seconds
        speed = f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}"
        return f"{progress.chunks_embedded:,} of {progress.chunks_to_embed:,} chunks, {speed} chunks/s"
    return f"{progress.chunks:,} chunks"


class _PlainLines:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._stages = _Stages(clock)
        self._step = 0

    def show(self, progress: BuildProgress) -> None:
        if self._stages.is_new(progress):
            self._step = 0
            if progress.stage == "reading":
                say(f"reading {progress.files_total:,} files")
            elif progress.stage == "embedding" and progress.chunks_to_embed:
                say(f"embedding {progress.chunks_to_embed:,} of {progress.chunks:,} chunks")
        step = int(_STEPS * _share(progress))
        if progress.stage == "embedding" and step > self._step:
            self._step = step
            seconds = self._stages.elapsed()
            left = seconds * (1 - _share(progress)) / _share(progress)
            say(f"embedding: {step * 100 // _STEPS} % ({_detail(progress, seconds)}, about {left:.0f} s left)")


class _Bars:
    def __init__(self, bars: rich.progress.Progress, clock: Callable[[], float]) -> None:
        self._bars = bars
        self._stages = _Stages(clock)
        self._task: rich.progress.TaskID | None = None

    def show(self, progress: BuildProgress) -> None:
        if self._stages.is_new(progress):
            if self._task is not None:
                self._bars.remove_task(self._task)
            self._task = self._bars.add_task(progress.stage, total=None, detail="")
        assert self._task is not None, "a stage has begun"
        # One file is no measure of the way: a bar without a total then only shows that something happens.
        is_measured = progress.stage == "embedding" or (progress.files_total > 1 and progress.stage != "writing")
        self._bars.update(
            self._task,
            total=1.0 if is_measured else None,
            completed=_share(progress),
            detail=_detail(progress, self._stages.elapsed()),
        )
