"""Whether look-ups came when they were needed: redundant, delayed and missing retrieval (ETC sections 2.2, 6.3, 6.5).

The paper had people judge 100 questions. Here: a retrieval is redundant when the answer without it was right; it is
delayed when the text that was kept at the first trigger already holds a wrong answer; it is missing when nothing was
looked up and the answer is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adaptrag_cli.answers import concluded_answer, concludes, contains_words, normalise_answer, same_answer

_CLOSED = frozenset({"yes", "no"})


@dataclass(frozen=True, kw_only=True)
class FirstTrigger:
    """Where the first look-up of a run was asked for."""

    token: int
    """The token that it was asked for at: how many the run had written and kept, 0 for the first."""
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
    retrievals: int
    first_trigger: FirstTrigger | None
    """None exactly where nothing was looked up."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """So many of so many."""

    count: int
    of: int

    @property
    def value(self) -> float | None:
        """From 0 to 1; None of nothing."""
        return self.count / self.of if self.of else None


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How a method timed its look-ups."""

    runs: int
    mean_retrievals: float | None
    """None without runs."""
    redundant: Share
    """Of the runs that looked up."""
    redundant_at_first_token: Share
    """Of those that looked up before the first token."""
    delayed: Share
    """Of the runs that looked up."""
    missing: Share
    """Of all runs."""


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


def time_retrievals(runs: Sequence[TimedRun]) -> Timing:
    """Count the look-ups of a method, and how many of them came in vain, late or not at all."""
    looked_up = [run for run in runs if run.first_trigger is not None]
    at_once = [run for run in looked_up if run.first_trigger is not None and run.first_trigger.token == 0]
    return Timing(
        runs=len(runs),
        mean_retrievals=sum(run.retrievals for run in runs) / len(runs) if runs else None,
        redundant=Share(count=sum(map(is_redundant, looked_up)), of=len(looked_up)),
        redundant_at_first_token=Share(count=sum(map(is_redundant, at_once)), of=len(at_once)),
        delayed=Share(count=sum(map(is_delayed, looked_up)), of=len(looked_up)),
        missing=Share(count=sum(map(is_missing, runs)), of=len(runs)),
    )


def mean_delay(triggers: Sequence[int | None], reference: Sequence[int | None]) -> float | None:
    """Mean number of tokens by which triggers come after the reference's on the same texts; negative if before.

    A text counts where both have triggered. None without any.
    """
    delays = [
        token - other
        for token, other in zip(triggers, reference, strict=True)
        if token is not None and other is not None
    ]
    return sum(delays) / len(delays) if delays else None
