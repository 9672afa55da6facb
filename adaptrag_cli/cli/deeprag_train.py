"""`adaptrag deeprag train`: learn when to look up, as an adapter of the model that has explored."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from adaptrag_cli.cli.boundary import reporting_errors, say
from adaptrag_cli.cli.option_groups import TRAINED, settings_typed, taking
from adaptrag_cli.cli.options import OUTPUT
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.terminal import printable

if TYPE_CHECKING:
    from adaptrag_cli.config import Settings
    from adaptrag_cli.learning.export import Stage
    from adaptrag_cli.learning.fitting import Recipe
    from adaptrag_cli.learning.pairs import PairsOf
    from adaptrag_cli.learning.stages import Objective
    from adaptrag_cli.learning.training import TrainingPlan
    from adaptrag_cli.learning.training_report import TrainingReport
    from adaptrag_cli.models.files import ModelFile

EXAMPLES = (
    "Examples:\n\nadaptrag deeprag train run --stage imitation\n\nadaptrag deeprag train run --stage calibration\n\n"
    "adaptrag deeprag train run --stage calibration --pairs all-nodes --name careful"
)
LEARNING_RATES = "imitation 0.0002, calibration 5e-05, grpo 0.0001"
EPOCHS = "imitation 3, calibration 2, grpo 2"
"""As `learning.stages.RECIPES` has them, which a help need not load."""
_TRAINING = "Training"
_STAGES = ("imitation", "calibration", "grpo")
_OBJECTIVES = ("all", "answer-only")
_PAIRS = ("path", "all-nodes", "sentence")
_NO_LIKELIER = "what was held out is no likelier"


@taking(TRAINED)
def train(
    ctx: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of synthesize.", show_default=False)],
    stage: Annotated[
        str,
        typer.Option(
            metavar="|".join(_STAGES),
            help="Imitate the cheapest right paths; then calibrate the decisions on them, or (grpo) reward answers.",
            show_default=False,
            rich_help_panel=_TRAINING,
        ),
    ],
    adapter_from: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Adapter to begin with; the later stages begin with what stage imitation made of the run, or else "
            "with the one that has explored it.",
            show_default=False,
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option(metavar="R", min=1, help="Size of the adapter.", show_default="16", rich_help_panel=_TRAINING),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            metavar="RATE", help="Of the optimiser (AdamW).", show_default=LEARNING_RATES, rich_help_panel=_TRAINING
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="At most; training ends before, once what is held out gets worse.",
            show_default=EPOCHS,
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    objective: Annotated[
        str,
        typer.Option(
            metavar="|".join(_OBJECTIVES),
            help="imitation: learn all that is written, or the final answer only.",
            rich_help_panel=_TRAINING,
        ),
    ] = "all",
    pairs: Annotated[
        str,
        typer.Option(
            metavar="|".join(_PAIRS),
            help="calibration: decisions of the right path, of all nodes, or whole steps against each other.",
            rich_help_panel=_TRAINING,
        ),
    ] = "path",
    seed: Annotated[
        int,
        typer.Option(metavar="S", help="Which questions are held out, and in which order.", rich_help_panel=_TRAINING),
    ] = 0,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the adapter.",
            show_default="RUN-STAGE, or RUN-answer-only",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a training that was stopped.", rich_help_panel=OUTPUT)
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.", rich_help_panel=OUTPUT)] = False,
) -> None:
    """Learn from a run's trees, as an adapter (LoRA) of the model that has explored them; needs the extra `train`.

    Stop with Ctrl-C and go on with --resume: the result is the same.
    """
    with reporting_errors():
        for flag, value, known in (
            ("--stage", stage, _STAGES),
            ("--objective", objective, _OBJECTIVES),
            ("--pairs", pairs, _PAIRS),
        ):
            if value not in known:
                raise ConfigError(f"{flag} {value!r} is not known", " or ".join(known))
        if stage != "imitation" and objective != "all":
            raise ConfigError(f"--objective {objective} is of --stage imitation", "leave it out")
        if stage != "calibration" and pairs != "path":
            raise ConfigError(f"--pairs {pairs} is of --stage calibration", "leave it out")
        from adaptrag_cli.cli.eval_progress import watching_evaluation
        from adaptrag_cli.learning.lora import require_training_packages
        from adaptrag_cli.learning.training import TrainingPlan, train
        from adaptrag_cli.learning.training_report import begun_with, default_name
        from adaptrag_cli.session.plan import models_dir_of

        require_training_packages()
        settings = settings_typed(ctx)
        chosen, models_dir = cast("Stage", stage), models_dir_of(settings)
        plan = TrainingPlan(
            run=run,
            stage=chosen,
            base=_base(run, settings, is_typed=ctx.params["model"] is not None),
            models_dir=models_dir,
            name=name or default_name(run, chosen, objective),
            may_replace=name is not None,
            adapter_from=begun_with(run, chosen, models_dir) if adapter_from is None else adapter_from,
            recipe=_recipe(stage, learning_rate, epochs),
            rank=rank,
            objective=cast("Objective", objective),
            pairs=cast("PairsOf", pairs),
            seed=seed,
            gpu_layers=settings.models.gpu_layers,
            threads=settings.models.threads,
        )
        with watching_evaluation(counted="texts") as watcher:
            path, report = train(plan, watcher, resume=resume)
        _print(plan, path, report, as_json=as_json)


def _base(run: Path, settings: Settings, *, is_typed: bool) -> ModelFile:
    """The model to train: the one that has explored, found by its name where none is typed."""
    from adaptrag_cli.identity import parted
    from adaptrag_cli.learning.runs import read_run
    from adaptrag_cli.models.files import locate_model
    from adaptrag_cli.session.plan import models_dir_of

    explored, _ = parted(read_run(run).model)
    return locate_model(settings.models.answer if is_typed else explored, models_dir_of(settings))


def _recipe(stage: str, learning_rate: float | None, epochs: int | None) -> Recipe:
    """The stage's recipe with what was typed in place of its own.

    Raises:
        ConfigError: it makes no sense.
    """
    import msgspec

    from adaptrag_cli.learning.stages import RECIPES

    if learning_rate is not None and not 0 < learning_rate < 1:
        raise ConfigError(f"--learning-rate {learning_rate:g} makes no sense", "a number like 0.0001")
    typed = {"learning_rate": learning_rate, "epochs": epochs}
    return msgspec.structs.replace(RECIPES[stage], **{key: value for key, value in typed.items() if value is not None})


def _print(plan: TrainingPlan, path: Path, report: TrainingReport, *, as_json: bool) -> None:
    """Print what came of a training, and say what to do with it."""
    import msgspec

    from adaptrag_cli.render import json_text

    if as_json:
        print(json_text({"format": 1, "file": str(path), **msgspec.to_builtins(report)}))
    else:
        from adaptrag_cli.report.terminal_form import print_sections
        from adaptrag_cli.report.training_tables import training_sections

        title = f"{report.adapter}: stage {report.training} on {report.run}"
        print_sections(title, training_sections(report), (), sys.stdout)
    if not report.has_learned:
        missed = "the mean reward on what was held out is no higher" if report.stage == "grpo" else _NO_LIKELIER
        say(f"warning: {missed} than before: the adapter may do harm")
    say(printable(f"wrote {path}"))
    model = plan.base.name if plan.base.entry is not None else str(plan.base.path)
    asked = ["--strategy", "deeprag", "--model", model, "--adapter", report.adapter]
    say(printable(f'ask with it: {shlex.join(["adaptrag", "ask", *asked])} "..."'))
    if report.training == "imitation":
        further = ["adaptrag", "deeprag", "train", str(plan.run), "--stage", "calibration"]
        say(printable(f"or go on with: {shlex.join(further)}"))
        explorer = shlex.join(["--adapter", report.adapter])
        say(printable(f"or first explore again with {explorer}, and calibrate on that run"))
