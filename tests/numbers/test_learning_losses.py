"""Losses and rewards of DeepRAG's training, by hand (METHODS 9.4 to 9.6)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from adaptrag_cli.learning import stages
from adaptrag_cli.learning.examples import preference_of
from adaptrag_cli.learning.losses import (
    IGNORED,
    calibration_losses,
    fork,
    fork_logprobs,
    fork_mask,
    group_advantages,
    grpo_reward,
    process_cost,
    token_cross_entropy,
)
from adaptrag_cli.learning.pairs import Pair
from adaptrag_cli.stepwise.narrative import INTERMEDIATE_ANSWER, SEARCH
from tiny_learner import ByteTokens


def test_cross_entropy_counts_learned_tokens_alone():
    """Probabilities .5 and .25 of the two learned tokens; what the masked one costs does not matter: ln 8 / 2.

    Both tokens cost -ln(.5 * .25) = 2.079442; the sum that the paper prints inside the logarithm gives .287682.
    """
    logits = torch.zeros(1, 4, 4)
    logits[0, 0] = torch.tensor([1 / 2, 1 / 4, 1 / 8, 1 / 8]).log()
    logits[0, 1] = torch.tensor([1 / 4, 1 / 4, 1 / 4, 1 / 4]).log()
    logits[0, 2] = torch.tensor([0.97, 0.01, 0.01, 0.01]).log()
    labels = torch.tensor([[IGNORED, 0, 3, IGNORED]])
    assert token_cross_entropy(logits, labels).item() == pytest.approx(2.079442 / 2, abs=1e-6)
    assert token_cross_entropy(logits, torch.full((1, 4), IGNORED)).item() == 0


@pytest.mark.parametrize(("margin", "loss"), [(0.5, 0.598139), (0.0, 0.693147), (-0.5, 0.798139)])
def test_calibration_loss(margin: float, loss: float):
    """-ln sigmoid(.4 * margin); at -margin it is .4 * margin more."""
    zero = torch.zeros(1)
    tensor = calibration_losses(torch.tensor([margin - 1]), torch.tensor([-2.0]), zero - 1, zero - 2)
    assert tensor.item() == pytest.approx(loss, abs=1e-6)


def test_the_loss_of_a_pair_holds_each_continuation_against_its_own_reference(monkeypatch: pytest.MonkeyPatch):
    """0.4 * ((-1 + 1.5) - (-2 + 1)) = 0.6, and -log sigmoid 0.6 = 0.437488; the other way round it were 1.037488."""
    monkeypatch.setattr(stages, "fork_logprobs", lambda *_: (torch.tensor(-1.0), torch.tensor(-2.0)))
    pair = Pair(question="q", prefix="Follow up: who?\n", preferred=SEARCH, rejected=INTERMEDIATE_ANSWER)
    item = stages.Calibrated(preference=preference_of(pair, ByteTokens()), reference=(-1.5, -1.0))
    assert stages.calibration_loss(None, item, beta=0.4).item() == pytest.approx(0.437488, abs=1e-6)


def test_calibration_loss_of_extreme_margins_is_a_number():
    zero = torch.zeros(2)
    assert calibration_losses(torch.tensor([1e4, -1e4]), zero, zero, zero).tolist() == pytest.approx([0, 4000])


def test_the_continuations_of_a_fork_do_not_see_each_other():
    made = fork([1, 2], [3, 4], [5])
    assert (made.token_ids, made.positions) == ((1, 2, 3, 4, 5), (0, 1, 2, 3, 2))
    assert made.is_learned == (True,) * 3
    assert fork_mask(made)[0, 0].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 0, 0, 1],
    ]
    with pytest.raises(ValueError, match="two continuations"):
        fork([1], [], [2])


def test_one_pass_over_a_fork_gives_what_two_passes_give():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=31, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2
    )
    model = LlamaForCausalLM(config).eval()
    prefix, first, second = [3, 1, 4, 1, 5], [9, 2, 6], [5, 3]

    def alone(continuation: list[int]) -> float:
        ids = torch.tensor([prefix + continuation])
        logprobs = model(input_ids=ids).logits[0].log_softmax(-1)
        return sum(logprobs[len(prefix) - 1 + i, token].item() for i, token in enumerate(continuation))

    with torch.no_grad():
        both = [value.item() for value in fork_logprobs(model, fork(prefix, first, second))]
        assert both == pytest.approx([alone(first), alone(second)], abs=1e-4)


def test_passages_of_a_fork_are_read_and_do_not_count():
    """Four tokens, all alike likely; of the first continuation two count, of the second one: 2 ln 4 and ln 4."""
    seen = []

    def model(*, input_ids, logits_to_keep, **_how):
        seen.append(logits_to_keep.tolist())
        return SimpleNamespace(logits=torch.zeros(1, len(logits_to_keep), 4))

    model.parameters = lambda: iter([torch.zeros(1)])
    made = fork([1, 2], [3, 0, 1], [2, 3], [True, False, True, True, False])
    assert [value.item() for value in fork_logprobs(model, made)] == pytest.approx([-2.772589, -1.386294], abs=1e-6)
    assert seen == [[1, 3, 1]]  # what stands before 3, before the last 1, and before 2


def test_rewards():
    rewards = [grpo_reward(is_right=True, is_well_formed=True, retrievals=r) for r in (0, 1, 3, 5, 7)]
    assert rewards == pytest.approx([1, 0.9, 0.7, 0.5, 0.5])
    assert grpo_reward(is_right=False, is_well_formed=True, retrievals=0) == 0.1
    assert grpo_reward(is_right=False, is_well_formed=False, retrievals=0) == 0


def test_advantages_of_a_group():
    """Mean .5, squared differences .25, .16, .16, .25: deviation sqrt(.205)."""
    group = (1, 0.9, 0.1, 0)
    assert group_advantages(group) == pytest.approx((1.104315, 0.883452, -0.883452, -1.104315), abs=1e-6)
    assert group_advantages((0.1, 0.1)) == (0, 0)


def test_a_wrong_answer_is_worse_than_any_retrieval():
    assert process_cost(True, 0) < process_cost(True, 9) < process_cost(False, 0) < process_cost(False, 1)
