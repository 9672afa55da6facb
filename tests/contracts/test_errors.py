"""The one exit-code table, row by row, and the two parts of every message."""

from __future__ import annotations

import inspect

import pytest
import typer

from adaptrag_cli import errors
from adaptrag_cli.cli.boundary import describe, reporting_errors
from adaptrag_cli.errors import AdaptRAGError, ExitCode, UnknownName

CODES = {
    "AdaptRAGError": 1,
    "ConfigError": 2,
    "UnknownName": 2,
    "QueryTooLong": 2,
    "DocumentError": 1,
    "IndexUnusable": 3,
    "IndexNotFound": 3,
    "IndexStale": 3,
    "IndexCorrupt": 3,
    "IndexBusy": 3,
    "ModelError": 4,
    "ModelNotFound": 4,
    "DownloadError": 4,
    "LogitsUndefined": 4,
    "MissingCapability": 4,
    "RunCancelled": 130,
}


def make_error(name: str) -> AdaptRAGError:
    if name == "UnknownName":
        return UnknownName("strategy", "dtrr", ["dtr", "always"], "see: adaptrag strategies")
    return getattr(errors, name)("notes.md: what went wrong", "run: adaptrag index docs/")


def test_the_table_names_every_exception_there_is() -> None:
    public = {
        name
        for name, value in inspect.getmembers(errors, inspect.isclass)
        if issubclass(value, AdaptRAGError) and value.__module__ == errors.__name__
    }
    assert public == set(CODES)


def test_the_docstring_draws_every_exception_with_its_code() -> None:
    drawn = {}
    for line in (errors.__doc__ or "").splitlines():
        words = [word for word in line.replace("├──", "").replace("└──", "").replace("│", "").split() if word]
        if len(words) >= 2 and words[1].isdigit():
            drawn[words[0]] = int(words[1])
    assert drawn == CODES


@pytest.mark.parametrize(
    ("member", "code"),
    [("OK", 0), ("RUN_FAILED", 1), ("USAGE", 2), ("INDEX", 3), ("MODEL", 4), ("INTERRUPTED", 130)],
)
def test_exit_codes_never_change(member: str, code: int) -> None:
    assert ExitCode[member] == code


@pytest.mark.parametrize(("name", "code"), CODES.items())
def test_each_exception_leaves_with_its_code_and_one_line(
    name: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as exit_info, reporting_errors():
        raise make_error(name)
    assert exit_info.value.exit_code == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == describe(make_error(name)) + "\n"
    assert captured.err.count("\n") == 1


def test_ctrl_c_leaves_with_130(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as exit_info, reporting_errors():
        raise KeyboardInterrupt
    assert exit_info.value.exit_code == 130
    assert capsys.readouterr().err == "adaptrag: stopped\n"


def test_a_programming_error_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError), reporting_errors():
        raise ZeroDivisionError


def test_message_and_hint_are_told_in_one_line() -> None:
    error = errors.IndexNotFound("no index 'docs' in /data", "make one with: adaptrag index docs/")
    assert describe(error) == "adaptrag: no index 'docs' in /data (make one with: adaptrag index docs/)"
    assert describe(errors.ModelError("cannot load m.gguf")) == "adaptrag: cannot load m.gguf"


def test_a_message_cannot_fake_a_line_or_colour_the_terminal() -> None:
    error = errors.DocumentError("a\nb\x1b[31m.md: empty")
    assert describe(error) == "adaptrag: a\\x0ab\\x1b[31m.md: empty"


def test_an_unknown_name_lists_the_right_ones_and_the_nearest() -> None:
    error = UnknownName("strategy", "dttr", ["never", "dtr", "always"])
    assert error.message == "unknown strategy 'dttr'; did you mean 'dtr'?"
    assert error.hint == "known: always, dtr, never"
    part = UnknownName("setting", "k", ["top_n", "top_k"])
    assert part.message == "unknown setting 'k'; did you mean 'top_k'?"
    far = UnknownName("index", "zzz", [])
    assert far.message == "unknown index 'zzz'"
    assert far.hint == "known: none yet"
