"""Tokens to words and sentences, each with its span (METHODS 1.1)."""

from __future__ import annotations

import math
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import Literal

from adaptrag_cli.stepwise.content import is_content
from adaptrag_cli.words import split_sentences

WordRule = Literal["etc", "dragin"]
"""Where a word begins. `dragin`: at a token that begins with a space or a line break. `etc`: also at a token of
punctuation, and behind one or behind a token of white space."""
Pooling = Literal["max", "mean", "sum"]

_SEPARATORS = frozenset("ZPSC")  # white space, punctuation, symbols, controls; not the marks that complete a letter


@dataclass(frozen=True, kw_only=True)
class Word:
    """A group of tokens. The words of a text follow each other without a gap and join to the text."""

    text: str
    """As it stands, with the space before it."""
    first: int
    """Its first token."""
    end: int
    """The token behind its last one."""
    sentence: int
    """Number of the sentence that it stands in, from 0."""
    is_content: bool


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """A sentence of a generated text, in whole words: its tokens and words are `first` to `end`, without `end`."""

    text: str
    first: int
    end: int
    first_word: int
    end_word: int


def find_words(tokens: Sequence[str], *, rule: WordRule = "etc") -> tuple[Word, ...]:
    """Group the texts of tokens into words.

    A token without text (a part of a character) belongs to the word of the token before it. A word that reaches over
    the end of a sentence belongs to the sentence in which its first visible character stands.
    """
    starts = [number for number in range(len(tokens)) if _begins_word(tokens, number, rule)]
    spans = list(pairwise([*starts, len(tokens)]))
    texts = ["".join(tokens[first:end]) for first, end in spans]
    numbers = _sentence_numbers(texts)
    found: list[Word] = []
    begun = -1
    for (first, end), text, sentence in zip(spans, texts, numbers, strict=True):
        content = is_content(text, begins_sentence=sentence != begun)
        if any(character.isalnum() for character in text):
            begun = sentence
        found.append(Word(text=text, first=first, end=end, sentence=sentence, is_content=content))
    return tuple(found)


def find_sentences(words: Sequence[Word]) -> tuple[Sentence, ...]:
    """Put words together to the sentences that they stand in."""
    groups = [list(group) for _, group in groupby(enumerate(words), key=lambda numbered: numbered[1].sentence)]
    return tuple(
        Sentence(
            text="".join(word.text for _, word in group),
            first=group[0][1].first,
            end=group[-1][1].end,
            first_word=group[0][0],
            end_word=group[-1][0] + 1,
        )
        for group in groups
    )


def pooled(words: Sequence[Word], numbers: Sequence[float], pooling: Pooling) -> tuple[float, ...]:
    """One number for each word from those of its tokens; NaN where one of them is.

    The entropy of a word is the greatest of its tokens' in ETC, their mean in DRAGIN.
    """
    return tuple(_pool(numbers[word.first : word.end], pooling) for word in words)


def bare(text: str) -> str:
    """A word without white space and punctuation around it."""
    kept = [number for number, character in enumerate(text) if unicodedata.category(character)[0] not in "ZPC"]
    return text[kept[0] : kept[-1] + 1] if kept else ""


def _begins_word(tokens: Sequence[str], number: int, rule: WordRule) -> bool:
    if number == 0 or tokens[number][:1].isspace():
        return True
    return rule == "etc" and (_is_separator(tokens[number]) or _is_separator(tokens[number - 1]))


def _is_separator(token: str) -> bool:
    return bool(token) and all(unicodedata.category(character)[0] in _SEPARATORS for character in token)


def _pool(numbers: Sequence[float], pooling: Pooling) -> float:
    if any(math.isnan(number) for number in numbers):
        return math.nan
    if pooling == "max":
        return max(numbers)
    return sum(numbers) / len(numbers) if pooling == "mean" else sum(numbers)


def _sentence_numbers(texts: Sequence[str]) -> list[int]:
    """The sentence of each word, numbered without gaps."""
    ends: list[int] = []
    for length, sentence in _with_lengths(split_sentences("".join(texts))):
        if not sentence.strip() and ends:
            ends[-1] = length  # an empty line belongs to what it ends
        else:
            ends.append(length)
    numbers: list[int] = []
    starts = accumulate((len(text) for text in texts), initial=0)
    for start, text in zip(starts, texts, strict=False):
        visible = start + len(text) - len(text.lstrip()) if text.strip() else start
        numbers.append(min(bisect_right(ends, visible), max(len(ends) - 1, 0)))
    dense = {number: position for position, number in enumerate(dict.fromkeys(numbers))}
    return [dense[number] for number in numbers]


def _with_lengths(sentences: Sequence[str]) -> list[tuple[int, str]]:
    return list(zip(accumulate(len(sentence) for sentence in sentences), sentences, strict=True))
