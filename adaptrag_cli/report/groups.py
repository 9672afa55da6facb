"""Questions that a gate answers from memory, those it looks up, and the first ones looked up all the same.

PAIRS Fig. 3 and 11: "directly answered", "not directly answerable", "the same, forced to retrieve"; here for PAIRS'
agreement and for DTR's uncertainty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adaptrag_cli.evaluation.results import Result
from adaptrag_cli.evaluation.statistics import Interval, mean_interval
from adaptrag_cli.report.lines import Line, QuestionKey, in_panel, panels_of

NOT_DIRECT = "not directly answerable"
DIRECT = "directly answered"
FORCED = "the same, forced to retrieve"
GATES = ("pairs", "dtr")


@dataclass(frozen=True, kw_only=True)
class GroupScore:
    """One of the three groups. Intervals are None where it is empty or was not forced."""

    line: str
    panel: str
    gate: str
    """`pairs` or `dtr`."""
    group: str
    source: str
    """Label of the strategy that answered; empty where none did."""
    questions: int
    em: Interval | None
    f1: Interval | None


def group_scores(lines: Sequence[Line], *, seed: int = 0) -> tuple[GroupScore, ...]:
    """Three groups for each line, panel and gate that was run."""
    return tuple(
        score
        for line in lines
        for gate in GATES
        if (label := _gated(line, gate)) is not None
        for panel in panels_of(lines)
        for score in _three(line, panel, gate, label, seed)
    )


def _gated(line: Line, gate: str) -> str | None:
    if gate == "pairs":
        return line.plain("pairs")
    gated = [label for label in line.answers if line.spec(label).strategy == "dtr" and line.has_gate(label)]
    return min(gated, key=lambda label: len(line.spec(label).overrides), default=None)


def _three(line: Line, panel: str, gate: str, label: str, seed: int) -> list[GroupScore]:
    answers = in_panel(line.answers[label], panel)
    direct = {key: result for key, result in answers.items() if not result.retrieved}
    others = [result for result in answers.values() if result.retrieved]
    forced_label = line.plain("dpr-ais") if gate == "pairs" else line.looking_up()
    forced = _of(line, forced_label, direct)
    parts: tuple[tuple[str, str, Sequence[Result]], ...] = (
        (NOT_DIRECT, label, others),
        (DIRECT, label, list(direct.values())),
        (FORCED, forced_label or "", forced),
    )
    return [
        GroupScore(
            line=line.name,
            panel=panel,
            gate=gate,
            group=group,
            source=source,
            questions=len(results),
            em=mean_interval([result.em for result in results], seed=seed),
            f1=mean_interval([result.f1 for result in results], seed=seed),
        )
        for group, source, results in parts
    ]


def _of(line: Line, label: str | None, keys: Sequence[QuestionKey] | dict[QuestionKey, Result]) -> list[Result]:
    answers = line.answers.get(label, {}) if label else {}
    return [answers[key] for key in keys if key in answers]
