"""Answers out of chains of thought that may lack "the answer is" (METHODS 4.7 and 13.8)."""

from __future__ import annotations

from typing import Literal

from adaptrag_cli.answers import concluded_answer, concludes

Missing = Literal["nothing", "text"]
"""What stands for an answer that is not there: nothing (HotpotQA, IIRC), or the whole text (2WikiMultihopQA)."""


def reasoned_answer(reasoning: str, *, missing: Missing = "nothing") -> str:
    """What follows the first "the answer is", or what stands for it."""
    if missing == "text" and not concludes(reasoning):
        return reasoning.strip()
    return concluded_answer(reasoning)


def yes_or_no(answer: str) -> Literal["yes", "no"]:
    """StrategyQA's reading of an answer: yes if it begins with "yes", else no."""
    return "yes" if answer.strip()[:3].lower() == "yes" else "no"
