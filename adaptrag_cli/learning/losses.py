"""What training minimises: cross-entropy of what a model writes, calibration of its decisions, rewards (DeepRAG).

Equations are those of the paper's sections 3.4, 3.5 and appendix A; the printed sum inside the logarithm of its first
loss is read as the product of the probabilities, which cross-entropy is (METHODS 9.4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

IGNORED = -100
"""The label of a token that is read and not learned."""
BETA = 0.4
"""Of the calibration loss, from the released code."""


def token_cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean negative log-probability of the learned tokens; logits (batch, tokens, vocabulary), labels (batch, tokens).

    A text none of whose tokens is learned costs 0, not nothing that is a number.
    """
    from torch.nn.functional import cross_entropy

    shifted = labels[:, 1:]
    total = cross_entropy(
        logits[:, :-1].flatten(0, 1).float(), shifted.flatten(), ignore_index=IGNORED, reduction="sum"
    )
    return total / (shifted != IGNORED).sum().clamp(min=1)


def calibration_losses(
    preferred: torch.Tensor,
    rejected: torch.Tensor,
    reference_preferred: torch.Tensor,
    reference_rejected: torch.Tensor,
    *,
    beta: float = BETA,
) -> torch.Tensor:
    """The calibration loss of each pair, from log-probabilities of its continuations, all of shape (pairs,)."""
    from torch.nn.functional import logsigmoid

    margin = (preferred - reference_preferred) - (rejected - reference_rejected)
    return -logsigmoid(beta * margin)


@dataclass(frozen=True, kw_only=True)
class Fork:
    """A prefix and two continuations as one text, in which neither continuation sees the other."""

    token_ids: tuple[int, ...]
    positions: tuple[int, ...]
    """Both continuations stand at the positions behind the prefix."""
    prefix: int
    first: int
    """Tokens of the first continuation."""
    is_learned: tuple[bool, ...]
    """Of each token behind the prefix: whether it counts, or is a passage's that is only read."""


def fork(
    prefix: Sequence[int], first: Sequence[int], second: Sequence[int], is_learned: Sequence[bool] | None = None
) -> Fork:
    """Put two continuations behind one prefix; all their tokens count where nothing else is said.

    Raises:
        ValueError: one of the three is empty.
    """
    if not (prefix and first and second):
        raise ValueError("a fork has a prefix and two continuations")
    n = len(prefix)
    return Fork(
        token_ids=(*prefix, *first, *second),
        positions=(*range(n + len(first)), *range(n, n + len(second))),
        prefix=n,
        first=len(first),
        is_learned=(True,) * (len(first) + len(second)) if is_learned is None else tuple(is_learned),
    )


def fork_mask(made: Fork) -> torch.Tensor:
    """What each token may see, True where it may: shape (1, 1, tokens, tokens)."""
    import torch

    n = len(made.token_ids)
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    split = made.prefix + made.first
    mask[split:, made.prefix : split] = False
    return mask[None, None]


def fork_logprobs(model: Any, made: Fork) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability of what counts of each continuation, from one forward pass; `model` is a causal transformer."""
    import torch

    device = next(model.parameters()).device
    ids = torch.tensor([made.token_ids], device=device)
    allowed = fork_mask(made).to(device)
    # A mask that is added to the scores is what every attention of the library takes.
    mask = torch.zeros(allowed.shape, device=device).masked_fill(~allowed, torch.finfo(torch.float32).min)
    positions = torch.tensor([made.positions], device=device)
    split, end = made.prefix + made.first, len(made.token_ids)
    before = [*range(made.prefix - 1, split - 1), made.prefix - 1, *range(split, end - 1)]
    learned = [at for at, counts in enumerate(made.is_learned) if counts]
    needed = torch.tensor([before[at] for at in learned], device=device)
    # Logits of all tokens would take more memory than the model: 0.6 MB each at 150,000 words.
    logits = model(
        input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False, logits_to_keep=needed
    ).logits[0]
    logprobs = logits.float().log_softmax(dim=-1)
    own = logprobs.gather(1, ids[0, made.prefix :][learned, None])[:, 0]
    first = sum(made.is_learned[: made.first])
    return own[:first].sum(), own[first:].sum()


def process_cost(is_right: bool, retrievals: int) -> tuple[bool, int]:
    """What compares two outcomes, the lower the better: a wrong one is worse than any number of retrievals.

    The paper's -C(o) T(s) with an infinite C is undefined for a wrong answer that retrieved nothing.
    """
    return (not is_right, retrievals)


def grpo_reward(*, is_right: bool, is_well_formed: bool, retrievals: int) -> float:
    """Reward of a rollout: 0 for nothing usable, 0.1 for form, and 1 for an answer less 0.1 a retrieval, up to 5."""
    if is_right:
        return 1 - 0.1 * min(5, retrievals)
    return 0.1 if is_well_formed else 0.0


def group_advantages(rewards: Sequence[float]) -> tuple[float, ...]:
    """Rewards of one question's rollouts, less their mean, over their deviation; all 0 where they are equal."""
    n = len(rewards)
    mean = sum(rewards) / n
    differences = [reward - mean for reward in rewards]
    deviation = math.sqrt(sum(d * d for d in differences) / n)
    return tuple(d / deviation for d in differences) if deviation > 1e-12 else (0.0,) * n
