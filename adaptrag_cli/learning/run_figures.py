"""What came of a run of `adaptrag deeprag synthesize`, in numbers (DeepRAG Fig. 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from adaptrag_cli.answers import contains_words, normalise_answer
from adaptrag_cli.events import Record
from adaptrag_cli.learning.runs import Explored, SynthesisManifest
from adaptrag_cli.learning.tree import choose_path


class RunFigures(Record, frozen=True, kw_only=True):
    """Counts over the questions of a run."""

    asked: int
    explored: int
    solved: int
    steps: dict[int, int]
    """Of the chosen paths: how many have so many steps."""
    retrievals: dict[int, int]
    several: int
    """Chosen paths of two or more steps, at least one of which is looked up."""
    choices: int
    """Solved questions whose answer is yes or no, or stands in the question: a guess is right about half the time."""
    calls: dict[str, int]
    """By kind, of all trees."""
    nodes: dict[str, int]
    """By outcome, of all trees."""
    cut: int
    """Trees whose search was ended by the cap on expansions before anything was right."""
    partial: int
    """Solved trees that were to be explored whole, and whose search the cap has ended."""
    repeated: int
    """Nodes that were finished because they asked the same again."""
    used_up: int
    """Nodes that were finished because their steps were used up."""
    seconds: float


def run_figures(manifest: SynthesisManifest, explored: Sequence[Explored]) -> RunFigures:
    """Count what a run has explored so far."""
    paths = [(each, choose_path(each.tree, manifest.paths, seed=manifest.seed)) for each in explored]
    chosen = [node for _, node in paths if node is not None]
    nodes = [node for each in explored for node in each.tree.nodes.values()]
    calls: Counter[str] = Counter()
    for each in explored:
        calls.update(asdict(each.tree.calls))
    endings = Counter(node.ending for node in nodes)
    return RunFigures(
        asked=len(manifest.keys),
        explored=len(explored),
        solved=len(chosen),
        steps=_counted(len(node.path) for node in chosen),
        retrievals=_counted(node.retrievals for node in chosen),
        several=sum(len(node.path) >= 2 and node.retrievals >= 1 for node in chosen),
        choices=sum(node is not None and _is_choice(each) for each, node in paths),
        calls=dict(calls),
        nodes=dict(Counter(node.outcome for node in nodes)),
        cut=sum(each.tree.is_cut and not each.tree.right for each in explored),
        partial=sum(each.tree.is_cut and bool(each.tree.right) for each in explored),
        repeated=endings["repeated"],
        used_up=endings["steps_used_up"],
        seconds=sum(each.seconds for each in explored),
    )


def _is_choice(explored: Explored) -> bool:
    return any(
        normalise_answer(gold) in ("yes", "no") or contains_words(explored.tree.question, gold)
        for gold in explored.golds
    )


def _counted(numbers: Iterable[int]) -> dict[int, int]:
    return dict(sorted(Counter(numbers).items()))
