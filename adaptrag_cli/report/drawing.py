"""A figure as plotly draws it: one panel for each question set or line, colours that hold on light and dark pages.

Texts are escaped, since plotly reads tags and entities in them. Colours of text and grid are the page's, which sets
them when it draws, so that one figure serves both.
"""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any

from adaptrag_cli.report.figure import Axis, Figure, Series
from adaptrag_cli.terminal import printable

if TYPE_CHECKING:
    import plotly.graph_objects as go

SERIES_COLOURS = ("#3d7fc9", "#d0712a", "#2f9468", "#a95fc0", "#c9525e", "#8a7d22", "#2f93a3", "#8d7360")
"""Each has a contrast of at least 3 to white and to the dark page (WCAG 2.1, 1.4.11)."""
_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "triangle-down", "cross", "star")
_MANY = 60
"""Points, from which they are drawn small."""
_MOST_COLUMNS = 3
_PANEL_HEIGHT = 300
_SINGLE_HEIGHT = 400
_MARGINS = 130
"""Pixels above and below the panels, for titles, axes and the legend."""


def drawn(figure: Figure) -> str:
    """The figure as JSON for plotly.js. `<` is escaped, so that it can stand inside a page."""
    plot = _polar(figure) if figure.is_polar else _flat(figure)
    return str(plot.to_json()).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def safe(text: str) -> str:
    """A text that plotly shows as it stands."""
    return html.escape(printable(text), quote=False)


def colour_of(number: int) -> str:
    """A colour; after the last one they begin again, with other symbols."""
    return SERIES_COLOURS[number % len(SERIES_COLOURS)]


def _grid(figure: Figure) -> tuple[int, int]:
    count = max(1, len(figure.panels))
    columns = 2 if count in {2, 4} else min(count, _MOST_COLUMNS)
    return math.ceil(count / columns), columns


def _flat(figure: Figure) -> go.Figure:
    from plotly.subplots import make_subplots

    rows, columns = _grid(figure)
    has_titles = len(figure.panels) > 1 and not figure.panel_titles
    plot = make_subplots(
        rows=rows,
        cols=columns,
        subplot_titles=[safe(panel) for panel in figure.panels] if has_titles else None,
        shared_yaxes=True,
        horizontal_spacing=0.045,
        vertical_spacing=min(0.5, 90 / (rows * _PANEL_HEIGHT)) if rows > 1 else 0.0,
    )
    _add_all(plot, figure, columns, is_polar=False)
    for at, panel in enumerate(figure.panels):
        row, column = divmod(at, columns)
        is_lowest = at + columns >= len(figure.panels)
        title = figure.panel_titles[at] if figure.panel_titles else figure.x.title if is_lowest else ""
        plot.update_xaxes(row=row + 1, col=column + 1, title={"text": safe(title), "standoff": 6}, **_scale(figure.x))
        y_title = safe(figure.y.title) if column == 0 else ""
        plot.update_yaxes(row=row + 1, col=column + 1, title={"text": y_title, "standoff": 8}, **_scale(figure.y))
        if figure.is_isometric:
            plot.update_yaxes(row=row + 1, col=column + 1, scaleanchor=f"x{at + 1 if at else ''}")
        if any(series.mark == "bars" for series in figure.series if series.panel == panel):
            plot.update_layout(barmode="group", bargap=0.25)
    _lay_out(plot, rows, columns)
    return plot


def _polar(figure: Figure) -> go.Figure:
    from plotly.subplots import make_subplots

    rows, columns = _grid(figure)
    plot = make_subplots(
        rows=rows,
        cols=columns,
        specs=[[{"type": "polar"}] * columns] * rows,
        subplot_titles=[safe(panel) for panel in figure.panels] if len(figure.panels) > 1 else None,
        horizontal_spacing=0.08,
        vertical_spacing=0.15 if rows > 1 else 0.0,
    )
    _add_all(plot, figure, columns, is_polar=True)
    plot.update_polars(
        angularaxis={"thetaunit": "degrees", "dtick": 45}, radialaxis={"angle": 0, "tickangle": 0, "nticks": 4}
    )
    _lay_out(plot, rows, columns, panel_height=420)
    plot.update_annotations(yshift=18)  # above the 90 degrees
    plot.update_layout(margin_t=64)
    return plot


def _lay_out(plot: go.Figure, rows: int, columns: int, *, panel_height: int | None = None) -> None:
    height = panel_height or (_SINGLE_HEIGHT if rows == columns == 1 else _PANEL_HEIGHT)
    plot.update_annotations(font_size=14)
    plot.update_layout(
        template="none",
        height=rows * height + _MARGINS,
        margin={"l": 64, "r": 16, "t": 32, "b": 64},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        legend={"orientation": "h", "yanchor": "top", "y": -64 / (rows * height), "x": 0.0, "xanchor": "left"},
        hovermode="closest",
        font={"size": 13},
    )


