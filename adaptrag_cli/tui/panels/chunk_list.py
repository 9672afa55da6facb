"""Chunks as one search path found them: a list to walk through, each with place, score and a snippet."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from pathlib import PurePath

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from adaptrag_cli.events import RankedChunk
from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.fitting import cut_end, cut_middle
from adaptrag_cli.tui.messages import ChunkOpened
from adaptrag_cli.tui.panels.snippet import search_terms, snippet

_QUIET = "$foreground-muted"
_BOTH = "both"
_LEAST_TITLE = 24
"""In cells: what a heading needs to stand on the line of its place."""
_MOST_LINES = 4
_HEAD_LINES = 2


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a list shows."""

    chunks: Sequence[RankedChunk] = ()
    query_text: str = ""
    """The text that was searched for: words it shares with a chunk are marked."""
    in_both: Set[str] = field(default_factory=frozenset)
    """Ids of the chunks that the other path found, too."""


class ChunkList(OptionList):
    """Enter or a click asks for the chunk in its document."""

    DEFAULT_CSS = """
    ChunkList {
        width: 100%;
        background: transparent;
        scrollbar-size-vertical: 1;
        & > .option-list--option-highlighted {
            background: $primary 15%; color: $foreground; text-style: none;
        }
        &:focus {
            background-tint: transparent;
            & > .option-list--option-highlighted {
                background: $primary 40%; color: $foreground; text-style: none;
            }
        }
    }
    """

    def __init__(self) -> None:
        super().__init__(compact=True, markup=False)
        self._found = Found()
        self._shape = (0, 0)

    @property
    def found(self) -> Found:
        """What is shown."""
        return self._found

    def show(self, found: Found) -> None:
        """Show other chunks; the highlight stays on its chunk when that is still there."""
        if found == self._found:
            return
        chosen = self._chosen_id()
        self._found = found
        self._draw(chosen)

    def on_resize(self, event: events.Resize) -> None:
        if self._shape != self._new_shape():
            self._draw(self._chosen_id())

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        message.stop()
        self.post_message(ChunkOpened(self._found.chunks[message.option_index]))

    def _chosen_id(self) -> str | None:
        chunks, chosen = self._found.chunks, self.highlighted
        return None if chosen is None or chosen >= len(chunks) else chunks[chosen].chunk_id

    def _new_shape(self) -> tuple[int, int]:
        """Cells in a line, and lines of a snippet."""
        share = self.size.height // max(len(self._found.chunks), 1) - _HEAD_LINES
        return self.scrollable_content_region.width, min(max(share, 1), _MOST_LINES)

    def _draw(self, chosen: str | None) -> None:
        self._shape = self._new_shape()
        width, lines = self._shape
        if width < 1:
            return  # drawn when the list gets its place
        terms = search_terms(self._found.query_text)
        self.set_options(
            Option(_entry(chunk, terms, width, lines, is_in_both=chunk.chunk_id in self._found.in_both))
            for chunk in self._found.chunks
        )
        ids = [chunk.chunk_id for chunk in self._found.chunks]
        self.highlighted = (ids.index(chosen) if chosen in ids else 0) if ids else None


def _entry(chunk: RankedChunk, terms: Set[str], width: int, lines: int, *, is_in_both: bool) -> Content:
    numbers = f"{chunk.rank:>2}  {chunk.score:6.3f}  "
    mark = _BOTH if is_in_both else " " * len(_BOTH)
    place = printable(chunk.location)
    indent = " " * (len(f"{chunk.rank:>2}") + 2)
    room = width - len(numbers + mark) - 2
    title = _title(chunk)
    head = Content.assemble(
        numbers, (mark, "bold reverse" if is_in_both else ""), "  ", (cut_middle(place, room), "bold")
    )
    rows = [head]
    beside = room - cell_len(place) - 2
    if title and beside >= min(_LEAST_TITLE, cell_len(title)):
        rows = [Content.assemble(head, ("  " + cut_end(title, beside), _QUIET))]
    elif title:
        rows.append(Content.styled(indent + cut_end(title, width - len(indent)), _QUIET))
    rows += [indent + line for line in snippet(chunk.text, terms, width=width - len(indent), lines=lines)]
    return Content("\n").join(rows)


def _title(chunk: RankedChunk) -> str:
    """Its heading; empty where that is only the name of the file, which the place tells."""
    title = printable(" ".join(chunk.title.split()))
    return "" if title == PurePath(chunk.document).stem else title
