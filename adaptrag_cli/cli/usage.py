"""What is typed wrongly, told in one line as every other failure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from adaptrag_cli.cli.boundary import say
from adaptrag_cli.cli.options import setting_of
from adaptrag_cli.config import allowed_for
from adaptrag_cli.errors import ExitCode
from adaptrag_cli.terminal import printable

_USAGE_ERROR: type[Any] = typer.BadParameter.__mro__[1]  # of click, or of typer's own copy of it


class OneLineGroup(TyperGroup):
    """The root of the commands: says in one line what no command can take."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        with _telling():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        with _telling():
            return super().invoke(ctx)


@contextmanager
def _telling() -> Iterator[None]:
    try:
        yield
    except _USAGE_ERROR as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the help was printed
            raise
        ctx = error.ctx
        hint = f" (try: {ctx.command_path} --help)" if ctx is not None else ""
        say(printable(f"adaptrag: {_message(error)}{hint}"))
        raise typer.Exit(int(ExitCode.USAGE)) from error


def _message(error: Any) -> str:
    """What is wrong; of a value also which it is, and what it must be."""
    param, given = getattr(error, "param", None), _given(error.__cause__)
    if param is None or given is None:
        message = str(error.format_message()).rstrip(".")
        return message[:1].lower() + message[1:]
    dotted = setting_of(param.name)
    must = f"must be {allowed_for(dotted)}" if dotted is not None else _in_our_words(error.message)
    return f"{param.opts[0]} {must}, not {given!r}"


def _given(cause: Any) -> str | None:
    """The value that could not be read, as typer's reader of values tells it."""
    try:
        return str(cause.errors()[0]["input"])
    except (AttributeError, LookupError, TypeError):
        return None


def _in_our_words(message: str) -> str:
    what = message.partition(", unable")[0].removeprefix("Input should ")
    for theirs, ours in (
        ("a valid integer", "a whole number"),
        ("a valid number", "a number"),
        ("greater than or equal to", "at least"),
        ("less than or equal to", "at most"),
    ):
        what = what.replace(theirs, ours)
    return f"must {what}"
