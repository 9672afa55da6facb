"""A language model that follows a script: every call, token and number is known beforehand."""

from __future__ import annotations

import math
import re
import zlib
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from adaptrag_cli.errors import QueryTooLong, RunCancelled
from adaptrag_cli.events import Alternative, StopReason
from adaptrag_cli.models.base import Attention, Generation, LabelScores, ModelInfo, Prompt, Token
from adaptrag_cli.models.streaming import StopCutter

VOCABULARY_SIZE = 50_000
_WORDS = re.compile(r"\s*\S+|\s+")
_TEXTS: dict[int, str] = {}
"""What the tokens that were made so far read."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What one call generates."""

    tokens: tuple[Token, ...]
    stop_reason: StopReason = "end"
    states: tuple[float, ...] = ()
    """What each layer has, where its states are asked for."""
    cancel_at: int | None = None
    """The person stops the run when this token is due; 0 is during the prefill."""


def reply(
    text: str,
    *,
    logprob: float | Sequence[float] = -0.1,
    entropy: float | Sequence[float] = 0.2,
    stop_reason: StopReason = "end",
    states: Sequence[float] = (),
    cancel_at: int | None = None,
) -> Reply:
    """Make a reply of one token per word; numbers are one for all tokens or one for each."""
    words = _WORDS.findall(text)
    logprobs, entropies = _spread(logprob, len(words)), _spread(entropy, len(words))
    tokens = tuple(scripted_token(*numbers) for numbers in zip(words, logprobs, entropies, strict=True))
    return Reply(tokens=tokens, stop_reason=stop_reason, states=tuple(states), cancel_at=cancel_at)


def scripted_token(text: str, logprob: float, entropy: float) -> Token:
    """Make a greedy token: it is the best of its five alternatives, and the rest of the probability is theirs."""
    rest = max(-math.expm1(logprob), 1e-12)
    others = tuple(Alternative(text=f" other{i}", logprob=min(logprob, math.log(rest / 2**i))) for i in range(1, 5))
    best = Alternative(text=text, logprob=logprob)
    return Token(id=_token_id(text), text=text, logprob=logprob, entropy=entropy, alternatives=(best, *others))


@dataclass(kw_only=True)
class ScriptedCall:
    """One call of `generate`; `generation` stays None when it was stopped or left early."""

    prompt: Prompt
    max_tokens: int
    stop: tuple[str, ...]
    max_sentences: int = 0
    states: tuple[int, ...] = ()
    generation: Generation | None = None


