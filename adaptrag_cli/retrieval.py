"""Search one text in an index: dense, sparse or fused; and the similarities that AIS needs.

AIS similarities are always the encoder's, whichever retriever found the chunk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from adaptrag_cli.config import RetrieverName
from adaptrag_cli.documents.base import Chunk
from adaptrag_cli.errors import ModelError
from adaptrag_cli.events import RankedChunk
from adaptrag_cli.index.store import Hit, Store
from adaptrag_cli.models.base import Encoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RRF_CONSTANT = 60
"""k of reciprocal rank fusion, as in Cormack, Clarke and Buettcher (2009)."""
FUSION_DEPTH = 50
"""Each list is fused at least this deep, so that a chunk both lists rank low can still win."""


@dataclass(frozen=True, kw_only=True)
class FoundChunk:
    """A chunk that a search found, with its row in the store."""

    row: int
    chunk: Chunk
    rank: int
    score: float

    def as_record(self) -> RankedChunk:
        """The same as an event shows it."""
        return RankedChunk(
            chunk_id=self.chunk.chunk_id,
            document=self.chunk.document,
            location=self.chunk.location,
            title=self.chunk.title,
            text=self.chunk.text,
            rank=self.rank,
            score=self.score,
        )


class Retriever:
    """One opened index with its encoder. The vector of a text is computed once."""

    def __init__(self, store: Store, encoder: Encoder, *, deleted: Collection[str] = ()) -> None:
        """`deleted` are files that are gone from disk and documents gone from a corpus."""
        self._store = store
        self._encoder = encoder
        self._deleted = frozenset(deleted)
        self._vectors: dict[str, NDArray[np.float32]] = {}

    @property
    def store(self) -> Store:
        return self._store

    @property
    def encoder(self) -> Encoder:
        return self._encoder

    @property
    def deleted(self) -> frozenset[str]:
        """Files and documents that are never returned."""
        return self._deleted

    def embed(self, text: str) -> NDArray[np.float32] | None:
        """Unit vector (dimension,) of a query text; None for a blank one.

        Raises:
            ModelError: the encoder gives something that is not a number.
        """
        if not text.strip():
            return None
        if text not in self._vectors:
            vector = self._encoder.encode_queries([text])[0]
            if not all(map(math.isfinite, vector.tolist())):
                raise ModelError(
                    f"encoder {self._encoder.fingerprint.name!r} gives no finite vector for a text",
                    "verify its files with: adaptrag models verify",
                )
            self._vectors[text] = vector
        return self._vectors[text]

    def search(self, text: str, *, retriever: RetrieverName, n: int) -> tuple[FoundChunk, ...]:
        """The n best chunks, best first; fewer when the index holds or matches fewer. A blank text finds nothing."""
        if n <= 0 or not text.strip():
            return ()
        searches: dict[RetrieverName, Callable[[str, int], tuple[Hit, ...]]] = {
            "dense": self._dense,
            "sparse": self._store.sparse_search,
            "hybrid": self._fused,
        }
        return self._alive(partial(searches[retriever], text), n)

    def search_vector(self, vector: NDArray[np.float32], *, n: int) -> tuple[FoundChunk, ...]:
        """The n chunks with the largest inner product with `vector` (dimension,), best first; it need not be a unit."""
        if n <= 0:
            return ()
        return self._alive(partial(self._store.dense_search, vector), n)

    def similarities(self, vector: NDArray[np.float32], rows: Sequence[int]) -> NDArray[np.float64]:
        """Inner products of stored vectors with `vector`, shape (len(rows),).

        What is not a number counts as the farthest there is, so that a broken vector never wins.
        """
        import numpy as np

        stored = self._store.vectors(rows).astype(np.float64)
        products: NDArray[np.float64] = stored @ vector.astype(np.float64)
        return np.nan_to_num(products, nan=-1.0, posinf=1.0, neginf=-1.0)

    def _dense(self, text: str, n: int) -> tuple[Hit, ...]:
        vector = self.embed(text)
        return () if vector is None else self._store.dense_search(vector, n)

    def _fused(self, text: str, n: int) -> tuple[Hit, ...]:
        depth = max(n, FUSION_DEPTH)
        scores: dict[int, float] = {}
        for hits in (self._dense(text, depth), self._store.sparse_search(text, depth)):
            for rank, hit in enumerate(hits, start=1):
                scores[hit.row] = scores.get(hit.row, 0.0) + 1.0 / (RRF_CONSTANT + rank)
        ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
        return tuple(Hit(row=row, score=score) for row, score in ordered[:n])

    def _is_deleted(self, chunk: Chunk) -> bool:
        return chunk.source in self._deleted or chunk.document in self._deleted

    def _alive(self, search: Callable[[int], tuple[Hit, ...]], n: int) -> tuple[FoundChunk, ...]:
        """Search deeper until n chunks of documents that still exist are found."""
        depth = n
        while True:
            hits = search(depth)
            chunks = [(hit, self._store.chunk(hit.row)) for hit in hits]
            alive = [(hit, chunk) for hit, chunk in chunks if not self._is_deleted(chunk)][:n]
            if len(alive) == n or len(hits) < depth or depth >= self._store.chunk_count:
                break
            depth = min(depth * 4, self._store.chunk_count)
        return tuple(
            FoundChunk(row=hit.row, chunk=chunk, rank=rank, score=hit.score)
            for rank, (hit, chunk) in enumerate(alive, start=1)
        )
