"""Cut text into the words that BM25 counts.

Text is NFKC-normalised and case-folded. A word is a run of letters, digits, underscores and combining marks of any
script. Words joined by `-`, `.` or `_` (`pre-commit`, `v2.1.3`, `foo_bar`) count whole and in parts, so that either
spelling finds them. Scripts that are written without spaces (Chinese, Japanese, Thai ...) and Korean give overlapping
pairs of characters, since a whole sentence would otherwise be one word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

TOKENISER_VERSION = 1
"""Raise it whenever a text can give other words: indexes of another version are rebuilt."""

# Thai, Lao, Myanmar, Khmer; Japanese kana; Han with its iteration marks; Hangul.
_UNSPACED = (
    "\u0e00-\u0e4f\u0e80-\u0ecf\u1000-\u103f\u1780-\u17d3"
    "\u3005-\u3007\u3040-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u1100-\u11ff\uac00-\ud7a3"
)
_UNSPACED_RUN = re.compile(f"([{_UNSPACED}]+)")
_JOINER = re.compile(r"[-._]+")
_INVISIBLE = str.maketrans({"\u00ad": None, "\u200b": None, "\u2060": None, "\ufeff": None, "\u2010": "-"})


@lru_cache(maxsize=64)
def _compound_pattern(marks: str) -> re.Pattern[str]:
    r"""Words with their joiners. `\w` leaves combining marks out and would cut Devanagari or Arabic words apart."""
    word = rf"[\w{re.escape(marks)}]+"
    return re.compile(rf"{word}(?:[-.]{word})*")


def normalise(text: str) -> str:
    """NFKC and case folding, without invisible characters."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded).translate(_INVISIBLE)


def tokenise(text: str) -> list[str]:
    """Words of a text in reading order; a joined word stands before its parts."""
    plain = text.casefold() if text.isascii() else normalise(text)
    marks = "" if plain.isascii() else "".join(sorted(c for c in set(plain) if unicodedata.category(c)[0] == "M"))
    return [word for match in _compound_pattern(marks).finditer(plain) for word in _words(match.group())]


def _words(compound: str) -> Iterator[str]:
    if compound.isascii():
        if compound.isalnum():
            yield compound
            return
        pieces = [piece for piece in _JOINER.split(compound) if piece]
        if pieces and pieces != [compound]:
            yield compound
        yield from pieces
        return
    parts = [piece for piece in _JOINER.split(compound) if piece]
    if parts and parts != [compound] and not _UNSPACED_RUN.search(compound):
        yield compound
    for part in parts:
        for piece in _UNSPACED_RUN.split(part):
            if not piece:
                continue
            if _UNSPACED_RUN.match(piece) and len(piece) > 1:
                yield from (piece[i : i + 2] for i in range(len(piece) - 1))
            else:
                yield piece
