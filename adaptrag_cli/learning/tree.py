"""Search for the cheapest path of steps to a right answer (Algorithm 1, DeepRAG).

At each step a question's sub-query is answered from memory (D) and from documents (R); a path is written as its
letters, `DR`. The queue is ordered by retrievals, so that the first right path that is popped is a cheapest one.

Differs from the paper:
    - ties: the longer path first, then D before R, then first in first out. The paper leaves them open, and breadth
      first explores every path of the same cost before it finishes one.
    - the tree has 2^T leaves, so expansions are capped.
    - a path of the greatest length is finished without being asked for one more sub-query, which would be thrown away.
    - a path that repeats a sub-query, as the strategy tells it, is finished: it would ask for ever.
    - an answer from documents that would not be decoded together with that from memory is only asked for once its node
      is popped: the same path is found with fewer look-ups.
Its released code counts both answers as a retrieval and limits retrievals rather than steps; this does neither.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from adaptrag_cli.stepwise.narrative import NarrativeStep, asked_as

Paths = Literal["cheapest", "most", "random"]
"""Which of the right paths becomes a trajectory: with the fewest retrievals, with the most, or any (Table 5)."""
Outcome = Literal["open", "asked", "right", "wrong", "pruned"]
"""Of a node: never popped; continued by its children; finished; or its last step has no answer."""
Ending = Literal["", "told", "repeated", "steps_used_up"]
"""Why a node was finished: its narrator asked nothing more, asked the same again, or may not ask any more."""

Steps = tuple[NarrativeStep, ...]


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What memory and documents say to a sub-query; an empty answer prunes its child."""

    direct: str
    passages: tuple[str, ...] = ()
    retrieved: str | None
    """Empty also where the passages do not tell. None: to be looked up once that is needed."""


class Narrator(Protocol):
    """Whoever writes the narrative."""

    def sub_query(self, question: str, steps: Steps) -> str:
        """The next sub-query; empty when the final answer comes next."""
        ...

    def answers(self, question: str, steps: Steps, sub_query: str) -> Answers:
        """Both answers to a sub-query, which share its history and may be decoded as one batch."""
        ...

    def look_up(self, question: str, steps: Steps, sub_query: str) -> tuple[tuple[str, ...], str]:
        """The passages and the answer that `answers` has put off."""
        ...

    def final(self, question: str, steps: Steps) -> str:
        """The final answer."""
        ...


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How far a search goes."""

    max_steps: int = 6
    max_expansions: int = 32
    """Nodes that are popped."""


@dataclass(kw_only=True)
class Node:
    """A history of steps."""

    path: str
    steps: Steps
    outcome: Outcome = "open"
    sub_query: str = ""
    """What both children answer; empty in a finished node."""
    final: str = ""
    ending: Ending = ""
    popped: int = 0
    """As which node it was popped, from 1; 0: never."""

    @property
    def retrievals(self) -> int:
        return self.path.count("R")

    @property
    def is_to_be_looked_up(self) -> bool:
        """Whether the answer of its last step was put off: one that there is not would have pruned it."""
        return self.outcome == "open" and bool(self.steps) and not self.steps[-1].answer


@dataclass(kw_only=True)
class Calls:
    """What a search has cost."""

    sub_queries: int = 0
    direct_answers: int = 0
    retrievals: int = 0
    retrieved_answers: int = 0
    finals: int = 0


@dataclass(kw_only=True)
class Tree:
    """What was explored of a question."""

    question: str
    nodes: dict[str, Node] = field(default_factory=dict)
    """By path, in the order in which they were made; the root is the empty path."""
    calls: Calls = field(default_factory=Calls)
    is_cut: bool = False
    """Whether the cap on expansions ended the search."""

    @property
    def right(self) -> tuple[Node, ...]:
        """The finished nodes whose answer is right, in the order in which they were popped."""
        found = (node for node in self.nodes.values() if node.outcome == "right")
        return tuple(sorted(found, key=lambda node: node.popped))

    @property
    def cheapest(self) -> Node | None:
        """The right node with the fewest retrievals, the first of several."""
        return min(self.right, key=lambda node: (node.retrievals, node.popped), default=None)


def explore(
    question: str,
    narrator: Narrator,
    is_right: Callable[[str], bool],
    *,
    limits: Limits | None = None,
    whole: bool = False,
) -> Tree:
    """Explore a question's tree up to its first right path, or the `whole` of it within the limits."""
    limits = limits or Limits()
    tree = Tree(question=question)
    root = Node(path="", steps=())
    tree.nodes[""] = root
    queue = [(_priority(root, 0), root)]
    popped = 0
    while queue:
        if popped == limits.max_expansions:
            tree.is_cut = True
            break
        _, node = heapq.heappop(queue)
        if node.is_to_be_looked_up:
            _look_up(tree, node, narrator)
            if node.outcome == "pruned":
                continue
        popped += 1
        node.popped = popped
        for child in _expand(tree, node, narrator, is_right, limits):
            tree.nodes[child.path] = child
            if child.outcome == "open":
                heapq.heappush(queue, (_priority(child, len(tree.nodes)), child))
        if node.outcome == "right" and not whole:
            break
    return tree


