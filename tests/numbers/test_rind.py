"""DRAGIN's RIND in both forms, with the worked numbers of METHODS 5."""

import math
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from adaptrag_cli.models.signals import AttentionReader
from adaptrag_cli.stepwise.firing import first_trigger, sentence_normalised
from adaptrag_cli.stepwise.rind import rind_scores, watch_rind
from adaptrag_cli.stepwise.spans import find_sentences, find_words

TOKENS = ["Paris", " is", " large", " today"]  # s = 1, 0, 1, 1
H = [0.2, 1.5, 0.4, 2.0]
A = [0.5, 0.2, 0.1, 0.2]


def near(values):
    return pytest.approx(values, rel=0, abs=1e-15)


def test_both_forms():
    words = find_words(TOKENS, rule="dragin")
    assert [word.is_content for word in words] == [True, False, True, True]
    assert rind_scores(H, A, words) == near((0.1, 0.0, 0.04, 0.4))
    shares = sentence_normalised(A, words)
    assert shares == near((2.0, 0.8, 0.4, 0.8))
    assert rind_scores(H, shares, words, mode="code") == near((0.4, 1.2, 0.16, 1.6))


@dataclass
class Computed:
    """A node of llama.cpp's graph, computed already: it hands its values to whoever reads it."""

    values: np.ndarray

    @property
    def size(self):
        return self.values.size

    def read(self, offset, count):
        return self.values.ravel()[offset : offset + count]

    @contextmanager
    def reading(self, readers):
        yield
        (read,) = readers.values()
        read(self)


@pytest.mark.parametrize("edges", [(0, 3), (0, 1, 3), (0, 2, 3), (0, 1, 2, 3)])
def test_attention_received_with_and_without_a_tokens_own_row_in_parts(edges):
    heads = np.array([[[1, 0, 0], [0.6, 0.4, 0], [0.2, 0.5, 0.3]], [[1, 0, 0], [0.5, 0.5, 0], [0.1, 0.2, 0.7]]])
    padded = np.pad(heads, ((0, 0), (0, 0), (0, 1))).astype(np.float32)
    reader = AttentionReader(layer=1, heads=2, first_row=0, n_keys=3)
    for start, end in pairwise(edges):
        with reader.part(Computed(padded[:, start:end]), start, end):
            pass
    attention = reader.result()
    # Code: (1, .5, .3) and (1, .5, .7). Paper, j > i: (.6, .5, 0) and (.5, .2, 0).
    assert attention.received == pytest.approx((1.0, 0.5, 0.5))
    assert attention.received_later == pytest.approx((0.55, 0.35, 0.0))
    assert attention.rows == pytest.approx(np.array([[1, 0, 0], [0.55, 0.45, 0], [0.15, 0.35, 0.5]]))


def test_the_codes_filter_comes_after_the_sentence_was_flagged():
    words = find_words(TOKENS, rule="dragin")
    watched = watch_rind(words, H, A, 1.0, mode="code")
    assert [each.attention for each in watched] == near([2.0, 0.8, 0.4, 0.8])
    assert [each.fires for each in watched] == [False, True, False, True]
    trigger = first_trigger(watched)
    assert (trigger.word, trigger.hits) == (1, (3,))


def test_a_function_word_alone_flags_a_sentence_and_is_its_hit():
    watched = watch_rind(find_words(TOKENS, rule="dragin"), [0.2, 1.5, 0.4, 0.5], A, 1.0, mode="code")
    assert first_trigger(watched).hits == (1,)


def test_the_papers_filter_is_part_of_the_score():
    words = find_words(TOKENS, rule="dragin")
    watched = watch_rind(words, H, A, 0.09)
    assert [each.value for each in watched] == near([0.1, 0.0, 0.04, 0.4])
    assert [each.fires for each in watched] == [True, False, False, True]
    # Strictly above the threshold, and a function word has no part in it.
    assert not watch_rind(words, [1.0, 9.0, 0.0, 0.0], [0.5, 0.9, 0.0, 0.0], 0.5)[0].fires
    assert first_trigger(watch_rind(words, H, A, 0.4)) is None


def test_words_have_the_mean_entropy_and_the_sum_or_the_most_of_attention():
    words = find_words([" Par", "ody", " born"], rule="dragin")
    paper = watch_rind(words, [1.0, 2.0, 1.0], [0.2, 0.4, 0.2], 9.0)
    assert [(each.entropy, each.attention) for each in paper] == [(1.5, 0.4), (1.0, 0.2)]
    code = watch_rind(words, [1.0, 2.0, 1.0], [0.2, 0.4, 0.2], 9.0, mode="code")
    # Sums .6 and .2, of .8, times two words: 1.5 and .5
    assert [each.attention for each in code] == near([1.5, 0.5])


def test_each_sentence_is_normalised_by_itself_and_the_first_one_fires():
    tokens = ["Paris", " grew", ".", " Rome", " fell", "."]
    words = find_words(tokens, rule="dragin")
    watched = watch_rind(words, [0.1, 0.1, 0.1, 3.0, 3.0, 0.1], [0.9, 0.1, 0.0, 0.01, 0.01, 0.0], 1.0, mode="code")
    trigger = first_trigger(watched)
    assert (trigger.sentence, trigger.word, trigger.hits) == (1, 2, (2, 3))
    assert "".join(tokens[: find_sentences(words)[trigger.sentence].first]) == "Paris grew."


def test_what_is_no_number_fires():
    words = find_words(TOKENS, rule="dragin")
    for broken_entropies, broken_attention in [([0.1, 0.1, math.nan, 0.1], A), (H, [0.5, 0.2, math.nan, 0.2])]:
        watched = watch_rind(words, broken_entropies, broken_attention, 100.0)
        assert [each.fires for each in watched] == [False, False, True, False]
        assert watched[2].value is None
    assert watch_rind((), [], [], 1.0, mode="code") == ()
