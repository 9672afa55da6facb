"""`adaptrag eval` and `adaptrag eval judge`: what cannot be measured is told in one line before anything is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from adaptrag_cli.cli.app import app
from adaptrag_cli.evaluation.resume import require_run_folder
from report_runs import write_run

FORMATS = (
    "(known are HotpotQA, 2WikiMultihopQA, MuSiQue, SQuAD 1.1, NQ-open, TriviaQA, WebQuestions, PopQA, StrategyQA, "
    'IIRC, PubMedQA, BioASQ, CAG, and JSON lines of {"id", "question", "answers"})'
)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Question files, and two runs that share no question, in the working folder."""
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "empty.jsonl": "",
        "broken.jsonl": "not json\n",
        "unanswered.jsonl": '{"question": "Who?"}\n',
        "one.jsonl": '{"question": "Who?", "answers": ["me"]}\n',
    }.items():
        Path(name).write_text(text, encoding="utf-8")
    write_run(tmp_path / "run", strategies=("never", "always"), sets=(("popqa", 2),))
    write_run(tmp_path / "other", strategies=("never",), sets=(("hotpotqa", 2),))


def refused(words: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(app, ["eval", *words])
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"adaptrag: {message}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("empty.jsonl",), "empty.jsonl is empty (give a file with questions)"),
        (("broken.jsonl",), f"broken.jsonl: of no known format (no records) {FORMATS}"),
        (
            ("unanswered.jsonl",),
            "unanswered.jsonl:1: 'answers' is missing "
            '(write each question as {"question": "...", "answers": ["..."]})',
        ),
        (("missing.jsonl",), "there is no file missing.jsonl (check the path)"),
        ((".",), ". is a folder, not a file (give one question file, or several)"),
        (("one.jsonl", "empty.jsonl"), "empty.jsonl is empty (give a file with questions)"),
        (("one.jsonl", "--strategies", "never,never"), "--strategies names 'never' twice (name each once)"),
        (
            ("one.jsonl", "--strategies", "etc:trigger=2:trigger=3"),
            "--strategies 'etc:trigger=2:trigger=3': 'trigger' stands twice (give it once)",
        ),
        (
            ("one.jsonl", "--batch", "4"),
            "--batch 4: more than 3 questions at once change numbers (add --allow-inexact if that does not matter)",
        ),
        (("one.jsonl", "--vary", "top_k"), "--vary 'top_k' names no values (write it as --vary top_k=3,5)"),
    ],
    ids=["empty", "broken", "unanswered", "missing", "folder", "second", "twice", "option twice", "batch", "grid"],
)
def test_what_cannot_be_measured_is_told_in_one_line(words: tuple[str, ...], message: str) -> None:
    refused(words, message)
    assert not Path("adaptrag-run").exists()


def test_an_unknown_strategy_is_told_with_the_nearest() -> None:
    done = CliRunner().invoke(app, ["eval", "one.jsonl", "--strategies", "always,nevr"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("adaptrag: unknown strategy 'nevr'; did you mean 'never'? (known: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "run:always"), "run holds several strategies (name one: run:never)"),
        (
            ("run:nevr", "run:always"),
            "unknown strategy of run 'nevr'; did you mean 'never'? (known: always, never)",
        ),
        (
            ("missing:never", "run:always"),
            "missing holds no evaluation (make one with: adaptrag eval DATA --out FOLDER)",
        ),
        (
            ("run:never", "other"),
            "the two runs share no question (judge strategies that were asked the same questions)",
        ),
        (
            ("run:never", "run:always", "--judge-model", "no-such"),
            "unknown model 'no-such' (see them with: adaptrag models list)",
        ),
    ],
    ids=["several", "unknown strategy", "no run", "nothing shared", "unknown judge"],
)
def test_what_cannot_be_judged_is_told_in_one_line(words: tuple[str, ...], message: str) -> None:
    refused(("judge", *words), message)


@pytest.mark.parametrize(
    "words",
    [
        ("eval", "one.jsonl"),
        ("calibrate", "one.jsonl"),
        ("probe", "train", "--data", "one.jsonl"),
        ("deeprag", "synthesize", "--data", "one.jsonl"),
    ],
    ids=["eval", "calibrate", "probe", "deeprag"],
)
def test_a_folder_of_other_files_becomes_no_run(words: tuple[str, ...]) -> None:
    Path("letters").mkdir()
    Path("letters", "to-ada.txt").write_text("Dear Ada", encoding="utf-8")
    done = CliRunner().invoke(app, [*words, "--out", "letters"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "adaptrag: letters holds other files and no run (give --out a new or empty folder)\n"
    assert [path.name for path in Path("letters").iterdir()] == ["to-ada.txt"]


def test_a_folder_of_hidden_files_or_of_a_run_that_was_stopped_early_is_taken(tmp_path: Path) -> None:
    require_run_folder(tmp_path / "none")
    for name in (".git", "run.lock", "results.jsonl"):
        (tmp_path / "out" / name).mkdir(parents=True)
        require_run_folder(tmp_path / "out")
