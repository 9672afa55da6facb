"""Write what `adaptrag probe show` tells of a prober as Markdown, for this folder.

python tests/benchmarks/prober_tables.py PROBER.safetensors > tests/benchmarks/probing.md
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from strategy_tables import print_table

from adaptrag_cli.evaluation.probing.assess import assess
from adaptrag_cli.evaluation.probing.outcome import outcome_of
from adaptrag_cli.probing.files import read_prober_file
from adaptrag_cli.report.figure import Table
from adaptrag_cli.report.probe_figures import probe_figures
from adaptrag_cli.report.probe_tables import sections


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prober", type=Path, metavar="FILE")
    file = read_prober_file(parser.parse_args().prober)
    outcome = outcome_of(file.info.report, file.name)
    made = assess(outcome, seed=file.info.seed)
    for part in sections(file.info, outcome, made, file.size):
        print_part(part.title, part.table, part.notes)
    for figure in probe_figures(outcome, made):
        print_part(f"{figure.title} ({figure.source})", figure.brief, (figure.missing or figure.reading,))


def print_part(title: str, table: Table, notes: Iterable[str]) -> None:
    print(f"### {title}\n")
    if table.columns:
        print_table(table.columns, (tuple(map(str, row)) for row in table.rows))
    for note in notes:
        print(f"{note}\n")


if __name__ == "__main__":
    main()
