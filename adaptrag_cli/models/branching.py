"""Write the branches of one text with several lanes of a model, each of which keeps what it has last read.

With one lane, every change from one branch to another reads again what the branches do not share: passages, mostly.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import takewhile

from adaptrag_cli.models.base import Generation, LabelScores, LanguageModel, ModelInfo, Prompt, Token


class BranchingModel:
    """Lanes of one model as one that writes one text at a time: each prompt goes to the lane where it costs least.

    That is what is still to be read of it, and what is lost of the prompt that the lane holds.
    """

    def __init__(self, lanes: Sequence[LanguageModel]) -> None:
        self._lanes = lanes
        self._held: list[Sequence[int]] = [()] * len(lanes)

    @property
    def info(self) -> ModelInfo:
        return self._lanes[0].info

    def build_prompt(self, user_text: str, *, written: str = "") -> Prompt:
        """Wrap one user turn in the model's chat template, as `LanguageModel` does."""
        return self._lanes[0].build_prompt(user_text, written=written)

    def generate(self, prompt: Prompt, *, max_tokens: int, stop: Sequence[str]) -> Generator[Token, None, Generation]:
        """Yield tokens as they are decoded, as `LanguageModel` does, with its errors."""
        return self._lane(prompt).generate(prompt, max_tokens=max_tokens, stop=stop)

    def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelScores:
        """Compare labels as continuations of a prompt, as `LanguageModel` does, with its errors."""
        return self._lane(prompt).label_logprobs(prompt, labels)

    def begin(self, prompt: Prompt) -> None:
        """A new text begins with this prompt: every lane that it needs reads that once, and nothing else is kept."""
        self._held = [prompt.token_ids] * len(self._lanes)

    def _lane(self, prompt: Prompt) -> LanguageModel:
        lengths_and_shared = ((len(held), _shared(held, prompt.token_ids)) for held in self._held)
        costs = [(len(prompt) - shared) + (length - shared) for length, shared in lengths_and_shared]
        cheapest = costs.index(min(costs))
        self._held[cheapest] = prompt.token_ids
        return self._lanes[cheapest]


def _shared(first: Sequence[int], second: Sequence[int]) -> int:
    """Tokens that both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))
