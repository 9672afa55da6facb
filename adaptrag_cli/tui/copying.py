"""What leaves the interface: traces, pages, pictures, text."""

from __future__ import annotations

import re
from pathlib import Path

from adaptrag_cli.html_page import html_page
from adaptrag_cli.pages import PICTURE_MARK, write_page
from adaptrag_cli.render import talk_lines
from adaptrag_cli.run_summary import RunSummary
from adaptrag_cli.terminal import printable
from adaptrag_cli.trace import TraceWriter
from adaptrag_cli.tui.record import Record

_START_TAG = re.compile(r"<svg\b[^>]*>")
_FONT_FACES = re.compile(r"@font-face\s*{[^}]*}\s*")


def save_trace(record: Record, path: Path) -> None:
    """Write the events of a run; an earlier trace is replaced, and nothing else.

    Raises:
        AdaptRAGError: the file cannot be written, or is no trace.
    """
    with TraceWriter(path) as writer:
        for event in record.events:
            writer.write(event)


def save_page(record: Record, path: Path) -> None:
    """Write the run as a page.

    Raises:
        ConfigError: the file cannot be written, or is no page of ours.
    """
    run = record.summary
    if run is not None:
        write_page(path, html_page(run, unconsulted=record.unconsulted_summary))


def save_picture(picture: str, path: Path) -> None:
    """Write the picture of a screen, as Textual draws it, so that it fetches nothing when it is opened.

    Raises:
        ConfigError: the file cannot be written, or is no picture of ours.
    """
    write_page(path, _START_TAG.sub(rf"\g<0>\n    {PICTURE_MARK}", without_remote_fonts(picture), count=1))


def without_remote_fonts(picture: str) -> str:
    """The picture of a screen as Textual draws it, but fetching nothing when it is opened.

    Without the font that it names, a viewer takes its own monospaced one.
    """
    return _FONT_FACES.sub("", picture).replace("Fira Code,", "Fira Code, Cascadia Mono, Menlo, DejaVu Sans Mono,")


def answer_with_sources(run: RunSummary) -> str:
    """The question, the answer and everything said of it, to paste elsewhere."""
    answer = run.finished.answer if run.finished else ""
    lines = (run.started.query, "", answer, "", *talk_lines(run))
    return "\n".join(printable(line, keep_newlines=True) for line in lines)
