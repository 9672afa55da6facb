"""Uncertainty-guided triggering, with the worked numbers of DTR Eq. 3."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptrag_cli.events import DraftOdds
from adaptrag_cli.uncertainty import Uncertainty, decide, mean_nll, odds_of


def nll(*probabilities: float) -> float:
    value = mean_nll([math.log(p) for p in probabilities]).value
    assert value is not None
    return value


def test_u_is_the_mean_nll_without_the_end_token():
    # -(ln .9 + ln .8 + ln .95) / 3 = (.105361 + .223144 + .051293) / 3 = .126599; exp(-u) = .881087
    assert nll(0.9, 0.8, 0.95) == pytest.approx(0.126599, abs=1e-6)
    assert math.exp(-nll(0.9, 0.8, 0.95)) == pytest.approx(0.881087, abs=1e-6)
    # An end token of .5 would have made it (.379798 + .693147) / 4 = .268236.
    assert nll(0.9, 0.8, 0.95, 0.5) == pytest.approx(0.268236, abs=1e-6)


@pytest.mark.parametrize(("threshold", "probability"), [(0.001, 0.9990005), (0.005, 0.9950125), (0.01, 0.9900498)])
def test_thresholds_as_probabilities(threshold, probability):
    assert math.exp(-threshold) == pytest.approx(probability, abs=1e-7)
    assert not decide(Uncertainty(value=nll(probability + 1e-6)), threshold).retrieve
    assert decide(Uncertainty(value=nll(probability - 1e-6)), threshold).retrieve


def test_two_tokens_around_the_papers_threshold():
    assert nll(0.999, 0.999) == pytest.approx(0.0010005, abs=1e-9)
    assert decide(mean_nll([math.log(0.999)] * 2), 0.001).retrieve
    assert nll(0.9995, 0.9995) == pytest.approx(0.000500125, abs=1e-9)
    assert not decide(mean_nll([math.log(0.9995)] * 2), 0.001).retrieve


def test_equality_answers_from_the_draft():
    tie = decide(Uncertainty(value=0.25), 0.25)
    assert not tie.retrieve
    assert tie.reason.startswith("tie")
    assert decide(Uncertainty(value=math.nextafter(0.25, 1.0)), 0.25).retrieve


def test_an_empty_draft_has_no_uncertainty_and_retrieves():
    uncertainty = mean_nll([])
    assert uncertainty == Uncertainty(value=None, reason="the draft is empty")
    assert decide(uncertainty, 1e9).retrieve
    assert "the draft is empty" in decide(uncertainty, 1e9).reason


@pytest.mark.parametrize("broken", [float("nan"), float("-inf")])
def test_an_impossible_token_is_never_certain(broken):
    uncertainty = mean_nll([-0.1, broken])
    assert uncertainty.value is None
    assert decide(uncertainty, 1e9).retrieve


@given(st.lists(st.floats(min_value=-50, max_value=0), min_size=1), st.floats(0, 10), st.floats(0, 10))
def test_raising_the_threshold_never_starts_a_retrieval(logprobs, low, step):
    uncertainty = mean_nll(logprobs)
    if not decide(uncertainty, low).retrieve:
        assert not decide(uncertainty, low + step).retrieve


@given(st.lists(st.floats(min_value=-50, max_value=0), min_size=1))
def test_u_lies_between_its_smallest_and_largest_token(logprobs):
    value = mean_nll(logprobs).value
    assert value is not None
    assert -max(logprobs) - 1e-9 <= value <= -min(logprobs) + 1e-9


BANDS = (
    DraftOdds(above=0.0, up_to=0.1, right=3, drafts=3),
    DraftOdds(above=0.1, up_to=0.3, right=8, drafts=15),
    DraftOdds(above=0.3, up_to=None, right=17, drafts=162),
)


@pytest.mark.parametrize(
    ("uncertainty", "band"), [(0.0, 0), (0.1, 0), (math.nextafter(0.1, 1), 1), (0.3, 1), (0.31, 2), (1e300, 2)]
)
def test_a_band_holds_its_upper_bound_and_the_first_one_holds_zero(uncertainty, band):
    assert odds_of(uncertainty, BANDS) == BANDS[band]


def test_there_are_no_odds_of_what_was_not_measured():
    assert odds_of(None, BANDS) is None
    assert odds_of(0.2, ()) is None
    assert odds_of(0.4, BANDS[:2]) is None
