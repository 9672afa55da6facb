"""Trajectories and preference pairs of DeepRAG."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from adaptrag_cli.errors import ConfigError
from adaptrag_cli.learning.examples import preference_of
from adaptrag_cli.learning.pairs import lacks_sentences, make_pairs
from adaptrag_cli.learning.stages import calibration_data
from adaptrag_cli.learning.trajectories import answer_only, make_trajectory, read_trajectories, write_trajectories
from adaptrag_cli.learning.tree import Answers, Limits, explore
from adaptrag_cli.stepwise.narrative import Narrative, NarrativeStep, render
from tiny_learner import FIRST_BYTE, ByteTokens

STEPS = (
    NarrativeStep(sub_query="Who sang Let It Be?", answer="the Beatles"),
    NarrativeStep(sub_query="Where are they from?", retrieve=True, passages=("Liverpool: a town",), answer="Liverpool"),
)
NARRATIVE = Narrative(steps=STEPS, final="Liverpool")


def test_everything_but_the_passages_is_learned():
    made = make_trajectory("Where is the band from?", NARRATIVE)
    assert [(segment.text, segment.train) for segment in made.segments] == [
        (
            "Follow up: Who sang Let It Be?\nIntermediate answer: the Beatles\nFollow up: Where are they from?\n"
            "Let's search the question in Wikipedia.\n",
            True,
        ),
        ("Context:\n[1] Liverpool: a town\n", False),
        ("Intermediate answer: Liverpool\nSo the final answer is: Liverpool", True),
    ]
    assert (made.path, made.retrievals) == ("DR", 1)


def test_the_answer_alone_is_learned_where_that_is_asked():
    made = answer_only(make_trajectory("q", NARRATIVE))
    assert [segment.text for segment in made.segments if segment.train] == ["So the final answer is: Liverpool"]
    assert "".join(segment.text for segment in made.segments) == made.written


def test_trajectories_are_read_as_they_were_written(tmp_path: Path):
    made = (make_trajectory("q", NARRATIVE, question_id="7"), make_trajectory("r", Narrative(final="yes")))
    write_trajectories(tmp_path / "run" / "t.jsonl", made)
    assert read_trajectories(tmp_path / "run" / "t.jsonl") == made
    with pytest.raises(ValueError, match="complete"):
        make_trajectory("q", Narrative(steps=STEPS))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"retrievals": 2}, "path 'DR' has not 2 retrievals"),
        ({"path": "RD"}, "its text tells path 'DR', not 'RD'"),
        ({"segments": [{"text": "other", "train": True}]}, "its segments are not the assistant's turn"),
        ({"segments": [{"text": render(NARRATIVE), "train": True}]}, "its passages are marked as learned"),
        ({"path": "DX"}, "Expected `str` matching regex"),
    ],
)
def test_a_line_that_contradicts_itself_is_refused(tmp_path: Path, changes: dict[str, object], reason: str):
    path = tmp_path / "t.jsonl"
    row = msgspec.to_builtins(make_trajectory("q", NARRATIVE)) | changes
    path.write_bytes(msgspec.json.encode(make_trajectory("q", NARRATIVE)) + b"\n" + msgspec.json.encode(row))
    with pytest.raises(ConfigError) as caught:
        read_trajectories(path)
    assert caught.value.message.startswith(f"{path}, line 2 is no trajectory: {reason}")


def test_a_file_in_which_nothing_was_solved_is_refused(tmp_path: Path):
    (tmp_path / "t.jsonl").write_bytes(b"\n")
    with pytest.raises(ConfigError, match="nothing was solved"):
        read_trajectories(tmp_path / "t.jsonl")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_trajectories(tmp_path / "none.jsonl")


class TwoSteps:
    def sub_query(self, question, steps):
        return "" if len(steps) == 2 else ("first?", "second?")[len(steps)]

    def answers(self, question, steps, sub_query):
        return Answers(direct="a guess", passages=("p",), retrieved="a fact")

    def final(self, question, steps):
        return "".join("R" if step.retrieve else "D" for step in steps)


def test_pairs_prefer_the_decisions_of_the_cheapest_right_path():
    tree = explore("q", TwoSteps(), {"DR", "RD", "RR"}.__contains__)
    first, second = make_pairs(tree, "path")
    assert (first.prefix, first.preferred, first.rejected) == (
        "Follow up: first?\n",
        "Intermediate answer:",
        "Let's search the question in Wikipedia.\n",
    )
    assert second.prefix == "Follow up: first?\nIntermediate answer: a guess\nFollow up: second?\n"
    assert second.prefers_retrieval and second.rejected == "Intermediate answer:"


def test_pairs_of_whole_sentences():
    tree = explore("q", TwoSteps(), {"DR"}.__contains__)
    second = make_pairs(tree, "sentence")[1]
    searched = "Let's search the question in Wikipedia.\nContext:\n[1] p\nIntermediate answer: a fact\n"
    assert (second.preferred, second.rejected) == (searched, "Intermediate answer: a guess\n")


def test_passages_of_whole_sentences_do_not_count():
    pair = make_pairs(explore("q", TwoSteps(), {"DR"}.__contains__, whole=True), "sentence")[1]
    made = preference_of(pair, ByteTokens()).fork
    counted = bytes(
        token - FIRST_BYTE
        for token, is_learned in zip(made.token_ids[made.prefix :], made.is_learned, strict=True)
        if is_learned
    )
    assert counted.decode() == (
        "Let's search the question in Wikipedia.\nIntermediate answer: a fact\n" + "Intermediate answer: a guess\n"
    )


def test_pairs_of_all_nodes():
    """Right: DR, RD, RR. At the root D is as right and cheap as R; at D only R is right; at R, D costs one less."""
    tree = explore("q", TwoSteps(), {"DR", "RD", "RR"}.__contains__, whole=True)
    assert [(pair.prefix.count("Follow up"), pair.prefers_retrieval) for pair in make_pairs(tree, "all-nodes")] == [
        (2, True),
        (2, False),
    ]


def test_a_node_that_a_cap_left_undecided_gives_no_pair():
    """The cap comes behind root, D, DD and DR: R is open, and may be right at no greater cost. D is decided."""
    limits = Limits(max_steps=2, max_expansions=4)
    tree = explore("q", TwoSteps(), {"DR", "RD", "RR"}.__contains__, whole=True, limits=limits)
    assert tree.is_cut and [node.path for node in tree.right] == ["DR"]
    (pair,) = make_pairs(tree, "all-nodes")
    assert (pair.prefix.count("Follow up"), pair.prefers_retrieval) == (2, True)


def test_an_answer_that_was_put_off_is_no_sentence():
    """DD is right, so nothing was looked up: the decisions are told apart, but not what would have been read."""

    class Later(TwoSteps):
        def answers(self, question, steps, sub_query):
            return Answers(direct="a guess", retrieved=None)

        def look_up(self, question, steps, sub_query):
            return ("p",), "a fact"

    tree = explore("q", Later(), {"DD"}.__contains__)
    assert len(make_pairs(tree, "path")) == 2
    assert make_pairs(tree, "sentence") == ()
    assert lacks_sentences(tree)
    with pytest.raises(ConfigError, match="--pairs sentence needs whole trees, and these lack answers") as refused:
        calibration_data([tree], (), ByteTokens(), seed=0, whole=False, pairs="sentence")
    assert refused.value.hint == "synthesize with --whole, or take --pairs path"

    whole = explore("q", Later(), {"DD"}.__contains__, whole=True)
    assert not lacks_sentences(whole)
    assert [pair.prefers_retrieval for pair in make_pairs(whole, "sentence")] == [False, False]


def test_a_right_path_that_looks_everything_up_lacks_no_sentence():
    assert not lacks_sentences(explore("q", TwoSteps(), {"RR"}.__contains__))
    assert not lacks_sentences(explore("q", TwoSteps(), lambda _: False))


@pytest.mark.parametrize("pairs", ["path", "all-nodes", "sentence"])
def test_a_question_that_nothing_solved_gives_no_pair(pairs: str):
    assert make_pairs(explore("q", TwoSteps(), lambda _: False), pairs) == ()
