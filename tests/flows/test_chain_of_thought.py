"""Chain of thought with and without chunks as whole runs: what is asked, what is read, what is concluded."""

from __future__ import annotations

import pytest

from adaptrag_cli import prompts
from adaptrag_cli.config import AskSettings
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.events import GenerationFinished, PromptBuilt, RunFailed, RunFinished, WarningRaised
from adaptrag_cli.run_document import to_document
from adaptrag_cli.run_summary import fold
from adaptrag_cli.strategies.base import Options, Resources, load_strategy, resolve_options
from fakes import ScriptedModel, reply
from lamp import QUERY, lamp_retriever
from methods import cost, only, outline, run_with

REASONING = "The lamp was lit in 1887. Ottilie Brandt lit it. So the answer is Ottilie Brandt."


@pytest.fixture
def retriever(tmp_path):
    return lamp_retriever(tmp_path)


def prompts_of(events, phase):
    return [event.text for event in events if isinstance(event, PromptBuilt) and event.phase == phase]


def test_reasoning_from_memory():
    model = ScriptedModel().then(reply(REASONING))
    events = run_with(Resources(model=model, retriever=None), "cot")
    assert outline(events) == ["RunStarted", "DecisionMade", "PromptBuilt:reasoning", "RunFinished"]
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction, end.chunk_ids) == ("Ottilie Brandt", "draft", "reasoned", ())
    assert cost(events) == (1, 0)
    assert (model.calls[0].stop, model.calls[0].max_tokens) == (("\n",), Options().reasoning_tokens)


def test_reasoning_over_what_was_found(retriever):
    model = ScriptedModel().then(reply(REASONING))
    events = run_with(Resources(model=model, retriever=retriever), "cot-retrieve")
    assert outline(events) == [
        "RunStarted",
        "DecisionMade",
        "PathRetrieved:query",
        "ChunksSelected",
        "PromptBuilt:reasoning",
        "RunFinished",
    ]
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, len(end.chunk_ids)) == ("Ottilie Brandt", "documents", 2)
    assert cost(events) == (1, 1)
    document = to_document(fold(events))
    assert document["reasoning"] == REASONING
    assert [each["selected"] for each in document["rounds"]] == [list(end.chunk_ids)]


def test_passages_stand_between_the_examples_and_the_question(retriever):
    model = ScriptedModel().then(reply(REASONING), reply(REASONING))
    alone = prompts_of(run_with(Resources(model=model, retriever=None), "cot"), "reasoning")[0]
    over_chunks = prompts_of(run_with(Resources(model=model, retriever=retriever), "cot-retrieve"), "reasoning")[0]
    question = f"Question: {QUERY}</user>\n<assistant>"
    examples = alone.removesuffix(question)
    assert examples != alone
    assert over_chunks.startswith(examples)
    assert over_chunks.endswith(question)
    assert "[1] lamp\nOttilie Brandt lit it in 1887.".replace("\n", " ") in over_chunks


def test_no_examples():
    assert prompts.reasoning(QUERY, (), 0) == (
        'Answer the question: think step by step in short sentences, and end with "So the answer is ...".\n\n'
        f"Question: {QUERY}"
    )


def test_fewer_examples(retriever):
    model = ScriptedModel().then(reply(REASONING))
    events = run_with(Resources(model=model, retriever=None), "cot", examples=2)
    assert prompts_of(events, "reasoning")[0].count("Question:") == 3
    assert prompts.reasoning(QUERY, (), 2).count("So the answer is") == 3  # the instruction, and two examples


def test_reasoning_that_comes_to_no_answer_is_ended(retriever):
    model = ScriptedModel().then(reply("Somebody lit the lamp. ", stop_reason="length"), reply(" Ottilie Brandt."))
    events = run_with(Resources(model=model, retriever=None), "cot")
    assert outline(events)[2:] == ["PromptBuilt:reasoning", "PromptBuilt:answer", "RunFinished"]
    assert prompts_of(events, "answer")[0].endswith("<assistant>Somebody lit the lamp. So the answer is")
    assert only(events, RunFinished).answer == "Ottilie Brandt"
    assert cost(events) == (2, 0)
    assert model.calls[1].max_tokens == Options().conclusion_tokens


