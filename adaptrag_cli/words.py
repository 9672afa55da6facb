"""Text to sentences and words."""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"[^\W_]+(?:[.,:/'’-][^\W_]+)*")
_POSSESSIVE = re.compile(r"['’]s$")

# Words that carry no content of their own; a sentence's claim is in the others.
_STOP_WORDS_TEXT = """
a about above after again all also although am an and any are as at be because been before being below between both
but by can could did do does doing down during each either few for from further had has have having he her here hers
him his how however i if in into is it its itself just least less many may me might more most much must my neither no
nor not of off on once one only or other our out over own per same she should since so some such than that the their
them then there these they this those though through thus to too under until up upon us very was we were what when
where whether which while who whom whose why will with within without would yes yet you your
"""
STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())


def split_sentences(text: str) -> list[str]:
    """Split into sentences; they join to the text. Abbreviations and initials stay together."""
    from sentencex import segment  # Rust, maintained by Wikimedia; keeps "Dr. J. R. R." and "No. 7" whole

    return list(segment("en", text))


def words(text: str) -> list[str]:
    """Words as they stand: letters and digits, joined by inner punctuation (`1,500`, `v2.1`, `Saint-Malo`)."""
    return _WORD.findall(unicodedata.normalize("NFKC", text))


def folded(word: str) -> str:
    """A word for comparison: case and a possessive ending do not count."""
    return _POSSESSIVE.sub("", word.casefold())
