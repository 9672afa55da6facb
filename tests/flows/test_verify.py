"""dtr+verify as whole runs: one search before the decision, and the likelier answer after it."""

from __future__ import annotations

import math

import pytest

from adaptrag_cli.calibration import FittedVerifier, Logistic
from adaptrag_cli.events import (
    DOCUMENTS_DO_NOT_TELL,
    AnswersWeighed,
    ChunksSelected,
    DecisionMade,
    Event,
    PathRetrieved,
    RunFailed,
    RunFinished,
)
from adaptrag_cli.evidence import EvidenceRule
from adaptrag_cli.prompts import Passage, with_passages
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.strategies.base import Resources, load_strategy
from fakes import ScriptedModel, reply
from lamp import DOCUMENTS, QUERY, lamp_retriever, unsure_model
from methods import cost, only, outline, run_with


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    return lamp_retriever(tmp_path_factory.mktemp("lamp"))


def constant(chance: float) -> Logistic:
    return Logistic(features=(), weights=(), means=(), scales=(), intercept=math.log(chance / (1 - chance)))


def verifier(
    retriever: Retriever,
    *,
    draft: float | Logistic = 0.3,
    before: float = 0.6,
    after: float | Logistic = 0.6,
    draft_after: float = 0.3,
    **changes: object,
) -> FittedVerifier:
    def model(chance: float | Logistic) -> Logistic:
        return chance if isinstance(chance, Logistic) else constant(chance)

    values: dict[str, object] = {
        "encoder": retriever.encoder.fingerprint.name,
        "look_up": "query",
        "skip_margin": 0.1,
        "keep_margin": 0.1,
    }
    return FittedVerifier(
        draft=model(draft),
        before=model(before),
        after=model(after),
        draft_after=model(draft_after),
        **(values | changes),  # type: ignore[arg-type]
    )


def verify(
    retriever: Retriever, fitted: FittedVerifier | None, model: ScriptedModel | None = None, **options: object
) -> list[Event]:
    use = Resources(
        model=model or unsure_model(),
        retriever=retriever,
        verifier=fitted,
        evidence_rule=EvidenceRule(max_answer_uncertainty=0.0, min_query_score=1.0),  # has no say here
    )
    return run_with(use, "dtr+verify", **options)


def test_one_search_and_the_answer_from_documents(retriever):
    model = unsure_model()
    events = verify(retriever, verifier(retriever), model)
    assert outline(events) == [
        "RunStarted",
        "PromptBuilt:draft",
        "UncertaintyMeasured",
        "PathRetrieved:query",
        "DecisionMade",
        "ChunksSelected",
        "PromptBuilt:answer",
        "EvidenceJudged",
        "AnswersWeighed",
        "RunFinished",
    ]
    searched = only(events, PathRetrieved)
    assert (searched.before_decision, searched.query_text, len(searched.chunks)) == (True, QUERY, 2)
    decision = only(events, DecisionMade)
    assert (decision.retrieve, decision.uncertainty, decision.threshold) == (True, 0.5, None)
    assert decision.reason == "documents may do better (chance of being right: draft 0.30, documents 0.60)"
    # Standard RAG's chunks and prompt: lamp at 20 degrees, harbour at 50.
    kept = [Passage(title=c.title, text=c.text) for c in only(events, ChunksSelected).candidates if c.kept]
    assert [p.text for p in kept] == [DOCUMENTS["lamp.md"], DOCUMENTS["harbour.txt"]]
    assert model.calls[-1].prompt.text == model.build_prompt(with_passages(QUERY, kept)).text
    weighed = only(events, AnswersWeighed)
    assert (weighed.draft_chance, weighed.documents_chance) == (pytest.approx(0.3), pytest.approx(0.6))
    assert (weighed.floor, weighed.chosen) == (0.0, "documents")
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction) == ("Ottilie Brandt", "documents", "whole")
    assert cost(events) == (2, 1)


def test_a_draft_that_is_clearly_likelier_right_is_not_looked_up(retriever):
    events = verify(retriever, verifier(retriever, draft=0.8, before=0.6))
    assert outline(events)[-4:] == ["PathRetrieved:query", "DecisionMade", "AnswersWeighed", "RunFinished"]
    decision = only(events, DecisionMade)
    assert decision.retrieve is False
    assert decision.reason == "the draft is likelier right (chance of being right: draft 0.80, documents 0.60)"
    assert only(events, AnswersWeighed).chosen == "draft"
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction, end.chunk_ids) == ("Edison perhaps", "draft", "draft", ())
    assert cost(events) == (1, 1)  # the peek counts


def test_within_the_margin_it_looks_up(retriever):
    assert only(verify(retriever, verifier(retriever, draft=0.69, before=0.6)), DecisionMade).retrieve


