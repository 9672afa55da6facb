"""Probing-RAG's arithmetic, with the worked numbers of METHODS 8."""

from __future__ import annotations

import math

import numpy as np
import pytest

from adaptrag_cli.errors import ModelError
from adaptrag_cli.models.signals import StateMeans
from adaptrag_cli.probing.decision import decide
from adaptrag_cli.probing.layers import default_layers
from adaptrag_cli.probing.prober import forward, parameter_count, tensor_shapes
from probers import constant_weights, prober, random_weights, sign_weights

AGREEING = [(0.2, 1.0), (1.5, 0.3), (-0.4, 0.1)]
DISAGREEING = [(5.0, 0.0), (-0.5, 1.5), (-0.5, 1.5)]


def verdict(pairs, rule, theta=0.0):
    found = decide(pairs, theta=theta, rule=rule)
    return found.retrieve_score, found.stop_score, found.retrieve


# --- layers and the network


@pytest.mark.parametrize(
    ("layer_count", "layers"),
    [
        (18, (6, 8, 10, 12, 14, 16)),  # Gemma-2B, METHODS 8
        (24, (8, 10, 12, 14, 16, 18, 20, 22)),
        (28, (10, 12, 14, 16, 18, 20, 22, 24, 26)),  # 9 1/3, rounded up
        (2, (1,)),
        (1, (0,)),
    ],
)
def test_every_second_layer_from_one_third_of_the_depth(layer_count, layers):
    assert default_layers(layer_count) == layers


def test_the_number_of_parameters():
    # 2 x 2,048 + (2,048 + 1) x 512 + 2 x 512 + (512 + 1) x 512 + 2 x 512 + (512 + 1) x 2
    assert parameter_count(2048) == 1_318_914


def test_the_network_agrees_with_torch():
    torch = pytest.importorskip("torch")
    width = 24
    norm, linear, silu, drop = torch.nn.LayerNorm, torch.nn.Linear, torch.nn.SiLU, torch.nn.Dropout
    network = torch.nn.Sequential(
        *(norm(width), linear(width, 512), silu(), norm(512), drop(0.1)),
        *(linear(512, 512), silu(), norm(512), drop(0.1), linear(512, 2)),
    ).eval()
    layers = [each for each in network if list(each.parameters())]
    names = [f"{kind}{number}" for number in range(3) for kind in ("norm", "linear")]
    weights = random_weights(width, seed=3)
    with torch.no_grad():
        for name, layer in zip(names, layers, strict=True):
            layer.weight.copy_(torch.from_numpy(weights[f"{name}.weight"]))
            layer.bias.copy_(torch.from_numpy(weights[f"{name}.bias"]))
        states = np.random.default_rng(4).standard_normal((5, width)).astype(np.float32) * 30
        expected = network(torch.from_numpy(states)).numpy()
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(forward(weights, states), expected, atol=1e-5, rtol=0)
    assert sum(p.numel() for p in network.parameters()) == parameter_count(width)


def test_a_state_is_normalised_first():
    # The mean of (1, 3) and (3, 5) is (2, 4), their sum (4, 8); both are (-1, 1) when normalised.
    weights = random_weights(2)
    mean, total, normed = (forward(weights, np.array(s, dtype=np.float32)) for s in ([2, 4], [4, 8], [-1, 1]))
    np.testing.assert_allclose(mean, normed, atol=1e-4)
    np.testing.assert_allclose(total, normed, atol=1e-4)


def test_states_are_pooled_as_they_come():
    pooled = StateMeans({7: 2})
    assert pooled.means() == {}
    pooled.add({2: np.array([[1, 3]], dtype=np.float32)}, 0)
    pooled.add({2: np.array([[9, 9], [3, 5], [9, 9]], dtype=np.float32)}, 1)  # one token of a batch of three
    assert (pooled.count, pooled.means()) == (2, {7: (2.0, 4.0)})


