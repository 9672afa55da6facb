"""`adaptrag ask` and `adaptrag replay`: one question, live or from a trace file, shown by the same view."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated

import typer

from adaptrag_cli.cli.boundary import failure_of, reporting_errors
from adaptrag_cli.cli.interrupt import cancelling_on_interrupt
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
    Peek,
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
from adaptrag_cli.config import Settings, load_settings
from adaptrag_cli.errors import ConfigError, RunCancelled
from adaptrag_cli.events import RunFailed, RunFinished
from adaptrag_cli.render import RunView
from adaptrag_cli.terminal import valid_unicode
from adaptrag_cli.trace import TraceWriter, read_trace

Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Show tokens with entropy, both paths, the ranking, settings, GPU layers, prompt sizes and times.",
        rich_help_panel=OUTPUT,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead of the answer.", rich_help_panel=OUTPUT)
]


def ask(
    ctx: typer.Context,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question, or - to read it from stdin.")],
    strategy: Strategy = None,
    threshold: Threshold = None,
    retriever: RetrieverOption = None,
    ais: Ais = None,
    top_n: TopN = None,
    top_k: TopK = None,
    style: StyleOption = None,
    peek: Peek = None,
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
    as_json: AsJson = False,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write every event, prompts in full, as a JSON line; replaces an earlier trace, and nothing else.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Ask a question, and see whether and why the documents were looked up.

    The answer goes to stdout, everything said about it to stderr.
    """
    with reporting_errors():
        query = _query(question)
        settings = load_settings(flags=typed_flags(ctx), config_file=config)
        with closing(RunView(sys.stdout, sys.stderr, verbose=verbose, as_json=as_json)) as view:
            _ask(query, settings, trace, view)


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trace that ask --trace FILE has written.")],
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show a recorded run again, to the letter, without a model.

    The exit code is that of the recorded run.
    """
    with reporting_errors(), closing(RunView(sys.stdout, sys.stderr, verbose=verbose, as_json=as_json)) as view:
        for event in read_trace(file):
            view.show(event)
        if isinstance(event, RunFailed):
            raise failure_of(event)


def _query(argument: str) -> str:
    """The question, with what is not Unicode replaced.

    Raises:
        ConfigError: it is blank.
    """
    text = sys.stdin.buffer.read().decode("utf-8", "replace") if argument == "-" else argument
    query = valid_unicode(text).strip()
    if not query:  # the engine refuses it too, but only when the models are loaded
        raise ConfigError("the question is empty", 'ask something: adaptrag ask "Who wrote the handbook?"')
    return query


def _ask(query: str, settings: Settings, trace: Path | None, view: RunView) -> None:
    from adaptrag_cli.session.session import open_session

    with ExitStack() as stack:
        writer = stack.enter_context(TraceWriter(trace)) if trace else None
        session = stack.enter_context(closing(open_session(settings, on_note=view.note)))
        interruption = stack.enter_context(cancelling_on_interrupt(session.model.cancel))
        run = session.ask(query)
        event = next(run)
        while True:
            if writer:
                writer.write(event)
            view.show(event)
            if isinstance(event, RunFinished | RunFailed):
                break
            # Between two calls of the model there is nothing to cancel, so the run itself is told.
            event = run.throw(RunCancelled("stopped")) if interruption.is_requested else next(run)
    if isinstance(event, RunFailed):
        raise failure_of(event)
