"""`adaptrag config`: stdout, stderr and code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from adaptrag_cli import locations
from adaptrag_cli.cli.app import app as root
from adaptrag_cli.cli.config import config
from adaptrag_cli.config import flag_of, setting_names


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(config)
    return app


def test_every_setting_with_its_value_and_origin(
    app: typer.Typer, tmp_path: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "adaptrag.toml"
    file.write_text("[ask]\nthreshold = 0.25\npeek = false\n[models]\ndir = 'weights'\n", encoding="utf-8")
    monkeypatch.setenv("ADAPTRAG_ASK_TOP_K", "4")
    result = CliRunner().invoke(app, ["--index-dir", "here"])
    assert result.exit_code == 0
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in result.stdout.splitlines()}
    assert tuple(rows) == setting_names()
    split = {name: rest.rsplit("  ", 1) for name, rest in rows.items()}
    shown = {name: (value.strip(), origin) for name, (value, origin) in split.items()}
    assert shown["ask.threshold"] == ("0.25", str(file))
    assert shown["ask.peek"] == ("false", str(file))
    assert shown["ask.top_k"] == ("4", "ADAPTRAG_ASK_TOP_K")
    assert shown["ask.ais"] == ("(the strategy's own)", "default")
    assert shown["models.dir"] == (str(tmp_path / "weights"), str(file))
    assert shown["index.dir"] == (str(tmp_path / "here"), "--index-dir")
    assert result.stderr == f"settings files read: {file}\n"


def test_json_is_one_document_and_folders_are_the_ones_used(app: typer.Typer, tmp_path: Path) -> None:
    (tmp_path / "indexes").mkdir()
    (tmp_path / "indexes" / locations.INDEX_MARKER).touch()
    result = CliRunner().invoke(app, ["--json"])
    document = json.loads(result.stdout)
    items = {item["name"]: item for item in document["settings"]}
    assert tuple(items) == setting_names()
    assert document["files"] == []
    assert items["ask.threshold"] == {
        "name": "ask.threshold",
        "value": None,
        "origin": "default",
        "unset_means": "the one measured for the model, from the catalogue",
        "flag": "--threshold",
        "variable": "ADAPTRAG_ASK_THRESHOLD",
    }
    assert (items["index.chunk_overlap"]["flag"], items["models.threads"]["flag"]) == ("--overlap", None)
    assert items["index.dir"]["value"] == str(tmp_path / "indexes")
    assert items["index.dir"]["origin"] == "default (./indexes carries our marker file)"
    assert items["models.dir"]["value"] == str(locations.default_models_dir())
    assert result.stderr == ""


def test_every_flag_that_is_named_is_an_option_of_some_command() -> None:
    def options(command: Any) -> set[str]:
        own = {flag for param in command.params for flag in param.opts}
        return own.union(*(options(sub) for sub in getattr(command, "commands", {}).values()))

    known = options(typer.main.get_command(root))
    assert {flag for name in setting_names() if (flag := flag_of(name))} <= known


def test_a_broken_file_is_one_line_and_code_2_and_allowed_still_helps(app: typer.Typer, tmp_path: Path) -> None:
    file = tmp_path / "adaptrag.toml"
    file.write_text("[ask]\ntop_k = 'many'\n", encoding="utf-8")
    result = CliRunner().invoke(app, [])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"adaptrag: {file}: ask.top_k must be a whole number from 1 to 10000, not 'many' "
        "(see: adaptrag config --allowed)\n"
    )
    helped = CliRunner().invoke(app, ["--allowed"])
    assert helped.exit_code == 0
    assert [line.split()[0] for line in helped.stdout.splitlines()] == list(setting_names())
    assert "a whole number from 1 to 10000" in helped.stdout


def test_a_value_from_a_strangers_file_cannot_reach_the_terminal_raw(app: typer.Typer, tmp_path: Path) -> None:
    (tmp_path / "adaptrag.toml").write_text('[ask]\nstrategy = "\\u001b[2J\\n[red]x"\n', encoding="utf-8")
    result = CliRunner().invoke(app, [])
    assert "\x1b" not in result.stdout
    assert "\\x1b[2J\\x0a[red]x" in result.stdout
