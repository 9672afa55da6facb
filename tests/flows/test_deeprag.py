"""DeepRAG and IterDRAG as whole runs: what is asked, decided and read at each step, and all the ways the steps end."""

from __future__ import annotations

import pytest

from adaptrag_cli.events import (
    ChunksSelected,
    DecisionMade,
    PromptBuilt,
    QueryBuilt,
    RunFailed,
    RunFinished,
    StepAnswered,
    StepDecided,
    SubQueryAsked,
    WarningRaised,
)
from adaptrag_cli.run_summary import fold
from adaptrag_cli.stepwise.narrative import INTERMEDIATE_ANSWER, SEARCH, worked_examples
from adaptrag_cli.strategies.base import Resources, load_strategy
from fakes import ScriptedModel, reply
from lamp import lamp_retriever
from methods import asked, codes, cost, only, outline, run_with

FEES = "fees.md#0"
WHO, FEE = "Who lit it?", "Which mooring fee?"
SEARCHES, KNOWS = {INTERMEDIATE_ANSWER: -1.5, SEARCH: -0.25}, {INTERMEDIATE_ANSWER: -0.25, SEARCH: -2.25}
STEP = ["PromptBuilt:sub_query", "SubQueryAsked", "StepDecided", "DecisionMade"]
FOUND = ["QueryBuilt", "PathRetrieved:reasoning", "ChunksSelected"]
SETTLED = ["PromptBuilt:intermediate_answer", "StepAnswered"]


@pytest.fixture
def retriever(tmp_path):
    return lamp_retriever(tmp_path)


def line(text):
    """A line after which the model would go on."""
    return reply(text, stop_reason="stop")


def follow_up(text):
    return line(f"Follow up: {text}")


def final(text):
    return reply(f"So the final answer is: {text}")


def ask(store, /, *replies, decisions=(), strategy="deeprag", model=None, **options):
    """Run on the lamp question; `decisions` are the log-probabilities of the markers after a text."""
    model = (model or ScriptedModel()).then(*replies)
    for words, logprobs in decisions:
        model.labels(words, logprobs)
    defaults = load_strategy(strategy).defaults
    chosen = {
        **{name: getattr(defaults, name) for name in ("retriever", "max_steps", "examples", "sources")},
        **options,
    }
    events = run_with(Resources(model=model, retriever=store), strategy, **chosen)
    assert model.is_exhausted
    return model, events


def turns(events):
    """The model's own turn in each prompt."""
    return [event.text.split("<assistant>", 1)[1] for event in events if isinstance(event, PromptBuilt)]


def test_one_step_searches_and_one_knows(retriever):
    model, events = ask(
        *(retriever, follow_up(FEE), line(" 1,500 crowns"), follow_up("Are the goats brown?"), line(" yes")),
        *(final("1,500 crowns."),),
        decisions=[("the goats brown?", KNOWS), (FEE, SEARCHES)],
    )
    assert outline(events) == [
        "RunStarted",
        *(*STEP, *FOUND, *SETTLED),
        *(*STEP, *SETTLED),
        "PromptBuilt:sub_query",
        "RunFinished",
    ]
    decided = [event for event in events if isinstance(event, StepDecided)]
    assert [(d.step, d.retrieve, d.log_odds) for d in decided] == [(0, True, 1.25), (1, False, -2.0)]
    assert [event.retrieve for event in events if isinstance(event, DecisionMade)] == [True, False]
    answered = [event for event in events if isinstance(event, StepAnswered)]
    assert [(a.step, a.text, a.chunk_ids, a.retrieved) for a in answered] == [
        (0, "1,500 crowns", (FEES,), True),
        (1, "yes", (), False),
    ]
    built = only(events, QueryBuilt)
    assert (built.method, built.text) == ("sub_query", FEE)
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction) == ("1,500 crowns", "documents", "final")
    assert end.chunk_ids == (FEES,)
    assert codes(events) == []
    assert [call.max_tokens for call in model.calls] == [64] * 5
    assert {call.stop for call in model.calls} == {("\n",)}


