"""Reranking as whole runs: the baseline, and AIS by reranking against question and pseudo-context."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from adaptrag_cli import prompts
from adaptrag_cli.events import ChunksReranked, ChunksSelected, DecisionMade, PathRetrieved, RunFailed, RunFinished
from adaptrag_cli.models.answer_reranker import AnswerModelReranker
from adaptrag_cli.models.base import RerankScores
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.strategies.base import Resources, load_strategy
from fakes import ScriptedModel, reply
from lamp import DOCUMENTS, IMAGINING, QUERY, READING, lamp_retriever, unsure_model
from methods import asked, cost, only, outline, run_with

IMAGINED = "An imagined passage."
# What is embedded and read: title and text.
LAMP, FEES, GOATS, HARBOUR = (f"{name.partition('.')[0]}\n{text}" for name, text in DOCUMENTS.items())
# The question stands at 0 degrees, the documents at 20, -50, 70 and 150.
BY_QUESTION = ("lamp.md", "harbour.txt", "fees.md", "goats.txt")


class TableReranker:
    """A `Reranker` that looks a pair's score up by what the chunk holds, and keeps the pairs."""

    name = "table"

    def __init__(self, scores: Mapping[str, Mapping[str, float]]) -> None:
        self._scores = scores
        self.pairs: list[tuple[str, str]] = []

    def score(self, pairs: Sequence[tuple[str, str]]) -> RerankScores:
        self.pairs += pairs
        return RerankScores(scores=tuple(self._scores[query][text] for query, text in pairs))


@pytest.fixture
def retriever(tmp_path: Path) -> Retriever:
    return lamp_retriever(tmp_path)


def model_of() -> ScriptedModel:
    return ScriptedModel().when(READING, reply("Ottilie Brandt")).when(IMAGINING, reply(IMAGINED))


def against_question(**scores: float) -> TableReranker:
    texts = {"lamp": LAMP, "fees": FEES, "goats": GOATS, "harbour": HARBOUR}
    return TableReranker({QUERY: {texts[name]: score for name, score in scores.items()}})


def ranks(events: Sequence[object]) -> list[tuple[str, float | None, bool]]:
    selected = next(e for e in events if isinstance(e, ChunksSelected))
    return [(c.document, c.ais_score, c.kept) for c in selected.candidates]


def test_a_cross_encoder_chooses_among_what_was_found(retriever):
    reranker = against_question(lamp=-1.5, fees=3.0, goats=0.5, harbour=-4.0)
    events = run_with(Resources(model=model_of(), retriever=retriever, reranker=reranker), "rerank")
    assert outline(events) == [
        "RunStarted",
        "DecisionMade",
        "PathRetrieved:query",
        "ChunksReranked:query",
        "ChunksSelected",
        "PromptBuilt:answer",
        "EvidenceJudged",
        "RunFinished",
    ]
    assert only(events, DecisionMade).reason == "always looks up"
    assert tuple(c.document for c in only(events, PathRetrieved).chunks) == BY_QUESTION
    assert reranker.pairs == [(QUERY, LAMP), (QUERY, HARBOUR), (QUERY, FEES), (QUERY, GOATS)]
    read = only(events, ChunksReranked)
    assert (read.reranker, read.scores, read.llm_calls, read.prompt_tokens) == ("table", (-1.5, -4.0, 3.0, 0.5), 0, 0)
    assert read.chunk_ids == tuple(c.chunk_id for c in only(events, PathRetrieved).chunks)
    assert only(events, ChunksSelected).score_name == "rerank"
    assert ranks(events) == [
        ("fees.md", 3.0, True),
        ("goats.txt", 0.5, True),
        ("lamp.md", -1.5, False),
        ("harbour.txt", -4.0, False),
    ]
    best = only(events, ChunksSelected).candidates[0]
    assert (best.paths, best.pseudo_context_score) == (("query",), None)
    assert best.query_score == pytest.approx(math.cos(math.radians(70)), abs=1e-6)
    assert best.query_angle == pytest.approx(math.radians(70), abs=1e-6)
    kept = [prompts.Passage(title=c.title, text=c.text) for c in only(events, ChunksSelected).candidates[:2]]
    assert asked(events, "answer") == prompts.with_passages(QUERY, kept)
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source) == ("Ottilie Brandt", "documents")
    assert cost(events) == (1, 1)


def test_equal_scores_are_ordered_by_the_similarity_with_the_question(retriever):
    reranker = against_question(lamp=1.0, fees=1.0, goats=2.0, harbour=1.0)
    events = run_with(Resources(model=model_of(), retriever=retriever, reranker=reranker), "rerank")
    assert [document for document, *_ in ranks(events)] == ["goats.txt", "lamp.md", "harbour.txt", "fees.md"]


