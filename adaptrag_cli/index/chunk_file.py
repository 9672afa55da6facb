"""Chunks on disk: one JSON line each, and an array of line offsets that makes any row one seek away."""

from __future__ import annotations

import json
import mmap
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.documents.base import Chunk

if TYPE_CHECKING:
    from adaptrag_cli.index.durable import DurableFile

_FIELDS = ("chunk_id", "document", "source", "title", "text", "start", "end", "line_start", "line_end", "page")


class ChunkWriter:
    """Append chunks to a new file and remember where each begins."""

    def __init__(self, file: DurableFile) -> None:
        self._file = file
        self._offsets = [0]

    def add(self, chunk: Chunk) -> None:
        """Append one chunk as the next row. Escaped ASCII holds any name, lone surrogates included."""
        line = json.dumps([getattr(chunk, name) for name in _FIELDS], separators=(",", ":"))
        self.add_line(line.encode("ascii") + b"\n")

    def add_line(self, line: bytes) -> None:
        """Append a row as it stands in another chunk file."""
        self._file.write(line)
        self._offsets.append(self._file.size)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Shape (rows + 1,)."""
        return np.array(self._offsets, dtype=np.int64)


class ChunkReader:
    """Rows of a mapped chunk file."""

    def __init__(self, data: mmap.mmap | bytes, offsets: NDArray[np.int64]) -> None:
        self._offsets = offsets
        self._data = data

    def __getitem__(self, row: int) -> Chunk:
        return Chunk(**dict(zip(_FIELDS, json.loads(self.line(row)), strict=True)))

    def line(self, row: int) -> bytes:
        """A row as it stands in the file."""
        if not 0 <= row < len(self._offsets) - 1:
            raise IndexError(f"row {row} of {len(self._offsets) - 1}")
        return self._data[int(self._offsets[row]) : int(self._offsets[row + 1])]
