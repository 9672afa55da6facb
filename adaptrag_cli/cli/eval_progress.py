"""Show how far an evaluation is, with the time it will still take. All of it goes to stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from adaptrag_cli.cli.boundary import say
from adaptrag_cli.cli.index_progress import showing_build
from adaptrag_cli.cli.interrupt import Interruption, cancelling_on_interrupt
from adaptrag_cli.terminal import printable

if TYPE_CHECKING:
    import rich.progress

    from adaptrag_cli.evaluation.results import Result
    from adaptrag_cli.index.build import BuildProgress

_PLAIN_SECONDS = 30.0


@contextmanager
def watching_evaluation(
    clock: Callable[[], float] = time.monotonic, *, counted: str = "answers"
) -> Iterator[EvaluationWatcher]:
    """Give what `evaluate` reports to; bars on a terminal, else a plain line twice a minute."""
    with ExitStack() as stack:
        watcher = EvaluationWatcher(stack, clock, counted)
        watcher.interruption = stack.enter_context(cancelling_on_interrupt(watcher.cancel))
        yield watcher


class EvaluationWatcher:
    """A `Watcher` of the command line."""

    def __init__(self, stack: ExitStack, clock: Callable[[], float], counted: str = "answers") -> None:
        self._stack = stack
        self._clock = clock
        self._counted = counted
        self._building = ExitStack()
        self._show_build: Callable[[BuildProgress], None] | None = None
        self._cancel: Callable[[], None] = lambda: None
        self._bar: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None
        self._total = self._before = self._done = 0
        self._started = self._said = 0.0
        self.interruption: Interruption | None = None

    def note(self, text: str) -> None:
        """Tell what takes time."""
        self._end_build()
        say(printable(text))

    def indexing(self, progress: BuildProgress) -> None:
        """Show an index being built."""
        if self._show_build is None:
            self._show_build = self._building.enter_context(showing_build())
        self._show_build(progress)

    def began(self, total: int, done: int) -> None:
        """Show how much there is to do."""
        self._total, self._before, self._done = total, done, done
        if done:
            say(f"{done:,} of {total:,} {self._counted} were there already")

    def answered(self, result: Result) -> None:
        """Count one answer."""
        self.advance(f"{result.set} {result.strategy}")

    def advance(self, what: str) -> None:
        """Count one more, and show what it is."""
        self._end_build()
        if not self._started:
            self._start()
        self._done += 1
        what = printable(what)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done, detail=what)
        elif self._clock() - self._said >= _PLAIN_SECONDS or self._done == self._total:
            self._said = self._clock()
            say(f"{self._done:,} of {self._total:,} {self._counted}, about {_span(self.seconds_left)} left ({what})")

    @property
    def seconds_left(self) -> float:
        """By the pace of this call: what was there before took no time now."""
        new = self._done - self._before
        return (self._clock() - self._started) / max(1, new) * (self._total - self._done)

    def should_stop(self) -> bool:
        return self.interruption is not None and self.interruption.is_requested

    def cancels(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel

    def cancel(self) -> None:
        """Stop what the model computes. Safe from any thread."""
        self._cancel()

    def _start(self) -> None:
        self._started = self._said = self._clock()
        if not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[detail]}", markup=False),
        )
        console = Console(stderr=True, markup=False, highlight=False)
        self._bar = self._stack.enter_context(Progress(*columns, console=console, speed_estimate_period=600))
        self._task = self._bar.add_task("", total=self._total, completed=self._done, detail="")

    def _end_build(self) -> None:
        if self._show_build is not None:
            self._building.close()
            self._show_build = None


def _span(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if minutes < 1 else f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"
