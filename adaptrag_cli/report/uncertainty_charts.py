"""Figures over the draft's uncertainty: thresholds, query ratio, and what looking up gains."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adaptrag_cli.report.figure import Axis, Figure, Series, Table, absent, interval, ordinals, percent
from adaptrag_cli.report.gain import GainBin, gain_by_uncertainty, preferred
from adaptrag_cli.report.lines import Line, panels_of
from adaptrag_cli.report.thresholds import ThresholdCurve, ThresholdPoint, threshold_curves

_LEAST_DRAWN = 1e-4
"""Uncertainties below are drawn here: a logarithmic axis has no zero."""
_STEPS = 10
_ASIDE = 1.06
"""Bins of equal uncertainty are drawn side by side, each a few percent further on the logarithmic axis."""
_SCORE = Axis(title="EM and F1", scale="percent", limits=(0.0, 1.0))
_NEEDS_DRAFTS = "needs never (or dtr)"
_NEEDS_BOTH = "needs never and dtr:gate=false (or dpr-ais, or always)"


def uncertainty_figures(lines: Sequence[Line], *, seed: int = 0) -> tuple[Figure, ...]:
    """The five figures."""
    curves = threshold_curves(lines)
    gains = gain_by_uncertainty(lines, seed=seed)
    return (
        _by_threshold(lines, curves),
        _by_ratio(lines, curves),
        _by_lookups(lines, curves),
        _gain_by_line(lines, preferred(lines, gains)),
        _gain_by_method(lines, gains),
    )


def _by_threshold(lines: Sequence[Line], curves: Sequence[ThresholdCurve]) -> Figure:
    title, source = "Accuracy and coverage against the threshold", "DTR Fig. 3"
    if not curves:
        return absent("threshold", title, source, _NEEDS_DRAFTS)
    colours = ordinals([line.name for line in lines])
    series = []
    for curve in curves:
        points = [point for point in curve.points if point.answered]
        x = tuple(max(point.threshold, _LEAST_DRAWN) for point in points)
        words = tuple(f"{point.answered} of {curve.questions} questions" for point in points)
        for what, y, is_score in (
            ("EM of the drafts", [point.memory_em or 0.0 for point in points], True),
            ("coverage", [point.coverage for point in points], False),
        ):
            series.append(
                Series(
                    panel=curve.panel,
                    name=_named(lines, curve.line, what),
                    x=x,
                    y=tuple(y),
                    colour=colours[curve.line],
                    dash="solid" if is_score else "dot",
                    words=words,
                )
            )
    return Figure(
        name="threshold",
        title=title,
        source=source,
        reading="Take the threshold where drafts up to it are right as often as you need; the coverage says what share "
        "of questions is then answered from memory.",
        notes=_provenance(curves),
        drawing=("Solid: how often drafts up to the threshold are right. Dotted: the coverage.",),
        x=Axis(title="threshold on u (nats)", scale="log"),
        y=Axis(title="EM and coverage", scale="percent", limits=(0.0, 1.0)),
        panels=panels_of(lines),
        series=tuple(series),
        data=_points_table(curves),
        brief=_brief(curves),
    )


def _by_ratio(lines: Sequence[Line], curves: Sequence[ThresholdCurve]) -> Figure:
    title, source = "EM and F1 of the surest drafts", "DTR Fig. 16"
    if not curves:
        return absent("query-ratio", title, source, _NEEDS_DRAFTS)
    colours = ordinals([line.name for line in lines])
    series = []
    for curve in curves:
        points = [point for point in curve.points if point.coverage >= 0.1]
        for what, y, is_em in (
            ("EM", [point.memory_em or 0.0 for point in points], True),
            ("F1", [point.memory_f1 or 0.0 for point in points], False),
        ):
            series.append(
                Series(
                    panel=curve.panel,
                    name=_named(lines, curve.line, what),
                    x=tuple(point.coverage for point in points),
                    y=tuple(y),
                    colour=colours[curve.line],
                    dash="solid" if is_em else "dash",
                    words=tuple(f"u up to {point.threshold:.4g}" for point in points),
                )
            )
    return Figure(
        name="query-ratio",
        title=title,
        source=source,
        reading="If lines fall from left to right, low uncertainty does mark the drafts that are right; a flat line "
        "says that uncertainty tells nothing.",
        notes=_provenance(curves),
        x=Axis(title="share, surest first", scale="percent", limits=(0.0, 1.0)),
        y=_SCORE,
        panels=panels_of(lines),
        series=tuple(series),
        data=_points_table(curves),
        brief=Table(
            columns=("line", "share %", "u up to", "EM", "F1"),
            rows=tuple(
                (c.line, percent(p.coverage), f"{p.threshold:.4g}", percent(p.memory_em), percent(p.memory_f1))
                for c in _first_panel(curves)
                for p in _steps(c)
                if p.answered
            ),
        ),
    )


def _by_lookups(lines: Sequence[Line], curves: Sequence[ThresholdCurve]) -> Figure:
    title, source = "EM and F1 against the share of questions looked up", "DTR Fig. 3, 6 and 16, over all questions"
    whole = [curve for curve in curves if curve.documents is not None]
    if not whole:
        return absent("looked-up", title, source, _NEEDS_BOTH)
    colours = ordinals([line.name for line in lines])
    series = []
    for curve in whole:
        points = curve.points[::-1]
        for what, y, is_em in (
            ("EM", [point.em or 0.0 for point in points], True),
            ("F1", [point.f1 or 0.0 for point in points], False),
        ):
            series.append(
                Series(
                    panel=curve.panel,
                    name=_named(lines, curve.line, what),
                    x=tuple(point.looked_up for point in points),
                    y=tuple(y),
                    colour=colours[curve.line],
                    dash="solid" if is_em else "dash",
                    words=tuple(f"threshold {point.threshold:.4g}" for point in points),
                )
            )
    return Figure(
        name="looked-up",
        title=title,
        source=source,
        reading="The left end never looks up, the right end always does; where a line is higher in between, deciding "
        "by uncertainty beats both.",
        notes=(*_provenance(whole), *(_best(curve) for curve in _first_panel(whole))),
        x=Axis(title="share looked up", scale="percent", limits=(0.0, 1.0)),
        y=_SCORE,
        panels=panels_of(lines),
        series=tuple(series),
        data=_points_table(whole),
        brief=Table(
            columns=("line", "looked up %", "threshold", "EM", "F1"),
            rows=tuple(
                (c.line, percent(p.looked_up), f"{p.threshold:.4g}", percent(p.em), percent(p.f1))
                for c in _first_panel(whole)
                for p in _steps(c)
            ),
        ),
    )


def _gain_by_line(lines: Sequence[Line], gains: Sequence[GainBin]) -> Figure:
    title, source = "Gain of looking up against uncertainty, by model", "DTR Fig. 5 and 17"
    if not gains:
        return absent("gain", title, source, _NEEDS_BOTH)
    colours = ordinals([line.name for line in lines])
    series = tuple(
        _gain_series(
            panel,
            line.name,
            (colours[line.name], len(colours)),
            [gain for gain in gains if (gain.panel, gain.line) == (panel, line.name)],
        )
        for panel in panels_of(lines)
        for line in lines
    )
    used = dict.fromkeys(f"{g.line}: documents of {g.documents}" for g in gains)
    return _gain_figure("gain", title, source, panels_of(lines), series, gains, tuple(used))


def _gain_by_method(lines: Sequence[Line], gains: Sequence[GainBin]) -> Figure:
    title, source = "Gain of looking up against uncertainty, by way of looking up", "DTR Fig. 5 and 18"
    first = panels_of(lines)[0] if lines else ""
    plainest = {(line.name, label) for line in lines for label in line.answers if line.is_plainest(label)}
    pooled = [gain for gain in gains if gain.panel == first and (gain.line, gain.documents) in plainest]
    methods = ordinals([gain.documents for gain in pooled])
    if len(methods) < 2:
        return absent(
            "gain-by-method",
            title,
            source,
            "needs never and two strategies that always look up (always, rerank, hyde, query2doc, cot-expansion, "
            "dpr-ais, dtr:gate=false)",
        )
    series = tuple(
        _gain_series(
            line.name, name, (number, len(methods)), [g for g in pooled if (g.line, g.documents) == (line.name, name)]
        )
        for line in lines
        for name, number in methods.items()
    )
    return _gain_figure("gain-by-method", title, source, tuple(line.name for line in lines), series, pooled, ())


def _gain_series(panel: str, name: str, place: tuple[int, int], bins: Sequence[GainBin]) -> Series:
    number, count = place
    drawn = [gain for gain in bins if math.isfinite(gain.middle)]
    aside = _ASIDE ** (number - (count - 1) / 2)
    return Series(
        panel=panel,
        name=name,
        x=tuple(max(gain.middle, _LEAST_DRAWN) * aside for gain in drawn),
        y=tuple(gain.em.mean for gain in drawn),
        low=tuple(gain.em.low for gain in drawn),
        high=tuple(gain.em.high for gain in drawn),
        mark="linked",
        colour=number,
        words=tuple(f"{gain.questions} questions, median u {gain.middle:.4g}" for gain in drawn),
    )


def _gain_figure(
    name: str,
    title: str,
    source: str,
    panels: tuple[str, ...],
    series: tuple[Series, ...],
    gains: Sequence[GainBin],
    notes: tuple[str, ...],
) -> Figure:
    first = gains[0].panel
    return Figure(
        name=name,
        title=title,
        source=source,
        reading="Above zero, answers from documents are right more often than drafts of that uncertainty; where a bar "
        "crosses zero, these questions do not tell.",
        notes=(*notes, "Bars: 95 % bootstrap intervals. Each point holds about as many questions as the others."),
        x=Axis(title="uncertainty u (nats)", scale="log"),
        y=Axis(title="gain in EM", scale="gain"),
        panels=panels,
        series=tuple(s for s in series if s.x),
        data=Table(
            columns=("line", "set", "documents", "questions", "u from", "u to", "median u", "EM gain", "F1 gain"),
            rows=tuple(
                (
                    g.line,
                    g.panel,
                    g.documents,
                    g.questions,
                    _shown(g.lowest),
                    _shown(g.highest),
                    _shown(g.middle),
                    interval(g.em),
                    interval(g.f1),
                )
                for g in gains
            ),
        ),
        brief=Table(
            columns=("line", "documents", "u up to", "questions", "EM gain"),
            rows=tuple(
                (g.line, g.documents, _shown(g.highest), g.questions, interval(g.em)) for g in gains if g.panel == first
            ),
        ),
    )


def _shown(uncertainty: float) -> str:
    return f"{uncertainty:.4g}" if math.isfinite(uncertainty) else "undefined"


def _named(lines: Sequence[Line], line: str, what: str) -> str:
    return what if len(lines) == 1 else f"{line}: {what}"


def _provenance(curves: Sequence[ThresholdCurve]) -> tuple[str, ...]:
    return tuple(
        f"{c.line}: {c.questions} questions, drafts of {c.memory}"
        + (f", documents of {c.documents}" * bool(c.documents))
        for c in _first_panel(curves)
    )


def _best(curve: ThresholdCurve) -> str:
    never, always = curve.points[-1], curve.points[0]
    best = max(curve.points, key=lambda point: (point.em or 0.0, point.coverage))
    return (
        f"{curve.line}: best EM here {percent(best.em)} at threshold {best.threshold:.4g} "
        f"({percent(best.looked_up)} % looked up); fewest lookups {percent(never.em)}, all {percent(always.em)}. "
        "Chosen on the questions it is told for, so it flatters."
    )


def _first_panel(curves: Sequence[ThresholdCurve]) -> list[ThresholdCurve]:
    return [curve for curve in curves if curve.panel == curves[0].panel]


def _steps(curve: ThresholdCurve) -> list[ThresholdPoint]:
    """About ten points, evenly over the share of questions."""
    chosen = [
        next((p for p in reversed(curve.points) if p.coverage <= step / _STEPS + 1e-9), curve.points[0])
        for step in range(_STEPS + 1)
    ]
    return list(dict.fromkeys(chosen))


def _brief(curves: Sequence[ThresholdCurve]) -> Table:
    return Table(
        columns=("line", "threshold", "coverage %", "EM of drafts"),
        rows=tuple(
            (c.line, f"{p.threshold:.4g}", percent(p.coverage), percent(p.memory_em))
            for c in _first_panel(curves)
            for p in _steps(c)
            if p.answered
        ),
    )


def _points_table(curves: Sequence[ThresholdCurve]) -> Table:
    return Table(
        columns=(
            "line",
            "set",
            "threshold",
            "from memory",
            "coverage",
            "EM of drafts",
            "F1 of drafts",
            "EM of all",
            "F1 of all",
        ),
        rows=tuple(
            (
                c.line,
                c.panel,
                p.threshold,
                p.answered,
                p.coverage,
                p.memory_em,
                p.memory_f1,
                p.em,
                p.f1,
            )
            for c in curves
            for p in c.points
        ),
    )
