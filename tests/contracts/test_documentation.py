"""What README.md shows of the command line is what the command line says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adaptrag_cli.cli.app import app
from adaptrag_cli.config import setting_names, variable_of
from adaptrag_cli.errors import ExitCode

README = Path(__file__).parents[2] / "README.md"
HELP_BLOCK = re.compile(r"^```\w*\n\$ adaptrag (?P<words>[\w -]*--help)\n(?P<shown>.*?)^```$", re.MULTILINE | re.DOTALL)


def squeezed(text: str) -> list[str]:
    """Lines without trailing spaces, and without empty ones at both ends."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip().splitlines()


def test_documented_help_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    blocks = list(HELP_BLOCK.finditer(README.read_text(encoding="utf-8")))
    assert "--help" in {block["words"] for block in blocks}, "README.md shows no `$ adaptrag --help`"
    for block in blocks:
        result = CliRunner().invoke(app, block["words"].split(), prog_name="adaptrag")
        assert squeezed(block["shown"]) == squeezed(result.stdout)


def test_the_readme_names_every_exit_code_and_how_to_set_a_setting() -> None:
    text = README.read_text(encoding="utf-8")
    assert [code for code in ExitCode if not re.search(rf"^\|? *`?{int(code)}\b", text, re.MULTILINE)] == []
    assert "adaptrag.toml" in text
    assert any(variable_of(name) in text for name in setting_names())
