"""At which token methods first fire, and how unsure the text is there (ETC Fig. 3).

The paper counts words; here it is tokens, which all methods share. Entropies are those of the text that is written
before anything is looked up, which is the same for every method that goes on from the same prompt.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from adaptrag_cli.evaluation.results import Result
from adaptrag_cli.report.lines import Line, QuestionKey


@dataclass(frozen=True, kw_only=True)
class FirstFirings:
    """Where one strategy first fired."""

    line: str
    strategy: str
    questions: int
    tokens: tuple[int, ...]
    """Of each question on which it fired, rising."""
    entropy_there: float
    """Mean entropy of those tokens, in nats."""
    entropy_of_texts: float
    """Mean entropy of the texts that they stand in."""

    def at(self, token: int) -> int:
        """Questions on which it first fired at a token."""
        return self.tokens.count(token)


def first_firings(lines: Sequence[Line]) -> tuple[FirstFirings, ...]:
    """All strategies that look up only when they fire, and that fired at all."""
    return tuple(
        firings
        for line in lines
        for label, answers in line.answers.items()
        if line.setting(label, "trigger") is not None
        and (firings := _firings(line.name, label, list(answers.values()))) is not None
    )


def mean_entropies(line: Line) -> tuple[float, ...]:
    """Mean over the questions of the entropy of each token, as far as any text goes."""
    texts: dict[QuestionKey, tuple[float, ...]] = {}
    for answers in line.answers.values():
        for key, result in answers.items():
            if result.entropies:
                texts.setdefault(key, result.entropies)
    at: dict[int, list[float]] = defaultdict(list)
    for entropies in texts.values():
        for token, entropy in enumerate(entropies):
            at[token].append(entropy)
    return tuple(math.fsum(at[token]) / len(at[token]) for token in range(len(at)))


def _firings(line: str, label: str, results: Sequence[Result]) -> FirstFirings | None:
    known = [result for result in results if result.look_ups is not None and not result.failure]
    if any(result.look_ups != result.triggers for result in known):
        return None  # its first look-up is no firing
    places = [
        (result.first_trigger.token, result.entropies)
        for result in known
        if result.first_trigger is not None and result.first_trigger.token < len(result.entropies)
    ]
    if not places:
        return None
    return FirstFirings(
        line=line,
        strategy=label,
        questions=len(known),
        tokens=tuple(sorted(token for token, _ in places)),
        entropy_there=math.fsum(entropies[token] for token, entropies in places) / len(places),
        entropy_of_texts=math.fsum(math.fsum(entropies) / len(entropies) for _, entropies in places) / len(places),
    )
