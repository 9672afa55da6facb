"""Who writes narratives: which model is asked what, with which prompt, and what counts as nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from adaptrag_cli import prompts
from adaptrag_cli.answers import FINAL_ANSWER_IS
from adaptrag_cli.errors import RunCancelled
from adaptrag_cli.learning.narrator import OwnNarrator, TaughtNarrator
from adaptrag_cli.stepwise.narrative import (
    CONTEXT,
    INTERMEDIATE_ANSWER,
    SEARCH,
    NarrativeStep,
    passage,
    worked_examples,
)
from adaptrag_cli.strategies.base import Options
from fakes import ScriptedModel, reply
from lamp import QUERY, lamp_retriever

FIRST = NarrativeStep(sub_query="Who lit the lamp?", answer="Ottilie Brandt")
TOLD = f"Follow up: Who lit the lamp?\n{INTERMEDIATE_ANSWER} Ottilie Brandt\n"
OPTIONS = Options(retriever="sparse", top_k=2, examples=2, max_steps=6)


@pytest.fixture
def models() -> tuple[ScriptedModel, ScriptedModel]:
    return ScriptedModel(name="target"), ScriptedModel(name="teacher")


@pytest.fixture
def narrator(models: tuple[ScriptedModel, ScriptedModel], tmp_path: Path) -> OwnNarrator:
    target, teacher = models
    return OwnNarrator(target=target, teacher=teacher, retriever=lamp_retriever(tmp_path), options=OPTIONS)


def written(model: ScriptedModel) -> list[str]:
    """The model's turn in each call, before what it went on with."""
    return [call.prompt.text.partition("<assistant>")[2] for call in model.calls]


def test_the_teacher_asks_after_the_examples_and_what_was_told(narrator, models):
    target, teacher = models
    teacher.labels(TOLD, {"Follow up:": -0.5, FINAL_ANSWER_IS: -1.0})
    teacher.then(reply(" Who paid  the fee?\nmore"), reply(" What is it?"))
    assert narrator.sub_query(QUERY, ()) == "Who paid the fee?"
    assert narrator.sub_query(QUERY, (FIRST,)) == "What is it?"
    assert written(teacher) == ["Follow up:", f"{TOLD}Follow up:"]
    assert prompts.follow_ups(QUERY, worked_examples(2)) in teacher.calls[0].prompt.text
    assert not target.calls


def test_it_is_over_where_the_final_answer_is_likelier(narrator, models):
    models[1].labels(TOLD, {"Follow up:": -1.0, FINAL_ANSWER_IS: -0.5})
    assert narrator.sub_query(QUERY, (FIRST,)) == ""
    models[1].then(reply(" Ottilie Brandt.\nmore"))
    assert narrator.final(QUERY, (FIRST,)) == "Ottilie Brandt"
    assert written(models[1]) == [f"{TOLD}{FINAL_ANSWER_IS}"]


@pytest.mark.parametrize("line", ["", " ?", " ... ?", " No"])
def test_what_asks_nothing_is_no_sub_query(narrator, models, line: str):
    models[1].then(reply(line))
    assert narrator.sub_query(QUERY, ()) == ""


def test_memory_is_the_targets_and_documents_are_the_teachers(narrator, models):
    target, teacher = models
    target.then(reply(" Edison\n"))
    teacher.then(reply(" 1,500 crowns"))
    answers = narrator.answers(QUERY, (FIRST,), "What is the mooring fee?")
    assert (answers.direct, answers.retrieved) == ("Edison", "1,500 crowns")
    fees, harbour = passage("fees", "The mooring fee is 1,500 crowns."), passage("harbour", "The harbour faces east.")
    assert answers.passages == (fees, harbour)
    asked = f"{TOLD}Follow up: What is the mooring fee?\n"
    assert written(target) == [f"{asked}{INTERMEDIATE_ANSWER}"]
    assert written(teacher) == [f"{asked}{SEARCH}\n{CONTEXT}\n[1] {fees}\n[2] {harbour}\n{INTERMEDIATE_ANSWER}"]


