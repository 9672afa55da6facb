"""What a new generation can take over from the one that answers: rows, word counts, vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.documents.base import Chunk
from adaptrag_cli.index.generation import StoredDocument, StoredSource
from adaptrag_cli.index.local import LocalStore
from adaptrag_cli.index.manifest import Recipe, UnreadFile

OldRow = tuple[bytes | Chunk, bytes, int]
"""A chunk, as it stands on disk or moved; its text key; its row."""
DocumentKey = tuple[str, str, int]
"""File, id inside it, and how many documents before it in that file had the same id."""


def keyed(source: str, ids: Iterable[str]) -> Iterator[DocumentKey]:
    """Keys of the documents of one file, in order."""
    seen: Counter[str] = Counter()
    for document_id in ids:
        yield source, document_id, seen[document_id]
        seen[document_id] += 1


class Previous:
    """The generation that answers now, as far as the new recipe lets it be reused."""

    def __init__(self, store: LocalStore, recipe: Recipe, *, may_reuse: bool) -> None:
        """Read what is stored.

        Raises:
            IndexCorrupt: the catalogue of documents is damaged.
        """
        self.store = store
        self.may_reuse = may_reuse
        self.has_same_rows = may_reuse and store.manifest.recipe == recipe
        self.has_same_vectors = may_reuse and store.encoder == recipe.encoder
        self.sources = {source.name: source for source in store.catalogue()}
        self.keys = store.text_keys

    @cached_property
    def documents(self) -> dict[DocumentKey, StoredDocument]:
        """Every document by its key."""
        return {
            key: document
            for source in self.sources.values()
            for key, document in zip(
                keyed(source.name, (d.id for d in source.documents)), source.documents, strict=True
            )
        }

    @cached_property
    def row_of_text(self) -> dict[bytes, int]:
        """Row of each embedded text, if the vectors are comparable."""
        return {key: row for row, key in enumerate(self.keys)} if self.has_same_vectors else {}

    def source(self, name: str, sha256: str) -> StoredSource | None:
        """The same file with the same bytes, if its rows can be taken over."""
        found = self.sources.get(name) if self.has_same_rows else None
        return found if found is not None and found.sha256 == sha256 else None

    def unread(self, name: str, sha256: str) -> UnreadFile | None:
        """The same file with the same bytes, if it gave no document and would not now."""
        found = self.store.manifest.unread.get(name) if self.has_same_rows else None
        return found if found is not None and found.sha256 == sha256 else None

    def document(self, key: DocumentKey, digest: str) -> StoredDocument | None:
        """The same document with the same content, if its rows can be taken over."""
        found = self.documents.get(key) if self.has_same_rows else None
        return found if found is not None and found.digest == digest else None

    def rows(self, document: StoredDocument, *, name: str, first_line: int) -> Iterator[OldRow]:
        """Chunks of an unchanged document with their text keys and rows; moved when its name or line has moved."""
        moved_by = first_line - document.first_line
        for row in range(document.row, document.row + document.rows):
            chunk: bytes | Chunk = self.store.chunk_line(row)
            if moved_by or name != document.name:
                chunk = _moved(self.store.chunk(row), name, moved_by)
            yield chunk, self.keys[row], row

    def vectors(self, keys: Sequence[bytes]) -> NDArray[np.float32]:
        """Stored vectors of texts, shape (len(keys), dimension)."""
        return self.store.vectors([self.row_of_text[key] for key in keys])


def _moved(chunk: Chunk, name: str, moved_by: int) -> Chunk:
    return replace(
        chunk,
        chunk_id=name + chunk.chunk_id[len(chunk.document) :],
        document=name,
        line_start=None if chunk.line_start is None else chunk.line_start + moved_by,
        line_end=None if chunk.line_end is None else chunk.line_end + moved_by,
    )
