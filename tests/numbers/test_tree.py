"""Algorithm 1 of DeepRAG on trees small enough to search by hand (METHODS 9.3)."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from adaptrag_cli.learning.tree import Answers, Limits, choose_path, explore


class Told:
    """A narrator whose paths end where they are told to; every answer is the letter of its step."""

    def __init__(self, terminal: set[str], empty: set[str] = frozenset(), says: dict[str, str] | None = None) -> None:
        self.terminal, self.empty, self.says = terminal, empty, says or {}
        self.asked: list[str] = []

    def path(self, steps) -> str:
        return "".join("R" if step.retrieve else "D" for step in steps)

    def sub_query(self, question, steps) -> str:
        path = self.path(steps)
        self.asked.append(path)
        return "" if path in self.terminal else self.says.get(path, f"what after {path or 'nothing'}?")

    def answers(self, question, steps, sub_query) -> Answers:
        path = self.path(steps)
        return Answers(
            direct="" if f"{path}D" in self.empty else "direct",
            passages=() if f"{path}R" in self.empty else ("passage",),
            retrieved="" if f"{path}R" in self.empty else "retrieved",
        )

    def final(self, question, steps) -> str:
        return self.path(steps)


TWO_STEPS = {"DD", "DR", "RD", "RR"}


def test_two_steps_of_which_one_must_be_looked_up():
    """DD is wrong, all else right: sub-queries, direct answers, retrievals, retrieved answers, finals."""
    narrator = Told(TWO_STEPS)
    tree = explore("q", narrator, {"DR", "RD", "RR"}.__contains__)
    assert narrator.asked == ["", "D", "DD", "DR"]
    assert tree.cheapest is not None
    assert (tree.cheapest.path, tree.cheapest.retrievals, tree.cheapest.popped) == ("DR", 1, 4)
    assert astuple(tree.calls) == (4, 2, 2, 2, 2)
    assert [step.retrieve for step in tree.cheapest.steps] == [False, True]


def test_a_longer_path_without_retrieval_is_cheaper_than_a_short_one():
    """Counting steps, as the released code does, gives R with one retrieval."""
    tree = explore("q", Told({"R", "DR", "DDD", "DDR"}), {"R", "DDD"}.__contains__)
    assert tree.cheapest is not None
    assert (tree.cheapest.path, tree.cheapest.retrievals) == ("DDD", 0)


def test_both_answers_of_a_step_share_its_sub_query():
    tree = explore("q", Told(TWO_STEPS), lambda _: False)
    assert {len({tree.nodes[p + letter].steps[-1].sub_query for letter in "DR"}) for p in ("", "D", "R")} == {1}
    assert [node.outcome for node in tree.nodes.values() if len(node.path) == 2] == ["wrong"] * 4
    assert tree.cheapest is None and choose_path(tree, "most") is None


def test_which_right_path_is_learned():
    tree = explore("q", Told(TWO_STEPS), {"DR", "RD", "RR"}.__contains__, whole=True)
    assert [node.path for node in tree.right] == ["DR", "RD", "RR"]
    assert [choose_path(tree, paths).path for paths in ("cheapest", "most")] == ["DR", "RR"]
    assert {choose_path(tree, "random", seed=seed).path for seed in range(40)} == {"DR", "RD", "RR"}
    assert choose_path(tree, "random", seed=3) is choose_path(tree, "random", seed=3)


def test_a_path_that_never_ends_is_finished_at_the_greatest_length():
    narrator = Told(set())
    tree = explore("q", narrator, lambda _: False, limits=Limits(max_steps=2))
    assert sorted(node.path for node in tree.nodes.values() if node.outcome == "wrong") == ["DD", "DR", "RD", "RR"]
    assert narrator.asked == ["", "D", "R"]
    assert not tree.is_cut


def test_expansions_are_capped():
    tree = explore("q", Told(set()), lambda _: False, limits=Limits(max_steps=9, max_expansions=4))
    assert tree.is_cut
    assert [node.path for node in tree.nodes.values() if node.popped] == ["", "D", "DD", "DDD"]


@pytest.mark.parametrize("again", [" who  is IT?", "Who is the it"])
def test_a_repeated_sub_query_finishes_its_path(again: str):
    tree = explore("q", Told({"R"}, says={"": "Who is it?", "D": again}), {"D"}.__contains__)
    assert (tree.nodes["D"].outcome, tree.nodes["D"].sub_query) == ("right", "")


def test_a_step_without_an_answer_is_pruned():
    tree = explore("q", Told({"D", "R"}, empty={"D", "R"}), lambda _: True)
    assert [(node.path, node.outcome) for node in tree.nodes.values()] == [
        ("", "asked"),
        ("D", "pruned"),
        ("R", "pruned"),
    ]
    assert astuple(tree.calls) == (1, 1, 1, 0, 0)


class PuttingOff(Told):
    """Reads documents only when it is asked to."""

    def answers(self, question, steps, sub_query) -> Answers:
        return Answers(direct=super().answers(question, steps, sub_query).direct, retrieved=None)

    def look_up(self, question, steps, sub_query):
        answers = super().answers(question, steps, sub_query)
        return answers.passages, answers.retrieved


def test_what_is_put_off_is_looked_up_where_its_node_is_popped():
    """The same path as above, without what the documents say at the root."""
    tree = explore("q", PuttingOff(TWO_STEPS), {"DR", "RD", "RR"}.__contains__)
    assert tree.cheapest is not None and tree.cheapest.path == "DR"
    assert (tree.cheapest.steps[-1].passages, tree.cheapest.steps[-1].answer) == (("passage",), "retrieved")
    assert astuple(tree.calls) == (4, 2, 1, 1, 2)
    assert tree.nodes["R"].outcome == "open" and tree.nodes["R"].steps[-1].answer == ""


@pytest.mark.parametrize("right", [set(), {"DD"}, {"RR"}, {"DR", "RD"}, {"DD", "R"}])
@pytest.mark.parametrize("empty", [set(), {"R"}, {"DR", "RR"}, {"D"}])
def test_putting_off_changes_no_node_that_is_popped(right: set[str], empty: set[str]):
    for whole in (False, True):
        at_once, later = (
            explore("q", narrator(TWO_STEPS, empty), right.__contains__, whole=whole) for narrator in (Told, PuttingOff)
        )
        popped = [{path: node for path, node in each.nodes.items() if node.popped} for each in (at_once, later)]
        assert popped[0] == popped[1]
        assert later.calls.retrievals <= at_once.calls.retrievals
        assert not whole or later.nodes == at_once.nodes


def test_what_turns_out_to_be_unanswered_is_pruned_and_is_no_expansion():
    tree = explore("q", PuttingOff({"D"}, empty={"R"}), lambda _: False, limits=Limits(max_expansions=3))
    assert (tree.nodes["R"].outcome, tree.nodes["R"].popped) == ("pruned", 0)
    assert astuple(tree.calls) == (2, 1, 1, 0, 1) and not tree.is_cut
    tree = explore("q", PuttingOff({"D"}, empty={"R"}), lambda _: False, limits=Limits(max_expansions=2))
    assert tree.nodes["R"].outcome == "open"
    assert astuple(tree.calls) == (2, 1, 0, 0, 1) and tree.is_cut
