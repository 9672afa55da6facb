"""How often a question was looked up: never, once or several times (Probing-RAG Tab. 2; DeepRAG Tab. 2)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from adaptrag_cli.evaluation.results import Cell, Result
from adaptrag_cli.evaluation.retrieval_timing import setting_of
from adaptrag_cli.evaluation.statistics import Interval, mean_difference, mean_interval
from adaptrag_cli.events import Record
from adaptrag_cli.stepwise.word_classes import mean_word_classes

_CAPS = ("max_retrievals", "max_steps")
"""Settings of methods that may look up several times."""


class RetrievalSteps(Record, frozen=True, kw_only=True):
    """The look-ups of one strategy on one question set, over its finished runs. Shares are from 0 to 1."""

    n: int
    may_repeat: bool
    """Whether the strategy may look up one question several times."""
    none: Interval | None
    """Share of the questions that were not looked up."""
    once: Interval | None
    several: Interval | None
    total: int
    """Look-ups of all questions."""
    mean: Interval | None
    """Look-ups of a question."""
    mean_right: float | None
    """Of those that were answered right (EM); None where there are none."""
    mean_wrong: float | None
    sub_queries: Interval | None
    """What was asked step by step for a question, without repeats; None of strategies that ask nothing."""
    well_formed: Interval | None = None
    """Share of the questions whose steps kept to their form and came to an answer by themselves."""
    word_classes: dict[str, float] = msgspec.field(default_factory=dict)
    """Words of each class in a sub-query, on average (DeepRAG Fig. 8); empty where nothing was asked."""


def retrieval_steps(results: Sequence[Result], *, may_repeat: bool, seed: int = 0) -> RetrievalSteps | None:
    """Count the look-ups of one strategy's results; None where they are from before look-ups were counted."""
    counted = [(result.look_ups, result) for result in results if result.look_ups is not None and not result.failure]
    if not counted:
        return None
    counts = [count for count, _ in counted]
    asked = [float(result.sub_queries) for _, result in counted if result.sub_queries is not None]
    formed = [float(result.well_formed) for _, result in counted if result.well_formed is not None]
    classes = mean_word_classes(text for _, result in counted for text in result.asked)
    return RetrievalSteps(
        n=len(counted),
        may_repeat=may_repeat,
        none=mean_interval([float(count == 0) for count in counts], seed=seed),
        once=mean_interval([float(count == 1) for count in counts], seed=seed),
        several=mean_interval([float(count > 1) for count in counts], seed=seed),
        total=sum(counts),
        mean=mean_difference([float(count) for count in counts], seed=seed),
        mean_right=_mean([count for count, result in counted if result.em > 0]),
        mean_wrong=_mean([count for count, result in counted if result.em <= 0]),
        sub_queries=mean_difference(asked, seed=seed),
        well_formed=mean_interval(formed, seed=seed),
        word_classes={str(name): mean for name, mean in classes.items()},
    )


def may_repeat(cell: Cell, label: str) -> bool:
    """Whether the settings of a strategy allow several look-ups of a question."""
    return any(setting_of(cell, label, name) is not None for name in _CAPS)


def _mean(counts: Sequence[int]) -> float | None:
    return sum(counts) / len(counts) if counts else None
