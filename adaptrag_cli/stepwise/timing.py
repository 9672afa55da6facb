"""Whether look-ups came when they were needed: redundant, delayed and missing retrieval (ETC sections 2.2, 6.3, 6.5).

The paper had people judge 100 questions. Here: a retrieval is redundant when the answer without it was right; it is
delayed when the text that was kept at the first trigger already holds a wrong answer; it is missing when nothing was
looked up and the answer is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

from adaptrag_cli.answers import concluded_answer, concludes, contains_words, normalise_answer, same_answer

_CLOSED = frozenset({"yes", "no"})


@dataclass(frozen=True, kw_only=True)
class FirstTrigger:
    """Where the first look-up of a run was asked for."""

    token: int
    """Which token of the text it was asked for at, from 0: the one with which the word begins that fires, else the next
    one to be written."""
    kept: str
    """The text that was kept."""


@dataclass(frozen=True, kw_only=True)
class TimedRun:
    """A question as one method answered it, and as the same model answers it without documents."""

    question: str
    golds: tuple[str, ...]
    answer_without: str
    right: bool
    right_without: bool
    first_trigger: FirstTrigger | None
    """None exactly where nothing was looked up."""


def is_redundant(run: TimedRun) -> bool:
    """Whether it looked up what the model would have got right without."""
    return run.first_trigger is not None and run.right_without


def is_delayed(run: TimedRun) -> bool:
    """Whether the text kept at the first trigger already holds a wrong answer.

    The wrong answer is the model's own without documents. One that the question names, or a yes or no, stands in many
    texts: it counts only where the kept text gives it as its answer.
    """
    if run.first_trigger is None or run.right_without:
        return False
    kept, wrong = run.first_trigger.kept, run.answer_without
    if concludes(kept) and not any(same_answer(concluded_answer(kept), gold) for gold in run.golds):
        return True
    if normalise_answer(wrong) in _CLOSED or contains_words(run.question, wrong):
        return False
    return contains_words(kept, wrong)


def is_missing(run: TimedRun) -> bool:
    """Whether it answered wrongly and had looked up nothing."""
    return run.first_trigger is None and not run.right


def delay_of(trigger: FirstTrigger | None, reference: FirstTrigger | None) -> int | None:
    """Number of tokens by which a trigger comes after the reference's on the same text; negative if before.

    None where one of them is missing, and where the two texts part before either was asked for.
    """
    if trigger is None or reference is None:
        return None
    if not (trigger.kept.startswith(reference.kept) or reference.kept.startswith(trigger.kept)):
        return None
    return trigger.token - reference.token
