"""Options that a command takes together and reads as settings, not one by one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from adaptrag_cli.cli.options import (
    PLACES,
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
    Stride,
    Theta,
    Threshold,
    Today,
    TopK,
    TopN,
    Trigger,
    typed_flags,
)
from adaptrag_cli.config import Settings, load_settings

Command = Callable[..., None]
Options = Mapping[str, Any]
"""Annotated types by the name of the parameter; each is optional."""

Encoder = Annotated[str | None, typer.Option(help="Encoder of the indexes that are built.", rich_help_panel=PLACES)]

LOOKING_UP: Options = {"retriever": RetrieverOption, "ais": Ais, "top_n": TopN, "top_k": TopK}
SINGLE_STRATEGIES: Options = {
    "gate": Gate,
    "selection": SelectionOption,
    "paths": Paths,
    "agreement": Agreement,
    "agreement_limit": AgreementLimit,
    "exclude_numbers": ExcludeNumbers,
    "neighbours": Neighbours,
    "labels": Labels,
    "floor": Floor,
    "prober": ProberOption,
    "theta": Theta,
    "decision": DecisionOption,
    "probe_query": ProbeQueryOption,
    "today": Today,
    "judge_model": JudgeModel,
    "reranker": Reranker,
}
WHILE_WRITING: Options = {
    "trigger": Trigger,
    "mode": ModeOption,
    "smoothing": SmoothingOption,
    "difference": DifferenceOption,
    "context_policy": ContextPolicyOption,
    "query_form": QueryFormOption,
    "reader": ReaderOption,
    "sources": SourcesOption,
    "stride": Stride,
    "examples": Examples,
    "max_retrievals": MaxRetrievals,
    "max_steps": MaxSteps,
}
MACHINE: Options = {
    "encoder": Encoder,
    "gpu_layers": GpuLayers,
    "context_length": ContextLength,
    "index_dir": IndexDir,
    "models_dir": ModelsDir,
    "config": ConfigFile,
}
EVALUATED: Options = {
    "threshold": Threshold,
    **LOOKING_UP,
    **SINGLE_STRATEGIES,
    **WHILE_WRITING,
    "model": Model,
    "adapter": Adapter,
    **MACHINE,
}
"""What `adaptrag eval` can set for all its strategies."""
CALIBRATED: Options = {**LOOKING_UP, "model": Model, "adapter": Adapter, "index": Index, **MACHINE}
"""What decides a calibration."""
PROBED: Options = {
    "retriever": RetrieverOption,
    "top_k": TopK,
    "examples": Examples,
    "model": Model,
    "adapter": Adapter,
    "index": Index,
    **MACHINE,
}
"""What decides the texts that a prober is trained on."""
SYNTHESIZED: Options = {
    "retriever": RetrieverOption,
    "top_k": TopK,
    "examples": Examples,
    "max_steps": MaxSteps,
    "model": Model,
    "adapter": Adapter,
    "index": Index,
    **MACHINE,
}
"""What decides the trees that `adaptrag deeprag synthesize` explores."""
TRAINED: Options = {"model": Model, "gpu_layers": GpuLayers, "models_dir": ModelsDir, "config": ConfigFile}
"""Which model `adaptrag deeprag train` changes, and where."""


def taking(options: Options) -> Callable[[Command], Command]:
    """Let a command take options beside its own; it reads them by `settings_typed`."""

    def extend(command: Command) -> Command:
        @functools.wraps(command)
        def called(**given: Any) -> None:
            command(**{name: value for name, value in given.items() if name not in options})

        own = inspect.signature(command, eval_str=True)
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in options.items()
        ]
        called.__signature__ = own.replace(parameters=[*own.parameters.values(), *added])  # type: ignore[attr-defined]
        return called

    return extend


def settings_typed(ctx: typer.Context) -> Settings:
    """The settings under what was typed; the file is that of `--config`."""
    return load_settings(flags=typed_flags(ctx), config_file=ctx.params["config"])
