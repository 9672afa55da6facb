"""Where gold chunks stand: similarity to question and pseudo-context, and rank on each path (DTR Fig. 7, 8).

Known of a gold chunk is what its selection says, so chunks that neither path found are not among them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from adaptrag_cli.report.lines import Line


@dataclass(frozen=True, kw_only=True)
class GoldChunk:
    """A gold chunk that at least one path found."""

    line: str
    source: str
    """Label of the strategy that searched."""
    set: str
    question_id: str
    chunk_id: str
    query_score: float
    pseudo_context_score: float
    query_rank: int | None
    """None where only the other path found it."""
    pseudo_context_rank: int | None
    kept: bool


@dataclass(frozen=True, kw_only=True)
class RankShare:
    """How many gold chunks a path has at a rank."""

    line: str
    path: str
    rank: int | None
    """None counts those that only the other path found."""
    chunks: int
    share: float


@dataclass(frozen=True, kw_only=True)
class SimilarityShare:
    """How many gold chunks have a similarity from `low` (included) to `high`."""

    line: str
    to: str
    low: float
    high: float
    chunks: int
    share: float


def gold_chunks(lines: Sequence[Line]) -> tuple[GoldChunk, ...]:
    """Every gold chunk of every question whose two paths were searched."""
    return tuple(
        GoldChunk(
            line=line.name,
            source=label,
            set=result.set,
            question_id=result.question_id,
            chunk_id=chunk.chunk_id,
            query_score=chunk.query_score,
            pseudo_context_score=chunk.pseudo_context_score,
            query_rank=chunk.query_rank,
            pseudo_context_rank=chunk.pseudo_context_rank,
            kept=chunk.kept,
        )
        for line in lines
        if (label := line.on_two_paths()) is not None
        for result in line.answers[label].values()
        for chunk in result.candidates
        if chunk.gold and chunk.pseudo_context_score is not None
    )


def rank_shares(chunks: Sequence[GoldChunk]) -> tuple[RankShare, ...]:
    """Shares by line, path and rank, best rank first and the missed ones last."""
    shares = []
    ranks = [rank for chunk in chunks for rank in (chunk.query_rank, chunk.pseudo_context_rank) if rank is not None]
    deepest = max(ranks, default=0)
    for line in dict.fromkeys(chunk.line for chunk in chunks):
        own = [chunk for chunk in chunks if chunk.line == line]
        for path, found in (
            ("query", [chunk.query_rank for chunk in own]),
            ("pseudo-context", [chunk.pseudo_context_rank for chunk in own]),
        ):
            for rank in (*range(1, deepest + 1), None):
                count = found.count(rank)
                shares.append(RankShare(line=line, path=path, rank=rank, chunks=count, share=count / len(own)))
    return tuple(shares)


def similarity_shares(chunks: Sequence[GoldChunk], *, width: float = 0.05) -> tuple[SimilarityShare, ...]:
    """A histogram for each line: similarity to the question, and to the pseudo-context."""
    scores = [score for chunk in chunks for score in (chunk.query_score, chunk.pseudo_context_score)]
    if not scores:
        return ()
    first, last = _bin(min(scores), width), _bin(max(scores), width)
    shares = []
    for line in dict.fromkeys(chunk.line for chunk in chunks):
        own = [chunk for chunk in chunks if chunk.line == line]
        for to, values in (
            ("question", [chunk.query_score for chunk in own]),
            ("pseudo-context", [chunk.pseudo_context_score for chunk in own]),
        ):
            bins = [_bin(value, width) for value in values]
            shares += [
                SimilarityShare(
                    line=line,
                    to=to,
                    low=round(number * width, 10),
                    high=round((number + 1) * width, 10),
                    chunks=bins.count(number),
                    share=bins.count(number) / len(own),
                )
                for number in range(first, last + 1)
            ]
    return tuple(shares)


def _bin(value: float, width: float) -> int:
    return math.floor(value / width + 1e-9)  # 0.15 / 0.05 is 2.9999999999999996
