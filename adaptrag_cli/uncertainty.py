"""When to retrieve: uncertainty of a generated text from its token log-probabilities. Higher is less sure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from adaptrag_cli.events import DraftOdds


@dataclass(frozen=True, kw_only=True)
class Uncertainty:
    """A measured uncertainty in nats; None when it is undefined, with the reason."""

    value: float | None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Whether to retrieve, and why in words."""

    retrieve: bool
    reason: str


def mean_nll(logprobs: Sequence[float]) -> Uncertainty:
    """Return u = -(1/T) sum ln P(a_t | q, a_<t) over the T generated tokens (DTR Eq. 3).

    The end-of-turn token is not among them. Log-probabilities are used as they are: an exp/log round trip would turn
    an impossible token into a certain one.
    """
    if not logprobs:
        return Uncertainty(value=None, reason="the draft is empty")
    value = -math.fsum(logprobs) / len(logprobs)
    if not math.isfinite(value):
        return Uncertainty(value=None, reason="a token has no finite log-probability")
    return Uncertainty(value=max(value, 0.0))


def decide(uncertainty: Uncertainty, threshold: float) -> Decision:
    """Retrieve when u > threshold; equality answers from the draft (DTR section 4.1). Undefined u retrieves."""
    if uncertainty.value is None:
        return Decision(retrieve=True, reason=f"uncertainty is undefined: {uncertainty.reason}")
    if uncertainty.value > threshold:
        return Decision(retrieve=True, reason="the draft is uncertain")
    if uncertainty.value == threshold:
        return Decision(retrieve=False, reason="tie: u equals the threshold, and the draft is kept")
    return Decision(retrieve=False, reason="the draft is certain enough")


def odds_of(uncertainty: float | None, bands: Sequence[DraftOdds]) -> DraftOdds | None:
    """The band that an uncertainty falls into; None where it is undefined or nothing was measured.

    Bands rise from 0 without a gap. Each holds its upper bound, and the first holds 0.
    """
    if uncertainty is None:
        return None
    return next((band for band in bands if band.up_to is None or uncertainty <= band.up_to), None)
