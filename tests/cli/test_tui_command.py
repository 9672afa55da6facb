"""`adaptrag tui` refuses in one line what cannot be shown, before a screen is taken or a model loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adaptrag_cli.cli import tui as command
from adaptrag_cli.cli.app import app
from adaptrag_cli.events import encode_event
from traces import retrieved

runner = CliRunner()


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch):
    """A terminal that can draw, and an application that only keeps how it was started."""
    from adaptrag_cli.tui import app as application

    launches = []

    class Kept:
        def __init__(self, launch) -> None:
            launches.append(launch)

        def run(self) -> None: ...

    monkeypatch.setattr(command, "require_terminal", lambda remedy: None)
    monkeypatch.setattr(application, "AdaptRAGApp", Kept)
    return launches


def trace_file(folder: Path) -> Path:
    path = folder / "run.jsonl"
    path.write_bytes(b"".join(encode_event(event) + b"\n" for event in retrieved()))
    return path


def test_without_a_terminal_it_says_what_to_use_instead():
    result = runner.invoke(app, ["tui"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "adaptrag: the terminal interface needs a terminal, and this is none "
        "(use: adaptrag ask QUESTION -v, or adaptrag replay FILE -v)\n"
    )


def test_without_a_terminal_a_missing_trace_is_told_first():
    result = runner.invoke(app, ["tui", "--trace", "nosuch.jsonl"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "nosuch.jsonl" in result.stderr
    assert "terminal" not in result.stderr


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_a_dumb_terminal_is_refused(monkeypatch: pytest.MonkeyPatch, term: str):
    monkeypatch.setenv("TERM", term)
    for stream in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(f"adaptrag_cli.cli.tui.sys.{stream}.isatty", lambda: True, raising=False)
    with pytest.raises(command.ConfigError, match="cannot draw a screen"):
        command.require_terminal("use something else")


def test_what_is_typed_reaches_the_application(launched):
    method = ["--strategy", "always", "--threshold", "0.4"]
    places = ["--index", "notes", "--model", "m", "--gpu-layers", "0", "--index-dir", "here"]
    result = runner.invoke(app, ["tui", *method, *places, " Why? "])
    assert result.exit_code == 0, result.stderr
    (launch,) = launched
    assert launch.question == "Why?"
    assert launch.flags == {
        "ask.strategy": "always",
        "ask.threshold": 0.4,
        "index.name": "notes",
        "index.dir": str(Path("here").absolute()),
        "models.answer": "m",
        "models.gpu_layers": "0",
    }
    assert not launch.is_replay


def test_a_wrong_value_is_told_before_the_screen_is_taken(launched):
    result = runner.invoke(app, ["tui", "--retriever", "psychic"])
    assert result.exit_code == 2
    assert "--retriever: ask.retriever must be dense, sparse or hybrid" in result.stderr
    assert launched == []


def test_a_trace_is_read_first(launched, tmp_path: Path):
    result = runner.invoke(app, ["tui", "--trace", str(trace_file(tmp_path))])
    assert result.exit_code == 0, result.stderr
    assert launched[0].trace == tuple(retrieved())


def test_a_file_that_is_no_trace_is_refused(launched, tmp_path: Path):
    (tmp_path / "thesis.txt").write_text("precious\n")
    result = runner.invoke(app, ["tui", "--trace", str(tmp_path / "thesis.txt")])
    assert result.exit_code == 2
    assert "thesis.txt, line 1: not a trace event" in result.stderr
    assert launched == []


def test_a_trace_answers_no_question(launched, tmp_path: Path):
    result = runner.invoke(app, ["tui", "--trace", str(trace_file(tmp_path)), "Why?"])
    assert result.exit_code == 2
    assert "a recorded trace answers no question" in result.stderr


def test_help_draws_no_screen():
    code = (
        "import sys; from adaptrag_cli.cli.app import app\n"
        "try: app(['tui', '--help'])\nexcept SystemExit: pass\n"
        "print([m for m in ('textual', 'numpy', 'llama_cpp', 'faiss') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
