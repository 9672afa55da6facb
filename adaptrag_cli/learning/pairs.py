"""Preference pairs of the chain of calibration: at a sub-query, the decision of the right path against the other one.

Three ways to make them (Table 6): `path` takes the steps of the cheapest right path; `all-nodes` every node of a whole
tree below which a right path exists and one decision is better, whatever a cap has left unexplored; `sentence` sets
whole continuations up to the end of the step against each other, where the others set the two markers; passages in them
are read and do not count.

Differs from the paper: its `sentence` pairs are "based on retrieval efficiency" and told no further (Table 6). Here the
continuation of the right path is preferred, which is the one with the fewest look-ups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from adaptrag_cli.learning.losses import process_cost
from adaptrag_cli.learning.tree import Node, Steps, Tree
from adaptrag_cli.stepwise.narrative import (
    FOLLOW_UP,
    INTERMEDIATE_ANSWER,
    SEARCH,
    Narrative,
    NarrativeStep,
    on_one_line,
    render,
)

PairsOf = Literal["path", "all-nodes", "sentence"]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A prefix of a narrative, and two ways to go on."""

    question: str
    prefix: str
    """Of the assistant's turn, up to the line that asks the sub-query."""
    preferred: str
    rejected: str

    @property
    def prefers_retrieval(self) -> bool:
        return self.preferred.startswith(SEARCH)


def make_pairs(tree: Tree, pairs: PairsOf) -> tuple[Pair, ...]:
    """The pairs of one question; none where nothing was right. `all-nodes` needs a whole tree."""
    best = tree.cheapest
    if best is None:
        return ()
    if pairs == "all-nodes":
        return tuple(_all_nodes(tree))
    return tuple(_along(tree, best, sentence=pairs == "sentence"))


def lacks_sentences(tree: Tree) -> bool:
    """Whether the cheapest right path has a step whose other answer was put off, and then never asked for."""
    best = tree.cheapest
    if best is None:
        return False
    others = (tree.nodes.get(best.path[:number] + "R") for number, letter in enumerate(best.path) if letter == "D")
    return any(other is not None and other.is_to_be_looked_up for other in others)


def _along(tree: Tree, best: Node, *, sentence: bool) -> list[Pair]:
    pairs = []
    for number, step in enumerate(best.steps):
        here = best.path[:number]
        other = tree.nodes.get(here + ("D" if step.retrieve else "R"))
        if sentence and (other is None or not other.steps[-1].answer):
            continue  # there is no sentence to set against it
        rejected = other.steps[-1] if sentence and other is not None else None
        pairs.append(_pair(tree.question, best.steps[:number], step, rejected))
    return pairs


def _all_nodes(tree: Tree) -> list[Pair]:
    """At each node that was asked, the decision that leads to the better outcome, where one does."""
    pairs = []
    for node in tree.nodes.values():
        if node.outcome != "asked":
            continue
        by_letter = {letter: _best_below(tree, node.path + letter) for letter in "DR"}
        if by_letter["D"] == by_letter["R"] or all(is_wrong for is_wrong, _ in by_letter.values()):
            continue
        letter, other = sorted("DR", key=by_letter.__getitem__)
        if _may_cost(tree, node.path + other, by_letter[letter][1]):
            continue
        step = NarrativeStep(sub_query=node.sub_query, retrieve=letter == "R")
        pairs.append(_pair(tree.question, node.steps, step, None))
    return pairs


def _may_cost(tree: Tree, path: str, retrievals: int) -> bool:
    """Whether what was not explored below a path may still be right with so few look-ups."""
    return any(
        node.outcome == "open" and node.retrievals <= retrievals and node.path.startswith(path)
        for node in tree.nodes.values()
    )


def _best_below(tree: Tree, path: str) -> tuple[bool, int]:
    costs = (process_cost(True, node.retrievals) for node in tree.right if node.path.startswith(path))
    return min(costs, default=process_cost(False, 0))


def _pair(question: str, before: Steps, step: NarrativeStep, rejected: NarrativeStep | None) -> Pair:
    told = render(Narrative(steps=before))
    asked = f"{FOLLOW_UP} {on_one_line(step.sub_query)}\n"
    markers = (INTERMEDIATE_ANSWER, f"{SEARCH}\n")  # with its end: a full stop and a new line are often one token
    if rejected is None:
        preferred_text, rejected_text = reversed(markers) if step.retrieve else markers
    else:
        preferred_text, rejected_text = (_continuation(each) for each in (step, rejected))
    return Pair(
        question=question,
        prefix=f"{told}\n{asked}" if told else asked,
        preferred=preferred_text,
        rejected=rejected_text,
    )


def _continuation(step: NarrativeStep) -> str:
    """What follows a sub-query's line, up to the end of its step's last line."""
    return render(Narrative(steps=(step,))).split("\n", 1)[1] + "\n"
