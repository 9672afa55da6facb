"""Entropy over the tokens as bars; over them what a method measures of the words, its threshold, and the cuts."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from time import monotonic

from textual.timer import Timer
from textual_plot import HiResMode, NumericAxisFormatter

from adaptrag_cli.events import TokenGenerated, WordMeasured
from adaptrag_cli.palette import shade
from adaptrag_cli.tui.panels.plot import Plot

_LEAST_SECONDS = 0.5
"""Between two drawings beside a running model: one costs about 25 ms of the processor that the model needs."""
_FIRST_LABEL = 6
"""Columns from the middle of the first number to where the next may stand."""
_LEAST_TOKENS = 16
_PLAIN = {True: "#5c6b76", False: "#9aa4ab"}
"""Bars of tokens that are plain in the text, on dark and on light."""
_MARK = {True: "bold #ffffff", False: "bold #000000"}
_TREND = {True: "#5fd7ff", False: "#005f87"}
_DIFFERENCE = {True: "#d7af5f", False: "#875f00"}
_CUT = {True: "#ff8787", False: "#af0000"}
_GONE = {True: "#3a444b", False: "#d0d6da"}
"""Bars of tokens that were discarded."""
FIRST_MARK, SECOND_MARK = "•", "×"


class Peaks:
    """The largest value of each of at most `limit` runs of equal length, so that no peak is lost in a narrow chart.

    `size` says what is large: `abs` where sharp drops count as much as rises.

    When the runs are used up, neighbours are merged: a value costs constant time on average.
    """

    def __init__(self, limit: int, size: Callable[[float], float] = float) -> None:
        self.limit = limit
        self._size = size
        self.length = 1
        """Tokens in a run."""
        self.values: list[float | None] = []

    def add(self, step: int, value: float) -> None:
        """Take the value of a token."""
        while step // self.length >= self.limit:
            self.values = [self._larger(self.values[i : i + 2]) for i in range(0, len(self.values), 2)]
            self.length *= 2
        run = step // self.length
        self.values += [None] * (run + 1 - len(self.values))
        self.values[run] = self._larger((self.values[run], value))

    def _larger(self, values: Sequence[float | None]) -> float | None:
        return max((value for value in values if value is not None), key=self._size, default=None)

    def points(self) -> tuple[list[float], list[float]]:
        """The middle of each run that has a value, with tokens counted from 1, and the values."""
        known = [(run, value) for run, value in enumerate(self.values) if value is not None]
        return [run * self.length + (self.length + 1) / 2 for run, _ in known], [value for _, value in known]


class EntropyChart(Plot):
    """Bars in nats over the number of the token, with a mark at the pointed token.

    Of watched words it shows the first and the second difference as marks, and as a line the value that is held against
    the threshold; a line from top to bottom is where the text was cut.
    """

    def __init__(self) -> None:
        super().__init__()
        self._entropies: list[float] = []
        self._words: list[tuple[int, WordMeasured]] = []
        """With the token that a word ends with."""
        self._calls: list[int] = []
        """The token with which each call begins: no line leads from one to the next."""
        self._cuts: list[tuple[int, int]] = []
        """The first discarded token, and the one after the last."""
        self._thresholds: tuple[float, ...] = ()
        """Two, one below 0, where the size of a value counts whatever its sign."""
        self._rebin(1)
        self._mark: int | None = None
        self._drawn_at = -math.inf
        self._timer: Timer | None = None

    def on_mount(self) -> None:
        self.margin_left, self.margin_top, self.margin_bottom = 8, 0, 1
        self.set_x_formatter(_TokenNumbers())
        self.set_y_formatter(_Nats())

    def forget(self) -> None:
        """Show nothing."""
        self._entropies, self._words, self._calls, self._cuts = [], [], [], []
        self._thresholds, self._mark = (), None
        self._rebin(self._columns)
        self.draw()

    @property
    def has_differences(self) -> bool:
        """Whether a word has a first or second difference."""
        return bool(self._firsts.values or self._seconds.values)

    @property
    def has_two_thresholds(self) -> bool:
        """Whether sharp drops are held against a threshold of their own, below 0."""
        return len(self._thresholds) == 2

    def add(self, tokens: Sequence[TokenGenerated], words: Sequence[WordMeasured] = ()) -> None:
        """Take what came; it is drawn now, or when half a second has passed since the last drawing.

        Words count their tokens from the beginning of the call that was begun last.
        """
        for token in tokens:
            self._peaks.add(len(self._entropies), token.entropy)
            self._entropies.append(token.entropy)
        start = self._calls[-1] if self._calls else 0
        for word in words:
            self._words.append((start + word.step, word))
            self._add_word(start + word.step, word)
            self._thresholds = _thresholds(word)
        self._draw_soon()

    def begin_call(self) -> None:
        """What comes is of another call."""
        self._calls.append(len(self._entropies))

    def discard(self, first: int) -> None:
        """The tokens from this one on do not count any more."""
        self._cuts.append((first, len(self._entropies)))
        self._draw_soon()

    def _draw_soon(self) -> None:
        wait = self._drawn_at + _LEAST_SECONDS - monotonic()
        if wait <= 0:
            self.draw()
        elif self._timer is None:
            self._timer = self.set_timer(wait, self.draw)

    def mark(self, step: int | None) -> None:
        """Mark the pointed token."""
        if step != self._mark:
            self._mark = step
            self.draw()

    def settle(self) -> None:
        """Draw now what waits to be drawn."""
        if self._timer is not None:
            self.draw()

    def draw(self) -> None:
        """Draw what is known."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._drawn_at = monotonic()
        dark = self.app.current_theme.dark
        self.clear()
        self._draw_bars(dark)
        self._draw_words(dark)
        for first, _ in self._cuts:
            self.add_v_line(first + 0.5, line_style=_CUT[dark])
        self._set_scales(dark)

    def on_resize(self) -> None:
        """Use the width there is."""
        if self._columns != self._peaks.limit:
            self._rebin(self._columns)
            self.draw()

    def notify_style_update(self) -> None:
        """Draw anew in the colours of another theme."""
        super().notify_style_update()
        if self.is_attached and self._entropies:
            self.draw()

    @property
    def _columns(self) -> int:
        return max(self.size.width - self.margin_left - 2, 1)

    def _rebin(self, limit: int) -> None:
        self._peaks = Peaks(limit)
        self._firsts, self._seconds, self._values = (Peaks(limit, abs) for _ in range(3))
        for step, entropy in enumerate(self._entropies):
            self._peaks.add(step, entropy)
        for step, word in self._words:
            self._add_word(step, word)

    def _add_word(self, step: int, word: WordMeasured) -> None:
        series = (
            (self._firsts, word.first_difference),
            (self._seconds, word.second_difference),
            (self._values, word.value),
        )
        for peaks, value in series:
            if value is not None:
                peaks.add(step, value)

    def _draw_bars(self, dark: bool) -> None:
        middles, heights = self._peaks.points()
        if middles:
            styles = [shade(height, dark=dark).background or _PLAIN[dark] for height in heights]
            for first, end in self._cuts:
                first, end = (math.ceil(edge / self._peaks.length) for edge in (first, end))
                styles[first:end] = [_GONE[dark]] * (min(end, len(styles)) - first)
            if self._mark is not None:
                styles[self._mark // self._peaks.length] = _MARK[dark]
            width = float(self._peaks.length)
            self.bar(middles, heights, width=width, bar_style=styles, hires_mode=HiResMode.HALFBLOCK)

    def _draw_words(self, dark: bool) -> None:
        if not self._thresholds:
            return
        for threshold in self._thresholds:
            self.plot([0.5, self._last + 0.5], [threshold] * 2, line_style=_MARK[dark], hires_mode=HiResMode.BRAILLE)
        for steps, values in self._lines():
            self.plot(steps, values, line_style=f"bold {_TREND[dark]}", hires_mode=HiResMode.BRAILLE)
        for peaks, mark in ((self._firsts, FIRST_MARK), (self._seconds, SECOND_MARK)):
            steps, values = peaks.points()
            if steps:
                self.scatter(steps, values, marker=mark, marker_style=_DIFFERENCE[dark])

    def _lines(self) -> Iterator[tuple[list[float], list[float]]]:
        """The values of each call."""
        points = zip(*self._values.points(), strict=True)
        for _, group in groupby(points, key=lambda point: bisect(self._calls, point[0] - 1)):
            steps, values = zip(*group, strict=True)
            yield list(steps), list(values)

    @property
    def _last(self) -> int:
        return max(len(self._entropies), _LEAST_TOKENS)

    @property
    def _all_peaks(self) -> tuple[Peaks, ...]:
        return self._peaks, self._firsts, self._seconds, self._values

    def _set_scales(self, dark: bool) -> None:
        values = [value for peaks in self._all_peaks for value in peaks.points()[1]]
        top = float(math.ceil(max((*values, *self._thresholds, 1.0))))
        bottom = float(math.floor(min((*values, *self._thresholds, 0.0))))
        self.set_xlimits(0.5, self._last + 0.5)
        self.set_ylimits(bottom, top)
        rows = max(self.size.height - self.margin_bottom - 2, 1)
        every = math.ceil((top - bottom) / max(rows // 2, 1))
        self.set_yticks([tick * every + bottom for tick in range(int((top - bottom) // every) + 1)])
        ticks = NumericAxisFormatter().get_ticks(1, self._last)
        free_from = 1 + _FIRST_LABEL * self._last / self._columns
        self.set_xticks([1.0, *(tick for tick in ticks if tick.is_integer() and tick > free_from)])
        if self._mark is not None:
            below_the_frame = top - 0.5 * (top - bottom) / rows
            self.scatter([self._mark + 1.0], [below_the_frame], marker="▼", marker_style=_MARK[dark])


def _thresholds(word: WordMeasured) -> tuple[float, ...]:
    if word.threshold is None:
        return ()
    return (word.threshold, -word.threshold) if word.is_absolute else (word.threshold,)


class _TokenNumbers(NumericAxisFormatter):
    """The first number says what is counted."""

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        return [f"token {tick:.0f}" if not number else f"{tick:,.0f}" for number, tick in enumerate(ticks)]


class _Nats(NumericAxisFormatter):
    """The highest number has the unit."""

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        return [f"{tick:.0f}{' nats' if tick == ticks[-1] else ''}" for tick in ticks]
