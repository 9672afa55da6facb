"""Whether what the probers of some layers say means: look up (METHODS 8)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adaptrag_cli.events import ProbeRule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class ProbeVerdict:
    """What was compared, and what follows."""

    retrieve_score: float
    """Sum over the layers; may be NaN."""
    stop_score: float
    retrieve: bool
    is_undefined: bool
    """A score is no number, or there was nothing to add up: then it is looked up."""


def decide(logits: Iterable[tuple[float, float]], *, theta: float, rule: ProbeRule) -> ProbeVerdict:
    """Add up the layers' (retrieve, stop) logits, or their probabilities, and compare the sums S0 and S1.

    `logits`: retrieve iff S0 + theta > S1, so a tie stops (Algorithm 1). `probabilities`: stop iff S0 + theta < S1, so
    a tie retrieves (the released code); with L layers, theta beyond L on either side changes nothing.
    """
    pairs = [_probabilities(*pair) if rule == "probabilities" else pair for pair in logits]
    retrieve_score, stop_score = _sum(pair[0] for pair in pairs), _sum(pair[1] for pair in pairs)
    is_undefined = not pairs or not (math.isfinite(retrieve_score) and math.isfinite(stop_score))
    asked_for = retrieve_score + theta
    retrieve = asked_for > stop_score if rule == "logits" else not asked_for < stop_score
    return ProbeVerdict(
        retrieve_score=retrieve_score,
        stop_score=stop_score,
        retrieve=retrieve or is_undefined,
        is_undefined=is_undefined,
    )


def stops(logits: NDArray[np.floating], *, theta: float = 0.0) -> NDArray[np.bool_]:
    """The decision by logits for many texts at once: (..., 2) summed pairs (retrieve, stop) to (...)."""
    stopped: NDArray[np.bool_] = logits[..., 0] + theta <= logits[..., 1]
    return stopped


def _sum(values: Iterable[float]) -> float:
    """The sum; of infinities of both signs NaN."""
    try:
        return math.fsum(values)
    except (ValueError, OverflowError):
        return math.nan


def _probabilities(retrieve: float, stop: float) -> tuple[float, float]:
    """Softmax of the two logits."""
    greatest = max(retrieve, stop)
    parts = math.exp(retrieve - greatest), math.exp(stop - greatest)
    return parts[0] / sum(parts), parts[1] / sum(parts)
