"""Probing-RAG and UAR as whole runs: what is probed, when it is looked up, with which query, and what the answer is."""

from __future__ import annotations

import math

import pytest

from adaptrag_cli import engine
from adaptrag_cli.errors import ConfigError, MissingCapability
from adaptrag_cli.events import (
    ChunksSelected,
    DecisionMade,
    PathRetrieved,
    ProbeMeasured,
    QueryBuilt,
    RunFailed,
    RunFinished,
    TokensDiscarded,
    WarningRaised,
)
from adaptrag_cli.run_document import to_document
from adaptrag_cli.run_summary import fold
from adaptrag_cli.strategies.base import Options, Resources, check_capabilities, load_strategy
from adaptrag_cli.strategies.rationales import STOP, write_rationale
from fakes import ScriptedModel, reply
from lamp import QUERY, lamp_retriever
from methods import cost, only, outline, run_with
from probers import constant_weights, prober, sign_weights

ASKS, STOPS = (3.0, 1.0, 2.0, 2.0), (1.0, 3.0, 2.0, 2.0)
"""States whose first number is the greater of the first two, and those whose is not."""
FIRST = " Somebody lit the lamp on the pier.\nAnswer: Somebody"
SECOND = " Ottilie Brandt lit the lamp in 1887.\nAnswer: Ottilie Brandt."
DEFAULTS = {"retriever": "sparse", "top_k": 2, "max_retrievals": 4, "examples": 4, "rationale_tokens": 150}


@pytest.fixture
def retriever(tmp_path):
    return lamp_retriever(tmp_path, {"Quux": 30.0})


def by_sign(**facts):
    return prober(width=4, layer_count=2, layers={0: sign_weights(4), 1: sign_weights(4)}, **facts)


def ask(retriever, *replies, strategy="probing", made=None, **options):
    model = ScriptedModel(gives_states=True).then(*replies)
    use = Resources(model=model, retriever=retriever, prober=made or by_sign())
    events = run_with(use, strategy, **{**DEFAULTS, **options})
    assert model.is_exhausted
    return model, events


def found(events, kind):
    return [event for event in events if isinstance(event, kind)]


# --- the loop


def test_it_stops_at_once_where_the_states_say_so(retriever):
    model, events = ask(retriever, reply(FIRST, states=STOPS))
    assert outline(events) == ["RunStarted", "PromptBuilt:reasoning", "ProbeMeasured", "DecisionMade", "RunFinished"]
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction, end.chunk_ids) == ("Somebody", "draft", "marked", ())
    assert cost(events) == (1, 0)
    (call,) = model.calls
    assert (call.stop, call.max_tokens, call.states) == (STOP, 150, (0, 1))
    assert call.prompt.text.endswith(f"Question: {QUERY}</user>\n<assistant>Rationale:")
    assert call.prompt.text.count("Rationale:") == 5


def test_it_looks_up_and_writes_anew_before_it_probes_again(retriever):
    model, events = ask(retriever, reply(FIRST, states=ASKS), reply(SECOND, states=STOPS))
    assert outline(events) == [
        "RunStarted",
        "PromptBuilt:reasoning",
        "ProbeMeasured",
        "DecisionMade",
        "QueryBuilt",
        "PathRetrieved:reasoning",
        "ChunksSelected",
        "TokensDiscarded:reasoning",
        "PromptBuilt:reasoning",
        "ProbeMeasured",
        "DecisionMade",
        "RunFinished",
    ]
    end = only(events, RunFinished)
    read = [chunk.chunk_id for chunk in only(events, ChunksSelected).candidates]
    assert (end.answer, end.answer_source, end.chunk_ids) == ("Ottilie Brandt", "documents", tuple(read))
    assert read[0] == "lamp.md#0"
    assert cost(events) == (2, 1)
    first, second = found(events, ProbeMeasured)
    assert [layer.layer for layer in first.layers] == [0, 1]
    assert first.retrieve_score == pytest.approx(2 * math.sqrt(511), abs=0.01)
    assert (first.round, first.retrieve, first.rule, first.theta) == (0, True, "logits", 0.0)
    assert (second.round, second.retrieve, second.is_undefined) == (1, False, False)
    assert [decision.reason for decision in found(events, DecisionMade)] == [
        "the probers say look it up: 45.21 > -45.21",
        "the probers say stop: -12.90 <= 12.90",
    ]
    assert only(events, TokensDiscarded).text == FIRST
    first_prompt, second_prompt = (call.prompt.text for call in model.calls)
    examples = first_prompt[: first_prompt.index(f"Question: {QUERY}")]
    assert second_prompt.startswith(f"{examples}Passages:\n[1] lamp")
    assert FIRST.strip() not in second_prompt