def choose_path(tree: Tree, paths: Paths, *, seed: int = 0) -> Node | None:
    """The path that a question is learned by; None where nothing was right. All but `cheapest` need a whole tree."""
    right = tree.right
    if not right:
        return None
    if paths == "random":
        return random.Random(f"{seed} {tree.question}").choice(right)
    return tree.cheapest if paths == "cheapest" else max(right, key=lambda node: (node.retrievals, -node.popped))


def _priority(node: Node, made: int) -> tuple[int, ...]:
    """Lowest first; `made` differs from node to node, so nodes are never compared themselves."""
    return (node.retrievals, -len(node.path), node.path[-1:] == "R", made)


def _expand(
    tree: Tree, node: Node, narrator: Narrator, is_right: Callable[[str], bool], limits: Limits
) -> Iterator[Node]:
    """Finish a node, or ask its sub-query once and make a child of each answer."""
    sub_query = ""
    if len(node.steps) < limits.max_steps:
        tree.calls.sub_queries += 1
        sub_query = narrator.sub_query(tree.question, node.steps)
    if not sub_query or _is_repeated(sub_query, node.steps):
        if sub_query:
            node.ending = "repeated"
        else:
            node.ending = "told" if len(node.steps) < limits.max_steps else "steps_used_up"
        tree.calls.finals += 1
        node.final = narrator.final(tree.question, node.steps)
        node.outcome = "right" if is_right(node.final) else "wrong"
        return
    node.sub_query, node.outcome = sub_query, "asked"
    answers = narrator.answers(tree.question, node.steps, sub_query)
    tree.calls.direct_answers += 1
    yield _child(node, NarrativeStep(sub_query=sub_query, answer=answers.direct), is_told=bool(answers.direct))
    looked_up = NarrativeStep(sub_query=sub_query, retrieve=True)
    if answers.retrieved is None:
        yield _child(node, looked_up, is_told=True)
        return
    _count_look_up(tree.calls, answers.passages)
    looked_up = replace(looked_up, passages=answers.passages, answer=answers.retrieved)
    yield _child(node, looked_up, is_told=bool(answers.retrieved))


def _child(node: Node, step: NarrativeStep, *, is_told: bool) -> Node:
    path = node.path + ("R" if step.retrieve else "D")
    return Node(path=path, steps=(*node.steps, step), outcome="open" if is_told else "pruned")


def _look_up(tree: Tree, node: Node, narrator: Narrator) -> None:
    """Answer a node's last step from documents; without an answer it is pruned."""
    *before, last = node.steps
    passages, answer = narrator.look_up(tree.question, tuple(before), last.sub_query)
    _count_look_up(tree.calls, passages)
    node.steps = (*before, replace(last, passages=passages, answer=answer))
    node.outcome = "open" if answer else "pruned"


def _count_look_up(calls: Calls, passages: Sequence[str]) -> None:
    calls.retrievals += 1
    calls.retrieved_answers += bool(passages)


def _is_repeated(sub_query: str, steps: Steps) -> bool:
    return asked_as(sub_query) in {asked_as(step.sub_query) for step in steps}
