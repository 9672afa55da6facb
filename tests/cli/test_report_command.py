"""`adaptrag report`: stdout, stderr and code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import report_runs
from adaptrag_cli.cli.app import app


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report_runs.write_run(
        tmp_path_factory.mktemp("runs") / "made", sets=(("popqa", 16),), strategies=("never", "always", "dtr")
    )


@pytest.fixture(autouse=True)
def run_folder(made: Path, tmp_path: Path) -> Path:
    """The run as `run` in the working folder."""
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


def report(*words: str) -> Result:
    return CliRunner().invoke(app, ["report", *words])


def test_tables_and_figures_in_the_terminal() -> None:
    done = report("run")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "popqa"
    assert lines[2].split() == ["strategy", "n", "EM", "F1", "ACC", "recall", "gold"]
    assert [line.split()[0] for line in lines[3:6]] == ["never", "always", "dtr"]
    for caption in (
        "  Cost of a question (means, but of seconds the median and the 95th percentile):",
        "  Decisions against what the drafts were:",
        "  Differences from always, question by question:",
    ):
        assert lines.index(caption) < lines.index("How to read the tables")
    assert "EM of the drafts" in done.stdout
    assert "not here: needs pairs" not in done.stdout  # dtr alone has two of the three groups
    assert "The third group of dtr needs dtr:gate=false." not in done.stdout  # always will do


def test_a_page_is_written_and_said(tmp_path: Path) -> None:
    done = report("run", "--html", "report.html")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "wrote report.html\n")
    assert (tmp_path / "report.html").read_text("utf-8").startswith('<!doctype html>\n<html lang="en">')


def test_a_page_that_cannot_be_written_is_told() -> None:
    done = report("run", "--html", "no/folder/report.html")
    assert done.exit_code == 2
    assert done.stderr == (
        "adaptrag: cannot write no/folder/report.html: No such file or directory "
        "(name a file in a folder that exists)\n"
    )


def test_a_page_replaces_a_page_and_nothing_else(tmp_path: Path) -> None:
    mine = tmp_path / "notes.html"
    mine.write_text("<!doctype html>\n<html><head><title>Mine</title></head></html>\n", "utf-8")
    done = report("run", "--html", "notes.html")
    assert done.exit_code == 2
    assert done.stderr == (
        "adaptrag: notes.html exists and is not a page of AdaptRAG, so it is not overwritten (name another file)\n"
    )
    assert "Mine" in mine.read_text("utf-8")
    mine.write_bytes(b"")
    for _ in range(2):
        assert report("run", "--html", "notes.html").exit_code == 0


def test_json_holds_tables_and_the_data_of_figures() -> None:
    done = report("run", "--json")
    document = json.loads(done.stdout)
    assert [row["strategy"] for row in document["tables"][0]["strategies"]] == ["never", "always", "dtr"]
    figures = {figure["name"]: figure for figure in document["figures"]}
    assert len(figures) == 22
    assert figures["threshold"]["data"]["columns"][:3] == ["line", "set", "threshold"]
    assert len(figures["threshold"]["data"]["rows"]) == 17
    assert figures["cost-em"]["missing"] == ""


def test_cases_name_the_commands_that_open_both_runs() -> None:
    done = report("run", "--cases", "dtr", "always")
    assert (done.exit_code, done.stderr) == (0, "")
    found = json.loads(report("run", "--cases", "dtr", "always", "--json").stdout)["cases"]
    assert found
    lines = done.stdout.splitlines()
    assert lines[0] == f"popqa: {len(found)} where dtr is right (EM) and always is not"
    for case in found:
        number = case["question_id"].removeprefix("popqa-")
        at = lines.index(f"  Question {number} of popqa?")
        assert lines[at + 1].split() == ["gold", "answer", number]
        assert lines[at + 4 : at + 6] == [
            f"    adaptrag tui --trace run/traces/base/popqa/dtr/{number}.jsonl.gz",
            f"    adaptrag tui --trace run/traces/base/popqa/always/{number}.jsonl.gz",
        ]
        assert Path(case["right_command"].split()[-1]).is_file()


def test_no_case_is_said() -> None:
    done = report("run", "--cases", "dtr", "dtr")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "no question where dtr is right and dtr is wrong\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("run", "--cases", "dtr", "alway"),
            "adaptrag: unknown strategy of run 'alway'; did you mean 'always'? (known: always, dtr, never)",
        ),
        (("nothing",), "adaptrag: nothing holds no evaluation (make one with: adaptrag eval DATA --out FOLDER)"),
        (
            ("run", "--cases", "dtr", "always", "--html", "x.html"),
            "adaptrag: --cases lists questions and draws no page (leave out --html, or --cases)",
        ),
    ],
    ids=["unknown strategy", "no run", "two wishes"],
)
def test_a_wrong_wish_is_told_in_one_line(words: tuple[str, ...], message: str) -> None:
    done = report(*words)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"{message}\n")


def test_a_run_given_twice_is_drawn_once() -> None:
    assert report("run", "run").stdout == report("run").stdout
