"""Model, encoder and store that look into the evaluation's cache first, and the clock that stays honest about it.

A strategy sees the usual protocols. What comes from the cache is charged to the clock with the time that it took when
it was computed, so the seconds of a run do not depend on which strategy went first; and tokens count as reused when a
run on its own would reuse them. What the model still holds of another run's prompt, such as worked examples, is not
evaluated again: it changes no number, and it is charged at the speed at which the model has evaluated prompts so far.
Texts that are decoded in one batch are each charged their share.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from adaptrag_cli.evaluation.cache import EvaluationCache, digest
from adaptrag_cli.evaluation.store_view import StoreView
from adaptrag_cli.index.store import Hit, Store
from adaptrag_cli.models.base import (
    Attention,
    Encoder,
    EncoderFingerprint,
    Generation,
    LabelScores,
    LanguageModel,
    ModelInfo,
    Prompt,
    Token,
)
from adaptrag_cli.models.context import GRANULE, PART, SHORTEST_PART, reusable_prefix

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class WorkClock:
    """Seconds that the work of one run takes: real ones outside the model, charged ones for what the model did."""

    def __init__(self) -> None:
        self._excluded = 0.0
        self._charged = 0.0

    def __call__(self) -> float:
        return time.monotonic() - self._excluded + self._charged

    def exclude(self, seconds: float) -> None:
        """Do not count time that passed: another question's tokens were decoded in it, too."""
        self._excluded += seconds

    def charge(self, seconds: float) -> None:
        """Count time that this run's work takes, whether it passed now or when it was first done."""
        self._charged += seconds


_Value = TypeVar("_Value")


def _decoded(stored: bytes | None, kind: type[_Value]) -> _Value | None:
    """What was stored; an entry that cannot be read, as of an older version, counts as none."""
    if stored is None:
        return None
    try:
        return msgspec.msgpack.decode(stored, type=kind)
    except (msgspec.DecodeError, ValueError):
        return None


class _Pace:
    """How fast a model evaluates prompts, over all that it has evaluated."""

    def __init__(self) -> None:
        self._tokens = 0
        self._seconds = 0.0

    def count(self, tokens: int, seconds: float) -> None:
        self._tokens += tokens
        self._seconds += seconds

    def seconds_for(self, tokens: int) -> float:
        return tokens * self._seconds / self._tokens if self._tokens else 0.0


