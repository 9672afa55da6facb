"""Figures of answers: what a gate lets through, and what right answers cost."""

from __future__ import annotations

from collections.abc import Sequence

from adaptrag_cli.report.costs import COSTS, Cost, CostPoint, Score, cost_points, pareto_front
from adaptrag_cli.report.figure import Axis, Dash, Figure, Mark, Series, Table, absent, interval, ordinals, percent
from adaptrag_cli.report.groups import DIRECT, FORCED, NOT_DIRECT, GroupScore, group_scores
from adaptrag_cli.report.lines import Line, panels_of
from adaptrag_cli.report.notes import INTERVALS

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
    return (
        _groups(lines, scores, "em", "PAIRS Fig. 3"),
        _groups(lines, scores, "f1", "PAIRS Fig. 11"),
        _costs(lines, costs, "em"),
        _costs(lines, costs, "f1"),
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


def _costs(lines: Sequence[Line], points: Sequence[CostPoint], score: Score) -> Figure:
    title = f"Cost against {_SCORE_NAMES[score]}"
    if not points:
        return absent(f"cost-{score}", title, "beyond the papers", "needs a finished strategy")
    panels = tuple(_COST_TITLES[cost] for cost in COSTS)
    series = [s for cost in COSTS for line in lines for s in _cost_series(lines, line, points, cost, score)]
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
        reading="Up and to the left is better: nothing beats what stands on the front at its cost, and "
        "anything else pays more for less.",
        notes=(
            *(note for line in lines if (note := _front_note(line, points, score))),
            "A threshold on the front was found with hindsight, so calibrate it on other questions. Tokens are those "
            "of prompts that were not reused, and those written.",
        ),
        drawing=(
            "Dashed: the front. Dotted: DTR at every threshold, computed from never and a strategy that always looks "
            "up.",
        ),
        y=Axis(title=f"{_SCORE_NAMES[score]}", scale="percent"),
        panels=panels,
        panel_titles=panels,
        series=tuple(series),
        data=Table(columns=columns, rows=rows),
        brief=Table(
            columns=("line", "strategy", *columns[3:]),
            rows=tuple((*row[:2], *row[3:]) for row, p in zip(rows, points, strict=True) if p.threshold is None),
        ),
    )


def _cost_series(
    lines: Sequence[Line], line: Line, points: Sequence[CostPoint], cost: Cost, score: Score
) -> list[Series]:
    own = [point for point in points if point.line == line.name]
    front = pareto_front(own, cost, score)
    colour = ordinals([line.name for line in lines])[line.name]

    def series(what: str, chosen: Sequence[CostPoint], mark: Mark, dash: Dash, *, is_labelled: bool) -> Series:
        return Series(
            panel=_COST_TITLES[cost],
            name=what if len(lines) == 1 else f"{line.name}: {what}",
            x=tuple(getattr(point, cost) for point in chosen),
            y=tuple(getattr(point, score) for point in chosen),
            mark=mark,
            dash=dash,
            colour=colour,
            words=tuple(point.strategy for point in chosen),
            labels=tuple("" if p.threshold is not None else p.strategy for p in chosen) if is_labelled else (),
        )

    rest = [point for point in own if point.threshold is None and point not in front]
    swept = [point for point in own if point.threshold is not None]
    made = (
        series("Pareto front", front, "linked", "dash", is_labelled=True),
        series("other strategies", rest, "dots", "solid", is_labelled=False),
        series("dtr by threshold", swept, "line", "dot", is_labelled=False),
    )
    return [one for one in made if one.x]


def _front_note(line: Line, points: Sequence[CostPoint], score: Score) -> str:
    """Of how many questions a line's points are, and which thresholds of DTR stand on its fronts."""
    own = [point for point in points if point.line == line.name]
    if not own:
        return ""
    parts = []
    for cost in COSTS:
        found = [p.threshold for p in pareto_front(own, cost, score) if p.threshold is not None]
        if found:
            many = f"{len(found)} from {min(found):.4g} to {max(found):.4g}" if len(found) > 1 else f"{found[0]:.4g}"
            parts.append(f"{cost.replace('llm_', '')}: {many}")
    thresholds = f"; DTR's thresholds on the front of {', of '.join(parts)}" if parts else ""
    return f"{line.name}: {own[0].questions} questions, the same for every point{thresholds}"
