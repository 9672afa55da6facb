"""Figures of answers: what a gate lets through, and what right answers cost."""

from __future__ import annotations

from collections.abc import Sequence

from adaptrag_cli.report.costs import COSTS, Cost, CostPoint, Score, cost_points, pareto_front
from adaptrag_cli.report.figure import Axis, Figure, Series, Table, absent, interval, ordinals, percent
from adaptrag_cli.report.groups import DIRECT, FORCED, NOT_DIRECT, GroupScore, group_scores
from adaptrag_cli.report.lines import Line, panels_of
from adaptrag_cli.report.notes import INTERVALS
from adaptrag_cli.report.thresholds import ThresholdCurve, threshold_curves

_COST_TITLES: dict[Cost, str] = {
    "seconds": "seconds a question",
    "llm_calls": "LLM calls a question",
    "tokens": "tokens a question",
}
_SCORE_NAMES: dict[Score, str] = {"em": "EM", "f1": "F1"}


def answer_figures(lines: Sequence[Line], *, seed: int = 0) -> tuple[Figure, ...]:
    """Groups by EM and F1, costs by EM and F1."""
    scores = group_scores(lines, seed=seed)
    costs = cost_points(lines)
    curves = threshold_curves(lines)
    return (
        _groups(lines, scores, "em", "PAIRS Fig. 3"),
        _groups(lines, scores, "f1", "PAIRS Fig. 11"),
        _costs(lines, costs, curves, "em"),
        _costs(lines, costs, curves, "f1"),
    )


def _groups(lines: Sequence[Line], scores: Sequence[GroupScore], score: Score, source: str) -> Figure:
    title = f"{_SCORE_NAMES[score]} of what a gate answers from memory and of what it looks up"
    if not scores:
        return absent(f"groups-{score}", title, source, "needs pairs and dpr-ais (or dtr and dtr:gate=false)")
    colours = {NOT_DIRECT: 1, DIRECT: 0, FORCED: 2}
    many = len(lines) > 1
    names = {(s.line, s.gate): f"{s.gate}, {s.line}" if many else s.gate for s in scores}
    series = []
    for (line, gate), panel in names.items():
        for group, colour in colours.items():
            own = [s for s in scores if (s.line, s.gate, s.group) == (line, gate, group)]
            known = [(s, value) for s in own if (value := s.em if score == "em" else s.f1) is not None]
            series.append(
                Series(
                    panel=panel,
                    name=group,
                    x=tuple(s.panel for s, _ in known),
                    y=tuple(value.mean for _, value in known),
                    low=tuple(value.low for _, value in known),
                    high=tuple(value.high for _, value in known),
                    mark="bars",
                    colour=colour,
                    words=tuple(f"{s.questions} questions, {s.source}" for s, _ in known),
                )
            )
    rows = tuple(
        (s.line, s.gate, s.panel, s.group, s.source, s.questions, interval(s.em), interval(s.f1)) for s in scores
    )
    first = panels_of(lines)[0]
    return Figure(
        name=f"groups-{score}",
        title=title,
        source=source,
        reading="A good gate: what is directly answered is as often right as when the same is forced to retrieve, and "
        "more often than what is not directly answerable.",
        notes=(f"Bars: {INTERVALS}.", *_unforced(scores)),
        x=Axis(title="", scale="category"),
        y=Axis(title=f"{_SCORE_NAMES[score]}", scale="percent", limits=(0.0, 1.0)),
        panels=tuple(names.values()),
        series=tuple(s for s in series if s.x),
        data=Table(columns=("line", "gate", "set", "group", "answered by", "questions", "EM", "F1"), rows=rows),
        brief=Table(
            columns=("line", "gate", "group", "questions", _SCORE_NAMES[score]),
            rows=tuple(
                (s.line, s.gate, s.group, s.questions, interval(s.em if score == "em" else s.f1))
                for s in scores
                if s.panel == first
            ),
        ),
    )


def _unforced(scores: Sequence[GroupScore]) -> tuple[str, ...]:
    needs = {"pairs": "dpr-ais", "dtr": "dtr:gate=false"}
    gates = dict.fromkeys(s.gate for s in scores if s.group == FORCED and not s.source)
    return tuple(f"The third group of {gate} needs {needs[gate]}." for gate in gates)