def test_a_text_that_breaks_off_at_its_answer_is_completed():
    cut = reply("Nobody knows it. So the answer is", stop_reason="length")
    model = ScriptedModel().then(cut, reply(" Ottilie Brandt."))
    events = run_with(Resources(model=model, retriever=None), "cot", reasoning_tokens=7)
    assert prompts_of(events, "answer")[0].endswith("<assistant>Nobody knows it. So the answer is")
    assert only(events, RunFinished).answer == "Ottilie Brandt"


def test_a_window_that_cannot_hold_the_conclusion_is_refused_at_once():
    prompt = len(ScriptedModel().build_prompt(prompts.reasoning(QUERY, (), 8)))
    small = ScriptedModel(context_length=prompt + 2 + 20 + 3)  # "So the answer is" has 4 tokens
    events = run_with(Resources(model=small, retriever=None), "cot", reasoning_tokens=2)
    assert isinstance(events[-1], RunFailed)
    assert events[-1].hint == "shorten it, take fewer --examples, or raise --context-length"
    assert small.calls == []


def test_a_model_that_says_nothing_gives_an_empty_answer():
    model = ScriptedModel().then(reply(""), reply(""))
    end = only(run_with(Resources(model=model, retriever=None), "cot"), RunFinished)
    assert (end.answer, end.extraction) == ("", "reasoned")


def test_chunks_that_do_not_fit_are_left_out(retriever):
    model = ScriptedModel(context_length=191 + 128 + 24).then(reply(REASONING))  # room for one, and for a conclusion
    events = run_with(Resources(model=model, retriever=retriever), "cot-retrieve", examples=4)
    assert [event.code for event in events if isinstance(event, WarningRaised)] == ["chunk_dropped"]
    assert len(only(events, RunFinished).chunk_ids) == 1


def test_a_question_that_does_not_fit_is_refused(retriever):
    model = ScriptedModel(context_length=200)
    failed = run_with(Resources(model=model, retriever=retriever), "cot-retrieve")[-1]
    assert isinstance(failed, RunFailed)
    assert failed.error == "QueryTooLong"


def test_only_what_was_written_last_ends_a_phase(retriever):
    model = ScriptedModel().then(reply("No end. "), reply(" It is Ottilie."))
    events = run_with(Resources(model=model, retriever=retriever), "cot-retrieve")
    texts = {event.phase: event.text for event in events if isinstance(event, GenerationFinished)}
    assert texts == {"reasoning": "No end. ", "answer": " It is Ottilie."}
    assert only(events, RunFinished).answer == "It is Ottilie"


@pytest.mark.parametrize(("strategy", "most"), [("cot", 8), ("probing", 8), ("deeprag", 6)])
def test_more_examples_than_there_are_are_refused(strategy, most):
    def options_with(examples):
        ask, origins = AskSettings(examples=examples), {"ask.examples": "--examples"}
        return resolve_options(load_strategy(strategy), ask, origins)[0]

    assert options_with(most).examples == most
    with pytest.raises(ConfigError) as refused:
        options_with(most + 1)
    assert str(refused.value) == f"--examples: {most + 1} examples are wanted, strategy '{strategy}' has {most}"
    assert refused.value.hint == f"give a number from 0 to {most}"


@pytest.mark.parametrize(("strategy", "is_refused"), [("flare", True), ("etc", False), ("cot", False)])
def test_a_trigger_that_no_probability_reaches_is_refused(strategy, is_refused):
    def trigger_of(trigger):
        ask, origins = AskSettings(trigger=trigger), {"ask.trigger": "--trigger"}
        return resolve_options(load_strategy(strategy), ask, origins)[0].trigger

    assert trigger_of(1.0) == 1.0
    if not is_refused:
        assert trigger_of(7.0) == 7.0
        return
    with pytest.raises(ConfigError) as refused:
        trigger_of(7.0)
    why = "--trigger: trigger 7 is never reached, strategy 'flare' compares with a probability"
    assert (str(refused.value), refused.value.hint) == (why, "give a number from 0 to 1")
