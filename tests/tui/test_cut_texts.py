"""Texts cut to a number of cells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from adaptrag_cli.tui.fitting import cut_end, cut_middle, filled

MIXED = st.text(st.sampled_from("ab漢字/ "), max_size=40)


@pytest.mark.parametrize(
    ("width", "expected"),
    [(40, "minutes_2023-03-18.md:1-15"), (20, "minutes…3-18.md:1-15"), (3, "min"), (0, "")],
)
def test_a_place_keeps_both_its_ends(width: int, expected: str) -> None:
    assert cut_middle("minutes_2023-03-18.md:1-15", width) == expected


@pytest.mark.parametrize(
    ("width", "expected"),
    [(16, "search by pseudo"), (10, "search by…"), (8, "search…"), (1, "…"), (0, "")],
)
def test_a_title_keeps_its_beginning(width: int, expected: str) -> None:
    assert cut_end("search by pseudo", width) == expected


@given(text=MIXED, width=st.integers(0, 40))
def test_what_was_cut_fits(text: str, width: int) -> None:
    assert cell_len(cut_middle(text, width)) <= width
    assert cell_len(cut_end(text, width)) <= width
    assert cell_len(filled(text, width)) == width
