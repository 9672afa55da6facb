"""`adaptrag deeprag train`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from adaptrag_cli.cli.app import app
from adaptrag_cli.learning import lora
from adaptrag_cli.models.stamps import partial_fingerprint
from training_runs import a_base, a_run, a_tiny_world


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
    assert "7 trajectories to learn from, 1 held out; 2 held-out decisions" in done.stderr
    assert "held-out loss" in done.stderr
    assert f"wrote {base.parent / 'adapters' / 'run-imitation.gguf'}" in done.stderr
    assert f"adaptrag ask --strategy deeprag --examples 0 --model {base} --adapter run-imitation" in done.stderr
    assert "adaptrag deeprag train RUN --stage calibration" in done.stderr

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


def test_without_the_extra_it_says_how_to_install_it(base: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lora, "find_spec", lambda name: None if name == "peft" else name)
    done = train(base, "--stage", "imitation")
    assert (done.exit_code, done.stderr) == (
        2,
        "adaptrag: training needs packages that are not installed: peft (pip install 'adaptrag-cli[train]')\n",
    )
