"""What a training of an adapter came to, and what it learned from, as tables."""

from __future__ import annotations

from collections.abc import Callable

from adaptrag_cli.events import Scalar
from adaptrag_cli.learning.run_figures import RunFigures
from adaptrag_cli.learning.runs import SynthesisManifest
from adaptrag_cli.learning.training_report import LEARNED_FROM, TrainingReport
from adaptrag_cli.report.figure import Table, percent
from adaptrag_cli.report.sections import Section

_CALLS = {
    "sub_queries": "calls for the next sub-query",
    "direct_answers": "answers from memory",
    "retrievals": "look-ups",
    "retrieved_answers": "answers from documents",
    "finals": "final answers",
}
_NODES = {
    "asked": "asked on",
    "right": "right",
    "wrong": "wrong",
    "pruned": "without an answer",
    "open": "not explored",
}
_CHOICES = {"imitation": "objective", "calibration": "pairs"}
"""What a person may choose of a stage: the option's name."""
_CHOSEN = "The epoch with the lowest {what} here was taken, of {epochs}: other questions may well do worse."


def exploration_sections(manifest: SynthesisManifest, figures: RunFigures) -> tuple[Section, ...]:
    """The right paths that were found, and what that took."""
    most = max([*figures.steps, *figures.retrievals], default=-1)
    lengths = tuple(
        (number, figures.steps.get(number, 0), figures.retrievals.get(number, 0)) for number in range(most + 1)
    )
    work = (
        *((told, figures.calls.get(name, 0)) for name, told in _CALLS.items()),
        *((f"nodes {told}", figures.nodes[name]) for name, told in _NODES.items() if name in figures.nodes),
        ("seconds", round(figures.seconds)),
    )
    return (
        Section(
            title="Right paths with so many steps and look-ups",
            table=Table(columns=("number", "steps", "look-ups"), rows=lengths),
            notes=tuple(f"{note}." for note in _exploration_notes(manifest, figures)),
        ),
        Section(title="What it took", table=Table(columns=("", "number"), rows=work)),
    )


def _exploration_notes(manifest: SynthesisManifest, figures: RunFigures) -> list[str]:
    share = percent(figures.solved / figures.explored) if figures.explored else ""
    notes = [
        f"{figures.solved} of {figures.explored} solved ({share} %)" if figures.explored else "nothing was explored yet"
    ]
    if figures.solved:
        notes.append(f"{figures.several} of the {figures.solved} paths have two or more steps and a look-up")
    if figures.choices:
        notes.append(
            f"{figures.choices} of the {figures.solved} answers are yes or no, or stand in their question: "
            "about half of such are right by chance, on any path"
        )
    if figures.explored < figures.asked:
        notes.insert(
            0, f"{figures.explored} of {figures.asked} questions were explored; synthesize goes on with --resume"
        )
    top_k, retriever = manifest.settings.get("top_k"), manifest.settings.get("retriever")
    notes.append(
        f"At most {manifest.max_steps} steps a path and {manifest.max_expansions} expansions a tree; {top_k} passages "
        f"a look-up, found by {retriever} search"
    )
    if figures.cut:
        notes.append(f"{figures.cut} trees reached the cap of {manifest.max_expansions} expansions unsolved")
    if figures.partial:
        notes.append(
            f"{figures.partial} solved trees reached that cap of {manifest.max_expansions} before all was explored: "
            f"their {manifest.paths} path is that of what was"
        )
    if figures.repeated:
        notes.append(f"{figures.repeated} nodes asked the same again and were finished there")
    if figures.used_up:
        notes.append(f"{figures.used_up} nodes had used up their {manifest.max_steps} steps and were finished there")
    return notes


def training_sections(report: TrainingReport) -> tuple[Section, ...]:
    """How a stage was trained, and what was held out before and after."""
    kind = LEARNED_FROM[report.stage]
    facts: dict[str, Scalar] = {
        "adapter": report.adapter,
        "base": report.base,
        "begun with": report.adapter_from or "nothing",
        f"{kind} learned from": report.train,
        f"{kind} held out": report.held_out,
        "too long, left out": report.too_long,
        **({_CHOICES[report.stage]: report.objective} if report.stage in _CHOICES else {}),
        "seed": report.seed,
        "rank": report.shape.rank,
        "learning rate": report.recipe.learning_rate,
        "epochs (best)": f"{report.epochs} ({report.best_epoch})",
        "steps": report.steps,
        "seconds": report.seconds,
    }
    what = "mean reward, negative" if report.stage == "grpo" else "loss"
    rows: list[tuple[str, str, str]] = [(what, f"{report.loss_before:.4f}", f"{report.loss_after:.4f}")]
    if report.odds_before and report.odds_after:
        shown: tuple[tuple[str, str, Callable[..., float | None]], ...] = (
            ("log-odds of the right path's decisions", "+.3f", lambda odds: odds.mean),
            ("- where it looks up", "+.3f", lambda odds: odds.search),
            ("- where it answers from memory", "+.3f", lambda odds: odds.answer),
            ("decisions that are the likelier one", ".0%", lambda odds: odds.right),
        )
        for label, form, read in shown:
            before, after = read(report.odds_before), read(report.odds_after)
            if before is not None and after is not None:
                rows.append((label, f"{before:{form}}", f"{after:{form}}"))
    decisions = report.odds_after.pairs if report.odds_after else 0
    return (
        Section(title=f"Stage {report.training}", table=Table(columns=("", "value"), rows=tuple(facts.items()))),
        Section(
            title=f"What was held out of stage {report.training}",
            table=Table(columns=("", "before", "after"), rows=tuple(rows)),
            notes=(
                *((_CHOSEN.format(what=what, epochs=report.epochs),) if report.epochs > 1 else ()),
                f"{decisions} decisions of held-out questions; log-odds in nats.",
            ),
        ),
    )