@dataclass
class ScriptedModel:
    """A `LanguageModel` that replays replies and fails on a call that its script does not hold.

    A reply of `when` answers every prompt with its words in it (the first that fits), `then` adds to a queue for the
    other prompts.
    """

    name: str = "scripted"
    context_length: int = 4096
    calls: list[ScriptedCall] = field(default_factory=list)
    is_closed: bool = False
    gives_attention: bool = True
    gives_states: bool = False
    attended: list[tuple[Prompt, tuple[int, ...]]] = field(default_factory=list)
    """The calls of `attend`."""
    prefilled: list[tuple[int, ...]] = field(default_factory=list)
    """What was evaluated for the cache alone."""
    _read: list[tuple[str, tuple[float, ...]]] = field(default_factory=list)
    _paid: list[tuple[str, Mapping[str, float]]] = field(default_factory=list)
    _rules: list[tuple[str, Reply]] = field(default_factory=list)
    _queue: deque[Reply] = field(default_factory=deque)
    _labels: list[tuple[str, Mapping[str, float]]] = field(default_factory=list)
    _cached: tuple[int, ...] = ()
    _is_cancelled: bool = False

    def when(self, words: str, answer: Reply) -> ScriptedModel:
        """Answer every prompt that contains the words."""
        self._rules.append((words, answer))
        return self

    def then(self, *answers: Reply) -> ScriptedModel:
        """Answer the next calls in this order."""
        self._queue.extend(answers)
        return self

    @property
    def is_exhausted(self) -> bool:
        """Whether every queued reply was asked for."""
        return not self._queue

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(
            name=self.name,
            path="scripted.gguf",
            fingerprint="sha256:" + "0" * 64,
            context_length=self.context_length,
            vocabulary_size=VOCABULARY_SIZE,
            threads=1,
            gpu_layers_requested="auto",
            gpu_layers_used=0,
            gpu_reason="a script needs no GPU",
            layer_count=2,
            capabilities=frozenset(
                {"text", "logprobs", "entropy"}
                | ({"attention"} if self.gives_attention else set())
                | ({"states"} if self.gives_states else set())
            ),
        )

    def build_prompt(self, user_text: str, *, written: str = "") -> Prompt:
        pieces = ("<user>", user_text, "</user>", "\n<assistant>", written)
        words = [word for piece in pieces for word in _WORDS.findall(piece)]
        return Prompt(text="".join(pieces), token_ids=tuple(_token_id(word) for word in words))

    def token_texts(self, token_ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(_TEXTS[token_id] for token_id in token_ids)

    def tokenize(self, text: str) -> tuple[int, ...]:
        return tuple(_token_id(word) for word in _WORDS.findall(text))

    def generate(
        self,
        prompt: Prompt,
        *,
        max_tokens: int,
        stop: Sequence[str] = (),
        max_sentences: int = 0,
        states: Sequence[int] = (),
    ) -> Generator[Token, None, Generation]:
        assert self.gives_states or not states, "a strategy asks only for what the model gives"
        if max_tokens < 1:
            raise ValueError("max_tokens must be at least 1")
        if len(prompt) + max_tokens > self.context_length:
            raise QueryTooLong(f"{len(prompt)} + {max_tokens} tokens do not fit {self.context_length}")
        answer = self._reply_to(prompt)
        call = ScriptedCall(
            prompt=prompt,
            max_tokens=max_tokens,
            stop=tuple(stop),
            max_sentences=max_sentences,
            states=tuple(states),
        )
        self.calls.append(call)
        self._is_cancelled = False
        return self._generate(call, answer)

    def labels(self, words: str, logprobs: Mapping[str, float]) -> ScriptedModel:
        """Score labels after every prompt that contains the words."""
        self._labels.append((words, logprobs))
        return self

    def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelScores:
        if len(prompt) + 1 > self.context_length:
            raise QueryTooLong(f"{len(prompt)} tokens do not fit {self.context_length}")
        found = next((logprobs for words, logprobs in self._labels if words in prompt.text), None)
        assert found is not None, f"the script scores no labels after: {prompt.text}"
        reused = _common_prefix(self._cached, prompt.token_ids)
        self._cached = prompt.token_ids
        return LabelScores(
            logprobs=tuple(found[label] for label in labels), prompt_tokens=len(prompt), reused_tokens=reused
        )

    def pays(self, token: str, shares: Mapping[str, float]) -> ScriptedModel:
        """Let every token that reads so pay these shares to the tokens before it, and the rest to itself.

        Of equal tokens before it the last one is paid. Tokens without a script pay all to themselves.
        """
        self._paid.append((token, shares))
        return self

    def attend(self, prompt: Prompt, continuation: Sequence[int], *, layer: int = -1) -> Attention:
        assert self.gives_attention, "a strategy asks only for what the model gives"
        self.attended.append((prompt, tuple(continuation)))
        texts = [text.strip() for text in self.token_texts([*prompt.token_ids, *continuation])]
        first_row = len(prompt)
        rows = np.zeros((len(continuation), len(texts)), dtype=np.float32)
        for r, position in enumerate(range(first_row, len(texts))):
            shares = next((shares for token, shares in self._paid if token == texts[position]), {})
            for token, share in shares.items():
                if token in texts[:position]:
                    rows[r, position - 1 - texts[:position][::-1].index(token)] = share
            rows[r, position] = 1 - rows[r].sum()
        among = rows[:, first_row:]
        later = np.tril(among, k=-1)
        return Attention(rows=rows, first_row=first_row, received=among.max(axis=0), received_later=later.max(axis=0))

    def reads(self, words: str, state: Sequence[float]) -> ScriptedModel:
        """Give each layer this state at the end of every prompt that contains the words."""
        self._read.append((words, tuple(state)))
        return self

    def prompt_states(self, prompt: Prompt, layers: Sequence[int]) -> dict[int, tuple[float, ...]]:
        assert self.gives_states, "a strategy asks only for what the model gives"
        if len(prompt) + 1 > self.context_length:
            raise QueryTooLong(f"{len(prompt)} tokens do not fit {self.context_length}")
        found = next((state for words, state in self._read if words in prompt.text), None)
        assert found is not None, f"the script holds no state after: {prompt.text}"
        self._cached = prompt.token_ids
        return dict.fromkeys(layers, found)

    def prefill(self, prompt: Prompt) -> None:
        self.prefilled.append(prompt.token_ids)
        self._cached = prompt.token_ids

    def forget(self) -> None:
        self._cached = ()

    def cancel(self) -> None:
        self._is_cancelled = True

    def close(self) -> None:
        self.is_closed = True

    def _reply_to(self, prompt: Prompt) -> Reply:
        for words, answer in self._rules:
            if words in prompt.text:
                return answer
        assert self._queue, f"the script holds no reply to: {prompt.text}"
        return self._queue.popleft()

    def _generate(self, call: ScriptedCall, answer: Reply) -> Generator[Token, None, Generation]:
        reused = _common_prefix(self._cached, call.prompt.token_ids)
        self._cached = ()
        cutter = StopCutter(call.stop, max_sentences=call.max_sentences)
        tokens: list[Token] = []
        for step, token in enumerate(answer.tokens[: call.max_tokens]):
            if self._is_cancelled or answer.cancel_at == step:
                raise RunCancelled("stopped")
            self._cached = call.prompt.token_ids
            for ready in cutter.push(token):
                tokens.append(ready)
                yield ready
            if cutter.stopped:
                break
        for ready in cutter.flush():
            tokens.append(ready)
            yield ready
        is_cut = len(answer.tokens) > call.max_tokens
        call.generation = Generation(
            text="".join(token.text for token in tokens),
            tokens=tuple(tokens),
            stop_reason="stop" if cutter.stopped else "length" if is_cut else answer.stop_reason,
            prompt_tokens=len(call.prompt),
            reused_tokens=reused,
            states=dict.fromkeys(call.states, answer.states) if answer.states else {},
            state_tokens=len(tokens) if call.states and answer.states else 0,
        )
        return call.generation


def _token_id(word: str) -> int:
    token_id = zlib.crc32(word.encode("utf-8", "surrogatepass")) % VOCABULARY_SIZE
    _TEXTS[token_id] = word
    return token_id


def _spread(value: float | Sequence[float], count: int) -> list[float]:
    return [value] * count if isinstance(value, int | float) else list(value)


def _common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
