"""Questions where one strategy is right and another is wrong, and how to look at both runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from adaptrag_cli.errors import ConfigError, UnknownName
from adaptrag_cli.evaluation.results import Cell, Result, RunData, require_comparable
from adaptrag_cli.events import Record


class Case(Record, frozen=True, kw_only=True):
    """A question that `right` answered right (exact match) and `wrong` did not."""

    run: str
    """Folder of the run."""
    cell: str
    set: str
    question_id: str
    query: str
    golds: tuple[str, ...]
    right: str
    """Label of the strategy."""
    right_answer: str
    right_looked_up: bool
    right_command: str
    """Opens its run in the terminal interface."""
    wrong: str
    wrong_answer: str
    wrong_looked_up: bool
    wrong_command: str


def cases(runs: Sequence[RunData], right: str, wrong: str) -> tuple[Case, ...]:
    """Cases by run, cell, set and question, in the order they were asked.

    Raises:
        UnknownName: a run has no strategy of that label.
        ConfigError: the runs asked other questions, or a cell of the same name with another model, index or setting.
    """
    for run in runs:
        labels = [spec.label for spec in run.manifest.strategies]
        for label in (right, wrong):
            if label not in labels:
                raise UnknownName(f"strategy of {run.name}", label, labels)
    require_comparable(runs)
    _require_equal_cells(runs, (right, wrong))
    return tuple(
        _case(run, won, lost)
        for run in runs
        for cell in run.manifest.cells
        for info in run.manifest.sets
        for won, lost in _both(run, cell.name, info.name, right, wrong)
        if won.em > 0.0 and lost.em == 0.0
    )


def _require_equal_cells(runs: Sequence[RunData], labels: Sequence[str]) -> None:
    """Refuse one list of what was asked differently; cells of another name have a list of their own."""
    seen: dict[str, tuple[RunData, Cell]] = {}
    for run in runs:
        for cell in run.manifest.cells:
            other, first = seen.setdefault(cell.name, (run, cell))
            differing = _difference(first, cell, labels)
            if differing:
                raise ConfigError(
                    f"{other.name} and {run.name} asked {cell.name} with another {differing}",
                    "list the cases of each run apart",
                )


def _difference(first: Cell, second: Cell, labels: Sequence[str]) -> str:
    """What sets two cells apart in words, or nothing."""
    if first.model_fingerprint != second.model_fingerprint:
        return f"model ({first.model}, {second.model})"
    if first.encoder_identity != second.encoder_identity:
        return f"encoder ({first.encoder}, {second.encoder})"
    for name in first.indexes.keys() & second.indexes.keys():
        if first.indexes[name] != second.indexes[name]:
            return f"index of {name}"
    if first.calibration_digest != second.calibration_digest:
        return "calibration"
    for label in labels:
        ours, theirs = (
            {setting.name: setting.value for setting in cell.settings.get(label, ())} for cell in (first, second)
        )
        for name in (*ours, *theirs):
            if ours.get(name) != theirs.get(name):
                return f"{name} of {label} ({ours.get(name)}, {theirs.get(name)})"
    return ""


def _both(run: RunData, cell: str, set_name: str, right: str, wrong: str) -> list[tuple[Result, Result]]:
    table = run.by_strategy(cell=cell, set=set_name)
    questions = next(info.questions for info in run.manifest.sets if info.name == set_name)
    return [(table[right][q], table[wrong][q]) for q in questions if q in table[right] and q in table[wrong]]


def _case(run: RunData, won: Result, lost: Result) -> Case:
    return Case(
        run=run.folder,
        cell=won.cell,
        set=won.set,
        question_id=won.question_id,
        query=won.query,
        golds=won.golds,
        right=won.strategy,
        right_answer=won.prediction,
        right_looked_up=won.retrieved,
        right_command=_command(run, won),
        wrong=lost.strategy,
        wrong_answer=lost.prediction,
        wrong_looked_up=lost.retrieved,
        wrong_command=_command(run, lost),
    )


def _command(run: RunData, result: Result) -> str:
    return f"adaptrag tui --trace {shlex.quote(str(Path(run.folder) / result.trace))}"
