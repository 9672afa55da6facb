"""Which rows of a store belong to a question: its own passages, where it has a knowledge base, and its gold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from adaptrag_cli.evaluation.questions import Question
from adaptrag_cli.evaluation.store_view import StoreView
from adaptrag_cli.index.store import Hit, Store
from adaptrag_cli.retrieval import Retriever

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
        return self._ranked((self._store.vectors(self._rows) @ vector).tolist(), n) if self._rows else ()

    def sparse_search(self, text: str, n: int) -> tuple[Hit, ...]:
        """The n of the rows with the largest positive BM25 score in the whole index."""
        return tuple(
            hit for hit in self._ranked(self._store.sparse_scores(text, self._rows).tolist(), n) if hit.score > 0
        )

    def _ranked(self, scores: Sequence[float], n: int) -> tuple[Hit, ...]:
        ranked = sorted(zip(self._rows, scores, strict=True), key=lambda hit: (-hit[1], hit[0]))
        return tuple(Hit(row=row, score=score) for row, score in ranked[:n])


def only_own(retriever: Retriever | None, question: Question, rows: Mapping[str, tuple[int, ...]]) -> Retriever | None:
    """Narrow the search to the question's own passages where it has some."""
    if retriever is None or not question.own_passages:
        return retriever
    own = [row for document in question.own_passages for row in rows.get(document, ())]
    return Retriever(OwnPassages(retriever.store, own), retriever.encoder, deleted=retriever.deleted)


def gold_chunks(store: Store, question: Question, rows: Mapping[str, tuple[int, ...]]) -> tuple[str, ...]:
    """Ids of the chunks of the question's gold passages."""
    return tuple(store.chunk(row).chunk_id for document in question.gold_ids for row in rows.get(document, ()))
