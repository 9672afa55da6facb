"""A store that is another one but for what a subclass changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from adaptrag_cli.documents.base import Chunk
from adaptrag_cli.index.store import Freshness, Hit, Store
from adaptrag_cli.models.base import EncoderFingerprint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class StoreView:
    """A `Store` that passes everything on."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def name(self) -> str:
        return self._store.name

    @property
    def path(self) -> Path:
        return self._store.path

    @property
    def fingerprint(self) -> str:
        return self._store.fingerprint

    @property
    def encoder(self) -> EncoderFingerprint:
        return self._store.encoder

    @property
    def chunk_count(self) -> int:
        return self._store.chunk_count

    @property
    def body_only(self) -> bool:
        return self._store.body_only

    def chunk(self, row: int) -> Chunk:
        return self._store.chunk(row)

    def dense_search(self, vector: NDArray[np.float32], n: int) -> tuple[Hit, ...]:
        return self._store.dense_search(vector, n)

    def sparse_search(self, text: str, n: int) -> tuple[Hit, ...]:
        return self._store.sparse_search(text, n)

    def sparse_scores(self, text: str, rows: Sequence[int]) -> NDArray[np.float64]:
        return self._store.sparse_scores(text, rows)

    def vectors(self, rows: Sequence[int]) -> NDArray[np.float32]:
        return self._store.vectors(rows)

    def freshness(self) -> Freshness:
        return self._store.freshness()
