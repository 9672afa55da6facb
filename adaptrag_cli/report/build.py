"""Everything that a report holds, before it becomes a page, a text or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.cache import EvaluationCache
from adaptrag_cli.evaluation.results import RunData, require_comparable
from adaptrag_cli.report.adapter_charts import adapter_figures
from adaptrag_cli.report.answer_charts import answer_figures
from adaptrag_cli.report.chunk_charts import chunk_figures
from adaptrag_cli.report.figure import Figure
from adaptrag_cli.report.lines import Line, lines_of
from adaptrag_cli.report.projection import Projection, project_line
from adaptrag_cli.report.step_charts import step_figures
from adaptrag_cli.report.strategies import StrategyTable, strategy_tables
from adaptrag_cli.report.uncertainty_charts import uncertainty_figures
from adaptrag_cli.report.writing_charts import writing_figures

FORMAT = 1
_NEEDS_TWO_PATHS = "needs dpr-ais, dtr or pairs, and the run's cache with the vectors of what they found"


@dataclass(frozen=True, kw_only=True)
class Report:
    """Runs that belong together, their tables and their figures."""

    runs: tuple[RunData, ...]
    lines: tuple[Line, ...]
    tables: tuple[StrategyTable, ...]
    figures: tuple[Figure, ...]


def build_report(runs: Sequence[RunData], *, seed: int = 0) -> Report:
    """Compute all tables and figures.

    Raises:
        ConfigError: the runs asked other questions of a set of the same name, or none has an answer yet.
    """
    require_comparable(runs)
    if not any(run.results for run in runs):
        raise ConfigError(f"{runs[0].folder} holds no answer yet", "go on with: adaptrag eval ... --resume")
    lines = tuple(line for line in lines_of(runs) if line.answers)
    projections, no_vectors = _projections(lines)
    return Report(
        runs=tuple(runs),
        lines=lines,
        tables=strategy_tables(lines, seed=seed),
        figures=(
            *uncertainty_figures(lines, seed=seed),
            *chunk_figures(lines, projections, no_vectors=no_vectors),
            *answer_figures(lines, seed=seed),
            *writing_figures(lines, seed=seed),
            *step_figures(lines),
            *adapter_figures(lines, seed=seed),
        ),
    )


def document(report: Report) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "format": FORMAT,
        "runs": [{"folder": run.folder, "manifest": msgspec.to_builtins(run.manifest)} for run in report.runs],
        "tables": [
            {
                "line": table.line,
                "set": table.panel,
                "strategies": msgspec.to_builtins(table.rows),
                "timing": msgspec.to_builtins(table.timing),
            }
            for table in report.tables
        ],
        "figures": [_figure_document(figure) for figure in report.figures],
    }


def _figure_document(figure: Figure) -> dict[str, Any]:
    kept = ("name", "title", "source", "reading", "notes", "missing")
    data = {"columns": figure.data.columns, "rows": figure.data.rows}
    return {name: value for name, value in asdict(figure).items() if name in kept} | {"data": data}


def _projections(lines: Sequence[Line]) -> tuple[list[Projection], str]:
    """What can be projected, and why not where nothing can."""
    projections: list[Projection] = []
    why = ""
    for line in lines:
        cache = line.run.manifest.cache
        # A cache outside the run has an absolute path; one inside is named from the run.
        path = next((p for p in (Path(line.run.folder, cache), Path(cache)) if p.is_file()), None)
        if path is None:
            why = why or f"{_NEEDS_TWO_PATHS}; {cache} is not there"
            continue
        try:
            vectors = EvaluationCache(path)
        except ConfigError as error:
            why = why or error.message
            continue
        try:
            projection = project_line(line, vectors)
        finally:
            vectors.close()
        if projection is not None:
            projections.append(projection)
    return projections, why or _NEEDS_TWO_PATHS
