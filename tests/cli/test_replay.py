"""`adaptrag replay` prints what the live run printed, to the letter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import traces
from adaptrag_cli.trace import TraceWriter


def record(path: Path, name: str) -> Path:
    with TraceWriter(path) as writer:
        for event in traces.ALL[name]():
            writer.write(event)
    return path


@pytest.mark.parametrize("options", [(), ("-v",), ("--json",), ("--json", "-v")], ids=" ".join)
@pytest.mark.parametrize("name", traces.ALL)
def test_a_replay_is_the_live_run_to_the_letter(name, options, command_line):
    command_line.session.events = traces.ALL[name]()
    live = command_line("ask", "q", "--trace", "run.jsonl", *options)
    again = command_line("replay", "run.jsonl", *options)
    assert (again.stdout_bytes, again.stderr_bytes) == (live.stdout_bytes, live.stderr_bytes)
    assert again.exit_code == live.exit_code == (4 if name == "failed" else 0)


def test_a_replay_opens_no_session(command_line, tmp_path):
    record(tmp_path / "run.jsonl", "retrieved")
    assert command_line("replay", "run.jsonl", "-v").exit_code == 0
    assert command_line.settings is None


def test_a_trace_that_was_cut_off_shows_what_there_is_and_where_it_ends(command_line, tmp_path):
    path = record(tmp_path / "run.jsonl", "retrieved")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:9]))
    done = command_line("replay", "run.jsonl")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "warning: 1 file changed since indexing",
        "adaptrag: run.jsonl, line 9: the trace ends before its run did "
        "(record one with: adaptrag ask QUESTION --trace FILE)",
    ]


def test_a_file_that_is_no_trace_is_told_in_one_line(command_line, tmp_path):
    (tmp_path / "notes\x1b.md").write_text("# Notes\n")
    done = command_line("replay", "notes\x1b.md")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("adaptrag: notes\\x1b.md, line 1: not a trace event: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("place", [".", "missing.jsonl"])
def test_what_cannot_be_read_is_told(place, command_line):
    done = command_line("replay", place)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"adaptrag: cannot read the trace {place}: ")


def test_a_replay_loads_no_model_library_and_without_tables_no_numpy(tmp_path):
    record(tmp_path / "run.jsonl", "retrieved")
    code = (
        "import sys\nsys.argv = ['adaptrag', 'replay', 'run.jsonl']\n"
        "from adaptrag_cli.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "assert not {'numpy', 'llama_cpp', 'faiss', 'torch', 'onnxruntime', 'textual'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "21:30\n"), done.stderr
