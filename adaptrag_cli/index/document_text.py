"""Put the text of a document together again from its chunks, so that one of them can be read where it stands.

The file itself may have changed or be gone; the index tells what was read. Chunks cover everything but white space, so
only that is made up: what lies between two chunks becomes as many spaces and newlines, and offsets stay true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from adaptrag_cli.documents.base import Chunk
from adaptrag_cli.errors import IndexNotFound
from adaptrag_cli.index.generation import StoredDocument
from adaptrag_cli.index.local import LocalStore


@dataclass(frozen=True, kw_only=True)
class DocumentText:
    """A window of a document's text about one chunk."""

    document: str
    source: str
    """The file, relative to the indexed folder."""
    location: str
    """Place of the chunk, as it is cited."""
    title: str
    text: str
    start: int
    """Where `text` begins in the document."""
    chunk_start: int
    """Span of the chunk in `text`."""
    chunk_end: int
    is_cut_before: bool
    """Whether the document has text before `text` that was left out."""
    is_cut_after: bool

    @property
    def chunk_text(self) -> str:
        """The chunk as it stands in the document."""
        return self.text[self.chunk_start : self.chunk_end]


def read_document(store: LocalStore, chunk_id: str, *, around: int = 40_000) -> DocumentText:
    """Read the chunk's document: whole chunks, about `around` characters in all, half of them before the chunk.

    Reads the catalogue of documents and the rows of the window, nothing else.

    Raises:
        IndexNotFound: the index holds no such chunk.
        IndexCorrupt: the catalogue or a row is damaged.
    """
    document, row = _find(store, chunk_id)
    chunk = store.chunk(row)
    before = list(_walk(store.chunk, range(row - 1, document.row - 1, -1), lambda c: c.end > chunk.start - around // 2))
    rows_end = document.row + document.rows
    after = list(_walk(store.chunk, range(row + 1, rows_end), lambda c: c.start < chunk.end + around // 2))
    chunks = [*reversed(before), chunk, *after]
    start = chunks[0].start
    return DocumentText(
        document=document.name,
        source=chunk.source,
        location=chunk.location,
        title=chunk.title,
        text=join_chunks(chunks),
        start=start,
        chunk_start=chunk.start - start,
        chunk_end=chunk.end - start,
        is_cut_before=len(before) < row - document.row,
        is_cut_after=len(after) < rows_end - row - 1,
    )


def _find(store: LocalStore, chunk_id: str) -> tuple[StoredDocument, int]:
    name, _, number = chunk_id.rpartition("#")
    for source in store.catalogue():
        for document in source.documents:
            if document.name == name and number.isdecimal() and int(number) < document.rows:
                return document, document.row + int(number)
    raise IndexNotFound(
        f"index {store.name!r} holds no chunk {chunk_id!r}", "it was made anew since: ask the question again"
    )


def _walk(read: Callable[[int], Chunk], rows: range, is_near: Callable[[Chunk], bool]) -> Iterator[Chunk]:
    """Chunks row by row, for as long as they reach into the window."""
    for row in rows:
        chunk = read(row)
        if not is_near(chunk):
            return
        yield chunk


def join_chunks(chunks: Sequence[Chunk]) -> str:
    """Lay neighbouring chunks of a document over each other where they overlap, and fill what lies between them."""
    parts = [chunks[0].text]
    for before, chunk in pairwise(chunks):
        if chunk.start > before.end:
            parts.append(_white_space(before, chunk))
        parts.append(chunk.text[max(0, before.end - chunk.start) :])
    return "".join(parts)


def _white_space(before: Chunk, after: Chunk) -> str:
    """As long as what the chunker trimmed: a space within a line, else a line's end or an empty line."""
    length = after.start - before.end
    if length == 1 and before.line_end is not None and before.line_end == after.line_start:
        return " "
    newlines = min(length, 2)
    return " " * (length - newlines) + "\n" * newlines
