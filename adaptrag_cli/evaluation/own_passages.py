"""A store that shows one question its own passages only, as benchmarks with a knowledge base per question demand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from adaptrag_cli.evaluation.store_view import StoreView
from adaptrag_cli.index.store import Hit, Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def rows_by_document(store: Store) -> Mapping[str, tuple[int, ...]]:
    """Rows of each document's chunks."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row in range(store.chunk_count):
        rows[store.chunk(row).document].append(row)
    return {document: tuple(found) for document, found in rows.items()}


class OwnPassages(StoreView):
    """A `Store` that finds only the rows it is given; scores are those of the whole index."""

    def __init__(self, store: Store, rows: Iterable[int]) -> None:
        super().__init__(store)
        self._rows = sorted(rows)

    @property
    def chunk_count(self) -> int:
        return len(self._rows)

    def dense_search(self, vector: NDArray[np.float32], n: int) -> tuple[Hit, ...]:
        """The n of the rows with the largest inner product."""
        if not self._rows:
            return ()
        scores = (self._store.vectors(self._rows) @ vector).tolist()
        ranked = sorted(zip(self._rows, scores, strict=True), key=lambda hit: (-hit[1], hit[0]))
        return tuple(Hit(row=row, score=score) for row, score in ranked[:n])

    def sparse_search(self, text: str, n: int) -> tuple[Hit, ...]:
        """The n of the rows with the largest positive BM25 score in the whole index."""
        own = frozenset(self._rows)
        hits = self._store.sparse_search(text, self._store.chunk_count)
        return tuple(hit for hit in hits if hit.row in own)[:n]
