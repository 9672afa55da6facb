"""Plain text that grows at its end: wrapped at words, drawn line by line.

Appending costs what is appended, however much stands there already, and only lines in sight are drawn. The text may be
anybody's: it is made harmless here and never read as markup.
"""

from __future__ import annotations

import re
from itertools import pairwise

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from adaptrag_cli.terminal import printable

Run = tuple[str, str]
"""A text and the name of its style."""
Line = tuple[Run, ...]

_TAB = 4
_WORDS = re.compile(r"\S+\s*|\s+")
_GUTTER = "▌ "


class FlowingText(Widget):
    """As high as its lines; put it into something that scrolls, with a stable scrollbar gutter.

    Styles: `strong`, `marker`, `dim`, `unjudged` (may turn out otherwise), `chunk` (a block of whole lines, marked at
    the left edge where `has_gutter` leaves room for it).
    """

    COMPONENT_CLASSES = {  # noqa: RUF012 - declared so by Textual
        f"flowing-text--{name}" for name in ("strong", "marker", "dim", "unjudged", "chunk", "edge")
    }
    DEFAULT_CSS = """
    FlowingText {
        width: 1fr;
        height: auto;
        & > .flowing-text--strong { text-style: bold; }
        & > .flowing-text--marker { color: $text-accent; text-style: bold; }
        & > .flowing-text--dim { color: $text-muted; }
        & > .flowing-text--unjudged { color: $text-muted; text-style: italic; }
        & > .flowing-text--chunk { background: $primary 20%; }
        & > .flowing-text--edge { color: $text-accent; }
    }
    """

    def __init__(self, *, has_gutter: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._gutter = cell_len(_GUTTER) if has_gutter else 0
        self._runs: list[Run] = []
        self._lines: list[Line] = [()]
        self._room = 0
        """Cells that the lines were wrapped for; 0 before they were."""
        self._laid_out = -1
        """Rows that the screen has given it."""
        self._kept = 0
        """Runs that `rewind` leaves."""
        self._kept_lines: tuple[int, Line] = (0, ())
        """Lines before the one that the kept runs end in, and that one."""
        self._chunk: tuple[int, int] | None = None
        """First and last line of the chunk; None until it is asked for."""

    @property
    def has_text(self) -> bool:
        return bool(self._runs)

    @property
    def lines(self) -> list[str]:
        """What stands on the screen, line by line."""
        return ["".join(text for text, _ in line) for line in self._lines]

    def clear(self) -> None:
        """Start anew."""
        self._runs.clear()
        self._lines = [()]
        self._kept, self._kept_lines = 0, (0, ())
        self._change()

    def append(self, text: str, style: str = "") -> None:
        """Add text behind what there is."""
        text = printable(text, keep_newlines=True).expandtabs(_TAB)
        if text:
            self._runs.append((text, style))
            self._flow(text, style)
            self._change()

    def keep(self) -> None:
        """Let `rewind` come back to this point."""
        self._kept = len(self._runs)
        self._keep_lines()

    def rewind(self) -> None:
        """Take back what was appended since `keep`."""
        del self._runs[self._kept :]
        count, last = self._kept_lines
        self._lines[count:] = [last]
        self._change()

    def _change(self) -> None:
        self._chunk = None
        grows = self._room == 0 or self._height() != self._laid_out
        self.refresh(layout=grows)  # within its last line it keeps its height

    def lines_of(self, style: str) -> tuple[int, int] | None:
        """The first line that holds text of this style, and the last."""
        found = [number for number, line in enumerate(self._lines) if any(name == style for _, name in line)]
        return (found[0], found[-1]) if found else None

    def height_for(self, width: int) -> int:
        """Rows it takes in so many columns."""
        self._wrap(width)
        return self._height()

    def _height(self) -> int:
        return len(self._lines) if self.has_text else 0

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        self._laid_out = self.height_for(width)
        return self._laid_out

    def _wrap(self, width: int) -> None:
        room = max(1, width - self._gutter)
        if room == self._room:
            return
        self._room, self._chunk, runs, kept = room, None, self._runs, self._kept
        self._lines = [()]
        for number, (text, style) in enumerate(runs):
            if number == kept:
                self._keep_lines()
            self._flow(text, style)
        if kept == len(runs):
            self._keep_lines()

    def _keep_lines(self) -> None:
        self._kept_lines = len(self._lines) - 1, self._lines[-1]

    def _flow(self, text: str, style: str) -> None:
        if not self._room:
            return
        for number, part in enumerate(text.split("\n")):
            if number:
                self._lines.append(())
            if part:
                self._lines[-1:] = _wrapped((*self._lines[-1], (part, style)), self._room)

    def render_line(self, y: int) -> Strip:
        self._wrap(self.size.width)
        if y >= len(self._lines):
            return Strip.blank(self.size.width, self.rich_style)
        line, segments, position = self._lines[y], [], 0
        is_in_chunk = self._is_in_chunk(y)
        if self._gutter:
            segments.append(Segment(_GUTTER if is_in_chunk else " " * self._gutter, self._style("edge")))
        for text, name in self._with_selection(line, y):
            segments.append(Segment(text, self._style(name) + Style.from_meta({"offset": (position, y)})))
            position += len(text)
        ground = self._style("chunk") if is_in_chunk and self._gutter else self.rich_style
        return Strip(segments).adjust_cell_length(self.size.width, ground)

    def _is_in_chunk(self, y: int) -> bool:
        if self._chunk is None:
            self._chunk = self.lines_of("chunk") or (0, -1)
        return self._chunk[0] <= y <= self._chunk[1]

    def _style(self, name: str) -> Style:
        if name == "selected":
            return self.screen.get_component_rich_style("screen--selection")
        return self.get_visual_style(f"flowing-text--{name}").rich_style if name else self.rich_style

    def _with_selection(self, line: Line, y: int) -> Line:
        """The line with what the mouse has selected in its own style."""
        selection = self.text_selection
        span = selection.get_span(y) if selection is not None else None
        if span is None:
            return line
        length = sum(len(text) for text, _ in line)
        start, end = span[0], length if span[1] == -1 else span[1]
        before, chosen, after = _divide(line, [0, min(start, length), min(end, length), length])
        return (*before, *((text, "selected") for text, _ in chosen), *after)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        return selection.extract("\n".join(line.rstrip() for line in self.lines)), "\n"


def _wrapped(line: Line, room: int) -> list[Line]:
    text = "".join(text for text, _ in line)
    return _divide(line, [0, *_breaks(text, room), len(text)])


def _breaks(text: str, room: int) -> list[int]:
    """Where new lines begin. White space hangs over the edge, and a word longer than a line is cut."""
    breaks: list[int] = []
    used = 0
    for match in _WORDS.finditer(text):
        word = match.group().rstrip()
        size = cell_len(word)
        if used and used + size > room:
            breaks.append(match.start())
            used = 0
        if size > room:
            position, *pieces = match.start(), *chop_cells(word, room)
            for piece in pieces[:-1]:
                position += len(piece)
                breaks.append(position)
            size = cell_len(pieces[-1])
        used += size + cell_len(match.group()[len(word) :])
    return breaks


def _divide(line: Line, offsets: list[int]) -> list[Line]:
    """Cut a line at these offsets, of which the first and the last are its ends."""
    divided: list[Line] = []
    for start, end in pairwise(offsets):
        runs, position = [], 0
        for text, style in line:
            part = text[max(0, start - position) : max(0, end - position)]
            if part:
                runs.append((part, style))
            position += len(text)
        divided.append(tuple(runs))
    return divided
