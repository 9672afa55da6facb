"""DRAGIN as whole runs: which word stops a sentence in both of its forms, what it keeps and what it searches for."""

from __future__ import annotations

import math

import pytest

from adaptrag_cli.events import (
    DecisionMade,
    PathRetrieved,
    PromptBuilt,
    QueryBuilt,
    RunFailed,
    RunFinished,
    TokensDiscarded,
    WarningRaised,
    WordMeasured,
)
from adaptrag_cli.strategies.base import Resources, load_strategy
from fakes import ScriptedModel, reply
from lamp import QUERY, lamp_retriever, run
from laws import kept_text
from methods import cost, only, outline, run_with

FIRST, SECOND = "The lamp is old.", " Thomas Edison lit the lamp."
ENTROPIES = [0.1, 0.4, 0.1, 0.3, 0.2, 1.5, 0.4, 0.1, 0.3]
"""Every token attends to itself, so each word has its even share: a = 1, and its value is its entropy."""
ANSWER = " So the answer is Ottilie Brandt."


@pytest.fixture
def retriever(tmp_path):
    return lamp_retriever(tmp_path)


def probe(entropies=ENTROPIES):
    return reply(FIRST + SECOND, entropy=entropies)


@pytest.fixture
def model():
    """Unsure of "Edison", which is chosen at "Thomas", which attends to the lamp and to its age."""
    model = ScriptedModel().pays("Thomas", {"lamp?": 0.4, "old.": 0.3, "is": 0.2})
    return model.then(probe(), reply(" Ottilie Brandt lit it. That is all."), reply(ANSWER))


def dragin(model, retriever, **options):
    use = Resources(model=model, retriever=retriever)
    return run_with(use, "dragin", **{"retriever": "sparse", "trigger": 1.0, "mode": "code", **options})


def found(events, kind):
    return [event for event in events if isinstance(event, kind)]


def fired(events):
    return [event.text for event in found(events, WordMeasured) if event.fires]


def warned(events):
    return [event.code for event in found(events, WarningRaised)]


def test_the_code_drops_the_sentence_of_the_word(model, retriever):
    events = dragin(model, retriever)
    shown = [line for line in outline(events) if not line.startswith("WordMeasured")]
    assert shown == [
        "RunStarted",
        "PromptBuilt:reasoning",
        "TokensDiscarded:reasoning",
        "DecisionMade",
        "QueryBuilt",
        "PathRetrieved:reasoning",
        "ChunksSelected",
        "PromptBuilt:reasoning",
        "PromptBuilt:reasoning",
        "DecisionMade",
        "RunFinished",
    ]
    discarded = only(events, TokensDiscarded)
    assert (discarded.from_step, discarded.text) == (4, SECOND)
    assert fired(events) == ["Edison"]
    assert kept_text(events, "reasoning") == FIRST + " Ottilie Brandt lit it." + ANSWER
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source) == ("Ottilie Brandt", "documents")
    assert cost(events) == (3, 1)
    assert model.is_exhausted


def test_the_paper_cuts_at_the_word(retriever):
    # Read in context: "lit" pays half of its attention to "Edison", so S = 1.5 * .5; no other word is paid.
    model = ScriptedModel().pays("lit", {"Edison": 0.5})
    model.then(probe(), reply(" Swan lit it. That is all."), reply(ANSWER), reply(" it."))
    events = dragin(model, retriever, mode="paper", trigger=0.7)
    word = next(word for word in found(events, WordMeasured) if word.fires)
    assert (word.text, word.attention, word.value) == ("Edison", 0.5, 0.75)
    assert only(events, TokensDiscarded).from_step == 5
    assert kept_text(events, "reasoning").startswith(FIRST + " Thomas Swan lit it.")


def test_the_values_of_the_paper_stay_below_the_thresholds_of_the_code(retriever):
    model = ScriptedModel().pays("lit", {"Edison": 0.5}).then(probe(), reply(" it."))
    assert fired(dragin(model, retriever, mode="paper")) == []
    assert load_strategy("dragin").defaults.mode == "code"


def test_attention_is_normalised_over_the_sentence(retriever):
    # Received in " Thomas Edison lit the lamp.": 1, 1, 1, 1 and .2, so a of the last is .2 / 4.2 * 5.
    model = ScriptedModel().pays("lamp.", {"The": 0.8}).then(probe(), reply(" it."))
    words = found(dragin(model, retriever, trigger=9.0), WordMeasured)
    last = words[-1]
    assert last.text == "lamp."
    assert last.attention == pytest.approx(0.2 / 4.2 * 5)
    assert last.value == pytest.approx(0.3 * 0.2 / 4.2 * 5)


def test_function_words_are_measured_in_the_code_alone(retriever):
    texts = {}
    for mode in ("code", "paper"):
        model = ScriptedModel().pays("lit", {"Edison": 0.5}).then(probe(), reply(" it."))
        texts[mode] = [word.text for word in found(dragin(model, retriever, mode=mode, trigger=9.0), WordMeasured)]
    assert texts["code"] == (FIRST + SECOND).split()
    assert texts["paper"] == ["lamp", "old.", "Thomas", "Edison", "lit", "lamp."]


