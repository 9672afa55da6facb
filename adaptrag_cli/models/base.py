"""What a language model, an encoder and a reranker must do, and the table of language-model backends.

A backend is named by the suffix of its files and imported only when one is loaded, so this module never imports its
members.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from adaptrag_cli.errors import ModelError
from adaptrag_cli.events import Alternative, EntropySupport, StopReason

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Token:
    """One generated token. Numbers come from the raw logits over the whole vocabulary."""

    id: int
    """-1 when it is not known: a token read back from a trace has only its text and numbers."""
    text: str
    """May be empty while a character is spread over several tokens; the token that completes it carries it."""
    logprob: float
    """Natural log."""
    entropy: float
    """Nats, 0 <= entropy <= ln(vocabulary size)."""
    alternatives: tuple[Alternative, ...]
    """The five best tokens, best first."""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A tokenised prompt and its readable form."""

    text: str
    token_ids: tuple[int, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.token_ids)


@dataclass(frozen=True, kw_only=True)
class Generation:
    """What one LLM call gave. The end-of-turn token is not among `tokens`."""

    text: str
    """Joined token texts, cut at the stop string if one ended it."""
    tokens: tuple[Token, ...]
    stop_reason: StopReason
    prompt_tokens: int
    reused_tokens: int
    """Prompt tokens that were already in the KV cache."""
    seconds: float = 0.0
    """What it cost: its own prefill, and its share of each step that it was decoded in with others. 0: not measured."""
    prefill_seconds: float = 0.0
    """Of these, what the evaluation of its prompt took."""
    states: Mapping[int, tuple[float, ...]] = field(default_factory=dict, hash=False)
    """Residual state after each layer that was asked for, mean over the generated tokens that were fed (METHODS 8).

    The prompt's tokens do not count, and the last one that was generated is never fed. Empty when none was fed.
    """
    state_tokens: int = 0
    """How many tokens `states` is the mean of."""


@dataclass(frozen=True, kw_only=True)
class LabelScores:
    """How likely each of some labels is the next thing the model writes."""

    logprobs: tuple[float, ...]
    """Natural log of the probability of each label's first token, over the whole vocabulary."""
    prompt_tokens: int
    reused_tokens: int


@dataclass(frozen=True, kw_only=True)
class Attention:
    """What the last tokens of a text pay to all tokens up to themselves, in one layer, mean over heads."""

    rows: NDArray[np.float32]
    """(n_rows, n_keys): row r is what continuation token r pays; 0 behind itself. Each row sums to 1."""
    first_row: int
    """Position of the first row's token among the n_keys tokens: n_keys - n_rows."""
    received: NDArray[np.float32]
    """(n_rows,): mean over heads of the most that continuation token i receives from a row, its own included."""
    received_later: NDArray[np.float32]
    """(n_rows,): the same from later rows alone; 0 for the last token."""


TEXT_CAPABILITIES = frozenset({"text", "logprobs", "entropy"})
SIGNALS = frozenset({"attention", "states"})
"""Capabilities that look into the model while it computes."""


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """What is known of a loaded model."""

    name: str
    path: str
    fingerprint: str
    """`sha256:...` of the file when verified, else of its size and first and last mebibyte (`partial:...`)."""
    context_length: int
    vocabulary_size: int
    threads: int
    gpu_layers_requested: str
    gpu_layers_used: int
    gpu_reason: str
    layer_count: int
    """Attention and states are asked for by number, 0 to this less one."""
    entropy_support: EntropySupport = "full"
    capabilities: frozenset[str] = TEXT_CAPABILITIES
    """`attention` and `states` (`SIGNALS`) only when the model was loaded for them and passed its check."""
    notes: tuple[str, ...] = ()
    """What the user should know about this load, such as a shortened context or a missing chat template."""


