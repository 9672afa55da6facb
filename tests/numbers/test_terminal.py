"""Untrusted text on its way to a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptrag_cli.terminal import printable, valid_unicode

HARMFUL = {"Cc", "Cs", "Zl", "Zp"}
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("notes.md", "notes.md"),
        ("Zürich 東京 🙂", "Zürich 東京 🙂"),
        ("a\tb", "a\tb"),
        ("a\nb", "a\\x0ab"),
        ("a\r\x1b[2Kb", "a\\x0d\\x1b[2Kb"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("\x7f\x9b31m", "\\x7f\\x9b31m"),
        ("\udc80", "\\udc80"),
        ("a\u2028b\u2029c", "a\\u2028b\\u2029c"),
        ("report\u202efdp.exe", "report\\u202efdp.exe"),
        ("[red]not markup[/red]", "[red]not markup[/red]"),
    ],
)
def test_harmful_characters_become_visible_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_newlines_stay_only_when_asked_for() -> None:
    assert printable("a\nb\x1bc", keep_newlines=True) == "a\nb\\x1bc"


@given(st.text(st.characters(exclude_categories=[])), st.booleans())
def test_nothing_harmful_is_left_and_the_rest_is_kept(text: str, keep_newlines: bool) -> None:
    shown = printable(text, keep_newlines=keep_newlines)
    allowed = "\t\n" if keep_newlines else "\t"
    assert not [c for c in shown if (unicodedata.category(c) in HARMFUL and c not in allowed) or c in BIDI]
    shown.encode("utf-8")
    assert len(shown.splitlines()) <= (text.count("\n") if keep_newlines else 0) + 1
    assert printable(shown, keep_newlines=keep_newlines) == shown
    harmless = "".join(c for c in text if unicodedata.category(c) not in HARMFUL and c not in BIDI)
    if harmless == text:
        assert shown == text


@given(st.text(st.characters(exclude_categories=[])))
def test_lone_surrogates_are_replaced_and_everything_else_stays(text: str) -> None:
    mended = valid_unicode(text)
    mended.encode("utf-8")
    expected = ["\ufffd" if unicodedata.category(c) == "Cs" else c for c in text]
    assert list(mended) == expected
