"""Strategies as rows of text: what they answer, and what it costs. The page and the terminal share them."""

from __future__ import annotations

from collections.abc import Sequence

from adaptrag_cli.evaluation.summary import StrategyRow
from adaptrag_cli.report.figure import Table, interval, percent


def answer_rows(rows: Sequence[StrategyRow]) -> Table:
    """Right answers, gold passages, and the verdict against the reference."""
    columns = ("strategy", "n", "EM", "F1", "ACC", "recall", "EM against always")
    return Table(
        columns=columns,
        rows=tuple(
            (
                row.strategy,
                row.n,
                interval(row.em),
                interval(row.f1),
                interval(row.acc),
                interval(row.recall),
                verdict(row),
            )
            for row in rows
        ),
    )


def cost_rows(rows: Sequence[StrategyRow]) -> Table:
    """How often documents were looked up, and what that took."""
    columns = ("strategy", "looked up", "searches", "LLM calls", "tokens", "median s", "p95 s", "failed")
    return Table(
        columns=columns,
        rows=tuple(
            (
                row.strategy,
                interval(row.trigger_ratio),
                f"{row.searches:.2f}",
                f"{row.llm_calls:.2f}",
                f"{tokens(row):.0f}",
                f"{row.seconds_median:.1f}",
                f"{row.seconds_p95:.1f}",
                row.failures,
            )
            for row in rows
        ),
    )


def tokens(row: StrategyRow) -> float:
    """Tokens that the model worked through: read anew and written."""
    return row.prompt_tokens - row.reused_tokens + row.generated_tokens


def verdict(row: StrategyRow) -> str:
    """`better (+5.0 points)`, or nothing for the reference itself."""
    if row.em_difference is None:
        return ""
    return f"{row.em_difference.verdict} ({100 * row.em_difference.difference:+.1f})"


def brief_rows(rows: Sequence[StrategyRow]) -> Table:
    """The few columns that fit 80 characters."""
    return Table(
        columns=("strategy", "n", "EM", "F1", "recall", "trigger", "calls", "s"),
        rows=tuple(
            (
                row.strategy,
                row.n,
                interval(row.em),
                percent(row.f1.mean if row.f1 else None),
                percent(row.recall.mean if row.recall else None),
                percent(row.trigger_ratio.mean if row.trigger_ratio else None),
                f"{row.llm_calls:.1f}",
                f"{row.seconds_median:.1f}",
            )
            for row in rows
        ),
    )
