"""Write the text of a document piece by piece, with its places."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from adaptrag_cli.documents.base import Document, Heading, Page
from adaptrag_cli.documents.encoding import normalise_newlines, repair
from adaptrag_cli.documents.folder import SourceFile


class TextBuilder:
    """Collects lines, headings and pages of a document whose text is extracted, not read raw."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._lines: list[int] = []
        self._pages: list[Page] = []
        self._headings: list[Heading] = []
        self._notes: list[str] = []

    @property
    def length(self) -> int:
        """Characters so far."""
        return self._length

    @property
    def headings(self) -> tuple[Heading, ...]:
        return tuple(self._headings)

    def add(self, text: str, line: int = 0) -> None:
        """Append text and a newline; `line` is the place in the source of its first line, the others count on."""
        text = normalise_newlines(text).rstrip()
        self._lines.extend(range(line, line + text.count("\n") + 1) if line else [0] * (text.count("\n") + 1))
        self._write(text + "\n")

    def add_at(self, text: str, line: int) -> None:
        """Append text whose lines all stand in one line of the source (a field with escaped newlines)."""
        text = normalise_newlines(text).rstrip()
        self._lines.extend([line] * (text.count("\n") + 1))
        self._write(text + "\n")

    def blank(self) -> None:
        """Append an empty line, unless one is there or nothing is."""
        if self._parts and self._parts[-1] != "\n":
            self._lines.append(self._lines[-1])
            self._write("\n")

    def heading(self, level: int, title: str, line: int = 0) -> None:
        """Append a heading as its own paragraph."""
        title = " ".join(title.split())
        if title:
            self.blank()
            self.mark_heading(level, title, self._length)
            self.add(title, line)
            self.blank()

    def mark_heading(self, level: int, title: str, start: int) -> None:
        """Note a heading whose text is already there or is about to come."""
        self._headings.append(Heading(level=level, title=repair(" ".join(title.split()))[0], start=start))

    def note(self, text: str) -> None:
        self._notes.append(text)

    @contextmanager
    def page(self, label: str) -> Iterator[None]:
        """Everything added inside is one page."""
        start = self._length
        yield
        if self._length > start:
            self._pages.append(Page(label=label, start=start, end=self._length))

    def build(self, file: SourceFile, title: str, *, lines_label: str = "", format: str = "text") -> Document:
        """Make the document; places are pages if there are any, else lines if they are known."""
        text, repairs = repair("".join(self._parts))
        known = not self._pages and any(self._lines)
        return Document(
            name=file.name,
            source=file.name,
            title=repair(" ".join(title.split()))[0] or stem(file.name),
            text=text,
            pages=tuple(self._pages),
            headings=tuple(sorted(self._headings, key=lambda h: h.start)),
            first_line=0,
            lines=tuple(self._lines) if known else (),
            lines_label=lines_label if known else "",
            format=format,
            notes=(*self._notes, *repairs),
        )

    def _write(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)


def stem(name: str) -> str:
    """The file's own name without folder and suffix: the title of a document that has none."""
    base = name.rsplit("/", 1)[-1]
    return base.rsplit(".", 1)[0] or base
