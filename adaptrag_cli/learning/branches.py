"""An explored tree as it is drawn, in the terminal and in the interface: what each node answers and what became of it.

Texts are as the models wrote them: whoever draws them makes them printable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from adaptrag_cli.learning.tree import Node, Paths, Tree

LineKind = Literal["question", "chosen", "answer", "asks", "right", "wrong", "unfinished"]
"""What a line tells, by which it is coloured: an answer on the chosen path is `chosen`."""
CHOSEN = "*"
"""Marks the nodes of the chosen path."""


@dataclass(frozen=True, kw_only=True)
class Branch:
    """A node, and the nodes below it."""

    node: Node
    is_chosen: bool
    """Whether it lies on the path that the question is learned by."""
    children: tuple[Branch, ...] = ()

    @property
    def source(self) -> str:
        """Where the answer of its last step comes from; empty for the root."""
        return {"D": "memory", "R": "documents"}.get(self.node.path[-1:], "")

    @property
    def answer(self) -> str:
        """What its last step answers; empty where it does not, and for the root."""
        return self.node.steps[-1].answer if self.node.steps else ""

    @property
    def passages(self) -> tuple[str, ...]:
        """What its last step was answered from."""
        return self.node.steps[-1].passages if self.node.steps else ()

    @property
    def ending(self) -> str:
        """What became of it, in words; empty where it asks on."""
        node = self.node
        match node.outcome:
            case "asked":
                return ""
            case "open":
                return "not explored"
            case "pruned":
                return "no answer" if self.source == "memory" else "the documents do not tell"
            case _:
                why = {"repeated": ", after it asked the same again", "steps_used_up": ", its steps used up"}
                return f"{node.outcome}{why.get(node.ending, '')}"


def lines_of(branch: Branch, question: str) -> tuple[tuple[LineKind, str], ...]:
    """What a node answers and from where, or the question in the root; what it asks next; or how it ended."""
    node = branch.node
    lines: list[tuple[LineKind, str]] = []
    mark = f"{CHOSEN} " if branch.is_chosen else ""
    if branch.source:
        told = f": {branch.answer}" if branch.answer else ""
        lines.append(("chosen" if branch.is_chosen else "answer", f"{mark}{node.path[-1]} from {branch.source}{told}"))
    else:
        lines.append(("question", f"{mark}{question}"))
    if node.sub_query:
        lines.append(("asks", f"asks: {node.sub_query}"))
    if node.outcome in ("right", "wrong"):
        lines.append((node.outcome, f"= {node.final or '(no answer)'}  {branch.ending}"))
    elif branch.ending:
        lines.append(("unfinished", branch.ending))
    return tuple(lines)


def branches_of(tree: Tree, chosen: Node | None) -> Branch:
    """The tree from its root on, with the chosen path marked."""
    return _branch(tree, tree.nodes[""], chosen.path if chosen else None)


_WHICH: Mapping[Paths, str] = {"cheapest": "cheapest", "most": "most searching", "random": "chosen"}


def path_told(chosen: Node, paths: Paths) -> str:
    """A path that was chosen, in words: `the cheapest right path: DR, 1 look-up`."""
    count = chosen.retrievals
    told = f"{chosen.path or 'no step'}, {count} look-up{'' if count == 1 else 's'}"
    return f"the {_WHICH[paths]} right path: {told}"


def _branch(tree: Tree, node: Node, chosen: str | None) -> Branch:
    children = (tree.nodes.get(node.path + letter) for letter in "DR")
    return Branch(
        node=node,
        is_chosen=chosen is not None and chosen.startswith(node.path),
        children=tuple(_branch(tree, child, chosen) for child in children if child is not None),
    )
