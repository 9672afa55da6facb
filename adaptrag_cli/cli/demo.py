"""`adaptrag demo`: everything from nothing to four answered questions, on documents that no model has read."""

from __future__ import annotations

import shutil
import sys
import textwrap
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptrag_cli.cli.boundary import failure_of, reporting_errors
from adaptrag_cli.cli.interrupt import cancelling_on_interrupt
from adaptrag_cli.config import Settings, load_settings
from adaptrag_cli.errors import RunCancelled
from adaptrag_cli.render import RunView
from adaptrag_cli.terminal import is_plain, printable

if TYPE_CHECKING:
    from adaptrag_cli.demo.tour import Case, Row
    from adaptrag_cli.index.build import IndexReport
    from adaptrag_cli.run_summary import RunSummary
    from adaptrag_cli.session.session import Session

_LABEL_WIDTH = 12
_MAX_WIDTH = 100
_BOLD = "1"
_DIM = "2"


def demo(
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Answer model: catalogue name or path of a GGUF file.")
    ] = None,
    adapter: Annotated[
        str | None, typer.Option(metavar="NAME", help="LoRA adapter to put on the model; none: without.")
    ] = None,
    index_dir: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder of the indexes.")] = None,
    models_dir: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder of the model files.")] = None,
) -> None:
    """Fetch the models, index the sample documents, and ask four questions and a trap.

    The models (1.2 GB for the default ones) are fetched once; a second run starts at once.
    """
    with reporting_errors():
        from adaptrag_cli.demo.corpus import DEMO_INDEX

        settings = load_settings(
            flags={
                "ask.strategy": "dtr",
                "ask.style": "short",
                "ask.peek": True,
                "index.name": DEMO_INDEX,
                "index.dir": index_dir,
                "models.answer": model,
                "models.adapter": adapter,
                "models.dir": models_dir,
            }
        )
        _show_tour(settings, _set_up(settings))


def _set_up(settings: Settings) -> IndexReport:
    from adaptrag_cli.cli.index_progress import showing_build
    from adaptrag_cli.cli.pull_progress import showing_pulls
    from adaptrag_cli.demo.corpus import fetch_models, index_corpus

    with showing_pulls() as on_pull:
        fetch_models(settings, on_pull)
    with showing_build() as on_build:
        return index_corpus(settings, on_build)


def _show_tour(settings: Settings, report: IndexReport) -> None:
    from adaptrag_cli.demo.tour import CASES, OWN_FOLDER, SCORES, tell
    from adaptrag_cli.session.session import open_session

    with ExitStack() as stack:
        status = stack.enter_context(closing(RunView(sys.stdout, sys.stderr)))
        session = stack.enter_context(closing(open_session(settings, on_note=status.note)))
        status.close()
        _print_welcome(session, report)
        for number, case in enumerate(CASES, start=1):
            run = _ask(session, case, status)
            _print_heading(f"{number}  {case.title}")
            for row in tell(case, run):
                _print_row(row)
    print()
    _print_paragraph(SCORES)
    _print_heading("Now your own folder")
    for command in OWN_FOLDER:
        print(f"   {command}")


def _ask(session: Session, case: Case, status: RunView) -> RunSummary:
    """Run one question to its end.

    Raises:
        AdaptRAGError: the run failed, or the person stopped it.
    """
    from adaptrag_cli.events import PromptBuilt, RunFailed
    from adaptrag_cli.run_summary import fold

    events = []
    with cancelling_on_interrupt(session.model.cancel) as interruption, closing(status):
        for event in session.ask(case.query):
            events.append(event)
            if isinstance(event, PromptBuilt):
                status.show(event)  # says what takes time, on a terminal
            if interruption.is_requested:
                raise RunCancelled("stopped", "run it again: what was fetched and indexed is kept")
            if isinstance(event, RunFailed):
                raise failure_of(event)
    return fold(events)


def _print_welcome(session: Session, report: IndexReport) -> None:
    documents = report.documents_indexed + report.documents_unchanged
    _print_paragraph(
        f"{documents} documents of the Pellwether Observatory, an island that does not exist, are indexed as "
        f'"{report.name}": {report.chunks} chunks of handbooks, minutes, logbooks, contracts and price lists. No model '
        "has ever read them."
    )
    print()
    _print_paragraph(
        f"{session.model.info.name} first answers each question from memory. u tells how unsure it was of its own "
        "words (mean negative log-probability; 0 is certain). Only above the threshold "
        f"{session.options.threshold:g} are the documents looked up."
    )
    for warning in session.warnings:
        _print_paragraph(f"warning: {warning.message}")


def _print_heading(text: str) -> None:
    print(f"\n{_styled(text, _BOLD)}")


def _print_row(row: Row) -> None:
    indent = " " * (3 + _LABEL_WIDTH)
    lines = textwrap.wrap(printable(row.text), max(20, _width() - len(indent))) or [""]
    first, *rest = lines
    shown = _styled(first, _BOLD) if row.label == "Answer" else first
    print(f"   {_styled(row.label.ljust(_LABEL_WIDTH), _DIM)}{shown}")
    for line in rest:
        print(f"{indent}{line}")


def _print_paragraph(text: str) -> None:
    for line in textwrap.wrap(printable(text), _width()):
        print(line)


def _styled(text: str, style: str) -> str:
    return text if is_plain(sys.stdout) else f"\x1b[{style}m{text}\x1b[0m"


def _width() -> int:
    return min(_MAX_WIDTH, shutil.get_terminal_size((_MAX_WIDTH, 24)).columns)
