"""`adaptrag deeprag`: explore how questions can be answered step by step, and look at the trees."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from adaptrag_cli.cli import deeprag_show, deeprag_train
from adaptrag_cli.cli.boundary import reporting_errors, say
from adaptrag_cli.cli.option_groups import SYNTHESIZED, settings_typed, taking
from adaptrag_cli.cli.options import OUTPUT
from adaptrag_cli.errors import AdaptRAGError, ConfigError
from adaptrag_cli.terminal import printable

if TYPE_CHECKING:
    from adaptrag_cli.learning.tree import Paths

_QUESTIONS = "Questions"
_SEARCH = "Search"
_PATHS = ("cheapest", "most", "random")

deeprag_app = typer.Typer(
    help="Let a model explore when to look up, and learn it (DeepRAG): trees, trajectories, adapters.",
    no_args_is_help=True,
    epilog="First synthesize, then train; strategy deeprag takes the adapter that comes of it.",
)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of synthesize.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.", rich_help_panel=OUTPUT)]


@deeprag_app.command(
    "synthesize",
    epilog="Examples:\n\nadaptrag deeprag synthesize --data hotpotqa.json --limit 100 --out run\n\n"
    "adaptrag deeprag synthesize --data questions.jsonl:notes --teacher qwen2.5-coder-1.5b-instruct --out run",
)
@taking(SYNTHESIZED)
def synthesize(
    ctx: typer.Context,
    data: Annotated[
        list[str],
        typer.Option(
            metavar="FILE[:INDEX]",
            help="Question file with answers, and the index to look up in (without it: --index, or the file's own "
            "corpus, as for eval). May be repeated.",
            show_default=False,
            rich_help_panel=_QUESTIONS,
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="RUN", help="Folder of trees and trajectories.", rich_help_panel=OUTPUT)
    ] = Path("adaptrag-deeprag"),
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Questions of each file.", rich_help_panel=_QUESTIONS)
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="S", help="Which questions, and which paths are random.", rich_help_panel=_QUESTIONS)
    ] = 0,
    teacher: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="A stronger model that takes the questions apart and answers from documents; the answer model then "
            "only answers from memory.",
            show_default="the answer model",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    learned: Annotated[
        str,
        typer.Option(
            "--paths",
            metavar="|".join(_PATHS),
            help="Which right path is learned: with the fewest look-ups, with the most, or any.",
            rich_help_panel=_SEARCH,
        ),
    ] = "cheapest",
    max_expansions: Annotated[
        int, typer.Option(metavar="N", min=1, help="Nodes of a tree that are gone on from.", rich_help_panel=_SEARCH)
    ] = 32,
    whole: Annotated[
        bool,
        typer.Option(
            "--whole",
            help="Explore on after the first right path: stage calibration can then use all nodes.",
            rich_help_panel=_SEARCH,
        ),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with what is in --out.", rich_help_panel=OUTPUT)
    ] = False,
    as_json: Json = False,
) -> None:
    """Search for each question's cheapest path of steps to the right answer, each step from memory or documents.

    Stop with Ctrl-C and go on with --resume: no question is explored twice.
    """
    with reporting_errors():
        if learned not in _PATHS:
            raise ConfigError(f"--paths {learned!r} names no path", " or ".join(_PATHS))
        from adaptrag_cli.cli.asked_sets import read_asked
        from adaptrag_cli.cli.deeprag_view import print_synthesis
        from adaptrag_cli.cli.eval_progress import watching_evaluation
        from adaptrag_cli.evaluation.resume import require_run_folder
        from adaptrag_cli.learning.runs import read_run
        from adaptrag_cli.learning.synthesis import SynthesisPlan, require_free_for_trees, synthesize

        settings = settings_typed(ctx)
        require_run_folder(out)
        require_free_for_trees(out, resume=resume)
        plan = SynthesisPlan(
            settings=settings,
            sets=read_asked(data, limit, seed),
            teacher=teacher,
            paths=cast("Paths", learned),
            whole=whole,
            max_expansions=max_expansions,
            out=out,
            seed=seed,
            limit=limit,
        )
        for asked in plan.sets:
            for note in asked.questions.notes:
                say(printable(f"{asked.questions.name}: {note}"))
        with watching_evaluation(counted="questions") as watcher:
            explored = synthesize(plan, watcher, resume=resume)
        figures = print_synthesis(out, read_run(out), explored, as_json=as_json)
        if not figures.solved:
            raise AdaptRAGError(
                f"none of {figures.explored} questions was solved, so there is nothing to learn from",
                f"ask more of them, or name a stronger --teacher; what was found: {_tree_command(out)}",
            )
        say(printable(f"wrote {out}; look at it with: {_tree_command(out)}"))


@deeprag_app.command(
    "tree",
    epilog="Examples:\n\nadaptrag deeprag tree run\n\nadaptrag deeprag tree run 5ae0c3\n\n"
    "adaptrag deeprag tree run --tui",
)
def tree(
    run: Run,
    question_id: Annotated[
        str, typer.Argument(metavar="ID", help="Question whose tree is drawn.", show_default=False)
    ] = "",
    interface: Annotated[
        bool, typer.Option("--tui", help="Walk through the trees on a screen.", rich_help_panel=OUTPUT)
    ] = False,
    as_json: Json = False,
) -> None:
    """List the questions of a run, or draw the tree of one with its chosen path marked."""
    with reporting_errors():
        from adaptrag_cli.cli.deeprag_view import print_questions, print_tree
        from adaptrag_cli.learning.runs import find_explored, read_explored, read_run

        manifest = read_run(run)
        if interface and as_json:
            raise ConfigError("a screen prints no JSON", "leave out --tui, or --json")
        if interface:
            _walk(run, question_id)
        elif question_id:
            print_tree(manifest, find_explored(run, question_id), as_json=as_json)
        else:
            print_questions(run, manifest, read_explored(run), as_json=as_json)


def _tree_command(run: Path) -> str:
    return shlex.join(["adaptrag", "deeprag", "tree", str(run)])


def _walk(run: Path, question_id: str) -> None:
    """Show the trees on a screen, that of a named question first.

    Raises:
        ConfigError: nothing was explored yet, there is no such question, or no screen can be drawn.
    """
    from adaptrag_cli.cli.tui import require_terminal
    from adaptrag_cli.learning.runs import find_explored, read_explored, read_run

    explored = read_explored(run)
    if not explored:
        raise ConfigError(f"{run} holds no tree yet", "go on with the command that began it, and --resume")
    keys = [each.key for each in explored]
    first = keys.index(find_explored(run, question_id).key) if question_id else 0
    require_terminal(f"use: {_tree_command(run)} ID")
    from adaptrag_cli.tui.trees_app import TreesApp

    TreesApp(read_run(run), explored, first).run()


deeprag_app.command("train", epilog=deeprag_train.EXAMPLES)(deeprag_train.train)
deeprag_app.command("show", epilog=deeprag_show.EXAMPLES)(deeprag_show.show)
