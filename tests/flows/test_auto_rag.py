"""Auto-RAG as whole runs: rounds of reading, thinking and refining the query, and how they end."""

from __future__ import annotations

import pytest

from adaptrag_cli.demonstrations import REFINED_QUERIES
from adaptrag_cli.events import PromptBuilt, QueryBuilt, RunFinished, StepAnswered, SubQueryAsked
from adaptrag_cli.run_summary import fold
from adaptrag_cli.strategies.base import Resources, load_strategy
from fakes import ScriptedModel, reply
from lamp import QUERY, lamp_retriever
from methods import asked, codes, cost, only, outline, run_with

LAMP, HARBOUR, FEES = "lamp.md#0", "harbour.txt#0", "fees.md#0"
ROUND = [
    "SubQueryAsked",
    "StepDecided",
    "DecisionMade",
    "QueryBuilt",
    "PathRetrieved:{}",
    "ChunksSelected",
    "PromptBuilt:intermediate_answer",
    "StepAnswered",
    "PromptBuilt:sub_query",
]


@pytest.fixture
def retriever(tmp_path):
    return lamp_retriever(tmp_path, {"lamp": 0.0, "mooring": 70.0})


def line(text):
    return reply(text, stop_reason="stop")


def ask(store, /, *replies, **options):
    model = ScriptedModel().then(*replies)
    events = run_with(
        Resources(model=model, retriever=store), "auto-rag", **{"max_steps": 10, "examples": 3, **options}
    )
    assert model.is_exhausted
    return model, events


def test_the_query_is_refined_until_nothing_is_missing(retriever):
    model, events = ask(
        retriever,
        *(line(" The lamp was lit. The fee is missing."), line("Query: mooring fee")),
        *(line(" It is 1,500 crowns. Nothing is missing."), line("So the final answer is: 1,500 crowns.")),
    )
    assert outline(events) == [
        "RunStarted",
        *(name.format("query") for name in ROUND),
        *(name.format("reasoning") for name in ROUND),
        "RunFinished",
    ]
    assert [(q.method, q.text) for q in events if isinstance(q, QueryBuilt)] == [
        ("question", QUERY),
        ("written", "mooring fee"),
    ]
    assert [(a.text, a.chunk_ids) for a in events if isinstance(a, StepAnswered)] == [
        ("The lamp was lit. The fee is missing.", (LAMP, HARBOUR)),
        ("It is 1,500 crowns. Nothing is missing.", (FEES, LAMP)),
    ]
    assert model.calls[-1].prompt.text.split("<assistant>")[1] == (
        "Context:\n[1] lamp: Ottilie Brandt lit it in 1887.\n[2] harbour: The harbour faces east.\n"
        "Thought: The lamp was lit. The fee is missing.\nQuery: mooring fee\n"
        "Context:\n[1] fees: The mooring fee is 1,500 crowns.\n[2] lamp: Ottilie Brandt lit it in 1887.\n"
        "Thought: It is 1,500 crowns. Nothing is missing.\n"
    )
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction) == ("1,500 crowns", "documents", "final")
    assert end.chunk_ids == (LAMP, HARBOUR, FEES)
    assert cost(events) == (4, 2)  # 2S calls, S searches
    assert [step.round for step in fold(events).steps] == [0, 1]


def test_after_its_rounds_it_answers_from_memory(retriever):
    replies = [each for n in range(2) for each in (line(" Not yet."), line(f"Query: fee {n}"))]
    _, events = ask(retriever, *replies, reply("Edison"), max_steps=2)
    assert codes(events) == ["steps_used_up"]
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction, end.chunk_ids) == ("Edison", "draft", "draft", ())
    assert asked(events, "draft") == f"{QUERY}\nAnswer the question using a single word or phrase."
    assert cost(events) == (5, 2)


@pytest.mark.parametrize(
    ("last", "told"),
    [("Let me think.", ["not_in_form"]), ("Query: ?", ["not_in_form"]), ("", []), ("So the final answer is:", [])],
)
def test_what_asks_nothing_ends_the_rounds(retriever, last, told):
    model, events = ask(retriever, line(" Not yet."), line(last), reply(" Ottilie."))
    assert codes(events) == told
    assert model.calls[-1].prompt.text.endswith("Thought: Not yet.\nSo the final answer is:")
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source) == ("Ottilie", "documents")


def test_a_query_that_comes_again_ends_the_rounds(retriever):
    _, events = ask(retriever, line(" Not yet."), line("Refined query: who lit THE lamp"), reply(" Ottilie."))
    assert codes(events) == ["repeated_sub_query"]
    assert [e.is_repeated for e in events if isinstance(e, SubQueryAsked)] == [False, True]
    assert cost(events) == (3, 1)


def test_an_empty_thought_is_told(retriever):
    _, events = ask(retriever, line(""), line("So the final answer is: Ottilie"))
    assert codes(events) == ["empty_step"]
    assert only(events, RunFinished).answer == "Ottilie"


def test_the_examples_stand_before_the_question(retriever):
    _, events = ask(retriever, line(" Told."), line("So the final answer is: x"))
    request = asked(events, "intermediate_answer").split("</user>")[0]
    assert request.endswith(f"\n\nQuestion: {QUERY}")
    assert [example.reasoning in request for example in REFINED_QUERIES] == [True] * 3
    assert [event.chunk_ids for event in events if isinstance(event, PromptBuilt)] == [(LAMP, HARBOUR)] * 2


def test_options():
    strategy = load_strategy("auto-rag")
    assert (strategy.defaults.max_steps, strategy.defaults.top_k, strategy.defaults.retriever) == (10, 3, "dense")
