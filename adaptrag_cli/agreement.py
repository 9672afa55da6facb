"""Whether two answers from memory say the same (PAIRS section 3).

The paper asks for answers that are "the same or demonstrating semantic consistency" and gives no rule. Here are four;
in all of them answers without content never agree: two empty strings are equal and verify nothing, and "A" or "..."
is empty once it is normalised.
"""

from __future__ import annotations

from dataclasses import dataclass

from adaptrag_cli.answers import contains_words, normalise_answer, same_answer, token_f1
from adaptrag_cli.config import AgreementRule

_ROUNDING = 1e-6
"""Equal float32 unit vectors may have an inner product this much below 1."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How much two answers agree, from where on they do, and the reason in words."""

    value: float
    limit: float
    agree: bool
    reason: str


def agree(rule: AgreementRule, first: str, second: str, limit: float, similarity: float | None = None) -> Agreement:
    """Compare two answers.

    Args:
        rule: `exact` (equal when normalised), `containment` (one holds the words of the other in a row), `f1` (of
            their words) or `cosine`.
        limit: from where on `f1` and `cosine` agree; the other rules are yes (1) or no (0).
        similarity: inner product of the answers' unit vectors, for `cosine` only; None means that one is blank.
    """
    bound = limit if rule in ("f1", "cosine") else 1.0
    if not normalise_answer(first) or not normalise_answer(second):
        return Agreement(value=0.0, limit=bound, agree=False, reason="an answer from memory is empty")
    if rule == "exact":
        same = same_answer(first, second)
        reason = "both answers from memory are the same" if same else "the two answers from memory differ"
        return Agreement(value=float(same), limit=bound, agree=same, reason=reason)
    if rule == "containment":
        holds = contains_words(first, second) or contains_words(second, first)
        reason = "one answer from memory holds the other" if holds else "neither answer from memory holds the other"
        return Agreement(value=float(holds), limit=bound, agree=holds, reason=reason)
    value = token_f1(first, second) if rule == "f1" else min(max(similarity or 0.0, -1.0), 1.0)
    agrees = value >= bound - _ROUNDING
    measure = "token F1" if rule == "f1" else "cosine"
    sign = ">=" if agrees else "<"
    reason = f"{measure} of the two answers from memory: {value:.2f} {sign} {bound:.2f}"
    return Agreement(value=value, limit=bound, agree=agrees, reason=reason)