def test_a_network_made_by_hand():
    # The state (3, 1, 2, 2) is (1.4142, -1.4142, 0, 0) when normalised, so one hidden unit sees 4 x 2.8284 = 11.31 and
    # the others 0. After SiLU and LayerNorm it is (511 - 0) / sqrt(511) = 22.6 standard deviations above.
    retrieve, stop = prober(width=4, layers={1: sign_weights(4)}).logits({1: (3, 1, 2, 2)})[1]
    assert retrieve == pytest.approx(math.sqrt(511), abs=1e-2)
    assert stop == -retrieve
    turned = prober(width=4, layers={1: sign_weights(4)}).logits({1: (1, 3, 2, 2)})[1]
    assert turned[0] < 0 < turned[1]


def test_logits_of_each_layer():
    made = prober(layers={1: constant_weights(8, 0.25, 1.0), 2: constant_weights(8, 1.5, 0.5)})
    assert made.logits({1: [1.0] * 8, 2: [2.0] * 8, 3: [9.0] * 8}) == {1: (0.25, 1.0), 2: (1.5, 0.5)}


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 1e39])
def test_a_state_that_is_no_number_gives_logits_that_are_none(number):
    logits = prober().logits({1: [number, *[1.0] * 7], 2: [1.0] * 8})
    assert [math.isfinite(value) for value in (*logits[1], *logits[2])] == [False, False, True, True]


@pytest.mark.parametrize("states", [{1: [1.0] * 8}, {1: [1.0] * 8, 2: [1.0] * 7}, {}])
def test_states_of_another_width_are_refused(states):
    with pytest.raises(ModelError, match=r"the prober of tiny reads 8 numbers after layer \d, and got [07]$"):
        prober().logits(states)


def test_the_tensors_of_a_layer():
    assert tensor_shapes(3)["linear0.weight"] == (512, 3)
    assert len(tensor_shapes(3)) == 12


# --- the decision


def test_both_rules_on_the_same_logits():
    assert verdict(AGREEING, "logits") == pytest.approx((1.3, 1.4, False))
    assert verdict(AGREEING, "probabilities") == pytest.approx((1.456091, 1.543909, False), abs=5e-7)
    assert verdict(AGREEING, "logits", theta=1.0)[2] and verdict(AGREEING, "probabilities", theta=1.0)[2]


def test_logits_and_probabilities_may_disagree():
    assert verdict(DISAGREEING, "logits") == (4.0, 3.0, True)
    assert verdict(DISAGREEING, "probabilities") == pytest.approx((1.231713, 1.768287, False), abs=5e-7)


def test_a_tie_stops_by_logits_and_retrieves_by_probabilities():
    assert verdict([(1.0, 0.0), (0.0, 1.0)], "logits") == (1.0, 1.0, False)
    assert verdict([(2.0, 2.0)], "probabilities") == (0.5, 0.5, True)
    assert verdict([(1.0, 1.5)], "logits", theta=0.5) == (1.0, 1.5, False)


@pytest.mark.parametrize("theta", [3.0, 3.5, 100.0])
def test_theta_beyond_the_number_of_layers_changes_nothing_of_probabilities(theta):
    sure = [(-80.0, 80.0)] * 3
    assert verdict(sure, "probabilities", theta=theta)[2]
    assert not verdict([(80.0, -80.0)] * 3, "probabilities", theta=-theta - 1e-9)[2]


@pytest.mark.parametrize("rule", ["logits", "probabilities"])
@pytest.mark.parametrize("pairs", [[(math.nan, 9.0)], [(9.0, math.nan)], [(math.inf, 0.0)], [(0.0, math.inf)], []])
def test_what_is_no_number_is_looked_up(pairs, rule):
    found = decide([*pairs, *([(0.0, 50.0)] if pairs else [])], theta=-2.0, rule=rule)
    assert found.retrieve and found.is_undefined


def test_infinities_of_both_signs_are_no_sum():
    found = decide([(math.inf, 0.0), (-math.inf, 0.0)], theta=0.0, rule="logits")
    assert found.retrieve and found.is_undefined and math.isnan(found.retrieve_score)


def test_large_logits_have_probabilities():
    assert verdict([(900.0, -900.0)], "probabilities") == (1.0, 0.0, True)
