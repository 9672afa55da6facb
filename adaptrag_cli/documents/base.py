"""What a loader returns and what the chunker makes of it."""

from __future__ import annotations

from dataclasses import dataclass

from adaptrag_cli.errors import DocumentError


class TransientDocumentError(DocumentError):
    """What kept the document from being read may be gone next time, though its bytes are the same."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """One page (PDF), slide (PPTX) or chapter (EPUB) of a document, as a character span of its text."""

    label: str
    """As it is cited: `p. 3`, `slide 4`, `chapter 2`, `cell 7`."""
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Heading:
    """A heading that opens at `start` and holds until the next of the same or a higher level."""

    level: int
    title: str
    start: int


@dataclass(frozen=True, kw_only=True)
class Document:
    """The text of one document and the places inside it. Newlines are `\\n`, the text is valid Unicode."""

    name: str
    """Path relative to the indexed folder with `/`, or the `id` of a JSONL line."""
    source: str
    """The file it came from, relative to the indexed folder."""
    title: str
    text: str
    pages: tuple[Page, ...] = ()
    """Empty when the document is cited by lines."""
    headings: tuple[Heading, ...] = ()
    first_line: int = 1
    """Line of `source` on which `text` starts (a JSONL line number); 0 when lines mean nothing in `source`."""
    lines: tuple[int, ...] = ()
    """Place in `source` of each line of `text`, when it is not `first_line` and counting (HTML, tables, JSONL)."""
    lines_label: str = ""
    """What `lines` counts when it is not lines of `source`: `par.` for the paragraphs of a DOCX file."""
    format: str = "text"
    """How `text` is cut: `markdown` (its own marks), `code` (at lines), `text`."""
    notes: tuple[str, ...] = ()
    """What was repaired on reading, such as `decoded as cp1252` or `12 lone surrogates replaced`."""


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A piece of a document: what is indexed, retrieved and cited."""

    chunk_id: str
    """`document#n`, n from 0."""
    document: str
    source: str
    title: str
    """Document title and heading path, joined by ` > `; may be empty."""
    text: str
    start: int
    """Character span in the document's text."""
    end: int
    line_start: int | None
    line_end: int | None
    page: str | None

    @property
    def location(self) -> str:
        """The place as it is cited: `handbook.pdf p. 3`, `notes.md:41-58`."""
        if self.page:
            return f"{self.source} {self.page}"
        if self.line_start is None:
            return self.source
        if self.line_end is None or self.line_end == self.line_start:
            return f"{self.source}:{self.line_start}"
        return f"{self.source}:{self.line_start}-{self.line_end}"

    def text_to_embed(self, *, body_only: bool) -> str:
        """Title and body as one text, or the body alone (as in DTR's released code)."""
        return self.text if body_only or not self.title else f"{self.title}\n{self.text}"
