"""The table of strategies, for every line and every question set, and for all sets together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from adaptrag_cli.evaluation.results import RunData
from adaptrag_cli.evaluation.summary import StrategyRow, summarise
from adaptrag_cli.report.lines import ALL_SETS, Line, panels_of


@dataclass(frozen=True, kw_only=True)
class StrategyTable:
    """The strategies of one line on one panel's questions."""

    line: str
    panel: str
    rows: tuple[StrategyRow, ...]


def strategy_tables(lines: Sequence[Line], *, seed: int = 0) -> tuple[StrategyTable, ...]:
    """Tables by panel, then line; those without results are left out."""
    tables = []
    for panel in panels_of(lines):
        for line in lines:
            run = _pooled(line.run) if panel == ALL_SETS else line.run
            rows = summarise(run, cell=line.cell.name, set=panel, seed=seed)
            if rows:
                tables.append(StrategyTable(line=line.name, panel=panel, rows=rows))
    return tuple(tables)


def _pooled(run: RunData) -> RunData:
    """The run with all its questions in one set; questions of different sets keep different ids."""
    results = tuple(
        msgspec.structs.replace(result, set=ALL_SETS, question_id=f"{result.set}/{result.question_id}")
        for result in run.results
    )
    return RunData(folder=run.folder, manifest=run.manifest, results=results)
