"""The options that several commands share: how to answer, and with which models and index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adaptrag_cli.config import allowed_for, load_settings
from adaptrag_cli.errors import ConfigError

METHOD = "How to answer"
PLACES = "Models and index"
OUTPUT = "Output"


def _complete_strategy(incomplete: str) -> list[tuple[str, str]]:
    from adaptrag_cli.strategies.base import load_strategy, strategy_names

    return [(name, load_strategy(name).summary) for name in strategy_names() if name.startswith(incomplete)]


def complete_index(incomplete: str) -> list[str]:
    """Names of indexes, for the shell; none where the settings cannot be read, since a TAB tells no errors."""
    from adaptrag_cli.index.home import index_names
    from adaptrag_cli.locations import default_index_dir

    try:
        folder = load_settings().index.dir or default_index_dir(Path.cwd())[0]
    except ConfigError:
        return []
    return [name for name in index_names(folder) if name.startswith(incomplete)]


def _complete_model(incomplete: str) -> list[str]:
    from adaptrag_cli.models.catalogue import ENTRIES

    names = [entry.name for entry in ENTRIES if entry.kind == "answer"]
    return [name for name in names if name.startswith(incomplete)]


Strategy = Annotated[
    str | None,
    typer.Option(
        help="never, always, or dtr (the default), which looks up only what the model is unsure of.",
        autocompletion=_complete_strategy,
        rich_help_panel=METHOD,
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(metavar="U", help="Look up when the draft's uncertainty u is greater.", rich_help_panel=METHOD),
]
RetrieverOption = Annotated[str | None, typer.Option(help=f"{allowed_for('ask.retriever')}.", rich_help_panel=METHOD)]
Ais = Annotated[
    str | None,
    typer.Option(help=f"Score that picks chunks from both paths: {allowed_for('ask.ais')}.", rich_help_panel=METHOD),
]
TopN = Annotated[int | None, typer.Option(metavar="N", help="Chunks that each path finds.", rich_help_panel=METHOD)]
TopK = Annotated[
    int | None, typer.Option(metavar="K", help="Chunks that the answer is read from.", rich_help_panel=METHOD)
]
StyleOption = Annotated[
    str | None,
    typer.Option(
        help="short (a word or phrase) or cited (sentences with [1] markers).".replace("[", "\\["),
        rich_help_panel=METHOD,
    ),
]
Peek = Annotated[
    bool | None,
    typer.Option(
        "--peek/--no-peek",
        help="When nothing is looked up, name the best chunk that was not consulted.",
        show_default=False,
        rich_help_panel=METHOD,
    ),
]
Index = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Index to ask; not needed if there is one.",
        autocompletion=complete_index,
        rich_help_panel=PLACES,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(help="Catalogue name or path of a GGUF file.", autocompletion=_complete_model, rich_help_panel=PLACES),
]
GpuLayers = Annotated[str | None, typer.Option(metavar="N", help="auto, all, or a number.", rich_help_panel=PLACES)]
ContextLength = Annotated[
    int | None, typer.Option(metavar="N", help="Context window in tokens.", rich_help_panel=PLACES)
]
IndexDir = Annotated[Path | None, typer.Option(help="Folder of the indexes.", rich_help_panel=PLACES)]
ModelsDir = Annotated[Path | None, typer.Option(help="Folder of the model files.", rich_help_panel=PLACES)]
ConfigFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Settings file to read.", rich_help_panel=PLACES)]
