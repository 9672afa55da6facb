"""IRCoT's queries, exit and passages (METHODS 6.2)."""

import pytest

from adaptrag_cli.events import Candidate
from adaptrag_cli.stepwise.interleaving import (
    draws_conclusion,
    interleaved_query,
    last_statement,
    merge_chunks,
    stated_answer,
    without_question_words,
)


def chunk(chunk_id, text):
    return Candidate(
        chunk_id=chunk_id,
        document="d.md",
        location="d.md",
        title="",
        text=text,
        paths=("reasoning",),
        query_score=0.5,
        pseudo_context_score=None,
        query_angle=1.0,
        pseudo_context_angle=None,
        ais_score=None,
        rank=1,
        kept=True,
    )


@pytest.mark.parametrize(
    "sentence",
    [
        "Thus, he won.",
        "so it is",
        " Therefore X.",
        "Hence no.",
        "That is, two.",
        "He had 3 + 4 = 7 cows.",
        "1,000 - 1 = 999",
    ],
)
def test_sentences_that_only_draw_conclusions(sentence):
    assert draws_conclusion(sentence)


@pytest.mark.parametrize("sentence", ["Sonia sang.", "He is so tall.", "It has 3 + 4 cows.", "Thusnelda ran.", ""])
def test_sentences_that_state_something(sentence):
    assert not draws_conclusion(sentence)


def test_the_last_statement_is_the_query():
    text = "Ann was born in Paris. Paris lies in France. So the answer is France."
    assert last_statement(text) == "Paris lies in France."
    query = interleaved_query("Where was Ann born?", text)
    assert (query.method, query.text) == ("sentence", "Paris lies in France.")


def test_the_question_is_the_query_while_nothing_is_stated():
    for text in ("", "  \n", "So it goes. Thus it ends."):
        query = interleaved_query("Where was Ann born?", text)
        assert (query.method, query.text) == ("question", "was Ann born?")


def test_question_words_are_removed():
    assert without_question_words("Who is Ann, and what does she do When asked which island is his?") == (
        "Ann, and she do asked island his?"
    )
    assert without_question_words("What is what?") == "What is what?"


def test_reasoning_ends_where_it_states_an_answer():
    assert stated_answer("So the answer is: Paris.") == "Paris"
    assert stated_answer("So the answer is 3.5.") == "3.5"
    assert stated_answer("Her answer is unknown to us") == "unknown to us"
    assert stated_answer("The Answer is:") == ""
    assert stated_answer("Paris is the answer.") is None


SEA = "The lamp of the old tower was lit in 1843 and burned whale oil for nine years"


def test_passages_accumulate_without_repeats():
    held = (chunk("a", SEA), chunk("b", "Bread is baked daily."))
    found = [
        chunk("b", "other text"),
        chunk("c", SEA.replace("nine", "ten")),
        chunk("d", "Cod is dried."),
        chunk("e", "cod is dried"),
    ]
    assert [each.chunk_id for each in merge_chunks(held, found)] == ["a", "b", "d"]


def test_passages_are_capped():
    many = [chunk(f"c{number}", f"text number{number}") for number in range(20)]
    assert [each.chunk_id for each in merge_chunks([], many)] == [f"c{number}" for number in range(15)]
    assert merge_chunks(many[:15], many[15:]) == tuple(many[:15])
    assert [each.chunk_id for each in merge_chunks([many[0]], many, limit=2)] == ["c0", "c1"]
