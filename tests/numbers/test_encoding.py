"""Bytes to text: encodings found, damage repaired and told."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptrag_cli.documents.encoding import decode, repair
from adaptrag_cli.errors import DocumentError

GERMAN = "Die Fähre fährt über Köln – „pünktlich“.\n"


@pytest.mark.parametrize(
    ("data", "text", "notes"),
    [
        (GERMAN.encode(), GERMAN, ()),
        (codecs.BOM_UTF8 + b"a\r\nb", "a\nb", ()),
        (codecs.BOM_UTF16_LE + GERMAN.encode("utf-16-le"), GERMAN, ("decoded as utf-16-le",)),
        (codecs.BOM_UTF16_BE + "🙂".encode("utf-16-be"), "🙂", ("decoded as utf-16-be",)),
        (GERMAN.encode("utf-16-le"), GERMAN, ("decoded as utf-16-le",)),
        (GERMAN.encode("utf-16-be"), GERMAN, ("decoded as utf-16-be",)),
        (codecs.BOM_UTF32_LE + "ab".encode("utf-32-le"), "ab", ("decoded as utf-32-le",)),
        (GERMAN.encode("cp1252"), GERMAN, ("decoded as cp1252",)),
        (b"na\xefve", "naïve", ("decoded as cp1252",)),
        (
            "Паром отходит в семь часов утра.".encode("cp1251"),
            "Паром отходит в семь часов утра.",
            ("decoded as cp1251",),
        ),
        ("これは日本語の文章です。".encode("shift_jis"), "これは日本語の文章です。", ("decoded as cp932",)),
        (b"plain text with one\0NUL", "plain text with one NUL", ("1 NUL characters replaced",)),
        (b"lone \xed\xa0\x80 " + "éé".encode(), "lone \ufffd éé", ("1 lone surrogates replaced",)),
        (b"pair \xed\xa0\xbd\xed\xb9\x82 " + "éé".encode(), "pair 🙂 éé", ()),
        ("éééééé".encode() + b"\xc3", "éééééé\ufffd", ("1 undecodable bytes replaced",)),
        (codecs.BOM_UTF16_LE + b"\x00\xd8a\x00", "\ufffda", ("decoded as utf-16-le", "1 lone surrogates replaced")),
    ],
)
def test_known_encodings(data: bytes, text: str, notes: tuple[str, ...]) -> None:
    decoded = decode(data)
    assert (decoded.text, decoded.notes) == (text, notes)


@pytest.mark.parametrize(
    "data",
    [bytes(range(256)) * 4, b"\x7fELF" + b"a" * 99, b"%PDF-1.7 text", b"\x89PNG\r\n\x1a\n" + b"a" * 50, bytes(64)],
)
def test_binary_files(data: bytes) -> None:
    with pytest.raises(DocumentError, match=r"^binary file$"):
        decode(data)


def test_empty_file() -> None:
    with pytest.raises(DocumentError, match=r"^empty file$"):
        decode(b"")


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1))
def test_utf8_with_a_mark_comes_back(text: str) -> None:
    assert decode(codecs.BOM_UTF8 + text.encode()).text == text


@given(st.binary(max_size=400))
def test_any_bytes_give_valid_text_or_a_reason(data: bytes) -> None:
    try:
        text = decode(data).text
    except DocumentError:
        return
    text.encode("utf-8")
    assert "\r" not in text
    assert "\0" not in text


@given(st.text(st.characters()))
def test_repair_keeps_every_position(text: str) -> None:
    fixed, _ = repair(text)
    assert len(fixed) == len(text)
    assert all(
        a == b or (a == "\0" and b == " ") or ("\ud800" <= a <= "\udfff" and b == "\ufffd")
        for a, b in zip(text, fixed, strict=True)
    )