@pytest.mark.parametrize(("depth", "top_k", "read"), [(10, 2, 4), (3, 2, 3), (1, 2, 2)])
def test_how_many_chunks_are_read(retriever, depth, top_k, read):
    reranker = against_question(lamp=0.0, fees=0.0, goats=0.0, harbour=0.0)
    use = Resources(model=model_of(), retriever=retriever, reranker=reranker)
    events = run_with(use, "rerank", rerank_depth=depth, top_k=top_k)
    assert [text for _, text in reranker.pairs] == [LAMP, HARBOUR, FEES, GOATS][:read]
    assert sum(kept for *_, kept in ranks(events)) == top_k
    assert load_strategy("rerank").defaults.rerank_depth == 10


def test_the_answer_model_reranks_where_there_is_no_cross_encoder(retriever):
    model = model_of().labels(FEES, {"Yes": -0.25, "No": -1.5}).labels(LAMP, {"Yes": -2.0, "No": -0.5})
    model.labels("", {"Yes": -9.0, "No": -0.125})
    use = Resources(model=model, retriever=retriever, reranker=AnswerModelReranker(model))
    events = run_with(use, "rerank", rerank_depth=3)
    # ln P(Yes) - ln P(No): fees -.25 + 1.5, lamp -2 + .5, harbour -9 + .125
    assert ranks(events) == [("fees.md", 1.25, True), ("lamp.md", -1.5, True), ("harbour.txt", -8.875, False)]
    read = only(events, ChunksReranked)
    lengths = [len(model.build_prompt(prompts.relevance(QUERY, text))) for text in (LAMP, HARBOUR, FEES)]
    assert (read.reranker, read.llm_calls, read.prompt_tokens) == ("scripted", 3, sum(lengths))
    counts = only(events, RunFinished).counts
    assert (counts.llm_calls, counts.searches) == (4, 1)
    assert counts.prompt_tokens == sum(lengths) + len(model.calls[0].prompt)


def test_ais_by_reranking_adds_both_readings(retriever):
    reranker = TableReranker(
        {
            QUERY: {LAMP: 2.0, HARBOUR: 1.0, FEES: -3.0},
            IMAGINED: {LAMP: -2.5, HARBOUR: -1.0, FEES: 5.0},
        }
    )
    use = Resources(model=model_of(), retriever=retriever, reranker=reranker)
    events = run_with(use, "dtr", gate=False, ais="rerank")
    # By the question: lamp, harbour; by the passage at 60 degrees: fees, lamp. Chunk by chunk, both texts.
    assert reranker.pairs == [
        (QUERY, LAMP),
        (IMAGINED, LAMP),
        (QUERY, HARBOUR),
        (IMAGINED, HARBOUR),
        (QUERY, FEES),
        (IMAGINED, FEES),
    ]
    read = {e.path: e.scores for e in events if isinstance(e, ChunksReranked)}
    assert read == {"query": (2.0, 1.0, -3.0), "pseudo_context": (-2.5, -1.0, 5.0)}
    assert ranks(events) == [("fees.md", 2.0, True), ("harbour.txt", 0.0, True), ("lamp.md", -0.5, False)]
    assert cost(events) == (2, 2)


def test_the_second_text_finds_its_chunk_in_the_cache(retriever):
    model = model_of().labels("", {"Yes": -0.5, "No": -1.0})
    use = Resources(model=model, retriever=retriever, reranker=AnswerModelReranker(model))
    events = run_with(use, "dtr", gate=False, ais="rerank")
    by_path = {e.path: e for e in events if isinstance(e, ChunksReranked)}
    # Of lamp, harbour and fees the prompts share the beginning, 7 + 5 + 7 words of the chunk, 9 of the question after.
    assert by_path["pseudo_context"].reused_tokens == 19 + 3 * (1 + 9)
    assert by_path["query"].reused_tokens == 3  # every chunk begins with its own title
    assert [by_path[path].llm_calls for path in ("query", "pseudo_context")] == [3, 3]
    for path, text in (("query", QUERY), ("pseudo_context", IMAGINED)):
        lengths = [len(model.build_prompt(prompts.relevance(text, chunk))) for chunk in (LAMP, HARBOUR, FEES)]
        assert by_path[path].prompt_tokens == sum(lengths)
    assert cost(events) == (8, 2)  # pseudo-context, 3 chunks x 2 texts, answer


@pytest.mark.parametrize(("strategy", "options"), [("rerank", {}), ("dtr", {"ais": "rerank", "threshold": 0.3})])
def test_without_a_reranker_the_run_says_how_to_have_one(retriever, strategy, options):
    events = run_with(Resources(model=unsure_model(), retriever=retriever), strategy, **options)
    assert isinstance(events[-1], RunFailed)
    assert events[-1].message == "chunks are to be reranked, and no reranker is open"
    assert events[-1].hint == "start again with --strategy rerank or --ais rerank"
