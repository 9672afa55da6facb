"""Intervals and paired tests, against figures worked out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptrag_cli.evaluation import statistics
from adaptrag_cli.evaluation.statistics import (
    Paired,
    bootstrap,
    holm,
    mean_difference,
    mean_interval,
    median_and_p95,
    paired_test,
)

BINARY = st.sampled_from([0.0, 1.0])
GRADED = st.sampled_from([0.0, 0.25, 0.4, 0.5, 2 / 3, 0.8, 1.0])


def scores_of_two(score, most=9):
    return st.lists(st.tuples(score, score), min_size=1, max_size=most).map(
        lambda pairs: tuple(zip(*pairs, strict=True))
    )


# intervals


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [
        # z^2 = 3.8415. Five of ten: centre 1/2, half z sqrt(2.5 + .9604) / 13.8415 = .2634
        (5, 10, 0.2366, 0.7634),
        # None of n: the upper end is z^2 / (n + z^2), of 20 3.8415 / 23.8415; all of n is its mirror
        (0, 20, 0.0, 0.1611),
        (20, 20, 0.8389, 1.0),
        (1, 1, 0.2065, 1.0),
    ],
)
def test_shares_have_the_interval_of_wilson(right, n, low, high):
    interval = mean_interval([1.0] * right + [0.0] * (n - right))
    assert (interval.mean, interval.n) == (right / n, n)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=5e-5)
    assert (interval.low == 0.0, interval.high == 1.0) == (right == 0, right == n)


@given(st.lists(BINARY, min_size=1, max_size=60))
@settings(max_examples=60, deadline=None)
def test_shares_agree_with_scipy(values):
    from scipy.stats import binomtest

    theirs = binomtest(int(sum(values)), len(values)).proportion_ci(method="wilson")
    ours = mean_interval(values)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert 0.0 <= ours.low <= ours.mean <= ours.high <= 1.0


def test_the_interval_of_five_wins_in_ten_is_that_of_the_binomial():
    # X ~ B(10, 1/2): P(X <= 1) = 11/1024 = .011, P(X <= 2) = 56/1024 = .055, so the 2.5 % point is 2, the other 8
    interval = mean_difference([0.0, 1.0] * 5)
    assert (interval.mean, interval.low, interval.high, interval.n) == (0.5, 0.2, 0.8, 10)


def test_two_values_may_both_be_drawn_twice():
    interval = mean_interval([0.2, 0.6])  # means .2, .4, .6 with chances 1/4, 1/2, 1/4
    assert (interval.mean, interval.low, interval.high) == pytest.approx((0.4, 0.2, 0.6))


@pytest.mark.parametrize(
    ("interval_of", "values"),
    [(mean_interval, [0.1]), (mean_interval, [0.1] * 7), (mean_difference, [0.0] * 20), (mean_difference, [1.0])],
)
def test_equal_values_have_no_spread(interval_of, values):
    interval = interval_of(values)
    assert (interval.mean, interval.low, interval.high) == (values[0],) * 3
    assert interval.n == len(values)


def test_nothing_has_no_interval():
    assert mean_interval([]) is mean_difference([]) is None
    assert paired_test([], []) is None


def test_figures_are_those_of_scipy():
    from scipy.stats import bootstrap as reference

    values = np.random.default_rng(3).random(23)
    theirs = reference((values,), np.mean, n_resamples=2000, method="percentile", rng=np.random.default_rng(5))
    ours = mean_interval(values.tolist(), seed=5)
    expected = theirs.confidence_interval
    assert (ours.low, ours.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_drawing_in_parts_gives_the_same_figures(monkeypatch):
    values = np.random.default_rng(3).random(30).tolist()
    whole = mean_interval(values)
    monkeypatch.setattr(statistics, "_CELLS", 30 * 7)  # 7 resamples at once; 2,000 is no multiple
    assert mean_interval(values) == whole


def test_a_seed_draws_other_resamples():
    values = np.random.default_rng(3).random(30).tolist()
    assert mean_interval(values, seed=1) == mean_interval(values, seed=1)
    assert mean_interval(values, seed=1) != mean_interval(values, seed=2)


def ratio(above, below):
    totals = below.sum(axis=-1)
    return np.divide(above.sum(axis=-1), totals, out=np.full_like(totals, np.nan), where=totals > 0)


def test_a_ratio_of_columns_is_resampled_by_row():
    above, below = np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0])
    interval = bootstrap(ratio, above, below)
    assert (interval.mean, interval.low, interval.high, interval.n) == (0.5, 0.5, 0.5, 3)


def test_resamples_without_a_value_are_left_out():
    # Without the first row nothing is below: (1/2)^2 of the resamples. Else 1/1 or (1 + 1)/1
    interval = bootstrap(ratio, np.array([1.0, 1.0]), np.array([1.0, 0.0]))
    assert (interval.mean, interval.low, interval.high) == (2.0, 1.0, 2.0)
    assert bootstrap(ratio, np.array([1.0, 1.0]), np.array([0.0, 0.0])) is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12))
@settings(max_examples=40, deadline=None)
def test_a_bootstrap_lies_among_its_values(values):
    interval = mean_difference(values)
    slack = 1e-9 * max(1.0, *map(abs, values))
    assert min(values) - slack <= interval.low <= interval.high <= max(values) + slack
    assert min(values) - slack <= interval.mean <= max(values) + slack


# paired tests


@pytest.mark.parametrize(
    ("wins", "losses", "p_value", "verdict"),
    [
        (6, 0, 2 / 64, "better"),
        (0, 6, 2 / 64, "worse"),
        (5, 0, 2 / 32, "inconclusive"),
        (8, 2, 2 * (1 + 10 + 45) / 1024, "inconclusive"),
        (3, 3, 1.0, "inconclusive"),
        (0, 0, 1.0, "inconclusive"),
    ],
)
def test_right_and_wrong_answers_by_mcnemar(wins, losses, p_value, verdict):
    first = [1.0] * wins + [0.0] * losses + [1.0, 0.0, 0.0]
    second = [0.0] * wins + [1.0] * losses + [1.0, 0.0, 0.0]
    paired = paired_test(first, second)
    assert paired.p_value == pytest.approx(p_value)
    assert paired.verdict == verdict
    assert (paired.n, paired.wins, paired.losses, paired.ties) == (wins + losses + 3, wins, losses, 3)
    assert paired.difference == pytest.approx((wins - losses) / (wins + losses + 3))


@pytest.mark.parametrize(
    ("differences", "p_value"),
    [
        # of 8 sign patterns the observed one has the largest sum; twice that for both sides
        ([0.5, 0.25, 0.125], 2 / 8),
        # sums of at least .625: +++ and ++-
        ([0.5, 0.25, -0.125], 4 / 8),
        # sums of at least .125: four of eight, so that both sides are everything
        ([0.5, -0.25, -0.125], 1.0),
        # one difference could as well be the other way round
        ([0.5], 1.0),
        # .1 + .2 - .3 is 0, and not quite so in floating point
        ([0.1, 0.2, -0.3], 1.0),
    ],
)
def test_graded_scores_by_every_sign_pattern(differences, p_value):
    paired = paired_test(differences, [0.0] * len(differences))
    assert paired.p_value == pytest.approx(p_value)
    with_ties = paired_test([*differences, 0.5, 0.5], [*[0.0] * len(differences), 0.5, 0.5])
    assert with_ties.p_value == paired.p_value, "ties say nothing"
    assert with_ties.ties == 2


def test_graded_scores_that_never_differ():
    paired = paired_test([0.5, 0.25], [0.5, 0.25])
    assert (paired.difference, paired.low, paired.high, paired.p_value) == (0.0, 0.0, 0.0, 1.0)
    assert paired.verdict == "inconclusive"


def test_many_graded_scores_are_tested_by_random_sign_patterns():
    # 20 differences of one sign: as good as none of 10,000 patterns is as extreme, and the observed one counts
    paired = paired_test([0.5 + i / 64 for i in range(20)], [0.25] * 20)
    assert paired.p_value == pytest.approx(2 / 10_001)
    assert paired.verdict == "better"


def test_scores_of_other_questions_cannot_be_paired():
    with pytest.raises(ValueError, match="3 scores cannot be paired with 1"):
        paired_test([1.0, 0.0, 1.0], [1.0])


def mirrored(paired, other):
    assert other.difference == pytest.approx(-paired.difference)
    assert (other.low, other.high) == pytest.approx((-paired.high, -paired.low))
    assert other.p_value == pytest.approx(paired.p_value)
    assert (other.wins, other.losses, other.ties) == (paired.losses, paired.wins, paired.ties)
    turned = {"better": "worse", "worse": "better", "inconclusive": "inconclusive"}
    assert other.verdict == turned[paired.verdict]


@given(scores_of_two(BINARY, most=20) | scores_of_two(GRADED))
@settings(max_examples=60, deadline=None)
def test_laws_of_a_comparison(scores):
    first, second = scores
    paired = paired_test(first, second)
    assert 0.0 < paired.p_value <= 1.0
    assert paired.wins + paired.losses + paired.ties == paired.n == len(first)
    mirrored(paired, paired_test(second, first))
    back = paired_test(first[::-1], second[::-1])
    assert (back.p_value, back.difference) == pytest.approx((paired.p_value, paired.difference))


def test_random_sign_patterns_are_mirrored_too():
    rng = np.random.default_rng(1)
    first, second = rng.random(30).tolist(), rng.random(30).tolist()
    mirrored(paired_test(first, second), paired_test(second, first))


# several comparisons


def comparison(p_value: float) -> Paired:
    return Paired(difference=0.1, low=0.0, high=0.2, p_value=p_value, n=10, wins=1, losses=0, ties=9)


def test_holm_multiplies_the_smallest_by_the_most():
    # sorted .01, .03, .04: times 3, 2, 1 gives .03, .06, .04, and none may be below the one before
    corrected = holm([comparison(0.01), None, comparison(0.04), comparison(0.03)])
    assert corrected[1] is None
    found = [corrected[i] for i in (0, 2, 3)]
    assert [c.p_value for c in found] == pytest.approx([0.03, 0.06, 0.06])
    assert [c.comparisons for c in found] == [3, 3, 3]
    assert [c.verdict for c in found] == ["better", "inconclusive", "inconclusive"]


def test_a_corrected_chance_is_at_most_one():
    assert [c.p_value for c in holm([comparison(0.6), comparison(0.7)])] == [1.0, 1.0]
    assert [c.p_value for c in holm([comparison(0.03)])] == [0.03]
    assert holm([]) == []


def test_the_verdict_needs_less_than_five_per_cent():
    assert comparison(0.05).verdict == "inconclusive"
    assert comparison(0.0499).verdict == "better"


# seconds


def test_median_and_95th_percentile():
    assert median_and_p95([4.0, 1.0, 3.0, 2.0]) == pytest.approx((2.5, 1 + 0.95 * 3))
    assert median_and_p95([7.0]) == (7.0, 7.0)
    assert median_and_p95([]) == (0.0, 0.0)
