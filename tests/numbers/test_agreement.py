"""Whether two answers from memory agree: four rules, and answers without content."""

import pytest

from adaptrag_cli.agreement import agree
from adaptrag_cli.config import AGREEMENT_RULES


def test_equal_when_normalised():
    agreement = agree("exact", "The Beatles!", "beatles", 0.8)
    assert (agreement.value, agreement.limit, agreement.agree) == (1.0, 1.0, True)
    assert agreement.reason == "both answers from memory are the same"
    assert agree("exact", "1,500", "1500", 0.8).agree
    assert agree("exact", "U.S.A.", "USA", 0.8).agree


def test_different_answers():
    agreement = agree("exact", "Paris", "Paris, France", 0.8)
    assert (agreement.value, agreement.limit, agreement.agree) == (0.0, 1.0, False)
    assert agreement.reason == "the two answers from memory differ"


@pytest.mark.parametrize("rule", AGREEMENT_RULES)
@pytest.mark.parametrize(
    ("first", "second"), [("", ""), ("A", "A"), ("the", "The"), ("...", "..."), (" \n", "Paris"), ("Paris", "")]
)
def test_answers_without_content_never_agree(rule, first, second):
    agreement = agree(rule, first, second, 0.0, similarity=1.0)  # even at a limit of 0
    assert (agreement.value, agreement.agree) == (0.0, False)
    assert agreement.reason == "an answer from memory is empty"


def test_containment_looks_both_ways():
    assert agree("containment", "Paris", "the city of Paris", 0.8).agree
    assert agree("containment", "the city of Paris", "Paris", 0.8).agree
    apart = agree("containment", "Paris", "London", 0.8)
    assert (apart.value, apart.limit, apart.agree) == (0.0, 1.0, False)


def test_containment_is_of_whole_words():
    assert not agree("containment", "no", "I know", 0.8).agree
    assert not agree("containment", "9", "1987", 0.8).agree


@pytest.mark.parametrize(
    ("first", "second", "value", "agrees"),
    [
        ("Ottilie Brandt", "brandt ottilie", 1.0, True),
        # "frank lloyd wright" against "lloyd wright": precision 2/3, recall 1, F1 = .8: the limit itself agrees
        ("Frank Lloyd Wright", "Lloyd Wright", 0.8, True),
        # "city paris" against "paris": 2 * (1/2 * 1) / (3/2) = 2/3
        ("city Paris", "Paris", 2 / 3, False),
        ("Paris", "London", 0.0, False),
    ],
)
def test_token_f1_from_the_limit_on(first, second, value, agrees):
    agreement = agree("f1", first, second, 0.8)
    assert agreement.value == pytest.approx(value)
    assert (agreement.limit, agreement.agree) == (0.8, agrees)
    assert agreement.reason == f"token F1 of the two answers from memory: {value:.2f} {'>=' if agrees else '<'} 0.80"


@pytest.mark.parametrize(
    ("similarity", "agrees"), [(1.0000001, True), (0.9, True), (0.8, True), (0.79, False), (-0.2, False)]
)
def test_cosine_from_the_limit_on(similarity, agrees):
    agreement = agree("cosine", "Paris", "the French capital", 0.8, similarity)
    assert agreement.value == min(similarity, 1.0)
    assert (agreement.limit, agreement.agree) == (0.8, agrees)


def test_equal_unit_vectors_agree_at_the_highest_limit():
    # The product of two equal float32 unit vectors may be .99999994.
    assert agree("cosine", "Paris", "Paris", 1.0, 0.99999994).agree


def test_a_cosine_that_is_not_there_is_none():
    assert not agree("cosine", "Paris", "Paris", 0.8, None).agree
