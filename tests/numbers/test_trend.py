"""ETC's trend of entropies, with the worked tables of METHODS 4.8."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptrag_cli.stepwise.firing import attention_paid, exceeds, first_trigger, reaches, sentence_normalised
from adaptrag_cli.stepwise.spans import find_words
from adaptrag_cli.stepwise.trend import measure_trend, watch_trend

SMOOTHINGS = ["code", "literal", "normalised", "fixed", "none"]
H = [0.2, 0.5, 1.4, 0.9, 2.5, 2.4]
SMOOTHED = {
    # d2H = .6, -1.4, 2.1, -1.7; E = .6, -.4, .433333, -.1; w = 1, .5, .523810, .578947
    "literal": [0.6, -0.1, 0.4, 0.11578947368421044],
    "normalised": [0.6, -0.4, 0.43333333333333346, -0.1],
    "code": [0.6, -1.3, 1.9333333333333333, -1.54],
    "fixed": [0.54, -1.2, 1.75, -1.32],
    "none": [0.6, -1.4, 2.1, -1.7],
}
DYSON = ["Dyson", " Parody", " was", " born", " on", " 25", " August"]
DYSON_ENTROPIES = [1.2, 0.3, 0.1, 0.5, 0.2, 2.0, 0.4]


def near(values):
    return pytest.approx(values, rel=0, abs=1e-14)


def column(points, name):
    return [getattr(point, name) for point in points if getattr(point, name) is not None]


def test_differences_expectation_and_weight():
    points = measure_trend(H)
    assert [point.entropy for point in points] == H
    assert column(points, "first_difference") == near([0.3, 0.9, -0.5, 1.6, -0.1])
    assert column(points, "second_difference") == near([0.6, -1.4, 2.1, -1.7])
    assert column(points, "expectation") == near([0.6, -0.4, 0.43333333333333335, -0.1])
    assert column(points, "weight") == near([1.0, 0.5, 0.5238095238095238, 0.5789473684210527])
    # The first two words have no second difference, and nothing that could fire.
    assert [point.smoothed is None for point in points] == [True, True, False, False, False, False]
    assert points[0].first_difference is None
    assert points[1].second_difference is None


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_every_smoothing(smoothing):
    points = measure_trend(H, smoothing=smoothing)
    assert [point.smoothed for point in points[2:]] == near(SMOOTHED[smoothing])


def fired_at(values, rule):
    """t of the first firing value, for alpha = 1."""
    return next((t for t, value in enumerate(values, start=1) if rule(value, 1.0)), None)


def test_what_fires_at_one():
    assert fired_at(SMOOTHED["literal"], reaches) is None
    assert fired_at(SMOOTHED["normalised"], reaches) is None
    assert fired_at(SMOOTHED["code"], reaches) == 2
    assert fired_at(SMOOTHED["code"], exceeds) == 3


def test_equality_fires_in_the_paper_and_not_in_the_code():
    assert reaches(1.0, 1.0)
    assert reaches(-1.0, 1.0)
    assert not exceeds(1.0, 1.0)
    assert not exceeds(-2.0, 1.0)
    for broken in (math.nan, math.inf, -math.inf):
        assert reaches(broken, 1.0)
        assert exceeds(broken, 1.0)


def test_the_worked_sentence():
    watched = watch_trend(find_words(DYSON), DYSON_ENTROPIES, 1.2)
    assert [each.word for each in watched] == [0, 1, 3, 5, 6]
    assert [each.first_difference for each in watched[1:]] == near([-0.9, 0.2, 1.5, -1.6])
    assert [each.second_difference for each in watched[2:]] == near([1.1, 1.3, -3.1])
    assert [each.value for each in watched[2:]] == near([1.1, 1.29, -2.8133333333333335])
    # |m| >= 1.2: at "25", and at "August" as well.
    assert [each.fires for each in watched] == [False, False, False, True, True]
    trigger = first_trigger(watched)
    assert trigger is not None
    assert (trigger.word, trigger.sentence, trigger.hits) == (5, 0, (5, 6))
    words = find_words(DYSON)
    assert "".join(DYSON[: words[trigger.word].first]) == "Dyson Parody was born on"


@pytest.mark.parametrize(
    ("smoothing", "values"),
    [
        ("literal", [1.1, 1.75, -0.4303030303030303]),
        ("normalised", [1.1, 1.2, -0.23333333333333317]),
        ("code", [1.1, 1.29, -2.8133333333333335]),
        ("fixed", [0.99, 1.28, -2.66]),
    ],
)
def test_the_worked_sentence_smoothed_otherwise(smoothing, values):
    watched = watch_trend(find_words(DYSON), DYSON_ENTROPIES, 1.2, smoothing=smoothing)
    assert [each.value for each in watched[2:]] == near(values)


def test_the_code_is_signed_and_weighs_with_attention():
    words = find_words(DYSON)
    even = watch_trend(words, DYSON_ENTROPIES, 1.2, mode="code", attention=[0.1] * 7)
    # All words attend alike, so each has 1; the drop at "August" does not fire.
    assert [each.attention for each in even] == near([1.0] * 5)
    assert [each.fires for each in even] == [False, False, False, True, False]
    assert first_trigger(even).hits == (5,)
    # a = .1 .1 .1 .3 .1 .1 .2, sum 1, times 7 words: "born" has 2.1, "25" .7, "August" 1.4
    uneven = watch_trend(words, DYSON_ENTROPIES, 1.2, mode="code", attention=[0.1, 0.1, 0.1, 0.3, 0.1, 0.1, 0.2])
    assert [each.value for each in uneven[2:]] == near([2.1 * 1.1, 0.7 * 1.29, -1.4 * 2.8133333333333335])
    assert [each.fires for each in uneven] == [False, False, True, False, False]


def test_the_greatest_entropy_of_a_words_tokens_counts():
    tokens = ["Dyson", " Par", "ody", " was", " born"]
    watched = watch_trend(find_words(tokens), [1.2, 0.1, 0.3, 9.0, 0.5], 1.2)
    assert [each.entropy for each in watched] == [1.2, 0.3, 0.5]


def test_the_first_difference_instead():
    # d = .3, .9, -.5, 1.6, -.1 with E = .3, .6, .233333, .575, .44; "code" at t = 2: w = .5, .95 * .9 + .05 * .3 = .87
    points = measure_trend(H, difference="first")
    assert column(points, "expectation") == near([0.3, 0.6, 0.7 / 3, 0.575, 0.44])
    assert [point.smoothed for point in points[:3]] == [None, near(0.3), near(0.87)]
    # t = 3: w = |.9 - .2333| / (|-.5 - .2333| + |.9 - .2333|) = .6667 / 1.4 = .476190
    weight = (0.9 - 0.7 / 3) / 1.4
    assert points[3].smoothed == near((0.9 + 0.1 * weight) * -0.5 + (0.1 - 0.1 * weight) * 0.9)
    watched = watch_trend(find_words(DYSON), DYSON_ENTROPIES, 1.2, difference="first", smoothing="none")
    assert watched[0].value is None
    assert [each.value for each in watched[1:]] == near([-0.9, 0.2, 1.5, -1.6])
    assert [each.fires for each in watched] == [False, False, False, True, True]


def test_flat_entropies_have_weight_one():
    # d_t = d_{t-1} = E_t = 0: 0/0
    points = measure_trend([0.5] * 5)
    assert column(points, "weight") == [1.0, 1.0, 1.0]
    assert column(points, "smoothed") == [0.0, 0.0, 0.0]


def test_the_code_looks_back_past_a_first_difference_of_zero():
    # H = 1, 3, 3, 4: dH = 2, 0, 1. Paper: d2H = -2, 1. Code: -2, then 1 - 2 = -1.
    entropies = [1.0, 3.0, 3.0, 4.0]
    assert column(measure_trend(entropies), "second_difference") == [-2.0, 1.0]
    assert column(measure_trend(entropies, skip_zeros=True), "second_difference") == [-2.0, -1.0]
    # And a second difference of zero leaves mean and smoothing alone: d2H = 1, 0, 2 (dH = 1, 2, 2, 4).
    points = measure_trend([0.0, 1.0, 3.0, 5.0, 9.0], skip_zeros=True)
    assert column(points, "second_difference") == [1.0, 0.0, 2.0]
    assert column(points, "expectation") == [1.0, 1.5]
    assert points[3].smoothed is None


def test_an_entropy_that_is_no_number_fires_where_it_enters_the_trend():
    watched = watch_trend(find_words(DYSON), [1.2, 0.3, 0.1, math.nan, 0.2, 2.0, 0.4], 100.0)
    assert [each.fires for each in watched] == [False, False, True, True, True]
    assert [each.value for each in watched] == [None] * 5
    assert watched[2].first_difference is None
    assert first_trigger(watched).word == 3


def test_short_texts_never_fire():
    for number in range(3):
        watched = watch_trend(find_words(["Dyson", " Parody"][:number]), [9.0, 0.0][:number], 0.0)
        assert len(watched) == number
        assert first_trigger(watched) is None


def test_only_the_words_of_the_same_sentence_are_hit():
    tokens = ["Ann", " saw", " Bob", ".", " Cid", " saw", " Dan", "."]
    watched = watch_trend(find_words(tokens), [0.0, 0.0, 5.0, 0.0, 0.0, 5.0, 0.0, 0.0], 1.0)
    # H = 0 0 5 0 5 0 over Ann saw Bob Cid saw Dan
    assert [each.fires for each in watched] == [False, False, True, True, True, True]
    assert first_trigger(watched).hits == (2,)


def test_attention_is_normalised_over_its_sentence():
    words = find_words(["Ann", " sang", ".", " Bob", " slept"])
    assert sentence_normalised([0.1, 0.2, 0.3, 0.5, 0.5], words) == near((0.5, 1.0, 1.5, 1.0, 1.0))
    assert sentence_normalised([0.0, 0.0, 0.0, 0.2, 0.6], words) == near((1.0, 1.0, 1.0, 0.5, 1.5))


def test_attention_that_a_word_pays():
    words = find_words(["Ann", " Par", "ody"])  # keys 2, 3 and 4; keys 0 and 1 are the prompt
    rows = np.array([[0.5, 0.1, 0.4, 0, 0], [0.2, 0.2, 0.3, 0.3, 0], [0.1, 0.1, 0.3, 0.1, 0.4]])
    # Ann pays itself .4. Parody is the mean of two rows: to Ann .3, to itself (.3 + 0 + .1 + .4) / 2 = .4
    assert attention_paid(rows, 2, words, 2) == near((0.4, 0.4))
    later = find_words([" Par", "ody"])
    assert attention_paid(rows, 2, later, 3) == near((0.4,))
    assert attention_paid(rows, 2, (), 2) == ()


ENTROPIES = st.lists(st.floats(0, 12), max_size=20)


@given(ENTROPIES)
def test_where_the_smoothings_agree(entropies):
    by_name = {name: measure_trend(entropies, smoothing=name) for name in SMOOTHINGS}
    for name in SMOOTHINGS:
        assert [p.second_difference for p in by_name[name]] == [p.second_difference for p in by_name["none"]]
        assert len(by_name[name]) == len(entropies)
    if len(entropies) > 2:  # t = 1: d_1, in all but the fixed weight
        first = by_name["none"][2].smoothed
        assert all(by_name[n][2].smoothed == pytest.approx(first, abs=1e-9) for n in ["code", "literal", "normalised"])
        assert by_name["fixed"][2].smoothed == pytest.approx(0.9 * first, abs=1e-9)
    if len(entropies) > 3:  # t = 2: E_2 is the midpoint, so normalised smoothing gives just that
        point = by_name["normalised"][3]
        assert point.weight in (pytest.approx(0.5, abs=1e-6), 1.0)
        assert point.smoothed == pytest.approx(point.expectation, abs=1e-9)


@given(ENTROPIES)
def test_the_codes_value_lies_between_the_two_differences(entropies):
    last = 0.0
    for point in measure_trend(entropies)[2:]:
        assert 0 <= point.weight <= 1
        low, high = sorted([last, point.second_difference])
        assert low - 1e-9 <= point.smoothed <= high + 1e-9
        last = point.second_difference


@given(ENTROPIES)
def test_normalised_smoothing_collapses_to_the_mean_between_opposite_differences(entropies):
    last = None
    for point in measure_trend(entropies, smoothing="normalised")[2:]:
        d, mean = point.second_difference, point.expectation
        if last is not None and (d - mean) * (last - mean) < -1e-6:
            assert point.smoothed == pytest.approx(mean, abs=1e-6)
        last = d


@given(ENTROPIES, st.floats(0, 5), st.floats(0, 5))
def test_raising_the_threshold_never_brings_a_trigger_forward(entropies, low, step):
    tokens = [f" w{number}" for number in range(len(entropies))]
    words = find_words(tokens)
    early, late = (first_trigger(watch_trend(words, entropies, alpha)) for alpha in (low, low + step))
    assert late is None or (early is not None and early.word <= late.word)


def test_a_trend_fires_before_entropy_is_high():
    # Entropies that begin to rise: the turn (0 .1 .2 | 1.4) fires at 1.4, which no limit on entropy of 2 would notice.
    rising = watch_trend(find_words([" a1", " b2", " c3", " d4", " e5"]), [0.0, 0.1, 0.2, 1.4, 2.6], 1.0)
    assert first_trigger(rising).word == 3
    # High entropy that does not change is no trend.
    flat = watch_trend(find_words([" a1", " b2", " c3", " d4", " e5"]), [2.6, 2.6, 2.6, 2.6, 2.6], 1.0)
    assert first_trigger(flat) is None


def test_the_papers_weights_may_give_more_than_both_differences():
    # d2H = 1.1, 1.3 with w = 1, .5: .5 * 1.3 + 1 * 1.1
    assert measure_trend([1.2, 0.3, 0.5, 2.0], smoothing="literal")[3].smoothed == near(1.75)
