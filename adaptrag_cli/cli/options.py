"""The options that several commands share: how to answer, and with which models and index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adaptrag_cli.config import allowed_for, load_settings
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.strategies.table import strategy_names

METHOD = "How to answer"
SINGLE = "Options of single strategies"
WHILE_WRITING = "Looking up while the answer is written"
PLACES = "Models and index"
OUTPUT = "Output"


def _complete_strategy(incomplete: str) -> list[tuple[str, str]]:
    from adaptrag_cli.strategies.base import load_strategy

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


def _complete_adapter(incomplete: str) -> list[str]:
    from adaptrag_cli.locations import default_models_dir
    from adaptrag_cli.models.adapters import adapter_names

    try:
        folder = load_settings().models.dir or default_models_dir()
    except ConfigError:
        return []
    return [name for name in adapter_names(folder) if name.startswith(incomplete)]


Strategy = Annotated[
    str | None,
    typer.Option(
        help=f"{', '.join(strategy_names())}. The default, dtr, looks up only what the model is unsure of.",
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
Gate = Annotated[
    bool | None,
    typer.Option(
        "--gate/--no-gate", help="dtr: decide first, or look everything up.", show_default=False, rich_help_panel=SINGLE
    ),
]
SelectionOption = Annotated[
    str | None,
    typer.Option(
        "--selection",
        help=f"dtr, dpr-ais: chunks of both paths by {allowed_for('ask.selection')}.",
        rich_help_panel=SINGLE,
    ),
]
Paths = Annotated[
    str | None, typer.Option(help=f"dtr, dpr-ais: search {allowed_for('ask.paths')}.", rich_help_panel=SINGLE)
]
Agreement = Annotated[
    str | None,
    typer.Option(help=f"pairs: two answers agree by {allowed_for('ask.agreement')}.", rich_help_panel=SINGLE),
]
AgreementLimit = Annotated[
    float | None, typer.Option(metavar="X", help="pairs: from this token F1 or cosine on.", rich_help_panel=SINGLE)
]
ExcludeNumbers = Annotated[
    bool | None,
    typer.Option(
        "--exclude-numbers/--include-numbers",
        help="pairs: look agreed answers with a number up all the same.",
        show_default=False,
        rich_help_panel=SINGLE,
    ),
]
Neighbours = Annotated[
    int | None, typer.Option(metavar="K", help="skr-knn, adaptive-rag: similar questions.", rich_help_panel=SINGLE)
]
Labels = Annotated[
    Path | None,
    typer.Option(metavar="RUN", help="skr-knn, adaptive-rag, popularity: an eval run.", rich_help_panel=SINGLE),
]
Floor = Annotated[
    float | None,
    typer.Option(metavar="P", help="dtr+verify: no answer less likely right than this.", rich_help_panel=SINGLE),
]
ProberOption = Annotated[
    str | None,
    typer.Option("--prober", metavar="NAME", help="probing, uar: else the model's newest.", rich_help_panel=SINGLE),
]
Theta = Annotated[
    float | None, typer.Option(metavar="X", help="probing, uar: the higher, the more look-ups.", rich_help_panel=SINGLE)
]
DecisionOption = Annotated[
    str | None,
    typer.Option("--decision", help=f"probing, uar: add up {allowed_for('ask.decision')}.", rich_help_panel=SINGLE),
]
ProbeQueryOption = Annotated[
    str | None,
    typer.Option("--probe-query", help=f"probing: query {allowed_for('ask.probe_query')}.", rich_help_panel=SINGLE),
]
Trigger = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        help="Look up from here on. etc: entropy turning, in nats; dragin: nats times attention; flare: 0 to 1.",
        rich_help_panel=WHILE_WRITING,
    ),
]
ModeOption = Annotated[
    str | None,
    typer.Option("--mode", help=f"etc, dragin, flare: as in {allowed_for('ask.mode')}.", rich_help_panel=WHILE_WRITING),
]
SmoothingOption = Annotated[
    str | None,
    typer.Option("--smoothing", help=f"etc: {allowed_for('ask.smoothing')}.", rich_help_panel=WHILE_WRITING),
]
DifferenceOption = Annotated[
    str | None,
    typer.Option("--difference", help=f"etc: {allowed_for('ask.difference')}.", rich_help_panel=WHILE_WRITING),
]
ContextPolicyOption = Annotated[
    str | None,
    typer.Option(
        "--context-policy",
        help=f"Chunks found before: {allowed_for('ask.context_policy')}.",
        rich_help_panel=WHILE_WRITING,
    ),
]
QueryFormOption = Annotated[
    str | None,
    typer.Option("--query-form", help=f"flare: query {allowed_for('ask.query_form')}.", rich_help_panel=WHILE_WRITING),
]
ReaderOption = Annotated[
    str | None,
    typer.Option("--reader", help=f"ircot: {allowed_for('ask.reader')}.", rich_help_panel=WHILE_WRITING),
]
SourcesOption = Annotated[
    str | None,
    typer.Option("--sources", help=f"deeprag: {allowed_for('ask.sources')}.", rich_help_panel=WHILE_WRITING),
]
Stride = Annotated[
    int | None, typer.Option(metavar="N", help="ralm: tokens between look-ups.", rich_help_panel=WHILE_WRITING)
]
Examples = Annotated[
    int | None, typer.Option(metavar="N", help="Worked examples in the prompt, 0 to 8.", rich_help_panel=WHILE_WRITING)
]
MaxRetrievals = Annotated[
    int | None, typer.Option(metavar="N", help="Most look-ups of one question.", rich_help_panel=WHILE_WRITING)
]
MaxSteps = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="deeprag, iterdrag, auto-rag, search-o1: most steps.", rich_help_panel=WHILE_WRITING
    ),
]
Today = Annotated[
    str | None, typer.Option(metavar="DATE", help="taare: the date that the judge is told.", rich_help_panel=SINGLE)
]
JudgeModel = Annotated[
    str | None,
    typer.Option("--judge-model", help="llm-judge, taare, can-answer: another model judges.", rich_help_panel=SINGLE),
]
Reranker = Annotated[
    str | None,
    typer.Option(help="rerank, --ais rerank: a cross-encoder; else the answer model.", rich_help_panel=SINGLE),
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
Adapter = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="LoRA adapter to put on the model; none: without.",
        autocompletion=_complete_adapter,
        rich_help_panel=PLACES,
    ),
]
GpuLayers = Annotated[str | None, typer.Option(metavar="N", help="auto, all, or a number.", rich_help_panel=PLACES)]
ContextLength = Annotated[
    int | None, typer.Option(metavar="N", help="Context window in tokens.", rich_help_panel=PLACES)
]
IndexDir = Annotated[Path | None, typer.Option(help="Folder of the indexes.", rich_help_panel=PLACES)]
ModelsDir = Annotated[Path | None, typer.Option(help="Folder of the model files.", rich_help_panel=PLACES)]
ConfigFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Settings file to read.", rich_help_panel=PLACES)]

_SETTINGS = {
    "strategy": "ask.strategy",
    "threshold": "ask.threshold",
    "retriever": "ask.retriever",
    "ais": "ask.ais",
    "top_n": "ask.top_n",
    "top_k": "ask.top_k",
    "style": "ask.style",
    "peek": "ask.peek",
    "gate": "ask.gate",
    "selection": "ask.selection",
    "paths": "ask.paths",
    "agreement": "ask.agreement",
    "agreement_limit": "ask.agreement_limit",
    "exclude_numbers": "ask.exclude_numbers",
    "neighbours": "ask.neighbours",
    "labels": "ask.labels",
    "floor": "ask.floor",
    "prober": "ask.prober",
    "theta": "ask.theta",
    "decision": "ask.decision",
    "probe_query": "ask.probe_query",
    "trigger": "ask.trigger",
    "mode": "ask.mode",
    "smoothing": "ask.smoothing",
    "difference": "ask.difference",
    "context_policy": "ask.context_policy",
    "query_form": "ask.query_form",
    "reader": "ask.reader",
    "sources": "ask.sources",
    "stride": "ask.stride",
    "examples": "ask.examples",
    "max_retrievals": "ask.max_retrievals",
    "max_steps": "ask.max_steps",
    "today": "ask.today",
    "index": "index.name",
    "index_dir": "index.dir",
    "model": "models.answer",
    "adapter": "models.adapter",
    "judge_model": "models.judge",
    "reranker": "models.reranker",
    "encoder": "models.encoder",
    "models_dir": "models.dir",
    "gpu_layers": "models.gpu_layers",
    "context_length": "models.context_length",
}
"""The setting that each of these options sets, by the name of the parameter."""


def setting_of(parameter: str) -> str | None:
    """The setting that the option of this parameter sets."""
    return _SETTINGS.get(parameter)


def typed_flags(ctx: typer.Context) -> dict[str, str | int | float | bool]:
    """The settings that were typed as options of a command, by dotted name; paths are made absolute."""
    given = {_SETTINGS[name]: value for name, value in ctx.params.items() if name in _SETTINGS and value is not None}
    return {name: str(value.absolute()) if isinstance(value, Path) else value for name, value in given.items()}
