"""What an adapter learned from, and how its training went: paths, loss curves and decisions, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from adaptrag_cli.learning.fitting import LossPoint
from adaptrag_cli.learning.run_figures import RunFigures
from adaptrag_cli.learning.stages import DecisionOdds
from adaptrag_cli.learning.training_report import TrainingReport
from adaptrag_cli.report.figure import Axis, Figure, Series, Table, absent

_Point = tuple[str, DecisionOdds]
"""Where it stands on the axis, and what is told of it."""


def training_figures(
    found: RunFigures, curves: Mapping[str, Sequence[LossPoint]], reports: Mapping[str, TrainingReport]
) -> tuple[Figure, ...]:
    """The right paths, the loss curves of every stage that was begun, and the decisions after each that is done."""
    return (_paths(found), *(_losses(stage, points) for stage, points in curves.items()), _decisions(reports))


def _paths(found: RunFigures) -> Figure:
    name, title, source = "right-paths", "Steps and look-ups of the right paths", "DeepRAG Fig. 7"
    if not found.solved:
        return absent(name, title, source, "needs a question that was solved")
    most = max(*found.steps, *found.retrievals)
    kinds = (("steps", found.steps), ("look-ups", found.retrievals))
    counted = Table(
        columns=("number", *(kind for kind, _ in kinds)),
        rows=tuple((at, *(counts.get(at, 0) for _, counts in kinds)) for at in range(most + 1)),
    )
    return Figure(
        name=name,
        title=title,
        source=source,
        reading="What the adapter is shown: without paths of several steps, and without any that look up, it learns "
        "nothing of either.",
        x=Axis(title="number", scale="category"),
        y=Axis(title="share of right paths", scale="percent"),
        panels=("",),
        series=tuple(
            Series(
                panel="",
                name=kind,
                x=tuple(map(str, range(most + 1))),
                y=tuple(counts.get(at, 0) / found.solved for at in range(most + 1)),
                mark="bars",
                colour=colour,
                words=tuple(f"{counts.get(at, 0)} of {found.solved} paths" for at in range(most + 1)),
            )
            for colour, (kind, counts) in enumerate(kinds)
        ),
        data=counted,
        brief=counted,
    )


def _losses(stage: str, points: Sequence[LossPoint]) -> Figure:
    name, source = f"losses-{stage}", "training curve"
    what = "mean reward, negative" if stage == "grpo" else "loss"
    title = f"The {what} of stage {stage}"
    steps = [(point.step, point.loss) for point in points if point.loss is not None]
    held_out = [(point.step, point.epoch, point.held_out) for point in points if point.held_out is not None]
    if not steps:
        return absent(name, title, source, "needs a step of training")
    return Figure(
        name=name,
        title=title,
        source=source,
        reading="Training helps while what is held out falls, too; where it rises again, the model learns by heart.",
        notes=("Each step is the mean of its own few texts, and jumps with them.",),
        x=Axis(title="step"),
        y=Axis(title=what),
        panels=("",),
        series=(
            Series(
                panel="",
                name="learned from",
                x=_floats(at for at, _ in steps),
                y=tuple(loss for _, loss in steps),
                mark="line" if len(steps) > 1 else "dots",
            ),
            Series(
                panel="",
                name="held out",
                x=_floats(at for at, _, _ in held_out),
                y=tuple(loss for _, _, loss in held_out),
                mark="linked",
                colour=1,
                words=tuple(f"after epoch {epoch:g}" if epoch else "before the training" for _, epoch, _ in held_out),
            ),
        ),
        data=Table(
            columns=("step", "epoch", what, "held out"),
            rows=tuple(
                (
                    point.step,
                    point.epoch,
                    "" if point.loss is None else point.loss,
                    "" if point.held_out is None else point.held_out,
                )
                for point in points
            ),
        ),
        brief=Table(
            columns=("epoch", "held out"),
            rows=tuple((f"{epoch:g}", f"{loss:.4f}") for _, epoch, loss in held_out),
        ),
    )


def _decisions(reports: Mapping[str, TrainingReport]) -> Figure:
    name, title = "decision-odds", "How sure the right decisions are, after each stage"
    source = "DeepRAG, chain of calibration"
    chains = _chains(reports)
    if not chains:
        return absent(name, title, source, "needs a stage that was trained, with decisions held out")
    kinds: tuple[tuple[str, Callable[[DecisionOdds], float | None]], ...] = (
        ("all", lambda odds: odds.mean),
        ("where it looks up", lambda odds: odds.search),
        ("where it answers from memory", lambda odds: odds.answer),
    )
    series = []
    for colour, (kind, read) in enumerate(kinds):
        for chain in chains:
            there = [(at, value) for at, odds in chain if (value := read(odds)) is not None]
            if there:
                series.append(
                    Series(
                        panel="",
                        name=kind,
                        x=tuple(at for at, _ in there),
                        y=tuple(value for _, value in there),
                        mark="linked",
                        colour=colour,
                    )
                )
    points = dict.fromkeys(point for chain in chains for point in chain)
    rows = tuple((at, odds.pairs, *(read(odds) for _, read in kinds)) for at, odds in points)
    return Figure(
        name=name,
        title=title,
        source=source,
        reading="Above zero the right path's decision is the likelier one. Where one kind rises as the other falls, "
        "the model has only learned to look up more, or less.",
        notes=(
            "Mean log-odds of the decisions of questions that were held out.",
            "Each stage stands behind what it began with.",
        ),
        x=Axis(title="after stage", scale="category"),
        y=Axis(title="log-odds (nats)"),
        panels=("",),
        series=tuple(series),
        data=Table(columns=("after", "decisions", "all", "look up", "from memory"), rows=rows),
        brief=Table(
            columns=("after", "all", "look up", "from memory"),
            rows=tuple((row[0], *(f"{v:+.3f}" if isinstance(v, float) else "" for v in row[2:])) for row in rows),
        ),
    )


def _chains(reports: Mapping[str, TrainingReport]) -> list[list[_Point]]:
    """The decisions before and after each stage, one behind the other where a stage began with what another made."""
    chains: list[list[_Point]] = []
    for stage, report in reports.items():
        before, after = report.odds_before, report.odds_after
        if before is None or after is None:
            continue
        begun = next((name for name, other in reports.items() if _began_with(report, other)), None)
        chain = next((chain for chain in chains if chain[-1][0] == begun), None)
        if chain is None:
            chain = [(begun or report.adapter_from or "untrained", before)]
            chains.append(chain)
        chain.append((stage, after))
    return chains


def _began_with(report: TrainingReport, other: TrainingReport) -> bool:
    """Whether a stage began with the very file that another one made."""
    begun, made = (report.adapter_from, report.adapter_from_fingerprint), (other.adapter, other.adapter_fingerprint)
    return bool(report.adapter_from) and begun == made


def _floats(numbers: Iterable[int]) -> tuple[float, ...]:
    return tuple(map(float, numbers))
