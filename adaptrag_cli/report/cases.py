"""Questions where one strategy is right and another is wrong, and how to look at both runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from adaptrag_cli.errors import UnknownName
from adaptrag_cli.evaluation.results import Result, RunData
from adaptrag_cli.events import Record


class Case(Record, frozen=True, kw_only=True):
    """A question that `right` answered right (exact match) and `wrong` did not."""

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
    """
    return tuple(
        _case(run, won, lost)
        for run in runs
        for cell in run.manifest.cells
        for info in run.manifest.sets
        for won, lost in _both(run, cell.name, info.name, right, wrong)
        if won.em > 0.0 and lost.em == 0.0
    )


def _both(run: RunData, cell: str, set_name: str, right: str, wrong: str) -> list[tuple[Result, Result]]:
    labels = [spec.label for spec in run.manifest.strategies]
    for label in (right, wrong):
        if label not in labels:
            raise UnknownName(f"strategy of {run.name}", label, labels)
    table = run.by_strategy(cell=cell, set=set_name)
    questions = next(info.questions for info in run.manifest.sets if info.name == set_name)
    return [(table[right][q], table[wrong][q]) for q in questions if q in table[right] and q in table[wrong]]


def _case(run: RunData, won: Result, lost: Result) -> Case:
    return Case(
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