class CachedModel:
    """A `LanguageModel` that computes only what is not in the cache. Closing it leaves the model to its owner."""

    def __init__(
        self,
        model: LanguageModel,
        cache: EvaluationCache,
        clock: WorkClock,
        *,
        at_once: bool = False,
        variant: str = "",
    ) -> None:
        """
        Args:
            at_once: write a whole text before its first token is given, for a model that several runs share.
            variant: what else decides the numbers, such as a batch that is not bit-equal.
        """
        self._model = model
        self._cache = cache
        self._clock = clock
        self._at_once = at_once
        self._previous: tuple[int, ...] = ()
        """The prompt that the run has evaluated last."""
        self._held: tuple[int, ...] = ()
        """The one that the model itself has: what was remembered never reached it."""
        self._pace = _Pace()
        info = model.info
        self._identity = (
            info.fingerprint,
            version("llama-cpp-python"),
            info.gpu_layers_used,
            # A GPU's numbers depend on the batch; a CPU's on neither threads nor context length.
            variant,
        )

    @property
    def info(self) -> ModelInfo:
        return self._model.info

    def build_prompt(self, user_text: str, *, written: str = "") -> Prompt:
        return self._model.build_prompt(user_text, written=written)

    def token_texts(self, token_ids: Sequence[int]) -> tuple[str, ...]:
        return self._model.token_texts(token_ids)

    def tokenize(self, text: str) -> tuple[int, ...]:
        return self._model.tokenize(text)

    def generate(
        self,
        prompt: Prompt,
        *,
        max_tokens: int,
        stop: Sequence[str] = (),
        max_sentences: int = 0,
        states: Sequence[int] = (),
    ) -> Generator[Token, None, Generation]:
        """Yield tokens, remembered or new; return the whole."""
        ends = (tuple(stop), max_sentences) if max_sentences else (tuple(stop),)
        extras = (("states", *states),) if states else ()
        key = digest(*self._identity, prompt.token_ids, max_tokens, *ends, *extras)
        reused = self._reused(prompt)
        remembered = _decoded(self._cache.get("generation", key), Generation)
        if remembered is not None:
            return self._remembered(replace(remembered, reused_tokens=reused))
        self._warm(prompt, reused)
        computing = self._computed(
            self._model.generate(prompt, max_tokens=max_tokens, stop=stop, max_sentences=max_sentences, states=states),
            key,
            reused,
        )
        return _replayed(_drained(computing)) if self._at_once else computing

    def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelScores:
        """Log-probabilities of labels, remembered or new."""
        key = digest(*self._identity, prompt.token_ids, tuple(labels))
        reused = self._reused(prompt)
        remembered = _decoded(self._cache.get("labels", key), tuple[float, LabelScores])
        if remembered is not None:
            seconds, scores = remembered
            self._clock.charge(seconds)
            return replace(scores, reused_tokens=reused)
        self._warm(prompt, reused)
        started = time.monotonic()
        scores = self._model.label_logprobs(prompt, labels)
        seconds = time.monotonic() - started
        self._pace.count(scores.prompt_tokens - scores.reused_tokens, seconds)
        spared = self._charge_spared(scores.reused_tokens - reused)
        self._cache.put("labels", key, msgspec.msgpack.encode((seconds + spared, scores)))
        return replace(scores, reused_tokens=reused)

    def attend(self, prompt: Prompt, continuation: Sequence[int], *, layer: int = -1) -> Attention:
        """What tokens attend to, computed anew each time."""
        if prompt.token_ids:  # what is read alone is evaluated beside it
            whole = Prompt(text="", token_ids=(*prompt.token_ids, *continuation))
            self._warm(whole, self._reused(whole))
        return self._model.attend(prompt, continuation, layer=layer)

    def prompt_states(self, prompt: Prompt, layers: Sequence[int]) -> Mapping[int, tuple[float, ...]]:
        """States of a prompt's last token, remembered or new."""
        key = digest(*self._identity, prompt.token_ids, "prompt_states", *layers)
        reused = self._reused(prompt)
        remembered = _decoded(self._cache.get("states", key), tuple[float, dict[int, tuple[float, ...]]])
        if remembered is not None:
            seconds, known = remembered
            self._clock.charge(seconds)
            return known
        if reused == 0:
            self._model.forget()  # it does not tell what it was spared
        self._warm(prompt, reused)
        started = time.monotonic()
        states = dict(self._model.prompt_states(prompt, layers))
        self._cache.put("states", key, msgspec.msgpack.encode((time.monotonic() - started, states)))
        return states

    def prefill(self, prompt: Prompt) -> None:
        """Evaluate a prompt; the clock counts it."""
        self._warm(prompt, self._reused(prompt))
        self._model.prefill(prompt)

    def forget(self) -> None:
        """Count and charge from here as a run on its own; the model itself keeps what spares it work."""
        self._previous = self._held = ()

    def cancel(self) -> None:
        self._model.cancel()

    def close(self) -> None:
        """Nothing is closed: the model is shared."""

    def _reused(self, prompt: Prompt) -> int:
        """Tokens that the KV cache of a run on its own would hold: whether others have computed it changes no count."""
        reused = reusable_prefix(self._previous, prompt.token_ids, self._granule)
        self._previous = prompt.token_ids
        return reused

    def _warm(self, prompt: Prompt, reused: int) -> None:
        """Let the model hold, off the clock, what it would hold in a run on its own; then it evaluates the prompt."""
        if reused > reusable_prefix(self._held, prompt.token_ids, self._granule):
            begun = time.monotonic()
            beginning = prompt.token_ids[: reused + SHORTEST_PART]
            self._model.prefill(Prompt(text="", token_ids=beginning))
            self._clock.exclude(time.monotonic() - begun)
        self._held = prompt.token_ids

    def _charge_spared(self, tokens: int) -> float:
        """Charge tokens that a run on its own would have evaluated; return the seconds."""
        seconds = self._pace.seconds_for(max(tokens, 0))
        self._clock.charge(seconds)
        return seconds

    @property
    def _granule(self) -> int:
        return PART if self.info.gpu_layers_used else GRANULE

    def _remembered(self, generation: Generation) -> Generator[Token, None, Generation]:
        self._clock.charge(generation.seconds)
        return (yield from _replayed(generation))

    def _computed(
        self, tokens: Generator[Token, None, Generation], key: bytes, reused: int
    ) -> Generator[Token, None, Generation]:
        try:
            while True:
                started = time.monotonic()
                try:
                    token = next(tokens)
                finally:
                    self._clock.exclude(time.monotonic() - started)
                yield token
        except StopIteration as done:
            generation: Generation = done.value
        finally:
            tokens.close()
        self._pace.count(generation.prompt_tokens - generation.reused_tokens, generation.prefill_seconds)
        spared = self._charge_spared(generation.reused_tokens - reused)
        self._clock.charge(generation.seconds)
        generation = replace(generation, seconds=generation.seconds + spared, reused_tokens=reused)
        self._cache.put("generation", key, msgspec.msgpack.encode(generation))
        return generation


