"""Figures of methods that look up while they write: what every trigger gives and costs, and where they first fire."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from adaptrag_cli.report.curves import curves
from adaptrag_cli.report.figure import Axis, Figure, Series, Table, absent, interval, percent
from adaptrag_cli.report.first_triggers import FirstFirings, first_firings, mean_entropies
from adaptrag_cli.report.lines import Line, panels_of
from adaptrag_cli.report.notes import INTERVALS
from adaptrag_cli.report.timing_rows import number
from adaptrag_cli.report.trigger_sweep import SweepPoint, trigger_sweeps

_NEEDS_SWEEP = "needs a method at several triggers (etc:trigger=0.7,etc:trigger=1.3, or --vary trigger=0.7,1.3)"
_NEEDS_FIRING = "needs etc, dragin or flare:mode=code, and a question on which it fires"
_ENTROPY = "mean entropy"


def writing_figures(lines: Sequence[Line], *, seed: int = 0) -> tuple[Figure, ...]:
    """The three figures."""
    points = trigger_sweeps(lines, seed=seed)
    return (_answers_by_trigger(lines, points), _look_ups_by_trigger(lines, points), _first_firings(lines))


def _answers_by_trigger(lines: Sequence[Line], points: Sequence[SweepPoint]) -> Figure:
    title, source = "EM and F1 at every trigger", "ETC Tab. 9"
    if not points:
        return absent("sweep", title, source, _NEEDS_SWEEP)
    return Figure(
        name="sweep",
        title=title,
        source=source,
        reading="A flat line says that the trigger need not be tuned; what is read off a peak was found with "
        "hindsight, so choose the trigger on other questions.",
        notes=(f"Bars: {INTERVALS}.", *_verdicts(points)),
        x=Axis(title="trigger"),
        y=Axis(title="EM and F1", scale="percent"),
        panels=panels_of(lines),
        series=(
            *curves(points, "EM", at=_trigger, value=lambda p: p.em, words=_fires, dash="solid"),
            *curves(points, "F1", at=_trigger, value=lambda p: p.f1, words=_fires, dash="dash"),
        ),
        data=_sweep_table(points),
        brief=_brief_sweep_table(points, panels_of(lines)[0]),
    )


def _look_ups_by_trigger(lines: Sequence[Line], points: Sequence[SweepPoint]) -> Figure:
    title, source = "Look-ups of a question at every trigger", "ETC Tab. 5, at the triggers of Tab. 9"
    if not points:
        return absent("sweep-look-ups", title, source, _NEEDS_SWEEP)
    return Figure(
        name="sweep-look-ups",
        title=title,
        source=source,
        reading="The less a method looks up for answers that are as good, the better it knows when it must.",
        notes=_verdicts(points),
        x=Axis(title="trigger"),
        y=Axis(title="look-ups a question"),
        panels=panels_of(lines),
        series=curves(points, "", at=_trigger, value=lambda p: p.look_ups, words=_fires, dash="solid"),
        data=_sweep_table(points),
        brief=Table(
            columns=("method", "trigger", "look-ups", "fired", "degenerate"),
            rows=tuple(
                (
                    p.method,
                    f"{p.trigger:g}",
                    number(p.look_ups),
                    percent(p.fired.mean if p.fired else None),
                    p.degenerate,
                )
                for p in points
                if p.panel == panels_of(lines)[0]
            ),
        ),
    )


def _trigger(point: SweepPoint) -> float:
    return point.trigger


def _fires(point: SweepPoint) -> str:
    return point.verdict or f"fires on {interval(point.fired)} % of {point.questions} questions"


def _verdicts(points: Sequence[SweepPoint]) -> tuple[str, ...]:
    return tuple(f"{point.verdict}." for point in points if point.verdict)


def _sweep_table(points: Sequence[SweepPoint]) -> Table:
    return Table(
        columns=("set", "method", "trigger", "questions", "EM", "F1", "look-ups", "fired", "degenerate"),
        rows=tuple(
            (
                p.panel,
                p.method,
                f"{p.trigger:g}",
                p.questions,
                interval(p.em),
                interval(p.f1),
                number(p.look_ups),
                interval(p.fired),
                p.degenerate,
            )
            for p in points
        ),
    )


def _brief_sweep_table(points: Sequence[SweepPoint], panel: str) -> Table:
    return Table(
        columns=("method", "trigger", "EM", "F1"),
        rows=tuple((p.method, f"{p.trigger:g}", interval(p.em), interval(p.f1)) for p in points if p.panel == panel),
    )


def _first_firings(lines: Sequence[Line]) -> Figure:
    title, source = "Where methods first fire, and the entropy of the text", "ETC Fig. 3"
    firings = first_firings(lines)
    if not firings:
        return absent("first-trigger", title, source, _NEEDS_FIRING)
    last = max(each.tokens[-1] for each in firings)
    entropies = {line.name: mean_entropies(line)[: last + 1] for line in lines}
    strategies = tuple(dict.fromkeys(each.strategy for each in firings))
    rows = (_ENTROPY, *reversed(strategies))
    fired_in = {each.line for each in firings}
    panels = tuple(line.name for line in lines if line.name in fired_in)
    return Figure(
        name="first-trigger",
        title=title,
        source=source,
        reading="A method that fires in time fires first where the entropy begins to rise; one that comes late, at its "
        "peaks or behind them.",
        drawing=(
            "Above, each row is a method: the darker a token, the more of the questions on which it fired it first "
            f"stopped there. The lowest row is the mean entropy of the tokens, at most "
            f"{max(max(entropies[panel]) for panel in panels):.2f} nats.",
        ),
        x=Axis(title="token of the text"),
        y=Axis(title="", rows=rows),
        panels=panels,
        series=tuple(
            series
            for panel in panels
            for series in (
                _entropy_row(panel, entropies[panel]),
                *(_firing_row(each, rows.index(each.strategy), last) for each in firings if each.line == panel),
            )
        ),
        data=Table(
            columns=("line", "strategy", "token", "questions", "share", "mean entropy"),
            rows=tuple(
                (each.line, each.strategy, token, each.at(token), each.at(token) / len(each.tokens), entropy)
                for each in firings
                for token, entropy in enumerate(entropies[each.line])
            ),
        ),
        brief=_firing_table(firings),
    )


def _entropy_row(panel: str, entropies: Sequence[float]) -> Series:
    return Series(
        panel=panel,
        name=_ENTROPY,
        x=tuple(map(float, range(len(entropies)))),
        y=(0.0,) * len(entropies),
        values=tuple(entropies),
        mark="cells",
        colour=1,
        words=tuple(f"token {token}: {entropy:.2f} nats" for token, entropy in enumerate(entropies)),
    )


def _firing_row(firings: FirstFirings, row: int, last: int) -> Series:
    counts = [firings.at(token) for token in range(last + 1)]
    return Series(
        panel=firings.line,
        name=firings.strategy,
        x=tuple(map(float, range(last + 1))),
        y=(float(row),) * (last + 1),
        values=tuple(count / len(firings.tokens) for count in counts),
        mark="cells",
        words=tuple(
            f"{firings.strategy}, token {token}: {count} of {len(firings.tokens)} questions"
            for token, count in enumerate(counts)
        ),
    )


def _firing_table(firings: Sequence[FirstFirings]) -> Table:
    return Table(
        columns=(
            "line",
            "strategy",
            "questions",
            "fired",
            "median token",
            "at token 0",
            "entropy there",
            "of its text",
        ),
        rows=tuple(
            (
                each.line,
                each.strategy,
                each.questions,
                len(each.tokens),
                f"{statistics.median(each.tokens):g}",
                f"{percent(each.at(0) / len(each.tokens))} %",
                f"{each.entropy_there:.2f}",
                f"{each.entropy_of_texts:.2f}",
            )
            for each in firings
        ),
    )
