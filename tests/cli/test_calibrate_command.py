"""`adaptrag calibrate`: what is asked of the evaluation, what is printed, stored and used afterwards."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from adaptrag_cli.calibration import Calibrated, read_calibration
from adaptrag_cli.cli.app import app
from adaptrag_cli.config import load_settings
from adaptrag_cli.evaluation.plan import Plan
from adaptrag_cli.evaluation.results import RunData, read_run
from adaptrag_cli.evaluation.verifier import BOTH
from adaptrag_cli.models.catalogue import find_entry
from adaptrag_cli.models.files import locate_model
from adaptrag_cli.session.plan import plan_session
from report_runs import write_run
from self_written import SelfWritten

MODEL = "qwen2.5-coder-0.5b-instruct"


@dataclass
class Evaluator:
    """Stands in for the evaluation: gives a run that was made from rules."""

    run: RunData
    plans: list[tuple[Plan, bool]] = field(default_factory=list)

    def __call__(self, plan: Plan, watcher: object, *, resume: bool) -> RunData:
        self.plans.append((plan, resume))
        return self.run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return read_run(write_run(tmp_path_factory.mktemp("run"), strategies=("never", "always", BOTH)))


def with_fingerprint(run: RunData, fingerprint: str) -> RunData:
    cell = msgspec.structs.replace(run.manifest.cells[0], model_fingerprint=fingerprint)
    return msgspec.structs.replace(run, manifest=msgspec.structs.replace(run.manifest, cells=(cell,)))


@pytest.fixture(autouse=True)
def evaluator(made: RunData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Evaluator:
    (tmp_path / "models").mkdir()
    with (tmp_path / "models" / find_entry(MODEL).file).open("wb") as file:
        file.truncate(find_entry(MODEL).size_bytes or 0)  # a hole of the right size
    lines = (json.dumps({"question": f"What is {n}?", "answers": [str(n)]}) + "\n" for n in range(50))
    (tmp_path / "q.jsonl").write_text("".join(lines))
    monkeypatch.setenv("ADAPTRAG_MODELS_DIR", str(tmp_path / "models"))
    stand_in = Evaluator(with_fingerprint(made, locate_model(MODEL, tmp_path / "models").fingerprint))
    monkeypatch.setattr("adaptrag_cli.evaluation.run.evaluate", stand_in)
    return stand_in


def calibrate(*words: str) -> Result:
    return CliRunner().invoke(app, ["calibrate", *words, "--model", MODEL])


def stored(tmp_path: Path) -> Calibrated | None:
    return read_calibration(tmp_path / "models" / "calibrations" / f"{MODEL}.json")


def test_one_pass_over_the_questions_is_asked_for(evaluator: Evaluator) -> None:
    done = calibrate("q.jsonl", "--limit", "45", "--seed", "7", "--resume", "--out", "made")
    assert done.exit_code == 0, done.output
    ((plan, resume),) = evaluator.plans
    assert [spec.label for spec in plan.strategies] == ["never", "always", "dtr:gate=false"]
    assert (len(plan.sets[0].questions), plan.limit, plan.seed, resume) == (45, 45, 7, True)
    assert (plan.out, plan.cache) == (Path("made"), Path("made/cache.sqlite"))


def test_it_says_what_it_found_and_where_it_is_kept(tmp_path: Path) -> None:
    done = calibrate("q.jsonl", "--alpha")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "small-0.5b, calibrated on q (50 questions)"
    fitted = stored(tmp_path)
    assert fitted is not None and fitted.threshold is not None and fitted.alpha_line is not None
    chosen = fitted.threshold
    assert f"threshold {chosen.threshold:.3f} (95 % interval {chosen.low:.3f} to {chosen.high:.3f})" in lines
    assert "how often drafts were right" in lines
    assert "EM of these questions, with 95 % intervals" in lines
    slope, intercept = fitted.alpha_line
    assert f"PAIRS' query weight: alpha = {slope:.3f} theta0 + {intercept:.3f} (the paper's: 0.058, 0.455)" in lines
    text = " ".join(done.stdout.split())
    assert f"Stored in {tmp_path / 'models' / 'calibrations'}".replace(" ", "") in text.replace(" ", "")
    assert "Forget it with: adaptrag calibrate --forget" in text
    assert all(len(line) <= 80 for line in lines)


def test_the_same_as_json(tmp_path: Path) -> None:
    done = calibrate("q.jsonl", "--json", "--target", "f1")
    document = json.loads(done.stdout)
    assert (document["target"], document["shipped_threshold"]) == ("f1", 0.3)
    assert document["calibrated"]["threshold"]["target"] == "f1"
    assert msgspec.convert(document["calibrated"], Calibrated) == stored(tmp_path)
    assert document["curve"][0]["trigger_ratio"] == 1.0
    assert set(document["scores"]) >= {"never", "always", "dtr+verify (held out)"}
    assert document["alpha"] is None


def test_parts_that_are_not_fitted_stay(tmp_path: Path) -> None:
    calibrate("q.jsonl", "--alpha")
    first = stored(tmp_path)
    calibrate("q.jsonl", "--budget", "0.5")
    second = stored(tmp_path)
    assert second.threshold.target == "budget 0.5"
    assert second.alpha_line == first.alpha_line
    done = calibrate("q.jsonl", "--alpha-only", "--limit", "10")
    assert done.exit_code == 0, done.output
    third = stored(tmp_path)
    assert (third.threshold, third.verifier, third.odds) == (second.threshold, second.verifier, second.odds)
    assert third.alpha_fitted_on.source == "q (10 questions)"
    text = " ".join(done.stdout.split())
    assert f"ask and tui use threshold {third.threshold.threshold:.3f} (q (50 questions))" in text
    slope, intercept = third.alpha_line
    assert f"--ais dynamic uses alpha = {slope:.3f} theta0 + {intercept:.3f} (q (10 questions))." in text
    document = json.loads(calibrate("q.jsonl", "--alpha-only", "--json").stdout)
    assert (document["calibrated"]["alpha_line"], document["alpha"]["kept"]) == ([slope, intercept], 3)


def test_ask_uses_it_until_it_is_forgotten(tmp_path: Path) -> None:
    def plan():
        return plan_session(load_settings(flags={"models.answer": MODEL}))

    before = next(row for row in plan().rows if row.name == "threshold")
    assert (before.value, before.origin) == (0.3, "measured for this model")
    assert plan().verifier is None
    calibrate("q.jsonl", "--budget", "0.5")
    fitted = stored(tmp_path)
    row = next(row for row in plan().rows if row.name == "threshold")
    assert (row.value, row.origin) == (fitted.threshold.threshold, "calibrated on q (50 questions)")
    assert plan().draft_odds == fitted.odds
    assert plan().verifier == fitted.verifier
    done = calibrate("--forget")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith("forgot ")
    assert next(row for row in plan().rows if row.name == "threshold") == before
    assert calibrate("--forget").stderr == f"nothing was calibrated for {MODEL}\n"


def test_another_file_of_the_same_name_does_not_take_it_over(evaluator: Evaluator, made: RunData) -> None:
    evaluator.run = with_fingerprint(made, "sha256:another")
    calibrate("q.jsonl")
    assert plan_session(load_settings(flags={"models.answer": MODEL})).calibrated is None


def test_too_few_questions_are_refused_before_anything_is_asked(evaluator: Evaluator) -> None:
    done = calibrate("q.jsonl", "--limit", "39")
    assert done.exit_code == 2
    assert done.stderr == (
        "adaptrag: 39 questions cannot calibrate a model: at least 40 are needed (give more DATA or a larger --limit; "
        "a hundred or more give a narrow interval)\n"
    )
    assert evaluator.plans == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--budget", "0.5", "--target", "em"), "--budget and --target exclude each other"),
        (("--target", "acc"), "--target 'acc' is no target"),
        (("--alpha-only", "--target", "em"), "--alpha-only chooses no threshold"),
    ],
)
def test_flags_that_make_no_sense(words: tuple[str, ...], message: str) -> None:
    done = calibrate("q.jsonl", *words)
    assert (done.exit_code, message in done.stderr) == (2, True)


def test_without_data_the_model_writes_questions_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evaluator: Evaluator
) -> None:
    lamp = SelfWritten(tmp_path / "lamp", monkeypatch, count=60)
    done = calibrate("--limit", "50")
    assert done.exit_code == 0, done.output
    assert "weaker evidence" in done.stderr
    assert "weaker evidence" in " ".join(done.stdout.split())
    assert lamp.model.is_closed
    plan, _ = evaluator.plans[0]
    assert plan.settings.index.name == "plane"
    assert len(plan.sets[0].questions) == 50
    fitted = stored(tmp_path)
    assert (fitted.labelled, fitted.source, fitted.encoder) == (False, "50 questions written from index plane", "plane")
    assert fitted.verifier.encoder == "plane"
    refused = calibrate("--limit", "50")
    assert (refused.exit_code, lamp.calls) == (2, 1)
    assert "adaptrag-calibration holds questions that were written already (go on with --resume" in refused.stderr
    calibrate("--limit", "50", "--resume")
    assert lamp.calls == 1
    calibrate("--limit", "55", "--resume")
    assert lamp.calls == 2
    assert len((tmp_path / "adaptrag-calibration" / "written.questions.jsonl").read_text().splitlines()) == 55
    row = next(r for r in plan_session(load_settings(flags={"models.answer": MODEL})).rows if r.name == "threshold")
    assert row.origin == "calibrated on 55 questions written from index plane, which the model wrote itself"


def test_the_folder_is_looked_at_before_questions_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lamp = SelfWritten(tmp_path / "lamp", monkeypatch, count=60)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "manifest.json").write_text("{}")
    done = calibrate("--out", "old")
    assert (done.exit_code, lamp.calls) == (2, 0)
    assert "old holds an evaluation already" in done.stderr
    (tmp_path / "file").write_text("")
    done = calibrate("--out", "file")
    assert (done.exit_code, lamp.calls) == (2, 0)
    assert "file cannot be a run's folder" in done.stderr


def test_a_corpus_that_gives_too_few_questions_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SelfWritten(tmp_path / "lamp", monkeypatch, count=4)
    done = calibrate()
    assert done.exit_code == 2
    assert "4 questions cannot calibrate a model" in done.stderr


def test_without_data_and_index_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADAPTRAG_INDEX_DIR", str(tmp_path / "none"))
    assert calibrate().exit_code == 3
