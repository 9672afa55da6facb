"""A group whose first command runs when none is named: `adaptrag eval DATA` beside `adaptrag eval judge A B`."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class _Unnamed(typer.Context):
    """Of a command that nobody names, so that its usage says what is typed."""

    @property
    def command_path(self) -> str:
        return super().command_path.removesuffix(f" {self.info_name}")


class DefaultCommand(TyperCommand):
    """The first command of a `DefaultCommandGroup`."""

    context_class = _Unnamed


class DefaultCommandGroup(TyperGroup):
    """Takes its first command where the first word is no command's name; `--help` is that command's, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        default = next(iter(self.commands))
        if not args:
            args = ["--help"]
        if args[0] not in self.commands:
            args = [default, *args]
        return super().parse_args(ctx, args)
