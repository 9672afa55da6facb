"""Read and write a model's tokens without its weights: whoever trains sees the very tokens that answering sees."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from adaptrag_cli.errors import ModelError
from adaptrag_cli.models.chat import ChatFrame, SafeTokenizer, frame_of
from adaptrag_cli.models.gguf_check import check_gguf
from adaptrag_cli.models.native import forget_native_errors, llama_library, native_reason


class ChatTokens:
    """The tokens of a model's turns; texts are untrusted, and no control token comes out of their letters."""

    def __init__(self, tokenizer: SafeTokenizer, frame: ChatFrame, end_of_turn: int) -> None:
        self._tokenizer = tokenizer
        self._frame = frame
        self.end_of_turn = end_of_turn
        """What a model writes when its turn is over."""

    def prompt(self, user_text: str, written: str = "") -> tuple[int, ...]:
        """A user's turn, and what the model has written in its own: the tokens of `LanguageModel.build_prompt`."""
        return self._tokenizer.build_prompt(self._frame, user_text, written).token_ids

    def plain(self, text: str) -> tuple[int, ...]:
        """A text's tokens, as `LanguageModel.tokenize` gives them."""
        return tuple(self._tokenizer.plain_ids(text))

    def piece(self, token_id: int) -> bytes:
        """What a token reads; a control token reads nothing."""
        return self._tokenizer.piece(token_id)

    def ends_turn(self, token_id: int) -> bool:
        """Whether a model's turn is over with this token."""
        return self._tokenizer.ends_generation(token_id)


@contextmanager
def open_tokens(path: Path, *, trusted: bool) -> Iterator[ChatTokens]:
    """Open the vocabulary and the chat template of a model file, for as long as the context lasts.

    Raises:
        ModelNotFound: there is no such file.
        ModelError: llama.cpp cannot read it, or it has no token that ends a turn.
    """
    check_gguf(path, trusted=trusted)
    native = llama_library()
    model = _load_vocabulary(path)
    try:
        vocabulary = native.llama_model_get_vocab(model)
        tokenizer = SafeTokenizer(vocabulary)
        template = native.llama_model_chat_template(model, None)
        frame, _ = frame_of(template.decode("utf-8", "replace") if template else None, tokenizer)
        end_of_turn = _end_of_turn(tokenizer, frame)
        if end_of_turn < 0:
            raise ModelError(f"{path} has no token that ends a turn", "take a model that was tuned to chat")
        yield ChatTokens(tokenizer, frame, end_of_turn)
    finally:
        native.llama_model_free(model)


def _end_of_turn(tokenizer: SafeTokenizer, frame: ChatFrame) -> int:
    """The token by which the template ends a user's turn, for it ends the model's alike; else that of a text's end.

    What llama.cpp guesses to be the end of a turn is the end of a text in some files (SmolLM2).
    """
    around = tokenizer.build_prompt(frame, "").token_ids
    before = len(tokenizer.build_prompt(ChatFrame(before=frame.before, after=""), "").token_ids)
    behind = around[before:]
    return next((token_id for token_id in behind if tokenizer.ends_generation(token_id)), tokenizer.eos_id)


def _load_vocabulary(path: Path) -> Any:
    native = llama_library()
    params = native.llama_model_default_params()
    params.vocab_only = True
    forget_native_errors()
    model = native.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        reason = native_reason() or "llama.cpp gives no reason"
        raise ModelError(f"{path} cannot be loaded: {reason}", "verify or download the file again")
    return model
