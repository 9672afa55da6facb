"""An index on this machine: FAISS for dense search, BM25 impacts for sparse search, chunks beside them.

Every file is mapped when the index is opened, and nothing is read before it is needed: opening takes milliseconds at
any size, and a reader keeps answering from its generation when a writer swaps in another and removes this one.
"""

from __future__ import annotations

import mmap
import tokenize
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.disk import sha256_of
from adaptrag_cli.documents.base import Chunk
from adaptrag_cli.errors import IndexCorrupt, IndexNotFound
from adaptrag_cli.index import generation as layout
from adaptrag_cli.index.chunk_file import ChunkReader
from adaptrag_cli.index.dense import DenseIndex
from adaptrag_cli.index.embedding_log import KEY_BYTES
from adaptrag_cli.index.freshness import compare_with_disk
from adaptrag_cli.index.manifest import (
    GENERATIONS,
    Current,
    Manifest,
    read_current,
    read_manifest,
    rebuild_hint,
)
from adaptrag_cli.index.sparse import SparseIndex, TermStatistics, TermTable
from adaptrag_cli.index.store import Freshness, Hit
from adaptrag_cli.index.tokeniser import tokenise
from adaptrag_cli.models.base import EncoderFingerprint

# What numpy raises on a damaged .npy header.
_BAD_ARRAY = (ValueError, TypeError, SyntaxError, EOFError, OverflowError, MemoryError, tokenize.TokenError)


