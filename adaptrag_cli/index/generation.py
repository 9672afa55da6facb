"""Write one generation beside the one that answers, then swap.

NAME/CURRENT                       which generation answers
NAME/embedded-*.log                vectors of a run that is not finished
NAME/generations/gNNNNNN/          one finished generation
NAME/generations/gNNNNNN.partial/  one that is being written
"""

from __future__ import annotations

import hashlib
import json
import mmap
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.disk import replace_durably, sync_to_disk
from adaptrag_cli.documents.base import Chunk, Document
from adaptrag_cli.index.chunk_file import ChunkReader, ChunkWriter
from adaptrag_cli.index.dense import write_vectors
from adaptrag_cli.index.durable import DurableFile, write_array
from adaptrag_cli.index.embedding_log import KEY_BYTES
from adaptrag_cli.index.manifest import CURRENT, GENERATIONS, Current, Manifest, StoredFile, encode_manifest
from adaptrag_cli.index.sparse import StatisticsBuilder, TermStatistics, encode_terms

CHUNKS = "chunks.jsonl"
CHUNK_OFFSETS = "chunk_offsets.npy"
TEXT_KEYS = "text_keys.npy"
VECTORS = "vectors.faiss"
CATALOGUE = "documents.json"
TERMS = "terms.npy"
TERM_OFFSETS = "term_offsets.npy"
ROW_OFFSETS = "row_offsets.npy"
ROW_TERMS = "row_terms.npy"
ROW_COUNTS = "row_counts.npy"
POSTING_OFFSETS = "posting_offsets.npy"
POSTING_ROWS = "posting_rows.npy"
POSTING_IMPACTS = "posting_impacts.npy"
ARRAYS = (
    CHUNK_OFFSETS,
    TEXT_KEYS,
    TERMS,
    TERM_OFFSETS,
    ROW_OFFSETS,
    ROW_TERMS,
    ROW_COUNTS,
    POSTING_OFFSETS,
    POSTING_ROWS,
    POSTING_IMPACTS,
)
DATA_FILES = (CHUNKS, VECTORS, CATALOGUE, *ARRAYS)

_VECTOR_BLOCK = 4096


@dataclass(frozen=True, kw_only=True)
class StoredDocument:
    """A document of a generation and its rows."""

    id: str
    """The name that the loader gave."""
    name: str
    """The name in chunk ids: the id, with a number where another document has the same."""
    digest: str
    """Hash of everything that decides its chunks, except the line it starts on."""
    first_line: int
    row: int
    rows: int


@dataclass(frozen=True, kw_only=True)
class StoredSource:
    """A file of which at least one document is indexed."""

    name: str
    sha256: str
    """Empty when a part may be readable next time, so that the file is read again."""
    documents: tuple[StoredDocument, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    """Parts that were not indexed, each with its reason."""
    repaired: tuple[tuple[str, str], ...] = ()
    """Documents that were repaired on reading, each with what was done."""


def document_digest(document: Document) -> str:
    """Hash of all that decides a document's chunks, except the line it starts on, which only moves them."""
    content = asdict(document)
    for moved in ("name", "source", "first_line", "notes"):
        del content[moved]
    content["has_lines"] = document.first_line > 0
    content["lines"] = [line - document.first_line for line in document.lines]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode("ascii")).hexdigest()


def encode_catalogue(sources: Iterable[StoredSource]) -> bytes:
    """The catalogue as it is written."""
    return json.dumps([msgspec.to_builtins(source) for source in sources]).encode("ascii") + b"\n"


def decode_catalogue(data: bytes) -> tuple[StoredSource, ...]:
    """The catalogue as it was written."""
    return msgspec.convert(json.loads(data), tuple[StoredSource, ...])