def test_both_answers_are_decoded_a_token_of_each_in_turn(narrator, models, monkeypatch):
    order: list[str] = []
    for model, text in zip(models, (" one two three", " four five"), strict=True):
        model.then(reply(text))
        monkeypatch.setattr(model, "_generate", _noting(model, order))
    narrator.answers(QUERY, (), "What is the mooring fee?")
    assert order == ["target", "teacher", "target", "teacher", "target"]


def test_documents_are_read_when_they_are_asked_where_answers_are_not_written_together(models, tmp_path: Path):
    target, teacher = models
    narrator = OwnNarrator(
        target=target, teacher=teacher, retriever=lamp_retriever(tmp_path), options=OPTIONS, together=False
    )
    target.then(reply(" Edison\n"))
    answers = narrator.answers(QUERY, (FIRST,), "What is the mooring fee?")
    assert (answers.direct, answers.passages, answers.retrieved) == ("Edison", (), None)
    assert not teacher.calls
    teacher.then(reply(" 1,500 crowns"), reply(" not stated"))
    passages, told = narrator.look_up(QUERY, (FIRST,), "What is the mooring fee?")
    assert (len(passages), told) == (2, "1,500 crowns")
    assert f"{SEARCH}\n{CONTEXT}\n[1] {passages[0]}" in written(teacher)[0]
    assert narrator.look_up(QUERY, (), "harbour") == ((passage("harbour", "The harbour faces east."),), "")
    assert narrator.look_up(QUERY, (), "xylophone?") == ((), "")


def test_a_teacher_takes_questions_apart_and_concludes_in_a_list_of_its_own(tmp_path: Path):
    target, asking, reading = (ScriptedModel(name=name) for name in ("target", "asking", "reading"))
    narrator = TaughtNarrator(
        target=target, asking=asking, reading=reading, retriever=lamp_retriever(tmp_path), options=OPTIONS
    )
    listed = "1. Who lit the lamp?\nAnswer: Ottilie Brandt\n"
    asking.labels("2. Who lit", {"3.": -1.0, FINAL_ANSWER_IS: -0.5}).labels(listed, {"2.": -0.5, FINAL_ANSWER_IS: -1.0})
    asking.then(reply(" Who lit  it?\nAnswer:"), reply(" Where?"), reply(" Where was it?"), reply(" Brandt.\nQ"))
    assert narrator.sub_query(QUERY, ()) == "Who lit it?"
    assert narrator.sub_query(QUERY, (FIRST,)) == ""  # one word asks nothing
    assert narrator.sub_query(QUERY, (FIRST,)) == "Where was it?"
    assert narrator.sub_query(QUERY, (FIRST, FIRST)) == ""
    assert narrator.final(QUERY, (FIRST,)) == "Brandt"
    assert written(asking) == ["1.", f"{listed}2.", f"{listed}2.", f"{listed}{FINAL_ANSWER_IS}"]
    request = asking.calls[0].prompt.text
    assert "Question: Who designed the opera house in the capital of Norway?\n1. What is the capital of" in request
    assert request.partition("</user>")[0].endswith(f"So the final answer is: 1918\n\nQuestion: {QUERY}")
    assert not reading.calls and not target.calls


def test_a_teacher_reads_the_passages_of_a_sub_query_and_nothing_else(tmp_path: Path):
    target, asking, reading = (ScriptedModel(name=name) for name in ("target", "asking", "reading"))
    narrator = TaughtNarrator(
        target=target, asking=asking, reading=reading, retriever=lamp_retriever(tmp_path), options=OPTIONS
    )
    target.then(reply(" Edison"))
    looked_up = NarrativeStep(sub_query="Who?", retrieve=True, passages=("lamp: It was lit.",), answer="Brandt")
    assert narrator.answers(QUERY, (looked_up,), "What is the mooring fee?").retrieved is None
    assert f"{CONTEXT}\n[1] lamp: It was lit.\n{INTERMEDIATE_ANSWER} Brandt" in written(target)[0]
    reading.then(reply("1,500 crowns"), reply("Not stated"))
    passages, told = narrator.look_up(QUERY, (FIRST,), "What is the mooring fee?")
    assert (len(passages), told) == (2, "1,500 crowns")
    expected = prompts.with_passages("What is the mooring fee?", [prompts.Passage(title="", text=p) for p in passages])
    assert reading.calls[0].prompt.text == f"<user>{expected}</user>\n<assistant>"
    assert narrator.look_up(QUERY, (), "harbour") == ((passage("harbour", "The harbour faces east."),), "")
    assert not asking.calls