def test_the_query_is_what_the_token_before_attends_to(model, retriever):
    query = only(dragin(model, retriever, query_words=2), QueryBuilt)
    assert (query.method, query.text) == ("attention", "lamp old")
    # Among the candidates before "Edison", "Thomas" pays .4, .3, .2 and .1 to itself: shares of their sum.
    assert [word.weight for word in query.words] == pytest.approx([0.4, 0.3])


def test_the_first_word_of_a_text_has_the_row_of_the_prompt(retriever):
    model = ScriptedModel().pays("<assistant>", {"lit": 0.5})
    model.then(reply("Edison lit it.", entropy=[2.0, 0.1, 0.1]), reply(" Ottilie did. That is all."), reply(ANSWER))
    events = dragin(model, retriever, query_words=1)
    assert (fired(events), only(events, TokensDiscarded).from_step) == (["Edison"], 0)
    assert warned(events) == ["first_word_fired"]
    query = only(events, QueryBuilt)
    assert (query.method, query.text) == ("attention", "lit")  # nothing but the question stands before it
    assert found(events, PromptBuilt)[1].text.endswith("<assistant>")


def test_a_function_word_alone_may_stop_a_sentence_and_then_its_own_attention_asks(retriever):
    entropies = [0.1, 0.4, 0.1, 0.3, 0.2, 0.5, 0.4, 1.8, 0.3]
    model = ScriptedModel().pays("lit", {"lamp": 0.5})
    model.then(probe(entropies), reply(" Ottilie lit it. That is all."), reply(ANSWER))
    events = dragin(model, retriever, query_words=1)
    assert fired(events) == ["the"]
    assert warned(events) == []
    query = only(events, QueryBuilt)
    assert (query.method, query.text) == ("attention", "lamp")  # what "lit" before it attends to
    assert only(events, PathRetrieved).query_text == query.text


def test_an_empty_query_is_the_question_itself(tmp_path):
    retriever = lamp_retriever(tmp_path, {"What was it": 0.0})
    model = ScriptedModel().then(reply("He is it.", entropy=[0.1, 2.0, 0.1]), reply(" She is."), reply(" she."))
    events = run(model, retriever, "dragin", query="What was it?", mode="code", retriever="sparse")
    assert fired(events) == ["is"]
    assert warned(events)[:2] == ["first_word_fired", "empty_query"]
    assert (only(events, QueryBuilt).method, only(events, QueryBuilt).text) == ("question", "What was it?")


def test_attention_that_is_no_number_looks_up(retriever):
    model = ScriptedModel().pays("Edison", {"The": math.nan})
    model.then(probe([0.1] * 9), reply(" Ottilie lit it. That is all."), reply(ANSWER))
    events = dragin(model, retriever)
    assert fired(events) == ["The"]  # no share of its sentence is a number
    first = found(events, DecisionMade)[0]
    assert (first.retrieve, first.uncertainty) == (True, None)


def test_equality_does_not_fire(retriever):
    model = ScriptedModel().then(probe(), reply(" it."))
    assert fired(dragin(model, retriever, trigger=1.5)) == []


def test_it_needs_attention(retriever):
    model = ScriptedModel(gives_attention=False)
    failed = dragin(model, retriever)[-1]
    assert isinstance(failed, RunFailed)
    assert failed.message == "strategy 'dragin' needs attention, which model 'scripted' does not give"
    assert not model.calls


def test_a_sentence_that_stays_empty_ends_the_text(retriever):
    model = ScriptedModel().then(probe(), reply(""), reply(" nobody."))
    events = dragin(model, retriever)
    assert warned(events) == ["no_progress"]
    assert only(events, RunFinished).answer == "nobody"
    assert model.calls[-1].prompt.text.endswith(f"<assistant>{FIRST} So the answer is")


def test_the_same_place_for_ever_uses_up_the_look_ups(retriever):
    model = ScriptedModel().pays("<assistant>", {"lit": 0.5}).pays("Edison.", {"lit": 0.5})
    model.when(QUERY, reply("Edison. Edison.", entropy=2.0))
    events = dragin(model, retriever, max_retrievals=3)
    assert warned(events) == ["first_word_fired", "look_ups_used_up"]
    assert kept_text(events, "reasoning") == "Edison." * 3 + "Edison. Edison."
    assert cost(events) == (3 * 2 + 1 + 1, 3)  # R probes with their sentences, the last probe, the conclusion


def test_it_ends_with_the_answer(retriever):
    model = ScriptedModel().then(probe(), reply(" So the answer is Swan. That is all."))
    events = dragin(model, retriever)
    assert (only(events, RunFinished).answer, cost(events)) == ("Swan", (2, 1))


def test_attention_is_read_alone_and_in_context(model, retriever):
    events = dragin(model, retriever)
    (alone, first), (context, second), *_ = model.attended
    assert (len(alone), len(first)) == (0, 9)
    prompt = found(events, PromptBuilt)[0]
    assert (len(context), len(second)) == (prompt.tokens - 1, 10)  # with the prompt's last token, which chose the first
