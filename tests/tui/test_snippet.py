"""What of a chunk is shown in a list, and which of its words are marked."""

from __future__ import annotations

import pytest

from adaptrag_cli.tui.panels.snippet import matches, search_terms, snippet


def marked(text: str, query: str) -> list[str]:
    return [text[start:end] for start, end in matches(text, search_terms(query))]


def lines(text: str, query: str, *, width: int, count: int) -> list[str]:
    return [line.plain for line in snippet(text, search_terms(query), width=width, lines=count)]


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        pytest.param("The Ferry's ferry, ferryman", "When does the ferry leave?", ["Ferry", "ferry"], id="whole words"),
        pytest.param("pre-commit runs", "how to commit", ["commit"], id="part of a joined word"),
        pytest.param("pre-commit runs", "pre-commit", ["pre-commit", "pre", "commit"], id="joined word and its parts"),
        pytest.param("the and of", "the and of", [], id="words that tell nothing"),
        pytest.param("夜間時間は", "時間", ["時間"], id="script without spaces"),
        pytest.param("die Straße", "STRASSE", ["Straße"], id="letters that change when folded"),
        pytest.param("winter/summer", "summer", ["summer"], id="after a slash"),
    ],
)
def test_the_words_that_the_search_shares_with_a_text(text, query, expected):
    assert marked(text, query) == expected


def test_a_snippet_begins_shortly_before_the_first_match():
    text = "Nothing here matters at all to anybody. " * 3 + "The ferry leaves at ten."
    assert lines(text, "ferry", width=30, count=1) == ["…at all to anybody. The ferry…"]
    (line,) = snippet(text, search_terms("ferry"), width=30, lines=1)
    assert [line.plain[span.start : span.end] for span in line.spans] == ["ferry"]


def test_a_short_text_is_shown_from_its_beginning_on_as_few_lines_as_it_needs():
    assert lines("One\n\n  two", "two", width=30, count=3) == ["One two"]
    assert lines("", "two", width=30, count=3) == [""]


def test_a_text_without_a_match_is_shown_from_its_beginning_and_cut():
    assert lines("alpha beta gamma delta", "omega", width=12, count=1) == ["alpha beta…"]


def test_what_a_document_holds_cannot_steer_the_terminal():
    assert lines("a \x1b[31mred\u202e word", "word", width=60, count=1) == ["a \\x1b[31mred\\u202e word"]
