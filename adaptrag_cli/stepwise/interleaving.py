"""Queries between sentences, the end of the reasoning and the passages it has gathered: IRCoT (METHODS 6.2)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from adaptrag_cli.answers import token_f1
from adaptrag_cli.events import Candidate, QueryBuilt
from adaptrag_cli.words import split_sentences

MAX_CHUNKS = 15
NEAR_DUPLICATE_F1 = 0.9
"""Two passages that share so much of their words are one."""

_INFERENCE = re.compile(r"\s*(?:thus|so|therefore|hence|that is)\b", flags=re.IGNORECASE)
_NUMBER = r"\d+(?:[.,]\d+)*"
_SUM = re.compile(rf"{_NUMBER}\s*[-+*/×÷–−]\s*{_NUMBER}\s*=\s*{_NUMBER}")
_QUESTION_WORD = re.compile(r"\b(?:who|what|when|where|why|which|how|does|is)\b", flags=re.IGNORECASE)
_EXIT = re.compile(r"\banswer is:?\s*(.*)", flags=re.IGNORECASE)


def draws_conclusion(sentence: str) -> bool:
    """Whether a sentence only reasons about others: it begins with "thus" or its like, or reckons (a + b = c)."""
    return _INFERENCE.match(sentence) is not None or _SUM.search(sentence) is not None


def last_statement(text: str) -> str | None:
    """The last sentence that states something of its own; None where there is none."""
    stated = (s.strip() for s in reversed(split_sentences(text)) if s.strip() and not draws_conclusion(s))
    return next(stated, None)


def without_question_words(text: str) -> str:
    """A query without the words that only ask; the text itself where nothing else is in it."""
    left = " ".join(_QUESTION_WORD.sub(" ", text).split())
    return left if any(character.isalnum() for character in left) else text.strip()


def interleaved_query(question: str, reasoning: str) -> QueryBuilt:
    """The last statement of the reasoning, or the question while there is none, without question words."""
    statement = last_statement(reasoning)
    return QueryBuilt(
        method="question" if statement is None else "sentence",
        text=without_question_words(question if statement is None else statement),
    )


def stated_answer(sentence: str) -> str | None:
    """What follows "answer is" in a sentence, without its full stop: there the reasoning ends. None: it goes on."""
    found = _EXIT.search(sentence)
    return found[1].strip().removesuffix(".").strip() if found else None


def merge_chunks(
    held: Sequence[Candidate], found: Sequence[Candidate], *, limit: int = MAX_CHUNKS
) -> tuple[Candidate, ...]:
    """Put chunks behind those that are held, up to `limit` in all; repeated and nearly equal ones are skipped."""
    merged = list(held)
    for chunk in found:
        if len(merged) >= limit:
            break
        if not any(_is_repeated(chunk, other) for other in merged):
            merged.append(chunk)
    return tuple(merged)


def _is_repeated(chunk: Candidate, other: Candidate) -> bool:
    return chunk.chunk_id == other.chunk_id or token_f1(chunk.text, other.text) >= NEAR_DUPLICATE_F1
