"""Narratives that a model writes itself: what it is fed and what is learned of them, and how rewards change it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from adaptrag_cli.learning import grpo
from adaptrag_cli.learning.fitting import Fitting, Recipe
from adaptrag_cli.learning.grpo import GroupLoss, Task, own_logprobs, paper_reward, rollout_loss
from adaptrag_cli.learning.lora import trainable
from adaptrag_cli.learning.losses import group_advantages
from adaptrag_cli.learning.rollouts import Limits, Rollout, search_among, write_group
from tiny_learner import FIRST_BYTE, ByteTokens, tiny_model

SEARCHED = "Follow up: Who?\nLet's search the question in Wikipedia.\n"
CONTEXT = "Context:\n[1] He did.\n"
ANSWERED = "Intermediate answer: him\nSo the final answer is: him"
KNOWN = "Follow up: Who?\nIntermediate answer: me\nSo the final answer is: me"


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """So small a model takes longer with two."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Script:
    """A model that is sure of its text; it also draws where a passage is fed to it, which counts for nothing."""

    training = False

    def __init__(self, *texts: str) -> None:
        tokens = ByteTokens()
        self._rows = [(*tokens.plain(text), tokens.end_of_turn) for text in texts]
        self._at = 0

    def parameters(self):
        return iter([torch.zeros(1)])

    def eval(self):
        return self

    def train(self, mode: bool):
        return self

    def __call__(self, *, input_ids, cache, logits_to_keep):
        rows = [row[min(self._at, len(row) - 1)] for row in self._rows]
        self._at += 1
        logits = torch.full((len(rows), 1, 256 + FIRST_BYTE), -1e4)
        for number, token in enumerate(rows):
            logits[number, 0, token] = 0
        return SimpleNamespace(logits=logits)


def write(*texts: str, limits: Limits | None = None, found: Sequence[str] = ("He did.",)) -> list[Rollout]:
    asked = []

    def search(query: str) -> Sequence[str]:
        asked.append(query)
        return found

    written = write_group(
        Script(*texts), ByteTokens(), "q", search, group=len(texts), limits=limits or Limits(), seed=0
    )
    assert set(asked) <= {"Who?"}
    return written


def test_passages_are_fed_and_not_learned_while_others_go_on_writing():
    searching, knowing = write(SEARCHED + CONTEXT + ANSWERED, KNOWN)
    assert searching.text == SEARCHED + CONTEXT + ANSWERED
    own = bytes(
        t - FIRST_BYTE for t, is_own in zip(searching.token_ids, searching.is_own, strict=True) if is_own and t > 2
    )
    assert own.decode() == SEARCHED + ANSWERED
    assert (knowing.text, all(knowing.is_own)) == (KNOWN, True)
    assert searching.token_ids[-1] == knowing.token_ids[-1] == ByteTokens.end_of_turn
    assert searching.is_well_formed
    assert (searching.searches, knowing.searches) == (1, 0)


def test_a_text_ends_where_it_may_not_go_on():
    assert write(KNOWN + "\nQuestion: and who else?")[0].text == KNOWN + "\n"
    assert write(KNOWN, limits=Limits(max_tokens=9))[0].text == KNOWN[:9]
    assert write(SEARCHED + CONTEXT, limits=Limits(max_searches=0))[0].text == SEARCHED
    assert write("Let's search the question in Wikipedia.\nA")[0].text == "Let's search the question in Wikipedia.\n"
    assert [len(each) for each in write(SEARCHED + CONTEXT + ANSWERED, KNOWN, limits=Limits(cut_off=60))] == [60, 60]
    assert write(SEARCHED + "Context:\n(nothing was found)\n" + ANSWERED, found=())[0].is_well_formed


