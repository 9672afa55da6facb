"""Work that several strategies share, kept on disk under the digest of its inputs.

Everything here is a pure function of its key: greedy generations of a model's weights for a prompt's tokens, log
probabilities of labels, vectors of texts, hits of a search. So a strategy that asks for what another has computed gets
the same bytes, a run that was killed starts where it was, and the file may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from adaptrag_cli.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SECONDS = struct.Struct("<d")
Kind = Literal["generation", "labels", "query_vector", "chunk_vector", "hits", "states"]
_WAIT_S = 60.0


def digest(*parts: object) -> bytes:
    """The key of a computation: a digest of its inputs, in order."""
    encoded = msgspec.msgpack.encode(parts)
    return hashlib.blake2b(encoded, digest_size=20).digest()


class EvaluationCache:
    """Bytes by kind and digest."""

    def __init__(self, path: Path) -> None:
        """Open or make the file.

        Raises:
            ConfigError: it cannot be opened, or is no cache.
        """
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Every statement is its own transaction; another run that shares the file is waited for.
            self._db = sqlite3.connect(path, isolation_level=None, timeout=_WAIT_S)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS entries"
                " (kind TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID"
            )
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(
                f"{path} cannot be used as a cache: {error}", "delete it, or give another --cache"
            ) from error

    def get(self, kind: Kind, key: bytes) -> bytes | None:
        """What was stored, or None."""
        row = self._run("SELECT value FROM entries WHERE kind = ? AND key = ?", (kind, key))
        return _bytes(row[0]) if row is not None else None

    def put(self, kind: Kind, key: bytes, value: bytes) -> None:
        """Store; what could not be read is replaced."""
        self._run("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", (kind, key, value))

    def text_vector(self, encoder: str, text: str) -> NDArray[np.float32] | None:
        """The vector that an encoder (by the digest of its fingerprint) gave a query text."""
        stored = self.timed_vector(encoder, text)
        return stored[1] if stored is not None else None

    def timed_vector(self, encoder: str, text: str) -> tuple[float, NDArray[np.float32]] | None:
        """The same with the seconds that it took."""
        stored = self.get("query_vector", digest(encoder, text))
        if stored is None:
            return None
        vector = _as_vector(stored[_SECONDS.size :])
        assert vector is not None, "the value is not None"
        return _SECONDS.unpack(stored[: _SECONDS.size])[0], vector

    def put_text_vector(self, encoder: str, text: str, seconds: float, vector: NDArray[np.float32]) -> None:
        """Keep a query text's vector and what it cost."""
        self.put("query_vector", digest(encoder, text), _SECONDS.pack(seconds) + vector.astype("<f4").tobytes())

    def chunk_vector(self, index_fingerprint: str, chunk_id: str) -> NDArray[np.float32] | None:
        """The stored vector of a chunk that some strategy of a run has scored, or that is gold."""
        return _as_vector(self.get("chunk_vector", digest(index_fingerprint, chunk_id)))

    def put_chunk_vector(self, index_fingerprint: str, chunk_id: str, vector: NDArray[np.float32]) -> None:
        """Keep a chunk's vector for the figures of the report."""
        self.put("chunk_vector", digest(index_fingerprint, chunk_id), vector.astype("<f4").tobytes())

    def close(self) -> None:
        self._db.close()

    def _run(self, statement: str, values: tuple[object, ...]) -> tuple[object, ...] | None:
        try:
            row: tuple[object, ...] | None = self._db.execute(statement, values).fetchone()
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise ConfigError(
                    f"the cache {self._path} is being written by another run", "wait for it, or give another --cache"
                ) from error
            raise ConfigError(f"the cache {self._path} cannot be used: {error}", "give another --cache") from error
        except sqlite3.Error as error:
            raise ConfigError(
                f"the cache {self._path} is damaged or full: {error}", "delete it: only work is lost"
            ) from error
        return row


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""


def _as_vector(value: bytes | None) -> NDArray[np.float32] | None:
    import numpy as np

    return None if value is None else np.frombuffer(value, dtype="<f4")
