"""The statistics of `rank_bm25`, computed by `rank_bm25` itself from frequencies that are stored instead of counted."""

from __future__ import annotations

from collections.abc import Mapping

from rank_bm25 import BM25Okapi


class StoredStatistics(BM25Okapi):  # type: ignore[misc]
    """A `BM25Okapi` without its texts: it knows idf, k1, b and epsilon, and scores nothing."""

    def __init__(self, document_frequencies: Mapping[int, int], row_count: int) -> None:
        """Take over how many rows hold each term; terms stand in order of first occurrence, by which idf is summed."""
        defaults = BM25Okapi([["any"]])
        self.k1: float = defaults.k1
        self.b: float = defaults.b
        self.epsilon: float = defaults.epsilon
        self.corpus_size = row_count
        self.idf: dict[int, float] = {}
        self._calc_idf(document_frequencies)