def test_each_search_of_a_step_is_counted():
    """Three searches in one step: 1 - .3."""
    again = "Let's search the question in Wikipedia.\n" + CONTEXT
    rollout = write(SEARCHED + CONTEXT + again + again + ANSWERED)[0]
    assert (rollout.searches, rollout.narrative.retrievals) == (3, 1)
    assert paper_reward(Task(question="q", golds=("him",)), rollout) == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("text", "is_well_formed"),
    [
        (KNOWN, True),
        (KNOWN + "\n", True),
        ("Well. " + KNOWN, False),
        (KNOWN.replace("Intermediate answer: me\n", ""), False),
        ("So the final answer is:", False),
        ("Follow up: Who?\nContext:\n[1] me\n" + ANSWERED, False),
    ],
)
def test_a_narrative_in_form_is_nothing_but_a_narrative(text: str, is_well_formed: bool):
    rollout = Rollout(prompt=(1,), token_ids=(), is_own=(), text=text, own_text=text, searches=0)
    task = Task(question="q", golds=("Me",))
    assert rollout.is_well_formed is is_well_formed
    assert paper_reward(task, rollout) == float(text.strip().endswith(" me"))


def test_the_loss_of_a_narrative():
    """Two tokens, of which the second is now e times as likely as at first: KL exp(-1) + 1 - 1 = .367879 there.

    Its gradient is -advantage for each token, and 1 - exp(-1) times the weight of KL for the second; means over two.
    """
    logprobs = torch.tensor([-1.0, -2.0], requires_grad=True)
    loss = rollout_loss(logprobs, torch.tensor([-1.0, -3.0]), 0.5, kl=0.1)
    assert loss.item() == pytest.approx(-0.5 + 0.1 * 0.367879 / 2, abs=1e-6)
    loss.backward()
    assert logprobs.grad.tolist() == pytest.approx([-0.25, -0.25 + 0.1 * (1 - math.exp(-1)) / 2], abs=1e-6)


def test_only_own_tokens_have_log_probabilities():
    model = tiny_model()
    rollout = Rollout(
        prompt=(1, 5, 1), token_ids=(7, 8, 9), is_own=(True, False, True), text="", own_text="", searches=0
    )
    with torch.no_grad():
        logprobs = model(input_ids=torch.tensor([[1, 5, 1, 7, 8, 9]])).logits[0].log_softmax(-1)
        expected = [logprobs[2, 7].item(), logprobs[4, 9].item()]
        assert own_logprobs(model, rollout).tolist() == pytest.approx(expected, abs=1e-5)


def test_passages_are_found_by_their_words():
    search = search_among(
        ("A ferry sails.", "The clock is wound.", "A clock strikes.", "Nobody knows.", "A ferry sails.")
    )
    assert search("Who winds the clock, the clock that is wound?")[0] == "The clock is wound."
    assert search("zebra") == []
    assert search_among(())("clock") == ()


def test_each_token_is_drawn_after_all_that_stands_before_it():
    """As good as without temperature, so that a pass over the whole text without a cache must name the same tokens."""
    model = tiny_model()
    with torch.no_grad():
        model.get_base_model().lm_head.weight.mul_(50)
        for layer in model.get_base_model().model.layers:
            layer.self_attn.o_proj.weight.mul_(50)  # what is attended to decides, not the last token alone
    limits = Limits(max_tokens=24, temperature=1e-3)
    first, second = write_group(model, ByteTokens(), "question", lambda _: (), group=2, limits=limits, seed=0)
    assert first == second
    whole = [*first.prompt, *first.token_ids]
    with torch.no_grad():
        likeliest = model(input_ids=torch.tensor([whole]), use_cache=False).logits[0].argmax(dim=-1).tolist()
        alone = [model(input_ids=torch.tensor([[token]])).logits[0, -1].argmax().item() for token in whole]
    at = slice(len(first.prompt) - 1, -1)
    assert likeliest[at] == list(first.token_ids) != alone[at]


def drawn_loss(model, reward, *, group: int = 4) -> GroupLoss:
    limits = Limits(max_tokens=3)
    return GroupLoss(model, ByteTokens(), lambda _: (), seed=0, reward=reward, group=group, limits=limits)


def gradients(model) -> list[torch.Tensor]:
    return [weight.grad for weight in trainable(model).values()]


