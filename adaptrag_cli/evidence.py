"""Whether the consulted chunks tell the answer, by a stated rule over numbers that the run has anyway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class EvidenceRule:
    """Limits beyond which an answer from documents is a guess. Measured per answer model and encoder."""

    max_answer_uncertainty: float
    """Mean NLL of the final answer, nats."""
    min_query_score: float
    """Best inner product of a selected chunk with the query."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The judgement and its reason in words."""

    supported: bool
    reason: str


def judge_chunks(query_scores: Sequence[float], rule: EvidenceRule | None) -> Verdict:
    """Judge the consulted chunks before anything is generated from them."""
    if not query_scores:
        return Verdict(supported=False, reason="no chunk was found")
    best = max(query_scores)
    if rule is not None and best < rule.min_query_score:
        return Verdict(
            supported=False,
            reason=f"no chunk is close to the question: best s1 = {best:.2f} < {rule.min_query_score:.2f}",
        )
    return Verdict(supported=True, reason=f"best s1 = {best:.2f}")


def judge_short_answer(answer: str, uncertainty: float | None, rule: EvidenceRule | None) -> Verdict:
    """Judge a word or phrase that was answered from chunks."""
    if not answer:
        return Verdict(supported=False, reason="the model gave no answer")
    if rule is None:
        return Verdict(supported=True, reason="no evidence rule was measured for this model")
    shown = "undefined" if uncertainty is None else f"{uncertainty:.2f}"
    if uncertainty is None or uncertainty > rule.max_answer_uncertainty:
        return Verdict(
            supported=False, reason=f"the answer is a guess: u = {shown} > {rule.max_answer_uncertainty:.2f}"
        )
    return Verdict(supported=True, reason=f"the answer is sure: u = {shown}")


def judge_cited_answer(traced_sentences: int) -> Verdict:
    """Judge sentences of which `traced_sentences` could be traced to a chunk.

    The limit on uncertainty is for a word or phrase: over whole sentences the mean NLL is that of the wording, and says
    little about the fact. Names and numbers that stand in a chunk take its place.
    """
    if traced_sentences == 0:
        return Verdict(supported=False, reason="no sentence's names and numbers stand in a consulted chunk")
    return Verdict(supported=True, reason=f"sentences traced to a chunk: {traced_sentences}")