def test_a_run_of_two_rounds_is_kept_whole(retriever):
    _, events = ask(retriever, reply(FIRST, states=ASKS), reply(SECOND, states=STOPS))
    run = fold(events)
    (only_round,) = run.rounds
    assert (only_round.discarded, only_round.kept, only_round.probe.round) == (FIRST, "", 0)
    assert run.reasoning == SECOND
    assert len(run.probes) == 2
    document = to_document(run)
    assert (document["reasoning"], document["answer"]) == (SECOND, "Ottilie Brandt")
    assert document["rounds"][0]["query"]["method"] == "rationale"


def test_at_the_cap_what_is_written_stands(retriever):
    third = reply(" The lamp has a keeper.\nAnswer: the keeper", states=ASKS)
    answers = (reply(FIRST, states=ASKS), reply(" The harbour faces north.\nAnswer: north", states=ASKS), third)
    _, events = ask(retriever, *answers, max_retrievals=2, top_k=1)
    assert cost(events) == (3, 2)
    assert [probe.retrieve for probe in found(events, ProbeMeasured)] == [True] * 3
    last = found(events, DecisionMade)[-1]
    assert (last.retrieve, last.reason) == (False, "the look-ups are used up")
    assert only(events, WarningRaised).code == "look_ups_used_up"
    assert only(events, RunFinished).answer == "the keeper"


def test_a_look_up_that_finds_what_was_read_ends_it(retriever):
    _, events = ask(retriever, reply(FIRST, states=ASKS), reply(SECOND, states=ASKS), probe_query="question")
    assert cost(events) == (2, 2)
    assert only(events, WarningRaised).code == "nothing_new"
    assert only(events, RunFinished).answer == "Ottilie Brandt"
    assert len(found(events, TokensDiscarded)) == 1


def test_a_look_up_that_finds_nothing_ends_it(retriever):
    model = ScriptedModel(gives_states=True).then(reply(" Xyzzy.\nAnswer: Plugh", states=ASKS))
    use = Resources(model=model, retriever=retriever, prober=by_sign(), options=Options(**DEFAULTS))
    events = list(engine.answer(engine.Run(query="Quux?", peek=False), load_strategy("probing"), use))
    assert only(events, WarningRaised).code == "nothing_found"
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source) == ("Plugh", "draft")


# --- the query


@pytest.mark.parametrize(
    ("form", "method", "path", "texts"),
    [
        ("text", "rationale", "reasoning", ("{q} {first}", "{q} {second}")),
        ("literal", "rationale", "reasoning", ("{q} {first}", "{q} {read} {second}")),
        ("question", "question", "query", ("{q}", "{q}")),
    ],
)
def test_query_forms(retriever, form, method, path, texts):
    answers = (reply(FIRST, states=ASKS), reply(" The fee is two crowns.\nAnswer: two crowns", states=ASKS))
    rest = (reply(SECOND, states=STOPS),) if form == "text" else ()  # the others find the lamp again
    _, events = ask(retriever, *answers, *rest, probe_query=form, top_k=1)
    first, second = found(events, QueryBuilt)
    read = found(events, ChunksSelected)[0].candidates[0]
    parts = {
        "q": QUERY,
        "first": "Somebody lit the lamp on the pier. Somebody",
        "second": "The fee is two crowns. two crowns",
        "read": f"{read.title} {read.text}",
    }
    assert (first.text, second.text) == tuple(text.format(**parts) for text in texts)
    assert (first.method, second.method) == (method, "rationale_passages" if form == "literal" else method)
    assert {each.path for each in found(events, PathRetrieved)} == {path}
    assert [each.query_text for each in found(events, PathRetrieved)] == [first.text, second.text]


# --- the answer


@pytest.mark.parametrize(
    ("end", "written"), [("", "\nAnswer:"), ("\nAnswer:", "\nAnswer:"), (" answer: ", " answer:"), ("\n", "\nAnswer:")]
)
def test_a_rationale_without_an_answer_is_completed_before_it_is_probed(retriever, end, written):
    answer = reply(" Ottilie Brandt.\n", states=STOPS)
    model, events = ask(retriever, reply(f" Somebody lit it.{end}", states=STOPS), answer)
    assert outline(events)[-4:] == ["PromptBuilt:answer", "ProbeMeasured", "DecisionMade", "RunFinished"]
    assert model.calls[1].prompt.text.endswith(f"<assistant>Rationale: Somebody lit it.{written}")
    assert model.calls[1].states == (0, 1), "rationale and answer are probed"
    assert (model.calls[1].stop, model.calls[1].max_tokens) == (("\n",), Options().conclusion_tokens)
    assert only(events, RunFinished).answer == "Ottilie Brandt"
    assert cost(events) == (2, 0)


