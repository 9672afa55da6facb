"""Time a sparse and a dense query over a synthetic index, and compare BM25 with rank_bm25.

    python tests/benchmarks/bench_search.py [CHUNKS ...]

Words follow Zipf's law over 50,000; chunks have 60 to 120 words; vectors are random of dimension 384.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rank_bm25 import BM25Okapi

from adaptrag_cli.index.dense import DenseIndex, write_vectors
from adaptrag_cli.index.durable import DurableFile
from adaptrag_cli.index.sparse import SparseIndex, StatisticsBuilder, TermTable, encode_terms

DIMENSION = 384
QUERIES = 10


def median_ms(call: Callable[[int], object]) -> float:
    """Median time of one call over the queries."""
    times = []
    for number in range(QUERIES):
        started = time.perf_counter()
        call(number)
        times.append(time.perf_counter() - started)
    return 1000 * float(np.median(times))


def measure(chunks: int) -> None:
    """Build both indexes and print a line."""
    rng = np.random.default_rng(chunks)
    lengths = rng.integers(60, 120, chunks)
    weights = 1 / np.arange(1, 50_001)
    ids = rng.choice(50_000, lengths.sum(), p=weights / weights.sum())
    names = [f"w{i}" for i in range(50_000)]
    corpus = [[names[i] for i in row] for row in np.split(ids, np.cumsum(lengths)[:-1])]
    queries = [[names[i] for i in rng.choice(2_000, 8)] for _ in range(QUERIES)]

    started = time.perf_counter()
    builder = StatisticsBuilder()
    for words in corpus:
        builder.add(words)
    statistics = builder.finish()
    offsets, rows, impacts = statistics.impacts()
    built = time.perf_counter() - started
    sparse = SparseIndex(
        row_count=chunks,
        terms=TermTable(*encode_terms(statistics.terms)),
        posting_offsets=offsets,
        posting_rows=rows,
        posting_impacts=impacts,
    )
    oracle = BM25Okapi(corpus)
    assert all(sparse.scores(query).tobytes() == oracle.get_scores(query).tobytes() for query in queries[:3])
    ours = median_ms(lambda number: sparse.search(queries[number], 20))
    theirs = median_ms(lambda number: oracle.get_scores(queries[number]))

    vectors = rng.standard_normal((chunks, DIMENSION), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with tempfile.TemporaryDirectory() as folder:
        with DurableFile(Path(folder) / "vectors.faiss") as file:
            write_vectors(file, DIMENSION, [vectors])
        data = file.path.read_bytes()
    started = time.perf_counter()
    dense = DenseIndex(data, dimension=DIMENSION, row_count=chunks)
    opened = time.perf_counter() - started
    found = median_ms(lambda number: dense.search(vectors[number], 20))
    print(
        f"{chunks:>8,} chunks: BM25 {ours:.2f} ms, rank_bm25 {theirs:.1f} ms, ratio {theirs / ours:.0f}; "
        f"statistics built in {built:.1f} s; FAISS opened in {1000 * opened:.1f} ms, dense query {found:.2f} ms"
    )


if __name__ == "__main__":
    for count in [int(argument) for argument in sys.argv[1:]] or [10_000, 100_000]:
        measure(count)
