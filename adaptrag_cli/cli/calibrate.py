"""`adaptrag calibrate`: fit threshold, odds and weighing for an answer model on questions of one's own."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from adaptrag_cli.cli.boundary import reporting_errors, say
from adaptrag_cli.cli.options import (
    OUTPUT,
    PLACES,
    Ais,
    ConfigFile,
    ContextLength,
    GpuLayers,
    Index,
    IndexDir,
    Model,
    ModelsDir,
    RetrieverOption,
    TopK,
    TopN,
    typed_flags,
)
from adaptrag_cli.config import load_settings
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.terminal import printable

if TYPE_CHECKING:
    from adaptrag_cli.config import Settings
    from adaptrag_cli.evaluation.plan import Plan
    from adaptrag_cli.evaluation.questions import QuestionSet
    from adaptrag_cli.evaluation.results import RunData

_WHAT = "What is fitted"
_QUESTIONS = "Questions"
_WRITTEN = "written.questions.jsonl"


def calibrate(
    ctx: typer.Context,
    data: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DATA",
            help="Question files with answers, as for eval. Without any, the model writes questions from the index: "
            "weaker evidence.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="em|f1", help="What the threshold is best for; em by default.", rich_help_panel=_WHAT),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(metavar="RATIO", min=0, max=1, help="Look up at most this share.", rich_help_panel=_WHAT),
    ] = None,
    alpha: Annotated[
        bool, typer.Option("--alpha", help="Refit PAIRS' query weight (--ais dynamic) too.", rich_help_panel=_WHAT)
    ] = False,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="Questions of each file, or written.", rich_help_panel=_QUESTIONS)
    ] = 100,
    seed: Annotated[int, typer.Option(metavar="S", help="Which ones.", rich_help_panel=_QUESTIONS)] = 0,
    corpus: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSONL of passages, as for eval.", rich_help_panel=_QUESTIONS),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the run that is fitted on.", rich_help_panel=OUTPUT)
    ] = Path("adaptrag-calibration"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.", rich_help_panel=OUTPUT)] = (
        False
    ),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of tables.", rich_help_panel=OUTPUT)
    ] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Delete the model's calibration.", rich_help_panel=OUTPUT)
    ] = False,
    retriever: RetrieverOption = None,
    ais: Ais = None,
    top_n: TopN = None,
    top_k: TopK = None,
    model: Model = None,
    index: Index = None,
    encoder: Annotated[
        str | None, typer.Option(help="Encoder of the indexes that are built.", rich_help_panel=PLACES)
    ] = None,
    gpu_layers: GpuLayers = None,
    context_length: ContextLength = None,
    index_dir: IndexDir = None,
    models_dir: ModelsDir = None,
    config: ConfigFile = None,
) -> None:
    """Find out when this model should look things up: one pass over your questions, then threshold, odds and weighing.

    The result is kept beside the models and used by ask, tui and eval. Do not report numbers on the same questions.
    """
    with reporting_errors():
        settings = load_settings(flags=typed_flags(ctx), config_file=config)
        if forget:
            _forget(settings)
            return
        if budget is not None and target is not None:
            raise ConfigError("--budget and --target exclude each other", "give one of them")
        if target not in {None, "em", "f1"}:
            raise ConfigError(f"--target {target!r} is no target", "em or f1")
        _calibrate(
            settings,
            data or [],
            target=cast(Literal["em", "f1"], target or "em"),
            budget=budget,
            alpha=alpha,
            limit=limit,
            seed=seed,
            corpus=corpus,
            out=out,
            resume=resume,
            as_json=as_json,
        )


def _calibrate(
    settings: Settings,
    data: list[Path],
    *,
    target: Literal["em", "f1"],
    budget: float | None,
    alpha: bool,
    limit: int,
    seed: int,
    corpus: Path | None,
    out: Path,
    resume: bool,
    as_json: bool,
) -> None:
    from adaptrag_cli.calibration import calibration_path, write_calibration
    from adaptrag_cli.evaluation.calibrate import STRATEGIES, Aim, calibrate, require_enough
    from adaptrag_cli.evaluation.plan import CellPlan, Plan, sampled, with_unique_names
    from adaptrag_cli.session import models_dir_of, plan_session
    from adaptrag_cli.strategies.base import Options

    session_plan = plan_session(replace(settings, ask=replace(settings.ask, strategy="dtr")))
    encoder: str | None = None
    if settings.index.name is not None or not data:
        settings, encoder = _with_index(settings)
    read = _read(data) if data else (_written(settings, out, limit=limit, seed=seed, resume=resume),)
    sets = with_unique_names([sampled(question_set, limit, seed) for question_set in read])
    require_enough(sum(len(question_set.questions) for question_set in sets))
    run = _evaluate(
        Plan(
            settings=settings,
            sets=sets,
            strategies=STRATEGIES,
            cells=(CellPlan(name="base"),),
            out=out,
            cache=out / "cache.sqlite",
            seed=seed,
            limit=limit,
            corpus=corpus,
        ),
        resume=resume,
    )
    shipped = session_plan.shipped.threshold if session_plan.shipped else Options().threshold
    report = calibrate(
        run,
        aim=Aim(target=target, budget=budget),
        shipped=shipped,
        source=_source(sets, settings.index.name if not data else None),
        labelled=bool(data),
        encoder=encoder,
        alpha=alpha,
        seed=seed,
    )
    path = calibration_path(models_dir_of(settings), session_plan.load.file.name)
    write_calibration(path, report.calibrated)
    from adaptrag_cli.cli.calibration_view import as_document, print_calibration

    if as_json:
        print(json.dumps(as_document(report, path), ensure_ascii=False, indent=2))
    else:
        print_calibration(report, path, sys.stdout)


def _evaluate(plan: Plan, *, resume: bool) -> RunData:
    from adaptrag_cli.cli.eval_progress import watching_evaluation
    from adaptrag_cli.evaluation.run import evaluate

    for question_set in plan.sets:
        for note in question_set.notes:
            say(printable(f"{question_set.name}: {note}"))
    with watching_evaluation() as watcher:
        return evaluate(plan, watcher, resume=resume)


def _read(data: list[Path]) -> tuple[QuestionSet, ...]:
    from adaptrag_cli.evaluation.formats.reading import load_questions

    return tuple(load_questions(path) for path in data)


def _source(sets: tuple[QuestionSet, ...], index: str | None) -> str:
    """Where the questions come from, in words."""
    if index is not None:
        return f"{len(sets[0].questions)} questions written from index {index}"
    return ", ".join(f"{question_set.name} ({len(question_set.questions)} questions)" for question_set in sets)


def _with_index(settings: Settings) -> tuple[Settings, str]:
    """Name the index that will be asked, and tell its encoder."""
    from adaptrag_cli.index.home import choose_index, open_index
    from adaptrag_cli.session import index_dir_of

    index_dir = index_dir_of(settings)
    name = choose_index(index_dir, settings.index.name)
    return replace(settings, index=replace(settings.index, name=name)), open_index(index_dir, name).encoder.name


def _written(settings: Settings, out: Path, *, limit: int, seed: int, resume: bool) -> QuestionSet:
    """Questions that the model writes; with --resume the ones that it has written."""
    from adaptrag_cli.evaluation.formats.reading import load_questions

    path = out / _WRITTEN
    if not (resume and path.exists()):
        _write_questions(settings, path, limit=limit, seed=seed)
    return load_questions(path)


def _write_questions(settings: Settings, path: Path, *, limit: int, seed: int) -> None:
    from adaptrag_cli.cli.interrupt import cancelling_on_interrupt
    from adaptrag_cli.evaluation.calibrate import require_enough
    from adaptrag_cli.evaluation.question_writing import save_questions, write_questions
    from adaptrag_cli.session import load_model, model_load_of, models_dir_of, open_index_for

    retriever = open_index_for(settings, models_dir_of(settings)).retriever
    require_enough(limit)
    model = load_model(model_load_of(settings), say)
    say("no DATA: the model writes questions from chunks of the index (weaker evidence than questions of people)")
    try:
        with cancelling_on_interrupt(model.cancel) as interruption:
            written = write_questions(
                retriever,
                model,
                limit=limit,
                seed=seed,
                on_written=lambda count: say(f"{count} of {limit} questions written") if count % 10 == 0 else None,
                should_stop=lambda: interruption.is_requested,
            )
    finally:
        model.close()
    require_enough(len(written))
    save_questions(path, written)


def _forget(settings: Settings) -> None:
    from adaptrag_cli.calibration import calibration_path
    from adaptrag_cli.models.files import locate_model
    from adaptrag_cli.session import models_dir_of

    models_dir = models_dir_of(settings)
    path = calibration_path(models_dir, locate_model(settings.models.answer, models_dir).name)
    if not path.exists():
        say(printable(f"nothing was calibrated for {settings.models.answer}"))
        return
    path.unlink()
    say(printable(f"forgot {path}"))
