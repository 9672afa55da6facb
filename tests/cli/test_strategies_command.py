"""`adaptrag strategies`: the list of methods, and one with its options."""

from __future__ import annotations

import json

from adaptrag_cli.strategies.base import load_strategy
from adaptrag_cli.strategies.table import TABLE


def test_every_strategy_has_a_row(command_line):
    done = command_line("strategies")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    starts = [line.split()[0] for line in lines[1:] if line.startswith("  ") and not line.startswith("   ")]
    assert starts[:-1] == list(TABLE)  # the last line says how to see one
    assert max(map(len, lines)) <= 80


def test_one_shows_its_options_with_their_defaults(command_line):
    lines = command_line("strategies", "etc").stdout.splitlines()
    rows = [line.split() for line in lines]
    assert ["trigger", "1.0", "a", "number", "from", "0"] in rows
    assert ["mode", "paper", "paper", "or", "code"] in rows
    assert ["query_words", "35", "fixed"] in rows
    assert ["retriever", "sparse"] in [row[:2] for row in rows]
    assert not any(row[:1] == ["threshold"] for row in rows)
    assert "  A trigger that was measured for the model comes before this default." in lines
    assert max(map(len, lines)) <= 80


def test_json_tells_the_same(command_line):
    documents = json.loads(command_line("strategies", "--json").stdout)
    assert [document["name"] for document in documents] == list(TABLE)
    one = json.loads(command_line("strategies", "dtr", "--json").stdout)
    assert one["summary"] == load_strategy("dtr").summary
    assert (one["options"]["top_k"], one["needs_index"]) == (3, True)


def test_an_unknown_one_is_refused(command_line):
    done = command_line("strategies", "etcc")
    assert done.exit_code == 2
    assert "did you mean 'etc'?" in done.stderr
