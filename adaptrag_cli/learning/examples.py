"""What training reads, as tokens: trajectories with what is learned of them, and pairs of ways to go on.

A turn is cut into tokens as a whole, as answering does it; a token of which any letter is only read is only read. The
token that ends the turn is learned behind what is learned last: an answer that is learned without its end goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from adaptrag_cli import prompts
from adaptrag_cli.errors import ModelError
from adaptrag_cli.learning.losses import IGNORED, Fork, fork
from adaptrag_cli.learning.pairs import Pair
from adaptrag_cli.learning.trajectories import Segment, Trajectory, segments_of
from adaptrag_cli.models.chat import clean_text

CUT_OFF = 4096
"""Tokens of the longest text that is trained on (METHODS 9.4)."""
HELD_OUT_SHARE = 0.15
"""Of all questions there could be; of a few, more or fewer are."""


class TurnTokens(Protocol):
    """How a model reads turns: `models.vocabulary.ChatTokens`."""

    @property
    def end_of_turn(self) -> int: ...

    def prompt(self, user_text: str, written: str = "") -> tuple[int, ...]: ...

    def plain(self, text: str) -> tuple[int, ...]: ...

    def piece(self, token_id: int) -> bytes: ...


@dataclass(frozen=True, kw_only=True)
class Example:
    """A conversation, and which of its tokens are learned."""

    question: str
    """The user's turn, by which the examples are parted."""
    token_ids: tuple[int, ...]
    labels: tuple[int, ...]
    """The token itself where it is learned, else -100."""

    def __len__(self) -> int:
        return len(self.token_ids)


@dataclass(frozen=True, kw_only=True)
class Preference:
    """Two ways to go on, the preferred one first."""

    question: str
    """The user's turn."""
    fork: Fork
    prefers_retrieval: bool

    def __len__(self) -> int:
        return len(self.fork.token_ids)


def example_of(trajectory: Trajectory, tokens: TurnTokens) -> Example:
    """Cut a trajectory into tokens.

    Raises:
        ModelError: the model's tokens do not read what the text reads.
    """
    asked = tokens.prompt(trajectory.user_text)
    whole = tokens.prompt(trajectory.user_text, trajectory.written)
    written = whole[len(asked) :]
    is_learned = learned_tokens([tokens.piece(token_id) for token_id in written], trajectory.segments)
    labels = [token_id if learned else IGNORED for token_id, learned in zip(written, is_learned, strict=True)]
    return Example(
        question=trajectory.user_text,
        token_ids=(*whole, tokens.end_of_turn),
        labels=(*[IGNORED] * len(asked), *labels, tokens.end_of_turn),
    )


def learned_tokens(pieces: Sequence[bytes], segments: Sequence[Segment]) -> list[bool]:
    """Which tokens lie in learned segments with all their bytes.

    Raises:
        ModelError: the tokens do not read what the segments read.
    """
    marks = b"".join(bytes([segment.train]) * len(clean_text(segment.text).encode()) for segment in segments)
    text = "".join(clean_text(segment.text) for segment in segments).encode()
    read = b"".join(pieces)
    if not read.endswith(text):
        raise ModelError(
            "the model's tokens do not give a text back as it was: it cannot be trained on",
            "train another --model, such as one of: adaptrag models list",
        )
    marks = marks[:1] * (len(read) - len(text)) + marks  # some tokenizers put a space in front
    found, start = [], 0
    for piece in pieces:
        found.append(all(marks[start : start + len(piece)]))
        start += len(piece)
    return found


def preference_of(pair: Pair, tokens: TurnTokens) -> Preference:
    """Cut a pair into tokens: the markers are tokens of their own, as where a decision is read off.

    Raises:
        ModelError: the model's tokens do not read what the pair reads.
    """
    user_text = prompts.follow_ups(pair.question)
    preferred, rejected = tokens.plain(pair.preferred), tokens.plain(pair.rejected)
    is_learned = [
        *learned_tokens([*map(tokens.piece, preferred)], segments_of(pair.preferred)),
        *learned_tokens([*map(tokens.piece, rejected)], segments_of(pair.rejected)),
    ]
    made = fork(tokens.prompt(user_text, pair.prefix), preferred, rejected, is_learned)
    return Preference(question=user_text, fork=made, prefers_retrieval=pair.prefers_retrieval)


def held_out_questions(questions: Iterable[str], *, seed: int, share: float = HELD_OUT_SHARE) -> frozenset[str]:
    """Choose the questions that are not learned from, each by its own hash, whatever others there are.

    So all stages and runs with the same seed hold out the same ones. One is held out and one is learned from in any
    case: that with the smallest hash, and that with the largest.
    """
    hashes = {question: _fraction(f"{seed}:{question}") for question in questions}
    ranked = sorted(hashes, key=lambda question: (hashes[question], question))
    below = sum(value < share for value in hashes.values())
    return frozenset(ranked[: max(1, min(below, len(ranked) - 1))])


def _fraction(text: str) -> float:
    """A number from 0 to 1 that only the text decides, all of them alike likely."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
