"""A prober's figures: accuracy by layer, how its logits part right from wrong, and what more rows or layers bring."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adaptrag_cli.evaluation.probing.assess import TOGETHER, Assessment
from adaptrag_cli.evaluation.probing.measures import Floats, Quality, density
from adaptrag_cli.evaluation.probing.outcome import HeldOut, Outcome
from adaptrag_cli.evaluation.statistics import Interval
from adaptrag_cli.report.figure import Axis, Figure, Series, Table, absent, interval, percent
from adaptrag_cli.report.probe_tables import rate

_POINTS = 80
_KINDS = (("right: stop", True, 0), ("wrong: retrieve", False, 1))
_SHARE = Axis(title="accuracy", scale="percent")


def probe_figures(outcome: Outcome, made: Assessment) -> tuple[Figure, ...]:
    """All of them; one that cannot be drawn says why."""
    # chosen by the texts that stopped the training: what was held out chooses nothing
    best = sorted(range(len(outcome.layers)), key=lambda at: (-outcome.layers[at].accuracy, at))[:2]
    balanced = [text for text in outcome.texts if text.balanced]
    return (
        _by_layer(made),
        _density(outcome, balanced, sorted(best)),
        _scatter(outcome, balanced, sorted(best)),
        _calibration(made),
        _curve(made),
        _thetas(made),
        _by_number(made),
        _correlation(made),
    )


def _by_layer(made: Assessment) -> Figure:
    names = tuple(float(found.name) for found in made.layers)
    ends = (min(names), max(names))
    series = [_with_interval("each layer alone", names, [found.accuracy for found in made.layers], colour=0)]
    for colour, (name, value) in enumerate(_levels(made), start=1):
        series.append(Series(panel="", name=name, x=ends, y=(value, value), colour=colour, dash="dash"))
    return Figure(
        name="accuracy-by-layer",
        title="Accuracy by layer",
        source="Probing-RAG Fig. 4, left",
        reading="Where in the model it stands whether a text is right; the lines are all layers and simpler signals.",
        x=Axis(title="layer"),
        y=_SHARE,
        panels=("",),
        series=tuple(series),
        data=_quality_table((*made.layers, made.together, *made.baselines)),
        brief=_quality_table((*made.layers, made.together)),
    )


def _levels(made: Assessment) -> list[tuple[str, float]]:
    return [(found.name, found.accuracy.mean) for found in (made.together, *made.baselines)]


def _density(outcome: Outcome, texts: Sequence[HeldOut], best: Sequence[int]) -> Figure:
    name, title, source = "logit-density", "Density of the logits", "Probing-RAG Fig. 5, margins"
    series: list[Series] = []
    rows: list[tuple[str | float, ...]] = []
    panels = tuple(f"layer {outcome.layers[at].layer}" for at in best)
    for panel, at in zip(panels, best, strict=True):
        margins = _margins(texts, at)
        grid = np.linspace(margins.min(), margins.max(), _POINTS)
        for label, is_right, colour in _KINDS:
            of_kind = margins[[text.right is is_right for text in texts]]
            heights = density(of_kind, grid)
            if heights is None:
                return absent(name, title, source, "the logits of a kind of texts are all the same")
            series.append(
                Series(panel=panel, name=label, x=tuple(grid.tolist()), y=tuple(heights.tolist()), colour=colour)
            )
            rows += [(panel, label, x, y) for x, y in zip(grid.tolist(), heights.tolist(), strict=True)]
    means = tuple(
        (panel, label, round(float(_margins(texts, at)[[text.right is is_right for text in texts]].mean()), 3))
        for panel, at in zip(panels, best, strict=True)
        for label, is_right, _ in _KINDS
    )
    return Figure(
        name=name,
        title=title,
        source=source,
        reading="How far retrieve lies above stop, in the two layers that did best on the texts that stopped the "
        "training: the less the two kinds overlap, the better.",
        notes=(
            "The difference of the two logits, which alone decides; the paper's figure shows each of the two.",
            "Gaussian kernels, with the width that Silverman's rule gives.",
        ),
        x=Axis(title="logit of retrieve less that of stop"),
        y=Axis(title="density"),
        panels=panels,
        series=tuple(series),
        data=Table(columns=("layer", "texts", "difference", "density"), rows=tuple(rows)),
        brief=Table(columns=("layer", "texts", "mean difference"), rows=means),
    )


def _scatter(outcome: Outcome, texts: Sequence[HeldOut], best: Sequence[int]) -> Figure:
    name, title, source = "logits-of-two-layers", "Logits of the two best layers", "Probing-RAG Fig. 5"
    if len(best) < 2:
        return absent(name, title, source, "one layer alone is probed")
    across, up = (_margins(texts, at) for at in best)
    numbers = [outcome.layers[at].layer for at in best]
    series = []
    for label, is_right, colour in _KINDS:
        kind = [text.right is is_right for text in texts]
        x, y = tuple(across[kind].tolist()), tuple(up[kind].tolist())
        series.append(Series(panel="", name=label, x=x, y=y, mark="dots", colour=colour))
    rows = tuple(
        ("right" if text.right else "wrong", x, y)
        for text, x, y in zip(texts, across.tolist(), up.tolist(), strict=True)
    )
    r = float(np.atleast_2d(np.corrcoef(across, up))[0, 1]) if across.std() and up.std() else None
    return Figure(
        name=name,
        title=title,
        source=source,
        reading="Each dot is a held-out text; at the upper right both layers say retrieve.",
        x=Axis(title=f"layer {numbers[0]}: retrieve less stop"),
        y=Axis(title=f"layer {numbers[1]}: retrieve less stop"),
        panels=("",),
        series=tuple(series),
        data=Table(columns=("text", f"layer {numbers[0]}", f"layer {numbers[1]}"), rows=rows),
        brief=Table(
            columns=("layers", "texts", "correlation"),
            rows=((f"{numbers[0]}, {numbers[1]}", len(texts), "" if r is None else f"{r:.2f}"),),
        ),
    )


def _calibration(made: Assessment) -> Figure:
    bins = made.together.bins
    rows = tuple(
        (f"{part.low:.1f} to {part.high:.1f}", part.texts, percent(part.predicted), percent(part.right))
        for part in bins
    )
    table = Table(columns=("probability", "texts", "predicted %", "right %"), rows=rows)
    return Figure(
        name="prober-calibration",
        title="What its probabilities are worth",
        source="calibration",
        reading="The share of texts that is right, by the probability that all layers give; ideal is the line.",
        notes=("Softmax of the summed logits, in ten bins of equal width.",),
        x=Axis(title="predicted", scale="percent", limits=(0.0, 1.0)),
        y=Axis(title="right", scale="percent", limits=(0.0, 1.0)),
        panels=("",),
        series=(
            Series(panel="", name="ideal", x=(0.0, 1.0), y=(0.0, 1.0), colour=5, dash="dot"),
            Series(
                panel="",
                name=TOGETHER,
                x=tuple(part.predicted for part in bins),
                y=tuple(part.right for part in bins),
                mark="linked",
                words=tuple(f"{part.texts} texts" for part in bins),
            ),
        ),
        data=table,
        brief=table,
    )


def _curve(made: Assessment) -> Figure:
    rows = tuple(float(point.rows) for point in made.curve)
    accuracies = [point.quality.accuracy for point in made.curve]
    series = [_with_interval(TOGETHER, rows, accuracies, colour=0)]
    answers = [point.answers for point in made.curve if point.answers is not None]
    if len(answers) == len(rows):
        series.append(_with_interval("answers (ACC)", rows, answers, colour=5))
    for colour, found in enumerate(made.baselines, start=2):
        value = found.accuracy.mean
        ends = (min(rows), max(rows))
        series.append(Series(panel="", name=found.name, x=ends, y=(value, value), colour=colour, dash="dash"))
    table = Table(
        columns=("trained on", "accuracy %", "AUROC", "answers ACC %"),
        rows=tuple(
            (
                point.rows,
                interval(point.quality.accuracy),
                rate(point.quality.auroc),
                interval(point.answers) if point.answers is not None else "",
            )
            for point in made.curve
        ),
    )
    return Figure(
        name="learning-curve",
        title="More texts",
        source="Probing-RAG Tab. 3",
        reading="What training on fewer texts would have given; a curve that still rises says: ask more questions.",
        x=Axis(title="texts trained on"),
        y=Axis(title="share", scale="percent"),
        panels=("",),
        series=tuple(series),
        data=table,
        brief=table,
    )


def _thetas(made: Assessment) -> Figure:
    x = tuple(point.theta for point in made.thetas)
    series = [
        _with_interval("prober accuracy", x, [point.accuracy for point in made.thetas], colour=0),
        Series(
            panel="", name="looked up", x=x, y=tuple(point.looked_up for point in made.thetas), colour=5, dash="dot"
        ),
    ]
    answers = [point.answers for point in made.thetas if point.answers is not None]
    if len(answers) == len(x):
        series.append(_with_interval("answers (ACC)", x, answers, colour=2))
    table = Table(
        columns=("theta", "accuracy %", "looked up %", "answers ACC %"),
        rows=tuple(
            (f"{point.theta:g}", interval(point.accuracy), percent(point.looked_up), interval(point.answers))
            for point in made.thetas
        ),
    )
    return Figure(
        name="theta-sweep",
        title="At every theta",
        source="Probing-RAG Tab. 8",
        reading="A greater theta looks up more; the best one for the answers need not be 0.",
        x=Axis(title="theta"),
        y=Axis(title="share", scale="percent"),
        panels=("",),
        series=tuple(series),
        data=table,
        brief=table,
    )


def _by_number(made: Assessment) -> Figure:
    x = tuple(float(len(point.layers)) for point in made.by_layers)
    series = [_with_interval("prober accuracy", x, [point.accuracy for point in made.by_layers], colour=0)]
    answers = [point.answers for point in made.by_layers if point.answers is not None]
    if len(answers) == len(x):
        series.append(_with_interval("answers (ACC)", x, answers, colour=2))
    table = Table(
        columns=("layers", "accuracy %", "answers ACC %"),
        rows=tuple(
            (", ".join(map(str, point.layers)), interval(point.accuracy), interval(point.answers))
            for point in made.by_layers
        ),
    )
    return Figure(
        name="number-of-layers",
        title="More layers",
        source="Probing-RAG Tab. 9",
        reading="The logits of the first so many layers added up.",
        x=Axis(title="layers"),
        y=Axis(title="share", scale="percent"),
        panels=("",),
        series=tuple(series),
        data=table,
        brief=table,
    )


def _correlation(made: Assessment) -> Figure:
    name, title = "prober-and-answers", "Accuracy of the prober and of the answers"
    source = "Probing-RAG Fig. 4, right"
    kinds = {
        "by theta": [(f"theta {p.theta:g}", p.accuracy, p.answers) for p in made.thetas],
        "by layers": [(f"{len(p.layers)} layers", p.accuracy, p.answers) for p in made.by_layers],
    }
    points = [
        (kind, what, accuracy.mean, answers.mean)
        for kind, found in kinds.items()
        for what, accuracy, answers in found
        if answers is not None
    ]
    if not points:
        return absent(name, title, source, "a prober of kind `answer`, whose texts were written with passages, too")
    series = tuple(
        Series(
            panel="",
            name=kind,
            x=tuple(point[2] for point in points if point[0] == kind),
            y=tuple(point[3] for point in points if point[0] == kind),
            mark="dots",
            colour=colour,
            words=tuple(point[1] for point in points if point[0] == kind),
        )
        for colour, kind in enumerate(kinds)
    )
    r = "undefined, since one of them never changes" if made.correlation is None else f"{made.correlation:.2f}"
    return Figure(
        name=name,
        title=title,
        source=source,
        reading=f"Correlation over {made.correlation_points} thetas and numbers of layers: {r} (the paper: 0.93).",
        x=Axis(title="prober accuracy", scale="percent"),
        y=Axis(title="ACC of the answers", scale="percent"),
        panels=("",),
        series=series,
        data=Table(columns=("sweep", "point", "accuracy", "answers"), rows=tuple(points)),
        brief=Table(columns=("points", "correlation"), rows=((made.correlation_points, r),)),
    )


def _margins(texts: Sequence[HeldOut], at: int) -> Floats:
    return np.asarray([text.logits[at][0] - text.logits[at][1] for text in texts], dtype=np.float64)


def _with_interval(name: str, x: tuple[float, ...], values: Sequence[Interval], *, colour: int) -> Series:
    return Series(
        panel="",
        name=name,
        x=x,
        y=tuple(value.mean for value in values),
        low=tuple(value.low for value in values),
        high=tuple(value.high for value in values),
        mark="linked",
        colour=colour,
    )


def _quality_table(found: Sequence[Quality]) -> Table:
    return Table(
        columns=("layer", "accuracy %", "AUROC"),
        rows=tuple((quality.name, interval(quality.accuracy), rate(quality.auroc)) for quality in found),
    )
