"""Jupyter notebooks: each cell is a page, its text outputs included."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from adaptrag_cli.documents.base import Document
from adaptrag_cli.documents.builder import TextBuilder
from adaptrag_cli.documents.encoding import decode, normalise_newlines
from adaptrag_cli.documents.folder import SourceFile
from adaptrag_cli.documents.text import markdown_headings
from adaptrag_cli.errors import DocumentError

_MAX_OUTPUT = 2000
"""Characters of one output; a training log would drown the cell that made it."""


def load_notebook(file: SourceFile) -> Document:
    """Read a notebook (formats 3 and 4).

    Raises:
        DocumentError: not JSON, or without cells.
    """
    decoded = decode(file.path.read_bytes())
    try:
        content = json.loads(decoded.text, strict=False)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"not valid notebook: {error}") from error
    builder = TextBuilder()
    for note in decoded.notes:
        builder.note(note)
    for number, cell in enumerate(_cells(content), start=1):
        with builder.page(f"cell {number}"):
            _write_cell(builder, cell)
    first = next((h.title for h in builder.headings), "")
    return builder.build(file, first, format="code")


def _cells(content: Any) -> Iterator[dict[str, Any]]:
    sheets = content.get("worksheets", [content]) if isinstance(content, dict) else None
    if not isinstance(sheets, list) or not all(
        isinstance(s, dict) and isinstance(s.get("cells"), list) for s in sheets
    ):
        raise DocumentError("not valid notebook: no cells")
    for sheet in sheets:
        for cell in sheet["cells"]:
            yield cell if isinstance(cell, dict) else {}


def _write_cell(builder: TextBuilder, cell: dict[str, Any]) -> None:
    source = normalise_newlines(_joined(cell.get("source", cell.get("input")))).strip("\n")
    kind = cell.get("cell_type")
    if source.strip():
        start = builder.length
        if kind == "markdown":
            for heading in markdown_headings(source):
                builder.mark_heading(heading.level, heading.title, start + heading.start)
        elif kind == "heading":  # format 3
            level = cell.get("level")
            builder.mark_heading(level if isinstance(level, int) else 1, source, start)
        builder.add(source)
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else []:
        text = _output_text(output).strip()
        if text:
            builder.add(text if len(text) <= _MAX_OUTPUT else f"{text[:_MAX_OUTPUT]} ...")


def _output_text(output: Any) -> str:
    if not isinstance(output, dict):
        return ""
    data = output.get("data")
    return _joined(data.get("text/plain") if isinstance(data, dict) else output.get("text"))


def _joined(source: Any) -> str:
    """A multi-line string, which the format also allows to be a list of lines."""
    if isinstance(source, list):
        return "".join(part for part in source if isinstance(part, str))
    return source if isinstance(source, str) else ""
