"""`adaptrag eval judge`: open two runs and a judge, show progress, and print who wins how often."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from adaptrag_cli.cli.boundary import say
from adaptrag_cli.cli.interrupt import cancelling_on_interrupt
from adaptrag_cli.config import Settings
from adaptrag_cli.errors import ConfigError, RunCancelled
from adaptrag_cli.evaluation.pairwise import PairVerdict, PairwiseRow, judge_pairs, pairs_to_judge, summarise_verdicts
from adaptrag_cli.evaluation.results import Result, RunData, read_run
from adaptrag_cli.evaluation.statistics import Interval
from adaptrag_cli.render import json_text
from adaptrag_cli.terminal import printable

_EVERY = 25


def judge_runs(first: str, second: str, settings: Settings, *, as_json: bool) -> None:
    """Judge all questions that both were asked, and print the table.

    Raises:
        AdaptRAGError: a run, a strategy or the judge cannot be used, or the person stopped.
    """
    (ours, our_label), (theirs, their_label) = _open(first), _open(second)
    pairs = pairs_to_judge(ours, our_label, theirs, their_label)
    from adaptrag_cli.session.plan import model_load_of
    from adaptrag_cli.session.session import load_model

    model = load_model(model_load_of(settings), say)
    try:
        with cancelling_on_interrupt(model.cancel) as interruption:
            verdicts = []
            for verdict in judge_pairs(pairs, model, should_stop=lambda: interruption.is_requested):
                verdicts.append(verdict)
                if len(verdicts) % _EVERY == 0:
                    say(f"{len(verdicts):,} of {len(pairs):,} judged")
            if interruption.is_requested:
                raise RunCancelled("stopped")
    finally:
        model.close()
    cells = _by_cell(pairs, verdicts)
    if as_json:
        print(json_text(_as_document(cells, our_label, their_label, settings.models.answer)))
        return
    for cell, of_cell in cells.items():
        title = f"{our_label} against {their_label}" + (f" ({cell})" if len(cells) > 1 else "")
        _print(summarise_verdicts(of_cell), our_label, their_label, title)


def _by_cell(pairs: Sequence[tuple[Result, Result]], verdicts: Sequence[PairVerdict]) -> dict[str, list[PairVerdict]]:
    """The verdicts of each cell of the grid, in the runs' order: other models or settings are other comparisons."""
    cells: dict[str, list[PairVerdict]] = {}
    for (ours, _), verdict in zip(pairs, verdicts, strict=True):
        cells.setdefault(ours.cell, []).append(verdict)
    return cells


def _as_document(cells: Mapping[str, Sequence[PairVerdict]], first: str, second: str, judge: str) -> dict[str, Any]:
    return {
        "first": first,
        "second": second,
        "judge": judge,
        "rows": [
            {"cell": cell, **msgspec.to_builtins(row)}
            for cell, verdicts in cells.items()
            for row in summarise_verdicts(verdicts)
        ],
        "verdicts": [
            {"cell": cell, **msgspec.to_builtins(verdict)} for cell, verdicts in cells.items() for verdict in verdicts
        ],
    }


def _open(name: str) -> tuple[RunData, str]:
    """Read `RUN:STRATEGY`; a run with one strategy needs no name of it."""
    folder, sign, label = name.partition(":")
    run = read_run(Path(folder))
    labels = [spec.label for spec in run.manifest.strategies]
    if sign:
        return run, label
    if len(labels) > 1:
        raise ConfigError(f"{folder} holds several strategies", f"name one: {folder}:{labels[0]}")
    return run, labels[0]


def _print(rows: Sequence[PairwiseRow], first: str, second: str, title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=printable(title), title_justify="left", box=None)
    for name in (
        "set",
        "questions",
        f"{printable(first)} better",
        "equal",
        f"{printable(second)} better",
        "turned round",
        "same answer",
    ):
        table.add_column(name, justify="left" if name == "set" else "right")
    for row in rows:
        table.add_row(
            printable(row.set),
            str(row.n),
            _share(row.win),
            _share(row.equal),
            _share(row.loss),
            f"{row.contrary:.0%}",
            f"{row.identical:.0%}",
        )
    Console(file=sys.stdout, markup=False, highlight=False).print(table)


def _share(interval: Interval) -> str:
    return f"{interval.mean:.0%} ({interval.low:.0%} to {interval.high:.0%})"
