"""Write the tables of methods that look up while they write, from finished runs of `adaptrag eval`, as Markdown.

    python tests/benchmarks/look_up_tables.py RUN... > tests/benchmarks/look-ups.md

Runs of one model and the same strategies that ask other sets are one table. All sets together come first. Differences
are taken from `--reference` (`cot-retrieve`), question by question. Intervals hold 95 %: Wilson's for scores of 0 or 1,
bootstraps over questions for the others. p-values are corrected by Holm for the number of strategies. Queries are
counted from the traces, by what chose their words.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from strategy_tables import difference, print_table, share, shares

from adaptrag_cli.evaluation.results import Result, RunData, SetInfo, read_run
from adaptrag_cli.evaluation.retrieval_timing import TimingRow, timing_rows
from adaptrag_cli.evaluation.statistics import Interval
from adaptrag_cli.evaluation.summary import StrategyRow, summarise
from adaptrag_cli.events import QueryBuilt
from adaptrag_cli.report.lines import ALL_SETS, Line, lines_of
from adaptrag_cli.report.strategies import pooled
from adaptrag_cli.trace import read_trace

ANSWERS = ("strategy", "n", "EM", "F1", "ACC", "EM against {}", "p", "calls", "tokens read", "median s")
LOOK_UPS = ("strategy", "look-ups", "never", "once", "several", "fired", "redundant", "delayed", "missing")
QUERIES = ("strategy", "what chose the words of its queries")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--reference", default="cot-retrieve", metavar="STRATEGY")
    typed = parser.parse_args()
    for line in lines_of(joined(map(read_run, typed.runs))):
        print_panel(line, pooled(line.run), ALL_SETS, typed.reference)
        for name in line.sets if len(line.sets) > 1 else ():
            print_panel(line, line.run, name, typed.reference)
        print(f"### {line.name}: queries\n")
        print_table(QUERIES, ((f"`{label}`", queries_in_words(line, label)) for label in line.answers))


def joined(runs: Iterable[RunData]) -> list[RunData]:
    """One run for all that differ in nothing but their sets; of a set that two of them ask, the first counts."""
    alike: dict[tuple[object, ...], list[RunData]] = {}
    for run in runs:
        cells = tuple((cell.name, cell.model_fingerprint, cell.encoder) for cell in run.manifest.cells)
        labels = tuple(spec.label for spec in run.manifest.strategies)
        alike.setdefault((cells, labels), []).append(run)
    return [together(parts) for parts in alike.values()]


def together(parts: Sequence[RunData]) -> RunData:
    """The first run with the sets and answers of the others, whose traces are named by their whole path."""
    sets: dict[str, SetInfo] = {}
    results: dict[tuple[str, str, str, str], Result] = {}
    for part in parts:
        for info in part.manifest.sets:
            sets.setdefault(info.name, info)
        for result in part.results:
            trace = str(Path(part.folder).resolve() / result.trace)
            results.setdefault(result.key, msgspec.structs.replace(result, trace=trace))
    manifest = msgspec.structs.replace(parts[0].manifest, sets=tuple(sets.values()))
    return msgspec.structs.replace(parts[0], manifest=manifest, results=tuple(results.values()))


def print_panel(line: Line, run: RunData, panel: str, reference: str) -> None:
    """Print how the strategies answered one panel's questions, and how they looked them up."""
    cell = line.cell.name
    rows = summarise(run, cell=cell, set=panel, reference=reference)
    timing = {row.strategy: row for row in timing_rows(run, cell=cell, set=panel)}
    print(f"### {line.name}: {panel}\n")
    print_table([column.format(reference) for column in ANSWERS], map(answer_row, rows))
    print_table(LOOK_UPS, (look_up_row(row, timing.get(row.strategy)) for row in rows))


def answer_row(row: StrategyRow) -> Sequence[str]:
    paired = row.em_difference
    return (
        f"`{row.strategy}`",
        str(row.n),
        shares(row.em),
        shares(row.f1),
        shares(row.acc),
        difference(paired),
        f"{paired.p_value:.2f}" if paired else "",
        f"{row.llm_calls:.2f}",
        f"{row.prompt_tokens - row.reused_tokens:.0f}",
        f"{row.seconds_median:.1f}",
    )


def look_up_row(row: StrategyRow, timing: TimingRow | None) -> Sequence[str]:
    told = row.retrieval
    steps = (told.none, told.once, told.several) if told else (None, None, None)
    timed = (timing.fired, timing.redundant, timing.delayed, timing.missing) if timing else (None,) * 4
    mean = told.mean if told else None
    return (
        f"`{row.strategy}`",
        f"{mean.mean:.2f} [{mean.low:.2f}, {mean.high:.2f}]" if mean else "",
        *(share(part.mean if part else None) for part in steps),
        *map(counted, timed),
    )


def counted(value: Interval | None) -> str:
    return f"{100 * value.mean:.0f} % [{100 * value.low:.0f}, {100 * value.high:.0f}]" if value else ""


def queries_in_words(line: Line, label: str) -> str:
    """How many queries were made in which way."""
    methods: Counter[str] = Counter()
    for result in line.answers[label].values():
        if result.trace:
            events = read_trace(Path(line.run.folder) / result.trace)
            methods.update(event.method for event in events if isinstance(event, QueryBuilt))
    return ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in methods.most_common())


if __name__ == "__main__":
    main()