def _drained(tokens: Generator[Token, None, Generation]) -> Generation:
    while True:
        try:
            next(tokens)
        except StopIteration as done:
            generation: Generation = done.value
            return generation


def _replayed(generation: Generation) -> Generator[Token, None, Generation]:
    yield from generation.tokens
    return generation


class CachedEncoder:
    """An `Encoder` whose query vectors are computed once."""

    def __init__(self, encoder: Encoder, cache: EvaluationCache, clock: WorkClock) -> None:
        self._encoder = encoder
        self._cache = cache
        self._clock = clock
        self.identity = encoder_identity(encoder.fingerprint)

    @property
    def fingerprint(self) -> EncoderFingerprint:
        return self._encoder.fingerprint

    @property
    def tokenizer_path(self) -> Path:
        return self._encoder.tokenizer_path

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (len(texts), dimension)."""
        import numpy as np

        return np.stack([self._query_vector(text) for text in texts])

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._encoder.encode_documents(texts)

    def _query_vector(self, text: str) -> NDArray[np.float32]:
        stored = self._cache.timed_vector(self.identity, text)
        if stored is not None:
            seconds, known = stored
            self._clock.charge(seconds)
            return known
        started = time.monotonic()
        vector: NDArray[np.float32] = self._encoder.encode_queries([text])[0]
        self._cache.put_text_vector(self.identity, text, time.monotonic() - started, vector)
        return vector


def encoder_identity(fingerprint: EncoderFingerprint) -> str:
    """Digest of everything that decides an encoder's vectors."""
    return digest(asdict(fingerprint)).hex()


class CachedStore(StoreView):
    """A `Store` whose searches are made once."""

    def __init__(self, store: Store, cache: EvaluationCache, clock: WorkClock) -> None:
        super().__init__(store)
        self._cache = cache
        self._clock = clock

    def dense_search(self, vector: NDArray[np.float32], n: int) -> tuple[Hit, ...]:
        """The n rows with the largest inner product."""
        key = digest(self.fingerprint, "dense", vector.tobytes(), n)
        return self._once(key, lambda: self._store.dense_search(vector, n))

    def sparse_search(self, text: str, n: int) -> tuple[Hit, ...]:
        """The n rows with the largest positive BM25 score."""
        return self._once(digest(self.fingerprint, "sparse", text, n), lambda: self._store.sparse_search(text, n))

    def vectors(self, rows: Sequence[int]) -> NDArray[np.float32]:
        """Stored unit vectors; each is kept for the figures of the report, which may be drawn without the index."""
        vectors = self._store.vectors(rows)
        for row, vector in zip(rows, vectors, strict=True):
            self._cache.put_chunk_vector(self.fingerprint, self.chunk(row).chunk_id, vector)
        return vectors

    def _once(self, key: bytes, search: Callable[[], tuple[Hit, ...]]) -> tuple[Hit, ...]:
        remembered = _decoded(self._cache.get("hits", key), tuple[float, tuple[Hit, ...]])
        if remembered is not None:
            seconds, known = remembered
            self._clock.charge(seconds)
            return known
        started = time.monotonic()
        hits = search()
        self._cache.put("hits", key, msgspec.msgpack.encode((time.monotonic() - started, hits)))
        return hits
