"""The root command: registers the groups, prints `--help` and `--version`, and starts the process cleanly."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from adaptrag_cli import __version__
from adaptrag_cli.cli.ask import ask, replay
from adaptrag_cli.cli.calibrate import calibrate
from adaptrag_cli.cli.config import config
from adaptrag_cli.cli.deeprag import deeprag_app
from adaptrag_cli.cli.demo import demo
from adaptrag_cli.cli.doctor import doctor
from adaptrag_cli.cli.eval import eval_app
from adaptrag_cli.cli.index import index, indexes_app
from adaptrag_cli.cli.models import models_app
from adaptrag_cli.cli.probe import probe_app
from adaptrag_cli.cli.report import report
from adaptrag_cli.cli.strategies import strategies
from adaptrag_cli.cli.tui import tui
from adaptrag_cli.cli.usage import OneLineGroup

_ASKING = "Ask"
_PREPARING = "Prepare"
_MEASURING = "Measure"
_CHECKING = "Check"

_EPILOG = """
[bold]Examples[/bold]
  adaptrag demo
  adaptrag index ~/notes --name notes
  adaptrag ask "When does quiet time start?"
  adaptrag ask "When does quiet time start?" --strategy always -v
  adaptrag ask "When does quiet time start?" --json --trace run.jsonl
  adaptrag replay run.jsonl -v
  adaptrag tui "When does quiet time start?"
  adaptrag eval questions.jsonl --index notes --strategies never,always,dtr

[bold]Exit codes[/bold]
    0  all went well (also when the documents do not tell)
    1  the run failed
    2  a flag, setting or file that you wrote is wrong
    3  the index is missing, stale, damaged or busy
    4  a model is missing or cannot be used
  130  you stopped it
"""

app = typer.Typer(
    name="adaptrag",
    cls=OneLineGroup,
    help="Ask your own documents, and see why they were (or were not) looked up.",
    epilog=_EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,  # a programming error keeps its plain traceback
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("ask", rich_help_panel=_ASKING)(ask)
app.command("tui", rich_help_panel=_ASKING)(tui)
app.command("replay", rich_help_panel=_ASKING)(replay)
app.command("strategies", rich_help_panel=_ASKING)(strategies)
app.command("demo", rich_help_panel=_ASKING)(demo)
app.command("index", rich_help_panel=_PREPARING)(index)
app.add_typer(indexes_app, name="indexes", rich_help_panel=_PREPARING)
app.add_typer(models_app, name="models", rich_help_panel=_PREPARING)
app.add_typer(eval_app, name="eval", rich_help_panel=_MEASURING)
app.command("calibrate", rich_help_panel=_MEASURING)(calibrate)
app.add_typer(probe_app, name="probe", rich_help_panel=_MEASURING)
app.add_typer(deeprag_app, name="deeprag", rich_help_panel=_MEASURING)
app.command("report", rich_help_panel=_MEASURING)(report)
app.command("doctor", rich_help_panel=_CHECKING)(doctor)
app.command("config", rich_help_panel=_CHECKING)(config)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        print(f"adaptrag {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Ask your own documents, and see why they were (or were not) looked up."""


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a narrow encoding must not turn an answer into a traceback
    app(prog_name="adaptrag")
