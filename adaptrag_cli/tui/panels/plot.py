"""textual-plot's widget, made fit for terminals without colours."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Grid
from textual.strip import Strip
from textual_hires_canvas import Canvas
from textual_plot import PlotWidget
from textual_plot.plot_widget import Legend


class _Canvas(Canvas):
    def render_line(self, y: int) -> Strip:
        # A line beyond the canvas (before it has its size) comes without a style, and Textual's filter for NO_COLOR
        # takes only styled text.
        return super().render_line(y).apply_style(self.rich_style)


class Plot(PlotWidget, can_focus=False):
    """A plot to look at: it takes no focus, and neither pans nor zooms."""

    DEFAULT_CSS = """
    Plot {
        & > .plot--axis { color: $foreground-muted; }
        & > .plot--tick { color: $foreground-muted; text-style: none; }
        & > .plot--label { color: $foreground-muted; text-style: none; }
    }
    """

    def __init__(self) -> None:
        super().__init__(allow_pan_and_zoom=False)

    def compose(self) -> ComposeResult:
        """Compose what `PlotWidget` does, with canvases that always give a style."""
        with Grid():
            for part in ("margin-top", "margin-left", "plot", "margin-bottom"):
                yield _Canvas(1, 1, id=part)
        yield Legend(id="legend")
