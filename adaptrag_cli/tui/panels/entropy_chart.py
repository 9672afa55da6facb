"""Entropy over the tokens as bars, and what a method measures of the words as a line with its threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
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


class Peaks:
    """The largest value of each of at most `limit` runs of equal length, so that no peak is lost in a narrow chart.

    When the runs are used up, neighbours are merged: a value costs constant time on average.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.length = 1
        """Tokens in a run."""
        self.values: list[float | None] = []

    def add(self, step: int, value: float) -> None:
        """Take the value of a token."""
        while step // self.length >= self.limit:
            self.values = [_larger(self.values[i : i + 2]) for i in range(0, len(self.values), 2)]
            self.length *= 2
        run = step // self.length
        self.values += [None] * (run + 1 - len(self.values))
        self.values[run] = _larger((self.values[run], value))

    def points(self) -> tuple[list[float], list[float]]:
        """The middle of each run that has a value, with tokens counted from 1, and the values."""
        known = [(run, value) for run, value in enumerate(self.values) if value is not None]
        return [run * self.length + (self.length + 1) / 2 for run, _ in known], [value for _, value in known]


def _larger(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


class EntropyChart(Plot):
    """Bars in nats over the number of the token, with a mark at the pointed token."""

    def __init__(self) -> None:
        super().__init__()
        self._entropies: list[float] = []
        self._trend: list[tuple[int, float]] = []
        self._trend_threshold: float | None = None
        self._peaks = Peaks(1)
        self._trend_peaks = Peaks(1)
        self._mark: int | None = None
        self._drawn_at = -math.inf
        self._timer: Timer | None = None

    def on_mount(self) -> None:
        self.margin_left, self.margin_top, self.margin_bottom = 8, 0, 1
        self.set_x_formatter(_TokenNumbers())
        self.set_y_formatter(_Nats())

    def forget(self) -> None:
        """Show nothing."""
        self._entropies, self._trend, self._trend_threshold, self._mark = [], [], None, None
        self._rebin()
        self.draw()

    def add(self, events: Sequence[TokenGenerated | WordMeasured]) -> None:
        """Take what came; it is drawn now, or when half a second has passed since the last drawing."""
        for event in events:
            if isinstance(event, TokenGenerated):
                self._peaks.add(len(self._entropies), event.entropy)
                self._entropies.append(event.entropy)
            elif event.value is not None:
                self._trend.append((event.step, event.value))
                self._trend_threshold = event.threshold
                self._trend_peaks.add(event.step, event.value)
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
        self._draw_trend(dark)
        self._set_scales(dark)

    def on_resize(self) -> None:
        """Use the width there is."""
        if self._columns != self._peaks.limit:
            self._rebin()
            self.draw()

    def notify_style_update(self) -> None:
        """Draw anew in the colours of another theme."""
        super().notify_style_update()
        if self.is_attached and self._entropies:
            self.draw()

    @property
    def _columns(self) -> int:
        return max(self.size.width - self.margin_left - 2, 1)

    def _rebin(self) -> None:
        self._peaks, self._trend_peaks = Peaks(self._columns), Peaks(self._columns)
        for step, entropy in enumerate(self._entropies):
            self._peaks.add(step, entropy)
        for step, value in self._trend:
            self._trend_peaks.add(step, value)

    def _draw_bars(self, dark: bool) -> None:
        middles, heights = self._peaks.points()
        if middles:
            styles = [shade(height, dark=dark).background or _PLAIN[dark] for height in heights]
            if self._mark is not None:
                styles[self._mark // self._peaks.length] = _MARK[dark]
            width = float(self._peaks.length)
            self.bar(middles, heights, width=width, bar_style=styles, hires_mode=HiResMode.HALFBLOCK)

    def _draw_trend(self, dark: bool) -> None:
        middles, values = self._trend_peaks.points()
        if middles and self._trend_threshold is not None:
            ends = [0.5, self._last + 0.5]
            self.plot(ends, [self._trend_threshold] * 2, line_style=_MARK[dark], hires_mode=HiResMode.BRAILLE)
            self.plot(middles, values, line_style=f"bold {_TREND[dark]}", hires_mode=HiResMode.BRAILLE)

    @property
    def _last(self) -> int:
        return max(len(self._entropies), _LEAST_TOKENS)

    def _set_scales(self, dark: bool) -> None:
        values = [value for peaks in (self._peaks, self._trend_peaks) for value in peaks.points()[1]]
        top = float(math.ceil(max((*values, self._trend_threshold or 0.0, 1.0))))
        bottom = float(math.floor(min((*values, 0.0))))
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


class _TokenNumbers(NumericAxisFormatter):
    """The first number says what is counted."""

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        return [f"token {tick:.0f}" if not number else f"{tick:,.0f}" for number, tick in enumerate(ticks)]


class _Nats(NumericAxisFormatter):
    """The highest number has the unit."""

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        return [f"{tick:.0f}{' nats' if tick == ticks[-1] else ''}" for tick in ticks]
