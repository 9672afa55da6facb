"""Stage II by rewards: narratives that the model writes itself, each rewarded against the others of its question.

Group Relative Policy Optimization as the paper's appendix C.5 and its code have it (METHODS 9.6): of each question some
narratives are drawn at temperature 1. A wrong one in no form is worth 0, a wrong one in form 0.1, a right one 1 less
0.1 a search (five at most; a step may search several times). Its advantage is its reward less the mean of the group,
over the group's deviation. The loss of a narrative is the mean over its own tokens of -advantage * ratio +
0.001 * KL(model || the one it began with); passages that it has read are masked. Every group is learned from once, so
the ratio is 1 and only its gradient counts.

Differs from the paper:
- 32 questions of 8 narratives make a step there, at 1e-6 for all weights; here 4 questions, and an adapter's rate.
- Sub-queries are looked up among the passages that the run's trees have found, by BM25: no index needs to be open.
- Form is the whole narrative and nothing else; the code only asks whether two tags occur in it.
- A group whose rewards are all the same is not learned from: nothing of it but KL would count, for twice the time.
- A narrative searches as often as the run's trees have steps, reads as many passages each time as they do, and writes
  at most 256 tokens of its own; the code lets it take 8 turns.
- A narrative ends at 4096 tokens with all that it has read, be it within a passage: memory has to hold it.
- The loss that is told is the negative mean reward, in training as for what is held out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adaptrag_cli import prompts
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.metrics import exact_match
from adaptrag_cli.learning.examples import held_out_questions
from adaptrag_cli.learning.fitting import LONG
from adaptrag_cli.learning.lora import LoraWeights, lora_weights, save_memory, trainable, with_weights
from adaptrag_cli.learning.losses import group_advantages, grpo_reward
from adaptrag_cli.learning.rollouts import Limits, Rollout, Search, WritingTokens, search_among, write_group
from adaptrag_cli.learning.runs import Explored
from adaptrag_cli.learning.stages import MIN_QUESTIONS, Parted

if TYPE_CHECKING:
    import torch

KL = 0.001
GROUP = 8


@dataclass(frozen=True, kw_only=True)
class Task:
    """A question that is to be answered in the model's own way."""

    question: str
    """The user's turn."""
    golds: tuple[str, ...]

    def __len__(self) -> int:
        return 0  # a pass over narratives decides itself what it keeps in memory


Reward = Callable[[Task, Rollout], float]


def paper_reward(task: Task, rollout: Rollout) -> float:
    """The reward of the paper."""
    return grpo_reward(
        is_right=exact_match(rollout.narrative.final, task.golds),
        is_well_formed=rollout.is_well_formed,
        retrievals=rollout.searches,
    )


def reward_data(explored: Sequence[Explored], *, seed: int) -> tuple[Parted[Task], Search]:
    """The questions of a run, solved or not, some held out; and a search among the passages that it has found.

    Raises:
        ConfigError: there are too few.
    """
    tasks = [Task(question=prompts.follow_ups(each.tree.question), golds=each.golds) for each in explored]
    if len({task.question for task in tasks}) < MIN_QUESTIONS:
        raise ConfigError(
            f"{len(tasks)} questions were explored, and {MIN_QUESTIONS} are needed to learn from",
            "synthesize with more questions",
        )
    held_out = held_out_questions((task.question for task in tasks), seed=seed)
    nodes = (node for each in explored for node in each.tree.nodes.values() if node.steps)
    return Parted(
        train=tuple(task for task in tasks if task.question not in held_out),
        held_out=tuple(task for task in tasks if task.question in held_out),
        too_long=0,
    ), search_among(passage for node in nodes for passage in node.steps[-1].passages)


class GroupLoss:
    """The loss of a question: narratives are drawn, rewarded, and made more or less likely."""

    def __init__(
        self,
        model: Any,
        tokens: WritingTokens,
        search: Search,
        *,
        seed: int,
        reward: Reward = paper_reward,
        group: int = GROUP,
        limits: Limits | None = None,
    ) -> None:
        """Take the model as it is now for the one that KL is measured to."""
        self._model = model
        self._tokens = tokens
        self._search = search
        self._seed = seed
        self._reward = reward
        self._group = group
        self._limits = limits or Limits()
        self._reference: LoraWeights = lora_weights(model)
        self._cursor = -1

    def before_item(self, cursor: int) -> None:
        """Draw anew each time that a question comes up in training; where nothing is learned, draw the same."""
        self._cursor = cursor

    def __call__(self, task: Task) -> torch.Tensor:
        """The negative mean reward as a number, with the gradient of the loss."""
        import torch

        is_learning = torch.is_grad_enabled()
        rollouts = write_group(
            self._model,
            self._tokens,
            task.question,
            self._search,
            group=self._group,
            limits=self._limits,
            seed=_seed_of(self._seed, task.question, self._cursor if is_learning else -1),
        )
        rewards = [self._reward(task, rollout) for rollout in rollouts]
        told = -sum(rewards) / len(rewards)
        if not is_learning:
            return torch.tensor(told)
        weights = list(trainable(self._model).values())
        gradients = self._gradients(weights, rollouts, group_advantages(rewards))
        # Linear in the weights, with the gradient of the loss: what the passes kept is free by now.
        loss = sum(((weight * each).sum() for weight, each in zip(weights, gradients, strict=True)), torch.tensor(0.0))
        return loss - loss.detach() + told

    def _gradients(
        self, weights: Sequence[torch.Tensor], rollouts: Sequence[Rollout], advantages: Sequence[float]
    ) -> list[torch.Tensor]:
        """Of the mean loss, gathered narrative by narrative: memory holds the pass over one at a time."""
        import torch

        gathered = [torch.zeros_like(weight) for weight in weights]
        if not any(advantages):
            return gathered
        with torch.no_grad(), with_weights(self._model, self._reference):
            reference = [own_logprobs(self._model, rollout) for rollout in rollouts]
        for rollout, before, advantage in zip(rollouts, reference, advantages, strict=True):
            save_memory(self._model, len(rollout) > LONG)
            loss = rollout_loss(own_logprobs(self._model, rollout), before, advantage) / len(rollouts)
            for total, gradient in zip(gathered, torch.autograd.grad(loss, weights), strict=True):
                total += gradient
        return gathered


def rollout_loss(logprobs: torch.Tensor, reference: torch.Tensor, advantage: float, *, kl: float = KL) -> torch.Tensor:
    """The loss of one narrative, from log-probabilities of its own tokens; KL by the estimator that is never negative.

    With d = reference - model it is exp(d) - d - 1 (Shao et al., 2024).
    """
    ratio = (logprobs - logprobs.detach()).exp()
    difference = reference - logprobs
    return (-advantage * ratio + kl * (difference.exp() - difference - 1)).mean()


def own_logprobs(model: Any, rollout: Rollout) -> torch.Tensor:
    """Log-probabilities of the tokens that the model has written, shape (own tokens,)."""
    import torch

    device = next(model.parameters()).device
    first = len(rollout.prompt)
    ids = torch.tensor([[*rollout.prompt, *rollout.token_ids]], device=device)
    own = torch.tensor([first + at for at, is_own in enumerate(rollout.is_own) if is_own], device=device)
    logits = model(input_ids=ids, use_cache=False, logits_to_keep=own - 1).logits[0]
    logprobs: torch.Tensor = logits.float().log_softmax(dim=-1).gather(1, ids[0, own, None])[:, 0]
    return logprobs


def _seed_of(seed: int, question: str, cursor: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}:{cursor}:{question}".encode()).digest()[:7], "big")
