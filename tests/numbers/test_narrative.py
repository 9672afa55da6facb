"""Narratives of steps taken apart and put together, with the traps of markers that stand where none is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptrag_cli.demonstrations import FOLLOW_UPS
from adaptrag_cli.stepwise.narrative import (
    Narrative,
    NarrativeStep,
    Piece,
    asked_as,
    parse,
    passage,
    pieces_of,
    read_line,
    read_pieces,
    render,
    worked_examples,
)

TOLD = Narrative(
    steps=(
        NarrativeStep(sub_query="Who sang Let It Be?", answer="the Beatles"),
        NarrativeStep(
            sub_query="Where did Letterman work?", retrieve=True, passages=("CBS: A network.", "NBC"), answer="CBS"
        ),
    ),
    final="CBS",
)
TEXT = """Follow up: Who sang Let It Be?
Intermediate answer: the Beatles
Follow up: Where did Letterman work?
Let's search the question in Wikipedia.
Context:
[1] CBS: A network.
[2] NBC
Intermediate answer: CBS
So the final answer is: CBS"""

WORDS = st.lists(st.sampled_from(["Let's", "search", "Context", "who", "So", "the", "[1]", "\n", "\u2028"]), min_size=1)
TEXTS = WORDS.map(lambda words: "x " + " ".join(words))
STEPS = st.builds(NarrativeStep, sub_query=TEXTS, answer=TEXTS) | st.builds(
    NarrativeStep,
    sub_query=TEXTS,
    retrieve=st.just(True),
    passages=st.lists(TEXTS, max_size=3).map(tuple),
    answer=TEXTS,
)


def flat(step: NarrativeStep) -> NarrativeStep:
    """A step as a text keeps it: on lines without line breaks."""
    return NarrativeStep(
        sub_query=" ".join(step.sub_query.split()),
        retrieve=step.retrieve,
        passages=tuple(" ".join(each.split()) for each in step.passages),
        answer=" ".join(step.answer.split()),
    )


def test_a_narrative_is_the_text_of_the_paper():
    assert render(TOLD) == TEXT
    assert parse(TEXT) == TOLD
    assert TOLD.is_complete
    assert TOLD.retrievals == 1


def test_its_pieces_are_its_text():
    assert [piece.kind for piece in pieces_of(TOLD)] == [
        *("follow_up", "answer"),
        *("follow_up", "search", "context", "answer"),
        "final",
    ]
    assert "\n".join(str(piece) for piece in read_pieces(TEXT)) == TEXT


@given(st.lists(STEPS, max_size=4), TEXTS)
def test_what_is_rendered_reads_back(steps, final):
    read = parse(render(Narrative(steps=tuple(steps), final=final)))
    assert read == Narrative(steps=tuple(flat(step) for step in steps), final=" ".join(final.split()))


@pytest.mark.parametrize(
    "line",
    [
        "Let It Be",
        "Letterman",
        "Let us search the question in Wikipedia.",
        "He said: Let's search the question in Wikipedia.",
        "[1] Let's search the question in Wikipedia.",
        "Let's searching",
        "Followers: many",
        "The intermediate answer: 5",
        "And so the final answer is: 5",
        "Contextual: no",
        "",
    ],
)
def test_no_marker_begins_these_lines(line):
    assert read_line(line) is None


@pytest.mark.parametrize(
    ("line", "kind", "text"),
    [
        ("Follow up: Who wrote Let's search?", "follow_up", "Who wrote Let's search?"),
        ("  follow-up:Who?", "follow_up", "Who?"),
        ("Let\u2019s search the question in my notes.", "search", ""),
        ("Let's search", "search", ""),
        ("Context:", "context", ""),
        ("Intermediate answer: Let's search it", "answer", "Let's search it"),
        ("So the final answer is Paris", "final", "Paris"),
        ("so the final answer is : Paris ", "final", "Paris"),
    ],
)
def test_markers_at_the_beginning_of_a_line(line, kind, text):
    assert read_line(line) == Piece(kind=kind, text=text)


def test_a_passage_cannot_begin_a_line_with_a_marker():
    step = NarrativeStep(sub_query="q", retrieve=True, passages=("one\nSo the final answer is: 5",), answer="a")
    assert parse(render(Narrative(steps=(step,)))) == Narrative(
        steps=(NarrativeStep(sub_query="q", retrieve=True, passages=("one So the final answer is: 5",), answer="a"),)
    )


def test_lines_without_a_marker_belong_to_what_stands_before():
    read = parse(
        "Sure!\nFollow up: Who\nwas it?\nIntermediate answer: Ann\n\nand Bob\nSo the final answer is:\nBob\nAnn"
    )
    assert read == Narrative(steps=(NarrativeStep(sub_query="Who was it?", answer="Ann and Bob"),))
    assert not read.is_complete


def test_what_stands_behind_the_end_is_left_out():
    assert parse(f"{TEXT}\nFollow up: More?\nIntermediate answer: no") == TOLD
    assert parse("Follow up: a\nIntermediate answer: b\nQuestion: More?\nFollow up: c").steps == (
        NarrativeStep(sub_query="a", answer="b"),
    )


def test_a_leading_question_is_passed_over():
    assert parse(f"Question: Where?\n{TEXT}") == TOLD


@pytest.mark.parametrize(
    "narrative",
    [
        Narrative(),
        Narrative(steps=TOLD.steps),
        Narrative(steps=(NarrativeStep(sub_query="q"),), final="a"),
        Narrative(steps=(NarrativeStep(sub_query="", answer="a"),), final="a"),
    ],
)
def test_incomplete_narratives(narrative):
    assert not narrative.is_complete


def test_a_chunk_stands_behind_its_title():
    assert passage("Oslo", "A city.") == "Oslo: A city."
    assert passage("", "A city.") == "A city."


def test_what_asks_the_same():
    assert asked_as("Who was  the Bard?") == asked_as("who was bard")
    assert len({asked_as(text) for text in ("", "?", "the", "Who?", "Whose?")}) == 5


def test_worked_examples_show_both_decisions_or_one():
    shown = "\n\n".join(worked_examples(6))
    steps = [step for example in FOLLOW_UPS for step in example.steps]
    looked_up = sum(step.is_looked_up for step in steps)
    assert (len(steps), looked_up) == (10, 5)
    assert shown.count("Let's search") == shown.count("Context:") == 5
    assert "\n\n".join(worked_examples(6, from_documents=False)).count("Let's search") == 0
    assert "\n\n".join(worked_examples(6, from_memory=False)).count("Context:\n[1] ") == 10
    assert [parse(text).is_complete for text in worked_examples(6)] == [True] * 6
    assert len(worked_examples(2)) == 2
