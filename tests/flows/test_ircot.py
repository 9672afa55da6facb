"""IRCoT as whole runs: sentences and look-ups by turns, what accumulates, who answers, and how the text ends."""

from __future__ import annotations

import pytest

from adaptrag_cli.events import (
    DOCUMENTS_DO_NOT_TELL,
    DecisionMade,
    EvidenceJudged,
    RunFinished,
    TokensDiscarded,
)
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.run_summary import fold
from adaptrag_cli.strategies.base import Resources, load_strategy
from fakes import ScriptedModel, reply
from lamp import ANGLES, DOCUMENTS, lamp_retriever
from methods import asked, chunks_read, codes, cost, only, outline, queries, run_with
from plane import PlaneEncoder, plane_index

FEE, GOATS, SO = "The fee is due.", " Thus the goats pay.", " So the answer is Ottilie Brandt."
HARBOUR_FACES = " The harbour faces east."
ROUND = ["DecisionMade", "QueryBuilt", "PathRetrieved:reasoning", "ChunksSelected", "PromptBuilt:reasoning"]
FIRST_ROUND = [name.replace("Retrieved:reasoning", "Retrieved:query") for name in ROUND]
LAMP, HARBOUR, FEES, GOAT = "lamp.md#0", "harbour.txt#0", "fees.md#0", "goats.txt#0"


@pytest.fixture
def retriever(tmp_path):
    return lamp_retriever(tmp_path, {"lamp": 0.0, "east": -50.0, "Nobody": 0.0})


def sentence(text):
    """A sentence after which the model would go on."""
    return reply(text, stop_reason="stop")


def ask(store, /, *replies, **options):
    model = ScriptedModel().then(*replies)
    chosen = {"context_policy": "accumulate", "max_retrievals": 10, **options}
    events = run_with(Resources(model=model, retriever=store), "ircot", **chosen)
    assert model.is_exhausted
    return model, events


def test_sentences_and_look_ups_by_turns(retriever):
    model, events = ask(retriever, sentence(FEE), sentence(GOATS), sentence(SO))
    assert outline(events) == ["RunStarted", *FIRST_ROUND, *ROUND * 2, "RunFinished"]
    assert [call.max_sentences for call in model.calls] == [1, 1, 1]
    # "Who" only asks; the sentence with "thus" is passed over for the one before it, and "is" only asks there.
    assert queries(events) == [
        ("question", "lit the lamp?"),
        ("sentence", "The fee due."),
        ("sentence", "The fee due."),
    ]
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction) == ("Ottilie Brandt", "documents", "reasoned")
    assert cost(events) == (3, 3)  # S sentences: S of each; there is no reader (METHODS 14)
    assert [each.kept for each in fold(events).rounds] == ["", FEE, FEE + GOATS]


def test_only_conclusions_search_for_the_question_again(retriever):
    _, events = ask(retriever, sentence("So be it."), sentence(SO))
    assert queries(events) == [("question", "lit the lamp?")] * 2


def test_chunks_accumulate_each_once(retriever):
    _, events = ask(retriever, sentence(FEE), sentence(HARBOUR_FACES), sentence(SO))
    assert chunks_read(events) == [(LAMP, HARBOUR), (LAMP, HARBOUR, FEES), (LAMP, HARBOUR, FEES)]
    assert only(events, RunFinished).chunk_ids == (LAMP, HARBOUR, FEES)


def test_dragins_form_replaces_them(retriever):
    _, events = ask(retriever, sentence(FEE), sentence(SO), context_policy="replace")
    assert chunks_read(events) == [(LAMP, HARBOUR), (FEES, LAMP)]


def test_nearly_equal_chunks_are_held_once(tmp_path):
    told = "Ottilie Brandt lit the lamp of Skarvik in the winter of 1887, when the herring had left the bay"
    documents = {"one.md": f"{told}.", "two.md": f"{told} again.", "fees.md": DOCUMENTS["fees.md"]}
    encoder = PlaneEncoder(tmp_path / "encoder", ANGLES | {"lamp": 0.0})
    store = Retriever(plane_index(tmp_path, documents, encoder), encoder)
    _, events = ask(store, sentence(SO), top_k=3)
    assert chunks_read(events) == [("one.md#0", FEES)]


def test_a_reader_answers_in_a_few_words_from_all_chunks(retriever):
    _, events = ask(retriever, sentence(FEE), sentence(SO), reply("Ottilie B."), reader="direct")
    assert outline(events)[-3:] == ["PromptBuilt:answer", "EvidenceJudged", "RunFinished"]
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction) == ("Ottilie B.", "documents", "whole")
    assert end.chunk_ids == chunks_read(events)[-1] == (LAMP, HARBOUR, FEES)
    assert "single word or phrase" in asked(events, "answer")
    assert cost(events) == (3, 2)  # S + 1 calls (METHODS 14)


