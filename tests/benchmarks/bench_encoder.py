"""Compare ONNX Runtime with sentence-transformers on passages of a corpus: texts a second, and how far vectors differ.

Usage: python tests/benchmarks/bench_encoder.py ENCODER_FOLDER CORPUS.jsonl [TEXTS]
The two take turns, three times, and the best turn counts, since other work on the machine only ever slows them.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from adaptrag_cli.models.encoder_folder import read_encoder_folder
from adaptrag_cli.models.onnx_encoder import OnnxBackend
from adaptrag_cli.models.onnx_export import export_encoder
from adaptrag_cli.models.torch_encoder import TorchBackend

TURNS = 3


def seconds(run: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    start = time.perf_counter()
    vectors = run()
    return time.perf_counter() - start, vectors


def main(folder: Path, corpus: Path, count: int) -> None:
    layout = read_encoder_folder(folder)
    with corpus.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in itertools.islice(lines, count)]
    texts = [f"{row['title']}\n{row['text']}" for row in rows]
    start = time.perf_counter()
    onnx = OnnxBackend(export_encoder(folder), layout.tokenizer_path, layout.max_length)
    first = onnx.encode(["Who wrote The Hobbit?"], "")
    print(f"onnxruntime: first query {1000 * (time.perf_counter() - start):.0f} ms with import and load")
    query = min(seconds(lambda: onnx.encode(["Who was he?"], ""))[0] for _ in range(20))
    print(f"onnxruntime: next query {1000 * query:.1f} ms")
    torch = TorchBackend(folder, layout.max_length)
    torch.encode(texts[:8], "")
    best = {"onnxruntime": float("inf"), "sentence-transformers": float("inf")}
    vectors = {}
    for _ in range(TURNS):
        for name, backend in (("onnxruntime", onnx), ("sentence-transformers", torch)):
            spent, vectors[name] = seconds(lambda backend=backend: backend.encode(texts, ""))
            best[name] = min(best[name], spent)
    for name, spent in best.items():
        print(f"{name}: {len(texts) / spent:.1f} texts/s")
    cosines = np.sum(vectors["onnxruntime"] * vectors["sentence-transformers"], axis=1, dtype=np.float64)
    print(f"ratio {best['sentence-transformers'] / best['onnxruntime']:.2f}, minimum cosine {cosines.min():.7f}")
    assert first.shape == (1, layout.dimension)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 300)
