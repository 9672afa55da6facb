"""Texts that must fit a number of cells."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

_ELLIPSIS = "…"


def cut_end(text: str, width: int) -> str:
    """A title or sentence in at most `width` cells; its beginning stays."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + _ELLIPSIS if width > 0 else ""


def cut_middle(text: str, width: int) -> str:
    """A place or path in at most `width` cells; both its ends stay readable."""
    if cell_len(text) <= width:
        return text
    if width < 4:
        return set_cell_size(text, max(width, 0))
    tail_width = (width - 1) * 2 // 3
    tail = text
    while cell_len(tail) > tail_width:
        tail = tail[1:]
    return set_cell_size(text, width - 1 - cell_len(tail)).rstrip() + _ELLIPSIS + tail


def filled(text: str, width: int) -> str:
    """Exactly `width` cells, cut or filled up."""
    return set_cell_size(cut_end(text, width), width)
