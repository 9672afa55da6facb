"""Tables with what is to be said of them, and the HTML page that holds such tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adaptrag_cli import __version__
from adaptrag_cli.html_figures import element, note
from adaptrag_cli.report.figure import Figure, Table
from adaptrag_cli.report.page import captioned, contents, figures_section, section, standalone_page


@dataclass(frozen=True, kw_only=True)
class Section:
    """A table with what is to be said of it."""

    title: str
    table: Table
    notes: tuple[str, ...] = ()


def sections_page(title: str, heading: str, parts: Sequence[Section], figures: Sequence[Figure]) -> str:
    """Return the page: the tables under one heading, then the figures."""
    tables = (
        piece for part in parts for piece in (captioned(part.title, part.table), *(note(text) for text in part.notes))
    )
    main = element(
        "main",
        element("h1", title),
        contents([("numbers", heading)], figures),
        section("numbers", heading, *tables),
        figures_section(figures),
    )
    return standalone_page(title, main, f"Made by adaptrag-cli {__version__}.")
