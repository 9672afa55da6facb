"""Prompts as token ids: the model's own chat template around text that can never act as a control token."""

from __future__ import annotations

import ctypes
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any

from adaptrag_cli.models.base import Prompt
from adaptrag_cli.models.native import llama_library

# Some templates print today's date; a fixed one keeps the same question giving the same numbers every day.
TEMPLATE_DATE = datetime(2025, 1, 1)
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class ChatFrame:
    """What a chat template puts before and after one user turn."""

    before: str
    after: str


def chat_frame(template: str, *, eos_token: str) -> ChatFrame:
    """Render the template around a random nonce and cut it there.

    Raises:
        ValueError: the template fails, or does not print the user's text exactly once; the message says which.
    """
    from llama_cpp.llama_chat_format import Jinja2ChatFormatter

    class DatedFormatter(Jinja2ChatFormatter):
        @staticmethod
        def strftime_now(f: str) -> str:
            return TEMPLATE_DATE.strftime(f)

    nonce = f"nonce{secrets.token_hex(16)}"  # random, so that a template cannot have it in its own text
    date = TEMPLATE_DATE.strftime("%d %b %Y")
    try:
        formatter = DatedFormatter(template=template, eos_token=eos_token, bos_token="")
        rendered = formatter(messages=[{"role": "user", "content": nonce}], date_string=date).prompt
    except Exception as error:  # a template is foreign code in a sandbox: it can raise anything
        raise ValueError(f"{type(error).__name__}: {error}") from error
    parts = rendered.split(nonce)
    if len(parts) != 2:
        raise ValueError(f"it prints the user's text {len(parts) - 1} times instead of once")
    return ChatFrame(before=parts[0], after=parts[1])


def frame_of(template: str | None, tokenizer: SafeTokenizer) -> tuple[ChatFrame, str]:
    """The frame of a model's chat template, or a plain one with a note that says why."""
    plain = ChatFrame(before="", after="")
    if template is None:
        return plain, "the model file has no chat template: prompts are given as plain text"
    eos = tokenizer.piece(tokenizer.eos_id, special=True) if tokenizer.eos_id >= 0 else b""
    try:
        return chat_frame(template, eos_token=eos.decode("utf-8", "replace")), ""
    except ValueError as error:
        return plain, f"the model's chat template cannot be used ({error}): prompts are given as plain text"


class SafeTokenizer:
    """Tokenise template pieces as control text and everything else as plain text."""

    def __init__(self, vocabulary: Any) -> None:
        """Take a `llama_vocab` pointer, which must outlive this object."""
        self._native = llama_library()
        self._vocabulary = vocabulary
        self.size = int(self._native.llama_vocab_n_tokens(vocabulary))
        self.adds_bos = bool(self._native.llama_vocab_get_add_bos(vocabulary))
        self.bos_id = int(self._native.llama_vocab_bos(vocabulary))
        self.eos_id = int(self._native.llama_vocab_eos(vocabulary))
        self._piece = lru_cache(maxsize=8192)(self._read_piece)
        self._user_defined = _starts_pattern(self._user_defined_texts())

    def build_prompt(self, frame: ChatFrame, user_text: str, written: str = "") -> Prompt:
        """Put one user turn into the frame, and behind it what the model has written; BOS when the model wants it."""
        # Newlines would merge with the template's own last newline into one token.
        text = clean_text(user_text).lstrip("\n")
        ids = [self.bos_id] if self.adds_bos and self.bos_id >= 0 else []
        ids += self._tokenize(frame.before, special=True)
        ids += self.plain_ids(text)
        ids += self._tokenize(frame.after, special=True)
        ids += self.plain_ids(written)
        return Prompt(text=frame.before + text + frame.after + clean_text(written), token_ids=tuple(ids))

    def plain_ids(self, text: str) -> list[int]:
        """Tokenise untrusted text: no control token and no user-defined token comes out of its letters."""
        text = clean_text(text)
        cuts = [0, *self._cuts(text), len(text)]
        return [i for a, b in pairwise(cuts) if a < b for i in self._tokenize(text[a:b])]

    def piece(self, token_id: int, *, special: bool = False) -> bytes:
        """Bytes of a token; those of control tokens only when `special`."""
        return self._piece(token_id, special)

    def ends_generation(self, token_id: int) -> bool:
        return bool(self._native.llama_vocab_is_eog(self._vocabulary, token_id))

    def _cuts(self, text: str) -> list[int]:
        """Cut after the first character of every user-defined token: llama.cpp finds those in plain text too."""
        if self._user_defined is None:
            return []
        return sorted({match.start() + 1 for match in self._user_defined.finditer(text)})

    def _tokenize(self, text: str, *, special: bool = False) -> list[int]:
        data = text.encode("utf-8")
        if not data:
            return []
        size = len(data) + 8  # a token has at least one byte; a few for a leading space marker
        buffer = (self._native.llama_token * size)()
        count = self._native.llama_tokenize(self._vocabulary, data, len(data), buffer, size, False, special)
        if count < 0:
            size = -count
            buffer = (self._native.llama_token * size)()
            count = self._native.llama_tokenize(self._vocabulary, data, len(data), buffer, size, False, special)
        return list(buffer[:count])

    def _read_piece(self, token_id: int, special: bool) -> bytes:
        buffer = ctypes.create_string_buffer(32)
        count = self._native.llama_token_to_piece(self._vocabulary, token_id, buffer, len(buffer), 0, special)
        if count < 0:  # the size that it needs
            buffer = ctypes.create_string_buffer(-count)
            count = self._native.llama_token_to_piece(self._vocabulary, token_id, buffer, len(buffer), 0, special)
        return buffer.raw[:count]

    def _user_defined_texts(self) -> list[str]:
        wanted = self._native.LLAMA_TOKEN_ATTR_USER_DEFINED
        attribute = self._native.llama_vocab_get_attr
        ids = (i for i in range(self.size) if attribute(self._vocabulary, i) & wanted)
        return [self._read_piece(i, True).decode("utf-8", "replace") for i in ids]


def clean_text(text: str) -> str:
    """Replace lone surrogates, which no encoding of text can hold."""
    return _SURROGATES.sub("\ufffd", text)


def _starts_pattern(texts: Iterable[str]) -> re.Pattern[str] | None:
    """Match the place where any of the texts starts, overlapping ones included.

    One character cannot be split, and runs of white space (Gemma) carry no meaning beyond themselves.
    """
    meaningful = sorted({text for text in texts if len(text) > 1 and text.strip()})
    return re.compile("(?=" + "|".join(map(re.escape, meaningful)) + ")") if meaningful else None
