"""Write what DeepRAG's training came to as Markdown: its trees and stages, then what its adapters answer.

    python tests/benchmarks/narrative_tables.py RUN... --eval EVAL > tests/benchmarks/deeprag-0.5b.md

RUN is a folder of `adaptrag deeprag synthesize`, EVAL a finished run of `adaptrag eval` that varies the adapter. The
first adapter of EVAL (`none`) is what the others are compared with, question by question. Intervals hold 95 %: Wilson's
for scores of 0 or 1, bootstraps over questions for the others. p-values are corrected by Holm within a strategy.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from look_up_tables import counted
from prober_tables import print_part
from strategy_tables import difference, print_table, shares

from adaptrag_cli.evaluation.results import RunData
from adaptrag_cli.evaluation.results import read_run as read_evaluation
from adaptrag_cli.evaluation.statistics import Paired, holm, paired_test
from adaptrag_cli.evaluation.summary import StrategyRow, summarise
from adaptrag_cli.learning.run_figures import run_figures
from adaptrag_cli.learning.runs import read_explored, read_run
from adaptrag_cli.learning.training_report import read_losses, reports_of, trainings_begun
from adaptrag_cli.report.training_figures import training_figures
from adaptrag_cli.report.training_tables import exploration_sections, training_sections
from adaptrag_cli.stepwise.word_classes import CLASSES

ANSWERS = ("adapter", "strategy", "n", "EM", "F1", "EM against {}", "p", "calls", "tokens read", "median s")
STEPS = ("adapter", "strategy", "look-ups", "right", "wrong", "never", "once", "several", "sub-queries", "in form")
DECISIONS = ("adapter", "strategy", "right from memory", "decision F1", "accuracy", "balanced", "MCC")
WORDS = ("adapter", "strategy", *CLASSES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--eval", type=Path, metavar="EVAL")
    typed = parser.parse_args()
    if typed.eval is not None:
        print("## Answers\n")
        print_evaluation(read_evaluation(typed.eval))
    for folder in typed.runs:
        print_training(folder)


def print_evaluation(run: RunData) -> None:
    """Print, for each question set, what each adapter answers, how it looks up, and how it decides."""
    for info in run.manifest.sets:
        rows = [
            (cell.name.removeprefix("adapter="), row)
            for cell in run.manifest.cells
            for row in summarise(run, cell=cell.name, set=info.name)
        ]
        reference = rows[0][0]
        compared = dict(comparisons(run, info.name))
        print(f"### {info.name}: {run.manifest.cells[0].model}\n")
        answers = (answer_row(name, row, compared.get((row.cell, row.strategy))) for name, row in rows)
        print_table([column.format(reference) for column in ANSWERS], answers)
        print_table(STEPS, (step_row(name, row) for name, row in rows))
        print_table(DECISIONS, (decision_row(name, row) for name, row in rows if row.decision is not None))
        print_table(WORDS, (word_row(name, row) for name, row in rows))


def comparisons(run: RunData, set_name: str) -> Iterator[tuple[tuple[str, str], Paired | None]]:
    """Exact match of each cell and strategy against that of the first cell, over the questions of both."""
    first, *others = (run.by_strategy(cell=cell.name, set=set_name) for cell in run.manifest.cells)
    names = [cell.name for cell in run.manifest.cells][1:]
    for strategy, reference in first.items():
        tested = []
        for table in others:
            asked = table.get(strategy, {})
            shared = [question for question in asked if question in reference]
            tested.append(paired_test([asked[q].em for q in shared], [reference[q].em for q in shared]))
        yield from (((name, strategy), paired) for name, paired in zip(names, holm(tested), strict=True))


def answer_row(adapter: str, row: StrategyRow, paired: Paired | None) -> Sequence[str]:
    return (
        adapter,
        f"`{row.strategy}`",
        str(row.n),
        shares(row.em),
        shares(row.f1),
        difference(paired),
        f"{paired.p_value:.2f}" if paired else "",
        f"{row.llm_calls:.2f}",
        f"{row.prompt_tokens - row.reused_tokens:.0f}",
        f"{row.seconds_median:.1f}",
    )


def step_row(adapter: str, row: StrategyRow) -> Sequence[str]:
    steps = row.retrieval
    if steps is None:
        return (adapter, f"`{row.strategy}`", *[""] * (len(STEPS) - 2))
    return (
        adapter,
        f"`{row.strategy}`",
        f"{steps.mean.mean:.2f} [{steps.mean.low:.2f}, {steps.mean.high:.2f}]" if steps.mean else "",
        *("" if mean is None else f"{mean:.2f}" for mean in (steps.mean_right, steps.mean_wrong)),
        *(counted(part) for part in (steps.none, steps.once, steps.several)),
        f"{steps.sub_queries.mean:.2f}" if steps.sub_queries else "",
        counted(steps.well_formed),
    )


def decision_row(adapter: str, row: StrategyRow) -> Sequence[str]:
    decision = row.decision
    assert decision is not None
    return (
        adapter,
        f"`{row.strategy}`",
        f"{100 * decision.answerable:.0f} %, by {row.judged_by or 'the draft'}",
        f"{decision.f1:.2f}",
        f"{decision.accuracy:.2f}",
        f"{decision.balanced_accuracy:.2f}",
        f"{decision.mcc:+.2f}",
    )


def word_row(adapter: str, row: StrategyRow) -> Sequence[str]:
    classes: Mapping[str, float] = row.retrieval.word_classes if row.retrieval else {}
    return (adapter, f"`{row.strategy}`", *(f"{classes[name]:.2f}" if name in classes else "" for name in CLASSES))


def print_training(folder: Path) -> None:
    """Print what a run has explored, and what each stage of training made of it."""
    manifest = read_run(folder)
    found, reports = run_figures(manifest, read_explored(folder)), reports_of(folder)
    curves = {training: read_losses(folder, training) for training in trainings_begun(folder)}
    teacher = f", taught by {manifest.teacher}" if manifest.teacher != manifest.model else ""
    print(f"## `{folder.name}`: trees of {manifest.model}{teacher}\n")
    parts = [*exploration_sections(manifest, found)]
    for report in reports.values():
        parts += training_sections(report)
    for part in parts:
        print_part(part.title, part.table, part.notes)
    for figure in training_figures(found, curves, reports):
        print_part(f"{figure.title} ({figure.source})", figure.brief, _told(figure.missing or figure.reading))


def _told(text: str) -> Iterable[str]:
    return (text,) if text else ()


if __name__ == "__main__":
    main()
