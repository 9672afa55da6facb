"""Which chunk a sentence may cite. The markers are ours: the model's own word for a source is never taken.

A sentence may cite a chunk when every name and every number of the sentence stands in that chunk, and most of its other
content words do. Names are capitalised words; the first word of a sentence counts as a name only when the chunk or a
later place of the sentence writes it with a capital in mid-sentence, which cannot be known here, so it is compared as a
content word.
"""

from __future__ import annotations

from collections.abc import Sequence

from adaptrag_cli.words import STOP_WORDS, folded, words

CONTENT_SHARE = 0.6
"""Share of a sentence's other content words that must stand in the chunk (measured: see the README)."""


def cited_chunks(sentence: str, chunk_texts: Sequence[str]) -> tuple[int, ...]:
    """Positions of the chunks that hold the sentence's names and numbers, best overlap first."""
    must, content = _claims(sentence)
    if not must and not content:
        return ()
    found: list[tuple[float, int]] = []
    for position, text in enumerate(chunk_texts):
        vocabulary = {folded(word) for word in words(text)}
        if must <= vocabulary:
            share = len(content & vocabulary) / len(content) if content else 1.0
            if share >= CONTENT_SHARE:
                found.append((-share, position))
    return tuple(position for _, position in sorted(found))


def _claims(sentence: str) -> tuple[set[str], set[str]]:
    """Names and numbers that a source must hold, and the remaining content words."""
    must: set[str] = set()
    content: set[str] = set()
    for position, word in enumerate(words(sentence)):
        key = folded(word)
        if any(c.isdigit() for c in word) or (word[0].isupper() and position > 0):
            must.add(key)
        elif key not in STOP_WORDS:
            content.add(key)
    return must, content
