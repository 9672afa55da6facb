"""FLARE's trigger and masked query, and DRAGIN's reading of them, with the worked sentence of METHODS 6.1."""

import math

import pytest

from adaptrag_cli.stepwise.confidence import (
    doubt,
    first_doubtful_sentence,
    is_unsure,
    likely,
    masked_query,
    undoubted,
    unsure_terms,
)
from adaptrag_cli.stepwise.spans import find_sentences, find_words

JOE = ["Joe", " Biden", " attended", " the", " University", " of", " Pennsylvania"]
P = [0.99, 0.98, 0.9, 0.95, 0.6, 0.9, 0.2]


def terms(tokens, probabilities, beta=0.4):
    return [(t.text, t.first, t.end) for t in unsure_terms(find_words(tokens), probabilities, beta)]


def test_any_unsure_token_fires_and_the_query_leaves_the_least_likely_out():
    assert is_unsure(P, 0.8)
    query = masked_query(JOE, likely(P, 0.4))
    assert (query.method, query.text) == ("masked", "Joe Biden attended the University of")


def test_equality_fires_and_masks():
    assert is_unsure([0.9, 0.8], 0.8)
    assert not is_unsure([0.9, 0.81], 0.8)
    assert not is_unsure([0.2], 0.0)  # WikiAsp's "always" is a setting of its own: 0 never fires here
    assert likely([0.4, 0.41], 0.4) == (False, True)
    assert not is_unsure([], 0.8)


def test_dragins_flare_is_the_mean_doubt_of_a_sentence():
    # (.01 + .02 + .1 + .05 + .4 + .1 + .8) / 7
    assert doubt(P) == pytest.approx(0.21142857142857144, rel=0, abs=1e-15)
    sentences = find_sentences(find_words(JOE))
    assert first_doubtful_sentence(sentences, P, 0.1) == 0
    assert first_doubtful_sentence(sentences, P, 0.22) is None
    stays = undoubted(P, 0.1)
    assert [token if kept else "[xxx]" for token, kept in zip(JOE, stays, strict=True)] == [
        "Joe", " Biden", " attended", " the", "[xxx]", " of", "[xxx]"
    ]  # fmt: skip
    assert masked_query(JOE, stays).text == "Joe Biden attended the of"
    assert doubt([]) == 0.0


def test_the_first_doubtful_sentence():
    tokens = ["Ann", " sang", ".", " Bob", " slept", ".", " Cid", " ran", "."]
    sentences = find_sentences(find_words(tokens))
    sure, unsure = [0.99] * 3, [0.5] * 3
    assert first_doubtful_sentence(sentences, [*sure, *unsure, *unsure], 0.1) == 1
    assert first_doubtful_sentence(sentences, [*sure, *sure, *sure], 0.1) is None
    assert first_doubtful_sentence((), [], 0.1) is None


def test_a_probability_that_is_no_number_is_unsure_and_masked():
    assert is_unsure([0.99, math.nan], 0.4)
    assert likely([0.99, math.nan], 0.4) == undoubted([0.99, math.nan], 0.1) == (True, False)
    assert first_doubtful_sentence(find_sentences(find_words(["Ann", " ran"])), [0.99, math.nan], 0.4) == 0


def test_the_query_is_cut_from_the_left():
    tokens = [f" w{number}" for number in range(70)]
    assert masked_query(tokens, [True] * 70).text == " ".join(f"w{number}" for number in range(6, 70))
    assert masked_query(tokens, [True] * 70, max_tokens=2).text == "w68 w69"


def test_a_mask_in_the_middle_leaves_one_space():
    assert masked_query(["Ann", " Smith", "-", "Jones", " sang"], [True, False, False, True, True]).text == (
        "Ann Jones sang"
    )


def test_nothing_left_makes_no_query():
    assert masked_query(JOE, [False] * 7) is None
    assert masked_query(["Ann", "."], [False, True]) is None
    assert masked_query([], []) is None


def test_unsure_terms_are_whole_words_in_a_row():
    assert terms(JOE, P) == [("Pennsylvania", 6, 7)]
    assert terms([" Gay", "dam", "ak", " sang"], [0.9, 0.1, 0.9, 0.9]) == [("Gaydamak", 0, 3)]
    tokens = ["Ann", " on", " ", "2", "5", " August", ",", " sang", "."]
    assert terms(tokens, [0.9, 0.9, 0.9, 0.1, 0.9, 0.2, 0.1, 0.9, 0.1]) == [("25 August", 3, 6)]
    # White space between unsure words does not part them, a sure word does.
    assert terms(["Ann", " ", "25", " "], [0.1, 0.9, 0.1, 0.9]) == [("Ann 25", 0, 3)]
    assert terms(["Ann", " likes", " Bob"], [0.1, 0.9, 0.1]) == [("Ann", 0, 1), ("Bob", 2, 3)]


def test_function_words_and_punctuation_alone_are_no_term():
    assert terms(["Ann", " of", ",", " the", " sea"], [0.9, 0.1, 0.1, 0.1, 0.9]) == []
    assert terms([], []) == []
