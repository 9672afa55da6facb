"""Strategies as rows of text: what they answer, and what it costs. The page and the terminal share them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from adaptrag_cli.evaluation.metrics import DecisionQuality
from adaptrag_cli.evaluation.statistics import Interval, Paired
from adaptrag_cli.evaluation.summary import StrategyRow
from adaptrag_cli.report.figure import Table, interval, percent

_DECIDE_NOTHING = frozenset({"cot", "cot-retrieve"})
"""Strategies that reason and never ask themselves whether to look up."""


def answer_rows(rows: Sequence[StrategyRow]) -> Table:
    """Right answers, gold passages, and the verdict against the reference."""
    columns = ("strategy", "n", "EM", "F1", "F1 first gold", "ACC", "recall", "all gold", "EM against always")
    return Table(
        columns=columns,
        rows=tuple(
            (
                row.strategy,
                row.n,
                interval(row.em),
                interval(row.f1),
                interval(row.f1_first_gold),
                interval(row.acc),
                interval(row.recall),
                interval(row.all_gold),
                verdict(row),
            )
            for row in rows
        ),
    )


def brief_answer_rows(rows: Sequence[StrategyRow], *, is_wide: bool) -> Table:
    """The same in 100 characters, or in 80, without a column of what was not measured."""

    def graded(value: Interval | None) -> str:
        return interval(value) if is_wide else _mean(value)

    table = Table(
        columns=("strategy", "n", "EM", "F1", "ACC", "recall", "all gold"),
        rows=tuple(
            (
                row.strategy,
                row.n,
                interval(row.em),
                graded(row.f1),
                _mean(row.acc),
                graded(row.recall),
                _mean(row.all_gold),
            )
            for row in rows
        ),
    )
    return without_empty(table)


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


def brief_cost_rows(rows: Sequence[StrategyRow]) -> Table:
    """The same without failures, in 80 characters."""
    whole = cost_rows(rows)
    return without(whole, ("failed",))


def tokens(row: StrategyRow) -> float:
    """Tokens that the model worked through: read anew and written."""
    return row.prompt_tokens - row.reused_tokens + row.generated_tokens


def reference_of(rows: Sequence[StrategyRow]) -> str:
    """The strategy that the others are compared with."""
    return next((row.against for row in rows if row.against), "always")


def verdict(row: StrategyRow) -> str:
    """`better (+5.0 points)`, or nothing for the reference itself."""
    if row.em_difference is None:
        return ""
    return f"{row.em_difference.verdict} ({100 * row.em_difference.difference:+.1f})"


def brief_decision_rows(rows: Sequence[StrategyRow]) -> Table:
    """The same in 80 characters: without intervals, and without a column of what was not measured."""
    return without_empty(decision_rows(rows, is_wide=False))


def decision_rows(rows: Sequence[StrategyRow], *, is_wide: bool = True) -> Table:
    """How well each strategy knew what is right without documents (DeepRAG Tab. 3), and what retrieval left of drafts.

    Methods that ask in steps are held against answers that were reasoned without documents, where there are any.
    Where all drafts are right, or all wrong, there is nothing to tell apart: the accuracy alone is shown.
    """
    columns = ("strategy", "drafts right", "F1", "accuracy", "balanced", "MCC", "AUROC", "still right", "right by")
    table = Table(
        columns=columns,
        rows=tuple(
            (
                row.strategy,
                percent(row.decision.answerable),
                *_told_apart(row.decision, is_wide=is_wide),
                "" if row.decision.auroc is None else f"{row.decision.auroc:.2f}",
                percent(row.consistency),
                row.judged_by,
            )
            for row in rows
            if row.decision is not None and row.strategy.split(":")[0] not in _DECIDE_NOTHING
        ),
    )
    return table if any(row.judged_by for row in rows) else without(table, ("right by",))


def _told_apart(decision: DecisionQuality, *, is_wide: bool) -> tuple[str, str, str, str]:
    accuracy = percent(decision.accuracy)
    if not 0 < decision.answerable < 1:
        return "", accuracy, "", ""
    measured = interval(decision.intervals.get("balanced_accuracy")) if is_wide else ""
    balanced = measured or percent(decision.balanced_accuracy)
    return percent(decision.f1), accuracy, balanced, f"{decision.mcc:+.2f}"


def difference_rows(rows: Sequence[StrategyRow]) -> Table:
    """How far each strategy parts from the reference, question by question; p-values are corrected by Holm."""
    columns = (
        "strategy",
        "other chunks",
        "other answer",
        "EM difference",
        "won",
        "lost",
        "p",
        "F1 difference",
        "p of F1",
    )
    return Table(
        columns=columns,
        rows=tuple(
            (
                row.strategy,
                percent(row.chunks_differ),
                percent(row.answers_differ),
                _difference(row.em_difference),
                row.em_difference.wins,
                row.em_difference.losses,
                f"{row.em_difference.p_value:.3f}",
                _difference(row.f1_difference),
                f"{row.f1_difference.p_value:.3f}" if row.f1_difference else "",
            )
            for row in rows
            if row.em_difference is not None
        ),
    )


def brief_difference_rows(rows: Sequence[StrategyRow]) -> Table:
    """Those of EM alone, in 80 characters."""
    whole = difference_rows(rows)
    return without(whole, ("F1 difference", "p of F1"))


def type_rows(rows: Mapping[str, Sequence[StrategyRow]]) -> Table:
    """EM by kind of question, with the number of questions of each kind."""
    first = next(iter(rows.values()), ())
    kinds = tuple(f"{kind} ({found[0].n if found else 0})" for kind, found in rows.items())
    em = {
        (kind, row.strategy): percent(row.em.mean if row.em else None) for kind, found in rows.items() for row in found
    }
    return Table(
        columns=("strategy", *kinds),
        rows=tuple((row.strategy, *(em.get((kind, row.strategy), "") for kind in rows)) for row in first),
    )


def without_empty(table: Table) -> Table:
    """A table without its columns of nothing."""
    return without(table, [name for at, name in enumerate(table.columns) if all(row[at] == "" for row in table.rows)])


def without(table: Table, dropped: Collection[str]) -> Table:
    """A table without some of its columns."""
    kept = [at for at, name in enumerate(table.columns) if name not in dropped]
    return Table(
        columns=tuple(table.columns[at] for at in kept),
        rows=tuple(tuple(row[at] for at in kept) for row in table.rows),
    )


def _mean(value: Interval | None) -> str:
    return percent(value.mean if value else None)


def _difference(paired: Paired | None) -> str:
    if paired is None:
        return ""
    return f"{100 * paired.difference:+.1f} [{100 * paired.low:+.1f}, {100 * paired.high:+.1f}]"