@dataclass(kw_only=True)
class GenerationWriter:
    """Rows of a new generation, in order, in a folder that nobody reads yet."""

    folder: Path
    """The `.partial` folder."""
    statistics: StatisticsBuilder
    keys: list[bytes] = field(default_factory=list)
    sources: list[StoredSource] = field(default_factory=list)
    stored: dict[str, StoredFile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self._file = DurableFile(self.folder / CHUNKS)
        self._chunks = ChunkWriter(self._file)

    def add(self, chunk: Chunk, key: bytes, words: Sequence[str]) -> None:
        """Append a new row."""
        self.statistics.add(words)
        self._append(chunk, key)

    def copy(self, line: bytes | Chunk, key: bytes, row: int) -> None:
        """Append a row of the earlier generation, whose words are counted already: as it stood, or moved."""
        self.statistics.copy(row)
        self._append(line, key)

    def _append(self, chunk: bytes | Chunk, key: bytes) -> None:
        if isinstance(chunk, bytes):
            self._chunks.add_line(chunk)
        else:
            self._chunks.add(chunk)
        self.keys.append(key)

    def close_chunks(self) -> None:
        """End the first half: all rows are known."""
        with self._file:
            pass
        self._keep(self._file)
        self._array(CHUNK_OFFSETS, self._chunks.offsets)

    def read_chunks(self) -> ChunkReader:
        """Read back the rows, after `close_chunks`."""
        with (self.folder / CHUNKS).open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self.keys else b""
        return ChunkReader(data, self._chunks.offsets)

    def finish(self, dimension: int, vectors_of: Callable[[Sequence[bytes]], NDArray[np.float32]]) -> None:
        """Write everything else: vectors, words, catalogue."""
        blocks = (
            vectors_of(self.keys[start : start + _VECTOR_BLOCK]) for start in range(0, len(self.keys), _VECTOR_BLOCK)
        )
        with DurableFile(self.folder / VECTORS) as file:
            write_vectors(file, dimension, blocks)
        self._keep(file)
        keys = np.frombuffer(b"".join(self.keys), dtype=np.uint8).reshape(len(self.keys), KEY_BYTES)
        self._array(TEXT_KEYS, keys)
        self._write_statistics(self.statistics.finish())
        with DurableFile(self.folder / CATALOGUE) as file:
            file.write(encode_catalogue(self.sources))
        self._keep(file)

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._file.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write_statistics(self, statistics: TermStatistics) -> None:
        terms, term_offsets = encode_terms(statistics.terms)
        offsets, rows, impacts = statistics.impacts()
        self._array(TERMS, terms)
        self._array(TERM_OFFSETS, term_offsets)
        self._array(ROW_OFFSETS, statistics.row_offsets)
        self._array(ROW_TERMS, statistics.row_terms)
        self._array(ROW_COUNTS, statistics.row_counts)
        self._array(POSTING_OFFSETS, offsets)
        self._array(POSTING_ROWS, rows)
        self._array(POSTING_IMPACTS, impacts)

    def _array(self, name: str, values: NDArray[Any]) -> None:
        self._keep(write_array(self.folder / name, values))

    def _keep(self, file: DurableFile) -> None:
        self.stored[file.path.name] = StoredFile(size=file.size, sha256=file.sha256)


def next_generation(folder: Path) -> str:
    """A generation name that no folder carries."""
    taken = [int(p.name[1:7]) for p in (folder / GENERATIONS).glob("g*") if p.name[1:7].isdecimal()]
    return f"g{max(taken, default=0) + 1:06}"


def publish(folder: Path, writer: GenerationWriter, manifest: Manifest) -> None:
    """Give the finished generation its name, then let `CURRENT` point at it."""
    generation = writer.folder.name.removesuffix(".partial")
    data = encode_manifest(manifest)
    with DurableFile(writer.folder / "manifest-1.json") as file:
        file.write(data)
    sync_to_disk(writer.folder)
    writer.folder.rename(writer.folder.with_name(generation))
    sync_to_disk(folder / GENERATIONS)
    replace_durably(
        folder / CURRENT, Current(generation=generation, manifest="manifest-1.json", sha256=file.sha256).encode()
    )


def republish(folder: Path, current: Current, manifest: Manifest) -> None:
    """Swap the manifest alone: the data is the same, but file times or settings of the run differ."""
    number = int(current.manifest.removeprefix("manifest-").removesuffix(".json")) + 1
    path = folder / GENERATIONS / current.generation / f"manifest-{number}.json"
    path.unlink(missing_ok=True)  # of a run that was killed before the swap
    with DurableFile(path) as file:
        file.write(encode_manifest(manifest))
    sync_to_disk(path.parent)
    replace_durably(folder / CURRENT, replace(current, manifest=path.name, sha256=file.sha256).encode())
    (path.parent / current.manifest).unlink(missing_ok=True)


def remove_leftovers(folder: Path, *, keep: str | None) -> None:
    """Remove every generation but one. A reader that has an old one open keeps reading it.

    Windows refuses to remove files that are open; the next run tries again.
    """
    for path in (folder / GENERATIONS).glob("g*"):
        if path.name != keep:
            shutil.rmtree(path, ignore_errors=True)
