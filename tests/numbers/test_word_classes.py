"""Word classes of questions, counted by hand (DeepRAG, Fig. 8)."""

from __future__ import annotations

import pytest

from adaptrag_cli.stepwise.word_classes import mean_word_classes, word_classes


@pytest.mark.parametrize(
    ("text", "wh", "noun", "verb", "conjunction"),
    [
        ("Who directed Nosferatu?", 1, 1, 1, 0),  # Nosferatu; directed
        ("When was Ada De La Cruz born?", 1, 4, 2, 0),  # each word of the name; was, born
        ("What is the runtime of The Two Towers and of its prequel?", 1, 4, 1, 1),  # runtime, Two, Towers, prequel
        ("Which famous city is officially the largest in Norway?", 1, 2, 1, 0),  # city, Norway
        ("Who's older, Ada or Grace?", 1, 2, 0, 1),
        ("Didn't the building sink in 1887?", 0, 1, 2, 0),  # sink, which is not listed; did, and building by its ending
        ("How many goats live there?", 1, 1, 1, 0),  # goats; live
        ("", 0, 0, 0, 0),
    ],
)
def test_words_are_counted_by_class(text: str, wh: int, noun: int, verb: int, conjunction: int):
    counts = word_classes(text)
    assert (counts["wh"], counts["noun"], counts["verb"], counts["conjunction"]) == (wh, noun, verb, conjunction)


def test_means_are_over_texts():
    assert mean_word_classes(["Who directed Nosferatu?", "Who is Ada?", "Ada and Grace?", "Why?"]) == {
        "wh": 3 / 4,
        "noun": (1 + 1 + 2 + 0) / 4,
        "verb": 2 / 4,
        "conjunction": 1 / 4,
    }
    assert mean_word_classes([]) == {}