class LocalStore:
    """One generation, opened for reading. Implements `Store`."""

    def __init__(self, folder: Path, current: Current, manifest: Manifest) -> None:
        """Map the files of a generation; compare their sizes and shapes, not their content.

        Raises:
            FileNotFoundError: a file is gone.
            IndexCorrupt: a file has another size or shape than the manifest says.
        """
        self.folder = folder
        self.current = current
        self.manifest = manifest
        self._home = folder / GENERATIONS / current.generation
        self._arrays = {name: self._map_array(name) for name in layout.ARRAYS}
        self._vector_data = self._map(layout.VECTORS)
        self._catalogue_data = self._map(layout.CATALOGUE)
        self._chunks = ChunkReader(self._map(layout.CHUNKS), self._arrays[layout.CHUNK_OFFSETS])
        self._check_shapes()

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def path(self) -> Path:
        return Path(self.manifest.path)

    @property
    def fingerprint(self) -> str:
        return self.manifest.fingerprint

    @property
    def encoder(self) -> EncoderFingerprint:
        return self.manifest.recipe.encoder

    @property
    def chunk_count(self) -> int:
        return self.manifest.chunks

    @property
    def body_only(self) -> bool:
        return self.manifest.recipe.body_only

    def chunk(self, row: int) -> Chunk:
        """The chunk of a row.

        Raises:
            IndexCorrupt: its line on disk is damaged.
        """
        try:
            return self._chunks[row]
        except (ValueError, TypeError) as error:
            raise self._corrupt(layout.CHUNKS, f"row {row} is damaged") from error

    def dense_search(self, vector: NDArray[np.float32], n: int) -> tuple[Hit, ...]:
        """The n rows with the largest inner product with `vector` (dimension,)."""
        return _hits(*self._dense.search(vector, n))

    def sparse_search(self, text: str, n: int) -> tuple[Hit, ...]:
        """The n rows with the largest positive BM25 score. An index of one or two chunks has none."""
        return _hits(*self._sparse.search(tokenise(text), n))

    def sparse_scores(self, text: str, rows: Sequence[int]) -> NDArray[np.float64]:
        """BM25 of some rows, by the statistics of all."""
        return self._sparse.scores(tokenise(text))[list(rows)]

    def vectors(self, rows: Sequence[int]) -> NDArray[np.float32]:
        """Stored unit vectors, shape (len(rows), dimension)."""
        return self._dense.vectors[np.asarray(rows, dtype=np.int64)]

    def freshness(self) -> Freshness:
        """Compare names, sizes and times of files with the manifest; reads only corpora that have changed."""
        return compare_with_disk(self.manifest, self.catalogue, avoid=self.folder.parent)

    def index_command(self, *, encoder: str | None = None) -> str:
        """The command that brings this very index up to date, or makes it with another encoder."""
        return self.manifest.index_command(encoder=encoder, index_dir=self.folder.parent)

    def verify(self) -> None:
        """Hash every file, then search with a stored vector and a stored chunk.

        Raises:
            IndexCorrupt: naming the file that is wrong.
        """
        for name, stored in self.manifest.stored.items():
            if sha256_of(self._home / name) != stored.sha256:
                raise self._corrupt(name, "fails its checksum")
        if not self.chunk_count:
            return
        row = self.chunk_count - 1
        best = self.dense_search(self.vectors([row])[0], 1)
        if not best or not np.isclose(best[0].score, 1.0, atol=1e-3):
            raise self._corrupt(layout.VECTORS, "does not find its own vector")
        self.sparse_search(self.chunk(row).text, 1)

    def chunk_line(self, row: int) -> bytes:
        """A chunk as it stands on disk."""
        return self._chunks.line(row)

    @property
    def text_keys(self) -> tuple[bytes, ...]:
        """Identity of each row's embedded text."""
        data = self._arrays[layout.TEXT_KEYS].tobytes()
        return tuple(data[i : i + KEY_BYTES] for i in range(0, len(data), KEY_BYTES))

    def catalogue(self) -> tuple[layout.StoredSource, ...]:
        """Files with their documents and rows, in row order.

        Raises:
            IndexCorrupt: the file is damaged.
        """
        try:
            return layout.decode_catalogue(self._catalogue_data[:])
        except ValueError as error:
            raise self._corrupt(layout.CATALOGUE, "is damaged") from error

    def statistics(self) -> TermStatistics:
        """Words of every row, for the next generation to take over."""
        return TermStatistics(
            terms=self._terms,
            row_offsets=self._arrays[layout.ROW_OFFSETS],
            row_terms=self._arrays[layout.ROW_TERMS],
            row_counts=self._arrays[layout.ROW_COUNTS],
        )

    @cached_property
    def _terms(self) -> TermTable:
        return TermTable(self._arrays[layout.TERMS], self._arrays[layout.TERM_OFFSETS])

    @cached_property
    def _sparse(self) -> SparseIndex:
        return SparseIndex(
            row_count=self.chunk_count,
            terms=self._terms,
            posting_offsets=self._arrays[layout.POSTING_OFFSETS],
            posting_rows=self._arrays[layout.POSTING_ROWS],
            posting_impacts=self._arrays[layout.POSTING_IMPACTS],
        )

    @cached_property
    def _dense(self) -> DenseIndex:
        try:
            return DenseIndex(self._vector_data, dimension=self.encoder.dimension, row_count=self.chunk_count)
        except ValueError as error:
            raise self._corrupt(layout.VECTORS, str(error)) from error

    def _map(self, name: str) -> mmap.mmap | bytes:
        with (self._home / name).open("rb") as file:
            size = file.seek(0, 2)
            if size != self.manifest.stored[name].size:
                raise self._corrupt(name, f"has {size} bytes, not {self.manifest.stored[name].size}")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""

    def _map_array(self, name: str) -> NDArray[Any]:
        self._map(name)
        try:
            array: NDArray[Any] = np.load(self._home / name, mmap_mode="r", allow_pickle=False)
        except _BAD_ARRAY as error:
            raise self._corrupt(name, "is not an array") from error
        # A memmap drags its file name along and is slow to slice; the plain view keeps it alive.
        return array.view(np.ndarray)

    def _check_shapes(self) -> None:
        rows, arrays = self.chunk_count, self._arrays
        words, postings = len(arrays[layout.TERM_OFFSETS]) - 1, len(arrays[layout.ROW_TERMS])
        expected = {
            layout.CHUNK_OFFSETS: (np.int64, (rows + 1,)),
            layout.TEXT_KEYS: (np.uint8, (rows, KEY_BYTES)),
            layout.TERMS: (np.uint8, (arrays[layout.TERMS].size,)),
            layout.TERM_OFFSETS: (np.int64, (words + 1,)),
            layout.ROW_OFFSETS: (np.int64, (rows + 1,)),
            layout.ROW_TERMS: (np.int32, (postings,)),
            layout.ROW_COUNTS: (np.int32, (postings,)),
            layout.POSTING_OFFSETS: (np.int64, (words + 1,)),
            layout.POSTING_ROWS: (np.int32, (postings,)),
            layout.POSTING_IMPACTS: (np.float64, (postings,)),
        }
        for name, (kind, shape) in expected.items():
            if arrays[name].dtype != kind or arrays[name].shape != shape:
                raise self._corrupt(name, f"holds {arrays[name].dtype} {arrays[name].shape}, not {shape}")

    def _corrupt(self, name: str, what: str) -> IndexCorrupt:
        return IndexCorrupt(f"{self._home / name} {what}", rebuild_hint(self.folder, self.manifest.path))


def _hits(rows: NDArray[np.int64], scores: NDArray[np.float64]) -> tuple[Hit, ...]:
    return tuple(Hit(row=row, score=score) for row, score in zip(rows.tolist(), scores.tolist(), strict=True))


def open_current(folder: Path) -> LocalStore:
    """Open the generation that answers.

    Raises:
        IndexNotFound: the folder holds no finished index.
        IndexStale, IndexCorrupt: it cannot be used.
    """
    missing = ""
    for _ in range(5):  # a writer may swap and remove between two of our steps
        current = read_current(folder)
        if current is None:
            raise IndexNotFound(f"no finished index in {folder}", "make one with: adaptrag index PATH")
        try:
            return LocalStore(folder, current, read_manifest(folder, current))
        except FileNotFoundError as error:
            missing = str(error.filename)
    raise IndexCorrupt(f"{missing} is missing", rebuild_hint(folder))
