"""`adaptrag doctor`: every part is a row, whatever is broken, and the code says what."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from adaptrag_cli import doctor as checks
from adaptrag_cli.cli.doctor import doctor
from adaptrag_cli.errors import ExitCode
from adaptrag_cli.index.build import BuildOptions, build_index

SMALL_LLM = "qwen2.5-coder-0.5b-instruct"


def run(*words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the rows by name; two rows of one part are joined."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(doctor)
    result = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    document = json.loads(result.stdout)
    assert document["exit_code"] == result.exit_code
    assert document["usable"] is (result.exit_code == 0)
    rows: dict[str, dict[str, Any]] = {}
    for row in document["checks"]:
        if row["name"] in rows:
            row = row | {"detail": f"{rows[row['name']]['detail']}; {row['detail']}"}
        rows[row["name"]] = row
    return result.exit_code, rows


@pytest.fixture
def index_dir(tmp_path: Path, encoder_dir: Path, models_dir: Path) -> Path:
    """A folder with one index of two documents, made with the real encoder."""
    from adaptrag_cli.models.encoder import load_encoder

    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "lamp.md").write_text("# Lamp\n\nThe lamp is lit at dusk by the keeper.\n", encoding="utf-8")
    (notes / "boat.txt").write_text("The boat leaves on Tuesday at nine.\n", encoding="utf-8")
    folder = tmp_path / "indexes"
    encoder = load_encoder("all-minilm-l6-v2", models_dir)
    build_index(notes, name="notes", index_dir=folder, encoder=encoder, options=BuildOptions())
    return folder


def test_a_machine_without_models_is_told_what_to_pull(tmp_path: Path) -> None:
    code, rows = run()
    assert code == ExitCode.MODEL
    assert rows["Python"]["status"] == rows["machine"]["status"] == "ok"
    assert [rows[name]["status"] for name in ("llama.cpp", "FAISS", "ONNX Runtime")] == ["ok"] * 3
    assert "offload" in rows["llama.cpp"]["detail"] or "no layer" in rows["llama.cpp"]["detail"]
    for name in ("answer model", "encoder"):
        assert rows[name]["status"] == "fail"
        assert "adaptrag models pull" in rows[name]["remedy"]
    assert rows["indexes"]["status"] == "warn"
    assert rows["indexes"]["remedy"] == "adaptrag index PATH"


@pytest.mark.small_model
def test_all_is_well(index_dir: Path, models_dir: Path, small_llm_path: Path) -> None:
    words = ("--model", SMALL_LLM, "--models-dir", str(models_dir), "--index-dir", str(index_dir))
    code, rows = run(*words)
    assert code == 0
    assert {row["status"] for row in rows.values()} <= {"ok", "warn"}
    assert rows["answer model"]["detail"].startswith(f"{SMALL_LLM} at {small_llm_path}, SHA-256 verified")
    assert "all-minilm-l6-v2" in rows["encoder"]["detail"]
    assert "SHA-256 verified" in rows["encoder"]["detail"]
    assert rows["encoder"]["detail"].endswith("gives a vector of 384 numbers and length 1.000")
    assert rows["GPU"]["detail"].startswith("layers asked: auto; ")
    index = rows["index notes"]
    assert index["status"] == "ok"
    assert index["detail"].startswith(f"2 chunks of {index_dir.parent / 'notes'}, made with all-minilm-l6-v2")
    assert "dense search finds a stored vector (1.000)" in index["detail"]


@pytest.mark.small_model
def test_thorough_means_that_the_model_writes(index_dir: Path, models_dir: Path, small_llm_path: Path) -> None:
    words = ("--model", SMALL_LLM, "--models-dir", str(models_dir), "--index-dir", str(index_dir), "--verify")
    code, rows = run(*words)
    assert code == 0
    assert "loads and writes 'Yes" in rows["answer model"]["detail"]
    assert "GPU layers asked auto, got" in rows["answer model"]["detail"]


def test_changed_files_are_a_warning_with_the_command(index_dir: Path, models_dir: Path) -> None:
    notes = index_dir.parent / "notes"
    (notes / "boat.txt").unlink()
    (notes / "new.txt").write_text("New.\n", encoding="utf-8")
    _, rows = run("--models-dir", str(models_dir), "--index-dir", str(index_dir))
    assert rows["index notes"]["status"] == "warn"
    assert rows["index notes"]["detail"].endswith("; 2 files differ from what was indexed")
    assert rows["index notes"]["remedy"] == f"adaptrag index {notes} --name notes"


def test_an_index_that_ask_would_refuse_is_a_failed_row_with_its_command(
    index_dir: Path, models_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adaptrag_cli.index.home.TOKENISER_VERSION", 77)
    (index_dir / "cut/generations").mkdir(parents=True)
    _, rows = run("--models-dir", str(models_dir), "--index-dir", str(index_dir))
    row = rows["index notes"]
    assert row["status"] == "fail"
    assert row["detail"].endswith("made with version 1 of the tokeniser, this adaptrag has version 77")
    assert row["remedy"] == f"bring it up to date with: adaptrag index {index_dir.parent / 'notes'} --name notes"
    assert (rows["index cut"]["status"], rows["index cut"]["detail"]) == ("warn", "not finished")


def test_a_folder_that_is_not_there_is_a_warning(index_dir: Path, models_dir: Path) -> None:
    shutil.rmtree(index_dir.parent / "notes")
    _, rows = run("--models-dir", str(models_dir), "--index-dir", str(index_dir))
    assert rows["index notes"]["status"] == "warn"
    assert rows["index notes"]["detail"].endswith(f"; {index_dir.parent / 'notes'} is not there")


@pytest.mark.small_model
def test_a_damaged_index_is_one_failed_row(index_dir: Path, models_dir: Path, small_llm_path: Path) -> None:
    for file in index_dir.rglob("*"):
        if file.is_file() and "generations" in file.parts and file.stat().st_size > 1000:
            os.truncate(file, file.stat().st_size - 1)
    words = ("--model", SMALL_LLM, "--models-dir", str(models_dir), "--index-dir", str(index_dir))
    code, rows = run(*words)
    assert code == ExitCode.INDEX
    assert [name for name, row in rows.items() if row["status"] == "fail"] == ["index notes"]
    assert "adaptrag index" in rows["index notes"]["remedy"]
    assert rows["disk for indexes"]["status"] in {"ok", "warn"}


def test_broken_settings_are_a_row_and_the_rest_is_checked_with_defaults(tmp_path: Path) -> None:
    (tmp_path / "adaptrag.toml").write_text("[ask]\ntop_k = 'many'\n", encoding="utf-8")
    code, rows = run()
    assert code == ExitCode.USAGE
    assert rows["settings"]["status"] == "fail"
    assert "ask.top_k must be a whole number" in rows["settings"]["detail"]
    assert "disk for models" in rows


def test_a_library_that_kills_its_process_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(checks.PROBES, "FAISS", "import os; os.abort()")
    (row,) = checks.check_library("FAISS")
    assert (row.status, row.detail, row.exit_code) == ("fail", "cannot be used: killed by signal 6", ExitCode.INDEX)
    monkeypatch.setitem(checks.PROBES, "FAISS", "import no_such_module_here")
    (row,) = checks.check_library("FAISS")
    assert row.detail == "cannot be used: ModuleNotFoundError: No module named 'no_such_module_here'"


def test_a_probe_never_imports_a_module_of_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "faiss.py").write_text("raise SystemExit('hijacked')\n", encoding="utf-8")
    (row,) = checks.check_library("FAISS")
    assert row.status == "ok"


def test_packages_are_compared_with_the_declared_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    requirements = ["typer>=0.1", "numpy>=999", "no-such-distribution-here>=1", 'nothing-either>=1; extra == "dev"']
    monkeypatch.setattr(checks.metadata, "requires", lambda name: requirements)
    rows = {row.name: row for row in checks.check_packages()}
    assert set(rows) == {"package numpy", "package no-such-distribution-here", "packages"}
    assert rows["package numpy"].remedy == "pip install 'numpy>=999'"
    assert rows["package numpy"].detail.endswith("; needed is >=999")
    assert rows["package no-such-distribution-here"].detail == "not installed; needed is >=1"
    assert rows["package numpy"].exit_code == ExitCode.RUN_FAILED
    assert "typer" in rows["packages"].detail


def test_whatever_a_check_raises_becomes_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ZeroDivisionError("a part nobody foresaw")

    monkeypatch.setattr(checks, "_check_machine", broken)
    first = next(iter(checks.run_checks()))
    assert (first.name, first.status, first.exit_code) == ("machine", "fail", ExitCode.RUN_FAILED)
    assert first.detail == "ZeroDivisionError: a part nobody foresaw"


def test_the_first_failed_row_gives_the_code_and_warnings_none() -> None:
    ok = checks.Check(name="a", status="ok", detail="")
    warn = checks.Check(name="b", status="warn", detail="")
    index = checks.Check(name="c", status="fail", detail="", exit_code=ExitCode.INDEX)
    model = checks.Check(name="d", status="fail", detail="", exit_code=ExitCode.MODEL)
    assert checks.exit_code_of([ok, warn]) == 0
    assert checks.exit_code_of([ok, index, model]) == 3
    assert checks.exit_code_of([model, index]) == 4


def test_the_lines_show_status_part_and_remedy(tmp_path: Path) -> None:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(doctor)
    result = CliRunner().invoke(app, ["--models-dir", "gone\x1b[31m"])
    assert result.exit_code == ExitCode.MODEL
    lines = result.stdout.splitlines()
    failed = next(number for number, line in enumerate(lines) if line.startswith("fail  answer model"))
    assert lines[failed + 1].strip().startswith("-> adaptrag models pull")
    assert "\x1b" not in result.stdout
    assert result.stderr == ""