def test_the_documents_stay_in_the_history(retriever):
    _, events = ask(
        *(retriever, follow_up(FEE), line(" 1,500 crowns"), follow_up("And?"), line(" no"), final("1,500 crowns")),
        decisions=[("And?", KNOWS), (FEE, SEARCHES)],
    )
    told = (
        f"Follow up: {FEE}\n{SEARCH}\nContext:\n[1] fees: The mooring fee is 1,500 crowns.\n"
        "Intermediate answer: 1,500 crowns\nFollow up: And?\nIntermediate answer: no\n"
    )
    assert turns(events)[-1] == told
    assert [event.chunk_ids for event in events if isinstance(event, PromptBuilt)] == [(), *[(FEES,)] * 4]


@pytest.mark.parametrize(
    ("sources", "searches", "llm_calls"),
    [("both", 1, 7), ("memory", 0, 5), ("documents", 2, 5)],  # S = 2: 3S+1 where each step decides, else 2S+1
)
def test_what_the_sources_cost(retriever, sources, searches, llm_calls):
    _, events = ask(
        *(retriever, follow_up(FEE), line(" 1,500"), follow_up("Who pays the mooring fee?"), line(" all")),
        *(final("1,500"),),
        decisions=[("Who pays", KNOWS), (FEE, SEARCHES)],
        sources=sources,
    )
    assert cost(events) == (llm_calls, searches)
    assert all(d.log_odds is None for d in events if isinstance(d, StepDecided)) is (sources != "both")


def test_from_memory_alone_it_never_looks_up(retriever):
    _, events = ask(retriever, follow_up(WHO), line(" Edison"), final("Edison"), sources="memory")
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.chunk_ids) == ("Edison", "draft", ())
    assert "Let's search" not in asked(events, "sub_query")
    assert fold(events).decision.reason == "no step is looked up"


@pytest.mark.parametrize("sources", ["documents", "memory"])
def test_iterdrag_looks_up_every_step_whatever_is_set_for_deeprag(retriever, sources):
    _, events = ask(
        *(retriever, follow_up(FEE), line(" 1,500"), follow_up("Are the goats brown?"), line(" yes"), final("1,500")),
        strategy="iterdrag",
        sources=sources,
    )
    assert cost(events) == (5, 2)  # one retrieval and two calls per step, and the last line (METHODS 12b)
    assert [step.round for step in fold(events).steps] == [0, 1]
    assert {d.reason for d in events if isinstance(d, DecisionMade)} == {"every step is looked up"}
    assert load_strategy("iterdrag").defaults.max_steps == 5


def test_a_decision_evaluates_one_text_and_is_counted(retriever):
    model, events = ask(retriever, follow_up(WHO), line(" Edison"), final("Edison"), decisions=[(WHO, KNOWS)])
    decided = only(events, StepDecided)
    assert (decided.answer_logprob, decided.search_logprob) == (-0.25, -2.25)
    sub_query = model.calls[0]
    assert decided.reused_tokens == len(sub_query.prompt)  # what the sub-query was written from is not read again
    assert decided.prompt_tokens == decided.reused_tokens + len(f"Follow up: {WHO}".split()) + 1
    counts = only(events, RunFinished).counts
    assert counts.prompt_tokens == sum(len(call.prompt) for call in model.calls) + decided.prompt_tokens


def test_equal_markers_answer_from_memory(retriever):
    even = {INTERMEDIATE_ANSWER: -0.75, SEARCH: -0.75}
    _, events = ask(retriever, follow_up(WHO), line(" Edison"), final("Edison"), decisions=[(WHO, even)])
    assert not only(events, StepDecided).retrieve
    assert codes(events) == []  # 2 exp(-.75) = .94


def test_it_is_told_where_the_model_would_write_neither_marker(retriever):
    unlikely = {INTERMEDIATE_ANSWER: -2.0, SEARCH: -3.0}  # .135 + .050
    _, events = ask(retriever, follow_up(WHO), line(" Edison"), final("Edison"), decisions=[(WHO, unlikely)])
    told = only(events, WarningRaised)
    assert (told.code, "together p = 0.19" in told.message) == ("not_in_form", True)
    assert not only(events, StepDecided).retrieve


# --- traps of the form


