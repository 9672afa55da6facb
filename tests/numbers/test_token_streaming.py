"""Stop strings and characters that tokens cut in any way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptrag_cli.models.context import GRANULE, PART, SHORTEST_PART, prefill_parts, reusable_prefix
from adaptrag_cli.models.streaming import PieceDecoder, StopCutter
from fakes import scripted_token


def run(pieces: list[str], stops: list[str]) -> tuple[list[list[str]], bool]:
    """Texts released after each piece, and last by the flush."""
    cutter = StopCutter(stops)
    released = []
    for piece in pieces:
        released.append([token.text for token in cutter.push(scripted_token(piece, -0.1, 0.1))])
        if cutter.stopped:
            return released, True
    released.append([token.text for token in cutter.flush()])
    return released, False


def test_without_stops_every_token_is_shown_at_once():
    assert run(["a", "", "b"], []) == ([["a"], [""], ["b"], []], False)


def test_a_stop_over_three_tokens_is_held_back_and_dropped():
    assert run(["Paris", "\n", "Ques", "tion:"], ["\nQuestion:"]) == ([["Paris"], [], [], []], True)


def test_a_stop_inside_a_token_cuts_it():
    assert run(["Paris.\n\nNext"], ["\n\n"]) == ([["Paris."]], True)


def test_a_false_start_is_released():
    assert run(["a", "\n", "b"], ["\n\n"]) == ([["a"], [], ["\n", "b"], []], False)


def test_a_false_start_at_the_end_is_flushed():
    assert run(["a", "\n"], ["\n\n"]) == ([["a"], [], ["\n"]], False)


def test_the_earliest_of_several_stops_counts():
    assert run(["one two three"], ["three", "two"]) == ([["one "]], True)


@pytest.mark.parametrize(
    ("pieces", "sentences", "shown"),
    [
        (["He", " left", ".", " She", " stayed", "."], 1, "He left."),
        (["He", " left. She"], 1, "He left."),  # a token that holds the end and the beginning is cut between them
        (["He", " left."], 1, "He left."),  # nothing follows: the model ended
        (["Dr", ".", " Lind", " left", ".", " So"], 1, "Dr. Lind left."),
        (["One.", " Two.", " Three", "."], 2, "One. Two."),
        (["One.", " Two.", " Three", "."], 0, "One. Two. Three."),
        (["One.", "\n", "Two"], 1, "One."),
    ],
)
def test_a_sentence_too_many_is_dropped(pieces, sentences, shown):
    cutter = StopCutter(["\n"], max_sentences=sentences)
    text = ""
    for piece in pieces:
        text += "".join(token.text for token in cutter.push(scripted_token(piece, -0.1, 0.1)))
        if cutter.stopped:
            break
    else:
        text += "".join(token.text for token in cutter.flush())
    assert text == shown


def test_an_empty_stop_is_refused():
    with pytest.raises(ValueError, match="must not be empty"):
        StopCutter([""])


@given(
    st.lists(st.text("ab\n", max_size=4), max_size=12), st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3)
)
def test_what_is_shown_is_the_text_up_to_the_first_stop(pieces: list[str], stops: list[str]):
    released, stopped = run(pieces, stops)
    shown = "".join(text for texts in released for text in texts)
    read = ""
    for piece in pieces:  # the oracle looks at the whole text after every token
        read += piece
        found = [read.find(stop) for stop in stops if stop in read]
        if found:
            assert stopped
            assert shown == read[: min(found)]
            return
    assert not stopped
    assert shown == read


def test_a_character_appears_with_its_last_byte():
    decoder = PieceDecoder()
    assert [decoder.push(bytes([byte])) for byte in "é😀".encode()] == ["", "é", "", "", "", "😀"]


def test_bytes_that_are_no_text_become_a_replacement_mark():
    assert PieceDecoder().push(b"a\xffb") == "a\ufffdb"


@given(st.integers(0, 50), st.integers(1, 600))
def test_parts_keep_the_granule_and_the_shortest_length(granules: int, length: int):
    start = granules * GRANULE
    parts = prefill_parts(start, start + length)
    assert [a for a, _ in parts] == [start, *(b for _, b in parts[:-1])]
    assert parts[-1][1] == start + length
    sizes = [b - a for a, b in parts]
    assert max(sizes) <= PART
    assert all(size % GRANULE == 0 and size >= SHORTEST_PART for size in sizes[:-1])
    assert sizes[-1] >= min(length, SHORTEST_PART)


def test_a_last_part_that_would_be_short_borrows_from_the_one_before():
    assert prefill_parts(0, 2 * PART + 3) == [(0, PART), (PART, 2 * PART - 8), (2 * PART - 8, 2 * PART + 3)]


@pytest.mark.parametrize(
    ("common", "cached", "wanted", "granule", "expected"),
    [
        (0, 50, 50, 4, 0),
        (30, 50, 50, 4, 28),
        (50, 50, 50, 4, 40),  # at least 8 tokens are evaluated again, since their logits are needed
        (30, 33, 60, 4, 24),  # 33 - 8 = 25: the cached prompt's own last part is not reused
        (200, 200, 200, 64, 192),
        (195, 199, 300, 64, 128),  # 199 - 8 = 191: its third part was shortened
        (5, 9, 9, 4, 0),
    ],
)
def test_reusable_prefix(common: int, cached: int, wanted: int, granule: int, expected: int):
    first = [1] * common + [2] * (cached - common)
    second = [1] * common + [3] * (wanted - common)
    assert reusable_prefix(first, second, granule) == expected
