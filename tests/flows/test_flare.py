"""FLARE as whole runs, as its paper and as DRAGIN have it: what fires, what is searched for, and how the text ends."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from adaptrag_cli import prompts
from adaptrag_cli.events import (
    DecisionMade,
    RunFailed,
    RunFinished,
    TokensDiscarded,
    WordMeasured,
)
from adaptrag_cli.run_summary import fold
from adaptrag_cli.strategies.base import Resources, load_strategy
from fakes import Reply, ScriptedModel, reply, scripted_token
from lamp import QUERY, lamp_retriever
from methods import chunks_read, codes, cost, only, outline, queries, run_with

JOE = "Joe Biden attended the University of Pennsylvania."
P = [0.99, 0.98, 0.9, 0.95, 0.6, 0.9, 0.2]
"""METHODS 6.1."""
END = " So the answer is Ottilie Brandt."
LOOK_UP = ["DecisionMade", "QueryBuilt", "PathRetrieved:reasoning", "ChunksSelected"]
FIRST_LOOK_UP = ["DecisionMade", "QueryBuilt", "PathRetrieved:query", "ChunksSelected"]
PAPER = {"trigger": 0.2, "context_policy": "replace"}
CODE = {"trigger": 0.1, "context_policy": "discard", "mode": "code"}


@pytest.fixture
def retriever(tmp_path):
    return lamp_retriever(tmp_path, {"Joe": 40.0, "University": 70.0, "lamp": 0.0, "Ann": -50.0, "?": 0.0})


def sure(text):
    """A sentence after which the model would go on."""
    return reply(text, logprob=-0.01, stop_reason="stop")


def unsure(text=JOE, p=P):
    return reply(text, logprob=[math.log(each) for each in p], stop_reason="stop")


def ask(store, options, /, *replies, **more):
    model = ScriptedModel().then(*replies)
    events = run_with(Resources(model=model, retriever=store), "flare", **{**options, **more})
    assert model.is_exhausted
    return model, events


def decisions(events):
    return [(e.retrieve, e.uncertainty, e.threshold, e.reason) for e in events if isinstance(e, DecisionMade)]


def kinds(events):
    return [name for name in outline(events) if not name.startswith("WordMeasured")]


# --- FLARE-direct


def test_sure_sentences_stand(retriever):
    model, events = ask(retriever, PAPER, sure("Ann lit it."), sure(" It was in 1887."), sure(END))
    assert kinds(events) == [
        "RunStarted",
        *FIRST_LOOK_UP,
        *["PromptBuilt:reasoning"] * 3,
        "DecisionMade",
        "RunFinished",
    ]
    assert [call.max_tokens for call in model.calls] == [64, 64, 64]
    assert [call.max_sentences for call in model.calls] == [1, 1, 1]
    assert decisions(events) == [
        (True, None, None, "the question, before anything is written"),
        (False, pytest.approx(1 - math.exp(-0.01)), 0.2, "no sentence is unsure"),
    ]
    assert fold(events).reasoning == f"Ann lit it. It was in 1887.{END}"
    assert only(events, RunFinished).answer == "Ottilie Brandt"
    assert cost(events) == (3, 1)  # one call a sentence, one search and the triggers (METHODS 14)


def test_an_unlikely_word_has_its_sentence_looked_up_and_written_again(retriever):
    _, events = ask(retriever, PAPER, sure("Ann lit it."), unsure(" " + JOE), sure(" Joe did."), sure(END))
    assert kinds(events) == [
        "RunStarted",
        *FIRST_LOOK_UP,
        *["PromptBuilt:reasoning"] * 2,
        "TokensDiscarded:reasoning",
        *LOOK_UP,
        *["PromptBuilt:reasoning"] * 2,
        "DecisionMade",
        "RunFinished",
    ]
    assert queries(events) == [("question", QUERY), ("masked", "Joe Biden attended the University of")]
    discarded = only(events, TokensDiscarded)
    assert (discarded.from_step, discarded.text, discarded.reason) == (
        0,
        " " + JOE,
        '"Pennsylvania" is only 20% likely',
    )
    assert decisions(events)[1] == (True, pytest.approx(0.8), 0.2, '"Pennsylvania" is only 20% likely')
    run = fold(events)
    assert run.reasoning == f"Ann lit it. Joe did.{END}"
    assert [(each.kept, each.discarded) for each in run.rounds] == [("", ""), ("Ann lit it.", " " + JOE)]
    assert cost(events) == (4, 2)


def test_every_word_is_told_with_its_doubt(retriever):
    _, events = ask(retriever, PAPER, unsure(), sure("Ottilie did."), sure(END))
    words = [event for event in events if isinstance(event, WordMeasured)][:7]
    assert [(w.text, w.first_step, w.step, w.fires) for w in words] == [
        ("Joe", 0, 0, False),
        ("Biden", 1, 1, False),
        ("attended", 2, 2, False),
        ("the", 3, 3, False),
        ("University", 4, 4, False),
        ("of", 5, 5, False),
        ("Pennsylvania.", 6, 6, True),
    ]
    assert [w.value for w in words] == pytest.approx([1 - p for p in P])
    assert {w.threshold for w in words} == {0.2}


@pytest.mark.parametrize(("trigger", "searches"), [(0.0, 2), (0.1, 2), (0.25, 1), (1.0, 1)])
def test_a_higher_trigger_looks_up_less(retriever, trigger, searches):
    replies = [reply(END, logprob=math.log(0.8))] * searches
    _, events = ask(retriever, PAPER, *replies, trigger=trigger)
    assert cost(events) == (searches, searches)


def test_a_token_at_the_limit_fires(retriever):
    _, events = ask(retriever, PAPER, reply(END, logprob=math.log(0.5)), sure(END), trigger=0.5)
    assert cost(events) == (2, 2)


@pytest.mark.parametrize(("mask_below", "query"), [(0.0, JOE), (0.6, "Joe Biden attended the of")])
def test_beta_decides_what_is_left_out_of_the_query(retriever, mask_below, query):
    _, events = ask(retriever, PAPER, unsure(), sure(END), mask_below=mask_below)
    assert queries(events)[1] == ("masked", query)


def test_chunks_stay_until_the_next_look_up(retriever):
    replies = sure("Ann lit it."), unsure(" " + JOE), sure(" Joe did."), sure(" Ann saw it."), sure(END)
    _, events = ask(retriever, PAPER, *replies, top_k=1)
    assert chunks_read(events) == [("lamp.md#0",)] * 2 + [("lamp.md#0",)] * 3
    _, events = ask(retriever, PAPER, *replies, top_k=1, context_policy="discard")
    assert chunks_read(events) == [("lamp.md#0",), (), ("lamp.md#0",), (), ()]


def test_the_whole_sentence_as_query(retriever):
    _, events = ask(retriever, PAPER, unsure(), sure(END), query_form="sentence")
    assert queries(events)[1] == ("sentence", JOE)
    assert cost(events) == (2, 2)


def test_a_question_that_the_model_writes_as_query(retriever):
    model, events = ask(
        retriever,
        PAPER,
        sure("Ann lit it."),
        unsure(" " + JOE),
        sure("Which university did Joe attend?\nIt is"),
        sure(" Joe did."),
        sure(END),
        query_form="written",
    )
    assert kinds(events)[5:13] == [
        *["PromptBuilt:reasoning"] * 2,
        "TokensDiscarded:reasoning",
        "DecisionMade",
        "PromptBuilt:search_query",
        *LOOK_UP[1:],
    ]
    asked = prompts.question_about(QUERY, f"Ann lit it. {JOE}", "Pennsylvania")
    assert model.calls[2].prompt.text == f"<user>{asked}</user>\n<assistant>"
    assert (model.calls[2].max_tokens, model.calls[2].stop) == (64, ("\n",))
    assert queries(events)[1] == ("written", "Which university did Joe attend?")
    assert fold(events).reasoning == f"Ann lit it. Joe did.{END}"
    assert cost(events) == (5, 2)


def test_without_a_question_the_sentence_is_searched_for(retriever):
    _, events = ask(retriever, PAPER, unsure(), sure(" ?"), sure(END), query_form="written")
    assert codes(events) == ["empty_query"]
    assert queries(events)[1] == ("sentence", JOE)


def test_without_a_part_to_ask_about_the_masked_sentence_is_searched_for(retriever):
    only_of = [0.9, 0.9, 0.9, 0.9, 0.9, 0.2, 0.9]  # a function word
    _, events = ask(retriever, PAPER, unsure(p=only_of), sure(END), query_form="written")
    assert queries(events)[1] == ("masked", "Joe Biden attended the University Pennsylvania.")
    assert cost(events) == (2, 2)


# --- bad input


def test_a_sentence_that_leaves_nothing_to_search_for_stands(retriever):
    _, events = ask(retriever, PAPER, unsure("Ann sang.", [0.3, 0.3]), sure(END))
    assert codes(events) == ["empty_query"]
    assert decisions(events)[1] == (
        False,
        pytest.approx(0.7),
        0.2,
        "what is unsure holds nothing that can be searched for",
    )
    assert fold(events).reasoning == f"Ann sang.{END}"
    assert cost(events) == (2, 1)


def test_when_the_look_ups_are_used_up_the_rest_is_written_at_once(retriever):
    replies = unsure(), sure("Ann sang."), unsure(" " + JOE), sure(END)
    model, events = ask(retriever, PAPER, *replies, max_retrievals=2)
    assert codes(events) == ["look_ups_used_up"]
    assert decisions(events)[-1] == (False, pytest.approx(0.8), 0.2, "the look-ups are used up")
    assert [call.max_sentences for call in model.calls] == [1, 1, 1, 0]
    assert fold(events).reasoning == f"Ann sang. {JOE}{END}"
    assert cost(events) == (4, 2)


def test_nothing_is_asked_for_when_look_ups_and_tokens_are_used_up_together(retriever):
    replies = unsure(" " + JOE), sure(" Ann."), unsure(" " + JOE), sure(" Ottilie.")
    model, events = ask(retriever, PAPER, *replies, max_retrievals=2, reasoning_tokens=8)
    assert codes(events) == ["look_ups_used_up", "reasoning_cut"]
    assert [call.max_tokens for call in model.calls] == [8, 8, 7, 20]
    assert only(events, RunFinished).answer == "Ottilie"


def test_a_model_that_is_always_unsure_still_comes_to_an_end(retriever):
    sentences = [unsure(" " + JOE)] * 9  # each look-up keeps the sentence that is written with it, however unsure
    _, events = ask(retriever, PAPER, *sentences, sure(END), max_retrievals=5)
    assert codes(events) == ["look_ups_used_up"]
    assert [each.kept for each in fold(events).rounds] == ["", *(f" {JOE}" * n for n in range(4))]
    assert cost(events) == (10, 5)


def test_a_model_that_writes_nothing_with_what_was_found_ends_the_text(retriever):
    _, events = ask(retriever, PAPER, sure("Ann lit it."), unsure(" " + JOE), sure(""), sure(" Ottilie."))
    assert codes(events) == ["no_progress"]
    assert fold(events).reasoning == "Ann lit it."
    assert only(events, RunFinished).answer == "Ottilie"
    assert cost(events) == (4, 2)


def test_an_answer_that_never_comes_is_asked_for(retriever):
    sentences = [sure(" Ann lit it.")] * 3
    _, events = ask(retriever, PAPER, *sentences, sure(" Ottilie."), reasoning_tokens=8)
    assert codes(events) == ["reasoning_cut"]
    assert only(events, RunFinished).answer == "Ottilie"
    assert cost(events) == (4, 1)


def test_a_silent_model_gives_an_empty_answer(retriever):
    for options, searches in ((PAPER, 1), (CODE, 0)):
        _, events = ask(retriever, options, sure(""), sure(""))
        assert decisions(events)[-1] == (False, None, options["trigger"], "the text has ended")
        assert only(events, RunFinished).answer == ""
        assert cost(events) == (2, searches)


def test_nothing_found_is_told_and_the_sentence_is_written_again(retriever):
    zz = [0.9, 0.9, 0.5]
    _, events = ask(retriever, PAPER, unsure("Qwxz vlqq zzkr.", zz), sure(END), retriever="sparse")
    assert codes(events) == ["nothing_found"]
    assert chunks_read(events) == [("lamp.md#0", "harbour.txt#0"), ()]


def test_a_model_without_probabilities_is_refused(retriever):
    class Mute(ScriptedModel):
        @property
        def info(self):
            return replace(super().info, capabilities=frozenset({"text"}))

    failed = run_with(Resources(model=Mute(), retriever=retriever), "flare", **PAPER)[-1]
    assert isinstance(failed, RunFailed)
    assert failed.message == "strategy 'flare' needs logprobs, which model 'scripted' does not give"


# --- DRAGIN's FLARE


def test_all_of_the_continuation_is_kept(retriever):
    probe = unsure(f"Ann lit it. {JOE} More.", [0.99] * 3 + [*P, 0.9])
    _, events = ask(retriever, CODE, probe, sure(f" Joe did.{END}"))
    assert kinds(events) == [
        "RunStarted",
        "PromptBuilt:reasoning",
        "TokensDiscarded:reasoning",
        *LOOK_UP,
        "PromptBuilt:reasoning",
        "RunFinished",
    ]
    # "University" and "Pennsylvania." have 1 - p > .1; "attended" has .1.
    assert queries(events) == [("masked", "Joe Biden attended the of")]
    assert only(events, TokensDiscarded).text == f" {JOE} More."
    assert decisions(events) == [
        (True, pytest.approx(0.211429, abs=1e-6), 0.1, 'a sentence is doubted by 0.21, most of all "Pennsylvania"')
    ]
    assert fold(events).reasoning == f"Ann lit it. Joe did.{END}"
    assert cost(events) == (2, 1)
    words = [event for event in events if isinstance(event, WordMeasured)]
    assert [w.value for w in words[:3]] == pytest.approx([0.01] * 3)
    assert [w.value for w in words[3:10]] == pytest.approx([0.211429] * 7, abs=1e-6)
    assert [w.text for w in words if w.fires] == ["Pennsylvania."]


def test_the_space_before_a_number_goes_with_its_sentence(retriever):
    pieces = ["Ann", " lit", " it.", " ", "1887", " was", " lamp."]
    likely = [0.99] * 3 + [0.9, 0.1, 0.5, 0.95]
    tokens = tuple(scripted_token(t, math.log(p), 0.1) for t, p in zip(pieces, likely, strict=True))
    _, events = ask(retriever, CODE, Reply(tokens=tokens), sure(f" Joe did.{END}"))
    assert (only(events, TokensDiscarded).from_step, only(events, TokensDiscarded).text) == (3, " 1887 was lamp.")
    assert fold(events).reasoning == f"Ann lit it. Joe did.{END}"


def test_a_sure_continuation_ends_the_text(retriever):
    _, events = ask(retriever, CODE, sure(f"Ann lit it.{END}"))
    assert decisions(events) == [(False, pytest.approx(1 - math.exp(-0.01)), 0.1, "no sentence is unsure")]
    assert cost(events) == (1, 0)
    assert only(events, RunFinished).answer_source == "draft"


def test_a_continuation_without_an_answer_is_watched_again(retriever):
    _, events = ask(retriever, CODE, unsure(), sure(" Ann did."), sure(END))
    assert cost(events) == (3, 1)
    assert [len(chunk_ids) for chunk_ids in chunks_read(events)] == [0, 2, 0]
    assert fold(events).reasoning == f" Ann did.{END}"


@pytest.mark.parametrize("form", ["sentence", "written"])
def test_other_queries_in_place_of_the_masked_one(retriever, form):
    written = [sure("Where did Joe learn?")] if form == "written" else []
    _, events = ask(retriever, CODE, unsure(), *written, sure(END), query_form=form)
    assert queries(events) == [(form, "Where did Joe learn?" if written else JOE)]


def test_dragins_flare_stops_at_the_look_ups_allowed(retriever):
    again = unsure(" " + JOE)
    _, events = ask(retriever, CODE, unsure(), again, again, sure(" Ottilie."), max_retrievals=1)
    assert codes(events) == ["look_ups_used_up"]
    assert cost(events) == (4, 1)


def test_options():
    strategy = load_strategy("flare")
    assert (strategy.defaults.trigger, strategy.defaults.mask_below, strategy.defaults.look_ahead_tokens) == (
        0.2,
        0.4,
        64,
    )
    assert strategy.defaults.context_policy == "replace"
