"""The table of strategies, for every line and every question set, and for all sets together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from adaptrag_cli.evaluation.results import RunData
from adaptrag_cli.evaluation.retrieval_timing import TimingRow, timing_rows
from adaptrag_cli.evaluation.summary import StrategyRow, break_down_fields, by_type, summarise
from adaptrag_cli.report.lines import ALL_SETS, Line, panels_of


@dataclass(frozen=True, kw_only=True)
class StrategyTable:
    """The strategies of one line on one panel's questions."""

    line: str
    panel: str
    rows: tuple[StrategyRow, ...]
    types: Mapping[str, Mapping[str, tuple[StrategyRow, ...]]] = field(default_factory=dict)
    """The rows by kind of question: a field of the questions (`type`, `hops`), its value, the rows."""
    timing: tuple[TimingRow, ...] = ()
    """How those that look up while they write timed it."""


def strategy_tables(lines: Sequence[Line], *, seed: int = 0) -> tuple[StrategyTable, ...]:
    """Tables by panel, then line; those without results are left out."""
    tables = []
    for panel in panels_of(lines):
        for line in lines:
            run = pooled(line.run) if panel == ALL_SETS else line.run
            rows = summarise(run, cell=line.cell.name, set=panel, seed=seed)
            if rows:
                types = {} if panel == ALL_SETS else _types(run, line.cell.name, panel, seed)
                timing = timing_rows(run, cell=line.cell.name, set=panel, seed=seed)
                tables.append(StrategyTable(line=line.name, panel=panel, rows=rows, types=types, timing=timing))
    return tuple(tables)


def _types(run: RunData, cell: str, panel: str, seed: int) -> dict[str, Mapping[str, tuple[StrategyRow, ...]]]:
    fields = break_down_fields(run, cell=cell, set=panel)
    return {name: by_type(run, cell=cell, set=panel, field=name, seed=seed) for name in fields}


def pooled(run: RunData) -> RunData:
    """The run with all its questions in one set; questions of different sets keep different ids."""
    results = tuple(
        msgspec.structs.replace(result, set=ALL_SETS, question_id=f"{result.set}/{result.question_id}")
        for result in run.results
    )
    return RunData(folder=run.folder, manifest=run.manifest, results=results)
