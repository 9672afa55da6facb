"""A group whose first command runs when none is named: `adaptrag eval DATA` beside `adaptrag eval judge A B`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class DefaultCommandGroup(TyperGroup):
    """Takes its first command where the first word is no command's name; `--help` is that command's, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        default = next(iter(self.commands))
        if not args:
            args = ["--help"]
        if args[0] not in self.commands:
            args = [default, *args]
        return super().parse_args(ctx, args)
