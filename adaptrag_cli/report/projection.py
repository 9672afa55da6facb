"""Question, chunks and gold chunks in the plane of their first two principal components (DTR Fig. 9, 10; PAIRS Fig. 8).

With the question as the origin: of every chunk d of a question q the difference d - q is taken, the two directions in
which these differences vary most are found (SVD of the centred differences), and d - q is projected onto them. Gold
chunks are those of the question's gold passages, whether a path found them or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.evaluation.results import Result
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
    found = list(_seen_from_questions(line, list(line.answers[label].values())[:SAMPLE], vectors))
    if len(found) < 3:
        return None
    differences = np.stack([seen.difference for seen in found])
    axes, explained = principal_axes(differences)
    places = differences @ axes.T
    chunks = [
        ProjectedChunk(
            line=line.name,
            set=seen.result.set,
            question_id=seen.result.question_id,
            chunk_id=seen.chunk_id,
            group=group,
            x=float(x),
            y=float(y),
        )
        for seen, (x, y) in zip(found, places, strict=True)
        for group in GROUPS
        if group in seen.groups
    ]
    return Projection(
        line=line.name,
        source=label,
        questions=len({(seen.result.set, seen.result.question_id) for seen in found}),
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


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """A chunk of a question, and where it lies from there."""

    result: Result
    chunk_id: str
    groups: frozenset[str]
    difference: Floats


def _seen_from_questions(line: Line, results: Sequence[Result], vectors: VectorSource) -> Iterator[_Seen]:
    for result in results:
        query = vectors.text_vector(line.cell.encoder_identity, result.query)
        if query is None:
            continue
        for chunk_id, groups in _groups(result).items():
            vector = vectors.chunk_vector(line.cell.indexes.get(result.set, ""), chunk_id)
            if vector is not None:
                yield _Seen(
                    result=result,
                    chunk_id=chunk_id,
                    groups=groups,
                    difference=vector.astype(np.float64) - query.astype(np.float64),
                )


def _groups(result: Result) -> dict[str, frozenset[str]]:
    """The chunks that a path found or that are gold, each with the groups it is in; found ones first, best first."""
    groups: dict[str, set[str]] = {}
    for chunk in result.candidates:
        ranks = {"query": chunk.query_rank, "pseudo-context": chunk.pseudo_context_rank}
        groups[chunk.chunk_id] = {path for path, rank in ranks.items() if rank is not None}
    for chunk_id in result.gold_chunks:
        groups.setdefault(chunk_id, set()).add("gold")
    return {chunk_id: frozenset(of) for chunk_id, of in groups.items()}
