"""Figures of what training an adapter changes: answers and look-ups with each adapter of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adaptrag_cli.evaluation.results import Result
from adaptrag_cli.evaluation.statistics import Interval, mean_difference, mean_interval
from adaptrag_cli.identity import parted
from adaptrag_cli.report.curves import curves
from adaptrag_cli.report.figure import Axis, Figure, Series, Table, absent, interval
from adaptrag_cli.report.lines import Line, in_panel, panels_of
from adaptrag_cli.report.notes import INTERVALS
from adaptrag_cli.report.step_charts import asked_in_steps
from adaptrag_cli.report.timing_rows import number

_SOURCE = "DeepRAG Fig. 3"
_NEEDS_ADAPTERS = "needs a method that asks step by step, with and without adapters (--vary adapter=none,NAME)"


@dataclass(frozen=True, kw_only=True)
class _Taught:
    """A method with one adapter, or none, on the questions of a panel."""

    method: str
    panel: str
    adapter: str
    questions: int
    em: Interval | None
    f1: Interval | None
    look_ups: Interval | None


def adapter_figures(lines: Sequence[Line], *, seed: int = 0) -> tuple[Figure, Figure]:
    """What a method answers and looks up with each adapter of its model (DeepRAG Fig. 3), in the order of the runs."""
    points = _taught(lines, seed=seed)
    order = "Adapters stand in the order in which they were evaluated."
    data = Table(
        columns=("set", "method", "adapter", "questions", "EM", "F1", "look-ups"),
        rows=tuple(
            (p.panel, p.method, p.adapter, p.questions, interval(p.em), interval(p.f1), number(p.look_ups))
            for p in points
        ),
    )

    def made(
        name: str, title: str, reading: str, y: Axis, series: tuple[Series, ...], columns: tuple[str, ...]
    ) -> Figure:
        if not points:
            return absent(name, title, _SOURCE, _NEEDS_ADAPTERS)
        kept = [data.columns.index(column) for column in ("method", "adapter", *columns)]
        return Figure(
            name=name,
            title=title,
            source=_SOURCE,
            reading=reading,
            notes=(f"Bars: {INTERVALS}.", order),
            x=Axis(title="adapter", scale="category"),
            y=y,
            panels=panels_of(lines),
            series=series,
            data=data,
            brief=Table(
                columns=tuple(data.columns[at] for at in kept),
                rows=tuple(tuple(row[at] for at in kept) for row in data.rows if row[0] == panels_of(lines)[0]),
            ),
        )

    return (
        made(
            "trained-answers",
            "EM and F1 with each adapter",
            "Training helps where answers get better; inside the intervals it may be chance.",
            Axis(title="EM and F1", scale="percent"),
            (
                *curves(points, "EM", at=_adapter, value=lambda p: p.em, words=_words, dash="solid"),
                *curves(points, "F1", at=_adapter, value=lambda p: p.f1, words=_words, dash="dash"),
            ),
            ("EM", "F1"),
        ),
        made(
            "trained-look-ups",
            "Look-ups of a question with each adapter",
            "Calibration should bring look-ups down and leave answers as good.",
            Axis(title="look-ups a question"),
            curves(points, "", at=_adapter, value=lambda p: p.look_ups, words=_words, dash="solid"),
            ("look-ups",),
        ),
    )


def _taught(lines: Sequence[Line], *, seed: int) -> tuple[_Taught, ...]:
    """Points by panel, method and adapter; only of methods that ran with several adapters and nothing else varied."""
    families: dict[tuple[str, str, str], dict[str, tuple[Line, str]]] = {}
    for each in asked_in_steps(lines):
        base, adapter = parted(each.line.cell.model)
        family = (each.strategy, base, _otherwise_varied(each.line))
        families.setdefault(family, {}).setdefault(adapter or "none", (each.line, each.strategy))
    families = {family: members for family, members in families.items() if len(members) > 1}
    is_told = [len({family[at] for family in families}) > 1 for at in (1, 2)]
    points = []
    for panel in panels_of(lines):
        for family, members in families.items():
            strategy, *place = family
            method = ", ".join([strategy, *(name for name, told in zip(place, is_told, strict=True) if told and name)])
            for adapter, (line, label) in members.items():
                results = list(in_panel(line.answers[label], panel).values())
                if results:
                    points.append(_point(method, panel, adapter, results, seed))
    return tuple(points)


def _otherwise_varied(line: Line) -> str:
    """What a grid varied beside the adapter, in words."""
    others = {name: value for name, value in line.cell.overrides.items() if name != "models.adapter"}
    return ", ".join(f"{name.rpartition('.')[2]}={value}" for name, value in sorted(others.items()))


def _point(method: str, panel: str, adapter: str, results: Sequence[Result], seed: int) -> _Taught:
    look_ups = [float(r.look_ups) for r in results if r.look_ups is not None and not r.failure]
    return _Taught(
        method=method,
        panel=panel,
        adapter=adapter,
        questions=len(results),
        em=mean_interval([r.em for r in results], seed=seed),
        f1=mean_interval([r.f1 for r in results], seed=seed),
        look_ups=mean_difference(look_ups, seed=seed),
    )


def _adapter(point: _Taught) -> str:
    return point.adapter


def _words(point: _Taught) -> str:
    return f"{point.questions} questions"
