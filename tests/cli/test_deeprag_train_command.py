"""`adaptrag deeprag train`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from adaptrag_cli.cli import deeprag_train
from adaptrag_cli.cli.app import app
from adaptrag_cli.learning import lora, training
from adaptrag_cli.learning.rollouts import Limits
from adaptrag_cli.learning.stages import RECIPES
from adaptrag_cli.models.adapters import find_adapter
from adaptrag_cli.models.stamps import partial_fingerprint
from training_runs import a_base, a_run, a_tiny_world, explored_with


@pytest.fixture(autouse=True)
def tiny_world(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with a_tiny_world(monkeypatch):
        yield


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A model file, and a run that was explored with it."""
    path = a_base(tmp_path).path
    a_run(tmp_path / "run", fingerprint=partial_fingerprint(path))
    return path


def train(base: Path, *words: str) -> Result:
    command = ["deeprag", "train", "run", "--model", str(base), "--models-dir", str(base.parent), *words]
    return CliRunner().invoke(app, command)


def test_it_says_what_came_of_it_and_what_to_do_next(base: Path):
    done = train(base, "--stage", "imitation", "--epochs", "1", "--rank", "2")
    assert done.exit_code == 0, done.stderr
    for told in ("run-imitation: stage imitation on run", "trajectories learned from", "log-odds of the right path"):
        assert told in done.stdout
    assert "was taken" not in done.stdout, "of one epoch none is chosen"
    assert "5 trajectories to learn from, 3 held out; 6 held-out decisions" in done.stderr
    assert "held-out loss" in done.stderr
    assert f"wrote {base.parent / 'adapters' / 'run-imitation.gguf'}" in done.stderr
    assert f"adaptrag ask --strategy deeprag --model {base} --adapter run-imitation" in done.stderr
    assert "or go on with: adaptrag deeprag train run --stage calibration" in done.stderr

    done = train(base, "--stage", "imitation", "--epochs", "1", "--rank", "2", "--resume")
    assert "stage imitation is done already" in done.stderr
    assert "run-imitation: stage imitation on run" in done.stdout

    again = train(base, "--stage", "calibration", "--epochs", "1", "--name", "careful", "--json")
    assert again.exit_code == 0, again.stderr
    document = json.loads(again.stdout)
    assert (document["adapter"], document["adapter_from"], document["shape"]["rank"]) == ("careful", "run-imitation", 2)
    assert document["file"] == str(base.parent / "adapters" / "careful.gguf")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--stage", "second"), "--stage 'second' is not known (imitation or calibration or grpo)"),
        (("--stage", "calibration"), "stage calibration goes on from stage imitation, which was not trained on run"),
        (("--stage", "grpo", "--objective", "answer-only"), "--objective answer-only is of --stage imitation"),
        (("--stage", "imitation", "--pairs", "all-nodes"), "--pairs all-nodes is of --stage calibration"),
        (("--stage", "imitation", "--learning-rate", "2"), "--learning-rate 2 makes no sense"),
        (("--stage", "imitation", "--name", "a/b"), "'a/b' cannot be the name of an adapter"),
        (("--stage", "imitation", "--adapter-from", "nothing"), "unknown adapter 'nothing'"),
    ],
)
def test_what_makes_no_sense_is_one_line(base: Path, words: tuple[str, ...], reason: str):
    done = train(base, *words)
    assert done.exit_code == 2
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_what_it_says_to_do_next_can_be_typed(tmp_path: Path):
    """The model is found by the name that the run tells, which looks like one of a model with an adapter."""
    base = a_base(tmp_path).path.rename("a + b.gguf")
    a_run(tmp_path / "a run", fingerprint=partial_fingerprint(base), model="a + b.gguf")
    done = CliRunner().invoke(
        app, ["deeprag", "train", "a run", "--models-dir", ".", "--stage", "imitation", "--epochs", "1"]
    )
    assert done.exit_code == 0, done.stderr
    asked, further, again = done.stderr.splitlines()[-3:]
    assert asked.endswith("/a + b.gguf' --adapter 'a run-imitation' \"...\"")
    assert further == "or go on with: adaptrag deeprag train 'a run' --stage calibration"
    assert again == "or first explore again with --adapter 'a run-imitation', and calibrate on that run"


def test_the_last_line_alone_has_a_name_and_a_report_of_its_own(base: Path):
    done = train(base, "--stage", "imitation", "--objective", "answer-only", "--epochs", "1", "--rank", "2")
    assert done.exit_code == 0, done.stderr
    assert "run-answer-only: stage imitation-answer-only on run" in done.stdout
    assert "go on with" not in done.stderr
    assert "What was held out of stage imitation-answer-only" in show().stdout
    assert "which was not trained on run" in train(base, "--stage", "calibration").stderr


def test_calibration_on_trees_that_the_adapter_has_explored(base: Path):
    assert train(base, "--stage", "imitation", "--epochs", "1", "--rank", "2").exit_code == 0
    adapter = find_adapter(base.parent, "run-imitation")
    told = explored_with(adapter, partial_fingerprint(base)) | {"model": "base.gguf + run-imitation"}
    a_run(base.parent / "again", **told)
    words = ["deeprag", "train", "again", "--models-dir", str(base.parent), "--stage", "calibration", "--epochs", "1"]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["adapter"], document["adapter_from"]) == ("again-calibration", "run-imitation")


