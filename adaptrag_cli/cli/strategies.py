"""`adaptrag strategies`: every method, what it does, where it is from and which options it takes."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from adaptrag_cli.cli.boundary import reporting_errors
from adaptrag_cli.config import allowed_for, setting_names

if TYPE_CHECKING:
    from adaptrag_cli.strategies.base import Strategy


def strategies(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show one, with its options and defaults.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List the strategies that ask, tui and eval take."""
    with reporting_errors():
        from adaptrag_cli.strategies.base import load_strategy
        from adaptrag_cli.strategies.table import strategy_names

        shown = [load_strategy(each) for each in ([name] if name is not None else strategy_names())]
        if as_json:
            documents = [_document(strategy) for strategy in shown]
            print(json.dumps(documents if name is None else documents[0], indent=2))
        elif name is None:
            _print_all(shown)
        else:
            _print_one(shown[0])


def _print_all(shown: list[Strategy]) -> None:
    from adaptrag_cli.table_layout import drawing_on, paragraph, table

    with drawing_on(sys.stdout) as console:
        table(console, ("strategy", "what it does"), [(strategy.name, strategy.summary) for strategy in shown])
        console.print()
        paragraph(console, "adaptrag strategies NAME shows the options of one.")


def _print_one(strategy: Strategy) -> None:
    from adaptrag_cli.table_layout import drawing_on, paragraph, table

    with drawing_on(sys.stdout) as console:
        paragraph(console, f"{strategy.name}: {strategy.summary}")
        paragraph(console, strategy.paper)
        console.print()
        rows = [(name, default, _allowed(name)) for name, default in _options(strategy).items()]
        table(console, ("option", "default", "may be"), rows)
        if "trigger" in strategy.uses:
            paragraph(console, "A trigger that was measured for the model comes before this default.")


def _allowed(option: str) -> str:
    """What an option may be, in words."""
    dotted = f"ask.{option}"
    return allowed_for(dotted) if dotted in setting_names() else "fixed"


def _options(strategy: Strategy) -> dict[str, str | int | float | bool]:
    return {
        name: getattr(strategy.defaults, name) for name in sorted(strategy.uses) if hasattr(strategy.defaults, name)
    }


def _document(strategy: Strategy) -> dict[str, object]:
    return {
        "name": strategy.name,
        "summary": strategy.summary,
        "paper": strategy.paper,
        "needs_index": strategy.needs_index,
        "requires": sorted(strategy.requires),
        "options": _options(strategy),
    }
