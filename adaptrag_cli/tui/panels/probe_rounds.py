"""What probers read from the model's states: a row for each round, with two bars for each layer, sums and outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual import events
from textual.containers import VerticalScroll
from textual.content import Content

from adaptrag_cli.events import LayerLogits, ProbeMeasured
from adaptrag_cli.tui.panels.line import Line

_RETRIEVE, _STOP, _QUIET = "$text-warning", "$text-success", "$foreground-muted"
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_NO_NUMBER = "?"
_LABEL = 6
"""Cells before the first layer."""
_LOOK_UP, _END = "look it up", "stop"
_WIDEST, _NARROWEST, _TIGHTEST = 6, 3, 2
"""Cells of a layer: at most, at least beside the sums, and at least."""
_MOST_ROWS = 3
_HEAD_ROWS = 2


class _Shape(NamedTuple):
    """How the rounds are laid out."""

    pitch: int
    """Cells of a layer."""
    layers: int
    """How many of the last layers are shown."""
    is_stacked: bool
    """The sums stand below the bars."""
    has_outcome: bool
    """The sums are put into words, too."""
    rows: int
    """Height of a bar."""
    has_gaps: bool
    """A blank line stands between two rounds."""


class ProbeRounds(VerticalScroll, can_focus=False):
    """Grows round by round; the newest stays in sight."""

    DEFAULT_CSS = """
    ProbeRounds {
        display: none;
        height: 1fr;
        min-height: 4;
        scrollbar-size-vertical: 1;
        Line { text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._probes: list[ProbeMeasured] = []
        self._line = Line()

    def compose(self) -> list[Line]:
        return [self._line]

    @property
    def count(self) -> int:
        """How many rounds there were."""
        return len(self._probes)

    def clear(self) -> None:
        """Forget them."""
        self._probes = []

    def take(self, probe: ProbeMeasured) -> None:
        """A round was probed."""
        self._probes.append(probe)

    def draw(self) -> None:
        """Show all rounds."""
        self.display = self.can_focus = bool(self._probes)
        if self._probes:
            self._line.tell(drawn(self._probes, self.scrollable_content_region.width, self.size.height))
            self.scroll_end(animate=False)

    def on_resize(self, event: events.Resize) -> None:
        self.draw()


def drawn(probes: Sequence[ProbeMeasured], width: int, height: int) -> Content:
    """Lay the rounds out in so many cells and rows."""
    layers = max((probe.layers for probe in probes), key=len)  # a round without states has none
    shape = _shape(probes, width, height)
    logits = [value for probe in probes for layer in probe.layers for value in (layer.retrieve, layer.stop)]
    known = [value for value in logits if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    lines = [_legend(low, high, is_all_known=len(known) == len(logits)), _head(layers, shape)]
    for probe in probes:
        lines += [Content()] if shape.has_gaps and probe is not probes[0] else []
        lines += _round(probe, shape, low, high)
    return Content("\n").join(lines)


def _shape(probes: Sequence[ProbeMeasured], width: int, height: int) -> _Shape:
    count = max(len(probe.layers) for probe in probes) or 1
    room, rows = width - _LABEL, height - _HEAD_ROWS
    sums = max(len(_sums(probe)) for probe in probes) + 1
    outcome = len(_LOOK_UP) + 2
    pitch, is_stacked, has_outcome = (room - sums - outcome) // count, False, True
    if pitch < _NARROWEST and rows < 2 * len(probes) and (room - sums) // count >= _NARROWEST:
        pitch, has_outcome = (room - sums) // count, False
    elif pitch < _NARROWEST:
        pitch, is_stacked = max(room // count, _TIGHTEST), True
    pitch = min(pitch, _WIDEST)
    each = rows // len(probes) - is_stacked
    return _Shape(
        pitch=pitch,
        layers=min(count, max(room // pitch, 1)),
        is_stacked=is_stacked,
        has_outcome=has_outcome,
        rows=max(min(each - 1, _MOST_ROWS), 1),
        has_gaps=each > _TIGHTEST,
    )


def _legend(low: float, high: float, *, is_all_known: bool) -> Content:
    unknown = "" if is_all_known else f"; {_NO_NUMBER}: no number"
    return Content.assemble(
        ("each layer: ", _QUIET),
        ("left retrieve", _RETRIEVE),
        (", ", _QUIET),
        ("right stop", _STOP),
        (f"; logits from {low:.2f} to {high:.2f}{unknown}", _QUIET),
    )


def _head(layers: Sequence[LayerLogits], shape: _Shape) -> Content:
    """The numbers of the layers, as many as there is room for."""
    every = 1 if shape.pitch >= _NARROWEST else 2
    shown = layers[len(layers) - shape.layers :]
    numbers = "".join(f"{layer.layer:<{every * shape.pitch}}" for layer in shown[::every])
    hidden = len(layers) - len(shown)
    return Content.styled(f"{'layer':<{_LABEL}}{numbers}{f'  (and {hidden} before)' if hidden else ''}", _QUIET)


def _round(probe: ProbeMeasured, shape: _Shape, low: float, high: float) -> list[Content]:
    outcome = (f"  {_LOOK_UP}", f"bold {_RETRIEVE}") if probe.retrieve else (f"  {_END}", f"bold {_STOP}")
    sums = Content.assemble(_sums(probe), *([outcome] if shape.has_outcome or not probe.comparison else []))
    shown = probe.layers[len(probe.layers) - shape.layers :]
    lines = []
    for row in reversed(range(shape.rows)):
        label = f"{probe.round:>{_LABEL - 2}}  " if row == 0 else " " * _LABEL
        pairs = [_pair(layer, shape, row, low, high) for layer in shown]
        missing = " " * ((shape.layers - len(shown)) * shape.pitch + 1)
        end = Content.assemble(missing, sums) if row == 0 and not shape.is_stacked else Content()
        lines.append(Content.assemble(label, *pairs, end))
    return [*lines, Content.assemble(" " * _LABEL, sums)] if shape.is_stacked else lines


def _pair(layer: LayerLogits, shape: _Shape, row: int, low: float, high: float) -> Content:
    """One row, counted from below, of the two bars of a layer; the higher bar has its colour."""
    cells = max((shape.pitch - 1) // 2, 1)
    is_ahead = None if layer.retrieve is None or layer.stop is None else layer.retrieve > layer.stop
    bars = [
        (_bar(value, shape.rows, row, low, high) * cells, f"bold {style}" if is_higher else _QUIET)
        for value, style, is_higher in (
            (layer.retrieve, _RETRIEVE, is_ahead is True),
            (layer.stop, _STOP, is_ahead is False),
        )
    ]
    return Content.assemble(*bars, " " * (shape.pitch - 2 * cells))


def _bar(value: float | None, rows: int, row: int, low: float, high: float) -> str:
    if value is None:
        return _NO_NUMBER if row == 0 else " "
    most = len(_EIGHTHS) - 1
    share = (value - low) / (high - low) if high > low else 0.0
    level = 1 + round(share * (most * rows - 1))
    return _EIGHTHS[min(max(level - most * row, 0), most)]


def _sums(probe: ProbeMeasured) -> str:
    return probe.comparison or ("no number" if probe.layers else "no state to read")
