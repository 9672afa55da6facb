"""`adaptrag eval judge` over two models' cells of one run."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from adaptrag_cli.cli.app import app
from adaptrag_cli.evaluation.results import read_run, result_log
from fakes import ScriptedModel
from report_runs import write_run


@pytest.fixture(autouse=True)
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with two cells: in the second, memory is no better and no worse."""
    folder = write_run(tmp_path / "run", strategies=("never", "always"), sets=(("popqa", 4),))
    log = result_log(folder)
    for result in read_run(folder).results:
        log.append(msgspec.structs.replace(result, cell="top_k=5", prediction="the same"))
    log.close()
    judge = ScriptedModel().labels("Answer 1:", {"1": -1.0, "2": -2.0, "0": -0.1})
    monkeypatch.setattr("adaptrag_cli.session.plan.model_load_of", lambda _: None)
    monkeypatch.setattr("adaptrag_cli.session.session.load_model", lambda *_: judge)
    return folder


def test_cells_are_compared_apart(grid: Path) -> None:
    done = CliRunner().invoke(app, ["eval", "judge", f"{grid}:never", f"{grid}:always", "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert [(row["cell"], row["set"], row["n"]) for row in document["rows"]] == [
        ("base", "popqa", 4),
        ("top_k=5", "popqa", 4),
    ]
    assert document["rows"][0]["identical"] < document["rows"][1]["identical"] == 1.0
    assert [verdict["cell"] for verdict in document["verdicts"]] == ["base"] * 4 + ["top_k=5"] * 4
    shown = CliRunner().invoke(app, ["eval", "judge", f"{grid}:never", f"{grid}:always"]).stdout
    assert "never against always (base)" in shown
    assert "never against always (top_k=5)" in shown


def test_json_holds_no_character_that_controls_a_terminal(grid: Path) -> None:
    lines = (grid / "results.jsonl").read_bytes().replace(b'"popqa"', b'"pop\\u009b31mqa"')
    (grid / "results.jsonl").write_bytes(lines)
    done = CliRunner().invoke(app, ["eval", "judge", f"{grid}:never", f"{grid}:always", "--json"])
    assert "\x9b" not in done.stdout
    assert json.loads(done.stdout)["rows"][0]["set"] == "pop\x9b31mqa"
