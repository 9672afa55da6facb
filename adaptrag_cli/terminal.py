"""What a terminal may be shown: untrusted text made harmless, and whether styles are wanted."""

from __future__ import annotations

import os
import re
import unicodedata
from typing import TextIO

# Controls, lone surrogates, and the two separators that many programs take for a new line.
_HARMFUL_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
# Bidirectional controls can reorder what a person reads (file names that lie about their suffix).
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_SURROGATES = re.compile("[\ud800-\udfff]")


def valid_unicode(text: str) -> str:
    """Replace lone surrogates, which arguments that are not UTF-8 bring and no encoder or JSON writer takes."""
    return _SURROGATES.sub("\ufffd", text)


def _is_harmful(character: str) -> bool:
    return unicodedata.category(character) in _HARMFUL_CATEGORIES or character in _BIDI


def printable(text: str, *, keep_newlines: bool = False) -> str:
    """Replace control characters, line separators, lone surrogates and bidirectional marks by visible escapes.

    Tabs stay; newlines stay only when asked for, since a file name with a newline could fake a line of output.
    """
    kept = {"\t", "\n"} if keep_newlines else {"\t"}
    if not any(_is_harmful(c) and c not in kept for c in text):
        return text
    return "".join(c if c in kept or not _is_harmful(c) else _escape(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def is_plain(stream: TextIO) -> bool:
    """Whether to leave styles out: not a terminal, a dumb one, or `NO_COLOR` is set."""
    return not stream.isatty() or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