def test_a_completion_reads_the_chunks_that_the_rationale_read(retriever):
    """The window holds the prompt of the first chunk, a rationale, the marker and the completion, to the token."""

    def asked(context_length):
        model = ScriptedModel(gives_states=True, context_length=context_length)
        model.then(reply(FIRST, states=ASKS), reply(" word" * 9, states=STOPS, stop_reason="length"), reply(" Ottilie"))
        use = Resources(model=model, retriever=retriever, prober=by_sign())
        return model, run_with(use, "probing", **{**DEFAULTS, "rationale_tokens": 9, "conclusion_tokens": 3})

    model, _ = asked(4096)
    needed = len(model.calls[1].prompt) + 9 + 3 + 1
    for context_length, chunks in ((needed, 2), (needed - 1, 1)):
        model, events = asked(context_length)
        codes = [event.code for event in found(events, WarningRaised)]
        assert codes == ["chunk_dropped"] * (2 - chunks)
        assert len(only(events, RunFinished).chunk_ids) == chunks
        assert model.calls[2].prompt.text.count("[2] ") == chunks - 1


def test_a_completed_rationale_is_searched_for_with_its_answer(retriever):
    answers = (reply(" I do not know.", states=ASKS), reply(" Nobody.", states=ASKS), reply(SECOND, states=STOPS))
    _, events = ask(retriever, *answers)
    assert cost(events) == (3, 1)
    assert only(events, QueryBuilt).text == f"{QUERY} I do not know. Nobody"
    assert only(events, RunFinished).answer == "Ottilie Brandt"


def test_a_completion_that_is_written_anew_is_taken_back_too(retriever):
    answers = (reply(" I do not know.", states=ASKS), reply(" Nobody.", states=ASKS), reply(SECOND, states=STOPS))
    _, events = ask(retriever, *answers)
    assert [(e.phase, e.text) for e in found(events, TokensDiscarded)] == [
        ("reasoning", " I do not know."),
        ("answer", " Nobody."),
    ]
    run = fold(events)
    assert run.rounds[0].discarded == " I do not know.\nNobody."
    assert set(to_document(run)["phases"]) == {"reasoning"}


@pytest.mark.parametrize(("answer", "pooled"), [(" Nobody at all", 5.0), ("", 2.0)])
def test_states_are_the_mean_over_rationale_and_answer(retriever, answer, pooled):
    """Three tokens of states 2 and three of states 8; an answer that wrote nothing has none."""
    model = ScriptedModel(gives_states=True)
    model.then(reply(" Nobody lit it", states=(2.0,)), reply(answer, states=(8.0,) if answer else ()))
    use = Resources(model=model, retriever=retriever, options=Options(**DEFAULTS))
    writing = write_rationale(QUERY, [], use, (0, 1))
    try:
        while True:
            next(writing)
    except StopIteration as done:
        rationale = done.value
    assert rationale.states == {0: (pooled,), 1: (pooled,)}
    assert len(rationale.tokens) == 3 + len(answer.split())


def test_it_ends_with_a_blank_line_or_the_next_question(retriever):
    _, events = ask(retriever, reply(f"{FIRST}\n\nQuestion: And who else?", states=STOPS))
    assert only(events, RunFinished).answer == "Somebody"
    _, events = ask(retriever, reply(f"{FIRST}\nQuestion: And who else?", states=STOPS))
    assert only(events, RunFinished).answer == "Somebody"


# --- decisions


def of_constants(*pairs):
    return prober(width=4, layer_count=2, layers={i: constant_weights(4, *pair) for i, pair in enumerate(pairs)})


