"""Exact inner-product search over unit vectors: a FAISS flat index, written and mapped through Python file I/O."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from adaptrag_cli.index.durable import DurableFile

_TIE_MARGIN = 1e-5
"""FAISS sums a vector in an order that depends on its neighbours, so equal vectors differ by some ulp."""


def write_vectors(file: DurableFile, dimension: int, blocks: Iterable[NDArray[np.float32]]) -> int:
    """Write unit vectors as a serialised `IndexFlatIP` and return how many."""
    import faiss

    index = faiss.IndexFlatIP(dimension)
    for block in blocks:
        index.add(np.ascontiguousarray(block, dtype=np.float32))
    faiss.write_index(index, faiss.PyCallbackIOWriter(file.write, 1 << 20))  # type: ignore[attr-defined]
    return int(index.ntotal)


class DenseIndex:
    """A mapped flat index. Vectors are read where FAISS reads them: there is one copy, in the page cache."""

    def __init__(self, data: mmap.mmap | bytes, *, dimension: int, row_count: int) -> None:
        """Read a serialised index in place.

        Raises:
            ValueError: the data is not a flat index of this size.
        """
        import faiss

        self._mapped = np.frombuffer(data, dtype=np.uint8)
        reader = faiss.ZeroCopyIOReader(faiss.swig_ptr(self._mapped), self._mapped.size)  # type: ignore[attr-defined]
        try:
            index: Any = faiss.read_index(reader)
        except RuntimeError as error:
            raise ValueError("is not a FAISS index") from error
        found = (type(index), index.d, index.ntotal, index.code_size)
        if found != (faiss.IndexFlatIP, dimension, row_count, 4 * dimension):
            raise ValueError(f"is not a flat index of {row_count} vectors of dimension {dimension}")
        self._index = index
        if row_count:
            flat = faiss.rev_swig_ptr(index.get_xb(), row_count * dimension)
            self.vectors: NDArray[np.float32] = flat.reshape(row_count, dimension)
        else:
            self.vectors = np.zeros((0, dimension), dtype=np.float32)
        self.vectors.flags.writeable = False

    def search(self, vector: NDArray[np.float32], n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Rows and inner products of the n nearest, best first, ties by row.

        Scores are summed again in float64 and in one order, so that equal vectors tie exactly wherever they stand.
        """
        import faiss

        n = min(n, len(self.vectors))
        if n <= 0:
            return np.zeros(0, np.int64), np.zeros(0)
        # One query is faster on one thread: waking the others costs more than they save.
        faiss.omp_set_num_threads(1)
        query = np.ascontiguousarray(vector, dtype=np.float32).reshape(1, -1)
        fetched = min(len(self.vectors), n + 8)
        while True:
            approximate, found = self._index.search(query, fetched)
            if fetched == len(self.vectors) or approximate[0, n - 1] - approximate[0, -1] > _TIE_MARGIN:
                break
            fetched = min(len(self.vectors), fetched * 4)
        rows = found[0]
        scores = (self.vectors[rows].astype(np.float64) * query.astype(np.float64)).sum(axis=1)
        best = np.lexsort((rows, -scores))[:n]
        return rows[best], scores[best]
