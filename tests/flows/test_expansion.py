"""HyDE, Query2doc and chain-of-thought expansion as whole runs: what is written, what is searched, what is kept."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from adaptrag_cli import prompts
from adaptrag_cli.events import (
    ChunksSelected,
    DecisionMade,
    GenerationReused,
    PathRetrieved,
    PseudoContextWritten,
    RunFailed,
    RunFinished,
)
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.strategies.base import Options, Resources, Reuse, load_strategy
from adaptrag_cli.strategies.expansion import repeat_query
from fakes import ScriptedModel, reply
from lamp import DOCUMENTS, QUERY, READING
from methods import asked, cost, only, outline, run_with
from plane import PlaneEncoder, plane_index

WRITTEN = "Imagined words."
WIDENED = "Who lit the lamp? Who lit the lamp? Who lit the lamp? Who lit the lamp? Who lit the lamp? Imagined words."
# The question stands at 0 degrees, what the model writes at 90; the widened text has an angle of its own.
ANGLES = {
    WIDENED: 60.0,
    "lit the lamp": 0.0,
    "Imagined": 90.0,
    "Ottilie": 45.0,
    "fee": 70.0,
    "goats": 150.0,
    "harbour": -50.0,
}
EXPANSIONS = ("hyde", "query2doc", "cot-expansion")
WRITING = {"hyde": "Please write a passage", "query2doc": "answers the given query", "cot-expansion": "rationale"}
PHASES = {"hyde": "pseudo_context", "query2doc": "pseudo_context", "cot-expansion": "rationale"}


@pytest.fixture
def retriever(tmp_path: Path) -> Retriever:
    encoder = PlaneEncoder(tmp_path / "encoder", ANGLES)
    return Retriever(plane_index(tmp_path, DOCUMENTS, encoder), encoder)


def model_of(written: str = WRITTEN) -> ScriptedModel:
    model = ScriptedModel().when(READING, reply("Ottilie Brandt"))
    for words in WRITING.values():
        model.when(words, reply(written))
    return model


def cosine(degrees: float) -> float:
    return math.cos(math.radians(degrees))


@pytest.mark.parametrize("strategy", EXPANSIONS)
def test_the_events_and_the_cost(retriever, strategy):
    events = run_with(Resources(model=model_of(), retriever=retriever), strategy)
    assert outline(events) == [
        "RunStarted",
        "DecisionMade",
        f"PromptBuilt:{PHASES[strategy]}",
        *(["PseudoContextWritten"] if PHASES[strategy] == "pseudo_context" else []),
        "PathRetrieved:expanded",
        "ChunksSelected",
        "PromptBuilt:answer",
        "EvidenceJudged",
        "RunFinished",
    ]
    decision = only(events, DecisionMade)
    assert (decision.retrieve, decision.uncertainty, decision.reason) == (True, None, "always looks up")
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction) == ("Ottilie Brandt", "documents", "whole")
    assert cost(events) == (2, 1)


def test_hyde_searches_the_mean_of_both_vectors(retriever):
    events = run_with(Resources(model=model_of(), retriever=retriever), "hyde")
    found = only(events, PathRetrieved)
    assert (found.retriever, found.query_text) == ("dense", f"{QUERY} {WRITTEN}")
    # The mean of (1, 0) and (0, 1) is (.5, .5), not normalised: a chunk at 45 degrees has .5 * 2 * cos 45 = .7071.
    assert [c.document for c in found.chunks] == ["lamp.md", "fees.md"]
    assert [c.score for c in found.chunks] == pytest.approx([cosine(45), (cosine(70) + cosine(20)) / 2], abs=1e-6)
    assert only(events, PseudoContextWritten).text == WRITTEN


def test_a_vector_is_searched_as_it_is(retriever):
    vector = np.array([0.5, 0.5], dtype=np.float32)
    found = retriever.search_vector(vector, n=3)
    assert [(f.rank, f.chunk.document) for f in found] == [(1, "lamp.md"), (2, "fees.md"), (3, "harbour.txt")]
    # (cos -50 + sin -50) / 2 = (.642788 - .766044) / 2
    assert [f.score for f in found] == pytest.approx([0.707107, 0.640856, -0.061628], abs=1e-6)
    assert retriever.search_vector(vector, n=0) == ()
    without = Retriever(retriever.store, retriever.encoder, deleted={"lamp.md", "harbour.txt"})
    assert [f.chunk.document for f in without.search_vector(vector, n=2)] == ["fees.md", "goats.txt"]


@pytest.mark.parametrize("strategy", ["query2doc", "cot-expansion"])
def test_five_queries_and_the_text_are_searched_as_one(retriever, strategy):
    events = run_with(Resources(model=model_of(), retriever=retriever), strategy)
    found = only(events, PathRetrieved)
    assert (found.retriever, found.query_text) == ("dense", WIDENED)
    # The widened text stands at 60 degrees. The question at 0 would have found lamp (45) and harbour (50).
    assert [(c.document, c.score) for c in found.chunks] == [
        ("fees.md", pytest.approx(cosine(10), abs=1e-6)),
        ("lamp.md", pytest.approx(cosine(15), abs=1e-6)),
    ]


@pytest.mark.parametrize("strategy", EXPANSIONS)
def test_chunks_keep_the_order_of_the_search_and_show_their_similarity_with_the_question(retriever, strategy):
    events = run_with(Resources(model=model_of(), retriever=retriever), strategy, top_k=3)
    selected = only(events, ChunksSelected)
    assert selected.score_name == "expanded"
    assert [c.chunk_id for c in selected.candidates] == [c.chunk_id for c in only(events, PathRetrieved).chunks]
    similarities = {"lamp.md": cosine(45), "fees.md": cosine(70), "harbour.txt": cosine(50), "goats.txt": cosine(150)}
    for chunk in selected.candidates:
        assert chunk.query_score == pytest.approx(similarities[chunk.document], abs=1e-6)
        assert chunk.query_angle == pytest.approx(math.acos(similarities[chunk.document]), abs=1e-5)
        assert (chunk.paths, chunk.ais_score, chunk.pseudo_context_score, chunk.kept) == (
            ("expanded",),
            None,
            None,
            True,
        )
    kept = [prompts.Passage(title=c.title, text=c.text) for c in selected.candidates]
    assert asked(events, "answer") == prompts.with_passages(QUERY, kept)


@pytest.mark.parametrize("strategy", EXPANSIONS)
@pytest.mark.parametrize("blank", ["", " \n"])
def test_a_blank_text_leaves_the_question_alone(retriever, strategy, blank):
    events = run_with(Resources(model=model_of(blank), retriever=retriever), strategy)
    found, selected = only(events, PathRetrieved), only(events, ChunksSelected)
    assert (found.path, found.query_text, selected.score_name) == ("query", QUERY, "query")
    always = run_with(Resources(model=model_of(), retriever=retriever), "always")
    assert [c.document for c in found.chunks] == ["lamp.md", "harbour.txt"]
    assert found.chunks == only(always, PathRetrieved).chunks
    assert selected.candidates == only(always, ChunksSelected).candidates
    assert cost(events) == (2, 1)


@pytest.mark.parametrize(
    ("strategy", "retriever_name", "searched"),
    [
        ("hyde", "sparse", "dense"),  # there is no text to search a mean of vectors with
        ("hyde", "hybrid", "dense"),
        ("query2doc", "sparse", "sparse"),
        ("cot-expansion", "hybrid", "hybrid"),
    ],
)
def test_a_vector_can_only_be_searched_densely(retriever, strategy, retriever_name, searched):
    events = run_with(Resources(model=model_of("goats"), retriever=retriever), strategy, retriever=retriever_name)
    found = only(events, PathRetrieved)
    assert found.retriever == searched
    assert ("retriever" in load_strategy(strategy).uses) is (retriever_name == searched)
    if searched == "sparse":
        assert {c.document for c in found.chunks} == {
            "lamp.md",
            "goats.txt",
        }  # the question's words and what was written


@pytest.mark.parametrize("strategy", EXPANSIONS)
def test_nothing_is_written_for_a_search_that_cannot_be(strategy):
    model = model_of()
    events = run_with(Resources(model=model, retriever=None), strategy)
    assert isinstance(events[-1], RunFailed)
    assert (events[-1].hint, model.calls) == ("adaptrag index FOLDER", [])


def test_the_prompts():
    assert prompts.hyde("Q?") == "Please write a passage to answer the question.\nQuestion: Q?\nPassage:"
    assert prompts.chain_of_thought("Q?") == "Answer the following question:\nQ?\nGive the rationale before answering"
    begin, *examples, end = prompts.query2doc("Q?").split("\n\n")
    assert begin == "Write a passage that answers the given query:"
    assert [example.count("Query: ") + example.count("\nPassage: ") for example in examples] == [2, 2, 2, 2]
    assert end == "Query: Q?\nPassage:"


@pytest.mark.parametrize(
    ("strategy", "write", "option"),
    [
        ("hyde", prompts.hyde, "pseudo_context_tokens"),
        ("query2doc", prompts.query2doc, "pseudo_context_tokens"),
        ("cot-expansion", prompts.chain_of_thought, "rationale_tokens"),
    ],
)
def test_what_the_model_is_asked(retriever, strategy, write, option):
    model = model_of()
    events = run_with(Resources(model=model, retriever=retriever), strategy, **{option: 7})
    assert asked(events, PHASES[strategy]) == write(QUERY)
    assert model.calls[0].max_tokens == 7
    assert option in load_strategy(strategy).uses
    assert getattr(load_strategy(strategy).defaults, option) == 128


def test_a_passage_of_the_same_prompt_is_taken_over(retriever):
    use = Resources(model=model_of(), retriever=retriever)
    reuse = Reuse.of_events(run_with(use, "hyde"))
    again = run_with(Resources(model=model_of(), retriever=retriever, reuse=reuse), "hyde")
    assert only(again, GenerationReused).text == WRITTEN
    assert cost(again) == (1, 1)
    other = run_with(Resources(model=model_of(), retriever=retriever, reuse=reuse), "query2doc")
    assert cost(other) == (2, 1)


def test_repeated_queries():
    assert repeat_query("q", "p r") == "q q q q q p r"
    assert repeat_query("q", "") == "q"


def test_defaults_are_those_of_standard_rag():
    assert {load_strategy(name).defaults for name in EXPANSIONS} == {Options()}
