"""From a finished run to a calibration, and questions that the model writes."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from adaptrag_cli.calibration import (
    Calibrated,
    FittedOn,
    MeasuredWith,
    overlap,
    question_digest,
    read_calibration,
    write_calibration,
)
from adaptrag_cli.documents.base import Chunk
from adaptrag_cli.errors import ConfigError, RunCancelled
from adaptrag_cli.evaluation.calibrate import CHOSEN, MIN_QUESTIONS, Aim, calibrate, calibrate_alpha
from adaptrag_cli.evaluation.formats.reading import load_questions
from adaptrag_cli.evaluation.question_writing import QuestionLog, Written, kept_question, write_questions
from adaptrag_cli.evaluation.results import RunData, read_run
from adaptrag_cli.evaluation.verifier import BOTH, examples_of
from adaptrag_cli.events import Setting
from fakes import ScriptedModel, reply
from lamp import lamp_retriever
from report_runs import write_run

ASKED = ("never", "always", BOTH)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    """80 questions of two sets; the surer a draft is, the likelier it is right."""
    return read_run(write_run(tmp_path_factory.mktemp("run"), strategies=ASKED))


# --- a run becomes a calibration


def test_everything_is_fitted_from_one_run(run, tmp_path):
    report = calibrate(run, aim=Aim(), shipped=0.3, source="toys (80 questions)", alpha=True)
    fitted = report.calibrated
    assert (fitted.model, fitted.model_fingerprint, fitted.encoder) == ("small-0.5b", "sha256:small-0.5b", "minilm")
    assert (fitted.source, fitted.labelled, fitted.questions) == ("toys (80 questions)", True, 80)
    assert fitted.question_digests[0] == question_digest("Question 0 of hotpotqa?")
    assert fitted.threshold.target == "em"
    never = {r.question_id: r for r in run.results if r.strategy == "never"}
    documents = {r.question_id: r for r in run.results if r.strategy == BOTH}
    at_zero = sum(r.em for r in documents.values()) / 80
    assert report.curve.scores[0] == pytest.approx(at_zero)
    assert report.curve.scores[-1] == pytest.approx(sum(r.em for r in never.values()) / 80)
    assert report.scores["never"].mean == pytest.approx(report.curve.scores[-1])
    assert report.scores["dtr, everything looked up"].mean == pytest.approx(at_zero)
    at_shipped = [never[i].em if never[i].uncertainty <= 0.3 else documents[i].em for i in never]
    assert report.scores["dtr at 0.3 (shipped)"].mean == pytest.approx(sum(at_shipped) / 80)
    assert sum(band.drafts for band in fitted.odds) == 80
    assert sum(band.right for band in fitted.odds) == sum(r.em for r in never.values())
    assert fitted.verifier.encoder == "minilm"
    assert fitted.alpha_line == report.alpha.line
    assert report.notes == ()
    path = tmp_path / "calibrations" / "m.json"
    write_calibration(path, fitted)
    assert read_calibration(path) == fitted


def test_the_chosen_threshold_is_scored_on_what_it_was_not_chosen_on(run):
    report = calibrate(run, aim=Aim(), shipped=0.3, source="toys")
    chosen = report.calibrated.threshold
    assert chosen.held_out - chosen.gain == pytest.approx(report.scores["dtr at 0.3 (shipped)"].mean)
    assert chosen.held_out <= report.curve.scores.max()
    shown = report.scores[CHOSEN]
    assert (shown.mean, shown.low, shown.high, shown.n) == (
        chosen.held_out,
        chosen.held_out_low,
        chosen.held_out_high,
        80,
    )


def earlier_with_line(run: RunData, **changes: object) -> Calibrated:
    made = calibrate(run, aim=Aim(), shipped=0.3, source="old toys", alpha=True).calibrated
    values = {"alpha_line": (0.5, 0.25), "question_digests": (question_digest("An old one?"),)} | changes
    return msgspec.structs.replace(made, **values)


def test_an_earlier_line_outlives_a_calibration_without_one(run):
    earlier = earlier_with_line(run)
    fitted = calibrate(run, aim=Aim(), shipped=0.3, source="toys", earlier=earlier).calibrated
    assert (fitted.source, fitted.alpha_line) == ("toys", (0.5, 0.25))
    assert fitted.alpha_fitted_on == FittedOn(
        source="old toys",
        labelled=True,
        encoder="minilm",
        question_digests=earlier.question_digests,
        created=earlier.created,
    )
    assert overlap(fitted, ["an old one?", "Question 0 of hotpotqa?", "Another?"]) == 2
    again = calibrate(run, aim=Aim(), shipped=0.3, source="new toys", earlier=fitted).calibrated
    assert again.alpha_fitted_on == fitted.alpha_fitted_on


def test_a_line_that_is_fitted_alone_leaves_the_rest(run):
    earlier = earlier_with_line(run)
    fitted, line = calibrate_alpha(run, source="toys", earlier=earlier)
    assert fitted.alpha_line == line.line != earlier.alpha_line
    kept = msgspec.structs.replace(fitted, alpha_line=earlier.alpha_line, alpha_fitted_on=earlier.alpha_fitted_on)
    assert kept == earlier
    assert fitted.alpha_fitted_on.source == "toys"
    alone, _ = calibrate_alpha(run, source="toys")
    assert (alone.alpha_line, alone.threshold, alone.verifier, alone.questions) == (line.line, None, None, 80)


def test_a_calibration_of_other_weights_gives_nothing_and_that_is_told(run):
    earlier = earlier_with_line(run, model_fingerprint="sha256:other", model="small-0.5b")
    report = calibrate(run, aim=Aim(), shipped=0.3, source="toys", earlier=earlier)
    assert report.calibrated.alpha_line is None
    assert report.notes == ("the earlier calibration, of other weights called small-0.5b, is replaced",)


def test_it_says_what_it_was_measured_with(run):
    rows = tuple(
        Setting(name=name, value=value, origin="default")
        for name, value in (("retriever", "sparse"), ("top_n", 7), ("top_k", 2), ("ais", "sum"), ("gate", False))
    )
    cell = msgspec.structs.replace(run.manifest.cells[0], settings={BOTH: rows})
    told = msgspec.structs.replace(run, manifest=msgspec.structs.replace(run.manifest, cells=(cell,)))
    fitted = calibrate(told, aim=Aim(), shipped=0.3, source="toys").calibrated
    assert fitted.measured_with == MeasuredWith(retriever="sparse", top_n=7, top_k=2, ais="sum")
    assert fitted.verifier.measured_with == fitted.measured_with


def test_the_same_run_gives_the_same_calibration(run):
    def fitted(seed: int) -> object:
        made = calibrate(run, aim=Aim(target="f1"), shipped=0.3, source="toys", seed=seed).calibrated
        return msgspec.structs.replace(made, created="")

    assert fitted(0) == fitted(0)


def test_a_budget_bounds_the_share_that_is_looked_up(run):
    report = calibrate(run, aim=Aim(budget=0.25), shipped=0.3, source="toys")
    threshold = report.calibrated.threshold
    assert threshold.target == "budget 0.25"
    uncertainties = [r.uncertainty for r in run.results if r.strategy == "never"]
    assert sum(u > threshold.threshold for u in uncertainties) <= 20


def test_written_questions_are_told_to_be_weaker_evidence(run):
    report = calibrate(run, aim=Aim(), shipped=0.3, source="x", labelled=False, encoder="another")
    assert report.calibrated.labelled is False
    assert report.calibrated.verifier.encoder == "another"
    assert "weaker evidence" in report.notes[0]


def test_too_few_questions_are_refused(tmp_path):
    few = read_run(write_run(tmp_path / "few", strategies=ASKED, sets=(("popqa", MIN_QUESTIONS - 1),)))
    with pytest.raises(ConfigError, match="39 questions cannot calibrate a model: at least 40 are needed"):
        calibrate(few, aim=Aim(), shipped=0.3, source="few")


def test_a_run_that_did_not_ask_all_three_is_refused(tmp_path):
    other = read_run(write_run(tmp_path / "other", strategies=("never", "always"), sets=(("popqa", 3),)))
    with pytest.raises(ConfigError, match="no question was asked never, always and dtr:gate=false") as caught:
        examples_of(other)
    assert caught.value.hint == "make a run with: adaptrag eval DATA --strategies never,always,dtr:gate=false"


def test_without_a_right_draft_it_says_so_and_looks_everything_up(run):
    def wronged(label: str) -> list:
        return [
            msgspec.structs.replace(r, em=0.0, f1=0.0, draft_em=0.0) if r.strategy == label else r for r in run.results
        ]

    hopeless = msgspec.structs.replace(run, results=tuple(wronged("never")))
    report = calibrate(hopeless, aim=Aim(), shipped=0.3, source="toys")
    assert report.calibrated.threshold.threshold < min(r.uncertainty for r in run.results if r.strategy == "never")
    assert [(band.right, band.drafts) for band in report.calibrated.odds] == [(0, 80)]
    assert report.notes == (
        "no draft was right, so this model should look everything up here: no uncertainty tells it apart",
    )


# --- questions that the model writes

CHUNK = Chunk(
    chunk_id="lamp.md#0",
    document="lamp.md",
    source="lamp.md",
    title="The lamp",
    text="Ottilie Brandt lit the harbour lamp of Skarvik in 1887, and her brother paid for its oil until he died.",
    start=0,
    end=102,
    line_start=1,
    line_end=1,
    page=None,
)


@pytest.mark.parametrize(
    ("written", "question", "answer"),
    [
        ("Question: Who lit the harbour lamp?\nAnswer: Ottilie Brandt", "Who lit the harbour lamp?", "Ottilie Brandt"),
        ("**Question:** Who lit the harbour lamp?\n**Answer:** ottilie brandt.", None, "ottilie brandt"),
        ("Question:\nWhen was the lamp lit first?\n\nAnswer:\n1887", "When was the lamp lit first?", "1887"),
        ("Question 1: When was the lamp lit?\nAnswer 1: 1887\nQuestion 2: Who?\nAnswer 2: he", None, "1887"),
    ],
)
def test_what_is_kept(written, question, answer):
    found = kept_question(written, CHUNK)
    assert found is not None
    assert (found.answer, found.document) == (answer, "lamp.md")
    assert question is None or found.question == question


@pytest.mark.parametrize(
    "written",
    [
        "",
        "Who lit the harbour lamp? Ottilie Brandt",  # no labels
        "Question: Who lit the harbour lamp?",
        "Question: Who lit the harbour lamp\nAnswer: Ottilie Brandt",  # no question mark
        "Question: Who?\nAnswer: Ottilie Brandt",
        "Question: Who lit the harbour lamp?\nAnswer: Thomas Edison",  # not in the chunk
        "Question: Who lit the harbour lamp?\nAnswer: the",  # nothing when normalised
        "Question: What did Ottilie Brandt do in 1887?\nAnswer: Ottilie Brandt",  # stands in the question
        "Question: Who lit the lamp in the text?\nAnswer: Ottilie Brandt",
        "Question: What was done in Skarvik?\nAnswer: Ottilie Brandt lit the harbour lamp of Skarvik",  # too long
    ],
)
def test_what_is_not(written):
    assert kept_question(written, CHUNK) is None


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("lamp")
    return lamp_retriever(folder)


def test_questions_are_written_from_chunks_and_can_be_asked(retriever, tmp_path, monkeypatch):
    monkeypatch.setattr("adaptrag_cli.evaluation.question_writing._MIN_CHUNK_WORDS", 3)
    model = ScriptedModel()
    model.when("Ottilie Brandt lit it", reply("Question: Who lit the harbour lamp?\nAnswer: Ottilie Brandt"))
    model.when("mooring fee", reply("Question: How much is the mooring fee?\nAnswer: 1,500 crowns"))
    model.when("goats", reply("Question: What is the text about?\nAnswer: goats"))
    model.when("harbour faces", reply("I cannot."))
    path = tmp_path / "made" / "written.questions.jsonl"
    log = QuestionLog(path)
    written = write_questions(retriever, model, limit=10, seed=0, on_written=log.append)
    log.close()
    assert {(w.question, w.answer, w.document) for w in written} == {
        ("Who lit the harbour lamp?", "Ottilie Brandt", "lamp.md"),
        ("How much is the mooring fee?", "1,500 crowns", "fees.md"),
    }
    assert len(model.calls) == 4
    assert written == write_questions(retriever, model, limit=10, seed=0)
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["written-1", "written-2"]
    read = load_questions(path).questions
    assert [(q.text, q.answers, q.gold_ids) for q in read] == [
        (w.question, (w.answer,), (w.document,)) for w in written
    ]


def test_writing_goes_on_where_it_was_stopped_and_reads_no_chunk_again(retriever, tmp_path, monkeypatch):
    monkeypatch.setattr("adaptrag_cli.evaluation.question_writing._MIN_CHUNK_WORDS", 3)

    def scripted() -> ScriptedModel:
        model = ScriptedModel()
        model.when("Ottilie Brandt lit it", reply("Question: Who lit the harbour lamp?\nAnswer: Ottilie Brandt"))
        model.when("mooring fee", reply("Question: How much is the mooring fee?\nAnswer: 1,500 crowns"))
        return model.when("Write one question", reply("I cannot."))

    whole, path = scripted(), tmp_path / "w.questions.jsonl"
    expected = write_questions(retriever, whole, limit=10, seed=0)

    def killed(one: Written) -> None:
        log.append(one)
        raise KeyboardInterrupt

    log, first = QuestionLog(path), scripted()
    with pytest.raises(KeyboardInterrupt):
        write_questions(retriever, first, limit=10, seed=0, on_written=killed)
    log.close()
    with path.open("ab") as file:
        file.write(b'{"id": "written-2", "ques')  # what a kill cut off
    log, second = QuestionLog(path), scripted()
    assert log.written == [expected[0]]
    assert write_questions(retriever, second, limit=10, seed=0, earlier=log.written, on_written=log.append) == expected
    log.close()
    assert len(first.calls) + len(second.calls) == len(whole.calls)
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["written-1", "written-2"]
    log = QuestionLog(path)
    log.close()
    assert tuple(log.written) == expected


def test_other_questions_are_not_gone_on_with(tmp_path):
    path = tmp_path / "w.questions.jsonl"
    path.write_text('{"question": "Who?", "answers": ["I"]}\n')
    with pytest.raises(ConfigError, match="w.questions.jsonl, line 1 is no question that was written here"):
        QuestionLog(path)


def test_the_same_question_is_kept_once_and_short_chunks_are_not_read(retriever, monkeypatch):
    assert write_questions(retriever, ScriptedModel(), limit=4, seed=0) == ()  # all have fewer than twenty words
    monkeypatch.setattr("adaptrag_cli.evaluation.question_writing._MIN_CHUNK_WORDS", 3)
    same = reply("Question: What is it all about?\nAnswer: the")
    model = ScriptedModel().when("Write one question", same)
    assert write_questions(retriever, model, limit=4, seed=0) == ()


def test_writing_can_be_stopped(retriever):
    with pytest.raises(RunCancelled):
        write_questions(retriever, ScriptedModel(), limit=4, seed=0, should_stop=lambda: True)


def test_saved_questions_keep_what_they_hold(tmp_path: Path):
    path = tmp_path / "made" / "w.questions.jsonl"
    log = QuestionLog(path)
    log.append(Written(question="Où est-ce?", answer='"là"', document="a b.md", chunk="a b.md#0"))
    log.close()
    assert load_questions(path).questions[0].text == "Où est-ce?"
