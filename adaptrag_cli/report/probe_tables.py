"""A prober's figures as tables: what it was trained on, how well it does beside simpler signals, and what follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adaptrag_cli.evaluation.probing.assess import TOGETHER, Assessment
from adaptrag_cli.evaluation.probing.measures import Quality
from adaptrag_cli.evaluation.probing.outcome import Outcome
from adaptrag_cli.evaluation.statistics import Interval, Paired
from adaptrag_cli.identity import shortened
from adaptrag_cli.probing.prober import ProberInfo, parameter_count
from adaptrag_cli.report.figure import Table, interval, percent
from adaptrag_cli.report.sections import Section

_MEBIBYTE = 1024 * 1024
SPLIT_NOTE = (
    "Texts are parted by question; each part holds as many right as wrong ones. What stopped the training is no part "
    "of what was held out. Intervals are of 95 %; they and the tests hold the two texts of a question together"
)
ANSWERS_NOTE = (
    "Answers: where the prober says retrieve, the text that was written with passages stands, and is not probed again; "
    "all held-out questions count, both of whose texts have states. ACC: a gold answer stands in the text"
)


def sections(info: ProberInfo, outcome: Outcome, made: Assessment, size: int) -> tuple[Section, ...]:
    """All tables; `size` is the file's, in bytes."""
    parts = [
        Section(title="What it is", table=_facts(info, outcome, size)),
        Section(title="What it was trained on", table=_sets(outcome), notes=tuple(data_notes(outcome))),
        Section(
            title="How well it tells right texts from wrong ones",
            table=_qualities((*made.layers, made.together), made.baselines),
            notes=(*(f"{verdict}." for verdict in verdicts(made)), f"{SPLIT_NOTE}."),
        ),
    ]
    if made.answers:
        parts.append(
            Section(
                title="What the answers come to",
                table=Table(columns=("", "ACC %"), rows=tuple((n, interval(i)) for n, i in made.answers.items())),
                notes=(f"{ANSWERS_NOTE}.",),
            )
        )
    parts.append(Section(title="How it was trained", table=_trainings(outcome), notes=(recipe_note(outcome),)))
    return tuple(parts)


def verdicts(made: Assessment) -> Iterator[str]:
    """How all layers together compare with each simpler signal, in sentences."""
    for name, paired in made.comparisons.items():
        yield f"{TOGETHER} against {name}: {_verdict(paired)}"


def data_notes(outcome: Outcome) -> Iterator[str]:
    """What limits the training, in sentences."""
    if not outcome.labelled:
        yield (
            "Note: the model wrote questions and answers itself: weaker evidence than questions that people asked, "
            "since such questions are easy to look up."
        )
    if outcome.failed:
        texts = "1 text" if outcome.failed == 1 else f"{outcome.failed} texts"
        yield f"{texts} could not be written; the first: {outcome.failure}."
    if outcome.without_states:
        yield f"{outcome.without_states} texts were left out: the model gave no state, as where it wrote one token."
    if outcome.not_finite:
        yield f"{outcome.not_finite} texts were left out: their states are no numbers."


def recipe_note(outcome: Outcome) -> str:
    """The recipe in a sentence."""
    recipe = outcome.recipe
    stops = f", ends after {recipe.patience} epochs without better weights" if recipe.patience else ""
    return (
        f"AdamW, learning rate {recipe.learning_rate:g} times {recipe.decay:g} a batch of {recipe.batch}, at most "
        f"{recipe.epochs} epochs{stops}; the weights that did best on {outcome.stop.rows} other texts are kept."
    )


def rate(value: Interval | None) -> str:
    """A share as `0.700 [0.633, 0.761]`, or nothing."""
    return "" if value is None else f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]"


def _facts(info: ProberInfo, outcome: Outcome, size: int) -> Table:
    reads = "the question" if info.kind == "question" else "rationale and answer"
    layers = [layer.layer for layer in outcome.layers]
    costs = outcome.costs
    count = parameter_count(info.width)
    rows = [
        ("model", f"{info.model} ({shortened(info.model_fingerprint)})"),
        ("reads", f"the states of {reads}, {info.width:,} numbers after each layer"),
        ("layers", f"{', '.join(map(str, layers))} of {info.layer_count}"),
        ("size", f"{len(layers)} networks of {count:,} numbers, {size / _MEBIBYTE:.1f} MiB"),
        ("texts", f"written in {_span(costs.generation_seconds)}{_memory(costs.generation_peak_memory)}"),
        ("training", f"{_span(costs.training_seconds)}, the curve's too{_memory(costs.training_peak_memory)}"),
        ("made", f"{outcome.created}, seed {info.seed}, adaptrag-cli {outcome.adaptrag_version}"),
    ]
    return Table(columns=("", ""), rows=tuple(rows))


def _sets(outcome: Outcome) -> Table:
    columns: tuple[str, ...] = ("questions", "asked", "right without %")
    with_passages = any(share.written_with_passages for share in outcome.sets)
    rows: list[tuple[str | int, ...]] = []
    for share in outcome.sets:
        row: tuple[str | int, ...] = (share.name, share.questions, _share(share.right, share.written))
        if with_passages:
            row = (*row, _share(share.right_with_passages, share.written_with_passages))
        rows.append(row)
    if with_passages:
        columns = (*columns, "with passages %")
    blanks = ("",) * (len(columns) - 2)
    for name, part in (
        ("texts trained on", outcome.train),
        ("texts that stopped it", outcome.stop),
        ("texts held out", outcome.held_out),
    ):
        rows.append((f"{name} (of {part.questions} questions)", part.rows, *blanks))
    return Table(columns=columns, rows=tuple(rows))


def _qualities(probed: Sequence[Quality], baselines: Sequence[Quality]) -> Table:
    rows = [
        (
            found.name if found.name == TOGETHER else f"layer {found.name}",
            interval(found.accuracy),
            rate(found.auroc),
            f"{found.calibration_error:.3f}" if found.calibration_error is not None else "",
        )
        for found in probed
    ]
    rows += [(found.name, interval(found.accuracy), rate(found.auroc), "") for found in baselines]
    return Table(columns=("", "accuracy %", "AUROC", "ECE"), rows=tuple(rows))


def _trainings(outcome: Outcome) -> Table:
    rows = tuple(
        (layer.layer, layer.best_epoch, layer.epochs, percent(layer.accuracy), f"{layer.seconds:.1f}")
        for layer in outcome.layers
    )
    return Table(columns=("layer", "best epoch", "of", "accuracy there %", "seconds"), rows=rows)


def _verdict(paired: Paired) -> str:
    difference = f"{100 * paired.difference:+.1f} points ({100 * paired.low:+.1f} to {100 * paired.high:+.1f})"
    p = "p < 0.001" if paired.p_value < 0.001 else f"p = {paired.p_value:.3f}"
    return f"{difference}, {p}: {paired.verdict}"


def _share(right: int, written: int) -> str:
    return percent(right / written) if written else ""


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _memory(held: int) -> str:
    return f", at most {held / _MEBIBYTE:,.0f} MiB in use" if held else ""
