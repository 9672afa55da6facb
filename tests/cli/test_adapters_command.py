"""`adaptrag models adapters`, and what the doctor says of adapters."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from adapters import write_header
from adaptrag_cli.cli.app import app
from adaptrag_cli.cli.doctor import doctor
from adaptrag_cli.config import load_settings
from adaptrag_cli.models.adapters import adapter_path, read_adapter
from adaptrag_cli.models.catalogue import find_entry
from adaptrag_cli.models.files import locate_model

MODEL = "qwen2.5-coder-0.5b-instruct"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with the header of the 0.5B, in a file of its size, and three adapters: its own, another's, a tool's."""
    entry = find_entry(MODEL)
    path = write_header(tmp_path / "models" / entry.file, general__type="model", adapter__type=None)
    os.truncate(path, entry.size_bytes or 0)
    folder = path.parent
    base = locate_model(MODEL, folder).fingerprint
    write_header(adapter_path(folder, "mine"), adaptrag__base__name=MODEL, adaptrag__base__fingerprint=base)
    write_header(
        adapter_path(folder, "other"),
        adaptrag__base__name="smollm\x1b[31m",
        adaptrag__stage="calibration",
        general__architecture="llama",
    )
    tool = dict.fromkeys(
        f"adaptrag__{key}" for key in ("base__name", "base__fingerprint", "stage", "created", "report")
    )
    write_header(adapter_path(folder, "tool"), **tool)
    for age, name in enumerate(("mine", "other", "tool")):
        os.utime(adapter_path(folder, name), (1_000_000 - age, 1_000_000 - age))
    return folder


def run(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["models", "adapters", *words, "--models-dir", str(folder)])


def test_list_says_which_model_each_goes_with(models: Path) -> None:
    (models / "adapters" / "text.gguf").write_text("no adapter", encoding="utf-8")
    done = run(models, "list")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "NAME   STAGE        SIZE    CREATED     FOR",
        f"mine   imitation    0.0 MB  2026-11-28  {MODEL}",
        "other  calibration  0.0 MB  2026-11-28  smollm\\x1b[31m (not here)",
        f"tool   -            0.0 MB  -           {MODEL}",
    ]
    assert done.stderr.startswith(f"warning: {models / 'adapters' / 'text.gguf'} is not a GGUF file that can be read: ")


def test_list_says_what_keeps_an_adapter_from_its_model(models: Path) -> None:
    for name, base in (("published", "sha256:" + "ab" * 32), ("earlier", "partial:" + "0" * 64)):
        write_header(adapter_path(models, name), adaptrag__base__name=MODEL, adaptrag__base__fingerprint=base)
    rows = {
        line.split()[0]: line.partition("2026-11-28")[2].strip() for line in run(models, "list").stdout.splitlines()
    }
    assert rows["published"] == f"{MODEL} (to be verified)"
    assert rows["earlier"] == f"{MODEL} (another file)"


def test_list_as_json(models: Path) -> None:
    document = json.loads(run(models, "list", "--json").stdout)
    assert document["adapters_dir"] == str(models / "adapters")
    mine, other, tool = document["adapters"]
    read = read_adapter(adapter_path(models, "mine"))
    assert mine == {
        "name": "mine",
        "path": str(read.path),
        "architecture": "qwen2",
        "base": MODEL,
        "base_fingerprint": read.base_fingerprint,
        "stage": "imitation",
        "created": "2026-11-28T20:00:00+00:00",
        "size_bytes": read.size,
        "fingerprint": read.fingerprint,
        "fits": [MODEL],
        "report": {"rank": 4},
    }
    assert (other["fits"], other["architecture"]) == ([], "llama")
    assert (tool["base"], tool["base_fingerprint"], tool["fits"], tool["report"]) == (None, None, [MODEL], {})


