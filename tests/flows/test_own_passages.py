"""A question that has a knowledge base of its own finds nothing else, and nothing else is ranked for it."""

from __future__ import annotations

import pytest

from adaptrag_cli.evaluation.own_passages import OwnPassages, gold_chunks, only_own, rows_by_document
from adaptrag_cli.evaluation.questions import Question
from adaptrag_cli.evaluation.store_view import StoreView
from adaptrag_cli.index.store import Hit
from adaptrag_cli.retrieval import Retriever
from lamp import DOCUMENTS, QUERY, lamp_retriever

WORDS = "Who lit the harbour lamp, and what is the mooring fee?"


class Unranked(StoreView):
    """A store that must not be asked to rank all of its rows."""

    def sparse_search(self, text: str, n: int) -> tuple[Hit, ...]:
        raise AssertionError("the whole corpus is ranked")

    dense_search = sparse_search  # type: ignore[assignment]


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    return lamp_retriever(tmp_path_factory.mktemp("lamp"))


@pytest.mark.parametrize("rows", [(), (0,), (2, 0), (0, 1, 2, 3)])
def test_own_rows_rank_as_they_would_among_all(retriever: Retriever, rows: tuple[int, ...]) -> None:
    store = retriever.store
    own = OwnPassages(Unranked(store), rows)
    everything = store.sparse_search(WORDS, store.chunk_count)
    assert len(everything) >= 2
    assert own.sparse_search(WORDS, 9) == tuple(hit for hit in everything if hit.row in rows)
    assert own.sparse_search(WORDS, 1) == tuple(hit for hit in everything if hit.row in rows)[:1]
    vector = retriever.embed(QUERY)
    assert vector is not None
    expected = [hit for hit in store.dense_search(vector, store.chunk_count) if hit.row in rows]
    found = own.dense_search(vector, 9)
    assert [hit.row for hit in found] == [hit.row for hit in expected]
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected])


def test_a_question_is_narrowed_to_its_own_and_its_gold_is_named(retriever: Retriever) -> None:
    rows = rows_by_document(retriever.store)
    own, *others = sorted(rows)
    assert others
    question = Question(id="1", text=QUERY, answers=("x",), own_passages=(own,), gold_ids=(others[0], "gone.md"))
    narrowed = only_own(retriever, question, rows)
    assert narrowed is not None
    assert {f.chunk.document for f in narrowed.search(WORDS, retriever="hybrid", n=len(DOCUMENTS))} == {own}
    assert gold_chunks(retriever.store, question, rows) == tuple(
        retriever.store.chunk(row).chunk_id for row in rows[others[0]]
    )
    assert only_own(retriever, Question(id="2", text=QUERY, answers=("x",)), rows) is retriever
