"""Tokens to words and sentences, and which words carry content (METHODS 1.1, 4.2)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptrag_cli.stepwise.content import FUNCTION_WORDS, content_words, is_content
from adaptrag_cli.stepwise.spans import bare, find_sentences, find_words, pooled

BORN = ["Dyson", " Par", "ody", " was", " born", " on", " ", "2", "5", " August", ".", " He", " sang", "."]


def texts(tokens, rule="etc"):
    return [word.text for word in find_words(tokens, rule=rule)]


def test_words_begin_at_spaces_and_beside_punctuation():
    assert texts(BORN) == [
        "Dyson", " Parody", " was", " born", " on", " ", "25", " August", ".", " He", " sang", "."
    ]  # fmt: skip
    assert [word.first for word in find_words(BORN)] == [0, 1, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13]


def test_dragins_words_begin_at_spaces_and_line_breaks_alone():
    assert texts(BORN, "dragin") == [
        "Dyson", " Parody", " was", " born", " on", " 25", " August.", " He", " sang."
    ]  # fmt: skip
    assert texts(["So", ".", "\n", "Yes", "-", "no"], "dragin") == ["So.", "\nYes-no"]
    assert texts(["So", ".", "\n", "Yes", "-", "no"]) == ["So", ".", "\n", "Yes", "-", "no"]


def test_a_token_without_text_belongs_to_the_word_before_it():
    assert texts([" caf", "", "é", " x"]) == [" café", " x"]
    assert texts([" ", "", "東", "京"]) == [" ", "東京"]
    # A mark that completes a letter is no punctuation.
    assert texts([" cafe", "\u0301", "s"]) == [" cafe\u0301s"]


def test_nothing_has_no_words_and_no_sentences():
    assert find_words([]) == ()
    assert find_sentences(()) == ()
    assert [(word.text, word.is_content, word.sentence) for word in find_words(["", ""])] == [("", False, 0)]


def test_sentences_consist_of_whole_words():
    words = find_words(BORN)
    first, second = find_sentences(words)
    assert (first.text, first.first, first.end) == ("Dyson Parody was born on 25 August.", 0, 11)
    assert (first.first_word, first.end_word) == (0, 9)
    # The space between them is the beginning of the second's first word.
    assert (second.text, second.first, second.end) == (" He sang.", 11, 14)
    assert [word.sentence for word in words] == [0] * 9 + [1] * 3


def test_initials_stay_in_their_sentence_and_empty_lines_make_none():
    tokens = [" Dr", ".", " J", ".", " R", ".", " Smith", " wrote", ".", "\n\n", "He", " slept", "."]
    sentences = find_sentences(find_words(tokens))
    assert [sentence.text for sentence in sentences] == [" Dr. J. R. Smith wrote.\n\n", "He slept."]


def test_a_word_over_the_end_of_a_sentence_belongs_to_the_first():
    tokens = ["He", " slept", ".\n", "Then", " he", " woke", "."]
    words = find_words(tokens, rule="dragin")
    assert [word.text for word in words] == ["He", " slept.\nThen", " he", " woke."]
    assert [word.sentence for word in words] == [0, 0, 1, 1]


def test_the_entropy_of_a_word_from_its_tokens():
    words = find_words([" Par", "ody", " was"])
    assert pooled(words, [0.5, 1.5, 0.25], "max") == (1.5, 0.25)
    assert pooled(words, [0.5, 1.5, 0.25], "mean") == (1.0, 0.25)
    assert pooled(words, [0.5, 1.5, 0.25], "sum") == (2.0, 0.25)
    for pooling in ("max", "mean", "sum"):
        for broken in ([1.5, math.nan, 0.25], [math.nan, 1.5, 0.25]):
            first, second = pooled(words, broken, pooling)
            assert math.isnan(first)
            assert second == 0.25


def test_content_words_of_the_worked_example():
    words = find_words(["Dyson", " Parody", " was", " born", " on", " 25", " August"])
    assert [word.is_content for word in words] == [True, True, False, True, False, True, True]


@pytest.mark.parametrize(
    "text",
    [
        " 25",
        "1,500",
        "one",
        " two",
        "(born",
        " Saint-Malo",
        "O'Brien",
        " Watson's",
        " US",
        " IT",
        " J",
        " May",
        " Will",
        "é",
    ],
)
def test_numbers_names_and_plain_words_are_content(text):
    assert is_content(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        ".",
        "—",
        " the",
        "The",
        "I",
        " A",
        "didn't",
        " can’t",
        "won't",
        "they've",
        "I'm",
        "it's",
        "s",
        "ll",
        " may",
        "However,",
    ],
)
def test_function_words_and_punctuation_are_not(text):
    assert not is_content(text)


def test_a_capital_at_the_beginning_of_a_sentence_makes_no_name():
    assert not is_content("May", begins_sentence=True)
    words = find_words(['"', "May", " I", "?", " In", " May", "."])
    assert [word.text for word in words if word.is_content] == [" May"]
    assert content_words("Will Ann marry in May? Will she?") == ["Ann", "marry", "May"]


def test_the_list_is_folded():
    assert all(word == word.casefold() for word in FUNCTION_WORDS)


def test_a_word_is_bared_of_what_stands_around_it():
    assert bare(' "(1959).\n') == "1959"
    assert bare(" Saint-Malo,") == "Saint-Malo"
    assert bare(" ...") == ""


PIECES = st.lists(
    st.sampled_from(
        ["", " ", "a", " The", "Paris", ".", " Then", "\n", "’s", "—", " 1", "9", "é", "! ", " U.S.", "\n\n"]
    )
    | st.text(max_size=4),
    max_size=30,
)


@given(PIECES, st.sampled_from(["etc", "dragin"]))
def test_words_and_sentences_join_to_the_text_and_lie_on_tokens(tokens, rule):
    words = find_words(tokens, rule=rule)
    sentences = find_sentences(words)
    for spans in (words, sentences):
        assert "".join(span.text for span in spans) == "".join(tokens)
        ends = [0, *(span.end for span in spans)]
        assert [span.first for span in spans] == ends[:-1]
        assert ends[-1] == len(tokens)
        assert all(span.text == "".join(tokens[span.first : span.end]) for span in spans)
    numbers = [word.sentence for word in words]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(len(sentences)))


@given(PIECES)
def test_dragins_words_are_made_of_etcs(tokens):
    assert {word.first for word in find_words(tokens, rule="dragin")} <= {word.first for word in find_words(tokens)}
