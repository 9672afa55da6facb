"""Scores of answers, retrievals and decisions, against figures worked out by hand (METHODS 7 and 9.7)."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptrag_cli.evaluation.metrics import (
    all_gold_at_k,
    answer_in_text,
    consistency,
    contains_gold,
    decision_quality,
    exact_match,
    f1,
    f1_first_gold,
    recall_at_k,
)

PARIS = ("the capital Paris France", ["Paris", "Paris, France"])
ANSWERS = st.lists(st.sampled_from(["the", "Paris", "France", "yes", "no", "noanswer", "...", "A"]), max_size=4).map(
    " ".join
)


# answers


def test_an_answer_with_words_around_the_gold_one():
    assert f1(*PARIS) == pytest.approx(0.8)  # .5 against "Paris", .8 against "Paris, France"
    assert f1_first_gold(*PARIS) == pytest.approx(0.5)
    assert not exact_match(*PARIS)
    assert contains_gold(*PARIS)


def test_an_alias_counts_in_full_except_against_the_first_gold_answer():
    prediction, golds = "JFK", ["John F. Kennedy", "JFK"]
    assert exact_match(prediction, golds)
    assert f1(prediction, golds) == 1.0
    assert f1_first_gold(prediction, golds) == 0.0


@pytest.mark.parametrize(
    ("prediction", "gold", "expected"),
    [
        ("yes", "yes it is", 0.0),
        ("yes it is", "yes", 0.0),
        ("no", "yes", 0.0),
        ("No answer", "noanswer", 0.0),
        ("Yes.", "yes", 1.0),
        ("yes it is", "yes it was", 2 / 3),  # neither side is closed
    ],
)
def test_yes_and_no_get_no_partial_credit(prediction, gold, expected):
    assert f1(prediction, [gold]) == pytest.approx(expected)


def test_the_rule_for_yes_holds_for_each_gold_answer_by_itself():
    assert f1("yes it is", ["yes", "yes it is so"]) == pytest.approx(6 / 7)


@pytest.mark.parametrize("prediction", ["", "  ", "A", "the", "..."])
def test_an_empty_prediction_is_never_right(prediction):
    golds = ["A", "", "Paris"]
    assert not exact_match(prediction, golds)
    assert f1(prediction, golds) == 0.0
    assert not contains_gold(prediction, golds)


@pytest.mark.parametrize("score", [exact_match, f1, f1_first_gold, contains_gold])
def test_a_question_without_gold_answers_is_a_mistake_of_the_caller(score):
    with pytest.raises(ValueError, match="without gold answers"):
        score("Paris", [])


@given(ANSWERS, st.lists(ANSWERS, min_size=1, max_size=3))
def test_laws_of_scores(prediction, golds):
    best = f1(prediction, golds)
    assert 0.0 <= f1_first_gold(prediction, golds) <= best <= 1.0
    assert exact_match(prediction, golds) <= best
    assert exact_match(prediction, golds) <= contains_gold(prediction, golds)
    assert best == f1(prediction, golds[::-1])
    assert best == max(f1(prediction, [gold]) for gold in golds)


# retrieval


def test_one_of_two_gold_documents_is_half_the_recall():
    assert recall_at_k(["A", "C", "D"], ["A", "B"]) == 0.5
    assert all_gold_at_k(["A", "C", "D"], ["A", "B"]) is False
    assert all_gold_at_k(["B", "C", "A"], ["A", "B"]) is True


def test_a_document_counts_once():
    assert recall_at_k(["A", "A"], ["A", "B", "B"]) == 0.5


def test_nothing_consulted_finds_nothing_and_nothing_gold_has_no_recall():
    assert recall_at_k([], ["A"]) == 0.0
    assert recall_at_k(["A"], []) is None
    assert all_gold_at_k(["A"], []) is None
    assert recall_at_k(["A"], [], [[], []]) is None


def test_of_several_evidence_sets_the_best_covered_counts():
    sets = [["A", "B", "C"], ["A", "D"], []]
    assert recall_at_k(["A", "B"], [], sets) == pytest.approx(2 / 3)
    assert all_gold_at_k(["A", "B"], [], sets) is False
    assert recall_at_k(["D", "A"], [], sets) == 1.0
    assert all_gold_at_k(["D", "A"], [], sets) is True


def test_without_gold_documents_a_text_must_hold_an_answer_as_words():
    texts = ["It is known since 1987.", "The Old Mill, by the river."]
    assert answer_in_text(texts, ["no such", "old mill"])
    assert not answer_in_text(texts, ["no", "198"])
    assert not answer_in_text(texts, ["A"])
    assert not answer_in_text([], ["old mill"])


# decisions


def test_consistency_is_of_the_drafts_that_were_right():
    assert consistency([True, True, True, False], [True, False, True, True]) == pytest.approx(2 / 3)
    assert consistency([False], [True]) is None
    assert consistency([], []) is None


def decide(answerable: str, retrieved: str, uncertainty=None):
    """Each letter a question: `+` for yes, `-` for no."""
    return decision_quality(
        answerable=[letter == "+" for letter in answerable],
        retrieved=[letter == "+" for letter in retrieved],
        uncertainty=uncertainty if uncertainty is not None else [None] * len(answerable),
    )


def test_a_method_that_always_retrieves_knows_nothing():
    quality = decide("+" * 282 + "-" * 718, "+" * 1000)
    assert (quality.n, quality.answerable, quality.f1, quality.mcc) == (1000, 0.282, 0.0, 0.0)
    assert (quality.accuracy, quality.balanced_accuracy) == (0.718, 0.5)
    assert quality.auroc is None
    assert "auroc" not in quality.intervals


def test_a_method_that_never_retrieves():
    quality = decide("+---", "----")
    assert quality.f1 == pytest.approx(0.4)  # 2 / (2 + 3 + 0)
    assert (quality.accuracy, quality.balanced_accuracy, quality.mcc) == (0.25, 0.5, 0.0)


def test_decisions_of_both_kinds():
    # right drafts: 1 kept, 2 looked up; wrong drafts: 3 looked up. tp 1, fn 2, fp 0, tn 3
    quality = decide("+++---", "-+++++")
    assert quality.f1 == pytest.approx(0.5)  # 2 / (2 + 0 + 2)
    assert quality.accuracy == pytest.approx(4 / 6)
    assert quality.balanced_accuracy == pytest.approx((1 / 3 + 1) / 2)
    assert quality.mcc == pytest.approx(3 / math.sqrt(1 * 3 * 3 * 5))


def test_decisions_that_are_all_wrong():
    quality = decide("+-", "+-")
    assert (quality.f1, quality.accuracy, quality.balanced_accuracy, quality.mcc) == (0.0, 0.0, 0.0, -1.0)


def test_drafts_of_one_kind_have_no_other_to_balance():
    quality = decide("+++", "-+-", [0.1, 0.9, 0.2])
    assert quality.balanced_accuracy == pytest.approx(2 / 3)
    assert (quality.mcc, quality.auroc) == (0.0, None)


def test_auroc_counts_a_tie_as_half():
    # right .1 .5, wrong .5 .9: the pairs are won, won, tied, won
    assert decide("++--", "++++", [0.1, 0.5, 0.5, 0.9]).auroc == pytest.approx(3.5 / 4)


def test_an_undefined_uncertainty_is_the_largest():
    assert decide("+-", "++", [0.9, None]).auroc == 1.0
    assert decide("+-", "++", [None, 3.0]).auroc == 0.0
    assert decide("++--", "++++", [0.1, None, None, 0.2]).auroc == pytest.approx(2.5 / 4)


def test_no_decisions():
    assert decide("", "") is None
    with pytest.raises(ValueError, match="same questions"):
        decide("+-", "+-", [0.1])


def test_every_measure_has_an_interval_around_it():
    quality = decide("++++----", "---++++-", [0.1, 0.2, 0.6, 0.4, 0.5, 0.7, 0.8, 0.3])
    assert set(quality.intervals) == {"f1", "accuracy", "balanced_accuracy", "mcc", "auroc"}
    for name, interval in quality.intervals.items():
        assert interval.mean == getattr(quality, name)
        assert interval.low < interval.mean < interval.high
        assert interval.n == 8


def test_resamples_with_drafts_of_one_kind_do_not_count_for_auroc():
    interval = decide("+-", "++", [0.1, 0.9]).intervals["auroc"]  # half of the resamples
    assert (interval.mean, interval.low, interval.high) == (1.0, 1.0, 1.0)


QUESTIONS = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.sampled_from([None, 0.0, 0.25, 0.5, 2.0])), min_size=1, max_size=12
)


@given(QUESTIONS, st.randoms())
@settings(max_examples=40, deadline=None)
def test_laws_of_decisions(questions, random):
    right, retrieved, uncertainty = zip(*questions, strict=True)
    quality = decision_quality(answerable=right, retrieved=retrieved, uncertainty=uncertainty)
    tried = [math.inf if u is None else u for u in uncertainty]
    pairs = [(a, b) for a, r in zip(tried, right, strict=True) if r for b, w in zip(tried, right, strict=True) if not w]
    if pairs and any(u is not None for u in uncertainty):
        assert quality.auroc == pytest.approx(sum((a < b) + 0.5 * (a == b) for a, b in pairs) / len(pairs))
    else:
        assert quality.auroc is None
    assert 0.0 <= quality.f1 <= 1.0
    assert -1.0 <= quality.mcc <= 1.0
    shuffled = random.sample(questions, len(questions))
    a, b, c = zip(*shuffled, strict=True)
    again = decision_quality(answerable=a, retrieved=b, uncertainty=c)
    names = ("f1", "accuracy", "balanced_accuracy", "mcc", "auroc")
    assert [getattr(again, name) for name in names] == pytest.approx([getattr(quality, name) for name in names])


def test_the_measures_are_those_of_scikit_learn():
    from sklearn import metrics

    rng = np.random.default_rng(7)
    right, skipped = rng.random(60) < 0.4, rng.random(60) < 0.3
    uncertainty = rng.integers(0, 6, 60) / 4 - 0.5 * right
    quality = decision_quality(
        answerable=right.tolist(), retrieved=(~skipped).tolist(), uncertainty=uncertainty.tolist()
    )
    assert quality.f1 == pytest.approx(metrics.f1_score(right, skipped))
    assert quality.accuracy == pytest.approx(metrics.accuracy_score(right, skipped))
    assert quality.balanced_accuracy == pytest.approx(metrics.balanced_accuracy_score(right, skipped))
    assert quality.mcc == pytest.approx(metrics.matthews_corrcoef(right, skipped))
    assert quality.auroc == pytest.approx(metrics.roc_auc_score(right, -uncertainty))
