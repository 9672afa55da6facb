"""Short answers compared by their words: normal form, equality, containment and token F1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptrag_cli.answers import (
    concluded_answer,
    concludes,
    contains,
    contains_words,
    final_answer,
    marked_answer,
    normalise_answer,
    same_answer,
    token_f1,
)

ANSWERS = st.lists(st.sampled_from(["the", "Paris", "paris,", "France", "yes", "no", "...", "É"]), max_size=5).map(
    " ".join
)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Beatles!", "beatles"),
        ("a.k.a.", "aka"),
        ("the-end", "theend"),  # punctuation goes first, so that no article is left standing alone
        ("U.S.A.", "usa"),
        ("1,500", "1500"),
        ("An apple a day", "apple day"),
        ("Beyoncé", "beyoncé"),
        ("2–1", "2–1"),  # only ASCII punctuation goes
        ("A", ""),
        ("another theory", "another theory"),
        (" new \t line\n", "new line"),
        ("", ""),
    ],
)
def test_the_normal_form(text, normal):
    assert normalise_answer(text) == normal


def test_answers_are_the_same_in_normal_form():
    assert same_answer("The Beatles!", "beatles")
    assert not same_answer("Paris", "Paris, France")


@pytest.mark.parametrize(("first", "second"), [("", ""), ("", "A"), ("A", "A"), ("the", "an"), ("...", "!")])
def test_an_answer_without_content_equals_nothing_and_is_held_by_nothing(first, second):
    assert not same_answer(first, second)
    assert not contains(first, second)
    assert not contains("Paris", second)
    assert not contains_words("Paris", second)
    assert token_f1(first, second) == 0.0


@pytest.mark.parametrize(
    ("first", "second", "f1"),
    [
        # "capital paris france" and "paris": precision 1/3, recall 1
        ("the capital Paris France", "Paris", 0.5),
        # and "paris france": precision 2/3, recall 1
        ("the capital Paris France", "Paris, France", 0.8),
        # a word counts as often as both have it: 2 of 3, 2 of 2
        ("no no no", "no no", 0.8),
        ("Paris", "London", 0.0),
        ("Ottilie Brandt", "brandt ottilie", 1.0),
    ],
)
def test_token_f1(first, second, f1):
    assert token_f1(first, second) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("reasoning", "completion", "answer"),
    [
        ("Bern is in Switzerland. So the answer is the franc.", "", "the franc"),
        ("So the answer is: 42", "", "42"),
        ("The answer is no. But the answer is yes.", "", "no"),
        ("So the answer is Yes, they could meet.", "", "Yes"),
        ("Nothing is known.", "no: the lamp was dark", "no"),
        ("So the answer is No Country for Old Men.", "", "No Country for Old Men"),
        ("So the answer is No. 10 Downing Street.", "", "No. 10 Downing Street"),
        ("So the answer is No-Man's Land.", "", "No-Man's Land"),
        ("So the answer is yes - they could.", "", "yes"),
        ("So the answer is U.S.A.\nQuestion: next", "", "U.S.A"),
        ("So the answer is", "", ""),
        ("So the answer is", " Paris.", "Paris"),
        ("Nothing is known.", "Paris.", "Paris"),
        ("Nothing is known.", "", ""),
    ],
)
def test_what_a_chain_of_thought_concludes(reasoning, completion, answer):
    assert concluded_answer(reasoning, completion) == answer
    assert concludes(reasoning) is ("nswer is " in reasoning or "nswer is:" in reasoning)


@pytest.mark.parametrize(
    ("rationale", "completion", "answer"),
    [
        ("Bern is in Switzerland.\nAnswer: the franc.", "", "the franc"),
        (" Bern is in Switzerland. answer:  42", "", "42"),
        ("Answer: no\nAnswer: yes", "", "no"),
        ("Answer:\nyes\nno", "", "yes"),
        ("Nothing is known.", " Paris.\n", "Paris"),
        ("Nothing is known.\nAnswer:", "Paris", "Paris"),
        ("Nothing is known: I have no Answer", "", ""),
    ],
)
def test_what_stands_behind_the_marker(rationale, completion, answer):
    assert marked_answer(rationale, completion) == answer


@pytest.mark.parametrize(
    ("line", "completion", "answer"),
    [
        ("So the final answer is: the Seine.", "", "the Seine"),
        ("  so the final answer is Paris", "", "Paris"),
        ("So the final answer is:", " Paris.\nFollow up: and?", "Paris"),
        ("Follow up: So the final answer is: what?", "Paris", "Paris"),
        ("So the final answer is: .", "Paris", "Paris"),
        ("Follow up: Who?", "", ""),
    ],
)
def test_the_final_answer_of_a_narrative(line, completion, answer):
    assert final_answer(line, completion) == answer


def test_containment_is_of_characters_or_of_words():
    assert contains("I know", "no")
    assert not contains_words("I know", "no")
    assert contains_words("It was the Old Mill, in 1987.", "old mill")
    assert not contains_words("the mill is old", "old mill")
    assert contains_words("Paris", "Paris") and contains_words("Paris, France", "Paris")


@given(ANSWERS, ANSWERS)
def test_laws_of_two_answers(first, second):
    score = token_f1(first, second)
    assert 0.0 <= score <= 1.0
    assert score == token_f1(second, first)
    assert same_answer(first, second) == same_answer(second, first)
    if same_answer(first, second):
        assert score == 1.0
        assert contains_words(first, second)
    if contains_words(first, second):
        assert contains(first, second)
        assert score > 0.0