def test_the_draft_is_given_after_all(retriever):
    events = verify(retriever, verifier(retriever, after=0.2, draft_after=0.5))
    assert only(events, AnswersWeighed).chosen == "draft"
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.chunk_ids) == ("Edison perhaps", "draft", ())
    assert cost(events) == (2, 1)


def test_both_paths_are_searched_where_that_was_better(retriever):
    events = verify(retriever, verifier(retriever, look_up="both"))
    assert outline(events)[3:] == [
        "PathRetrieved:query",
        "DecisionMade",
        "PromptBuilt:pseudo_context",
        "PseudoContextWritten",
        "PathRetrieved:query",
        "PathRetrieved:pseudo_context",
        "ChunksSelected",
        "PromptBuilt:answer",
        "EvidenceJudged",
        "AnswersWeighed",
        "RunFinished",
    ]
    assert [e.before_decision for e in events if isinstance(e, PathRetrieved)] == [True, False, False]
    assert only(events, ChunksSelected).score_name == "cos"
    assert cost(events) == (3, 3)


@pytest.mark.parametrize(
    "ablation", [{"paths": "query"}, {"paths": "pseudo_context"}, {"selection": "1q+2p"}, {"selection": "2q+1p"}]
)
def test_the_ablations_of_dtr_change_nothing(retriever, ablation):
    plain = verify(retriever, verifier(retriever, look_up="both"))
    ablated = verify(retriever, verifier(retriever, look_up="both"), **ablation)
    assert [e.path for e in ablated if isinstance(e, PathRetrieved)] == ["query", "query", "pseudo_context"]
    assert only(ablated, ChunksSelected).candidates == only(plain, ChunksSelected).candidates
    assert only(ablated, RunFinished).answer == only(plain, RunFinished).answer


def test_neither_is_given_below_the_floor(retriever):
    events = verify(retriever, verifier(retriever), floor=0.7)
    weighed = only(events, AnswersWeighed)
    assert (weighed.chosen, weighed.floor) == ("none", 0.7)
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction) == (DOCUMENTS_DO_NOT_TELL, "none", "none")
    assert set(end.chunk_ids) == {c.chunk_id for c in only(events, ChunksSelected).candidates if c.kept}


def test_a_draft_below_the_floor_is_looked_up(retriever):
    events = verify(retriever, verifier(retriever, draft=0.6, before=0.2, after=0.9), floor=0.7)
    assert only(events, DecisionMade).reason.startswith("the draft is below the floor of 0.70")
    assert only(events, RunFinished).answer == "Ottilie Brandt"


def test_where_documents_give_no_answer_the_draft_is_left(retriever):
    model = unsure_model(ScriptedModel().when("above context", reply("")))
    events = verify(retriever, verifier(retriever), model)
    weighed = only(events, AnswersWeighed)
    assert (weighed.documents_chance, weighed.chosen) == (0.0, "draft")
    assert only(events, RunFinished).answer == "Edison perhaps"


def test_chances_come_from_what_the_run_measured(retriever):
    # u = .5: ln .52 = -.654; chance 1 / (1 + exp(.654)) = .342.
    by_uncertainty = Logistic(
        features=("draft_uncertainty",), weights=(1.0,), means=(0.0,), scales=(1.0,), intercept=0.0
    )
    by_answer = Logistic(  # the lamp's chunk holds both words of the answer: 1 / (1 + exp(-2)) = .881
        features=("answer_in_chunks",), weights=(2.0,), means=(0.0,), scales=(1.0,), intercept=0.0
    )
    events = verify(retriever, verifier(retriever, draft=by_uncertainty, after=by_answer))
    assert "draft 0.34, documents 0.60" in only(events, DecisionMade).reason
    assert only(events, AnswersWeighed).documents_chance == pytest.approx(0.881, abs=1e-3)


def test_without_a_calibration_it_says_what_to_do(retriever):
    failure = only(verify(retriever, None), RunFailed)
    assert failure.message == "dtr+verify weighs with what was fitted for scripted, and nothing was"
    assert failure.hint == "adaptrag calibrate QUESTIONS --index NAME (or --strategy dtr)"


def test_another_encoder_is_refused(retriever):
    failure = only(verify(retriever, verifier(retriever, encoder="bge-base-en-v1.5")), RunFailed)
    assert failure.message.startswith("dtr+verify was fitted with encoder 'bge-base-en-v1.5', and the index has ")


@pytest.mark.parametrize(("look_up", "paths"), [("query", ["query"]), ("both", ["query", "query", "pseudo_context"])])
def test_looking_up_alone_searches_the_same(retriever, look_up, paths):
    use = Resources(model=unsure_model(), retriever=retriever, verifier=verifier(retriever, look_up=look_up))
    events = list(load_strategy("dtr+verify").look_up(QUERY, use))
    assert [e.path for e in events if isinstance(e, PathRetrieved)] == paths
    assert isinstance(events[-1], ChunksSelected)