@pytest.mark.parametrize(
    ("answer", "is_told"),
    [
        ("not stated", False), ("It is not mentioned in the passages.", False), ("There is no information", False),
        ("None", False), ("N/A", False), ("It is unknown", False), ("I don't know", False), ("Unknown.", False),
        ("The answer is not provided in the passages", False), ("not clearly stated", False),
        ("The given passages do not contain the answer", False),
        ("Not known for his speeches, but for Hamlet", True), ("Not given up", True), ("No", True),
        ("none of them", True), ("1 July", True), ("Unknown Pleasures", True),
    ],
)  # fmt: skip
def test_what_counts_as_not_told(narrator, models, answer: str, is_told: bool):
    models[1].then(reply(answer))
    passages, told = narrator.look_up(QUERY, (), "What is the mooring fee?")
    assert passages and bool(told) is is_told


def _noting(model: ScriptedModel, order: list[str]):
    generate = model._generate

    def noting(call, answer):
        generation = generate(call, answer)
        try:
            while True:
                token = next(generation)
                order.append(model.name)
                yield token
        except StopIteration as done:
            return done.value

    return noting


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("[No related Info]", ""),
        ("No related info.", ""),
        ("The passages do not say.", ""),
        ("It is not mentioned in the text.", ""),
        ("unknown", ""),
        ("Norway", "Norway"),
        ("No", "No"),
        ("Unknown Pleasures", "Unknown Pleasures"),
        ("Not Fade Away", "Not Fade Away"),
    ],
)
def test_passages_that_do_not_tell_give_no_answer(narrator, models, told: str, kept: str):
    models[0].then(reply(" x"))
    models[1].then(reply(f" {told}"))
    assert narrator.answers(QUERY, (), "What is the mooring fee?").retrieved == kept


def test_a_search_that_finds_nothing_asks_memory_alone(narrator, models):
    models[0].then(reply(" blue"))
    answers = narrator.answers(QUERY, (), "xylophone?")
    assert (answers.direct, answers.passages, answers.retrieved) == ("blue", (), "")
    assert not models[1].calls


def test_what_does_not_fit_the_context_is_left_out_or_empty(narrator, models, tmp_path: Path):
    target, teacher = models
    target.then(reply(" x"))
    teacher.then(reply(" y"))
    both = narrator.answers(QUERY, (), "harbour goats brown")
    assert len(both.passages) == 2
    needed = len(teacher.calls[0].prompt) + 64 + 64 + OPTIONS.conclusion_tokens
    target.context_length = needed - 1  # one word too few for both passages, in either model
    target.then(reply(" x"))
    teacher.then(reply(" y"))
    assert narrator.answers(QUERY, (), "harbour goats brown").passages == both.passages[:1]
    target.context_length = teacher.context_length = 30
    assert narrator.sub_query(QUERY, ()) == narrator.sub_query(QUERY, (FIRST,)) == ""
    assert narrator.answers(QUERY, (), "harbour").direct == ""
    assert narrator.final(QUERY, ()) == ""


def test_a_stop_ends_both(narrator, models):
    models[0].then(reply(" one two three"))
    models[1].then(reply(" one two three", stop_reason="end", cancel_at=1))
    with pytest.raises(RunCancelled):
        narrator.answers(QUERY, (), "What is the mooring fee?")
    assert models[0].calls[0].generation is None