@pytest.mark.parametrize(
    ("theta", "decision", "retrieve", "reason"),
    [
        (0.0, "logits", True, "the probers say look it up: 3.00 > 2.00"),
        (-1.0, "logits", False, "the probers say stop: 3.00 - 1.00 <= 2.00"),  # a tie
        (-0.5, "logits", True, "the probers say look it up: 3.00 - 0.50 > 2.00"),
        (0.0, "probabilities", False, "the probers say stop: 0.99 < 1.01"),  # .95257 + .03556, .04743 + .96444
        (0.5, "probabilities", True, "the probers say look it up: 0.99 + 0.50 >= 1.01"),
    ],
)
def test_rules_and_theta(retriever, theta, decision, retrieve, reason):
    made = of_constants((3.0, 0.0), (0.0, 2.0))
    if decision == "probabilities":
        made = of_constants((3.0, 0.0), (0.0, 3.3))
    answers = (reply(FIRST, states=STOPS), *((reply(SECOND, states=STOPS),) if retrieve else ()))
    _, events = ask(retriever, *answers, made=made, theta=theta, decision=decision, max_retrievals=1)
    first = found(events, DecisionMade)[0]
    assert (first.retrieve, first.reason) == (retrieve, reason)
    assert (found(events, ProbeMeasured)[0].rule, found(events, ProbeMeasured)[0].theta) == (decision, theta)


@pytest.mark.parametrize("states", [(math.nan, 1.0, 1.0, 1.0), (math.inf, 1.0, 1.0, 1.0)])
def test_states_that_are_no_numbers_are_looked_up(retriever, states):
    _, events = ask(retriever, reply(FIRST, states=states), reply(SECOND, states=STOPS))
    first = found(events, ProbeMeasured)[0]
    assert (first.retrieve, first.is_undefined, first.retrieve_score, first.stop_score) == (True, True, None, None)
    assert [(layer.retrieve, layer.stop) for layer in first.layers] == [(None, None)] * 2
    assert found(events, DecisionMade)[0].reason == "the probers read no numbers, so it is looked up"
    assert to_document(fold(events))["probes"][0]["retrieve_score"] is None


def test_a_text_without_states_is_looked_up(retriever):
    _, events = ask(retriever, reply(""), reply(""), reply(SECOND, states=STOPS))
    assert found(events, ProbeMeasured)[0].layers == ()
    assert found(events, DecisionMade)[0].reason == "there is no state to probe, so it is looked up"
    assert found(events, TokensDiscarded) == []
    assert only(events, RunFinished).answer == "Ottilie Brandt"


# --- what is missing


@pytest.mark.parametrize("strategy", ["probing", "uar"])
def test_without_a_prober_the_remedy_is_told(retriever, strategy):
    use = Resources(model=ScriptedModel(gives_states=True), retriever=retriever)
    failed = only(run_with(use, strategy), RunFailed)
    assert (failed.error, failed.message) == (ConfigError.__name__, "no prober was trained for scripted")
    assert failed.hint == "adaptrag probe train --model scripted ..."


@pytest.mark.parametrize("strategy", ["probing", "uar"])
def test_a_model_without_states_is_refused(strategy):
    with pytest.raises(MissingCapability, match=f"strategy '{strategy}' needs states, which model 'scripted'"):
        check_capabilities(load_strategy(strategy), ScriptedModel())


def test_the_defaults_are_the_papers():
    defaults = load_strategy("probing").defaults
    assert {name: getattr(defaults, name) for name in DEFAULTS} == {**DEFAULTS, "top_k": 5}
    assert (defaults.theta, defaults.decision, defaults.probe_query) == (0.0, "logits", "text")


# --- UAR


def uar(retriever, state, *replies, **options):
    model = ScriptedModel(gives_states=True).then(*replies).reads(QUERY, state)
    use = Resources(model=model, retriever=retriever, prober=by_sign(kind="question"))
    return model, run_with(use, "uar", **options)


def test_uar_answers_from_memory_what_the_model_knows(retriever):
    model, events = uar(retriever, STOPS, reply("Ottilie"))
    assert outline(events) == [
        "RunStarted",
        "ProbeMeasured",
        "DecisionMade",
        "PromptBuilt:draft",
        "UncertaintyMeasured",
        "RunFinished",
    ]
    assert (only(events, RunFinished).answer, only(events, RunFinished).answer_source) == ("Ottilie", "draft")
    assert only(events, RunFinished).counts.reused_tokens == len(model.calls[0].prompt)


def test_uar_looks_up_what_it_does_not(retriever):
    _, events = uar(retriever, ASKS, reply("Ottilie Brandt"))
    assert outline(events)[:4] == ["RunStarted", "ProbeMeasured", "DecisionMade", "PathRetrieved:query"]
    assert (only(events, RunFinished).answer_source, cost(events)) == ("documents", (1, 1))
    assert fold(events).rounds[0].probe == only(events, ProbeMeasured)


def test_uar_looks_up_states_that_are_no_numbers(retriever):
    _, events = uar(retriever, (math.nan,) * 4, reply("Ottilie Brandt"), theta=-100.0)
    assert only(events, ProbeMeasured).is_undefined
    assert only(events, DecisionMade).retrieve
