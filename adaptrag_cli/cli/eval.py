"""`adaptrag eval`: ask whole question sets with several strategies and set the numbers side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptrag_cli.cli.boundary import reporting_errors, say
from adaptrag_cli.cli.default_command import DefaultCommand, DefaultCommandGroup
from adaptrag_cli.cli.option_groups import EVALUATED, settings_typed, taking
from adaptrag_cli.cli.options import OUTPUT, ConfigFile, ContextLength, GpuLayers, JudgeModel, ModelsDir
from adaptrag_cli.config import NO_ADAPTER, load_settings
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.terminal import printable

if TYPE_CHECKING:
    from adaptrag_cli.evaluation.plan import Plan

_WHAT = "What is measured"
_EPILOG = """
[bold]Examples[/bold]
  adaptrag eval hotpot_dev_distractor_v1.json --limit 50
  adaptrag eval questions.jsonl --index notes --out notes-run --resume
  adaptrag eval questions.jsonl --strategies all --vary top_k=3,5
  adaptrag eval questions.jsonl --strategies always,dtr:gate=false
  adaptrag eval judge notes-run:dtr notes-run:always
  adaptrag report notes-run --html report.html
"""

eval_app = typer.Typer(
    cls=DefaultCommandGroup,
    help="Ask question sets with several strategies, and set the numbers side by side.",
    rich_markup_mode="rich",
)


@eval_app.command("run", cls=DefaultCommand, epilog=_EPILOG)
@taking(EVALUATED)
def run(
    ctx: typer.Context,
    data: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATA",
            help="Question files: our JSONL, or the official files of HotpotQA, 2WikiMultihopQA, MuSiQue, SQuAD 1.1, "
            "NQ-open, TriviaQA, WebQuestions, PopQA, StrategyQA, IIRC, PubMedQA, BioASQ, CAG.",
        ),
    ],
    strategies: Annotated[
        str,
        typer.Option(
            metavar="A,B,C",
            help="Strategies, or all; options follow a colon: dtr:gate=false, dpr-ais:paths=query:ais=sum.",
            rich_help_panel=_WHAT,
        ),
    ] = "never,always,dtr",
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Questions of each set.", rich_help_panel=_WHAT)
    ] = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Which ones.", rich_help_panel=_WHAT)] = 0,
    index: Annotated[
        str | None, typer.Option(metavar="NAME", help="Index that all sets are asked over.", rich_help_panel=_WHAT)
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="JSONL of passages; without it, those in DATA or in the X.corpus.jsonl beside X.questions.jsonl.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=A,B", help="A grid; may be repeated.", rich_help_panel=_WHAT),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the run.", rich_help_panel=OUTPUT)] = Path(
        "adaptrag-run"
    ),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.", rich_help_panel=OUTPUT)] = (
        False
    ),
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where texts and vectors are kept for reuse; by default in --out.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    batch: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            max=16,
            help="Questions decoded together: up to 3 change no number.",
            rich_help_panel=OUTPUT,
        ),
    ] = 3,
    allow_inexact: Annotated[
        bool,
        typer.Option("--allow-inexact", help="Let --batch be more than 3: numbers may differ.", rich_help_panel=OUTPUT),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of tables.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Ask question sets with several strategies, and set the numbers side by side.

    Every answer is kept with its trace; stop with Ctrl-C and go on with --resume.
    """
    with reporting_errors():
        from adaptrag_cli.evaluation import plan as planning
        from adaptrag_cli.evaluation.formats.reading import load_questions
        from adaptrag_cli.evaluation.resume import require_run_folder
        from adaptrag_cli.models.lanes import MAX_EQUAL_LANES

        if batch > MAX_EQUAL_LANES and not allow_inexact:
            raise ConfigError(
                f"--batch {batch}: more than {MAX_EQUAL_LANES} questions at once change numbers",
                "add --allow-inexact if that does not matter",
            )
        settings = settings_typed(ctx)
        require_run_folder(out)
        specs = () if strategies == "all" else planning.parse_strategies(strategies)
        sets = planning.with_unique_names([planning.sampled(load_questions(path), limit, seed) for path in data])
        if not specs:
            specs, missing = planning.all_strategies(settings, sets)
            for reason in missing:
                say(printable(reason))
        plan = planning.Plan(
            settings=settings,
            sets=sets,
            strategies=specs,
            cells=planning.parse_grid(vary or []),
            out=out,
            cache=cache or out / "cache.sqlite",
            seed=seed,
            limit=limit,
            lanes=batch,
            corpus=corpus,
        )
        _run(plan, resume=resume, as_json=as_json)


def _run(plan: Plan, *, resume: bool, as_json: bool) -> None:
    from adaptrag_cli.cli.eval_progress import watching_evaluation
    from adaptrag_cli.evaluation.run import evaluate

    for question_set in plan.sets:
        for note in question_set.notes:
            say(printable(f"{question_set.name}: {note}"))
    with watching_evaluation() as watcher:
        run_data = evaluate(plan, watcher, resume=resume)
    if as_json:
        from adaptrag_cli.evaluation.summary import as_document
        from adaptrag_cli.render import json_text

        print(json_text(as_document(run_data)))
        return
    from adaptrag_cli.report.terminal_form import print_tables

    print_tables(run_data, sys.stdout)


@eval_app.command("judge")
def judge(
    first: Annotated[str, typer.Argument(metavar="A", help="RUN, or RUN:STRATEGY.", show_default=False)],
    second: Annotated[str, typer.Argument(metavar="B", help="RUN, or RUN:STRATEGY.", show_default=False)],
    judge_model: JudgeModel = None,
    gpu_layers: GpuLayers = None,
    context_length: ContextLength = None,
    models_dir: ModelsDir = None,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")] = False,
) -> None:
    """Let a model judge which of two strategies' answers is better, in both orders: wins, draws and losses of A.

    Each pair is shown with the right answer. A verdict that turns round with the order is a draw.
    """
    with reporting_errors():
        settings = load_settings(
            flags={
                "models.answer": judge_model,
                "models.adapter": NO_ADAPTER,  # it was trained to answer, on another model perhaps
                "models.dir": models_dir,
                "models.gpu_layers": gpu_layers,
                "models.context_length": context_length,
            },
            config_file=config,
        )
        from adaptrag_cli.cli.pairwise import judge_runs

        judge_runs(first, second, settings, as_json=as_json)
