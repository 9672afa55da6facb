"""Adaptive-RAG: how questions are labelled, how they vote, and what each class does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from adaptrag_cli import engine
from adaptrag_cli.errors import ConfigError, ExitCode
from adaptrag_cli.events import DecisionMade, Event, RunFailed, RunFinished, WarningRaised
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.run_summary import fold
from adaptrag_cli.strategies.adaptive_rag import choose_way
from adaptrag_cli.strategies.base import LabelledQuestion, Labels, Options, Resources, load_strategy
from adaptrag_cli.strategies.labels import read_labels
from fakes import ScriptedModel, reply
from lamp import ANGLES, DOCUMENTS, QUERY, unsure_model
from laws import check_laws
from methods import cost, only, outline
from plane import PlaneEncoder, plane_index

# Questions of a past evaluation, by their angle from the query at 0 degrees.
ASKED = {"first question": 5.0, "second question": -10.0, "third question": 15.0, "fourth question": 80.0}


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    folder = tmp_path_factory.mktemp("adaptive")
    encoder = PlaneEncoder(folder / "encoder", ANGLES | ASKED | {"lamp": 0.0})
    return Retriever(plane_index(folder, DOCUMENTS, encoder), encoder)


def labelled(simplest: Sequence[str]) -> tuple[LabelledQuestion, ...]:
    """The questions of the past evaluation, the nearest first."""
    return tuple(
        LabelledQuestion(id=query, query=query, right_from_memory=False, right_from_documents=False, simplest=each)
        for query, each in zip(ASKED, simplest, strict=True)
    )


def ask(store: Retriever, questions: Sequence[LabelledQuestion] | None, model: ScriptedModel, **options) -> list[Event]:
    use = Resources(
        model=model,
        retriever=store,
        options=Options(**{"top_k": 2, "neighbours": 3, "context_policy": "accumulate", **options}),
        labels=None if questions is None else Labels(source="runs/past", questions=tuple(questions)),
    )
    events = list(engine.answer(engine.Run(query=QUERY, peek=False), load_strategy("adaptive-rag"), use))
    check_laws(events)
    return events


# --- labels


def run_folder(folder: Path, set_name: str, right: dict[str, bool]) -> Path:
    lines = (
        {
            "cell": "base",
            "set": set_name,
            "strategy": name,
            "question_id": "q1",
            "query": "Who?",
            "em": float(em),
            "meta": {},
        }
        for name, em in right.items()
    )
    (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "manifest.json").write_text(
        json.dumps({"cells": [{"name": "base", "model": "scripted", "model_fingerprint": "sha256:0"}]})
    )
    return folder


@pytest.mark.parametrize(
    ("set_name", "never", "always", "ircot", "simplest"),
    [
        # METHODS 12: {B, C} is B; {A, C} is A; {} is C in HotpotQA.
        ("nq_open", False, True, True, "always"),
        ("nq_open", True, False, True, "never"),
        ("HotpotQA_dev", False, False, False, "ircot"),
        ("2wikimultihopqa_train", False, False, False, "ircot"),
        ("musique", False, False, False, "ircot"),
        ("squad", False, False, False, "always"),
        ("squad", False, False, True, "ircot"),
        ("hotpotqa", True, True, True, "never"),
        ("hotpotqa", False, True, False, "always"),
    ],
)
def test_a_question_is_labelled_by_the_simplest_way_that_was_right(tmp_path, set_name, never, always, ircot, simplest):
    folder = run_folder(tmp_path, set_name, {"never": never, "always": always, "ircot": ircot})
    assert [question.simplest for question in read_labels(folder).questions] == [simplest]


def test_where_there_is_no_run_it_is_told_which_one_is_needed(tmp_path):
    with pytest.raises(ConfigError, match="missing holds no evaluation") as caught:
        read_labels(tmp_path / "missing")
    assert caught.value.hint.endswith("--out FOLDER; adaptive-rag needs never,always,ircot")


def test_a_question_that_was_not_asked_in_all_ways_has_no_label(tmp_path):
    folder = run_folder(tmp_path, "squad", {"never": False, "always": True, "ircotta": True})
    assert [question.simplest for question in read_labels(folder).questions] == [""]


# --- the vote


@pytest.mark.parametrize(
    ("nearest", "way", "reason"),
    [
        (("never",), "never", "1 of 1 similar questions needed no document"),
        (("ircot", "always", "always", "never"), "always", "2 of 4 similar questions needed one look-up"),
        (("ircot", "always", "always", "ircot"), "ircot", "2 of 4 similar questions needed several look-ups"),
        (("always", "ircot", "never", "fourth"), "always", "1 of 4 similar questions needed one look-up"),
    ],
)
def test_most_votes_win_and_the_nearest_of_equals(nearest, way, reason):
    assert choose_way(labelled([*nearest, *["never"] * 4][:4])[: len(nearest)]) == (way, reason)


# --- the classes


def test_class_a_answers_from_memory(retriever):
    events = ask(retriever, labelled(["never", "never", "ircot", "ircot"]), unsure_model())
    assert outline(events) == [
        "RunStarted",
        "DecisionMade",
        "PromptBuilt:draft",
        "UncertaintyMeasured",
        "RunFinished",
    ]
    decision = only(events, DecisionMade)
    assert (decision.retrieve, decision.reason) == (False, "2 of 3 similar questions needed no document")
    assert only(events, RunFinished).answer == "Edison perhaps"
    assert cost(events) == (1, 0)


def test_class_b_looks_up_once(retriever):
    events = ask(retriever, labelled(["always", "never", "always", "ircot"]), unsure_model())
    assert only(events, DecisionMade).reason == "2 of 3 similar questions needed one look-up"
    assert only(events, RunFinished).answer == "Ottilie Brandt"
    assert cost(events) == (1, 1)


def test_class_c_looks_up_between_sentences(retriever):
    model = ScriptedModel().then(
        reply("The goats saw it.", stop_reason="stop"), reply(" So the answer is Ottilie."), reply("Ottilie B.")
    )
    events = ask(retriever, labelled(["ircot", "ircot", "never", "never"]), model, reader="direct")
    decisions = [event.reason for event in events if isinstance(event, DecisionMade)]
    assert decisions == ["2 of 3 similar questions needed several look-ups", "before every sentence"]
    assert [each.kept for each in fold(events).rounds] == ["", "The goats saw it."]
    assert only(events, RunFinished).answer == "Ottilie B."
    assert cost(events) == (3, 2)


def test_questions_without_a_label_have_no_vote(retriever):
    events = ask(retriever, labelled(["", "", "always", "always"]), unsure_model())
    assert only(events, DecisionMade).reason == "2 of 2 similar questions needed one look-up"


def test_the_question_itself_is_left_out_with_a_warning(retriever):
    own = LabelledQuestion(id="0", query=QUERY, right_from_memory=True, right_from_documents=True, simplest="never")
    events = ask(retriever, [own, *labelled(["always"] * 4)], unsure_model(), neighbours=1)
    assert only(events, WarningRaised).code == "labelled_question"
    assert only(events, DecisionMade).retrieve


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        (None, "this strategy learns from labelled questions, and there are none"),
        (labelled([""] * 4), "no labelled question was asked never, always and ircot"),
    ],
)
def test_without_labels_it_is_told_how_to_make_them(retriever, questions, message):
    failed = ask(retriever, questions, ScriptedModel())[-1]
    assert isinstance(failed, RunFailed)
    assert (failed.message, failed.exit_code) == (message, ExitCode.USAGE)
    assert failed.hint == "give --labels RUN, the folder of an adaptrag eval run with --strategies never,always,ircot"


def test_options():
    strategy = load_strategy("adaptive-rag")
    assert strategy.uses == load_strategy("never").uses | load_strategy("ircot").uses | {"labels", "neighbours"}
    assert strategy.defaults == load_strategy("ircot").defaults