def test_a_reader_reasons_anew_over_all_chunks(retriever):
    replaced = {"reader": "reasoned", "context_policy": "replace"}
    anew = reply("It burnt. So the answer is Ottilie B.")
    model, events = ask(retriever, sentence(FEE), sentence(SO), anew, **replaced)
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction) == ("Ottilie B", "documents", "concluded")
    assert end.chunk_ids == chunks_read(events)[-1] == (LAMP, HARBOUR, FEES)
    assert model.calls[-1].prompt.text.endswith("lamp?</user>\n<assistant>")
    assert cost(events) == (3, 2)
    assert fold(events).reasoning == FEE + SO


def test_a_reader_that_comes_to_no_answer_is_asked_for_it(retriever):
    model, events = ask(retriever, sentence(SO), reply("It burnt."), reply(" Ottilie B.\n"), reader="reasoned")
    assert model.calls[-1].prompt.text.endswith("<assistant>It burnt. So the answer is")
    assert only(events, RunFinished).answer == "Ottilie B"
    assert cost(events) == (3, 1)


def test_a_reader_may_find_no_evidence(retriever):
    _, events = ask(retriever, sentence(SO), reply(""), reader="direct")
    assert not only(events, EvidenceJudged).supported
    assert only(events, RunFinished).answer == DOCUMENTS_DO_NOT_TELL


# --- how the text ends


def test_an_answer_in_other_words_ends_it(retriever):
    _, events = ask(retriever, sentence("Their answer is: Ottilie."), sentence(" Ottilie."))
    assert outline(events)[-2:] == ["PromptBuilt:answer", "RunFinished"]
    assert cost(events) == (2, 1)


@pytest.mark.parametrize("last", [reply(FEE), reply("")])
def test_the_model_ends_it(retriever, last):
    _, events = ask(retriever, last, reply(" Ottilie."))
    assert only(events, RunFinished).answer == "Ottilie"
    assert cost(events) == (2, 1)


def test_a_sentence_that_comes_again_ends_it(retriever):
    _, events = ask(retriever, sentence(FEE), sentence(GOATS), sentence(" The fee is due!"), reply(" Ottilie."))
    assert codes(events) == ["no_progress"]
    discarded = only(events, TokensDiscarded)
    assert (discarded.text, discarded.from_step) == (" The fee is due!", 0)
    assert fold(events).reasoning == FEE + GOATS
    assert cost(events) == (4, 3)


def test_the_look_ups_allowed_end_it(retriever):
    _, events = ask(retriever, sentence(FEE), sentence(HARBOUR_FACES), reply(" Ottilie."), max_retrievals=2)
    assert codes(events) == ["look_ups_used_up"]
    assert only(events, RunFinished).answer == "Ottilie"
    assert cost(events) == (3, 2)


def test_its_tokens_end_it(retriever):
    _, events = ask(retriever, sentence(FEE), sentence(HARBOUR_FACES), reply(" Ottilie."), reasoning_tokens=6)
    assert codes(events) == ["reasoning_cut"]
    assert fold(events).reasoning == f"{FEE} The harbour"
    assert cost(events) == (3, 2)


@pytest.mark.parametrize("reader", ["none", "direct", "reasoned"])
def test_where_nothing_is_found_the_conclusion_is_the_answer(tmp_path, reader):
    encoder = PlaneEncoder(tmp_path / "encoder", ANGLES)
    store = Retriever(plane_index(tmp_path, {"goats.txt": DOCUMENTS["goats.txt"]}, encoder), encoder)
    _, events = ask(store, sentence(SO), reader=reader, retriever="sparse")
    assert codes(events) == ["nothing_found"]
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.chunk_ids) == ("Ottilie Brandt", "draft", ())


def test_each_look_up_has_its_decision(retriever):
    _, events = ask(retriever, sentence(FEE), sentence(SO))
    decisions = [event for event in events if isinstance(event, DecisionMade)]
    assert [(d.retrieve, d.reason) for d in decisions] == [(True, "before every sentence")] * 2


def test_options():
    strategy = load_strategy("ircot")
    assert {"reader", "style", "answer_tokens", "context_policy", "max_retrievals"} <= strategy.uses
    assert (strategy.defaults.context_policy, strategy.defaults.max_retrievals) == ("accumulate", 10)
    assert strategy.defaults.reader == "none"
