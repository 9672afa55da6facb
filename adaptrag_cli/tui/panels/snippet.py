"""The part of a chunk that is worth a look: where it shares words with the text that found it, with those marked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from textual.content import Content, Span

from adaptrag_cli.index.tokeniser import tokenise
from adaptrag_cli.terminal import printable
from adaptrag_cli.words import STOP_WORDS

MATCH_STYLE = "bold underline"
_ELLIPSIS = "…"
_LEAD = 24
"""Characters shown before the first match."""
_RUN = re.compile(r"[^\s/()\[\]{},;:!?\"“”„«»|]+")


def search_terms(text: str) -> frozenset[str]:
    """The words of a search text that tell something."""
    return frozenset(tokenise(text)) - STOP_WORDS


def matches(text: str, terms: Set[str]) -> Iterator[tuple[int, int]]:
    """Spans (start, end) of the words that a search for `terms` finds, as the sparse index counts words."""
    for run in _RUN.finditer(text):
        found = [term for term in dict.fromkeys(tokenise(run.group())) if term in terms]
        folded = run.group().casefold()
        for term in found:
            inside = _word_in(folded, term)
            if inside is None or len(folded) != len(run.group()):  # normalising changed its letters
                yield run.span()
            else:
                yield run.start() + inside[0], run.start() + inside[1]


def _word_in(folded: str, term: str) -> tuple[int, int] | None:
    whole = re.search(rf"(?<![^\W_]){re.escape(term)}(?![^\W_])", folded)
    start = whole.start() if whole else folded.find(term)  # scripts without spaces have no ends of words
    return None if start < 0 else (start, start + len(term))


def snippet(text: str, terms: Set[str], *, width: int, lines: int) -> list[Content]:
    """At most `lines` lines of `width` cells, from shortly before the first match on; line breaks become spaces."""
    flat = printable(" ".join(text.split()))
    spans = sorted(set(matches(flat, terms)))
    room = width * lines
    start = _word_start(flat, min(spans[0][0] - _LEAD, len(flat) - room)) if spans and spans[0][0] > room // 2 else 0
    head = _ELLIPSIS if start else ""
    shown = flat[start : start + room * 2]  # more than can be seen, so that the cut is found by wrapping
    marks = [
        Span(begin - start + len(head), end - start + len(head), MATCH_STYLE)
        for begin, end in spans
        if start <= begin and end <= start + len(shown)
    ]
    wrapped = Content(head + shown, spans=marks).wrap(max(width, 2))
    if len(wrapped) > lines:
        last = wrapped[lines - 1].rstrip()
        wrapped = [*wrapped[: lines - 1], last.truncate(max(width - 1, 1)) + Content(_ELLIPSIS)]
    return wrapped


def _word_start(text: str, near: int) -> int:
    """Where the next word begins."""
    if near <= 0:
        return 0
    space = text.find(" ", near - 1, near + _LEAD)
    return near if space < 0 else space + 1
