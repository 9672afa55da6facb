"""The language model on llama.cpp: greedy tokens, each with its logprob and full-vocabulary entropy."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adaptrag_cli.errors import ConfigError, MissingCapability, ModelError, QueryTooLong
from adaptrag_cli.events import Alternative, StopReason
from adaptrag_cli.models.base import (
    TEXT_CAPABILITIES,
    Attention,
    Generation,
    LabelScores,
    ModelInfo,
    Prompt,
    Token,
)
from adaptrag_cli.models.chat import ChatFrame, SafeTokenizer, frame_of
from adaptrag_cli.models.context import PART, NativeContext
from adaptrag_cli.models.gguf_check import check_gguf
from adaptrag_cli.models.gpu import GpuPlan, plan_gpu
from adaptrag_cli.models.graph_watch import GraphWatch
from adaptrag_cli.models.lanes import MAX_EQUAL_LANES, LockStep
from adaptrag_cli.models.native import llama_library, physical_cores
from adaptrag_cli.models.streaming import PieceDecoder, StopCutter

if TYPE_CHECKING:
    from adaptrag_cli.models.signals import StateMeans


def load_llama_lanes(
    path: Path,
    *,
    name: str,
    fingerprint: str,
    trusted: bool,
    context_length: int = 4096,
    gpu_layers: str = "auto",
    threads: int | None = None,
    signals: bool = False,
    adapter: Path | None = None,
    lanes: int,
) -> tuple[LlamaModel, ...]:
    """Load a GGUF file once for as many texts at a time as there are lanes.

    `trusted` means that its hash is the catalogue's, so it needs no probing. With `signals` there is one sequence more,
    for texts whose attention is wanted without a prompt: they would drive a prompt out of the cache.

    Raises:
        ModelNotFound: there is no such file.
        ModelError: the file is not a model that llama.cpp can run, or the adapter does not go with it.
        ConfigError: a setting makes no sense.
    """
    if not 1 <= lanes <= PART:
        raise ConfigError(f"{lanes} texts cannot be decoded at a time", f"give a number from 1 to {PART}")
    if context_length < 1:
        raise ConfigError(f"a context of {context_length} tokens holds nothing", "context_length is at least 1")
    if threads is not None and threads < 1:
        raise ConfigError(f"{threads} threads cannot run a model", "threads is at least 1")
    check_gguf(path, trusted=trusted, adapter=adapter)
    plan = plan_gpu(gpu_layers, can_offload=bool(llama_library().llama_supports_gpu_offload()))
    threads = threads or physical_cores()
    watch, watch_note = _open_watch() if signals else (None, "")

    def open_with(layers: int) -> NativeContext:
        return NativeContext(
            path,
            context_length=context_length,
            gpu_layers=layers,
            threads=threads,
            sequences=lanes + 1 if watch is not None else lanes,
            watch=watch,
            adapter=adapter,
        )

    context, gpu_reason = open_or_fall_back(open_with, plan)
    tokenizer = SafeTokenizer(context.vocabulary)
    frame, template_note = frame_of(context.chat_template, tokenizer)
    found, signal_notes = _check_signals(context, tokenizer) if watch is not None else (frozenset[str](), (watch_note,))
    info = ModelInfo(
        name=name,
        path=str(path),
        fingerprint=fingerprint,
        context_length=context.context_length,
        vocabulary_size=context.vocabulary_size,
        threads=threads,
        gpu_layers_requested=gpu_layers,
        gpu_layers_used=context.gpu_layers,
        gpu_reason=gpu_reason,
        layer_count=context.layer_count,
        capabilities=TEXT_CAPABILITIES | found,
        notes=tuple(note for note in (template_note, _length_note(context, context_length), *signal_notes) if note),
    )
    has_other_numbers = adapter is not None and context.gpu_layers == 0 and lanes <= MAX_EQUAL_LANES
    decoding = LockStep(context, one_by_one=has_other_numbers)
    return tuple(
        LlamaModel(
            info=info,
            context=context,
            tokenizer=tokenizer,
            frame=frame,
            decoding=decoding,
            sequence=sequence,
            spare_sequence=lanes,
        )
        for sequence in range(lanes)
    )


def load_llama(path: Path, **how: Any) -> LlamaModel:
    """Load a GGUF file for one text at a time; arguments and errors are those of `load_llama_lanes`."""
    return load_llama_lanes(path, lanes=1, **how)[0]


def open_or_fall_back(open_with: Callable[[int], NativeContext], plan: GpuPlan) -> tuple[NativeContext, str]:
    """Open with the planned GPU layers, once more on the CPU when that fails; return the context and the GPU reason."""
    if plan.layers == 0:
        return open_with(0), plan.reason
    try:
        return open_with(plan.layers), plan.reason
    except ModelError as error:
        context = open_with(0)  # a broken file fails here again, with its own reason
        return context, f"running on the CPU, because loading with GPU layers failed: {error.message}"


def _open_watch() -> tuple[GraphWatch | None, str]:
    try:
        return GraphWatch(), ""
    except (ModelError, OSError) as error:
        return None, f"the model gives neither attention nor states: {error}"


def _check_signals(context: NativeContext, tokenizer: SafeTokenizer) -> tuple[frozenset[str], tuple[str, ...]]:
    from adaptrag_cli.models.signal_check import CHECK_TEXT, check_signals  # numpy

    return check_signals(context, tokenizer.plain_ids(CHECK_TEXT))


def _length_note(context: NativeContext, asked: int) -> str:
    if context.context_length == asked:
        return ""
    return f"context shortened from {asked} to {context.context_length} tokens, the length the model was trained with"


class LlamaModel:
    """A `LanguageModel` on one sequence of llama.cpp. One call at a time: a new `generate` ends the one before it."""

    def __init__(
        self,
        *,
        info: ModelInfo,
        context: NativeContext,
        tokenizer: SafeTokenizer,
        frame: ChatFrame,
        decoding: LockStep,
        sequence: int,
        spare_sequence: int,
    ) -> None:
        """
        Args:
            spare_sequence: where texts without a prompt are evaluated; used only by models that give attention.
        """
        self._info = info
        self._context = context
        self._tokenizer = tokenizer
        self._frame = frame
        self._decoding = decoding
        self._sequence = sequence
        self._spare_sequence = spare_sequence
        self._call = 0

    @property
    def info(self) -> ModelInfo:
        return self._info

    def build_prompt(self, user_text: str, *, written: str = "") -> Prompt:
        """Wrap one user turn in the chat template; neither text becomes a control token."""
        return self._tokenizer.build_prompt(self._frame, user_text, written)

    def token_texts(self, token_ids: Sequence[int]) -> tuple[str, ...]:
        """Say what each token of a prompt reads; a character that is spread over several stands with the last one."""
        decoder = PieceDecoder()
        return tuple(decoder.push(self._tokenizer.piece(token_id, special=True)) for token_id in token_ids)

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Ids of an untrusted text's tokens, none of which is a control token."""
        return tuple(self._tokenizer.plain_ids(text))

    def generate(
        self,
        prompt: Prompt,
        *,
        max_tokens: int,
        stop: Sequence[str] = (),
        max_sentences: int = 0,
        states: Sequence[int] = (),
    ) -> Generator[Token, None, Generation]:
        """Yield greedy tokens as they are decoded; return the whole.

        Token texts joined are exactly the text returned: a stop string, the sentence after the last one that is
        wanted, or a last character without its final bytes, is in neither. `states` counts each token that was fed,
        such tokens included; the last token is never fed, for nothing follows it.

        Raises:
            MissingCapability: `states` are wanted and the model does not give them.
            QueryTooLong: prompt and `max_tokens` do not fit the context.
            RunCancelled: `cancel` was called, also during prefill.
        """
        if max_tokens < 1:
            raise ValueError(f"max_tokens is at least 1, got {max_tokens}")
        layers = {layer: self._layer(layer) for layer in states}
        if layers:
            self._require_capability("states")
        self._require_room(prompt, max_tokens)
        self._open_call()
        return self._generate(prompt, max_tokens, StopCutter(stop, max_sentences=max_sentences), layers, self._call)

    def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelScores:
        """Log-probabilities of each label's first token after the prompt, from the raw logits.

        Raises:
            QueryTooLong: the prompt does not fit the context.
            RunCancelled: `cancel` was called.
            ModelError: llama.cpp refuses, or the logits are not numbers.
        """
        from adaptrag_cli.models.logits import logprobs_of  # numpy

        if not all(labels):
            raise ValueError("a label must not be empty")
        reused = self._evaluate(prompt)
        first_ids = [self._tokenizer.plain_ids(label)[0] for label in labels]
        return LabelScores(
            logprobs=logprobs_of(self._context.logits(), first_ids), prompt_tokens=len(prompt), reused_tokens=reused
        )

    def attend(self, prompt: Prompt, continuation: Sequence[int], *, layer: int = -1) -> Attention:
        """Evaluate a text as one prompt, and give the attention of its continuation; the cached prefix is reused.

        Raises:
            MissingCapability: the model does not list `attention` among its capabilities.
            QueryTooLong: both together do not fit the context.
            RunCancelled: `cancel` was called.
            ModelError: what the model computes is no attention to the tokens of the text, or llama.cpp refuses.
        """
        if not continuation:
            raise ValueError("a text that nothing continues attends to nothing")
        layer = self._layer(layer)
        self._require_capability("attention")
        self._require_fits(len(prompt), len(continuation))
        self._open_call()
        sequence = self._sequence if prompt.token_ids else self._spare_sequence
        if sequence != self._sequence:
            self._decoding.open(sequence)
        try:
            token_ids = (*prompt.token_ids, *continuation)
            return self._decoding.attend(sequence, token_ids, first_row=len(prompt), layer=layer)
        finally:
            for each in {sequence, self._sequence}:
                self._decoding.end(each)

    def prompt_states(self, prompt: Prompt, layers: Sequence[int]) -> dict[int, tuple[float, ...]]:
        """Evaluate a prompt, and give the states of its last token; a text that follows it takes it from the cache.

        Raises:
            MissingCapability: the model does not list `states` among its capabilities.
            QueryTooLong: the prompt does not fit the context.
            RunCancelled: `cancel` was called.
            ModelError: llama.cpp refuses.
        """
        numbers = {layer: self._layer(layer) for layer in layers}
        self._require_capability("states")
        self._require_room(prompt, 1)
        self._open_call()
        try:
            states = self._decoding.prompt_states(self._sequence, prompt.token_ids, sorted(set(numbers.values())))
        finally:
            self._decoding.end(self._sequence)
        return {layer: tuple(states[number].tolist()) for layer, number in numbers.items()}

    def prefill(self, prompt: Prompt) -> None:
        """Evaluate a prompt, and keep it in this sequence's KV cache.

        Raises:
            QueryTooLong: the prompt does not fit the context.
            RunCancelled: `cancel` was called.
            ModelError: llama.cpp refuses.
        """
        self._evaluate(prompt)

    def forget(self) -> None:
        """Empty this sequence's KV cache; a generation in progress is over."""
        self._require_open()
        self._call += 1
        self._decoding.end(self._sequence)
        self._context.forget(self._sequence)

    def cancel(self) -> None:
        """Stop the calls in progress, of all lanes. Safe from any thread; forgotten by the next call for itself."""
        self._context.stop.set()

    def close(self) -> None:
        """Free the model and all its lanes. Closing twice is fine."""
        self._context.close()

    def _open_call(self) -> None:
        self._call += 1
        self._decoding.open(self._sequence)

    def _require_open(self) -> None:
        if self._context.is_closed:
            raise RuntimeError("the model was closed")

    def _layer(self, layer: int) -> int:
        """The number of a layer, counted from the front."""
        count = self._info.layer_count
        if not -count <= layer < count:
            raise ValueError(f"layer {layer} of {count}")
        return layer % count

    def _require_capability(self, capability: str) -> None:
        if capability not in self._info.capabilities:
            raise MissingCapability(
                f"model {self._info.name!r} gives no {capability}",
                "load it with signals, or choose another with --model",
            )

    def _require_fits(self, prompt_tokens: int, max_tokens: int) -> None:
        self._require_open()
        if prompt_tokens + max_tokens > self._info.context_length:
            raise QueryTooLong(
                f"a prompt of {prompt_tokens} tokens and an answer of {max_tokens} do not fit the context of "
                f"{self._info.context_length}",
                "ask a shorter question or raise models.context_length",
            )

    def _evaluate(self, prompt: Prompt) -> int:
        """Evaluate a prompt as a call of its own; return the number of its tokens that were in the cache."""
        self._require_room(prompt, 1)
        self._open_call()
        try:
            return self._decoding.begin(self._sequence, prompt.token_ids)
        finally:
            self._decoding.end(self._sequence)

    def _require_room(self, prompt: Prompt, max_tokens: int) -> None:
        self._require_fits(len(prompt), max_tokens)
        if not prompt.token_ids:
            raise ConfigError("the prompt is empty", "ask a question")

    def _generate(
        self, prompt: Prompt, max_tokens: int, cutter: StopCutter, layers: Mapping[int, int], call: int
    ) -> Generator[Token, None, Generation]:
        self._require_current(call)
        try:
            means = self._state_means(layers)
            reused = self._decoding.begin(self._sequence, prompt.token_ids, means)
            prefill_seconds = self._decoding.seconds(self._sequence)
            decoder = PieceDecoder()
            tokens: list[Token] = []
            stop_reason: StopReason = "length"
            for step in range(max_tokens):
                statistics = self._decoding.take(self._sequence)
                if self._tokenizer.ends_generation(statistics.token_id):
                    stop_reason = "end"
                    break
                token = Token(
                    id=statistics.token_id,
                    text=decoder.push(self._tokenizer.piece(statistics.token_id)),
                    logprob=statistics.logprob,
                    entropy=statistics.entropy,
                    alternatives=tuple(Alternative(text=self._shown(i), logprob=p) for i, p in statistics.best),
                )
                released = cutter.push(token)
                if step + 1 < max_tokens and not cutter.stopped:
                    self._decoding.follow(self._sequence, token.id)  # before the token is shown: others may decode it
                for ready in released:
                    tokens.append(ready)
                    yield ready
                    self._require_current(call)
                self._decoding.require_running(self._sequence)
                if cutter.stopped:
                    stop_reason = "stop"
                    break
            for ready in cutter.flush():
                tokens.append(ready)
                yield ready
                self._require_current(call)
            return Generation(
                text="".join(token.text for token in tokens),
                tokens=tuple(tokens),
                stop_reason=stop_reason,
                prompt_tokens=len(prompt),
                reused_tokens=reused,
                seconds=self._decoding.seconds(self._sequence),
                prefill_seconds=prefill_seconds,
                states=means.means() if means is not None else {},
                state_tokens=means.count if means is not None else 0,
            )
        finally:
            if call == self._call:
                self._decoding.end(self._sequence)

    def _state_means(self, layers: Mapping[int, int]) -> StateMeans | None:
        if not layers:
            return None
        from adaptrag_cli.models.signals import StateMeans  # numpy

        return StateMeans(layers)

    def _shown(self, token_id: int) -> str:
        return self._tokenizer.piece(token_id, special=True).decode("utf-8", "replace")

    def _require_current(self, call: int) -> None:
        if call != self._call or self._context.is_closed:
            raise RuntimeError("this generation was ended by a newer one or by close")
