"""`adaptrag calibrate`: fit threshold, odds and weighing for an answer model on questions of one's own."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from adaptrag_cli.cli.boundary import reporting_errors, say
from adaptrag_cli.cli.option_groups import CALIBRATED, settings_typed, taking
from adaptrag_cli.cli.options import OUTPUT
from adaptrag_cli.cli.self_made import SelfMade, self_made_questions, with_index
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.terminal import printable

if TYPE_CHECKING:
    from adaptrag_cli.calibration import Calibrated
    from adaptrag_cli.config import Settings
    from adaptrag_cli.evaluation.plan import Plan
    from adaptrag_cli.evaluation.questions import QuestionSet
    from adaptrag_cli.evaluation.results import RunData

_WHAT = "What is fitted"
_QUESTIONS = "Questions"


@taking(CALIBRATED)
def calibrate(
    ctx: typer.Context,
    data: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DATA",
            help="Question files with answers, as for eval; at least 40 questions. Without any, the model writes "
            "some from the index: weaker evidence.",
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
    alpha_only: Annotated[
        bool,
        typer.Option("--alpha-only", help="Refit that weight alone: the rest stays as it is.", rich_help_panel=_WHAT),
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
) -> None:
    """Find out when this model should look things up: one pass over your questions, then threshold, odds and weighing.

    The result is kept beside the models and used by ask, tui and eval. Do not report numbers on the same questions.
    """
    with reporting_errors():
        settings = settings_typed(ctx)
        if forget:
            _forget(settings)
            return
        if budget is not None and target is not None:
            raise ConfigError("--budget and --target exclude each other", "give one of them")
        if alpha_only and (budget is not None or target is not None):
            raise ConfigError("--alpha-only chooses no threshold, so --budget and --target say nothing", "leave it out")
        if target not in {None, "em", "f1"}:
            raise ConfigError(f"--target {target!r} is no target", "em or f1")
        _calibrate(
            _Wanted(
                target=cast(Literal["em", "f1"], target or "em"),
                budget=budget,
                alpha=alpha,
                alpha_only=alpha_only,
                limit=limit,
                seed=seed,
                corpus=corpus,
                out=out,
                resume=resume,
                as_json=as_json,
            ),
            settings,
            data or [],
        )


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """What the command line asks for."""

    target: Literal["em", "f1"]
    budget: float | None
    alpha: bool
    alpha_only: bool
    limit: int
    seed: int
    corpus: Path | None
    out: Path
    resume: bool
    as_json: bool


def _calibrate(wanted: _Wanted, settings: Settings, data: list[Path]) -> None:
    from adaptrag_cli.calibration import calibration_path, read_calibration
    from adaptrag_cli.evaluation.calibrate import ALPHA_STRATEGIES, STRATEGIES, require_enough
    from adaptrag_cli.evaluation.plan import CellPlan, Plan, sampled, with_unique_names
    from adaptrag_cli.evaluation.resume import require_run_folder
    from adaptrag_cli.session.plan import models_dir_of, plan_session

    require_run_folder(wanted.out)
    session_plan = plan_session(replace(settings, ask=replace(settings.ask, strategy="dtr")))
    encoder: str | None = None
    if settings.index.name is not None or not data:
        settings, encoder = with_index(settings)
    read = _read(data) if data else (_written(settings, wanted),)
    sets = with_unique_names([sampled(question_set, wanted.limit, wanted.seed) for question_set in read])
    if not wanted.alpha_only:
        require_enough(sum(len(question_set.questions) for question_set in sets))
    run = _evaluate(
        Plan(
            settings=settings,
            sets=sets,
            strategies=ALPHA_STRATEGIES if wanted.alpha_only else STRATEGIES,
            cells=(CellPlan(name="base"),),
            out=wanted.out,
            cache=wanted.out / "cache.sqlite",
            seed=wanted.seed,
            limit=wanted.limit,
            corpus=wanted.corpus,
        ),
        resume=wanted.resume,
    )
    path = calibration_path(models_dir_of(settings), session_plan.load.file.name)
    fit = _Fit(
        run=run,
        path=path,
        earlier=read_calibration(path),
        source=_source(sets, settings.index.name if not data else None),
        labelled=bool(data),
        encoder=encoder,
        shipped=session_plan.uncalibrated_threshold,
    )
    if wanted.alpha_only:
        _fit_alpha(fit, wanted)
    else:
        _fit_all(fit, wanted)


@dataclass(frozen=True, kw_only=True)
class _Fit:
    """A finished run, and what else decides what is fitted on it."""

    run: RunData
    path: Path
    earlier: Calibrated | None
    source: str
    labelled: bool
    encoder: str | None
    shipped: float


def _fit_all(fit: _Fit, wanted: _Wanted) -> None:
    from adaptrag_cli.calibration import write_calibration
    from adaptrag_cli.cli.calibration_view import as_document, print_calibration
    from adaptrag_cli.evaluation.calibrate import Aim, calibrate
    from adaptrag_cli.render import json_text

    report = calibrate(
        fit.run,
        aim=Aim(target=wanted.target, budget=wanted.budget),
        shipped=fit.shipped,
        source=fit.source,
        labelled=fit.labelled,
        encoder=fit.encoder,
        alpha=wanted.alpha,
        earlier=fit.earlier,
        seed=wanted.seed,
    )
    write_calibration(fit.path, report.calibrated)
    if wanted.as_json:
        print(json_text(as_document(report, fit.path)))
    else:
        print_calibration(report, fit.path, sys.stdout)


def _fit_alpha(fit: _Fit, wanted: _Wanted) -> None:
    from adaptrag_cli.calibration import write_calibration
    from adaptrag_cli.cli.calibration_view import alpha_as_document, print_alpha_calibration
    from adaptrag_cli.evaluation.calibrate import calibrate_alpha, replaced_note
    from adaptrag_cli.render import json_text

    calibrated, alpha = calibrate_alpha(
        fit.run,
        source=fit.source,
        labelled=fit.labelled,
        encoder=fit.encoder,
        earlier=fit.earlier,
        seed=wanted.seed,
    )
    notes = replaced_note(calibrated, fit.earlier)
    write_calibration(fit.path, calibrated)
    if wanted.as_json:
        print(json_text(alpha_as_document(calibrated, alpha, notes, fit.path)))
    else:
        print_alpha_calibration(calibrated, alpha, notes, fit.path, sys.stdout)


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


def _written(settings: Settings, wanted: _Wanted) -> QuestionSet:
    from adaptrag_cli.evaluation.calibrate import require_enough
    from adaptrag_cli.evaluation.results import MANIFEST
    from adaptrag_cli.evaluation.resume import require_free

    require_free(wanted.out, wanted.resume)
    return self_made_questions(
        settings,
        SelfMade(
            out=wanted.out,
            limit=wanted.limit,
            seed=wanted.seed,
            resume=wanted.resume,
            is_begun=(wanted.out / MANIFEST).exists(),
            use_them="adaptrag calibrate {} --index NAME",
            require_enough=require_enough,
        ),
    )


def _forget(settings: Settings) -> None:
    from adaptrag_cli.calibration import calibration_path
    from adaptrag_cli.session.plan import model_load_of, models_dir_of

    model = model_load_of(settings).file.name
    path = calibration_path(models_dir_of(settings), model)
    if not path.exists():
        say(printable(f"nothing was calibrated for {model}"))
        return
    path.unlink()
    say(printable(f"forgot {path}"))
