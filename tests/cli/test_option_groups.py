"""Options that `eval` and `calibrate` take in groups: all are there, and what is typed arrives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from adaptrag_cli.cli.app import app
from adaptrag_cli.cli.option_groups import CALIBRATED, EVALUATED
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.plan import Plan


def parameters(command: str) -> set[str]:
    group = typer.main.get_command(app)
    found = group.commands[command]  # type: ignore[attr-defined]
    return {p.name for p in (found.commands["run"] if command == "eval" else found).params}


def test_eval_can_set_what_ask_can() -> None:
    asked = parameters("ask")
    # Which strategies are asked, and how a single answer is shown, is not a setting of an evaluation.
    assert asked - parameters("eval") == {"question", "strategy", "style", "peek", "trace", "verbose"}
    assert EVALUATED.keys() <= parameters("eval")
    assert CALIBRATED.keys() <= parameters("calibrate")


@pytest.mark.parametrize("command", ["eval", "calibrate"])
def test_what_is_typed_arrives(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "q.jsonl").write_text(
        "".join(json.dumps({"question": f"What is {n}?", "answers": ["it"]}) + "\n" for n in range(50))
    )
    (tmp_path / "own.toml").write_text("[ask]\ntop_n = 8\ntop_k = 2\n")
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + bytes(64))
    plans: list[Plan] = []

    def stop(plan: Plan, *_: object, **__: object) -> None:
        plans.append(plan)
        raise ConfigError("seen")

    monkeypatch.setattr("adaptrag_cli.evaluation.run.evaluate", stop)
    words = ["--model", "m.gguf", "--top-k", "4", "--ais", "sum", "--encoder", "e5", "--config", "own.toml"]
    done = CliRunner().invoke(app, [command, "q.jsonl", *words])
    assert "seen" in done.stderr, done.output
    settings = plans[0].settings
    assert (settings.ask.top_k, settings.ask.top_n, settings.ask.ais) == (4, 8, "sum")
    assert (settings.models.encoder, settings.origin("ask.top_k")) == ("e5", "--top-k")
    assert Path(settings.models.answer).name == "m.gguf"
