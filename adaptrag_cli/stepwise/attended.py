"""Queries made of words: those that the firing words attend to most (QFS of ETC and DRAGIN, METHODS 4.8 and 5).

Attention comes as rows of one layer, mean over heads: row r is what the token at key `first_row + r` pays to each key.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from adaptrag_cli.events import QueryBuilt, WeightedWord
from adaptrag_cli.stepwise.content import content_words
from adaptrag_cli.stepwise.firing import Floats, finite
from adaptrag_cli.stepwise.spans import Word, bare
from adaptrag_cli.words import split_sentences

QUERY_WORDS = 35


@dataclass(frozen=True, kw_only=True)
class Placed:
    """The words of a text, and where it stands among the keys."""

    words: tuple[Word, ...]
    at: int
    """Key of the text's first token."""

    def keys(self, word: Word) -> slice:
        return slice(self.at + word.first, self.at + word.end)


def etc_query(
    rows: Floats,
    first_row: int,
    before: Sequence[Placed],
    written: Placed,
    hits: Sequence[int],
    *,
    limit: int = QUERY_WORDS,
) -> QueryBuilt | None:
    """Choose the content words that the firing words themselves attend to (ETC, METHODS 4.8).

    A firing word pays the mean of its tokens, a word receives the sum of its own; firing words are summed.

    Args:
        rows: shape (n_rows, n_keys).
        first_row: key of the first row.
        before: the question and the text kept so far, in the order of the text.
        written: the text that fired.
        hits: numbers of the firing words of one sentence; words before the first of them may be chosen.
        limit: most words.

    Returns None where no content word stands before the first firing word, or nothing fires.
    """
    if not hits:
        return None
    paid = sum(
        (_rows(rows, first_row, written.keys(written.words[hit])).mean(axis=0) for hit in hits),
        start=np.zeros(rows.shape[1]),
    )
    candidates = [(text.keys(word), word) for text in before for word in text.words]
    candidates += [(written.keys(word), word) for word in written.words[: min(hits)]]
    return _chosen([(word, float(paid[keys].sum())) for keys, word in candidates], limit)


def dragin_query(
    rows: Floats,
    first_row: int,
    before: Sequence[Placed],
    written: Placed,
    hits: Sequence[int],
    *,
    limit: int = QUERY_WORDS,
) -> QueryBuilt | None:
    """Choose the content words that lead to the firing words (DRAGIN's code, METHODS 5).

    For each token of a firing word, the row of the token before it counts: that is where it was chosen. It is cut to
    the candidates before the word and normalised; tokens are averaged to words, and words with each other. Arguments
    as in `etc_query`; a word between two firing words may be chosen too, a firing word never.

    Returns None where nothing fires, or nothing that may be chosen stands before a firing word.
    """
    texts = [*before, Placed(words=written.words[: max(hits, default=0)], at=written.at)]
    candidates = [(text.keys(word), word) for text in texts for word in text.words]
    keys = [keys for keys, _ in candidates]
    shares = [
        share for hit in hits if (share := _shares(rows, first_row, written.keys(written.words[hit]), keys)) is not None
    ]
    if not shares:
        return None
    mean = np.mean(shares, axis=0)
    fired = {id(written.words[hit]) for hit in hits}
    return _chosen(
        [(word, float(weight)) for (_, word), weight in zip(candidates, mean, strict=True) if id(word) not in fired],
        limit,
    )


def content_words_query(question: str, kept: str, *, limit: int = QUERY_WORDS) -> QueryBuilt | None:
    """Without attention: the content words of the question and of the last kept sentence, the last ones (METHODS 4.8).

    Returns None where there are none.
    """
    sentences = [sentence for sentence in split_sentences(kept) if sentence.strip()]
    chosen = [*content_words(question), *(content_words(sentences[-1]) if sentences else ())][-limit:]
    return _built("content_words", [WeightedWord(text=word) for word in chosen])


def _rows(rows: Floats, first_row: int, keys: slice) -> Floats:
    if keys.start < first_row or keys.stop > first_row + len(rows):
        raise ValueError(f"no attention row for keys {keys.start} to {keys.stop - 1}")
    return rows[keys.start - first_row : keys.stop - first_row]


def _shares(rows: Floats, first_row: int, hit: slice, candidates: Sequence[slice]) -> Floats | None:
    """Mean share of each candidate in the rows before a firing word's tokens; None where there is no such row."""
    shares: list[Floats] = []
    for key in range(hit.start, hit.stop):
        if key - 1 < first_row:
            continue  # the first token of all has no row before it
        row = _rows(rows, first_row, slice(key - 1, key))[0]
        received = np.array([row[keys].sum() if keys.stop <= hit.start else 0.0 for keys in candidates])
        total = received.sum()
        if total > 0:
            shares.append(received / total)
    return np.mean(shares, axis=0) if shares else None


def _chosen(weighed: Sequence[tuple[Word, float]], limit: int) -> QueryBuilt | None:
    """The heaviest content words in the order of the text; of equals the earlier, and NaN last."""
    content = [(number, word, weight) for number, (word, weight) in enumerate(weighed) if word.is_content]
    best = sorted(content, key=lambda each: (math.inf if math.isnan(each[2]) else -each[2], each[0]))
    chosen = sorted(islice(best, limit))
    return _built(
        "attention", [WeightedWord(text=bare(word.text), weight=finite(weight)) for _, word, weight in chosen]
    )


def _built(method: str, chosen: Sequence[WeightedWord]) -> QueryBuilt | None:
    if not chosen:
        return None
    return QueryBuilt(method=method, text=" ".join(word.text for word in chosen), words=tuple(chosen))
