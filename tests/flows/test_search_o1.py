"""Search-o1 as whole runs: searches inside a thought, results that are condensed, and how the text ends."""

from __future__ import annotations

import pytest

from adaptrag_cli.demonstrations import SEARCHES
from adaptrag_cli.events import DecisionMade, QueryBuilt, RunFinished, StepAnswered
from adaptrag_cli.prompts import NOTHING_HELPS
from adaptrag_cli.run_summary import fold
from adaptrag_cli.strategies.base import Resources, load_strategy
from fakes import ScriptedModel, reply
from lamp import QUERY, lamp_retriever
from methods import asked, codes, cost, only, outline, run_with

LAMP, HARBOUR, FEES = "lamp.md#0", "harbour.txt#0", "fees.md#0"
SEARCHED = [
    "SubQueryAsked",
    "StepDecided",
    "DecisionMade",
    "QueryBuilt",
    "PathRetrieved:reasoning",
    "ChunksSelected",
    "PromptBuilt:intermediate_answer",
    "StepAnswered",
    "PromptBuilt:reasoning",
]


@pytest.fixture
def retriever(tmp_path):
    return lamp_retriever(tmp_path, {"lamp": 0.0, "mooring": 70.0})


def ask(store, /, *replies, **options):
    model = ScriptedModel().then(*replies)
    chosen = {"max_steps": 5, "examples": 3, "reasoning_tokens": 384, **options}
    events = run_with(Resources(model=model, retriever=store), "search-o1", **chosen)
    assert model.is_exhausted
    return model, events


def test_a_search_in_a_thought_is_condensed_and_read(retriever):
    model, events = ask(
        retriever,
        reply("I do not know. <search> mooring  fee </search> and on"),
        reply(" The fee is 1,500 crowns.\nMore"),
        reply("So the answer is 1,500 crowns."),
    )
    assert outline(events) == ["RunStarted", "PromptBuilt:reasoning", *SEARCHED, "RunFinished"]
    built = only(events, QueryBuilt)
    assert (built.method, built.text) == ("written", "mooring fee")
    assert model.calls[-1].prompt.text.split("<assistant>")[1] == (
        "I do not know. <search> mooring  fee </search>\n<result>The fee is 1,500 crowns.</result>\n"
    )
    answered = only(events, StepAnswered)
    assert (answered.text, answered.chunk_ids, answered.retrieved) == ("The fee is 1,500 crowns.", (FEES, LAMP), True)
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction) == ("1,500 crowns", "documents", "reasoned")
    assert end.chunk_ids == (FEES, LAMP)
    assert cost(events) == (3, 1)  # 2S+1 calls, S searches
    run = fold(events)
    assert [step.round for step in run.steps] == [0]
    assert run.reasoning == "I do not know. <search> mooring  fee So the answer is 1,500 crowns."


def test_passages_are_condensed_in_the_light_of_the_thought(retriever):
    _, events = ask(
        retriever,
        reply("The fee? <search>mooring fee</search>"),
        reply(" 1,500."),
        reply("So the answer is 1,500."),
    )
    request = asked(events, "intermediate_answer")
    assert request.startswith(
        "Passages:\n[1] fees The mooring fee is 1,500 crowns.\n[2] lamp Ottilie Brandt lit it in 1887.\n\n"
        f"Question: {QUERY}\nThoughts so far: The fee?\nSearched for: mooring fee\n\n"
    )


def test_a_thought_may_end_without_a_search(retriever):
    _, events = ask(retriever, reply("Edison lit it. So the answer is Edison."))
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, cost(events)) == ("Edison", "draft", (1, 0))
    decision = only(events, DecisionMade)
    assert (decision.retrieve, decision.reason) == (False, "nothing was asked")


@pytest.mark.parametrize(
    "thought", ["Is it", "Is it <search></search>", "Is it <search>open", "Is it <search> <search>"]
)
def test_a_thought_that_comes_to_nothing_is_asked_for_its_answer(retriever, thought):
    model, events = ask(retriever, reply(thought), reply(" Edison.\n"))
    assert model.calls[-1].prompt.text.endswith("<assistant>Is it So the answer is")
    assert only(events, RunFinished).answer == "Edison"
    assert cost(events) == (2, 0)


def test_the_searches_allowed_end_it(retriever):
    model, events = ask(
        retriever,
        *(reply("Fee? <search>mooring fee</search>"), reply(" 1,500.")),
        *(reply("Lamp? <search>the lamp</search>"), reply(" Ottilie")),
        max_steps=1,
    )
    assert model.calls[-1].prompt.text.endswith("<result>1,500.</result>\nLamp? So the answer is")
    assert codes(events) == ["steps_used_up"]
    assert only(events, RunFinished).answer == "Ottilie"
    assert cost(events) == (4, 1)


def test_a_search_that_comes_again_ends_it(retriever):
    model, events = ask(
        retriever,
        *(reply("Fee? <search>mooring fee</search>"), reply(" 1,500.")),
        *(reply("Fee? <search>Mooring fee</search>"), reply(" 1,500")),
    )
    assert model.calls[-1].prompt.text.endswith("<result>1,500.</result>\nFee? So the answer is")
    assert codes(events) == ["repeated_sub_query"]
    assert only(events, RunFinished).answer == "1,500"


def test_its_tokens_end_it(retriever):
    _, events = ask(retriever, reply("Edison lit it and then"), reply(" Edison"), reasoning_tokens=4)
    assert codes(events) == ["reasoning_cut"]
    assert only(events, RunFinished).answer == "Edison"


def test_an_empty_result_is_told_and_said(retriever):
    model, events = ask(
        retriever, reply("Fee? <search>mooring fee</search>"), reply(""), reply("So the answer is unknown.")
    )
    assert codes(events) == ["empty_step"]
    assert f"<result>{NOTHING_HELPS}</result>\n" in model.calls[-1].prompt.text


def test_the_examples_stand_before_the_question(retriever):
    _, events = ask(retriever, reply("So the answer is x."))
    request = asked(events, "reasoning")
    assert request.endswith(f"\n\nQuestion: {QUERY}")
    assert [example.reasoning in request for example in SEARCHES] == [True] * 3


def test_options():
    assert load_strategy("search-o1").defaults.max_steps == 5