class LanguageModel(Protocol):
    """A local causal language model. Greedy decoding; the same prompt always gives the same numbers."""

    @property
    def info(self) -> ModelInfo: ...

    def build_prompt(self, user_text: str, *, written: str = "") -> Prompt:
        """Wrap one user turn in the model's chat template; the model goes on from what it has `written` in its own.

        Both texts are untrusted: control tokens inside them are tokenised as plain text.
        """
        ...

    def token_texts(self, token_ids: Sequence[int]) -> tuple[str, ...]:
        """Say what each token of a prompt reads; a character that is spread over several stands with the last one."""
        ...

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Ids of an untrusted text's tokens, none of which is a control token."""
        ...

    def generate(
        self,
        prompt: Prompt,
        *,
        max_tokens: int,
        stop: Sequence[str] = (),
        max_sentences: int = 0,
        states: Sequence[int] = (),
    ) -> Generator[Token, None, Generation]:
        """Yield tokens as they are decoded; return the whole. `max_sentences` ends it when one more begins.

        `states` are the layers whose mean state is wanted (-1: the last).

        Raises:
            MissingCapability: `states` are asked of a model that does not list them among its capabilities.
            QueryTooLong: prompt and `max_tokens` do not fit the context.
            RunCancelled: `cancel` was called, also during prefill.
        """
        ...

    def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelScores:
        """Evaluate a prompt once and compare labels such as `Yes` and `No` as its continuation.

        Raises:
            QueryTooLong: the prompt does not fit the context.
            RunCancelled: `cancel` was called.
            ModelError: the model gives no distribution, or the backend refuses.
        """
        ...

    def attend(self, prompt: Prompt, continuation: Sequence[int], *, layer: int = -1) -> Attention:
        """Evaluate a prompt and the tokens that go on from it, and say what these attend to in a layer (-1: the last).

        The prompt may be empty: then the tokens stand alone.

        Raises:
            MissingCapability: the model does not list `attention` among its capabilities.
            QueryTooLong: both together do not fit the context.
            RunCancelled: `cancel` was called.
            ModelError: what the model computes is no attention to the tokens of the text, or the backend refuses.
        """
        ...

    def prompt_states(self, prompt: Prompt, layers: Sequence[int]) -> Mapping[int, tuple[float, ...]]:
        """Evaluate a prompt once, and give the residual state after each layer (-1: the last) of its last token.

        Raises:
            MissingCapability: the model does not list `states` among its capabilities.
            QueryTooLong: the prompt does not fit the context.
            RunCancelled: `cancel` was called.
            ModelError: the backend refuses.
        """
        ...

    def prefill(self, prompt: Prompt) -> None:
        """Evaluate a prompt, so that one that begins with it finds it in the KV cache.

        Raises:
            QueryTooLong: the prompt does not fit the context.
            RunCancelled: `cancel` was called.
        """
        ...

    def forget(self) -> None:
        """Empty the KV cache, so that the next prompt costs what it costs alone."""
        ...

    def cancel(self) -> None:
        """Stop the call in progress within half a second. Safe from any thread or signal-wakeup thread.

        Models that were loaded together are stopped together.
        """
        ...

    def close(self) -> None: ...


LANGUAGE_MODELS = {".gguf": "adaptrag_cli.models.llama:load_llama_lanes"}
"""What loads a model file, by its suffix."""


def load_lanes(
    path: Path,
    *,
    lanes: int,
    name: str,
    fingerprint: str,
    trusted: bool,
    context_length: int = 4096,
    gpu_layers: str = "auto",
    threads: int | None = None,
    signals: bool = False,
    adapter: Path | None = None,
) -> tuple[LanguageModel, ...]:
    """Load a model file once, as so many models that write a text each; closing one closes all.

    `trusted` means that the file's hash is the catalogue's. `signals` lets the models give attention and states, at a
    small cost of speed and for the memory of one more KV cache of the whole context length, in which a text is read
    alone; where one cannot, it says so in its notes. Taking a token of each in turn decodes them as one
    batch. `adapter` is a file of weights that are added to the model's; name and fingerprint are those of both.

    Raises:
        ModelNotFound: there is no such file.
        ModelError: no backend loads such files, the file is not what its suffix says, or the adapter does not go with
            it.
        ConfigError: a setting makes no sense, such as no lane at all.
    """
    suffix = path.suffix.lower()
    if suffix not in LANGUAGE_MODELS:
        raise ModelError(f"no backend loads {path}", f"give a file that ends in {' or '.join(LANGUAGE_MODELS)}")
    module, _, function = LANGUAGE_MODELS[suffix].partition(":")
    load: Callable[..., tuple[LanguageModel, ...]] = getattr(import_module(module), function)
    return load(
        path,
        lanes=lanes,
        name=name,
        fingerprint=fingerprint,
        trusted=trusted,
        context_length=context_length,
        gpu_layers=gpu_layers,
        threads=threads,
        signals=signals,
        adapter=adapter,
    )


@dataclass(frozen=True, kw_only=True)
class EncoderFingerprint:
    """Everything that decides a vector. Two equal fingerprints give comparable vectors."""

    name: str
    file_sha256: str
    """Of the weights."""
    dimension: int
    pooling: str
    normalised: bool
    query_prefix: str
    document_prefix: str
    max_length: int
    """Window in the encoder's tokens, special tokens included."""
    backend: str = ""
    """What computes the vectors, with the version that decides their last bits; empty in an index older than this."""


@runtime_checkable
class Encoder(Protocol):
    """Texts to unit vectors."""

    @property
    def fingerprint(self) -> EncoderFingerprint: ...

    @property
    def tokenizer_path(self) -> Path:
        """The `tokenizer.json` that the chunker counts with."""
        ...

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (len(texts), dimension)."""
        ...

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (len(texts), dimension), in the order given."""
        ...


@dataclass(frozen=True, kw_only=True)
class RerankScores:
    """What reading some pairs gave, and what it cost."""

    scores: tuple[float, ...]
    """Raw logits or log-odds, in the order of the pairs; higher is better."""
    prompt_tokens: tuple[int, ...] = ()
    """Of the language model's call for each pair; empty for a cross-encoder, which makes none."""
    reused_tokens: tuple[int, ...] = ()


@runtime_checkable
class Reranker(Protocol):
    """A query and a text, read together, to one score."""

    @property
    def name(self) -> str: ...

    def score(self, pairs: Sequence[tuple[str, str]]) -> RerankScores:
        """Read pairs of query and text."""
        ...