@pytest.mark.parametrize("sub_query", ["Who wrote Let It Be?", "Let's search the question in Wikipedia.", "Letterman?"])
def test_a_marker_inside_a_sub_query_decides_nothing(retriever, sub_query):
    _, events = ask(
        retriever, follow_up(sub_query), line(" Let's search it"), final("x"), decisions=[(sub_query, KNOWS)]
    )
    assert only(events, SubQueryAsked).text == sub_query
    assert cost(events) == (4, 0)
    assert turns(events)[-1] == f"Follow up: {sub_query}\nIntermediate answer: Let's search it\n"


def test_a_first_line_in_no_form_is_written_again_behind_the_marker(retriever):
    _, events = ask(
        *(retriever, line("Edison lit the lamp, as everybody knows who has read it."), line(f" {WHO}")),
        *(line(" Edison"), final("Edison")),
        decisions=[(WHO, KNOWS)],
    )
    told = only(events, WarningRaised)
    assert told.code == "not_in_form"
    assert told.message == (
        "step 1 asks nothing: the model wrote 'Edison lit the lamp, as everybody knows who has re...', "
        "so it is made to ask"
    )
    assert only(events, SubQueryAsked).text == WHO
    assert turns(events) == [
        "",
        "Follow up:",
        f"Follow up: {WHO}\nIntermediate answer:",
        f"Follow up: {WHO}\nIntermediate answer: Edison\n",
    ]
    assert cost(events) == (5, 0)


def test_a_later_line_in_no_form_ends_the_steps(retriever):
    model, events = ask(
        *(retriever, follow_up(WHO), line(" Edison"), line("Let's search the question in Wikipedia."), reply(" He.")),
        decisions=[(WHO, KNOWS)],
    )
    told = only(events, WarningRaised)
    assert told.message == (
        'step 2 asks nothing: the model wrote "Let\'s search the question in Wikipedia.", so the steps end here'
    )
    assert turns(events)[-1] == f"Follow up: {WHO}\nIntermediate answer: Edison\nSo the final answer is:"
    assert (model.calls[-1].max_tokens, only(events, RunFinished).answer) == (20, "He")


@pytest.mark.parametrize("text", ["", "  ", "So the final answer is:", "So the final answer is: ."])
def test_a_line_without_a_word_ends_the_steps(retriever, text):
    _, events = ask(retriever, line(text), reply(" Edison"))
    assert codes(events) == []
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source) == ("Edison", "draft")
    assert cost(events) == (2, 0)


@pytest.mark.parametrize("text", ["Follow up:", "Follow up: ...", "Intermediate answer: 5"])
def test_a_follow_up_that_asks_nothing_ends_the_steps(retriever, text):
    _, events = ask(retriever, line(text), line(" ..."), reply(" Edison"))
    assert codes(events) == ["not_in_form"]
    assert only(events, RunFinished).answer == "Edison"


def test_a_sub_query_that_was_asked_ends_the_steps(retriever):
    _, events = ask(
        *(retriever, follow_up(WHO), line(" Edison"), follow_up("who lit it"), reply(" Edison")),
        decisions=[(WHO, KNOWS)],
    )
    assert [(e.text, e.is_repeated) for e in events if isinstance(e, SubQueryAsked)] == [
        (WHO, False),
        ("who lit it", True),
    ]
    told = only(events, WarningRaised)
    assert (told.code, told.message) == (
        "repeated_sub_query",
        "step 2 asks again what step 1 asked: the steps end here",
    )
    assert turns(events)[-1] == f"Follow up: {WHO}\nIntermediate answer: Edison\nSo the final answer is:"


def test_an_empty_answer_of_a_step_is_told_and_the_steps_go_on(retriever):
    _, events = ask(retriever, follow_up(WHO), line(""), final("nobody"), decisions=[(WHO, KNOWS)])
    assert codes(events) == ["empty_step"]
    assert only(events, StepAnswered).text == ""
    assert turns(events)[-1] == f"Follow up: {WHO}\nIntermediate answer:\n"
    assert only(events, RunFinished).answer == "nobody"


def test_a_question_that_never_ends_is_ended(retriever):
    replies = [each for n in range(6) for each in (follow_up(f"What is {n}?"), line(f" {n}"))]
    _, events = ask(retriever, *replies, reply(" 5"), decisions=[("What is", KNOWS)])
    assert codes(events) == ["steps_used_up"]
    assert cost(events) == (6 * 3 + 1, 0)
    assert only(events, RunFinished).answer == "5"


