"""BM25 as `rank_bm25.BM25Okapi` defines it, served from stored per-term impacts.

score(q, d) is the sum over the words t of q, repeats included, of
idf(t) tf (k1 + 1) / (tf + k1 (1 - b + b |d| / avgdl)), where
idf(t) = ln(N - df + 0.5) - ln(df + 0.5), and a negative idf becomes epsilon times the mean idf of all words.

Every summand depends on the word and the chunk only, so it is computed once per generation (`impacts`) and a query adds
a few sparse columns. All operations run in the order and precision of `rank_bm25`, so that scores are equal to the
last bit. idf, average length and the epsilon floor change with any chunk: the term frequencies are what is kept.

With one or two chunks no word has a positive idf, so no chunk has a positive score and sparse search finds nothing.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class TermStatistics:
    """Which words each chunk holds, and how often. Rows keep their words in order of first occurrence."""

    terms: Sequence[str]
    """Sorted by their UTF-8 bytes."""
    row_offsets: NDArray[np.int64]
    """Shape (rows + 1,)."""
    row_terms: NDArray[np.int32]
    row_counts: NDArray[np.int32]

    def impacts(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """Invert to word order: offsets (terms + 1,), rows ascending within a word, and what each adds to a score."""
        from adaptrag_cli.index.okapi import StoredStatistics  # rank_bm25: not needed to answer a query

        row_count, term_count = len(self.row_offsets) - 1, len(self.terms)
        frequencies = np.bincount(self.row_terms, minlength=term_count)
        offsets = np.concatenate(([0], np.cumsum(frequencies))).astype(np.int64)
        if not len(self.row_terms):
            return offsets, np.zeros(0, np.int32), np.zeros(0, np.float64)
        ends = np.concatenate(([0], np.cumsum(self.row_counts, dtype=np.int64)))
        lengths = ends[self.row_offsets[1:]] - ends[self.row_offsets[:-1]]
        average_length = int(lengths.sum()) / row_count
        rows = np.repeat(np.arange(row_count, dtype=np.int32), np.diff(self.row_offsets))
        by_term = np.argsort(self.row_terms, kind="stable")
        statistics = StoredStatistics(
            {term: int(frequencies[term]) for term in np.argsort(by_term[offsets[:-1]]).tolist()}, row_count
        )
        k1, b = statistics.k1, statistics.b
        idf = np.array([statistics.idf[term] for term in range(term_count)])
        rows, terms = rows[by_term], self.row_terms[by_term]
        counts = self.row_counts[by_term].astype(np.int64)
        impacts = idf[terms] * (counts * (k1 + 1) / (counts + k1 * (1 - b + b * lengths[rows] / average_length)))
        return offsets, rows, impacts


class StatisticsBuilder:
    """Collect the words of rows in order: of new texts, and of rows taken over from an earlier generation."""

    def __init__(self, previous: TermStatistics | None = None) -> None:
        self._previous = previous
        self._ids: dict[str, int] = {term: i for i, term in enumerate(previous.terms)} if previous else {}
        self._terms = array("i")
        self._counts = array("i")
        self._offsets = array("q", [0])

    def add(self, words: Sequence[str]) -> None:
        """Append one row."""
        counts: Mapping[str, int] = Counter(words)
        self._terms.extend(self._ids.setdefault(word, len(self._ids)) for word in counts)
        self._counts.extend(counts.values())
        self._offsets.append(len(self._terms))

    def copy(self, row: int) -> None:
        """Append a row of the earlier generation."""
        assert self._previous is not None, "there is no earlier generation to copy from"
        start, stop = int(self._previous.row_offsets[row]), int(self._previous.row_offsets[row + 1])
        self._terms.frombytes(self._previous.row_terms[start:stop].astype(np.intc).tobytes())
        self._counts.frombytes(self._previous.row_counts[start:stop].astype(np.intc).tobytes())
        self._offsets.append(len(self._terms))

    def finish(self) -> TermStatistics:
        """Number the words that are in use by their sorted order: equal rows give equal arrays."""
        used_ids = np.frombuffer(self._terms, dtype=np.intc) if self._terms else np.zeros(0, np.intc)
        names = list(self._ids)
        used = sorted((names[i].encode("utf-8", "surrogatepass"), int(i)) for i in np.unique(used_ids))
        renumbered = np.zeros(len(names) or 1, dtype=np.int32)
        for new, (_, old) in enumerate(used):
            renumbered[old] = new
        return TermStatistics(
            terms=tuple(names[old] for _, old in used),
            row_offsets=np.array(self._offsets, dtype=np.int64),
            row_terms=renumbered[used_ids],
            row_counts=np.array(self._counts, dtype=np.int32),
        )


class TermTable(Sequence[str]):
    """Sorted words over memory-mapped bytes: a look-up reads a few of them, not all."""

    def __init__(self, terms: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self._terms = terms
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, position: int) -> str:  # type: ignore[override]
        return self._bytes(position).decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        blob, ends = self._terms.tobytes(), self._offsets.tolist()
        return (blob[start:stop].decode("utf-8", "surrogatepass") for start, stop in pairwise(ends))

    def find(self, word: str) -> int | None:
        """Position of a word, by binary search."""
        wanted = word.encode("utf-8", "surrogatepass")
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._bytes(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self._bytes(low) == wanted else None

    def _bytes(self, position: int) -> bytes:
        return self._terms[self._offsets[position] : self._offsets[position + 1]].tobytes()


def encode_terms(terms: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Bytes and offsets of a `TermTable`."""
    encoded = [term.encode("utf-8", "surrogatepass") for term in terms]
    offsets = np.concatenate(([0], np.cumsum([len(term) for term in encoded]))).astype(np.int64)
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets


class SparseIndex:
    """Impacts of a generation, ready to be searched."""

    def __init__(
        self,
        *,
        row_count: int,
        terms: TermTable,
        posting_offsets: NDArray[np.int64],
        posting_rows: NDArray[np.int32],
        posting_impacts: NDArray[np.float64],
    ) -> None:
        self._row_count = row_count
        self._terms = terms
        self._offsets = posting_offsets
        self._rows = posting_rows
        self._impacts = posting_impacts

    def scores(self, words: Sequence[str]) -> NDArray[np.float64]:
        """BM25 of every row, shape (rows,); equal to `BM25Okapi.get_scores(words)` to the last bit."""
        scores = np.zeros(self._row_count)
        for word in words:
            term = self._terms.find(word)
            if term is None:
                continue
            span = slice(self._offsets[term], self._offsets[term + 1])
            scores[self._rows[span]] += self._impacts[span]
        return scores

    def search(self, words: Sequence[str], n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Rows and scores of the n best positive scores, best first, ties by row."""
        scores = self.scores(words)
        rows = np.flatnonzero(scores > 0)
        if 0 < n < len(rows):
            worst = np.partition(scores[rows], len(rows) - n)[len(rows) - n]
            rows = rows[scores[rows] >= worst]
        rows = rows[np.lexsort((rows, -scores[rows]))][: max(n, 0)]
        return rows, scores[rows]
