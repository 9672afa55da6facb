"""Branches of one text over lanes of a model: what each lane holds, and what has to be read again."""

from __future__ import annotations

from dataclasses import dataclass, field

from adaptrag_cli.models.base import Prompt
from adaptrag_cli.models.branching import BranchingModel


@dataclass
class Lane:
    """Keeps the words that it has read last."""

    held: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    """What was not held already, a text for each prompt."""

    def generate(self, prompt: Prompt, *, max_tokens: int, stop):
        words = prompt.text.split()
        shared = next((i for i, (a, b) in enumerate(zip(self.held, words, strict=False)) if a != b), len(self.held))
        self.read.append(" ".join(words[shared:]))
        self.held = words
        return iter(())


def prompt(text: str) -> Prompt:
    return Prompt(text=text, token_ids=tuple(map(hash, text.split())))


def read(count: int, begun: str, *texts: str) -> list[list[str]]:
    """What each of so many lanes had to read of some prompts."""
    lanes = [Lane() for _ in range(count)]
    branching = BranchingModel(lanes)
    branching.begin(prompt(begun))
    for text in texts:
        branching.generate(prompt(text), max_tokens=1, stop=())
    return [lane.read for lane in lanes]


def test_a_branch_is_gone_on_with_where_its_passages_are_held():
    """Writing the second branch in the first lane would lose three passages to save reading the beginning."""
    texts = ("e q a p1 p2 p3", "e q b", "e q b c", "e q a p1 p2 p3 d")
    assert read(2, "e q", *texts) == [["e q a p1 p2 p3", "d"], ["e q b", "c"]]
    assert read(1, "e q", *texts) == [["e q a p1 p2 p3", "b", "c", "a p1 p2 p3 d"]]


def test_where_every_lane_holds_a_branch_the_least_is_read_and_lost():
    """The third branch costs two words to read in either lane, and four or one that are lost."""
    assert read(2, "e", "e a p1 p2 p3", "e b", "e c d") == [["e a p1 p2 p3"], ["e b", "c d"]]


def test_what_an_earlier_text_was_about_is_not_worth_keeping():
    """Else the passages of the second text would take the place of the fewest of the first one's."""
    lanes = [Lane(), Lane()]
    branching = BranchingModel(lanes)
    for text in ("e q1 p1 p2 p3 p4", "e q1 d", "e q2", "e q2 p5 p6", "e q2 d d d d"):
        if text == "e q2":
            branching.begin(prompt(text))
        else:
            branching.generate(prompt(text), max_tokens=1, stop=())
    assert [lane.read for lane in lanes] == [["e q1 p1 p2 p3 p4", "q2 p5 p6"], ["e q1 d", "q2 d d d d"]]
