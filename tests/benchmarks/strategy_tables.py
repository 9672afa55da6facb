"""Write the tables of finished runs of `adaptrag eval` as Markdown, for this folder.

    python tests/benchmarks/strategy_tables.py RUN... > tests/benchmarks/strategies.md

Each set gets a table of answers and one of costs and differences; all sets together come first. Intervals hold
95 %: Wilson's for scores that are 0 or 1, bootstraps over questions for the others. p-values are corrected by Holm for
the number of strategies.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from adaptrag_cli.evaluation.results import read_run
from adaptrag_cli.evaluation.statistics import Interval, Paired
from adaptrag_cli.evaluation.summary import StrategyRow
from adaptrag_cli.report.lines import lines_of
from adaptrag_cli.report.strategies import strategy_tables

ANSWERS = ("strategy", "n", "EM", "F1", "recall@k", "looked up", "EM against always", "p")
COSTS = ("strategy", "calls", "searches", "tokens read", "written", "median s", "other chunks", "other answer", "MCC")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    for run in map(read_run, parser.parse_args().runs):
        for part in strategy_tables(lines_of([run])):
            print(f"### {part.line}: {part.panel}\n")
            print_table(ANSWERS, (answer_row(row) for row in part.rows))
            print_table(COSTS, (cost_row(row) for row in part.rows))


def answer_row(row: StrategyRow) -> Sequence[str]:
    paired = row.em_difference
    return (
        f"`{row.strategy}`",
        str(row.n),
        shares(row.em),
        shares(row.f1),
        shares(row.recall),
        share(row.trigger_ratio.mean if row.trigger_ratio else None),
        difference(paired),
        f"{paired.p_value:.2f}" if paired else "",
    )


def cost_row(row: StrategyRow) -> Sequence[str]:
    return (
        f"`{row.strategy}`",
        f"{row.llm_calls:.2f}",
        f"{row.searches:.2f}",
        f"{row.prompt_tokens - row.reused_tokens:.0f}",
        f"{row.generated_tokens:.0f}",
        f"{row.seconds_median:.1f}",
        share(row.chunks_differ),
        share(row.answers_differ),
        f"{row.decision.mcc:+.2f}" if row.decision else "",
    )


def share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"


def shares(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return f"{100 * interval.mean:.1f} [{100 * interval.low:.0f}, {100 * interval.high:.0f}]"


def difference(paired: Paired | None) -> str:
    if paired is None:
        return ""
    return f"{100 * paired.difference:+.1f} ({paired.wins} won, {paired.losses} lost)"


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    print(f"| {' | '.join(columns)} |")
    print(f"|{'---|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print()


if __name__ == "__main__":
    main()
