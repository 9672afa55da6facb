"""Numbers of one next-token distribution, from raw logits over the whole vocabulary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.errors import LogitsUndefined

ALTERNATIVES = 5
# Under -87 float32 exponentials are denormal (slow) and far below anything that a float64 sum near 1 can hold; the clip
# also keeps -inf logits (forbidden tokens) from giving NaN.
_FLOOR = np.float32(-87.0)


@dataclass(frozen=True, kw_only=True)
class TokenStatistics:
    """The greedy choice and the shape of the distribution it was taken from."""

    token_id: int
    logprob: float
    """Natural log of the chosen token's probability."""
    entropy: float
    """Of the whole distribution, in nats."""
    best: tuple[tuple[int, float], ...]
    """Ids and logprobs of the five best tokens (fewer when fewer are possible), best first; equals by ascending id."""


def token_statistics(logits: NDArray[np.float32]) -> TokenStatistics:
    """Reduce raw logits of shape (vocabulary,) to the greedy token, its logprob, the entropy and the five best.

    With z = x - max x and R the sum of exp z over all tokens but the chosen one:
    log p = z - ln(1 + R)  and  H = ln(1 + R) - (sum z exp z) / (1 + R).
    Leaving the chosen token's own 1 out of the sum keeps the full precision of a very sure token (log p near -1e-8).

    Raises:
        LogitsUndefined: a logit is NaN or +inf, so no distribution exists.
    """
    top, z = _below_largest(logits)
    best = _largest(z, min(ALTERNATIVES, len(z)))
    weights, log_total = _weights(z, top)
    weights *= z
    return TokenStatistics(
        token_id=top,
        logprob=-log_total,
        entropy=log_total - float(weights.sum()) / math.exp(log_total),
        best=tuple((index, distance - log_total) for index, distance in best),
    )


def logprobs_of(logits: NDArray[np.float32], token_ids: Sequence[int]) -> tuple[float, ...]:
    """Log-probabilities (natural log) of some tokens under raw logits of shape (vocabulary,): log p = z - ln(1 + R).

    A token has the very number that `token_statistics` gives it; -inf for one that the model forbids.

    Raises:
        LogitsUndefined: a logit is NaN or +inf, so no distribution exists.
    """
    top, z = _below_largest(logits)
    distances = [float(z[i]) for i in token_ids]
    _, log_total = _weights(z, top)
    return tuple(distance - log_total for distance in distances)


def _below_largest(logits: NDArray[np.float32]) -> tuple[int, NDArray[np.float32]]:
    """Find the largest logit (the first of equals) and the distance of each from it, at most 0, as a new array."""
    top = int(np.argmax(logits))
    if not math.isfinite(float(logits[top])):
        raise LogitsUndefined(
            "the model gave logits that are not numbers", "the file may be damaged: adaptrag models verify"
        )
    return top, logits - logits[top]


def _weights(z: NDArray[np.float32], top: int) -> tuple[NDArray[np.float32], float]:
    """Clip z in place; return exp z with 0 in the chosen token's place, and ln(1 + R)."""
    np.maximum(z, _FLOOR, out=z)
    weights = np.exp(z)
    weights[top] = 0.0
    return weights, math.log1p(float(weights.sum()))


def _largest(z: NDArray[np.float32], count: int) -> list[tuple[int, float]]:
    """Find the largest finite values and where they are: repeated argmax is ten times as fast as a partition here."""
    found: list[tuple[int, float]] = []
    for _ in range(count):
        index = int(np.argmax(z))  # the first of equals, hence the smaller id
        if z[index] == -np.inf:
            break
        found.append((index, float(z[index])))
        z[index] = -np.inf
    for index, value in found:
        z[index] = value
    return found
