"""`adaptrag report`: tables and figures of runs of `adaptrag eval`, and the cases where two strategies part."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adaptrag_cli.cli.boundary import reporting_errors, say
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.pages import require_replaceable, write_page
from adaptrag_cli.terminal import printable

if TYPE_CHECKING:
    from adaptrag_cli.evaluation.results import RunData


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders that eval --out has written.", show_default=False)
    ],
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one page with all figures, readable offline.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print tables and figures' data as JSON.")] = False,
    cases: Annotated[
        tuple[str, str] | None,
        typer.Option("--cases", metavar="A B", help="List the questions where strategy A is right (EM) and B is not."),
    ] = None,
) -> None:
    """Show what an evaluation found: strategies with intervals, and the papers' figures from your own runs.

    Several runs are drawn together. Without --html or --json the figures come as short tables.
    """
    with reporting_errors():
        from adaptrag_cli.evaluation.results import read_run

        found = [read_run(folder) for folder in dict.fromkeys(runs)]
        if cases is not None:
            if html is not None:
                raise ConfigError("--cases lists questions and draws no page", "leave out --html, or --cases")
            _list_cases(found, *cases, as_json=json)
            return

        from adaptrag_cli.report.build import build_report, document

        if html is not None:
            require_replaceable(html)  # before it is computed
        made = build_report(found)
        if html is not None:
            from adaptrag_cli.report.page import report_page

            write_page(html, report_page(made))
            say(printable(f"wrote {html}"))
        if json:
            _print_json(document(made))
        elif html is None:
            from adaptrag_cli.report.terminal_form import print_report

            print_report(made, sys.stdout)


def _list_cases(runs: Sequence[RunData], right: str, wrong: str, *, as_json: bool) -> None:
    import msgspec

    from adaptrag_cli.report.cases import cases

    found = cases(runs, right, wrong)
    if as_json:
        _print_json({"format": 1, "cases": [msgspec.to_builtins(case) for case in found]})
    elif found:
        from adaptrag_cli.report.terminal_form import print_cases

        print_cases(found, sys.stdout)
    else:
        say(printable(f"no question where {right} is right and {wrong} is wrong"))


def _print_json(value: dict[str, Any]) -> None:
    from adaptrag_cli.render import json_text

    print(json_text(value))
