"""From token pieces to clean text: whole characters only, and never a stop string, however the tokens cut them."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import replace

from adaptrag_cli.models.base import Token
from adaptrag_cli.words import split_sentences


class PieceDecoder:
    """Decode UTF-8 that arrives in pieces; a character appears with the piece that completes it."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, piece: bytes) -> str:
        return self._decoder.decode(piece)


class StopCutter:
    """Hold tokens back while their text could be the beginning of a stop string, and end after a number of sentences.

    Tokens that come out never show any of the stop string, or of the sentence that is one too many: the one it begins
    in is cut there, and those after it are dropped, like the end-of-turn token.
    """

    def __init__(self, stops: Sequence[str], *, max_sentences: int = 0) -> None:
        """Without `max_sentences` their number does not matter."""
        if not all(stops):
            raise ValueError("a stop string must not be empty")
        self._stops = tuple(stops)
        self._max_sentences = max_sentences
        self._held: list[Token] = []
        self._released = ""
        self.stopped = False

    def push(self, token: Token) -> list[Token]:
        """Add the next token; return those that are safe to show. Sets `stopped` when a stop string is complete."""
        self._held.append(token)
        text = "".join(held.text for held in self._held)
        starts = [start for stop in self._stops if (start := text.find(stop)) >= 0]
        if starts:
            self.stopped = True
            return self._release(_cut(self._held, min(starts)))
        end = self._sentences_end(text)
        if end is not None:
            self.stopped = True
            return self._release(_cut(self._held, end))
        return self._release_up_to(len(text) - self._open_length(text))

    def flush(self) -> list[Token]:
        """Return what is still held back: the generation ended otherwise."""
        return self._release(self._held)

    def _sentences_end(self, text: str) -> int | None:
        """Where the last wanted sentence ends in the held text, once another one has begun."""
        if not self._max_sentences:
            return None
        sentences = split_sentences(self._released + text)
        if len(sentences) <= self._max_sentences or not sentences[self._max_sentences].strip():
            return None
        wanted = "".join(sentences[: self._max_sentences]).rstrip()
        return max(len(wanted) - len(self._released), 0)

    def _open_length(self, text: str) -> int:
        """Length of the longest end of the text that some stop string begins with."""
        lengths = (
            n for stop in self._stops for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])
        )
        return max(lengths, default=0)

    def _release_up_to(self, end: int) -> list[Token]:
        position = 0
        for count, held in enumerate(self._held):
            position += len(held.text)
            if position > end:
                released, self._held = self._held[:count], self._held[count:]
                self._released += "".join(each.text for each in released)
                return released
        return self._release(self._held)

    def _release(self, tokens: list[Token]) -> list[Token]:
        self._held = []
        self._released += "".join(token.text for token in tokens)
        return tokens


def _cut(tokens: Sequence[Token], end: int) -> list[Token]:
    """Keep the tokens that begin before `end`, the last one shortened."""
    kept: list[Token] = []
    position = 0
    for token in tokens:
        if position >= end:
            break
        kept.append(replace(token, text=token.text[: end - position]))
        position += len(token.text)
    return kept
