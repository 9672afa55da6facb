"""Where a document may be cut: its pages, its sections, and the lines to cite."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from adaptrag_cli.documents.base import Chunk, Document


@dataclass(frozen=True, kw_only=True)
class Section:
    """A span of the text under one heading path."""

    start: int
    end: int
    level: int
    """Of its heading; 0 before the first one."""
    path: tuple[str, ...]


def page_spans(document: Document) -> Iterator[tuple[str | None, int, int]]:
    """Yield label and span of each page, and what lies between pages; the whole text when there are none."""
    at = 0
    for page in sorted(document.pages, key=lambda p: p.start):
        if page.start > at:
            yield None, at, page.start
        yield page.label, max(page.start, at), page.end
        at = max(page.end, at)
    if at < len(document.text):
        yield None, at, len(document.text)


def sections(document: Document) -> tuple[Section, ...]:
    """Cut the text at its headings; empty sections are left out, their headings stay in the paths below."""
    found: list[Section] = []
    stack: list[tuple[int, str]] = []
    headings = sorted(document.headings, key=lambda h: h.start)
    bounds = [0, *(h.start for h in headings), len(document.text)]
    level = 0
    for i, (start, end) in enumerate(pairwise(bounds)):
        if i:
            level = headings[i - 1].level
            stack = [(n, title) for n, title in stack if n < level]
            stack.append((level, headings[i - 1].title))
        if start < end:
            found.append(Section(start=start, end=end, level=level, path=tuple(title for _, title in stack)))
    return tuple(found)


def within(found: Sequence[Section], start: int, end: int) -> list[Section]:
    """The parts of the sections that lie in a span."""
    first = max(bisect_right([s.start for s in found], start) - 1, 0)
    clipped = []
    for section in found[first:]:
        if section.start >= end:
            break
        a, b = max(section.start, start), min(section.end, end)
        if a < b:
            clipped.append(Section(start=a, end=b, level=section.level, path=section.path))
    return clipped


def common_path(group: Sequence[Section]) -> tuple[str, ...]:
    """The headings that all sections of a group stand under."""
    shared = group[0].path
    for section in group[1:]:
        length = next((i for i, (a, b) in enumerate(zip(shared, section.path, strict=False)) if a != b), None)
        shared = shared[: min(len(shared), len(section.path)) if length is None else length]
    return shared


def is_bare(text: str) -> bool:
    """Whether a section is nothing but its heading: at most one line with a word."""
    return sum(any(c.isalnum() for c in line) for line in text.split("\n")) <= 1


class Places:
    """Makes chunks out of spans, with the place to cite."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._newlines = [match.start() for match in re.finditer("\n", document.text)]

    def chunk(self, number: int, title: str, start: int, end: int, page: str | None) -> Chunk:
        """Make chunk `number` of the document from a span of its text."""
        lines = None if page else self._lines(start, end)
        if lines and self._document.lines_label:
            first, last = lines
            page = f"{self._document.lines_label} {first}" + (f"-{last}" if last > first else "")
            lines = None
        return Chunk(
            chunk_id=f"{self._document.name}#{number}",
            document=self._document.name,
            source=self._document.source,
            title=title,
            text=self._document.text[start:end],
            start=start,
            end=end,
            line_start=lines[0] if lines else None,
            line_end=lines[1] if lines else None,
            page=page,
        )

    def _lines(self, start: int, end: int) -> tuple[int, int] | None:
        """First and last line of a span in the source, or None where lines mean nothing."""
        first, last = bisect_right(self._newlines, start - 1), bisect_right(self._newlines, end - 2)
        if self._document.lines:
            known = [n for n in self._document.lines[first : last + 1] if n]
            return (min(known), max(known)) if known else None
        if not self._document.first_line:
            return None
        return self._document.first_line + first, self._document.first_line + last
