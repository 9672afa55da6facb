"""Rows of states that are made, not generated: separable by their first numbers, or noise."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from adaptrag_cli.calibration import question_digest
from adaptrag_cli.evaluation.probing.rows import Row, RowData, RowLog, RowManifest, read_rows, write_row_manifest
from adaptrag_cli.evaluation.results import SetInfo
from adaptrag_cli.probing.training import Recipe

QUICK = Recipe(learning_rate=1e-3, batch=16, epochs=3)
WIDTH = 4
LAYERS = (1, 3)


def manifest_of(questions: int, **facts: Any) -> RowManifest:
    """Rows of one set of questions, but for what is given."""
    ids = tuple(f"q{number}" for number in range(questions))
    made = RowManifest(
        created="2026-01-02T03:04:05+00:00",
        adaptrag_version="1",
        versions={},
        kind="answer",
        model="tiny",
        model_fingerprint="sha256:" + "0" * 64,
        layer_count=4,
        layers=LAYERS,
        seed=0,
        limit=None,
        source="made",
        labelled=True,
        sets=(
            SetInfo(name="s", format="ours", fingerprint="f", questions=ids, digests=tuple(map(question_digest, ids))),
        ),
        indexes={"s": "i"},
        settings={"top_k": 5},
    )
    return msgspec.structs.replace(made, **facts)


def half_right(number: int, retrieved: bool) -> bool:
    """Without passages every second text is right, with passages every other one and a third of the rest."""
    return number % 2 == 0 if not retrieved else number % 2 == 1 or number % 3 == 0


def write_rows(
    folder: Path,
    questions: int,
    *,
    shift: float,
    right: Callable[[int, bool], bool] = half_right,
    seed: int = 0,
    **facts: Any,
) -> RowData:
    """Fill a folder; `shift` is how far the first numbers of right and wrong states lie from those of noise."""
    manifest = manifest_of(questions, **facts)
    generator = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    write_row_manifest(folder, manifest)
    with closing(RowLog(folder, manifest.layers)) as log:
        for set_name, question, retrieved in manifest.keys:
            is_right = right(int(question[1:]), retrieved)
            noise = generator.standard_normal((len(manifest.layers), WIDTH))
            noise[:, 0] += shift if is_right else -shift
            log.append(
                Row(
                    set=set_name,
                    question_id=question,
                    retrieved=retrieved,
                    right=is_right,
                    uncertainty=float(abs(generator.standard_normal())),
                    written="because",
                    answer="it is",
                    tokens=3,
                    seconds=0.5,
                    peak_memory=1000,
                ),
                dict(zip(manifest.layers, noise.tolist(), strict=True)),
            )
    return read_rows(folder)
