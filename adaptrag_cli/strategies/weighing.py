"""Weigh a draft against an answer from documents (DTR Eq. 1): the features, and both decisions. Pure functions.

Calibration fits on these features and `dtr+verify` computes them, so what is fitted is what is run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from adaptrag_cli.answers import contains_words, normalise_answer, same_answer, token_f1
from adaptrag_cli.events import AnswerSource, Candidate

DRAFT = ("draft_uncertainty", "draft_is_closed", "draft_fits")
BEFORE = (*DRAFT, "query_similarity", "draft_in_chunks")
AFTER = (*BEFORE, "answer_uncertainty", "answer_is_closed", "answer_fits", "answer_in_chunks", "agreement")
AFTER_BOTH = (*AFTER, "ais_score")
"""With two paths, AIS has scored the chunks."""

_CLOSED = frozenset({"yes", "no"})
_ASKS_YES_OR_NO = re.compile(
    r"(?:am|are|is|was|were|do|does|did|can|could|has|have|had|will|would|shall|should|may|might|must)\b(?!.*\bor\b)",
    re.IGNORECASE | re.DOTALL,
)
_SOFTENING = 0.02
"""Uncertainties below it (nats) are about equally sure."""
_UNDEFINED = 3.0
"""Nats that an undefined uncertainty counts as: less sure than nearly every draft."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A chunk as the weighing sees it."""

    text: str
    """Title and text."""
    query_score: float
    """Inner product with the query vector."""
    ais_score: float | None = None

    @classmethod
    def of(cls, chunk: Candidate) -> Self:
        """A candidate as the weighing sees it."""
        return cls(text=f"{chunk.title}\n{chunk.text}", query_score=chunk.query_score, ais_score=chunk.ais_score)


def draft_features(query: str, draft: str, uncertainty: float | None) -> dict[str, float]:
    """What the draft alone tells. Uncertainties enter as ln(u + .02): they matter by their ratio."""
    return {
        "draft_uncertainty": _logged(uncertainty),
        "draft_is_closed": float(is_closed(draft)),
        "draft_fits": float(fits(query, draft)),
    }


def before_features(query: str, draft: str, uncertainty: float | None, peeked: Sequence[Seen]) -> dict[str, float]:
    """What draft and peeked chunks tell: the best similarity to the question, and how much of the draft they hold."""
    return draft_features(query, draft, uncertainty) | {
        "query_similarity": max((chunk.query_score for chunk in peeked), default=0.0),
        "draft_in_chunks": held_by(draft, peeked),
    }


def after_features(
    query: str,
    draft: str,
    uncertainty: float | None,
    peeked: Sequence[Seen],
    *,
    answer: str,
    answer_uncertainty: float | None,
    kept: Sequence[Seen],
) -> dict[str, float]:
    """What is known once there are two answers."""
    features = before_features(query, draft, uncertainty, peeked) | {
        "draft_in_chunks": held_by(draft, kept),
        "answer_uncertainty": _logged(answer_uncertainty),
        "answer_is_closed": float(is_closed(answer)),
        "answer_fits": float(fits(query, answer)),
        "answer_in_chunks": held_by(answer, kept),
        "agreement": agreement(draft, answer),
    }
    scores = [chunk.ais_score for chunk in kept if chunk.ais_score is not None]
    return features | ({"ais_score": max(scores)} if scores else {})


def is_closed(answer: str) -> bool:
    """Whether it is a yes or a no: no document holds such an answer, and a model is sure of it for little reason."""
    return normalise_answer(answer) in _CLOSED


def fits(query: str, answer: str) -> bool:
    """Whether a question for yes or no, and no other, has got one of them (English; "is it A or B" asks for a name)."""
    return bool(normalise_answer(answer)) and (_ASKS_YES_OR_NO.match(query.strip()) is not None) == is_closed(answer)


def held_by(answer: str, chunks: Sequence[Seen]) -> float:
    """The largest share of the answer's words that stand in one chunk; 0 for yes and no, which none holds."""
    words = set(normalise_answer(answer).split())
    if not words or is_closed(answer):
        return 0.0
    return max((len(words & set(normalise_answer(c.text).split())) / len(words) for c in chunks), default=0.0)


def agreement(draft: str, answer: str) -> float:
    """1 where the answers are the same or one holds the words of the other in a row, else their token F1."""
    if same_answer(draft, answer) or contains_words(draft, answer) or contains_words(answer, draft):
        return 1.0
    return token_f1(draft, answer)


def is_worth_looking_up(draft: float, documents: float, *, margin: float, floor: float) -> bool:
    """DTR Eq. 1 with a margin: look up unless the draft is likelier right by more than it.

    A draft below the floor is looked up in any case.

    Args:
        draft: chance that the draft is right (P_param).
        documents: chance that documents give the right answer (P_ret * P_gen).
    """
    return draft <= documents + margin or draft < floor


def likelier(draft: float, documents: float | None, *, margin: float, floor: float) -> AnswerSource:
    """Which answer is given: the one from documents, unless the draft is likelier right by more than the margin.

    None where the one to be given is below the floor. `documents` is None where they gave no answer.
    """
    if documents is None:
        return "draft" if draft >= floor else "none"
    if draft > documents + margin:
        return "draft" if draft >= floor else "none"
    return "documents" if documents >= floor else "none"


def _logged(uncertainty: float | None) -> float:
    return math.log((_UNDEFINED if uncertainty is None else min(uncertainty, _UNDEFINED)) + _SOFTENING)