def _add_all(plot: go.Figure, figure: Figure, columns: int, *, is_polar: bool) -> None:
    named: set[str] = set()
    for series in figure.series:
        row, column = divmod(figure.panels.index(series.panel), columns)
        trace = _trace(series, is_polar=is_polar, in_legend=series.name not in named)
        named.add(series.name)
        plot.add_trace(trace, row=row + 1, col=column + 1)


def _trace(series: Series, *, is_polar: bool, in_legend: bool) -> Any:
    import plotly.graph_objects as go

    colour = colour_of(series.colour)
    common: dict[str, Any] = {
        "name": safe(series.name),
        "legendgroup": safe(series.name),
        "showlegend": in_legend,
        "hovertext": [safe(words) for words in series.words] or None,
    }
    if series.mark == "bars":
        return go.Bar(
            x=[safe(str(x)) for x in series.x],
            y=list(series.y),
            error_y=_errors(series, colour=None),
            marker={"color": colour},
            **common,
        )
    if series.mark == "cells":
        return _cells(series, common)
    places = {"theta": list(series.x), "r": list(series.y)} if is_polar else {"x": list(series.x), "y": list(series.y)}
    kind = go.Scatterpolar if is_polar else go.Scatter
    extra: dict[str, Any] = {} if is_polar else {"error_y": _errors(series, colour=colour)}
    if series.labels and not is_polar:
        extra["text"] = [safe(label) for label in series.labels]
        extra["textposition"] = _label_places(series)
    is_large = series.mark == "linked" or series.is_hollow or len(series.x) < _MANY
    modes = {"line": "lines", "dots": "markers", "linked": "lines+markers"}
    return kind(
        mode=modes[series.mark] + ("+text" if series.labels else ""),
        line={"color": colour, "dash": series.dash, "width": 2},
        marker={
            "color": colour,
            "size": 11 if len(series.x) == 1 else 8 if is_large else 5,
            "symbol": _SYMBOLS[series.colour % len(_SYMBOLS)] + ("-open" if series.is_hollow else ""),
            "opacity": 1.0 if is_large else 0.65,
        },
        **places,
        **extra,
        **common,
    )


def _cells(series: Series, common: dict[str, Any]) -> Any:
    """A row of a heat-map. Nothing is the page's own colour, so that it serves light and dark pages."""
    import plotly.graph_objects as go

    colour = colour_of(series.colour)
    clear = "rgba({}, {}, {}, 0)".format(*(int(colour[at : at + 2], 16) for at in (1, 3, 5)))
    return go.Heatmap(
        x=list(series.x),
        y=list(series.y),
        z=list(series.values),
        zmin=0.0,
        zmax=max(series.values, default=0.0) or 1.0,
        colorscale=[[0.0, clear], [1.0, colour]],
        showscale=False,
        hoverinfo="text",
        xgap=1,
        ygap=3,
        **common | {"showlegend": False},
    )


def _label_places(series: Series) -> list[str]:
    """Beside a front, which rises: below it on its left half, above it on its right, where no segment runs."""
    numbers = [float(x) for x in series.x]
    middle = (min(numbers) + max(numbers)) / 2
    return ["bottom right" if x <= middle else "top left" for x in numbers]


def _errors(series: Series, *, colour: str | None) -> dict[str, Any] | None:
    if not series.low:
        return None
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - y for y, high in zip(series.y, series.high, strict=True)],
        "arrayminus": [y - low for y, low in zip(series.y, series.low, strict=True)],
        "thickness": 1.4,
        "width": 4,
        **({"color": colour} if colour else {}),
    }


def _scale(axis: Axis) -> dict[str, Any]:
    settings: dict[str, Any] = {"zeroline": True, "showgrid": axis.scale != "category", "automargin": True}
    if axis.limits is not None:
        low, high = axis.limits
        margin = 0.02 * (high - low)
        settings["range"] = [low - margin, high + margin]
    if axis.rows:
        names = [safe(name) for name in axis.rows]
        settings |= {"tickmode": "array", "tickvals": list(range(len(names))), "ticktext": names, "zeroline": False}
    match axis.scale:
        case "log":
            return settings | {"type": "log", "dtick": "D2", "tickformat": "~g", "zeroline": False}
        case "category":
            return settings | {"type": "category"}
        case "percent":
            return settings | {"tickformat": ".0%"}
        case "gain":
            return settings | {"tickformat": "+.0%"}
        case "linear":
            return settings
