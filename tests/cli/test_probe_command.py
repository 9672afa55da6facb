"""`adaptrag probe`: texts and states are made once, a prober is trained, shown, listed and removed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from adaptrag_cli.cli.app import app
from adaptrag_cli.errors import LogitsUndefined, QueryTooLong
from adaptrag_cli.evaluation.probing.rows import ROWS, read_rows
from adaptrag_cli.evaluation.probing.train import train_prober
from adaptrag_cli.models.files import locate_model
from adaptrag_cli.models.stamps import Stamp
from adaptrag_cli.probing.files import prober_path, read_prober, write_prober
from adaptrag_cli.probing.prober import Prober
from fakes import ScriptedModel
from probe_model import MODEL, ProbeWorld, probe_world
from probe_rows import QUICK, half_right, write_rows
from probers import prober
from self_written import SelfWritten

QUICKLY = ("--epochs", "3", "--learning-rate", "0.001")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProbeWorld:
    return probe_world(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models with one prober, `toy`."""
    folder = tmp_path_factory.mktemp("trained")
    made = train_prober(write_rows(folder / "rows", 80, shift=3.0), recipe=QUICK, seed=0)
    write_prober(prober_path(folder, "toy"), made)
    return folder


def probe(*words: str) -> Result:
    return CliRunner().invoke(app, ["probe", *words])


def train(world: ProbeWorld, *words: str) -> Result:
    return probe("train", "--model", MODEL, "--data", str(world.questions), "--layers", "0,1", *QUICKLY, *words)


