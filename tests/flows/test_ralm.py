"""In-Context RALM as whole runs: a look-up at every stride, and each way in which the text can end."""

from __future__ import annotations

import pytest

from adaptrag_cli.events import DecisionMade, PathRetrieved, PromptBuilt, RunFinished
from adaptrag_cli.run_summary import fold
from adaptrag_cli.strategies.base import Options, Resources, load_strategy
from adaptrag_cli.strategies.ralm import tail
from fakes import ScriptedModel, reply
from lamp import QUERY, lamp_retriever
from methods import codes, cost, only, outline, queries, run_with

STRIDES = ("The lamp is old.", " Ottilie Brandt lit it.", " So the answer is")
"""Of four tokens each."""
END = " Ottilie Brandt."
ROUND = ["DecisionMade", "QueryBuilt", "PathRetrieved:reasoning", "ChunksSelected", "PromptBuilt:reasoning"]


@pytest.fixture
def retriever(tmp_path):
    return lamp_retriever(tmp_path, {"..": 90.0, "lamp": 0.0})


def strides(*texts):
    return [reply(text, stop_reason="length") for text in texts]


def ask(retriever, *replies, **options):
    model = ScriptedModel().then(*replies)
    chosen = {"top_k": 1, "context_policy": "replace", "max_retrievals": 32, "stride": 4, **options}
    events = run_with(Resources(model=model, retriever=retriever), "ralm", **chosen)
    assert model.is_exhausted
    return model, events


def test_every_stride_is_looked_up(retriever):
    model, events = ask(retriever, *strides(*STRIDES), reply(END))
    first = [name.replace("reasoning", "query") if "Path" in name else name for name in ROUND]
    assert outline(events) == ["RunStarted", *first, *ROUND * 3, "RunFinished"]
    assert [call.max_tokens for call in model.calls] == [4, 4, 4, 4]
    assert model.calls[2].prompt.text.endswith("<assistant>The lamp is old. Ottilie Brandt lit it.")
    assert queries(events) == [
        ("question", QUERY),
        ("tail", f"{QUERY} The lamp is old."),
        ("tail", f"{QUERY} The lamp is old. Ottilie Brandt lit it."),
        ("tail", f"{QUERY} The lamp is old. Ottilie Brandt lit it. So the answer is"),
    ]
    assert all(event.retrieve for event in events if isinstance(event, DecisionMade))
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction) == ("Ottilie Brandt", "documents", "reasoned")
    assert cost(events) == (4, 4)  # ceil(14 tokens / 4) of each (METHODS 14)
    run = fold(events)
    assert run.reasoning == "".join([*STRIDES, END])
    assert [each.kept for each in run.rounds] == ["", STRIDES[0], "".join(STRIDES[:2]), "".join(STRIDES)]


@pytest.mark.parametrize(("stride", "calls"), [(1, 14), (5, 3), (14, 1), (16, 1)])
def test_the_cost_is_the_text_by_the_stride(retriever, stride, calls):
    words = "".join([*STRIDES, END]).split(" ")
    parts = [" ".join(words[i : i + stride]) for i in range(0, len(words), stride)]
    texts = [part if not i else f" {part}" for i, part in enumerate(parts)]
    _, events = ask(retriever, *strides(*texts[:-1]), reply(texts[-1]), stride=stride)
    assert cost(events) == (calls, calls)


def test_the_query_is_the_end_of_question_and_text():
    assert tail("Who lit the lamp?", [], 3) == "lit the lamp?"
    assert tail("Who lit the lamp?", ["It", " is", " old"], 5) == "the lamp? It is old"
    assert tail("Who lit the lamp?", ["It", " is", " old"], 3) == "It is old"
    assert tail("Who lit the lamp?", ["It", " is", " old"], 2) == "is old"
    assert tail("Who lit the lamp?", ["It", " is", " old"]) == "Who lit the lamp? It is old"


def test_one_chunk_stands_there_until_the_next(retriever):
    _, events = ask(retriever, *strides(*STRIDES), reply(END))
    assert {event.chunk_ids for event in events if isinstance(event, PromptBuilt)} == {("lamp.md#0",)}
    assert [len(event.chunks) for event in events if isinstance(event, PathRetrieved)] == [1] * 4


def test_an_answer_that_is_complete_ends_the_text_at_a_stride(retriever):
    _, events = ask(retriever, *strides("Ottilie. So the answer", " is Ottilie. She lived."))
    assert only(events, RunFinished).answer == "Ottilie. She lived"
    assert cost(events) == (2, 2)


def test_an_answer_that_never_comes_is_asked_for(retriever):
    _, events = ask(retriever, *strides(*STRIDES[:2]), reply(" Ottilie."), reasoning_tokens=8)
    assert outline(events)[-3:] == ["WarningRaised", "PromptBuilt:answer", "RunFinished"]
    assert codes(events) == ["reasoning_cut"]
    assert only(events, RunFinished).answer == "Ottilie"
    assert cost(events) == (3, 2)


def test_when_the_look_ups_are_used_up_the_rest_is_written_at_once(retriever):
    model, events = ask(retriever, *strides(*STRIDES[:2]), reply(STRIDES[2] + END), max_retrievals=2)
    assert codes(events) == ["look_ups_used_up"]
    assert model.calls[2].max_tokens == Options().reasoning_tokens - 8
    assert only(events, RunFinished).answer == "Ottilie Brandt"
    assert cost(events) == (3, 2)


def test_a_model_that_writes_nothing_visible_is_stopped(retriever):
    _, events = ask(retriever, *strides(STRIDES[0], "    "), reply(" Ottilie."))
    assert codes(events) == ["no_progress"]
    assert only(events, RunFinished).answer == "Ottilie"
    assert cost(events) == (3, 2)


def test_a_tail_without_a_word_is_replaced_by_the_question(retriever):
    _, events = ask(retriever, *strides(" .." * 40), reply(" So the answer is Ottilie."), stride=40)
    assert codes(events) == ["empty_query"]
    assert queries(events) == [("question", QUERY)] * 2


def test_nothing_found_is_told_and_reasoning_goes_on(retriever):
    model = ScriptedModel().then(*strides(" qwxz" * 32), reply(" So the answer is Ottilie."))
    options = {"retriever": "sparse", "top_k": 1, "context_policy": "replace", "stride": 32}
    events = run_with(Resources(model=model, retriever=retriever), "ralm", **options)
    assert codes(events) == ["nothing_found"]
    assert [event.chunk_ids for event in events if isinstance(event, PromptBuilt)] == [("lamp.md#0",), ()]
    assert only(events, RunFinished).answer == "Ottilie"


def test_the_options_that_change_something():
    strategy = load_strategy("ralm")
    assert "stride" in strategy.uses
    assert (strategy.defaults.stride, strategy.defaults.top_k, strategy.defaults.context_policy) == (16, 1, "replace")
