"""Statistics of a next-token distribution, against numbers one can do by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptrag_cli.errors import ModelError
from adaptrag_cli.models.logits import logprobs_of, token_statistics


def logits_of(*probabilities: float) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(np.array(probabilities)).astype(np.float32)


def test_four_equal_probabilities_have_entropy_ln_4():
    statistics = token_statistics(np.zeros(4, dtype=np.float32))
    assert statistics.entropy == pytest.approx(1.3862944, abs=1e-7)
    assert statistics.logprob == pytest.approx(-1.3862944, abs=1e-7)
    assert statistics.token_id == 0, "equal logits go to the smaller id"
    assert [token_id for token_id, _ in statistics.best] == [0, 1, 2, 3]


def test_a_half_and_two_quarters():
    # H = 1/2 ln 2 + 2 * 1/4 ln 4 = 1.5 ln 2 = 1.0397208
    statistics = token_statistics(logits_of(0.25, 0.5, 0.25) + 7)
    assert statistics.token_id == 1
    assert statistics.entropy == pytest.approx(1.0397208, abs=1e-6)
    assert statistics.logprob == pytest.approx(-0.6931472, abs=1e-6)
    assert [token_id for token_id, _ in statistics.best] == [1, 0, 2]
    assert [logprob for _, logprob in statistics.best] == pytest.approx([-0.6931472, -1.3862944, -1.3862944], abs=1e-6)


def test_five_best_of_six():
    statistics = token_statistics(logits_of(0.05, 0.1, 0.15, 0.18, 0.22, 0.3))
    assert [token_id for token_id, _ in statistics.best] == [5, 4, 3, 2, 1]
    assert math.exp(statistics.best[4][1]) == pytest.approx(0.1, abs=1e-6)


def test_a_very_sure_token_keeps_its_precision():
    # One rival 20 below: p = 1 / (1 + e^-20), so -log p = ln(1 + e^-20) = 2.0611536e-9 and H = 21 times about that.
    statistics = token_statistics(np.array([0, 20], dtype=np.float32))
    assert statistics.logprob == pytest.approx(-2.0611536e-9, rel=1e-6)
    assert statistics.entropy == pytest.approx(21 * 2.0611536e-9, rel=1e-6)


def test_a_forbidden_token_has_no_share():
    # -inf is a logit that llama.cpp gives to suppressed tokens.
    statistics = token_statistics(logits_of(0.5, 0.0, 0.5))
    assert statistics.entropy == pytest.approx(math.log(2), abs=1e-6)
    assert [token_id for token_id, _ in statistics.best] == [0, 2]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_logits_that_are_not_numbers_are_refused(bad: float):
    with pytest.raises(ModelError, match="not numbers"):
        token_statistics(np.full(8, bad, dtype=np.float32))


def test_agrees_with_extended_precision_over_a_real_vocabulary():
    rng = np.random.default_rng(7)
    for scale in (0.1, 1.0, 3.0, 8.0):
        logits = (rng.normal(size=151_936) * scale).astype(np.float32)
        exact = logits.astype(np.longdouble)
        logprobs = exact - exact.max() - np.log(np.exp(exact - exact.max()).sum())
        statistics = token_statistics(logits)
        assert statistics.logprob == pytest.approx(float(logprobs.max()), rel=1e-6)
        assert statistics.entropy == pytest.approx(float(-(np.exp(logprobs) * logprobs).sum()), rel=1e-6)
        order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))[:5]
        assert [token_id for token_id, _ in statistics.best] == order


def test_logprobs_of_some_tokens_in_the_order_asked():
    # Softmax over all four: ln 1/8 = -2.0794415, ln 1/2 = -0.6931472; odds of the first against the third 1/8 : 1/4.
    some = logprobs_of(logits_of(0.125, 0.5, 0.25, 0.125) - 3, [3, 1, 1])
    assert some == pytest.approx([-2.0794415, -0.6931472, -0.6931472], abs=1e-6)
    first, third = logprobs_of(logits_of(0.125, 0.5, 0.25, 0.125), [0, 2])
    assert first - third == pytest.approx(-math.log(2), abs=1e-6)


def test_logprobs_of_sure_far_and_forbidden_tokens():
    # R = e^-20 + e^-200 + 0 = 2.0611536e-9; 200 below the best means log p = -200 - R, not the -87 of the clip.
    sure, far, forbidden = logprobs_of(np.array([20, 0, -180, -np.inf], dtype=np.float32), [0, 2, 3])
    assert sure == pytest.approx(-2.0611536e-9, rel=1e-6)
    assert far == pytest.approx(-200, abs=1e-6)
    assert forbidden == -math.inf


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logprobs_of_logits_that_are_not_numbers_are_refused(bad: float):
    with pytest.raises(ModelError, match="not numbers"):
        logprobs_of(np.array([0, bad, 1], dtype=np.float32), [0])


logits_lists = st.lists(st.floats(-60, 60, width=16), min_size=2, max_size=50)


@given(logits_lists)
def test_entropy_lies_between_zero_and_the_log_of_the_vocabulary(values: list[float]):
    statistics = token_statistics(np.array(values, dtype=np.float32))
    assert 0 <= statistics.entropy <= math.log(len(values)) + 1e-6
    assert statistics.logprob <= 0


@given(logits_lists)
def test_logprobs_of_tokens_are_those_of_the_statistics(values: list[float]):
    logits = np.array(values, dtype=np.float32)
    statistics = token_statistics(logits)
    assert logprobs_of(logits, [token_id for token_id, _ in statistics.best]) == tuple(p for _, p in statistics.best)
    assert logprobs_of(logits, [statistics.token_id]) == (statistics.logprob,)


@given(logits_lists, st.integers(-64, 64))
def test_a_constant_added_to_all_logits_changes_nothing(values: list[float], shift: int):
    logits = np.array([round(value * 4) / 4 for value in values], dtype=np.float32)  # exact in float32 when shifted
    assert token_statistics(logits + shift) == token_statistics(logits)


def test_the_logits_are_left_alone():
    logits = logits_of(0.1, 0.2, 0.7)
    before = logits.copy()
    token_statistics(logits)
    assert (logits == before).all()
