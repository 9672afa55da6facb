"""Judges as whole runs: what they are asked, how a reply is read, and what follows from it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from adaptrag_cli import prompts
from adaptrag_cli.events import ChunksSelected, DecisionMade, PromptBuilt, RunFinished, UncertaintyMeasured
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.strategies.base import Resources, load_strategy
from adaptrag_cli.strategies.judges import read_bracketed_yes_or_no, read_digit, read_yes_or_no
from fakes import ScriptedModel, reply
from lamp import DRAFTING, QUERY, READING, lamp_retriever
from methods import asked, cost, only, outline, run_with

JUDGES = ("llm-judge", "taare", "can-answer")
NEEDED = {"llm-judge": "Yes", "taare": "[Yes]", "can-answer": "0"}
NOT_NEEDED = {"llm-judge": "No", "taare": "[No]", "can-answer": "1"}
JUDGING = ("external information", "outside sources", "Reply 1")


@pytest.fixture
def retriever(tmp_path: Path) -> Retriever:
    return lamp_retriever(tmp_path)


def model_of(verdict: str) -> ScriptedModel:
    model = ScriptedModel()
    for words in JUDGING:
        model.when(words, reply(verdict))
    return model.when(READING, reply("Ottilie Brandt")).when(DRAFTING, reply("Edison", logprob=-0.5))


def decision_of(retriever: Retriever, strategy: str, verdict: str) -> DecisionMade:
    return only(run_with(Resources(model=model_of(verdict), retriever=retriever), strategy), DecisionMade)


@pytest.mark.parametrize("strategy", JUDGES)
def test_what_needs_documents_is_looked_up_as_always_does(retriever, strategy):
    events = run_with(Resources(model=model_of(NEEDED[strategy]), retriever=retriever), strategy)
    assert outline(events) == [
        "RunStarted",
        "PromptBuilt:judge",
        "DecisionMade",
        "PathRetrieved:query",
        "ChunksSelected",
        "PromptBuilt:answer",
        "EvidenceJudged",
        "RunFinished",
    ]
    decision = only(events, DecisionMade)
    assert (decision.retrieve, decision.uncertainty, decision.threshold) == (True, None, None)
    assert decision.reason == f'the judge says that documents are needed: "{NEEDED[strategy]}"'
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source) == ("Ottilie Brandt", "documents")
    assert cost(events) == (2, 1)
    always = run_with(Resources(model=model_of(""), retriever=retriever), "always")
    assert only(events, ChunksSelected).candidates == only(always, ChunksSelected).candidates
    assert asked(events, "answer") == asked(always, "answer")


@pytest.mark.parametrize("strategy", JUDGES)
def test_what_needs_none_is_answered_from_memory_as_never_does(retriever, strategy):
    events = run_with(Resources(model=model_of(NOT_NEEDED[strategy]), retriever=retriever), strategy)
    assert outline(events) == [
        "RunStarted",
        "PromptBuilt:judge",
        "DecisionMade",
        "PromptBuilt:draft",
        "UncertaintyMeasured",
        "RunFinished",
    ]
    decision = only(events, DecisionMade)
    assert not decision.retrieve
    assert decision.reason == f'the judge says that memory is enough: "{NOT_NEEDED[strategy]}"'
    assert only(events, UncertaintyMeasured).value == 0.5
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction) == ("Edison", "draft", "draft")
    assert cost(events) == (2, 0)
    never = run_with(Resources(model=model_of(""), retriever=retriever), "never")
    assert asked(events, "draft") == asked(never, "draft")


@pytest.mark.parametrize(
    ("strategy", "retrieve", "said"),
    [
        ("llm-judge", True, "neither, which counts as saying that documents are needed"),
        ("taare", False, "neither, which counts as saying that memory is enough"),
        ("can-answer", True, "neither, which counts as saying that documents are needed"),
    ],
)
@pytest.mark.parametrize("verdict", ["", "Perhaps so."])
def test_a_reply_that_says_neither(retriever, strategy, retrieve, said, verdict):
    decision = decision_of(retriever, strategy, verdict)
    assert decision.retrieve is retrieve
    assert decision.reason == f'the judge says {said}: "{verdict}"'


def test_a_long_reply_is_quoted_in_short(retriever):
    verdict = "No,\nbecause the lamp of the harbour was lit by somebody whom everybody in the whole village knew well."
    reason = decision_of(retriever, "llm-judge", verdict).reason
    assert reason == (
        'the judge says that memory is enough: "No, because the lamp of the harbour was lit by somebody..."'
    )


@pytest.mark.parametrize("strategy", JUDGES)
def test_another_model_judges(retriever, strategy):
    judge, model = model_of(NEEDED[strategy]), ScriptedModel().when(READING, reply("Ottilie Brandt"))
    events = run_with(Resources(model=model, judge=judge, retriever=retriever), strategy)
    assert [[words in call.prompt.text for words in JUDGING].count(True) for call in judge.calls] == [1]
    assert [READING in call.prompt.text for call in model.calls] == [True]
    assert cost(events) == (2, 1)
    quiet, model = model_of(NOT_NEEDED[strategy]), ScriptedModel().when(DRAFTING, reply("Edison"))
    run_with(Resources(model=model, judge=quiet, retriever=retriever), strategy)
    assert (len(quiet.calls), len(model.calls)) == (1, 1)


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("Yes", True),
        ("No.", False),
        ('"yes"', True),
        ("**NO**", False),
        ("Answer: Yes, since it is recent", True),
        ("No, yes would be wrong", False),  # the first one counts
        ("Yes/No", True),
        ("Yes:", True),
        ("yes-", True),
        ("Know yesterday nothing", None),
        ("no-one knows", None),
        ("a no-go, so yes", True),
        ("Nope", None),
        ("", None),
    ],
)
def test_the_first_standalone_yes_or_no(text, needed):
    assert read_yes_or_no(text) is needed


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("[Yes]", True),
        ("yes", True),
        ("'Yes'", True),
        ('"Yes".', True),
        ("[No], [Yes]", True),  # any word
        ("I say [yes], of course", True),
        ("[No]", False),
        ("No.", False),
        ("Yes/No", None),
        ("Yes:", None),
        ("(yes)", None),
        ("**Yes**", None),
        ("", None),
    ],
)
def test_a_word_that_is_yes(text, needed):
    assert read_bracketed_yes_or_no(text) is needed


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("0", True),
        ("1", False),
        ("1.", False),
        (" 0\n", True),
        ("[1]", False),
        ("Answer: 0, not 1", True),
        ("10", None),
        ("0.5", None),
        ("1887", None),
        ("in 2021, so 0", True),
        ("one", None),
        ("1st", None),
        ("", None),
    ],
)
def test_the_first_standalone_digit(text, needed):
    assert read_digit(text) is needed


def test_the_prompts():
    assert prompts.judge("Q?") == (
        "Q?\nDetermine whether external information is needed to answer the question accurately. Respond with "
        '"Yes" if additional information is required, or "No" if the question can be answered without it.'
    )
    begin, *examples, end = prompts.time_aware_judge("Q?", "2024-02-29").split("\n\n")
    assert begin.startswith("Today is 2024-02-29. ")
    assert begin.endswith("Reply with only [Yes] or [No].")
    assert [example.splitlines()[1] for example in examples] == [
        "Answer: [No]",
        "Answer: [Yes]",
        "Answer: [No]",
        "Answer: [Yes]",
    ]
    assert end == "Question: Q?\nAnswer:"
    begin, *examples, end = prompts.can_answer("Q?").split("\n\n")
    assert begin.endswith("Reply with the digit only.")
    assert [example.splitlines()[1] for example in examples] == ["Answer: 1", "Answer: 0", "Answer: 1", "Answer: 0"]
    assert end == "Question: Q?\nAnswer:"


@pytest.mark.parametrize(
    ("strategy", "written"),
    [
        ("llm-judge", prompts.judge(QUERY)),
        ("taare", prompts.time_aware_judge(QUERY, "2024-02-29")),
        ("can-answer", prompts.can_answer(QUERY)),
    ],
)
def test_what_the_judge_is_asked(retriever, strategy, written):
    model = model_of(NEEDED[strategy])
    events = run_with(Resources(model=model, retriever=retriever), strategy, today="2024-02-29", judge_tokens=3)
    assert asked(events, "judge") == written
    assert model.calls[0].max_tokens == 3


def test_the_date_is_that_of_the_day_unless_one_is_given(retriever):
    before = date.today()
    events = run_with(Resources(model=model_of("[No]"), retriever=retriever), "taare")
    days = {f"Today is {day.isoformat()}. " for day in (before, date.today())}
    assert any(day in only(events[:3], PromptBuilt).text for day in days)


def test_options_and_defaults():
    for name in JUDGES:
        assert load_strategy(name).uses >= {"judge", "judge_tokens", "retriever", "top_k", "draft_tokens", "style"}
    assert ["today" in load_strategy(name).uses for name in JUDGES] == [False, True, False]
    assert [load_strategy(name).defaults.top_k for name in JUDGES] == [3, 5, 3]
    assert {load_strategy(name).defaults.judge_tokens for name in JUDGES} == {16}
