"""BM25 against rank_bm25 to the last bit, against pencil and paper, and the tokeniser that feeds it."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from adaptrag_cli.index.sparse import SparseIndex, StatisticsBuilder, TermStatistics, TermTable, encode_terms
from adaptrag_cli.index.tokeniser import tokenise

# Few words, so that repeats, common words (negative idf) and shared words are frequent.
WORDS = st.sampled_from(["a", "b", "c", "d", "é", "東京", "foo_bar", "v2.1.3", "zz", "y"])
ROWS = st.lists(WORDS, max_size=12)


def statistics_of(corpus: list[list[str]]) -> TermStatistics:
    builder = StatisticsBuilder()
    for words in corpus:
        builder.add(words)
    return builder.finish()


def index_of(corpus: list[list[str]]) -> SparseIndex:
    statistics = statistics_of(corpus)
    offsets, rows, impacts = statistics.impacts()
    return SparseIndex(
        row_count=len(corpus),
        terms=TermTable(*encode_terms(statistics.terms)),
        posting_offsets=offsets,
        posting_rows=rows,
        posting_impacts=impacts,
    )


@given(
    corpus=st.lists(ROWS, min_size=1, max_size=20).filter(any), query=st.lists(WORDS | st.just("absent"), max_size=8)
)
def test_scores_equal_rank_bm25_to_the_last_bit(corpus: list[list[str]], query: list[str]) -> None:
    assert index_of(corpus).scores(query).tobytes() == BM25Okapi(corpus).get_scores(query).tobytes()


@given(
    corpus=st.lists(ROWS, min_size=1, max_size=20).filter(any),
    taken=st.lists(st.booleans(), min_size=20, max_size=20),
    new=st.lists(ROWS, max_size=5),
)
def test_rows_taken_over_count_as_if_read_again(
    corpus: list[list[str]], taken: list[bool], new: list[list[str]]
) -> None:
    kept = [row for row in range(len(corpus)) if taken[row]]
    builder = StatisticsBuilder(statistics_of(corpus))
    for row in kept:
        builder.copy(row)
    for words in new:
        builder.add(words)
    combined = builder.finish()
    afresh = statistics_of([corpus[row] for row in kept] + new)
    assert combined.terms == afresh.terms
    for name in ("row_offsets", "row_terms", "row_counts"):
        assert getattr(combined, name).tobytes() == getattr(afresh, name).tobytes()


def zipf_corpus(rows: int, seed: int = 7) -> list[list[str]]:
    rng = random.Random(seed)
    vocabulary = [f"w{i}" for i in range(5000)]
    weights = [1 / (i + 1) for i in range(5000)]
    return [rng.choices(vocabulary, weights, k=rng.randint(0, 120)) for _ in range(rows)]


def test_scores_of_2000_chunks_equal_rank_bm25_to_the_last_bit() -> None:
    corpus = zipf_corpus(2000)
    index, oracle, rng = index_of(corpus), BM25Okapi(corpus), random.Random(1)
    assert oracle.idf["w0"] == oracle.idf["w1"] == 0.25 * oracle.average_idf  # common words are at the floor
    for _ in range(20):
        query = [f"w{int(5000 ** rng.random())}" for _ in range(10)]
        assert index.scores(query).tobytes() == oracle.get_scores(query).tobytes()


def test_a_score_is_what_pencil_and_paper_say() -> None:
    # N = 3, average length (2 + 1 + 3) / 3 = 2. "cat": df 1, idf ln(2.5) - ln(1.5) = 0.5108.
    # Row 0: tf 1, |d| = 2, so 1 * 2.5 / (1 + 1.5 * (0.25 + 0.75)) = 1.
    index = index_of([["cat", "dog"], ["dog"], ["emu", "emu", "fox"]])
    assert index.scores(["cat"]).tolist() == pytest.approx([math.log(2.5 / 1.5), 0, 0])
    # Row 2: tf 2, |d| = 3: 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * 1.5)) = 5 / 4.0625; a repeated word counts twice.
    assert index.scores(["emu", "emu"])[2] == pytest.approx(2 * math.log(2.5 / 1.5) * 5 / 4.0625)


def test_search_drops_scores_that_are_not_positive_and_breaks_ties_by_row() -> None:
    corpus = [["x", "p"], ["q", "r"], ["x", "p"], ["s", "t"], ["x", "p"], ["u", "v"], ["w", "y"], ["z", "k"]]
    index = index_of(corpus)
    rows, scores = index.search(["x"], 2)
    assert rows.tolist() == [0, 2]
    assert scores[0] == scores[1] > 0
    assert index.search(["x"], 100)[0].tolist() == [0, 2, 4]
    assert index.search(["x"], 0)[0].tolist() == []
    assert index.search(["absent"], 5)[0].tolist() == []
    assert index.search([], 5)[0].tolist() == []


@given(
    corpus=st.lists(ROWS, min_size=1, max_size=20).filter(any), query=st.lists(WORDS, max_size=5), n=st.integers(0, 25)
)
def test_search_is_the_head_of_the_sorted_positive_scores(corpus: list[list[str]], query: list[str], n: int) -> None:
    index = index_of(corpus)
    scores = index.scores(query)
    expected = sorted((row for row in range(len(corpus)) if scores[row] > 0), key=lambda row: (-scores[row], row))[:n]
    rows, found = index.search(query, n)
    assert rows.tolist() == expected
    assert found.tolist() == [scores[row] for row in expected]


@pytest.mark.parametrize("corpus", [[["only", "one"]], [["one", "x"], ["two", "x"]]])
def test_one_or_two_chunks_have_no_positive_score(corpus: list[list[str]]) -> None:
    index = index_of(corpus)
    assert index.search(["one"], 5)[0].tolist() == []
    assert index.search(["x"], 5)[0].tolist() == []


@pytest.mark.parametrize("corpus", [[], [[]], [[], []]])
def test_a_corpus_without_words_has_no_hits(corpus: list[list[str]]) -> None:
    index = index_of(corpus)
    assert index.scores(["a"]).tolist() == [0.0] * len(corpus)
    assert index.search(["a"], 3)[0].tolist() == []


@given(st.sets(st.text(min_size=1, max_size=5), max_size=30))
def test_a_term_table_finds_exactly_its_words(words: set[str]) -> None:
    ordered = sorted(words, key=lambda word: word.encode("utf-8", "surrogatepass"))
    table = TermTable(*encode_terms(ordered))
    assert list(table) == ordered
    assert [table.find(word) for word in ordered] == list(range(len(ordered)))
    assert table.find("not among them") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("... !? --- _", []),
        ("The Cat, the cat", ["the", "cat", "the", "cat"]),
        ("foo_bar", ["foo_bar", "foo", "bar"]),
        ("v2.1.3", ["v2.1.3", "v2", "1", "3"]),
        ("pre-commit", ["pre-commit", "pre", "commit"]),
        ("__init__.py", ["__init__.py", "init", "py"]),
        ("end.\nNext", ["end", "next"]),
        ("Straße", ["strasse"]),
        ("ﬁne Ｆｏｏ", ["fine", "foo"]),
        ("pre\u2010com\u00admit", ["pre-commit", "pre", "commit"]),
        ("cafe\u0301", ["café"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("東京都に行く", ["東京", "京都", "都に", "に行", "行く"]),
        ("水", ["水"]),
        ("東京2020大会", ["東京", "2020", "大会"]),
        ("ｶﾀｶﾅ", ["カタ", "タカ", "カナ"]),
        ("서울시", ["서울", "울시"]),
        ("Ünïcode-Wort", ["ünïcode-wort", "ünïcode", "wort"]),
        ("Привет, мир", ["привет", "мир"]),
    ],
)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    assert tokenise(text) == words


@given(st.text(max_size=200))
def test_tokenising_is_case_and_width_blind_and_gives_no_blanks(text: str) -> None:
    words = tokenise(text)
    assert all(word and not any(c.isspace() for c in word) for word in words)
    assert tokenise(text.upper().lower()) == tokenise(text.upper())


@given(st.from_regex(r"[a-z0-9]{1,6}([-._][a-z0-9]{1,6}){1,3}", fullmatch=True))
def test_a_joined_word_is_found_whole_and_in_parts(word: str) -> None:
    words = tokenise(f"see ({word}), please")
    parts = word.replace("-", " ").replace(".", " ").replace("_", " ").split()
    assert set(words) == {"see", "please", word, *parts}
