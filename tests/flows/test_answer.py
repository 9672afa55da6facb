"""Whole runs: real strategies, engine, index and search; only the language model follows a script."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptrag_cli import engine
from adaptrag_cli.errors import ExitCode, RunCancelled
from adaptrag_cli.events import (
    DOCUMENTS_DO_NOT_TELL,
    ChunkPeeked,
    ChunksSelected,
    DecisionMade,
    Event,
    EvidenceJudged,
    GenerationReused,
    PathRetrieved,
    PromptBuilt,
    RunFailed,
    RunFinished,
    SentenceCited,
    TokenGenerated,
    UncertaintyMeasured,
    WarningRaised,
)
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.strategies.base import Options, Resources, Reuse, load_strategy
from adaptrag_cli.strategies.table import strategy_names
from fakes import ScriptedModel, reply
from lamp import ANGLES, DOCUMENTS, DRAFTING, IMAGINING, QUERY, READING, RULE, lamp_retriever, run, unsure_model
from laws import check_laws
from plane import PlaneEncoder, plane_index


@pytest.fixture
def retriever(tmp_path: Path) -> Retriever:
    return lamp_retriever(tmp_path)


@pytest.fixture
def model() -> ScriptedModel:
    return unsure_model()


def only(events: Sequence[Event], kind: type) -> Event:
    found = [event for event in events if isinstance(event, kind)]
    assert len(found) == 1, f"{len(found)} of {kind.__name__}"
    return found[0]


def test_an_unsure_draft_is_looked_up_on_two_paths(model, retriever):
    events = run(model, retriever)
    assert only(events, UncertaintyMeasured).value == 0.5  # (.25 + .75) / 2
    decision = only(events, DecisionMade)
    assert (decision.retrieve, decision.uncertainty, decision.threshold) == (True, 0.5, 0.3)
    paths = {e.path: [c.document for c in e.chunks] for e in events if isinstance(e, PathRetrieved)}
    # 20 and 50 degrees from the query; 10 and 40 degrees from the pseudo-context.
    assert paths == {"query": ["lamp.md", "harbour.txt"], "pseudo_context": ["fees.md", "lamp.md"]}
    selected = only(events, ChunksSelected)
    # Angle sums: lamp 20 + 40 = 60 (on the arc), fees 70 + 10 = 80, harbour 50 + 110 = 160.
    assert [(c.document, c.kept, c.rank) for c in selected.candidates] == [
        ("lamp.md", True, 1),
        ("fees.md", True, 2),
        ("harbour.txt", False, 3),
    ]
    assert [c.ais_score for c in selected.candidates] == pytest.approx([0.5, 0.173648, -0.939693], abs=1e-5)
    assert [c.paths for c in selected.candidates] == [("query", "pseudo_context"), ("pseudo_context",), ("query",)]
    assert selected.query_pseudo_similarity == pytest.approx(0.5, abs=1e-6)
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source) == ("Ottilie Brandt", "documents")
    assert end.chunk_ids == ("lamp.md#0", "fees.md#0")
    assert (end.counts.llm_calls, end.counts.searches, end.counts.generated_tokens) == (3, 2, 2 + 3 + 2)


def test_the_final_prompt_holds_the_kept_chunks_best_first(model, retriever):
    prompt = next(e for e in run(model, retriever) if isinstance(e, PromptBuilt) and e.phase == "answer")
    text = prompt.text
    assert prompt.chunk_ids == ("lamp.md#0", "fees.md#0")
    assert text.index(QUERY) < text.index(DOCUMENTS["lamp.md"]) < text.index(DOCUMENTS["fees.md"]) < text.index(READING)
    assert DOCUMENTS["harbour.txt"] not in text


def test_a_sure_draft_is_the_answer_and_the_peek_is_not_counted(model, retriever):
    events = run(model, retriever, threshold=0.5)  # equality answers from the draft
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction) == ("Edison perhaps", "draft", "draft")
    assert (end.counts.llm_calls, end.counts.searches) == (1, 0)
    assert not [e for e in events if isinstance(e, PathRetrieved)]
    peeked = only(events, ChunkPeeked).chunk
    assert peeked is not None
    assert (peeked.document, peeked.score) == ("lamp.md", pytest.approx(0.939693, abs=1e-5))  # cos 20 degrees
    assert len(model.calls) == 1


def test_no_peek_when_it_is_switched_off(model, retriever):
    assert not [e for e in run(model, retriever, threshold=9.0, peek=False) if isinstance(e, ChunkPeeked)]


def test_ais_score_sum_may_keep_other_chunks(model, retriever):
    by_cosine = only(run(model, retriever), ChunksSelected)
    by_sum = only(run(model, retriever, ais="sum"), ChunksSelected)
    assert by_sum.score_name == "sum"
    # Sums of cosines: lamp .939693 + .766044, fees .342020 + .984808, harbour .642788 - .342020.
    assert [c.ais_score for c in by_sum.candidates] == pytest.approx([1.705737, 1.326828, 0.300768], abs=1e-5)
    assert [c.document for c in by_cosine.candidates] == [c.document for c in by_sum.candidates]


def test_dynamic_weight_is_in_the_trace(model, retriever):
    selected = only(run(model, retriever, ais="dynamic"), ChunksSelected)
    # alpha = .058 * pi / 3 + .455
    assert selected.query_weight == pytest.approx(0.515737, abs=1e-5)


def test_always_searches_once_and_keeps_the_best(model, retriever):
    events = run(model, retriever, "always")
    end = only(events, RunFinished)
    assert end.chunk_ids == ("lamp.md#0", "harbour.txt#0")
    assert (end.counts.llm_calls, end.counts.searches) == (1, 1)
    assert all(c.ais_score is None for c in only(events, ChunksSelected).candidates)


def test_never_needs_no_index(model):
    events = run(model, None, "never")
    assert only(events, RunFinished).answer_source == "draft"
    assert only(events, DecisionMade).threshold is None


def test_a_strategy_that_looks_up_refuses_to_run_without_an_index(model):
    failed = run(model, None)[-1]
    assert isinstance(failed, RunFailed)
    assert "no index is open" in failed.message


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_draft_has_no_uncertainty_and_retrieves(retriever, text):
    model = ScriptedModel().when(IMAGINING, reply("An imagined passage.")).when("above", reply("Ottilie"))
    model.when(DRAFTING, reply(text))
    events = run(model, retriever, threshold=99.0)
    assert only(events, UncertaintyMeasured).value is None
    assert only(events, DecisionMade).retrieve
    assert only(events, RunFinished).answer_source == "documents"


def test_a_blank_pseudo_context_leaves_the_query_path_alone(retriever):
    model = ScriptedModel().when(IMAGINING, reply(" ")).when("above", reply("Ottilie"))
    model.when(DRAFTING, reply("Edison", logprob=-2.0))
    events = run(model, retriever)
    assert only(events, PathRetrieved).path == "query"
    assert [c.document for c in only(events, ChunksSelected).candidates] == ["lamp.md", "harbour.txt"]
    assert only(events, ChunksSelected).score_name == "query"


def test_a_draft_and_a_pseudo_context_can_be_handed_in(model, retriever):
    first = run(model, retriever)
    generations = {call.prompt.text: call.generation for call in model.calls}
    draft = next(g for text, g in generations.items() if DRAFTING in text and "above" not in text)
    pseudo_context = next(g for text, g in generations.items() if IMAGINING in text)
    model.calls.clear()
    again = run(model, retriever, reuse=Reuse(draft=draft, pseudo_context=pseudo_context))
    assert len(model.calls) == 1
    assert [e.phase for e in again if isinstance(e, GenerationReused)] == ["draft", "pseudo_context"]
    assert only(again, RunFinished).counts.llm_calls == 1
    assert only(again, ChunksSelected).candidates == only(first, ChunksSelected).candidates
    tokens = [
        [(e.phase, e.text, e.logprob) for e in events if isinstance(e, TokenGenerated)] for events in (first, again)
    ]
    assert tokens[0] == tokens[1]


def test_chunks_that_do_not_fit_are_dropped_from_the_end_with_a_warning(model, retriever):
    events = run(model, retriever, draft_tokens=4, pseudo_context_tokens=4, answer_tokens=4)
    full = next(e for e in events if isinstance(e, PromptBuilt) and e.phase == "answer")
    model.context_length = full.tokens + 4 - 1
    events = run(model, retriever, draft_tokens=4, pseudo_context_tokens=4, answer_tokens=4)
    warning = only(events, WarningRaised)
    assert (warning.code, warning.message.split()[0]) == ("chunk_dropped", "fees.md:1")
    assert only(events, RunFinished).chunk_ids == ("lamp.md#0",)


def test_a_question_without_room_for_an_answer_fails_in_one_line(model, retriever):
    model.context_length = 16
    failed = run(model, retriever)[-1]
    assert isinstance(failed, RunFailed)
    assert (failed.error, failed.exit_code) == ("QueryTooLong", ExitCode.USAGE)


def test_deleted_documents_are_never_quoted(model, tmp_path):
    encoder = PlaneEncoder(tmp_path / "encoder", ANGLES)
    store = plane_index(tmp_path, DOCUMENTS, encoder)
    (tmp_path / "corpus" / "lamp.md").unlink()
    gone = Retriever(store, encoder, deleted=store.freshness().deleted)
    events = run(model, gone)
    assert "lamp.md" not in {c.document for c in only(events, ChunksSelected).candidates}
    assert [c.document for e in events if isinstance(e, PathRetrieved) and e.path == "query" for c in e.chunks] == [
        "harbour.txt",
        "fees.md",
    ]


def test_an_unsure_answer_from_documents_is_not_dressed_up(model, retriever):
    model = ScriptedModel().when(IMAGINING, reply("An imagined passage."))
    model.when("above context", reply("Someone", logprob=-0.9)).when(DRAFTING, reply("Edison", logprob=-2.0))
    events = run(model, retriever, rule=RULE)
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction) == (DOCUMENTS_DO_NOT_TELL, "none", "none")
    assert end.chunk_ids == ("lamp.md#0", "fees.md#0")
    assert only(events, EvidenceJudged).answer_uncertainty == pytest.approx(0.9)


def test_nothing_is_generated_from_chunks_about_something_else(model, tmp_path):
    far = lamp_retriever(tmp_path, {"Ottilie": 100.0, "harbour": 110.0})
    events = run(model, far, rule=RULE)
    assert only(events, RunFinished).answer_source == "none"
    assert len(model.calls) == 2  # draft and pseudo-context
    assert only(events, EvidenceJudged).best_query_score == pytest.approx(0.342020, abs=1e-5)  # the fees, at 70 degrees


def cited_run(retriever: Retriever, text: str) -> list[Event]:
    model = ScriptedModel().when(IMAGINING, reply("An imagined passage."))
    model.when("complete sentences", reply(text)).when(DRAFTING, reply("Edison", logprob=-2.0))
    return run(model, retriever, style="cited", rule=RULE)


def test_each_sentence_is_cited_before_the_next_begins(retriever):
    events = cited_run(retriever, "It was lit by Ottilie Brandt in 1887. The fee is 1,500 crowns. It is Tuesday.")
    tokens = [e for e in events if isinstance(e, TokenGenerated | SentenceCited) and getattr(e, "phase", "") != "draft"]
    tokens = tokens[3:]  # the pseudo-context's
    assert [(e.text, e.markers) for e in tokens if isinstance(e, SentenceCited)] == [
        ("It was lit by Ottilie Brandt in 1887.", (1,)),
        ("The fee is 1,500 crowns.", (2,)),
        ("It is Tuesday.", ()),
    ]
    first = next(i for i, e in enumerate(tokens) if isinstance(e, SentenceCited))
    assert [e.text for e in tokens[:first]] == ["It", " was", " lit", " by", " Ottilie", " Brandt", " in", " 1887."]
    assert tokens[first + 1].text == " The"
    assert tokens[first].end_step == 8
    assert only(events, RunFinished).answer_source == "documents"


def test_sentences_that_no_chunk_holds_are_not_an_answer(retriever):
    events = cited_run(retriever, "It was lit by Thomas Edison in 1879.")
    assert only(events, SentenceCited).chunk_ids == ()
    assert only(events, RunFinished).answer == DOCUMENTS_DO_NOT_TELL


@pytest.mark.parametrize("phase", ["draft", "pseudo_context", "answer"])
@pytest.mark.parametrize("at", [0, 1])
def test_a_cancelled_run_ends_with_its_exit_code(retriever, phase, at):
    replies = {"draft": "Edison perhaps", "pseudo_context": "An imagined passage.", "answer": "Ottilie Brandt"}
    model = ScriptedModel()
    for name, words in (("pseudo_context", IMAGINING), ("answer", "above context"), ("draft", DRAFTING)):
        model.when(words, reply(replies[name], logprob=-2.0, cancel_at=at if name == phase else None))
    events = run(model, retriever)
    failed = events[-1]
    assert isinstance(failed, RunFailed)
    assert (failed.error, failed.exit_code) == ("RunCancelled", ExitCode.INTERRUPTED)
    assert [e.phase for e in events if isinstance(e, PromptBuilt)][-1] == phase


def test_an_empty_question_fails_before_anything_is_generated(model, retriever):
    failed = run(model, retriever, query=" \n ")[-1]
    assert isinstance(failed, RunFailed)
    assert failed.message == "the question is empty"
    assert not model.calls


def test_a_programming_error_is_not_an_event(retriever):
    with pytest.raises(AssertionError, match="the script holds no reply"):
        run(ScriptedModel(), retriever)


def test_closing_the_stream_ends_the_strategy(model, retriever):
    use = Resources(model=model, retriever=retriever, options=Options(threshold=0.3))
    stream = engine.answer(engine.Run(query=QUERY), load_strategy("dtr"), use)
    while not isinstance(next(stream), TokenGenerated):
        pass
    stream.close()
    assert model.calls[0].generation is None
    assert list(stream) == []


def test_a_run_that_is_told_to_stop_between_two_calls_ends_properly(model, retriever):
    use = Resources(model=model, retriever=retriever, options=Options(threshold=0.3))
    stream = engine.answer(engine.Run(query=QUERY), load_strategy("dtr"), use)
    events = [next(stream)]
    while not isinstance(events[-1], PathRetrieved):
        events.append(next(stream))
    events.append(stream.throw(RunCancelled("stopped")))
    check_laws(events)
    assert isinstance(events[-1], RunFailed)
    assert events[-1].exit_code == ExitCode.INTERRUPTED
    assert list(stream) == []
    assert len(model.calls) == 2  # the answer was never begun


def test_only_working_time_counts(model, retriever):
    events = run(model, retriever)
    end = only(events, RunFinished)
    # The clock ticks once when a step begins and once when it ends: 1 ms of work an event, less the last itself.
    assert end.elapsed_ms == len(events)
    assert sum(stage.ms for stage in end.timings) == len(events) - 1
    assert {s.stage for s in end.timings} >= {"draft", "decide", "pseudo_context", "search_query", "select", "answer"}


@pytest.mark.parametrize("strategy", [n for n in strategy_names() if "threshold" in load_strategy(n).uses])
@given(threshold=st.floats(0, 2), step=st.floats(0, 2))
def test_raising_the_threshold_never_starts_a_retrieval(strategy, threshold, step):
    def decided(tau: float) -> bool:
        model = ScriptedModel()
        model.when("context", reply("x")).when(IMAGINING, reply(" ")).when(DRAFTING, reply("a b", logprob=[-0.4, -0.8]))
        use = Resources(model=model, retriever=None, options=Options(threshold=tau))
        events = engine.answer(engine.Run(query=QUERY), load_strategy(strategy), use)
        return next(e.retrieve for e in events if isinstance(e, DecisionMade))

    assert decided(threshold) or not decided(threshold + step)


@pytest.mark.parametrize("name", strategy_names())
def test_every_strategy_says_what_it_is(name):
    strategy = load_strategy(name)
    assert strategy.name == name
    assert strategy.paper
    assert strategy.summary
    assert strategy.requires <= {"text", "logprobs", "entropy", "attention", "states"}