def test_rewards_that_do_not_rise_are_told_as_such(base: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(training, "GroupLoss", partial(training.GroupLoss, group=2, limits=Limits(max_tokens=4)))
    done = train(base, "--stage", "grpo", "--adapter-from", "", "--epochs", "1", "--rank", "2")
    assert "warning: the mean reward on what was held out is no higher than before" in done.stderr


def test_the_help_tells_the_recipes():
    told = {name: (f"{name} {each.learning_rate:g}", f"{name} {each.epochs}") for name, each in RECIPES.items()}
    assert ", ".join(rate for rate, _ in told.values()) == deeprag_train.LEARNING_RATES
    assert ", ".join(epochs for _, epochs in told.values()) == deeprag_train.EPOCHS


def test_a_file_that_may_not_be_read_is_one_line(base: Path):
    trees = base.parent / "run" / "trees.jsonl"
    trees.unlink()
    trees.mkdir()
    shown = (CliRunner().invoke(app, ["deeprag", command, "run"]) for command in ("tree", "show"))
    for done in (*shown, train(base, "--stage", "imitation")):
        assert done.exit_code == 1, done.output
        told = done.stderr.splitlines()[-1]
        assert told == "adaptrag: run/trees.jsonl: Is a directory (see that it is there, and may be read and written)"


def test_without_the_extra_it_says_how_to_install_it(base: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lora, "find_spec", lambda name: None if name == "peft" else name)
    done = train(base, "--stage", "imitation")
    assert (done.exit_code, done.stderr) == (
        2,
        "adaptrag: training needs packages that are not installed: peft (pip install 'adaptrag-cli[train]')\n",
    )


def show(*words: str) -> Result:
    return CliRunner().invoke(app, ["deeprag", "show", "run", *words])


def test_show_tells_what_was_explored_before_anything_is_trained(base: Path):
    done = show()
    assert (done.exit_code, done.stderr) == (0, "")
    assert "8 of 8 solved (100.0 %)" in done.stdout
    assert "How sure the right decisions are, after each stage" in done.stdout.partition("Not here")[2]
    assert "Stage" not in done.stdout


def test_show_tells_of_every_stage_with_its_curve(base: Path):
    for stage in ("imitation", "calibration"):
        assert train(base, "--stage", stage, "--epochs", "2", "--rank", "2").exit_code == 0
    document = json.loads(show("--json").stdout)
    assert list(document["stages"]) == list(document["losses"]) == ["imitation", "calibration"]
    for stage, curve in document["losses"].items():
        held_out = [point["held_out"] for point in curve if point["held_out"] is not None]
        report = document["stages"][stage]
        assert (held_out[0], min(held_out[1:])) == (report["loss_before"], report["loss_after"])
        assert [point["step"] for point in curve if point["loss"] is not None] == [*range(1, report["steps"] + 1)]

    told = show().stdout
    _, _, odds = told.partition("How sure the right decisions are")
    rows = {row[0]: row[1] for line in odds.splitlines() if len(row := line.split()) > 1}
    for stage, before in (("imitation", "untrained"), ("calibration", "imitation")):
        report = document["stages"][stage]
        assert rows[before] == f"{report['odds_before']['mean']:+.3f}"
        assert rows[stage] == f"{report['odds_after']['mean']:+.3f}"

    taken = f"The epoch with the lowest loss here was taken, of {report['epochs']}: other questions may well do worse."
    assert taken in " ".join(told.split())

    done = show("--html", "run.html")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "wrote run.html\n")
    page = Path("run.html").read_text(encoding="utf-8")
    for name in ("right-paths", "losses-imitation", "losses-calibration", "decision-odds"):
        assert f'"data-plot-{name}"' in page


def test_show_reads_a_curve_that_a_kill_has_cut(base: Path):
    assert train(base, "--stage", "imitation", "--epochs", "1", "--rank", "2").exit_code == 0
    losses = base.parent / "run" / "training" / "imitation" / "losses.jsonl"
    whole = json.loads(show("--json").stdout)["losses"]["imitation"]
    losses.write_bytes(losses.read_bytes()[:-5])
    assert json.loads(show("--json").stdout)["losses"]["imitation"] == whole[:-1]
    losses.write_bytes(b"[]\n" + losses.read_bytes())
    done = show()
    assert done.exit_code == 2
    assert done.stderr.startswith("adaptrag: run/training/imitation/losses.jsonl, line 1 is no point of a loss curve: ")


def test_show_names_a_file_it_cannot_write_and_a_folder_that_is_no_run(base: Path):
    assert "cannot write no/run.html" in show("--html", "no/run.html").stderr
    Path("mine.html").write_text("mine", encoding="utf-8")
    assert "mine.html exists and is not a page of AdaptRAG" in show("--html", "mine.html").stderr
    done = CliRunner().invoke(app, ["deeprag", "show", "elsewhere"])
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1