def test_an_empty_folder_says_how_to_fill_it(tmp_path: Path) -> None:
    done = run(tmp_path, "list")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == f"no adapter in {tmp_path / 'adapters'}: adaptrag deeprag train makes one\n"
    assert json.loads(run(tmp_path, "list", "--json").stdout)["adapters"] == []


def test_remove_asks_unless_told_not_to(models: Path) -> None:
    path = adapter_path(models, "mine")
    refused = run(models, "remove", "mine")
    assert (refused.exit_code, path.exists()) == (130, True)
    assert "stopped; adapter 'mine' is still there" in refused.stderr
    done = run(models, "remove", "mine", "--yes")
    assert (done.exit_code, done.stdout, path.exists()) == (0, "", False)
    assert done.stderr == f"removed {path}\n"


def test_remove_of_an_unknown_name_tells_the_nearest_and_no_path_is_followed(models: Path, tmp_path: Path) -> None:
    misspelt = run(models, "remove", "mime", "--yes")
    assert misspelt.exit_code == 2
    assert "unknown adapter 'mime'; did you mean 'mine'?" in misspelt.stderr
    (tmp_path / "kept.gguf").write_bytes(b"x")
    assert run(models, "remove", "../../kept", "--yes").exit_code == 2
    assert (tmp_path / "kept.gguf").exists()


@pytest.mark.parametrize("words", [("ask", "q"), ("eval", "q.jsonl"), ("probe", "train")], ids=" ".join)
def test_a_misspelt_adapter_is_told_before_anything_is_loaded(
    models: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "q.jsonl").write_text('{"question": "q", "answers": ["a"]}\n', encoding="utf-8")
    flags = ["--model", MODEL, "--adapter", "mime", "--models-dir", str(models)]
    done = CliRunner().invoke(app, [*words, *flags])
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert "unknown adapter 'mime'; did you mean 'mine'?" in done.stderr


def test_a_judge_of_answers_has_no_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADAPTRAG_MODELS_ADAPTER", "mine")
    seen: list[Any] = []
    monkeypatch.setattr("adaptrag_cli.cli.pairwise.judge_runs", lambda a, b, settings, **_: seen.append(settings))
    assert CliRunner().invoke(app, ["eval", "judge", "a", "b", "--judge-model", MODEL]).exit_code == 0
    assert (load_settings().models.adapter, seen[0].models.adapter) == ("mine", None)


def examined(*words: str) -> dict[str, list[dict[str, Any]]]:
    """The doctor's rows by name."""
    alone = typer.Typer()
    alone.command()(doctor)
    document = json.loads(CliRunner().invoke(alone, [*words, "--json"], catch_exceptions=False).stdout)
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in document["checks"]:
        rows.setdefault(row["name"], []).append(row)
    return rows


def test_the_doctor_tells_what_fits_no_model(models: Path) -> None:
    (models / "adapters" / "text.gguf").write_text("no adapter", encoding="utf-8")
    rows = examined("--models-dir", str(models), "--model", MODEL, "--adapter", "mine")
    assert [(row["status"], row["detail"]) for row in rows["adapter"]] == [("ok", f"mine goes with {MODEL}")]
    broken, useless, counted = rows["adapters"]
    assert broken["status"] == useless["status"] == "warn"
    assert broken["detail"].startswith(str(models / "adapters" / "text.gguf"))
    assert useless["detail"] == f"other fits no model in {models}: it is for smollm\x1b[31m"
    assert useless["remedy"].endswith("adaptrag models adapters remove other")
    assert (counted["status"], counted["detail"]) == ("ok", f"2 of 3 in {models / 'adapters'} fit a model")


def test_the_doctor_tells_an_adapter_that_does_not_go_with_the_model(models: Path) -> None:
    rows = examined("--models-dir", str(models), "--model", MODEL, "--adapter", "other")
    assert rows["answer model"][-1]["status"] == "fail"
    assert "adapter 'other' is for smollm" in rows["answer model"][-1]["detail"]