def test_texts_are_made_labelled_and_trained_on(world: ProbeWorld, tmp_path: Path) -> None:
    done = train(world, "--name", "fees", "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["prober"]["layers"] == [0, 1]
    assert document["held_out"]["together"]["accuracy"]["mean"] > 0.8
    data = read_rows(tmp_path / "adaptrag-prober")
    assert data.is_whole
    assert [(row.question_id, row.retrieved) for row in data.rows[:4]] == [
        (data.rows[0].question_id, False),
        (data.rows[0].question_id, True),
        (data.rows[2].question_id, False),
        (data.rows[2].question_id, True),
    ]
    shown = [call.prompt.text for model in world.models for call in model.calls]
    assert sum("1,500 crowns" in text for text in shown) == 30  # with what was looked up, and only there
    assert all(call.states == (0, 1) for model in world.models for call in model.calls)
    rights = sum(half_right(number, way) for number in range(30) for way in (False, True))
    assert sum(row.right for row in data.rows) == rights
    assert {row.answer for row in data.rows} == {"gold", "lead"}
    assert all(row.uncertainty == pytest.approx(0.1) for row in data.rows)
    file = tmp_path / "models" / "probers" / "fees.safetensors"
    made = read_prober(file)
    assert (made.model, made.model_fingerprint) == (MODEL, locate_model(MODEL, tmp_path / "models").fingerprint)
    assert (made.kind, made.width, made.layer_count, made.seed) == ("answer", 4, 2, 0)
    assert f"wrote {file}" in done.stderr
    assert all(model.is_closed for model in world.models)


def test_a_stopped_run_goes_on_and_gives_the_same(world: ProbeWorld, tmp_path: Path) -> None:
    assert train(world, "--name", "whole", "--out", "whole").exit_code == 0
    loads = len(world.models)
    refused = train(world, "--out", "whole")
    assert refused.exit_code == 2
    assert "whole holds rows for a prober already (go on with --resume, or give another --out)" in refused.stderr
    # as after a kill in the 40th row
    shutil.copytree(tmp_path / "whole", tmp_path / "cut", ignore=shutil.ignore_patterns("networks", "*.lock"))
    lines = (tmp_path / "cut" / ROWS).read_bytes().split(b"\n")
    (tmp_path / "cut" / ROWS).write_bytes(b"\n".join(lines[:39]) + b"\n" + lines[39][:30])
    again = train(world, "--name", "cut", "--out", "cut", "--resume")
    assert again.exit_code == 0, again.output
    assert sum(len(model.calls) for model in world.models[loads:]) == 60 - 39
    both = [read_prober(tmp_path / "models" / "probers" / f"{name}.safetensors") for name in ("whole", "cut")]
    assert both[0].report["texts"] == both[1].report["texts"]
    for layer, weights in both[0].layers.items():
        assert all(weights[name].tobytes() == both[1].layers[layer][name].tobytes() for name in weights)
    # all rows are there, so no model is loaded for another recipe; other questions are refused
    loads = len(world.models)
    other = train(world, "--out", "cut", "--resume", "--name", "cut", "--batch-size", "8")
    assert other.exit_code == 0, other.output
    assert len(world.models) == loads
    assert "the earlier prober 'cut' is replaced" in other.stderr
    for words, what in ((("--limit", "25"), "limit"), (("--layers", "1"), "--layers"), (("--top-k", "1"), "top_k")):
        refused = train(world, "--out", "cut", "--resume", *words)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert f"cut was begun with other {what} (restore it, or give another --out)" in refused.stderr


def test_ctrl_c_keeps_what_is_written(world: ProbeWorld, tmp_path: Path) -> None:
    assert train(world, "--name", "whole", "--out", "whole").exit_code == 0
    world.models.clear()
    world.cancel_at = 20
    stopped = train(world, "--name", "cut", "--out", "cut")
    assert stopped.exit_code == 130, stopped.output
    assert "go on with the same command and --resume" in stopped.stderr
    assert all(model.is_closed for model in world.models)
    kept = len((tmp_path / "cut" / ROWS).read_bytes().splitlines())
    assert 0 < kept < 60
    world.models.clear()
    world.cancel_at = None
    assert train(world, "--name", "cut", "--out", "cut", "--resume").exit_code == 0
    assert sum(len(model.calls) for model in world.models) == 60 - kept
    both = [read_prober(tmp_path / "models" / "probers" / f"{name}.safetensors") for name in ("whole", "cut")]
    assert both[0].report["texts"] == both[1].report["texts"]


def test_what_cannot_be_written_is_told_and_left_out(world: ProbeWorld) -> None:
    world.fails = {3: QueryTooLong("question 3 is too long", ""), 7: LogitsUndefined("no numbers", "")}
    done = train(world, "--name", "fees", "--json")
    assert done.exit_code == 0, done.output
    training = json.loads(done.stdout)["training"]
    assert (training["failed"], training["without_states"]) == (4, 0)
    assert training["failure"] in {"question 3 is too long", "no numbers"}
    (share,) = training["sets"]
    assert (share["questions"], share["written"], share["written_with_passages"]) == (30, 28, 28)
    assert f"4 texts could not be written; the first: {training['failure']}." in probe("show", "fees").stdout


def test_each_set_has_its_own_index(world: ProbeWorld, tmp_path: Path) -> None:
    other = tmp_path / "tolls: late.jsonl"
    lines = world.questions.read_text(encoding="utf-8").replace("number ", "number 1")
    other.write_text(lines, encoding="utf-8")
    data = ("--data", f"{world.questions}:harbour", "--data", f"{other}:offices")
    done = probe("train", "--model", MODEL, *data, "--layers", "0,1", *QUICKLY)
    assert done.exit_code == 0, done.output
    assert world.asked == [("fees", "harbour"), ("tolls: late", "offices")]
    world.asked.clear()
    data = ("--data", str(other), "--data", f"{world.questions}:harbour", "--index", "all")
    assert probe("train", "--model", MODEL, *data, "--layers", "0", *QUICKLY, "--out", "o").exit_code == 0
    assert world.asked == [("tolls: late", "all"), ("fees", "harbour")]
    world.needs_index = True
    refused = train(world, "--out", "none")
    assert (refused.exit_code, refused.stdout) == (2, "")
    told = f"{world.questions} brings no corpus to look up in (name an index: --data {world.questions}:INDEX)"
    assert told in refused.stderr


def test_without_data_the_model_writes_questions_once(
    world: ProbeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = SelfWritten(tmp_path / "lamp", monkeypatch, count=40, answer=lambda _: "gold")
    words = ("train", "--model", MODEL, "--layers", "0,1", *QUICKLY, "--name", "own")
    done = probe(*words, "--limit", "30", "--json")
    assert done.exit_code == 0, done.output
    training = json.loads(done.stdout)["training"]
    assert (training["labelled"], training["source"]) == (False, "30 questions written from index plane")
    assert world.asked == [("written", "plane")]
    assert "Note: the model wrote questions and answers itself" in probe("show", "own").stdout
    refused = probe(*words, "--limit", "30")
    assert (refused.exit_code, written.calls) == (2, 1)
    assert probe(*words, "--limit", "30", "--resume").exit_code == 0
    assert (written.calls, len(world.asked)) == (1, 1), "nothing is written or opened again"


def test_a_model_that_was_verified_since_goes_on(world: ProbeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    assert train(world, "--name", "fees").exit_code == 0
    monkeypatch.setattr("adaptrag_cli.models.files.unchanged_hash", lambda *_: "1" * 64)
    monkeypatch.setattr("adaptrag_cli.models.files.read_stamp", lambda *_: Stamp(published=True, files={}, origin="x"))
    again = train(world, "--name", "fees", "--resume")
    assert again.exit_code == 0, again.output


def test_a_run_grows_by_more_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = probe_world(tmp_path, monkeypatch, questions=60)
    assert train(world, "--limit", "30", "--out", "grown", "--name", "grown").exit_code == 0
    loads = len(world.models)
    assert train(world, "--limit", "60", "--out", "grown", "--name", "grown", "--resume").exit_code == 0
    assert sum(len(model.calls) for model in world.models[loads:]) == 60  # two texts of each of the other thirty
    assert train(world, "--limit", "60", "--out", "whole", "--name", "whole").exit_code == 0
    both = [read_prober(tmp_path / "models" / "probers" / f"{name}.safetensors") for name in ("grown", "whole")]
    assert both[0].report["texts"] == both[1].report["texts"]


def test_a_prober_of_questions_needs_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = probe_world(tmp_path, monkeypatch, questions=60)
    monkeypatch.setattr("adaptrag_cli.evaluation.probing.generation.open_corpus", None)
    done = train(world, "--kind", "question")
    assert done.exit_code == 0, done.output
    made = read_prober(tmp_path / "models" / "probers" / f"{MODEL}-question.safetensors")
    assert made.kind == "question"
    assert len(read_rows(tmp_path / "adaptrag-prober").rows) == 60
    assert "has passages" not in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--limit", "19"), "19 questions cannot train a prober: at least 20 are needed"),
        (("--layers", "2,3"), "--layers: the model has no layer 2 (its layers are 0 to 1)"),
        (("--layers", "x"), "--layers 'x' are no numbers"),
        (("--kind", "both"), "--kind 'both' is no kind of prober (answer or question)"),
        (("--recipe", "papr"), "unknown recipe 'papr'; did you mean 'paper'?"),
        (("--recipe", "paper", "--epochs", "1"), "--epochs 1: recipe paper keeps no weights of its first 1"),
        (("--learning-rate", "7"), "--learning-rate 7 makes no sense"),
        (("--name", "a/b"), "'a/b' cannot be the name of a prober"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(world: ProbeWorld, words: tuple[str, ...], message: str) -> None:
    done = train(world, *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr.splitlines()[-1]


def test_a_model_without_states_is_refused(world: ProbeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    blind = ScriptedModel()
    monkeypatch.setattr("adaptrag_cli.evaluation.probing.generation.load_models", lambda *_: (blind,))
    done = train(world)
    assert done.exit_code == 4
    assert done.stderr.splitlines()[-1] == "adaptrag: scripted gives no states to train on (choose another --model)"
    assert blind.is_closed


def test_it_is_shown_with_tables_and_figures(trained: Path) -> None:
    done = probe("show", "toy", "--models-dir", str(trained))
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "Prober toy of tiny, trained on made"
    assert max(map(len, lines)) <= 80
    for heading in (
        "How well it tells right texts from wrong ones",
        "What the answers come to",
        "Accuracy by layer (Probing-RAG Fig. 4, left)",
        "More texts (Probing-RAG Tab. 3)",
        "At every theta (Probing-RAG Tab. 8)",
        "More layers (Probing-RAG Tab. 9)",
    ):
        assert heading in lines
    assert any(line.split()[:2] == ["uncertainty", "u"] for line in lines)


def test_the_page_holds_every_figure_and_fetches_nothing(trained: Path, tmp_path: Path) -> None:
    done = probe("show", "toy", "--models-dir", str(trained), "--html", "p.html")
    assert done.exception is None
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "wrote p.html\n")
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    drawn = set(re.findall(r'id="plot-([\w-]+)"', page))  # not `in page`: a failure would compare megabytes
    assert drawn == {
        "accuracy-by-layer",
        "logit-density",
        "logits-of-two-layers",
        "prober-calibration",
        "learning-curve",
        "theta-sweep",
        "number-of-layers",
        "prober-and-answers",
    }
    assert page.count("default-src 'none'") == 1
    refused = probe("show", "toy", "--models-dir", str(trained), "--html", "no/p.html")
    assert refused.exit_code == 2
    assert "cannot write no/p.html" in refused.stderr.replace("\\", "/")
    (tmp_path / "p.html").write_text("mine", encoding="utf-8")
    refused = probe("show", "toy", "--models-dir", str(trained), "--html", "p.html")
    assert (refused.exit_code, "p.html exists and is not a page" in refused.stderr) == (2, True)


def test_probers_are_listed_and_removed(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "probers", tmp_path / "m" / "probers")
    (tmp_path / "m" / "probers" / "broken.safetensors").write_bytes(b"?")
    listed = probe("list", "--models-dir", "m")
    assert listed.exit_code == 0
    assert any(line.split()[:3] == ["toy", "answer", "tiny"] for line in listed.stdout.splitlines())
    assert "broken.safetensors is no prober" in listed.stderr
    document = json.loads(probe("list", "--models-dir", "m", "--json").stdout)
    assert [found["name"] for found in document["probers"]] == ["toy"]
    removed = probe("remove", "toy", "--models-dir", "m")
    assert (removed.exit_code, removed.stdout) == (0, "")
    assert not (tmp_path / "m" / "probers" / "toy.safetensors").exists()
    gone = probe("show", "toi", "--models-dir", str(trained))
    assert gone.exit_code == 2
    assert "unknown prober 'toi'; did you mean 'toy'? (known: toy)" in gone.stderr


def test_a_prober_that_was_made_elsewhere_says_nothing_of_its_training(tmp_path: Path) -> None:
    made: Prober = prober()
    write_prober(prober_path(tmp_path, "foreign"), made)
    done = probe("show", "foreign", "--models-dir", str(tmp_path))
    assert (done.exit_code, done.stdout) == (4, "")
    assert "prober 'foreign' does not say how it was trained" in done.stderr
    listed = probe("list", "--models-dir", str(tmp_path))
    assert any(line.split()[0] == "foreign" for line in listed.stdout.splitlines() if line.strip())
