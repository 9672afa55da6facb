"""The command boundary: stdout is data, stderr is talk, an expected failure is one line and its exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from adaptrag_cli.errors import AdaptRAGError, ExitCode
from adaptrag_cli.events import RunFailed
from adaptrag_cli.terminal import printable


def say(text: str = "") -> None:
    """Write one line of talk to stderr."""
    print(text, file=sys.stderr, flush=True)


def describe(error: AdaptRAGError) -> str:
    """The failure in one line: what and where, then the remedy."""
    hint = f" ({error.hint})" if error.hint else ""
    return printable(f"adaptrag: {error.message}{hint}")


def failure_of(event: RunFailed) -> AdaptRAGError:
    """The failure that ended a run; a code that no table holds (a trace from elsewhere) means that the run failed."""
    error = AdaptRAGError(event.message, event.hint)
    is_known = event.exit_code in set(ExitCode) - {ExitCode.OK}
    error.exit_code = ExitCode(event.exit_code) if is_known else ExitCode.RUN_FAILED
    return error


def is_agreed(question: str) -> bool:
    """Ask on the terminal; no answer is a no."""
    try:
        return typer.confirm(printable(question), err=True)
    except typer.Abort:  # Ctrl-C, or nobody is there to answer
        say()
        return False


@contextmanager
def reporting_errors() -> Iterator[None]:
    """Turn expected failures into one line on stderr and the documented exit code.

    So is a file that the system does not let us read or write. A programming error keeps its traceback.
    """
    try:
        yield
    except AdaptRAGError as error:
        say(describe(error))
        raise typer.Exit(int(error.exit_code)) from error
    except OSError as error:
        if error.filename is None:
            raise
        hint = "see that it is there, and may be read and written"
        say(describe(AdaptRAGError(f"{error.filename}: {error.strerror}", hint)))
        raise typer.Exit(int(ExitCode.RUN_FAILED)) from error
    except KeyboardInterrupt as error:
        say("adaptrag: stopped")
        raise typer.Exit(int(ExitCode.INTERRUPTED)) from error