def _costs(
    lines: Sequence[Line], points: Sequence[CostPoint], curves: Sequence[ThresholdCurve], score: Score
) -> Figure:
    title = f"Cost against {_SCORE_NAMES[score]}"
    if not points:
        return absent(f"cost-{score}", title, "beyond the papers", "needs a finished strategy")
    panels = tuple(_COST_TITLES[cost] for cost in COSTS)
    series = [s for cost in COSTS for line in lines for s in _cost_series(lines, line, points, curves, cost, score)]
    fronts = {
        cost: {
            (p.line, p.strategy)
            for line in lines
            for p in pareto_front([p for p in points if p.line == line.name], cost, score)
        }
        for cost in COSTS
    }
    rows = tuple(
        (
            p.line,
            p.strategy,
            p.questions,
            percent(getattr(p, score)),
            f"{p.seconds:.2f}",
            f"{p.llm_calls:.2f}",
            f"{p.tokens:.0f}",
            ", ".join(cost.replace("llm_", "") for cost in COSTS if (p.line, p.strategy) in fronts[cost]),
        )
        for p in points
    )
    columns = (
        "line",
        "strategy",
        "questions",
        _SCORE_NAMES[score],
        "seconds",
        "LLM calls",
        "tokens",
        "on the front of",
    )
    return Figure(
        name=f"cost-{score}",
        title=title,
        source="beyond the papers",
        reading="Up and to the left is better: nothing beats the strategies on the dashed front at their cost, and "
        "any other pays more for less.",
        notes=(
            *(f"{line.name}: {_shared(points, line)} questions that every strategy was asked" for line in lines),
            "Dotted: DTR at every threshold, computed from never and a strategy that always looks up. Tokens are those "
            "of prompts that were not reused, and those written.",
        ),
        y=Axis(title=f"{_SCORE_NAMES[score]}", scale="percent"),
        panels=panels,
        panel_titles=panels,
        series=tuple(series),
        data=Table(columns=columns, rows=rows),
        brief=Table(columns=("line", "strategy", *columns[3:]), rows=tuple((*row[:2], *row[3:]) for row in rows)),
    )


def _cost_series(
    lines: Sequence[Line],
    line: Line,
    points: Sequence[CostPoint],
    curves: Sequence[ThresholdCurve],
    cost: Cost,
    score: Score,
) -> list[Series]:
    own = [point for point in points if point.line == line.name]
    front = pareto_front(own, cost, score)
    colour = ordinals([line.name for line in lines])[line.name]
    panel = _COST_TITLES[cost]
    rest = [point for point in own if point not in front]

    def named(what: str) -> str:
        return what if len(lines) == 1 else f"{line.name}: {what}"

    def dots(name: str, chosen: Sequence[CostPoint], *, on_front: bool) -> Series:
        return Series(
            panel=panel,
            name=named(name),
            x=tuple(getattr(point, cost) for point in chosen),
            y=tuple(getattr(point, score) for point in chosen),
            mark="linked" if on_front else "dots",
            dash="dash" if on_front else "solid",
            colour=colour,
            words=tuple(point.strategy for point in chosen),
            labels=tuple(point.strategy for point in chosen) if on_front else (),
        )

    series = [dots("Pareto front", front, on_front=True)]
    if rest:
        series.append(dots("other strategies", rest, on_front=False))
    shown = panels_of(lines)[0]
    for curve in curves:
        if (curve.line, curve.panel) == (line.name, shown):
            drawn = [p for p in curve.points if getattr(p, cost) is not None]
            if drawn:
                series.append(
                    Series(
                        panel=panel,
                        name=named("dtr by threshold"),
                        x=tuple(getattr(p, cost) for p in drawn),
                        y=tuple(getattr(p, score) for p in drawn),
                        colour=colour,
                        dash="dot",
                        words=tuple(f"threshold {p.threshold:.4g}" for p in drawn),
                    )
                )
    return series


def _shared(points: Sequence[CostPoint], line: Line) -> int:
    return next((point.questions for point in points if point.line == line.name), 0)
