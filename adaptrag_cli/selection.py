"""What to keep: adaptive information selection (AIS) over the candidates of two search paths. Pure numpy.

All similarities are inner products of unit vectors, clipped to [-1, 1]: two equal float32 unit vectors may give
1.0000001, and arccos of that is NaN. Angles are in radians.

Three geometry facts decide how this is done (each is a test):
- cos(theta1 + theta2) falls only while theta1 + theta2 <= pi; beyond, a chunk opposite to both would win. So `cos`
  ranks by the angle sum and only *shows* the cosine: the same order wherever s1 + s2 >= 0.
- theta1 + theta2 >= theta0, the angle between query and pseudo-context, with equality for every chunk on the arc
  between them: Eq. 7 measures the distance from that arc, not closeness to both ends.
- At equal s1 + s2 Eq. 7 prefers the unbalanced chunk; the plain sum has no preference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

ALPHA_LINE = (0.058, 0.455)
"""Slope per radian and intercept of PAIRS' query weight, as printed (the authors' code: 0.05848, 0.45520)."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Candidates in selection order."""

    order: tuple[int, ...]
    """Positions into the inputs, best first."""
    scores: Floats
    """Score to show, by input position; higher is better."""
    query_angles: Floats
    pseudo_context_angles: Floats
    query_weight: float | None = None


def angles(similarities: Floats | float) -> Floats:
    """Angles in radians of clipped similarities, any shape. NaN stays NaN."""
    result: Floats = np.arccos(np.clip(similarities, -1.0, 1.0))
    return result


def joint_cosine(query_scores: Floats, pseudo_context_scores: Floats) -> Floats:
    """s1 s2 - sqrt(1 - s1^2) sqrt(1 - s2^2) = cos(theta1 + theta2) (DTR Eq. 7), shape (n,)."""
    s1 = np.clip(query_scores, -1.0, 1.0)
    s2 = np.clip(pseudo_context_scores, -1.0, 1.0)
    result: Floats = s1 * s2 - np.sqrt(1.0 - s1**2) * np.sqrt(1.0 - s2**2)
    return result


def query_weight(query_pseudo_angle: float, line: tuple[float, float] = ALPHA_LINE) -> float:
    """PAIRS' alpha = slope * theta0 + intercept, clipped to [0, 1]; theta0 in radians (PAIRS section 3)."""
    slope, intercept = line
    return float(np.clip(slope * query_pseudo_angle + intercept, 0.0, 1.0))


def rank_candidates(
    score: Literal["cos", "sum", "dynamic"],
    query_scores: Sequence[float],
    pseudo_context_scores: Sequence[float],
    query_pseudo_similarity: float,
    chunk_ids: Sequence[str],
    *,
    alpha_line: tuple[float, float] | None = None,
) -> Ranking:
    """Order the candidates of both paths.

    Args:
        score: `cos` (Eq. 7, ranked by the angle sum), `sum` (s1 + s2, the released code), `dynamic` (PAIRS' alpha).
            `rerank` needs a model and is scored in `strategies/dual_path.py`.
        query_scores: s1 per candidate.
        pseudo_context_scores: s2 per candidate.
        query_pseudo_similarity: inner product of the query and pseudo-context vectors.
        chunk_ids: last tie-break, so that the order never depends on how candidates were listed.
        alpha_line: slope and intercept that were fitted on the user's own questions; None means the paper's.
    """
    s1 = np.clip(np.asarray(query_scores, dtype=np.float64), -1.0, 1.0)
    s2 = np.clip(np.asarray(pseudo_context_scores, dtype=np.float64), -1.0, 1.0)
    theta1, theta2 = angles(s1), angles(s2)
    weight: float | None = None
    if score == "cos":
        keys, shown = -(theta1 + theta2), joint_cosine(s1, s2)
    elif score == "sum":
        keys = shown = s1 + s2
    else:
        weight = query_weight(float(angles(query_pseudo_similarity)), alpha_line or ALPHA_LINE)
        keys = shown = -(weight * theta1 + (1.0 - weight) * theta2)
    return Ranking(
        order=_order(keys, s1, chunk_ids),
        scores=shown,
        query_angles=theta1,
        pseudo_context_angles=theta2,
        query_weight=weight,
    )


def _order(keys: Floats, query_scores: Floats, chunk_ids: Sequence[str]) -> tuple[int, ...]:
    # NaN ranks last: a broken number must never win.
    safe_keys = np.where(np.isnan(keys), -np.inf, keys)
    safe_scores = np.where(np.isnan(query_scores), -np.inf, query_scores)
    return tuple(sorted(range(len(keys)), key=lambda i: (-safe_keys[i], -safe_scores[i], chunk_ids[i])))
