"""`adaptrag tui`: the terminal interface, live or over a recorded trace."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from adaptrag_cli.cli.boundary import reporting_errors
from adaptrag_cli.cli.options import (
    OUTPUT,
    Adapter,
    Agreement,
    AgreementLimit,
    Ais,
    ConfigFile,
    ContextLength,
    ContextPolicyOption,
    DecisionOption,
    DifferenceOption,
    Examples,
    ExcludeNumbers,
    Floor,
    Gate,
    GpuLayers,
    Index,
    IndexDir,
    JudgeModel,
    Labels,
    MaxRetrievals,
    MaxSteps,
    Model,
    ModelsDir,
    ModeOption,
    Neighbours,
    Paths,
    ProbeQueryOption,
    ProberOption,
    QueryFormOption,
    ReaderOption,
    Reranker,
    RetrieverOption,
    SelectionOption,
    SmoothingOption,
    SourcesOption,
    Strategy,
    Stride,
    StyleOption,
    Theta,
    Threshold,
    Today,
    TopK,
    TopN,
    Trigger,
    typed_flags,
)
from adaptrag_cli.config import load_settings
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.events import AnyEvent
from adaptrag_cli.terminal import valid_unicode
from adaptrag_cli.trace import read_trace


def tui(
    ctx: typer.Context,
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="Asked as soon as the model is loaded.", show_default=False)
    ] = "",
    strategy: Strategy = None,
    threshold: Threshold = None,
    retriever: RetrieverOption = None,
    ais: Ais = None,
    top_n: TopN = None,
    top_k: TopK = None,
    style: StyleOption = None,
    gate: Gate = None,
    selection: SelectionOption = None,
    paths: Paths = None,
    agreement: Agreement = None,
    agreement_limit: AgreementLimit = None,
    exclude_numbers: ExcludeNumbers = None,
    neighbours: Neighbours = None,
    labels: Labels = None,
    floor: Floor = None,
    prober: ProberOption = None,
    theta: Theta = None,
    decision: DecisionOption = None,
    probe_query: ProbeQueryOption = None,
    today: Today = None,
    trigger: Trigger = None,
    mode: ModeOption = None,
    smoothing: SmoothingOption = None,
    difference: DifferenceOption = None,
    context_policy: ContextPolicyOption = None,
    query_form: QueryFormOption = None,
    reader: ReaderOption = None,
    sources: SourcesOption = None,
    stride: Stride = None,
    examples: Examples = None,
    max_retrievals: MaxRetrievals = None,
    max_steps: MaxSteps = None,
    index: Index = None,
    model: Model = None,
    adapter: Adapter = None,
    judge_model: JudgeModel = None,
    reranker: Reranker = None,
    gpu_layers: GpuLayers = None,
    context_length: ContextLength = None,
    index_dir: IndexDir = None,
    models_dir: ModelsDir = None,
    config: ConfigFile = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Play a trace that ask --trace FILE has written; no model is loaded.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
) -> None:
    """Explore retrieval decisions: watch the draft, the decision, both search paths and the selection, and ask what if.

    Press ? inside for the keys and what each number means.
    """
    with reporting_errors():
        flags = typed_flags(ctx)
        load_settings(flags=flags, config_file=config)  # a typing mistake is told before the screen is taken
        query = valid_unicode(question).strip()
        if trace is not None and query:
            raise ConfigError("a recorded trace answers no question", "leave out QUESTION, or --trace")
        events = _read(trace) if trace is not None else ()
        require_terminal("use: adaptrag ask QUESTION -v, or adaptrag replay FILE -v")

        from adaptrag_cli.tui.app import AdaptRAGApp
        from adaptrag_cli.tui.launch import Launch

        launch = Launch(flags=flags, config_file=config, question=query, trace=events, trace_path=trace)
        AdaptRAGApp(launch).run()


def _read(path: Path) -> tuple[AnyEvent, ...]:
    return tuple(read_trace(path))


def require_terminal(remedy: str) -> None:
    """Refuse where no screen can be drawn.

    Raises:
        ConfigError: this is no terminal, or a dumb one.
    """
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):  # textual draws on stderr
        raise ConfigError("the terminal interface needs a terminal, and this is none", remedy)
    if os.environ.get("TERM") in {"dumb", "unknown"}:
        raise ConfigError(f"this terminal (TERM={os.environ['TERM']}) cannot draw a screen", remedy)
