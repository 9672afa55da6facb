"""Vectors that are paid for: an append-only log of text keys and their vectors, which outlives a killed run.

Layout: an 80-byte header (magic, dimension, SHA-256 of the encoder's fingerprint, checksum), then records of equal
size: text key, vector (float32, little-endian), checksum. A record counts when its checksum holds; reading stops at
the first that does not, and the next append overwrites it. A block is on the disk when `append` returns.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.disk import flush_to_disk, sync_to_disk
from adaptrag_cli.models.base import EncoderFingerprint

KEY_BYTES = 16
_CHECK_BYTES = 8
_MAGIC = b"ADAPTRAG-VEC\x00\x01\r\n"
_HEADER = struct.Struct("<16sI32s20x8s")


def text_key(text: str) -> bytes:
    """Identity of an embedded text. Together with the encoder's fingerprint it decides the vector."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


def fingerprint_digest(encoder: EncoderFingerprint) -> bytes:
    """SHA-256 of everything that decides a vector."""
    return hashlib.sha256(json.dumps(asdict(encoder), sort_keys=True).encode()).digest()


def log_name(encoder: EncoderFingerprint) -> str:
    """File name of the log of this encoder."""
    return f"embedded-{fingerprint_digest(encoder).hex()[:16]}.log"


def _check(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECK_BYTES).digest()


class EmbeddingLog:
    """The log of one encoder, opened for reading back and appending. Only the holder of the writer lock opens it."""

    def __init__(self, folder: Path, encoder: EncoderFingerprint) -> None:
        """Read back what an earlier run left; a torn tail is cut off."""
        self.path = folder / log_name(encoder)
        self.dimension = encoder.dimension
        self._record = np.dtype(
            [("key", np.uint8, KEY_BYTES), ("vector", "<f4", (encoder.dimension,)), ("check", np.uint8, _CHECK_BYTES)]
        )
        head = _HEADER.pack(_MAGIC, encoder.dimension, fingerprint_digest(encoder), b"")[:-_CHECK_BYTES]
        self._header = head + _check(head)
        self._positions: dict[bytes, int] = {}
        self._file = self.path.open("a+b")
        try:
            self._recover()
        except OSError:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, key: bytes) -> bool:
        return key in self._positions

    def append(self, keys: Sequence[bytes], vectors: NDArray[np.float32]) -> None:
        """Add a block and push it to the disk."""
        block = np.zeros(len(keys), dtype=self._record)
        block["key"] = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), KEY_BYTES)
        block["vector"] = vectors
        for record in block:
            record["check"] = np.frombuffer(_check(record.tobytes()[:-_CHECK_BYTES]), dtype=np.uint8)
        start = self._count()
        self._file.write(block.tobytes())
        flush_to_disk(self._file)
        self._positions.update((key, start + i) for i, key in enumerate(keys))

    def vectors(self, keys: Sequence[bytes]) -> NDArray[np.float32]:
        """Vectors of keys that the log holds, shape (len(keys), dimension)."""
        if not keys:
            return np.zeros((0, self.dimension), dtype=np.float32)
        records = np.memmap(self.path, dtype=self._record, mode="r", offset=_HEADER.size)
        return np.asarray(records["vector"][[self._positions[key] for key in keys]], dtype=np.float32)

    def close(self) -> None:
        """Close the file; what was appended stays."""
        self._file.close()

    def __enter__(self) -> EmbeddingLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _count(self) -> int:
        size = os.fstat(self._file.fileno()).st_size
        return (size - _HEADER.size) // self._record.itemsize

    def _recover(self) -> None:
        self._file.seek(0)
        if self._file.read(_HEADER.size) != self._header:
            self._file.truncate(0)
            self._file.write(self._header)
            flush_to_disk(self._file)
            sync_to_disk(self.path.parent)
            return
        good = 0
        while len(data := self._file.read(self._record.itemsize)) == self._record.itemsize:
            if data[-_CHECK_BYTES:] != _check(data[:-_CHECK_BYTES]):
                break
            self._positions[data[:KEY_BYTES]] = good
            good += 1
        self._file.truncate(_HEADER.size + good * self._record.itemsize)
