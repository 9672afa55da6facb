"""`adaptrag --help`, `--version`, usage errors and shell completion."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from adaptrag_cli import __version__
from adaptrag_cli.errors import ExitCode

COMMANDS = {
    "Ask": ["ask", "tui", "replay", "strategies", "demo"],
    "Prepare": ["index", "indexes", "models"],
    "Measure": ["calibrate", "report", "eval", "probe", "deeprag"],
    "Check": ["doctor", "config"],
}


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def panels(text: str) -> dict[str, list[str]]:
    """Names of the commands by panel."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if head := re.match(r"╭─ (.+?) ─", line):
            found[head[1]] = []
        elif row := re.match(r"│ (\w+)  ", line):
            found[list(found)[-1]].append(row[1])
    return found


def test_help_groups_the_commands(command_line):
    done = command_line("--help")
    assert done.exit_code == 0
    found = panels(done.stdout)
    assert {name: found[name] for name in COMMANDS} == COMMANDS


def test_help_has_examples_and_every_exit_code_on_its_own_line(command_line):
    lines = [line.strip() for line in command_line("-h").stdout.splitlines()]
    assert 'adaptrag ask "When does quiet time start?"' in lines
    assert "adaptrag replay run.jsonl -v" in lines
    rows = lines[lines.index("Exit codes") + 1 :]
    assert [int(row.split()[0]) for row in rows if row] == sorted(ExitCode)


def test_help_fits_80_columns(command_line):
    for words in (
        "",
        "ask",
        "replay",
        "eval",
        "eval judge",
        "report",
        "calibrate",
        "probe train",
        "probe show",
        "deeprag synthesize",
    ):
        text = command_line(*words.split(), "--help").stdout
        assert max(map(len, text.splitlines())) <= 80
        assert "…" not in text


@pytest.mark.parametrize("name", [name for names in COMMANDS.values() for name in names])
def test_every_command_explains_itself(name, command_line):
    done = command_line(name, "--help")
    assert done.exit_code == 0
    assert f"Usage: adaptrag {name}" in done.stdout


def test_the_flags_of_ask_are_the_documented_ones(command_line):
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", command_line("ask", "--help").stdout))
    assert flags == {
        "--strategy", "--threshold", "--retriever", "--ais", "--top-n", "--top-k", "--style", "--peek", "--no-peek",
        "--gate", "--no-gate", "--selection", "--paths", "--agreement", "--agreement-limit", "--exclude-numbers",
        "--include-numbers", "--neighbours", "--labels", "--floor", "--trigger", "--mode", "--smoothing",
        "--difference", "--context-policy", "--query-form", "--reader", "--stride", "--examples", "--max-retrievals",
        "--sources", "--max-steps",
        "--today", "--judge-model", "--reranker", "--prober", "--theta", "--decision", "--probe-query",
        "--index", "--index-dir", "--model", "--adapter", "--models-dir", "--gpu-layers", "--context-length",
        "--config", "--json", "--trace", "--verbose", "--help",
    }  # fmt: skip


def test_version(command_line):
    done = command_line("--version")
    assert (done.exit_code, done.stdout) == (0, f"adaptrag {__version__}\n")


def test_a_misspelt_command_names_the_nearest(command_line):
    done = command_line("aks", "q")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Did you mean 'ask'?" in done.stderr


def test_a_missing_question_is_a_usage_error(command_line):
    done = command_line("ask")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "adaptrag: missing argument 'QUESTION' (try: adaptrag ask --help)\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("ask q --trigger abc", "--trigger must be a number from 0, not 'abc' (try: adaptrag ask --help)"),
        ("ask q --stride 1.5", "--stride must be a whole number from 1 to 10000, not '1.5' (try: adaptrag ask --help)"),
        ("eval d --batch abc", "--batch must be a whole number, not 'abc' (try: adaptrag eval --help)"),
        ("eval d --batch 17", "--batch must be at most 16, not '17' (try: adaptrag eval --help)"),
        ("models frob", "no such command 'frob' (try: adaptrag models --help)"),
        ("ask q --trigger", "option '--trigger' requires an argument"),
    ],
)
def test_what_no_command_can_take_is_told_in_one_line(words, message, command_line):
    done = command_line(*words.split())
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"adaptrag: {message}\n")


def test_help_of_a_default_command_names_what_is_typed(command_line):
    assert "Usage: adaptrag eval [OPTIONS]" in command_line("eval", "--help").stdout


def complete(*words: str) -> list[str]:
    """What bash is offered after these words."""
    done = subprocess.run(
        [sys.executable, "-m", "adaptrag_cli"],
        env=os.environ
        | {
            "_ADAPTRAG_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(("adaptrag", *words)),
            "COMP_CWORD": str(len(words)),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.split()


def test_the_shell_completes_commands_strategies_and_models():
    assert complete("rep") == ["replay", "report"]
    assert complete("ask", "--strategy", "d") == ["dragin", "deeprag", "dpr-ais", "dtr", "dtr+verify"]
    assert complete("ask", "--model", "smol") == ["smollm2-135m-instruct"]


def test_the_shell_gets_a_completion_script(monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    done = subprocess.run(
        [sys.executable, "-m", "adaptrag_cli", "--show-completion", "bash"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "complete -o default -F _adaptrag_completion adaptrag" in done.stdout