def test_the_loss_of_a_group_has_the_gradient_of_the_mean_of_its_narratives(monkeypatch: pytest.MonkeyPatch):
    """Each pass goes back before the next one begins, so that memory holds one."""
    model = tiny_model()
    drawn, passes = [], []

    def reward(_task: Task, rollout: Rollout) -> float:
        drawn.append(rollout)
        return float(rollout.token_ids[0] % 3)

    def watched(model, rollout):
        logprobs = own_logprobs(model, rollout)
        passes.append("learning" if logprobs.requires_grad else "reference")
        if logprobs.requires_grad:
            logprobs.register_hook(lambda _: passes.append("back"))
        return logprobs

    monkeypatch.setattr(grpo, "own_logprobs", watched)
    loss = drawn_loss(model, reward)(Task(question="q", golds=("x",)))
    loss.backward()
    assert passes == ["reference"] * 4 + ["learning", "back"] * 4
    found = gradients(model)
    rewards = [float(rollout.token_ids[0] % 3) for rollout in drawn]
    assert loss.item() == pytest.approx(-sum(rewards) / 4)

    model.zero_grad()
    losses = []
    for rollout, advantage in zip(drawn, group_advantages(rewards), strict=True):
        logprobs = own_logprobs(model, rollout)
        losses.append(rollout_loss(logprobs, logprobs.detach(), advantage))
    torch.stack(losses).mean().backward()
    expected = gradients(model)
    assert any(each.any() for each in expected)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found, expected, strict=True))


def test_kl_is_measured_to_the_model_that_training_began_with(monkeypatch: pytest.MonkeyPatch):
    """The adapter has changed since: at its beginning there is no distance, and so no gradient of one."""
    model, drawn = tiny_model(), []

    def reward(_task: Task, rollout: Rollout) -> float:
        drawn.append(rollout)
        return float(len(drawn) % 2)

    monkeypatch.setattr(grpo, "rollout_loss", lambda now, before, _: rollout_loss(now, before, 0.0, kl=1.0))
    loss = drawn_loss(model, reward)
    task = Task(question="q", golds=("x",))
    loss(task).backward()
    assert not any(each.any() for each in gradients(model))

    with torch.no_grad():
        for weight in trainable(model).values():
            weight.add_(0.3)
    model.zero_grad()
    drawn.clear()
    loss(task).backward()
    found = gradients(model)

    with torch.no_grad():
        before = [own_logprobs(tiny_model(), rollout) for rollout in drawn]
    model.zero_grad()
    pairs = [(own_logprobs(model, each), reference) for each, reference in zip(drawn, before, strict=True)]
    torch.stack([rollout_loss(now, reference, 0.0, kl=1.0) for now, reference in pairs]).mean().backward()
    expected = gradients(model)
    assert any(each.abs().max() > 1e-3 for each in expected)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found, expected, strict=True))


def test_equal_rewards_teach_nothing_and_cost_no_pass(monkeypatch: pytest.MonkeyPatch):
    model = tiny_model()
    monkeypatch.delattr(grpo, "own_logprobs")
    loss = drawn_loss(model, lambda _task, _rollout: 0.1)(Task(question="q", golds=("x",)))
    loss.backward()
    assert loss.item() == pytest.approx(-0.1)
    assert not any(each.any() for each in gradients(model))


def test_what_is_rewarded_becomes_likelier(tmp_path: Path):
    """Texts of one byte, rewarded where it is in the upper half."""
    model = tiny_model()
    with torch.no_grad():
        model.get_base_model().lm_head.weight.mul_(20)  # as it is drawn, no state could make a byte likely
    tasks = [Task(question=f"q{number}", golds=("x",)) for number in range(4)]
    limits = Limits(max_tokens=1)

    def upper(_task: Task, rollout: Rollout) -> float:
        return float(rollout.token_ids[0] >= 128 + FIRST_BYTE)

    loss = GroupLoss(model, ByteTokens(), lambda _: (), seed=0, reward=upper, group=16, limits=limits)
    fitted = Fitting(
        model=model,
        train=tasks[1:],
        held_out=tasks[:1],
        loss=loss,
        recipe=Recipe(learning_rate=0.05, epochs=5, accumulation=1, patience=0),
        seed=0,
        folder=tmp_path,
        digest="d",
        before_item=loss.before_item,
    ).run()
    assert -fitted.held_out_before < 0.8
    assert -fitted.held_out_after > 0.9
