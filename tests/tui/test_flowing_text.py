"""Text that grows: however it comes, it wraps the same, loses nothing and is made harmless."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.geometry import Offset
from textual.selection import Selection

from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.flowing_text import FlowingText

texts = st.text(st.sampled_from("ab  \n\t漢🙂é\x1b\u200b"), max_size=80)


def wrapped(*pieces: str, width: int = 10) -> list[str]:
    text = FlowingText()
    text.height_for(width)
    for piece in pieces:
        text.append(piece)
    return [line.rstrip() for line in text.lines]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one two three", ["one two", "three"]),
        ("one two333 4", ["one two333", "4"]),
        ("one\n\ntwo", ["one", "", "two"]),
        ("  - item of a list", ["  - item", "of a list"]),
        ("abcdefghijklm no", ["abcdefghij", "klm no"]),
        ("go abcdefghijklm", ["go", "abcdefghij", "klm"]),
        ("漢字漢字漢字", ["漢字漢字漢", "字"]),
        ("\ta", ["    a"]),
        ("[bold]a[/]", ["[bold]a[/]"]),
        ("\x1b[31m", ["\\x1b[31m"]),
        ("", [""]),
    ],
)
def test_wraps_at_words(text: str, lines: list[str]) -> None:
    assert wrapped(text) == lines


@given(pieces=st.lists(texts, max_size=8), width=st.integers(2, 30))
def test_coming_in_pieces_changes_nothing(pieces: list[str], width: int) -> None:
    # A tab is as wide as its place in the piece asks for, so it is no part of this law.
    pieces = [piece.replace("\t", "-") for piece in pieces]
    assert wrapped(*pieces, width=width) == wrapped("".join(pieces), width=width)


@given(text=texts, width=st.integers(2, 30))
def test_no_line_is_too_wide_and_nothing_is_lost(text: str, width: int) -> None:
    lines = wrapped(text, width=width)
    assert all(cell_len(line) <= width for line in lines if line.strip())
    assert "".join("".join(lines).split()) == "".join(printable(text, keep_newlines=True).split())


@given(first=texts, second=texts, third=texts, width=st.integers(2, 30))
def test_what_is_taken_back_leaves_no_trace(first: str, second: str, third: str, width: int) -> None:
    text = FlowingText()
    text.height_for(width)
    text.append(first)
    text.keep()
    text.append(second, "unjudged")
    text.rewind()
    text.append(third)
    assert [line.rstrip() for line in text.lines] == wrapped(first, third, width=width)


@given(first=texts, second=texts, widths=st.tuples(st.integers(2, 30), st.integers(2, 30)))
def test_another_width_wraps_it_anew(first: str, second: str, widths: tuple[int, int]) -> None:
    text = FlowingText()
    text.height_for(widths[0])
    text.append(first)
    text.keep()
    text.append(second)
    text.height_for(widths[1])
    assert [line.rstrip() for line in text.lines] == wrapped(first, second, width=widths[1])
    text.rewind()
    assert [line.rstrip() for line in text.lines] == wrapped(first, width=widths[1])


def test_tells_which_lines_hold_a_style() -> None:
    text = FlowingText(has_gutter=True)
    assert text.height_for(12) == 0
    text.append("before it\n")
    text.append("a chunk of two", "chunk")
    text.append("\nafter")
    assert text.lines == ["before it", "a chunk of ", "two", "after"]
    assert text.lines_of("chunk") == (1, 2)
    assert text.lines_of("marker") is None


class Page(App[None]):
    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield FlowingText(has_gutter=True)


def test_draws_the_chunk_as_a_block_with_an_edge() -> None:
    async def run() -> None:
        app = Page()
        async with app.run_test(size=(20, 8)) as pilot:
            text = app.query_one(FlowingText)
            text.append("before\n")
            text.append("one\n\ntwo", "chunk")
            text.append("\nafter")
            await pilot.pause()
            strips = [text.render_line(y) for y in range(6)]
            assert [strip.text.rstrip() for strip in strips] == ["  before", "▌ one", "▌", "▌ two", "  after", ""]
            grounds = [{segment.style.bgcolor for segment in list(strip)[1:]} for strip in strips[1:4]]
            assert len(set().union(*grounds)) == 1
            assert strips[4]._segments[-1].style.bgcolor not in grounds[0]

    asyncio.run(run())


def test_the_mouse_selects_what_stands_there() -> None:
    async def run() -> None:
        app = Page()
        async with app.run_test(size=(20, 8)) as pilot:
            text = app.query_one(FlowingText)
            text.append("the ferry leaves the harbour")
            await pilot.pause()
            assert text.lines == ["the ferry leaves ", "the harbour"]
            chosen = Selection(Offset(4, 0), Offset(3, 1))
            assert text.get_selection(chosen) == ("ferry leaves\nthe", "\n")
            app.screen.selections = {text: chosen}
            await pilot.pause()
            mark = app.screen.get_component_rich_style("screen--selection").bgcolor
            shown = [segment.text for segment in text.render_line(0) if segment.style.bgcolor == mark]
            assert shown == ["ferry leaves "]

    asyncio.run(run())
