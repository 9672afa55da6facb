"""When to look up, and what for, by the probabilities of tokens: FLARE and DRAGIN's reading of it (METHODS 5, 6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adaptrag_cli.events import QueryBuilt
from adaptrag_cli.stepwise.spans import Sentence, Word, bare

QUERY_TOKENS = 64
"""FLARE's and DRAGIN's queries are cut to so many tokens, from the left."""


@dataclass(frozen=True, kw_only=True)
class UnsureTerm:
    """Words in a row that hold an unsure token: what FLARE asks a question about."""

    text: str
    first: int
    """Its first token."""
    end: int
    """The token behind its last one."""


def is_unsure(probabilities: Sequence[float], theta: float) -> bool:
    """FLARE: whether any token has p <= theta. A probability that is no number is unsure."""
    return any(not probability > theta for probability in probabilities)


def doubt(probabilities: Sequence[float]) -> float:
    """Return the mean of 1 - p over the tokens of a sentence, 0 for none (DRAGIN's FLARE)."""
    return sum(1 - probability for probability in probabilities) / len(probabilities) if probabilities else 0.0


def first_doubtful_sentence(
    sentences: Sequence[Sentence], probabilities: Sequence[float], threshold: float
) -> int | None:
    """DRAGIN's FLARE: the number of the first sentence with a doubt > threshold, or one that is no number."""
    for number, sentence in enumerate(sentences):
        if not doubt(probabilities[sentence.first : sentence.end]) <= threshold:
            return number
    return None


def likely(probabilities: Sequence[float], beta: float) -> tuple[bool, ...]:
    """FLARE: the tokens that stay in the query have p > beta."""
    return tuple(probability > beta for probability in probabilities)


def undoubted(probabilities: Sequence[float], threshold: float) -> tuple[bool, ...]:
    """DRAGIN's FLARE: the tokens that stay in the query have 1 - p <= threshold."""
    return tuple(1 - probability <= threshold for probability in probabilities)


def masked_query(tokens: Sequence[str], stays: Sequence[bool], *, max_tokens: int = QUERY_TOKENS) -> QueryBuilt | None:
    """Put a space in the place of each token that does not stay; None where nothing with a letter or digit is left.

    The query begins at most `max_tokens` tokens before its end.
    """
    shown = [token if kept else " " for token, kept in zip(tokens, stays, strict=True)]
    text = " ".join("".join(shown[-max_tokens:]).split())
    if not any(character.isalnum() for character in text):
        return None
    return QueryBuilt(method="masked", text=text)


def unsure_terms(words: Sequence[Word], probabilities: Sequence[float], beta: float) -> tuple[UnsureTerm, ...]:
    """Whole words in a row that hold a token with p <= beta, freed of the punctuation around them.

    White space between two such words does not part them. Runs without a content word are left out.
    """
    runs: list[list[Word]] = []
    is_open = False
    for word in words:
        unsure = is_unsure(probabilities[word.first : word.end], beta)
        if is_open and (unsure or not word.text.strip()):
            runs[-1].append(word)
        elif unsure and word.text.strip():
            runs.append([word])
            is_open = True
        else:
            is_open = False
    trimmed = (_trimmed(run) for run in runs)
    return tuple(
        UnsureTerm(text=bare("".join(word.text for word in run)), first=run[0].first, end=run[-1].end)
        for run in trimmed
        if any(word.is_content for word in run)
    )


def _trimmed(run: Sequence[Word]) -> Sequence[Word]:
    """A run without the words at its ends that show nothing but white space and punctuation."""
    shown = [number for number, word in enumerate(run) if bare(word.text)]
    return run[shown[0] : shown[-1] + 1] if shown else ()
