"""Look-ups of methods that write and search in turn, as rows of text: how many, and whether they came in time."""

from __future__ import annotations

from collections.abc import Sequence

from adaptrag_cli.evaluation.retrieval_timing import TimingRow, degenerate_in_words
from adaptrag_cli.evaluation.statistics import Interval
from adaptrag_cli.report.figure import Table, interval, percent
from adaptrag_cli.report.rows import without, without_empty

TIMING_NOTE = (
    "Look-ups while writing: fired counts the questions that a threshold had looked up. Of the questions that were "
    "looked up, redundant are those whose answer without documents was right (also of those looked up at the first "
    "token alone), and delayed those whose text held a wrong answer already. Missing are questions that were not "
    "looked up and answered wrongly. Tokens after etc: how much later the first look-up came on the same text. A "
    "method that fires on under 5 or over 95 % of the questions is degenerate: it decides nothing."
)
"""How to read the rows."""


def look_up_rows(rows: Sequence[TimingRow]) -> Table:
    """How often documents were looked up, and how often they were not where they were needed."""
    columns = ("strategy", "n", "look-ups", "fired", "degenerate", "missing")
    return without_empty(
        Table(
            columns=columns,
            rows=tuple(
                (
                    row.strategy,
                    row.n,
                    number(row.look_ups),
                    interval(row.fired),
                    row.degenerate,
                    interval(row.missing),
                )
                for row in rows
            ),
        )
    )


def brief_look_up_rows(rows: Sequence[TimingRow]) -> Table:
    """The same in 80 characters; the verdict is then a sentence of its own."""
    return without(look_up_rows(rows), ("n", "degenerate"))


def timing_table(rows: Sequence[TimingRow], *, is_wide: bool = True) -> Table:
    """When they came, in 100 characters, or in 80; empty where nothing can be told."""

    def graded(value: Interval | None) -> str:
        return interval(value) if is_wide else percent(value.mean if value else None)

    after = next((row.after for row in rows if row.after), "etc")
    table = without_empty(
        Table(
            columns=("strategy", "redundant", "at first token", "delayed", f"tokens after {after}"),
            rows=tuple(
                (
                    row.strategy,
                    interval(row.redundant),
                    graded(row.redundant_at_first_token),
                    interval(row.delayed),
                    number(row.delay, is_signed=True, is_brief=not is_wide),
                )
                for row in rows
            ),
        )
    )
    return table if len(table.columns) > 1 else Table(columns=(), rows=())


def verdicts(rows: Sequence[TimingRow]) -> tuple[str, ...]:
    """Sentences about those that decide next to nothing."""
    return tuple(words for row in rows if (words := degenerate_in_words(row.strategy, row.fired)))


def number(value: Interval | None, *, is_signed: bool = False, is_brief: bool = False) -> str:
    """A mean that is no share as `1.25 [1.10, 1.40]`, or nothing."""
    if value is None:
        return ""
    form = "+.1f" if is_signed else ".2f"
    mean = format(value.mean, form)
    return mean if is_brief else f"{mean} [{value.low:{form}}, {value.high:{form}}]"
