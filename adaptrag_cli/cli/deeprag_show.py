"""`adaptrag deeprag show`: what a run has explored, and what every stage of training made of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from adaptrag_cli.cli.boundary import reporting_errors, say
from adaptrag_cli.cli.options import OUTPUT
from adaptrag_cli.pages import write_page
from adaptrag_cli.terminal import printable

EXAMPLES = "Examples:\n\nadaptrag deeprag show run\n\nadaptrag deeprag show run --html run.html"
FORMAT = 1


def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of synthesize.", show_default=False)],
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="Write one page with all figures, readable offline.", rich_help_panel=OUTPUT
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.", rich_help_panel=OUTPUT)] = False,
) -> None:
    """Show what was explored, the loss curve of every stage, and its decisions on held-out questions."""
    with reporting_errors():
        from adaptrag_cli.learning.run_figures import run_figures
        from adaptrag_cli.learning.runs import read_explored, read_run
        from adaptrag_cli.learning.training_report import read_losses, reports_of, trainings_begun

        manifest = read_run(run)
        found = run_figures(manifest, read_explored(run))
        curves = {training: read_losses(run, training) for training in trainings_begun(run)}
        reports = reports_of(run)
        if as_json:
            _print_json(run, manifest, found, curves, reports)
            return
        from adaptrag_cli.report.sections import sections_page
        from adaptrag_cli.report.terminal_form import print_sections
        from adaptrag_cli.report.training_figures import training_figures
        from adaptrag_cli.report.training_tables import exploration_sections, training_sections

        title = f"{run.absolute().name}: {manifest.model} learns from its trees"
        parts = [*exploration_sections(manifest, found)]
        for report in reports.values():
            parts += training_sections(report)
        figures = training_figures(found, curves, reports)
        if html is None:
            print_sections(title, parts, figures, sys.stdout)
            return
        write_page(html, sections_page(title, "Numbers", parts, figures))
        say(printable(f"wrote {html}"))


def _print_json(run: Path, *parts: Any) -> None:
    import msgspec

    from adaptrag_cli.render import json_text

    names = ("manifest", "explored", "losses", "stages")
    told = {name: msgspec.to_builtins(part, str_keys=True) for name, part in zip(names, parts, strict=True)}
    print(json_text({"format": FORMAT, "run": str(run), **told}))
