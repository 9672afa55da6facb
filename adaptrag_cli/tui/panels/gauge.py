"""A bar of the uncertainty on a scale from 0, with the threshold marked."""

from __future__ import annotations

import math

from textual import events
from textual.content import Content
from textual.widget import Widget

from adaptrag_cli.tui.messages import ThresholdMoved

_EIGHTHS = " ▏▎▍▌▋▊▉"
_STEPS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


def scale_of(uncertainty: float | None, threshold: float | None) -> float:
    """The end of the scale: twice the threshold, u, or 1 nat, whatever is most, rounded up to a plain number."""
    most = max(2 * (threshold or 0.0), uncertainty or 0.0, 1.0)
    power = 10.0 ** math.floor(math.log10(most))
    return next((step * power for step in _STEPS if step * power >= most - 1e-9), 10 * power)


class Gauge(Widget):
    """The mark of u, the bar (as high as there is room), the mark of the threshold, and the ends of the scale.

    A click asks for the threshold at that place.
    """

    DEFAULT_CSS = """
    Gauge { height: 4; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._uncertainty: float | None = None
        self._threshold: float | None = None
        self._labels = ("", "")
        self._unit = ""

    def display_values(
        self,
        uncertainty: float | None,
        threshold: float | None,
        *,
        labels: tuple[str, str] = ("", ""),
        unit: str = " nats",
    ) -> None:
        """Show both values with the words that stand at their marks; None leaves one out."""
        self._uncertainty, self._threshold, self._labels, self._unit = uncertainty, threshold, labels, unit
        self.refresh()

    @property
    def scale(self) -> float:
        """The value at the right end."""
        return scale_of(self._uncertainty, self._threshold)

    def render(self) -> Content:
        width = max(self.size.width, 2)
        u, threshold = self._cell(self._uncertainty), self._cell(self._threshold)
        rows = max(self.size.height - 3, 1)
        end = f"{self.scale:.1f}{self._unit}"
        return Content("\n").join(
            [
                _marked(u, "▼", self._labels[0], width),
                *(self._bar(width, "─" if row == rows // 2 else " ") for row in range(rows)),
                _marked(threshold, "▲", self._labels[1], width),
                Content.styled(f"0{end:>{width - 1}}", "$foreground-muted"),
            ]
        )

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and self._threshold is not None:
            self.post_message(ThresholdMoved(self.value_at(offset.x)))

    def value_at(self, cell: int) -> float:
        """The threshold at a place, to two decimals."""
        return round(self.scale * min(cell / max(self.size.width - 1, 1), 1.0), 2)

    def _cell(self, value: float | None) -> int | None:
        """The place of a value; the first and the last cell stand for the ends of the scale."""
        return None if value is None else round(min(max(value / self.scale, 0.0), 1.0) * (self.size.width - 1))

    def _bar(self, width: int, track: str) -> Content:
        filled = min(max((self._uncertainty or 0.0) / self.scale, 0.0), 1.0) * (width - 1)
        whole = int(filled)
        part = _EIGHTHS[int(8 * (filled - whole))].strip()
        is_above = self._threshold is not None and (self._uncertainty or 0.0) > self._threshold
        style = "$text-warning" if is_above else "$text-success"
        bar = Content.assemble(("█" * whole + part, style), (track * (width - whole - len(part)), "$foreground-muted"))
        place = self._cell(self._threshold)
        if place is None:
            return bar
        return Content.assemble(bar[:place], ("┃", "bold reverse" if place < whole else "bold"), bar[place + 1 :])


def _marked(cell: int | None, mark: str, label: str, width: int) -> Content:
    """A mark at its cell with the label beside it, on the side where there is room."""
    if cell is None:
        return Content(label)
    has_room = cell + 2 + len(label) <= width
    return Content.styled(f"{' ' * cell}{mark} {label}" if has_room else f"{label:>{max(cell - 1, 0)}} {mark}", "bold")
