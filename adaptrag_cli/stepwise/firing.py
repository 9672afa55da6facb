"""Words that are held against a threshold, and the first sentence that one of them stops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.stepwise.spans import Word

Floats = NDArray[np.floating]


@dataclass(frozen=True, kw_only=True)
class Watched:
    """The numbers of a word. Those that it does not have, or that are no finite number, are None."""

    word: int
    """Its number among the words of the text."""
    sentence: int
    is_content: bool
    entropy: float
    """Nats."""
    first_difference: float | None = None
    second_difference: float | None = None
    attention: float | None = None
    """Its share of its sentence's attention, times the sentence's number of words: 1 on average."""
    value: float | None = None
    """What is held against the threshold."""
    is_absolute: bool = False
    """Its size is, whatever its sign (ETC's paper)."""
    fires: bool = False


@dataclass(frozen=True, kw_only=True)
class Trigger:
    """The first word that fires, and what fires with it."""

    word: int
    sentence: int
    hits: tuple[int, ...]
    """The words of the sentence that fire, in order: what a query is built for. Content words alone, unless function
    words alone have stopped the sentence (DRAGIN's code)."""


def first_trigger(watched: Sequence[Watched]) -> Trigger | None:
    """The first firing word with the other firing words of its sentence; None where no word fires."""
    first = next((each for each in watched if each.fires), None)
    if first is None:
        return None
    firing = [each for each in watched if each.fires and each.sentence == first.sentence]
    hits = [each for each in firing if each.is_content] or firing
    return Trigger(word=first.word, sentence=first.sentence, hits=tuple(each.word for each in hits))


def reaches(value: float, threshold: float) -> bool:
    """ETC's paper: |value| >= threshold, so that sharp drops fire as well. What is no finite number fires."""
    return not math.isfinite(value) or abs(value) >= threshold


def exceeds(value: float, threshold: float) -> bool:
    """The released codes and DRAGIN: value > threshold, with its sign. What is no finite number fires."""
    return not math.isfinite(value) or value > threshold


def finite(value: float | None) -> float | None:
    """The value, or None where there is no finite one."""
    return value if value is not None and math.isfinite(value) else None


def sentence_normalised(attention: Sequence[float], words: Sequence[Word]) -> tuple[float, ...]:
    """Each word's share of the attention of its sentence, times the number of words in it (METHODS 4.6, 5).

    Where a sentence has no attention to share, its words have 1 each.
    """
    sums: dict[int, float] = {}
    counts: dict[int, int] = {}
    for value, word in zip(attention, words, strict=True):
        sums[word.sentence] = sums.get(word.sentence, 0.0) + value
        counts[word.sentence] = counts.get(word.sentence, 0) + 1
    return tuple(
        value / sums[word.sentence] * counts[word.sentence] if sums[word.sentence] else 1.0
        for value, word in zip(attention, words, strict=True)
    )


def attention_paid(rows: Floats, first_row: int, words: Sequence[Word], words_at: int) -> tuple[float, ...]:
    """How much each word pays at most to one word of the same text, itself included (ETC's code, METHODS 4.6).

    Args:
        rows: shape (n_rows, n_keys), mean over heads; row r is what the token at key `first_row + r` pays.
        first_row: key of the first row.
        words: the words of the text, which follow each other without a gap.
        words_at: key of the text's first token.

    A word pays the mean of its tokens, and receives their sum.
    """
    if not words:
        return ()
    tokens = rows[words_at + words[0].first - first_row : words_at + words[-1].end - first_row]
    starts = np.array([word.first - words[0].first for word in words])
    lengths = np.array([word.end - word.first for word in words])
    paid = np.add.reduceat(tokens, starts, axis=0) / lengths[:, None]
    received = np.add.reduceat(paid[:, words_at + words[0].first : words_at + words[-1].end], starts, axis=1)
    return tuple(float(value) for value in received.max(axis=1))
