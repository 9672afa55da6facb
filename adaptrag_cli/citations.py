"""Which chunk a sentence may cite. The markers are ours: the model's own word for a source is never taken.

A sentence may cite a chunk when every name and every number of the sentence stands in that chunk, and most of its other
content words do. Names are capitalised words. The first word of a sentence is capitalised anyway: it counts as a name
unless some chunk writes it in lower case. Numbers are digits and number words (`thirteen` equals `13`).
"""

from __future__ import annotations

from collections.abc import Sequence

from adaptrag_cli.words import STOP_WORDS, folded, words

CONTENT_SHARE = 0.6
"""Share of a sentence's other content words that must stand in the chunk."""

_UNITS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
]
_UNITS += ["seventeen", "eighteen", "nineteen"]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_NUMBER_WORDS = {word: str(value) for value, word in enumerate(_UNITS)}
_NUMBER_WORDS |= {word: str(10 * value) for value, word in enumerate(_TENS, start=2)}
_NUMBER_WORDS |= {
    f"{tens}-{unit}": str(10 * value + digit)
    for value, tens in enumerate(_TENS, start=2)
    for digit, unit in enumerate(_UNITS[1:10], start=1)
}
# "one" is mostly a pronoun ("one of them"); the others have no single value but must not be exchanged either.
del _NUMBER_WORDS["one"]
_NUMBER_WORDS |= {
    word: word
    for word in ["dozen", "hundred", "thousand", "million", "billion", "half", "twice", "first", "second", "third"]
}


def cited_chunks(sentence: str, chunk_texts: Sequence[str]) -> tuple[int, ...]:
    """Positions of the chunks that hold the sentence's names and numbers, best overlap first."""
    chunk_words = [words(text) for text in chunk_texts]
    must, content = _claims(sentence, {word for found in chunk_words for word in found})
    if not must and not content:
        return ()
    ranked: list[tuple[float, int]] = []
    for position, found in enumerate(chunk_words):
        vocabulary = {_key(word) for word in found}
        share = len(content & vocabulary) / len(content) if content else 1.0
        if must <= vocabulary and share >= CONTENT_SHARE:
            ranked.append((-share, position))
    return tuple(position for _, position in sorted(ranked))


def _key(word: str) -> str:
    key = folded(word)
    return _NUMBER_WORDS.get(key, key)


def _claims(sentence: str, known_words: set[str]) -> tuple[set[str], set[str]]:
    """Names and numbers that a source must hold, and the remaining content words."""
    must: set[str] = set()
    content: set[str] = set()
    for position, word in enumerate(words(sentence)):
        plain = folded(word)
        is_number = plain in _NUMBER_WORDS or any(c.isdigit() for c in word)
        is_common = plain in STOP_WORDS or (position == 0 and plain in known_words)
        if is_number or (word[0].isupper() and not is_common):
            must.add(_key(word))
        elif plain not in STOP_WORDS:
            content.add(plain)
    return must, content
