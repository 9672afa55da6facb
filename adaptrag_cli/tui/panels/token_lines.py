"""Tokens wrapped into lines. A new token touches the last line only, so that a long text costs no more than a short."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells

from adaptrag_cli.terminal import printable

NEWLINE_MARK = "↵"
_TAB = "    "
# Scripts without spaces break anywhere; everything else breaks at spaces.
_IDEOGRAPH = "\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_PIECES = re.compile(rf"\n| +|[{_IDEOGRAPH}]|[^\n {_IDEOGRAPH}]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """Part of a token that stands on one line."""

    token: int
    """Number of the token, from 0."""
    text: str
    start: int
    """In cells."""
    width: int
    joins: bool
    """Letters of a word: no line ends beside it."""

    @property
    def end(self) -> int:
        return self.start + self.width

    @property
    def is_blank(self) -> bool:
        return self.text.isspace()


class TokenLines:
    """Lines of at most `width` cells. The last column is kept for the space or newline that ends a line."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[list[Piece]] = []
        self._places: list[int | None] = []

    @property
    def tokens(self) -> int:
        """How many tokens were added, those without text included."""
        return len(self._places)

    def add(self, text: str) -> int:
        """Append a token; returns the number of the first line that changed."""
        if not self.lines:
            self.lines.append([])
        first_changed = len(self.lines) - 1
        token = len(self._places)
        self._places.append(None)
        for part in _PIECES.findall(printable(text, keep_newlines=True).replace("\t", _TAB)):
            self._place(token, part)
        return first_changed

    def place(self, token: int) -> int | None:
        """The line on which a token ends; None when it has no text."""
        return self._places[token]

    def at(self, line: int, cell: int) -> int | None:
        """The token that covers a cell."""
        if not 0 <= line < len(self.lines):
            return None
        return next((piece.token for piece in self.lines[line] if piece.start <= cell < piece.end), None)

    def neighbour(self, token: int, step: int) -> int | None:
        """The next token with a text, forwards (+1) or backwards (-1)."""
        return _first_where(range(token + step, len(self._places) if step > 0 else -1, step), self._places)

    def ends(self) -> tuple[int, int] | None:
        """The first and the last token with a text."""
        first = self.neighbour(-1, 1)
        last = self.neighbour(len(self._places), -1)
        return None if first is None or last is None else (first, last)

    def above(self, token: int, step: int) -> int | None:
        """The token above (-1) or below (+1): on the next line where one ends, nearest to the same cell."""
        line = self._places[token]
        if line is None:
            return None
        cell = max(piece.start for piece in self.lines[line] if piece.token == token)
        for number in range(line + step, len(self.lines) if step > 0 else -1, step):
            ending = [piece for piece in self.lines[number] if self._places[piece.token] == number]
            if ending:
                return min(ending, key=lambda piece: max(piece.start - cell, cell - piece.end + 1, 0)).token
        return None

    def _place(self, token: int, text: str) -> None:
        if text == "\n":
            if self._end() >= self.width:
                self.lines.append([])
            self._put(token, NEWLINE_MARK, joins=False)
            self.lines.append([])
            return
        is_space = text.startswith(" ")
        joins = not is_space and re.match(f"[{_IDEOGRAPH}]", text) is None
        room = self.width if is_space else max(self.width - 1, 1)
        if self._end() + cell_len(text) > room and self.lines[-1]:
            self._break_line(carry=joins)
        if self._end() + cell_len(text) <= room:
            self._put(token, text, joins=joins)
            return
        for part in chop_cells(text, room):
            if self.lines[-1]:
                self.lines.append([])
            self._put(token, part, joins=joins)

    def _break_line(self, *, carry: bool) -> None:
        """Begin a line, and take the beginning of the word there unless it fills its whole line."""
        line = self.lines[-1]
        start = len(line)
        while carry and start and line[start - 1].joins:
            start -= 1
        carried = line[start:] if start else []
        if carried:
            del line[start:]
        self.lines.append([])
        for piece in carried:
            self._put(piece.token, piece.text, joins=True)

    def _put(self, token: int, text: str, *, joins: bool) -> None:
        self.lines[-1].append(Piece(token=token, text=text, start=self._end(), width=cell_len(text), joins=joins))
        self._places[token] = len(self.lines) - 1

    def _end(self) -> int:
        return self.lines[-1][-1].end if self.lines[-1] else 0


def wrapped(texts: Iterable[str], width: int) -> TokenLines:
    """Wrap a whole text."""
    lines = TokenLines(width)
    for text in texts:
        lines.add(text)
    return lines


def _first_where(numbers: Iterable[int], places: Sequence[int | None]) -> int | None:
    return next((number for number in numbers if places[number] is not None), None)
