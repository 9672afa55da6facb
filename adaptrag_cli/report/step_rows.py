"""How often questions were looked up, as rows of text: never, once or several times, and how often in all."""

from __future__ import annotations

from collections.abc import Sequence

from adaptrag_cli.evaluation.statistics import Interval
from adaptrag_cli.evaluation.summary import StrategyRow
from adaptrag_cli.report.figure import Table, interval, percent
from adaptrag_cli.report.rows import without_empty
from adaptrag_cli.report.timing_rows import number
from adaptrag_cli.stepwise.word_classes import CLASSES

STEPS_NOTE = (
    "Look-ups of a question: the shares of questions that were looked up never, once and several times, all look-ups "
    "together, and their mean for all questions, for those answered right (EM) and for those answered wrong. "
    "Sub-queries are what a method asked step by step, looked up or not."
)
"""How to read the rows."""

SUB_QUERIES_NOTE = (
    "In form: the share of questions whose steps kept to their form and came to the answer by themselves. Words are "
    "means of a sub-query, counted by lists and endings, without a tagger: they compare methods, and are rough."
)
"""How to read the rows of sub-queries."""


def step_rows(rows: Sequence[StrategyRow], *, is_wide: bool = True) -> Table:
    """Rows of all strategies, without intervals in 80 characters; none where no strategy may look up several times."""
    told = [(row.strategy, row.retrieval) for row in rows if row.retrieval is not None]
    if not any(steps.may_repeat for _, steps in told):
        return Table(columns=(), rows=())
    columns = ("strategy", "never", "once", "several", "total", "mean", "right", "wrong", "sub-queries")
    shares = interval if is_wide else _share
    return without_empty(
        Table(
            columns=columns,
            rows=tuple(
                (
                    strategy,
                    shares(steps.none),
                    shares(steps.once),
                    shares(steps.several),
                    f"{steps.total:,}",
                    number(steps.mean, is_brief=not is_wide),
                    _mean(steps.mean_right),
                    _mean(steps.mean_wrong),
                    number(steps.sub_queries, is_brief=not is_wide),
                )
                for strategy, steps in told
            ),
        )
    )


def sub_query_rows(rows: Sequence[StrategyRow], *, is_wide: bool = True) -> Table:
    """What strategies ask step by step (DeepRAG Fig. 7, 8), and whether they keep to the form."""
    told = [(row.strategy, row.retrieval) for row in rows if row.retrieval is not None]
    shares = interval if is_wide else _share
    return Table(
        columns=("strategy", "in form", "sub-queries", "WH-words", "nouns", "verbs", "conjunctions"),
        rows=tuple(
            (
                strategy,
                shares(steps.well_formed),
                number(steps.sub_queries, is_brief=not is_wide),
                *(_mean(steps.word_classes.get(name)) for name in CLASSES),
            )
            for strategy, steps in told
            if steps.well_formed is not None
        ),
    )


def _share(value: Interval | None) -> str:
    return percent(value.mean if value else None)


def _mean(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