def test_a_sub_query_is_cut_at_its_tokens_and_searched_for(retriever):
    long = " ".join(["fee"] * 100)
    _, events = ask(retriever, follow_up(long), line(" 1,500"), final("1,500"), sources="documents")
    assert only(events, QueryBuilt).text == " ".join(["fee"] * 62)  # of 64 tokens the first two are the marker


def test_nothing_found_is_told_and_read_as_such(retriever):
    _, events = ask(retriever, follow_up("Zebra?"), line(" none"), final("none"), sources="documents")
    assert codes(events) == ["nothing_found"]
    assert "Context:\n(nothing was found)\nIntermediate answer:" in turns(events)[1]
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source) == ("none", "draft")
    assert only(events, ChunksSelected).candidates == ()


def test_what_does_not_fit_is_left_out_of_what_was_found_last(retriever):
    replies = (follow_up(FEE), line(" 1,500"), final("1,500"))
    model, _ = ask(retriever, *replies, sources="documents", retriever="dense", examples=0)
    full = len(model.calls[1].prompt)
    narrow = ScriptedModel(context_length=full + 63)
    _, events = ask(retriever, *replies, model=narrow, sources="documents", retriever="dense", examples=0)
    told = only(events, WarningRaised)
    assert told.code == "chunk_dropped"
    selected = [c.chunk_id for c in only(events, ChunksSelected).candidates]
    assert only(events, StepAnswered).chunk_ids == tuple(selected[:-1]) == only(events, RunFinished).chunk_ids
    assert fold(events).steps[0].round == 0


def test_a_question_that_fills_the_context_fails(retriever):
    model = ScriptedModel(context_length=80)
    events = run_with(Resources(model=model, retriever=retriever), "deeprag", examples=0)
    assert only(events, RunFailed).error == "QueryTooLong"


# --- prompts and options


@pytest.mark.parametrize(("examples", "shown"), [(0, 0), (2, 2), (6, 6), (8, 6)])
def test_worked_examples_stand_before_the_question(retriever, examples, shown):
    _, events = ask(retriever, final("x"), examples=examples)
    request = asked(events, "sub_query")
    assert request.count("Question: ") == shown + 1
    assert request.endswith("\n\nQuestion: Who lit the lamp?")
    assert ("as the examples do" in request) is bool(shown)


@pytest.mark.parametrize(
    ("sources", "ways"),
    [
        (
            "both",
            "Where you know the answer, give it at once. Where you do not, first write \"Let's search the question in "
            'Wikipedia.", and then answer from the passages that are shown to you.',
        ),
        ("memory", "Answer each from what you know."),
        (
            "documents",
            'Before each answer write "Let\'s search the question in Wikipedia.", and then answer from the passages '
            "that are shown to you.",
        ),
    ],
)
def test_what_a_model_is_asked_that_was_trained_to_the_form(retriever, sources, ways):
    _, events = ask(retriever, final("x"), examples=0, sources=sources)
    assert asked(events, "sub_query") == (
        "Answer the question below step by step. Break it into simple questions and settle them one at a time: write "
        f'each after "Follow up:", and its answer after "Intermediate answer:". {ways} When nothing is left to ask, '
        'write "So the final answer is:" and the answer in a few words.\n\nQuestion: Who lit the lamp?'
    )


def test_the_examples_of_deeprag_show_both_decisions(retriever):
    _, events = ask(retriever, final("x"))
    assert "\n\n".join(worked_examples(6)) in asked(events, "sub_query")


def test_what_a_look_up_finds_without_a_run(retriever):
    use = Resources(model=ScriptedModel(), retriever=retriever)
    for name in ("deeprag", "iterdrag"):
        looked_up = load_strategy(name).look_up("What is the mooring fee?", use)
        *_, selected = iter(looked_up)
        assert selected.candidates[0].chunk_id == FEES


def test_options():
    defaults = load_strategy("deeprag").defaults
    assert (defaults.max_steps, defaults.top_k, defaults.retriever, defaults.sources) == (6, 3, "sparse", "both")
    assert {"max_steps", "sources", "examples", "retriever", "top_k"} <= load_strategy("deeprag").uses
    assert "sources" not in load_strategy("iterdrag").uses
