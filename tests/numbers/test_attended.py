"""Queries that attention builds (METHODS 4.8 and 5), on attention that is written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptrag_cli.stepwise.attended import Placed, content_words_query, dragin_query, etc_query
from adaptrag_cli.stepwise.spans import find_words

# Keys: 0 a prompt token, 1-4 the question, 5 "Answer:", 6-10 the text.
QUESTION = ["Where", " was", " Ann", " born"]
TEXT = ["Ann", " was", " Par", "is", "ian"]
ROWS = np.array(
    [
        #  prompt  Where  was   Ann  born  Answer Ann   was  Par  is  ian
        [0.10, 0.05, 0.05, 0.40, 0.10, 0.10, 0.20, 0.00, 0.00, 0.0, 0.0],  # 6 Ann
        [0.20, 0.10, 0.00, 0.10, 0.30, 0.10, 0.10, 0.10, 0.00, 0.0, 0.0],  # 7 was
        [0.10, 0.00, 0.10, 0.20, 0.30, 0.00, 0.10, 0.10, 0.10, 0.0, 0.0],  # 8 Par
        [0.00, 0.10, 0.10, 0.10, 0.10, 0.00, 0.20, 0.20, 0.10, 0.1, 0.0],  # 9 is
        [0.10, 0.10, 0.10, 0.30, 0.20, 0.00, 0.00, 0.00, 0.10, 0.0, 0.1],  # 10 ian
    ]
)
QUESTION_AT = Placed(words=find_words(QUESTION), at=1)
WRITTEN = Placed(words=find_words(TEXT), at=6)
PARISIAN = 2  # the third word, keys 8 to 10


def near(value):
    return pytest.approx(value, rel=0, abs=1e-12)


def test_etc_takes_what_the_firing_word_itself_pays():
    query = etc_query(ROWS, 6, [QUESTION_AT], WRITTEN, [PARISIAN])
    # Mean of rows 8, 9, 10: Ann (question) .6 / 3, born .6 / 3, Ann (text) .3 / 3; no function words, no prompt.
    assert query.method == "attention"
    assert query.text == "Ann born Ann"
    assert [word.weight for word in query.words] == near([0.2, 0.2, 0.1])


def test_etc_sums_over_the_firing_words_and_over_the_tokens_of_a_word():
    rows = np.array([[0.5, 0.1, 0.2, 0.2, 0, 0], [0.1, 0.3, 0.2, 0.1, 0.3, 0], [0.2, 0.1, 0.1, 0.1, 0.1, 0.4]])
    written = Placed(words=find_words([" grew", " Rome", " fell"]), at=3)
    before = [Placed(words=find_words([" Par", "is"]), at=0), Placed(words=find_words([" lived"]), at=2)]
    query = etc_query(rows, 3, before, written, [1, 2])
    # Paris: (.1 + .3) + (.2 + .1); lived .2 + .1; grew (before the first firing word) .1 + .1
    assert query.text == "Paris lived grew"
    assert [word.weight for word in query.words] == near([0.7, 0.3, 0.2])


def test_the_heaviest_words_stand_in_the_order_of_the_text():
    query = etc_query(ROWS, 6, [QUESTION_AT], WRITTEN, [PARISIAN], limit=2)
    assert query.text == "Ann born"
    # .2 and .2 are equal: the earlier word is kept
    assert etc_query(ROWS, 6, [QUESTION_AT], WRITTEN, [PARISIAN], limit=1).text == "Ann"


def test_dragin_takes_the_rows_before_the_words_tokens():
    query = dragin_query(ROWS, 6, [QUESTION_AT], WRITTEN, [PARISIAN])
    # Rows 7, 8, 9 over Where was Ann born | Ann was:
    # 7: .1 0 .1 .3 | .1 .1 of .7;  8: 0 .1 .2 .3 | .1 .1 of .8;  9: .1 .1 .1 .1 | .2 .2 of .8
    assert query.text == "Ann born Ann"
    ann, born, text_ann = (
        (0.1 / 0.7 + 0.2 / 0.8 + 0.1 / 0.8) / 3,
        (0.3 / 0.7 + 0.3 / 0.8 + 0.1 / 0.8) / 3,
        (0.1 / 0.7 + 0.1 / 0.8 + 0.2 / 0.8) / 3,
    )
    assert [word.weight for word in query.words] == near([ann, born, text_ann])


def test_dragin_averages_over_hits_and_drops_them():
    rows = np.array([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.2, 0.2, 0.6, 0], [0.1, 0.1, 0.1, 0.7]])
    written = Placed(words=find_words(["Rome", " Milan", " fell", " early"]), at=0)
    query = dragin_query(rows, 0, [], written, [1, 3])
    # Milan: row 0 over Rome alone: 1. early: row 2 over Rome Milan fell: .2 .2 .6. Milan itself is a hit.
    assert query.text == "Rome fell"
    assert [word.weight for word in query.words] == near([0.6, 0.3])


def test_the_first_token_of_all_has_no_row_before_it():
    written = Placed(words=find_words(["Ro", "me", " fell"]), at=0)
    rows = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.2, 0.6]])
    assert dragin_query(rows, 0, [], written, [0]) is None
    # Not even in a longer text: the rows begin at key 6, and what led to the token there was not captured.
    assert dragin_query(ROWS, 6, [QUESTION_AT], WRITTEN, [0]) is None


def test_nothing_to_choose_from_makes_no_query():
    only = Placed(words=find_words([" was"]), at=2)
    for build in (etc_query, dragin_query):
        assert build(ROWS, 6, [QUESTION_AT], WRITTEN, []) is None
        assert build(ROWS, 6, [only], WRITTEN, [0]) is None
        assert build(ROWS, 6, [], WRITTEN, [0]) is None
        assert build(ROWS, 6, [QUESTION_AT], WRITTEN, [PARISIAN], limit=0) is None


def test_a_missing_row_is_an_error_of_the_caller():
    with pytest.raises(ValueError, match="no attention row for keys 8 to 10"):
        etc_query(ROWS[:3], 6, [QUESTION_AT], WRITTEN, [PARISIAN])


def test_broken_attention_ranks_last_and_has_no_weight():
    rows = ROWS.copy()
    rows[:, 3] = np.nan  # "Ann" of the question
    query = etc_query(rows, 6, [QUESTION_AT], WRITTEN, [PARISIAN], limit=2)
    assert query.text == "born Ann"
    query = etc_query(rows, 6, [QUESTION_AT], WRITTEN, [PARISIAN])
    assert [word.weight for word in query.words] == [None, near(0.2), near(0.1)]


def test_words_are_bared_of_punctuation():
    before = Placed(words=find_words(["Ann", " (", "born", " 1959).", " fell"], rule="dragin"), at=0)
    written = Placed(words=find_words([" today"]), at=5)
    rows = np.array([[0.1, 0.2, 0.1, 0.3, 0.1, 0.1], [0.2, 0.2, 0.2, 0.2, 0.1, 0.1]])
    assert etc_query(rows, 5, [before], written, [0]).text == "Ann born 1959 fell"
    assert dragin_query(rows, 4, [before], written, [0]).text == "Ann born 1959 fell"


def test_without_attention_the_content_words_of_question_and_last_sentence():
    query = content_words_query("Where was Ann Smith born?", "Ann sang. She lived in Paris, in May 1959. ")
    assert query.method == "content_words"
    assert query.text == "Ann Smith born lived Paris May 1959"
    assert all(word.weight is None for word in query.words)
    assert content_words_query("Where was Ann Smith born?", "").text == "Ann Smith born"
    assert content_words_query("Where was Ann Smith born?", "She lived in Paris.", limit=2).text == "lived Paris"
    assert content_words_query("Who was he?", "") is None
    assert len(content_words_query(" ".join(f"word{n}" for n in range(50)), "").words) == 35


SPANS = st.lists(st.sampled_from(["Ann", " was", " Par", "is", " born", ".", " 19", "59"]), min_size=2, max_size=12)


@given(SPANS, SPANS, st.data())
def test_chosen_words_stand_before_the_last_firing_word_in_order(question, text, data):
    words = find_words(text)
    hits = sorted(data.draw(st.sets(st.integers(0, len(words) - 1), min_size=1)))
    limit = data.draw(st.integers(1, 10))
    length = len(question) + len(text)
    random = np.random.default_rng(data.draw(st.integers(0, 100)))
    rows = np.tril(random.random((length, length)))
    rows /= rows.sum(axis=1, keepdims=True)
    before = Placed(words=find_words(question), at=0)
    written = Placed(words=words, at=len(question))
    open_to_etc = [*before.words, *words[: hits[0]]]
    open_to_dragin = [*before.words, *(word for n, word in enumerate(words[: hits[-1]]) if n not in hits)]
    for build, candidates in ((etc_query, open_to_etc), (dragin_query, open_to_dragin)):
        query = build(rows, 0, [before], written, hits, limit=limit)
        content = [word.text.strip() for word in candidates if word.is_content]
        if not content:
            assert query is None
            continue
        assert len(query.words) == min(limit, len(content))
        left = iter(content)
        assert all(word.text in left for word in query.words)  # in order: `in` goes on from where it stopped
        assert query.text == " ".join(word.text for word in query.words)
        assert all(0 <= word.weight <= len(hits) for word in query.words)
