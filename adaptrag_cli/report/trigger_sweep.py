"""A method at several triggers (ETC Tab. 9): runs that differ in nothing else, of a grid or of a list of strategies."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from adaptrag_cli.evaluation.results import Result
from adaptrag_cli.evaluation.retrieval_timing import degenerate, degenerate_in_words, fired_share
from adaptrag_cli.evaluation.statistics import Interval, mean_difference, mean_interval
from adaptrag_cli.report.lines import Line, in_panel, panels_of


@dataclass(frozen=True, kw_only=True)
class SweepPoint:
    """A method at one trigger, on the questions of a panel."""

    method: str
    """What its points have in common: the label without its trigger, and where it ran, if there are several places."""
    panel: str
    trigger: float
    questions: int
    em: Interval | None
    f1: Interval | None
    look_ups: Interval | None
    """Of a question."""
    fired: Interval | None
    """Share of the questions that were looked up because of the trigger."""

    @property
    def degenerate(self) -> str:
        """`almost never`, `almost always` or nothing."""
        return degenerate(self.fired)

    @property
    def verdict(self) -> str:
        """The same as a sentence."""
        return degenerate_in_words(f"{self.method} at {self.trigger:g} on {self.panel}", self.fired)


def trigger_sweeps(lines: Sequence[Line], *, seed: int = 0) -> tuple[SweepPoint, ...]:
    """Points by panel and method, triggers rising; only of methods that ran with several."""
    families: dict[tuple[object, ...], dict[float, tuple[Line, str]]] = defaultdict(dict)
    for line in lines:
        for label in line.answers:
            trigger = line.setting(label, "trigger")
            if trigger is not None:
                families[_family(line, label)].setdefault(float(trigger), (line, label))
    swept = [members for members in families.values() if len(members) > 1]
    places = {_place(line) for members in swept for line, _ in members.values()}
    return tuple(
        point
        for panel in panels_of(lines)
        for members in swept
        for trigger, (line, label) in sorted(members.items())
        if (point := _point(line, label, panel, trigger, names_place=len(places) > 1, seed=seed)) is not None
    )


def _family(line: Line, label: str) -> tuple[object, ...]:
    """What two strategies must share so that their triggers alone tell them apart."""
    cell = line.cell
    settings = tuple(sorted((s.name, str(s.value)) for s in cell.settings.get(label, ()) if s.name != "trigger"))
    varied = tuple(sorted((name, str(value)) for name, value in cell.overrides.items() if name != "ask.trigger"))
    return (line.run.folder, cell.model_fingerprint, varied, line.spec(label).strategy, settings)


def _place(line: Line) -> str:
    """The line's name without the trigger that a grid gave it."""
    if "ask.trigger" not in line.cell.overrides:
        return line.name
    return re.sub(r"trigger=[^,]*,?", "", line.name).rstrip(", ")


def _point(line: Line, label: str, panel: str, trigger: float, *, names_place: bool, seed: int) -> SweepPoint | None:
    results: list[Result] = list(in_panel(line.answers[label], panel).values())
    counted = [result for result in results if result.look_ups is not None and not result.failure]
    if not counted:
        return None
    method = ":".join(part for part in label.split(":") if not part.startswith("trigger="))
    return SweepPoint(
        method=f"{method}, {_place(line)}" if names_place else method,
        panel=panel,
        trigger=trigger,
        questions=len(results),
        em=mean_interval([result.em for result in results], seed=seed),
        f1=mean_interval([result.f1 for result in results], seed=seed),
        look_ups=mean_difference([float(result.look_ups or 0) for result in counted], seed=seed),
        fired=fired_share(counted, seed=seed),
    )
