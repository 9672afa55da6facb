"""PAIRS' query weight: refit its line on gold chunks, and tell how much it matters (PAIRS section 3; METHODS 3).

For a question with the angle theta0 between query and pseudo-context, and a gold chunk with the angles theta1 to the
query and theta2 to the pseudo-context, the best weight is alpha* = theta2 / (theta1 + theta2); the line is the ordinary
least squares fit of alpha* on theta0, in radians.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.results import Result
from adaptrag_cli.evaluation.statistics import Interval, mean_difference, mean_interval
from adaptrag_cli.selection import ALPHA_LINE, angles, rank_candidates

FOLDS = 5
MIN_PAIRS = 10
"""A line through fewer gold chunks says nothing."""
Line = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class DualSearch:
    """Candidates of both paths of one question; sequences have one length."""

    query_pseudo_similarity: float
    query_scores: tuple[float, ...]
    pseudo_context_scores: tuple[float, ...]
    chunk_ids: tuple[str, ...]
    documents: tuple[str, ...]
    gold: tuple[bool, ...]
    kept: int
    """Chunks that the answer is read from (k)."""


@dataclass(frozen=True, kw_only=True)
class AlphaFit:
    """A refitted line, and what each score finds."""

    line: Line
    """Slope per radian, and intercept."""
    pairs: int
    """Gold chunks that it was fitted on."""
    questions: int
    """Questions with a gold chunk among their candidates."""
    kept: int
    recalls: dict[str, Interval]
    """Share of the gold documents among the candidates that are kept: by `cos`, `sum`, `dynamic` (the paper's line) and
    `dynamic, own line` (fitted on the other folds)."""
    differences: dict[str, Interval]
    """The same less `cos`, question by question."""


def dual_searches(results: Sequence[Result]) -> tuple[DualSearch, ...]:
    """The questions whose two paths found a gold chunk."""
    searches = []
    for result in results:
        scored = [c for c in result.candidates if c.pseudo_context_score is not None]
        if result.query_pseudo_similarity is None or not any(c.gold for c in scored):
            continue
        searches.append(
            DualSearch(
                query_pseudo_similarity=result.query_pseudo_similarity,
                query_scores=tuple(c.query_score for c in scored),
                pseudo_context_scores=tuple(c.pseudo_context_score or 0.0 for c in scored),
                chunk_ids=tuple(c.chunk_id for c in scored),
                documents=tuple(c.document for c in scored),
                gold=tuple(c.gold for c in scored),
                kept=sum(1 for c in scored if c.kept),
            )
        )
    return tuple(searches)


def best_weight(query_score: float, pseudo_context_score: float) -> float | None:
    """alpha* of a gold chunk, from its similarities to both texts; None where it lies on both."""
    theta1, theta2 = float(angles(query_score)), float(angles(pseudo_context_score))
    return theta2 / (theta1 + theta2) if theta1 + theta2 > 0.0 else None


def best_weights(searches: Sequence[DualSearch]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """theta0 and alpha* of every gold chunk, shape (pairs,) each; where both angles are 0, alpha* is not defined."""
    points: list[tuple[float, float]] = []
    for search in searches:
        theta0 = float(angles(search.query_pseudo_similarity))
        for s1, s2, gold in zip(search.query_scores, search.pseudo_context_scores, search.gold, strict=True):
            weight = best_weight(s1, s2) if gold else None
            if weight is not None:
                points.append((theta0, weight))
    table = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def fit_line(theta0: NDArray[np.float64], weights: NDArray[np.float64]) -> Line:
    """Ordinary least squares: slope per radian and intercept. Where theta0 does not vary, a flat line."""
    if np.ptp(theta0) == 0.0:
        return 0.0, float(weights.mean())
    slope, intercept = np.polynomial.polynomial.polyfit(theta0, weights, 1)[::-1].tolist()
    return slope, intercept


def fit_alpha(results: Sequence[Result], *, seed: int = 0) -> AlphaFit:
    """Fit the line on all gold chunks, and compare the scores on held-out folds.

    Raises:
        ConfigError: too few candidates are gold.
    """
    searches = dual_searches(results)
    theta0, weights = best_weights(searches)
    if len(theta0) < MIN_PAIRS or len(searches) < FOLDS:
        raise ConfigError(
            f"--alpha needs {MIN_PAIRS} gold chunks of {FOLDS} questions among the candidates, and found {len(theta0)} "
            f"of {len(searches)}",
            "give DATA that names its gold passages, or more questions with --limit",
        )
    found: dict[str, list[float]] = {name: [0.0] * len(searches) for name in _SCORES}
    for fold in np.array_split(np.random.default_rng(seed).permutation(len(searches)), FOLDS):
        held_out = set(fold.tolist())
        line = fit_line(*best_weights([s for i, s in enumerate(searches) if i not in held_out]))
        for i in held_out:
            for name, (score, fixed) in _SCORES.items():
                found[name][i] = recall_of(searches[i], score, fixed or line)
    return AlphaFit(
        line=fit_line(theta0, weights),
        pairs=len(theta0),
        questions=len(searches),
        kept=max(s.kept for s in searches),
        recalls={name: _known(mean_interval(values, seed=seed)) for name, values in found.items()},
        differences={
            name: _known(mean_difference([a - b for a, b in zip(values, found["cos"], strict=True)], seed=seed))
            for name, values in found.items()
            if name != "cos"
        },
    )


def recall_of(search: DualSearch, score: str, line: Line) -> float:
    """Share of the gold documents among the candidates that the best k chunks belong to."""
    ranking = rank_candidates(
        score,  # type: ignore[arg-type]
        search.query_scores,
        search.pseudo_context_scores,
        search.query_pseudo_similarity,
        search.chunk_ids,
        alpha_line=line,
    )
    gold = {d for d, is_gold in zip(search.documents, search.gold, strict=True) if is_gold}
    return len(gold & {search.documents[i] for i in ranking.order[: search.kept]}) / len(gold)


_SCORES: dict[str, tuple[str, Line | None]] = {
    "cos": ("cos", ALPHA_LINE),
    "sum": ("sum", ALPHA_LINE),
    "dynamic": ("dynamic", ALPHA_LINE),
    "dynamic, own line": ("dynamic", None),
}


def _known(interval: Interval | None) -> Interval:
    assert interval is not None, "there are searches"
    return interval
