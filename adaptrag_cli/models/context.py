"""One model and one context of llama.cpp, through its low-level API: evaluate, reuse, stop, read logits.

The numbers of a prompt must not depend on how it got into the KV cache. llama.cpp's CPU kernels work on four tokens at
a time and finish a remainder with other kernels, and small batches take another path altogether. So every part given to
`llama_decode` is a multiple of `GRANULE` tokens and at least `SHORTEST_PART`; only the last part of a prompt may leave
a remainder, and that remainder is never reused, nor are tokens that were generated one by one. Flash attention is off.
`tests/real/test_llama_reproducible.py` guards this on the machine it runs on. On a GPU no such granule is known, so
there only whole parts are reused, which makes equal prompts equal sequences of calls.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adaptrag_cli.errors import ModelError, RunCancelled
from adaptrag_cli.models.native import StopFlag, forget_native_errors, llama_library, native_reason

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from adaptrag_cli.models.base import Attention
    from adaptrag_cli.models.graph_watch import GraphWatch

PART = 128
"""Tokens per `llama_decode`: a GPU looks at the stop flag only between parts."""
GRANULE = 4
SHORTEST_PART = 8
_ABORTED = 2


def prefill_parts(start: int, end: int) -> list[tuple[int, int]]:
    """Cut the tokens [start, end) of a prompt into parts; the last but one lends tokens to a last that is short."""
    parts: list[tuple[int, int]] = []
    while end - start > PART:
        size = PART if end - start - PART >= SHORTEST_PART else PART - SHORTEST_PART
        parts.append((start, start + size))
        start += size
    return [*parts, (start, end)]


def reusable_prefix(cached: Sequence[int], wanted: Sequence[int], granule: int) -> int:
    """Count the tokens of `wanted` whose cached values equal those of a fresh evaluation.

    Both prompts keep at least a shortest part behind the cut, so no remainder and no shortened part is reused.
    """
    pairs = zip(cached, wanted, strict=False)
    common = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(cached), len(wanted)))
    usable = min(common, len(cached) - SHORTEST_PART, len(wanted) - SHORTEST_PART)
    return max(usable, 0) // granule * granule


class NativeContext:
    """A loaded model with its context. Only `stop.set` may be called from another thread."""

    def __init__(
        self,
        path: Path,
        *,
        context_length: int,
        gpu_layers: int,
        threads: int,
        sequences: int = 1,
        watch: GraphWatch | None = None,
        adapter: Path | None = None,
    ) -> None:
        """Load the file; a context longer than the model's training is shortened to it.

        Args:
            sequences: texts that are held side by side, each with the whole context length; one more than that fits
                a batch may be held.
            watch: what may look at the nodes of the graph; `attend`, `watch_text` and `step_watched` need it.
            adapter: LoRA file whose weights are added to the model's in every evaluation.

        Raises:
            ModelError: llama.cpp cannot load the file, it is not a model that writes text, or the adapter is no LoRA of
                its shapes.
        """
        self._native = llama_library()
        self._path = path
        self._context: Any = None
        self._watch = watch
        self._model = self._load_model(gpu_layers)
        try:
            self._require_text_generator()
            self.trained_length = int(self._native.llama_model_n_ctx_train(self._model))
            self.context_length = (
                min(context_length, self.trained_length) if self.trained_length > 0 else context_length
            )
            self._sequences = sequences
            lora = self._load_adapter(adapter)
            self._context = self._make_context(threads)
            self._memory = self._native.llama_get_memory(self._context)
            if not self._memory:
                raise ModelError(f"{path} is not a model that writes text", "use a causal language model (GGUF)")
            self._set_adapter(lora, adapter)
        except BaseException:
            self.close()
            raise
        self.vocabulary = self._native.llama_model_get_vocab(self._model)
        self.vocabulary_size = int(self._native.llama_vocab_n_tokens(self.vocabulary))
        self.layer_count = int(self._native.llama_model_n_layer(self._model))
        all_layers = self.layer_count + 1  # the output layer counts as one
        self.gpu_layers = all_layers if gpu_layers < 0 else min(gpu_layers, all_layers)
        self.stop = StopFlag()
        self.stop.attach(self._context)
        self._granule = PART if self.gpu_layers else GRANULE
        self._cached: dict[int, tuple[int, ...]] = {}
        """The prompt whose values each sequence holds."""
        self._lengths = [0] * sequences
        """Tokens evaluated in each sequence."""

    @property
    def chat_template(self) -> str | None:
        """The chat template that the file carries."""
        template = self._native.llama_model_chat_template(self._model, None)
        return template.decode("utf-8", "replace") if template else None

    @property
    def width(self) -> int:
        """Numbers in the residual state of a token."""
        return int(self._native.llama_model_n_embd(self._model))

    @property
    def keeps_all_keys(self) -> bool:
        """Whether each layer keeps every token of a text in the cell of its number: no window, no recurrent state."""
        native, model = self._native, self._model
        return not (
            native.llama_model_is_recurrent(model)
            or native.llama_model_is_hybrid(model)
            or native.llama_model_n_swa(model) > 0
        )

    def prefill(
        self,
        token_ids: Sequence[int],
        sequence: int = 0,
        *,
        most_reused: int | None = None,
        around_part: Callable[[int, int], AbstractContextManager[None]] = lambda start, end: nullcontext(),
    ) -> int:
        """Evaluate a prompt from the start of a sequence; return how many of its tokens were in the cache already.

        Args:
            most_reused: evaluate the tokens from this one on in any case.
            around_part: what each part [start, end) is evaluated in.

        Raises:
            RunCancelled: the stop flag was set.
            ModelError: llama.cpp refuses.
        """
        reused = reusable_prefix(self._cached.pop(sequence, ()), token_ids, self._granule)
        if most_reused is not None:
            reused = min(reused, most_reused // self._granule * self._granule)
        # Recurrent and sliding-window models refuse to forget a part: then everything is evaluated again.
        if reused == 0 or not self._native.llama_memory_seq_rm(self._memory, sequence, reused, -1):
            reused = 0
            self.forget(sequence)
        self._lengths[sequence] = reused
        for start, end in prefill_parts(reused, len(token_ids)):
            with around_part(start, end):
                self._evaluate(token_ids[start:end], sequence)
        self._cached[sequence] = tuple(token_ids)
        return reused

    def attend(self, token_ids: Sequence[int], *, first_row: int, layer: int, sequence: int = 0) -> Attention:
        """Evaluate a text as a prompt, and return the attention that its tokens pay from the `first_row`-th on.

        Raises:
            RunCancelled: the stop flag was set.
            ModelError: llama.cpp refuses, or computes no such attention.
        """
        from adaptrag_cli.models.signals import AttentionReader  # numpy

        heads = int(self._native.llama_model_n_head(self._model))
        reader = AttentionReader(layer=layer, heads=heads, first_row=first_row, n_keys=len(token_ids))
        around_part = partial(reader.part, self._require_watch())
        self.prefill(token_ids, sequence, most_reused=first_row, around_part=around_part)
        return reader.result()

    def prompt_states(
        self, token_ids: Sequence[int], layers: Sequence[int], sequence: int = 0
    ) -> dict[int, NDArray[np.float32]]:
        """Evaluate a prompt, and return the state of its last token after some layers, each of shape (width,).

        Raises:
            RunCancelled: the stop flag was set.
            ModelError: llama.cpp refuses, or computes no such state.
        """
        from adaptrag_cli.models.signals import NodeReader, state_name  # numpy

        reader = NodeReader([state_name(layer) for layer in layers])
        watch, last = self._require_watch(), len(token_ids)
        self.prefill(
            token_ids, sequence, around_part=lambda _, end: reader.read(watch) if end == last else nullcontext()
        )
        return {layer: reader.last_row(state_name(layer), self.width) for layer in layers}

    def watch_text(self, token_ids: Sequence[int], names: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Evaluate a text of at most `PART` tokens alone in the first sequence, as if all its logits were wanted.

        Returns:
            The values of each named node of the graph, shape (len(token_ids), its width).

        Raises:
            RunCancelled: the stop flag was set.
            ModelError: llama.cpp refuses, or computes no such node for each token.
        """
        from adaptrag_cli.models.signals import NodeReader

        reader = NodeReader(names)
        self.forget(0)
        with reader.read(self._require_watch()):
            self._decode_batch([(token_id, 0, i, True) for i, token_id in enumerate(token_ids)])
        self.forget(0)
        return {name: reader.rows(name, len(token_ids)) for name in names}

    def step_watched(self, tokens: Mapping[int, int], layers: Sequence[int]) -> dict[int, NDArray[np.float32]]:
        """Do a `step`, and return the states of its tokens after some layers, each of shape (len(tokens), width)."""
        from adaptrag_cli.models.signals import NodeReader, state_name

        reader = NodeReader([state_name(layer) for layer in layers])
        with reader.read(self._require_watch()):
            self.step(tokens)
        return {layer: reader.rows(state_name(layer), len(tokens)) for layer in layers}

    def step(self, tokens: Mapping[int, int]) -> None:
        """Evaluate one generated token of each given sequence, as one batch.

        Raises:
            RunCancelled: the stop flag was set.
            ModelError: llama.cpp refuses.
        """
        if self._sequences == 1:
            self._evaluate(tuple(tokens.values()), 0)
            return
        self._decode_batch(
            [(token_id, sequence, self._lengths[sequence], True) for sequence, token_id in tokens.items()]
        )
        for sequence in tokens:
            self._lengths[sequence] += 1

    def logits(self, position: int = -1) -> NDArray[np.float32]:
        """Raw logits after a token of the last evaluation, shape (vocabulary,): a view that the next one overwrites.

        Args:
            position: which token of the batch of `step`; -1 is the last.
        """
        import numpy as np

        pointer = self._native.llama_get_logits_ith(self._context, position)
        if not pointer:
            raise ModelError(f"{self._path} gives no logits", "use a causal language model (GGUF)")
        return np.ctypeslib.as_array(pointer, shape=(self.vocabulary_size,))

    def require_running(self) -> None:
        """Raise when the stop flag is set, leaving the context usable.

        Raises:
            RunCancelled: it is.
        """
        if self.stop.is_set:
            self.forget()
            raise RunCancelled("stopped while the model was computing")

    def forget(self, sequence: int | None = None) -> None:
        """Empty the KV cache of one sequence, or of all."""
        for each in range(self._sequences) if sequence is None else (sequence,):
            self._cached.pop(each, None)
            self._lengths[each] = 0
            self._native.llama_memory_seq_rm(self._memory, each, -1, -1)

    def close(self) -> None:
        """Free the native memory. Closing twice is fine."""
        if self._context:
            self._native.llama_free(self._context)
            self._context = None
        if self._model:
            self._native.llama_model_free(self._model)
            self._model = None

    @property
    def is_closed(self) -> bool:
        return self._model is None

    def _require_watch(self) -> GraphWatch:
        if self._watch is None:
            raise RuntimeError("the context was made without a watch")
        return self._watch

    def _evaluate(self, token_ids: Sequence[int], sequence: int = 0) -> None:
        """Evaluate the next tokens of one sequence; the last one's logits are kept."""
        start, last = self._lengths[sequence], len(token_ids) - 1
        if self._sequences == 1:
            array = (self._native.llama_token * len(token_ids))(*token_ids)
            self._decode(self._native.llama_batch_get_one(array, len(token_ids)), len(token_ids), (sequence,))
        else:
            self._decode_batch([(t, sequence, start + i, i == last) for i, t in enumerate(token_ids)])
        self._lengths[sequence] = start + len(token_ids)

    def _decode_batch(self, entries: Sequence[tuple[int, int, int, bool]]) -> None:
        """Evaluate (token, sequence, position, whether its logits are wanted)."""
        batch = self._native.llama_batch_init(len(entries), 0, 1)
        try:
            batch.n_tokens = len(entries)
            for i, (token_id, sequence, position, is_wanted) in enumerate(entries):
                batch.token[i] = token_id
                batch.pos[i] = position
                batch.n_seq_id[i] = 1
                batch.seq_id[i][0] = sequence
                batch.logits[i] = is_wanted
            self._decode(batch, len(entries), {sequence for _, sequence, _, _ in entries})
        finally:
            self._native.llama_batch_free(batch)

    def _decode(self, batch: Any, count: int, sequences: Iterable[int]) -> None:
        self.require_running()
        code = self._native.llama_decode(self._context, batch)
        if self._watch is not None:
            self._watch.raise_failure()
        if code == _ABORTED:
            self.require_running()
        if code != 0:
            for sequence in sequences:
                self.forget(sequence)
            raise ModelError(f"llama.cpp could not evaluate {count} tokens (code {code}) with {self._path}")

    def _load_model(self, gpu_layers: int) -> Any:
        params = self._native.llama_model_default_params()
        params.n_gpu_layers = gpu_layers
        forget_native_errors()
        model = self._native.llama_model_load_from_file(os.fsencode(self._path), params)
        if not model:
            reason = native_reason() or "llama.cpp gives no reason"
            raise ModelError(f"{self._path} cannot be loaded: {reason}", "verify or download the file again")
        return model

    def _make_context(self, threads: int) -> Any:
        params = self._native.llama_context_default_params()
        params.n_ctx = -(-self.context_length // 256) * 256 * self._sequences  # 256 is llama.cpp's own step
        params.n_batch = params.n_ubatch = PART  # a larger batch than micro-batch would be cut with remainders
        params.n_seq_max = self._sequences
        params.kv_unified = False  # sequences that share cells are not bit-equal to one alone
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = 0  # LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.no_perf = True
        if self._watch is not None:
            self._watch.attach(params)
        forget_native_errors()
        context = self._native.llama_init_from_model(self._model, params)
        if not context:
            reason = native_reason() or "probably not enough memory"
            raise ModelError(
                f"no context of {self.context_length} tokens for {self._path}: {reason}", "try a shorter context_length"
            )
        return context

    def _load_adapter(self, adapter: Path | None) -> Any:
        """Load an adapter, which llama.cpp wants before a context is made; it is freed with the model."""
        if adapter is None:
            return None
        forget_native_errors()
        lora = self._native.llama_adapter_lora_init(self._model, os.fsencode(adapter))
        if not lora:
            raise self._misfit(adapter)
        return lora

    def _set_adapter(self, lora: Any, adapter: Path | None) -> None:
        if adapter is None:
            return
        loras, scales = (self._native.llama_adapter_lora_p_ctypes * 1)(lora), (ctypes.c_float * 1)(1.0)
        forget_native_errors()
        if self._native.llama_set_adapters_lora(self._context, loras, 1, scales) != 0:
            raise self._misfit(adapter)

    def _misfit(self, adapter: Path) -> ModelError:
        reason = native_reason() or "llama.cpp gives no reason"
        return ModelError(f"{adapter} does not go with {self._path}: {reason}", "adaptrag models adapters list")

    def _require_text_generator(self) -> None:
        native, model = self._native, self._model
        writes_text = (
            native.llama_model_has_decoder(model)
            and not native.llama_model_has_encoder(model)
            and not native.llama_model_is_diffusion(model)
            and native.llama_vocab_n_tokens(native.llama_model_get_vocab(model)) > 0
        )
        if not writes_text:
            raise ModelError(f"{self._path} is not a model that writes text", "use a causal language model (GGUF)")
