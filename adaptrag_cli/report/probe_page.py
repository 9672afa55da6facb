"""A prober's tables and figures as one HTML page, made like the report's."""

from __future__ import annotations

from collections.abc import Sequence

from adaptrag_cli import __version__
from adaptrag_cli.html_figures import element, note
from adaptrag_cli.report.figure import Figure
from adaptrag_cli.report.page import captioned, contents, figures_section, section, standalone_page
from adaptrag_cli.report.probe_tables import Section


def probe_page(title: str, parts: Sequence[Section], figures: Sequence[Figure]) -> str:
    """Return the page."""
    tables = (
        piece for part in parts for piece in (captioned(part.title, part.table), *(note(text) for text in part.notes))
    )
    main = element(
        "main",
        element("h1", title),
        contents([("prober", "The prober")], figures),
        section("prober", "The prober", *tables),
        figures_section(figures),
    )
    return standalone_page(title, main, f"Made by adaptrag-cli {__version__}.")
