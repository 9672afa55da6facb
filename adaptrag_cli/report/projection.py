"""Question, chunks and gold chunks in the plane of their first two principal components (DTR Fig. 9, 10; PAIRS Fig. 8).

With the question as the origin: of every chunk d of a question q the difference d - q is taken, the two directions in
which these differences vary most are found (SVD of the centred differences), and d - q is projected onto them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.evaluation.results import Result, ScoredChunk
from adaptrag_cli.report.lines import Line

Floats = NDArray[np.float64]
GROUPS = ("query", "pseudo-context", "gold")
SAMPLE = 200
"""Questions that are drawn (the paper's number)."""


class VectorSource(Protocol):
    """Where the vectors of a run are kept."""

    def text_vector(self, encoder: str, text: str) -> NDArray[np.float32] | None: ...

    def chunk_vector(self, index_fingerprint: str, chunk_id: str) -> NDArray[np.float32] | None: ...


@dataclass(frozen=True, kw_only=True)
class ProjectedChunk:
    """A chunk as seen from its question, which stands at (0, 0)."""

    line: str
    set: str
    question_id: str
    chunk_id: str
    group: str
    """`query` and `pseudo-context` for the path that found it, `gold` for a gold chunk: one row for each."""
    x: float
    y: float

    @property
    def radius(self) -> float:
        return math.hypot(self.x, self.y)

    @property
    def degrees(self) -> float:
        """From 0 to 360, counter-clockwise."""
        return math.degrees(math.atan2(self.y, self.x)) % 360.0


@dataclass(frozen=True, kw_only=True)
class Projection:
    """The chunks of one line."""

    line: str
    source: str
    """Label of the strategy that searched."""
    questions: int
    explained: float
    """Share of the differences' variance that lies in the plane."""
    chunks: tuple[ProjectedChunk, ...]


def project_line(line: Line, vectors: VectorSource) -> Projection | None:
    """Project a line's chunks; None where fewer than three of them have vectors."""
    label = line.on_two_paths()
    if label is None:
        return None
    found = list(_differences(line, list(line.answers[label].values())[:SAMPLE], vectors))
    if len(found) < 3:
        return None
    differences = np.stack([difference for _, _, difference in found])
    axes, explained = principal_axes(differences)
    places = differences @ axes.T
    chunks = [
        ProjectedChunk(
            line=line.name,
            set=result.set,
            question_id=result.question_id,
            chunk_id=chunk.chunk_id,
            group=group,
            x=float(x),
            y=float(y),
        )
        for (result, chunk, _), (x, y) in zip(found, places, strict=True)
        for group in _groups(chunk)
    ]
    return Projection(
        line=line.name,
        source=label,
        questions=len({(result.set, result.question_id) for result, _, _ in found}),
        explained=explained,
        chunks=tuple(chunks),
    )


def principal_axes(points: Floats) -> tuple[Floats, float]:
    """Two orthonormal directions of most variance, shape (2, dimension), and the share of it that they hold.

    The sign of each is such that its largest component is positive, so equal data give equal pictures.
    """
    _, sizes, directions = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    axes: Floats = directions[:2]
    if len(axes) < 2:
        axes = np.vstack([axes, np.zeros_like(axes)])[:2]
    largest = np.abs(axes).argmax(axis=1)
    signs = np.sign(axes[np.arange(2), largest])
    total = float((sizes**2).sum())
    explained = float((sizes[:2] ** 2).sum()) / total if total > 0.0 else 0.0
    return axes * np.where(signs == 0.0, 1.0, signs)[:, np.newaxis], explained


def _differences(
    line: Line, results: Sequence[Result], vectors: VectorSource
) -> Iterator[tuple[Result, ScoredChunk, Floats]]:
    for result in results:
        query = vectors.text_vector(line.cell.encoder_identity, result.query)
        if query is None:
            continue
        for chunk in result.candidates:
            vector = vectors.chunk_vector(line.cell.indexes.get(result.set, ""), chunk.chunk_id)
            if vector is not None:
                yield result, chunk, vector.astype(np.float64) - query.astype(np.float64)


def _groups(chunk: ScoredChunk) -> list[str]:
    is_in: dict[str, Callable[[ScoredChunk], bool]] = {
        "query": lambda c: c.query_rank is not None,
        "pseudo-context": lambda c: c.pseudo_context_rank is not None,
        "gold": lambda c: c.gold,
    }
    return [group for group in GROUPS if is_in[group](chunk)]
