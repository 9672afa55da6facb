"""`adaptrag probe`: train networks that read the model's states, show how well they do, list and remove them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from adaptrag_cli.cli.boundary import reporting_errors, say
from adaptrag_cli.cli.option_groups import PROBED, settings_typed, taking
from adaptrag_cli.cli.options import OUTPUT, ConfigFile, ModelsDir
from adaptrag_cli.config import load_settings
from adaptrag_cli.errors import ConfigError, UnknownName
from adaptrag_cli.pages import write_page
from adaptrag_cli.terminal import printable

if TYPE_CHECKING:
    from adaptrag_cli.config import Settings
    from adaptrag_cli.evaluation.probing.generation import RowPlan
    from adaptrag_cli.probing.prober import ProberKind
    from adaptrag_cli.probing.training import Recipe

_QUESTIONS = "Questions"
_TRAINING = "Training"
_KINDS = ("answer", "question")

probe_app = typer.Typer(
    help="Train, show, list and remove probers: small networks that read from a model's states whether it is right.",
    no_args_is_help=True,
    epilog="Probers lie beside the models, and each belongs to one model file. Strategies probing and uar use them.",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the prober.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.", rich_help_panel=OUTPUT)]


@probe_app.command(
    "train",
    epilog="Examples:\n\nadaptrag probe train --data hotpotqa.json:hotpot --data popqa.tsv:popqa --limit 200\n\n"
    "adaptrag probe train --index notes --limit 100\n\nadaptrag probe train --kind question --data popqa.tsv",
)
@taking(PROBED)
def train(
    ctx: typer.Context,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE[:INDEX]",
            help="Question file with answers, and the index to look up in (without it: --index, or the file's own "
            "corpus, as for eval). May be repeated. Without any, the model writes questions from the index: weaker "
            "evidence.",
            show_default=False,
            rich_help_panel=_QUESTIONS,
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="Questions of each file, or written.", rich_help_panel=_QUESTIONS)
    ] = 200,
    seed: Annotated[
        int, typer.Option(metavar="S", help="Which ones, and how they are parted.", rich_help_panel=_QUESTIONS)
    ] = 0,
    kind: Annotated[
        str,
        typer.Option(
            metavar="|".join(_KINDS),
            help="Read rationale and answer, for strategy probing; or the question, for uar.",
            rich_help_panel=_TRAINING,
        ),
    ] = "answer",
    layers: Annotated[
        str | None,
        typer.Option(
            metavar="L,L",
            help="Layers to probe, from 0; by default every second one from a third of the depth on.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    recipe: Annotated[
        str,
        typer.Option(
            metavar="small|paper|code",
            help="small is for some hundreds of questions; the paper's and its code's are for many thousands.",
            rich_help_panel=_TRAINING,
        ),
    ] = "small",
    learning_rate: Annotated[
        float | None, typer.Option(metavar="RATE", help="In place of the recipe's.", rich_help_panel=_TRAINING)
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="In place of the recipe's.", rich_help_panel=_TRAINING)
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="In place of the recipe's.", rich_help_panel=_TRAINING)
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the prober; by default the model's.", rich_help_panel=OUTPUT),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of texts and states.", rich_help_panel=OUTPUT)
    ] = Path("adaptrag-prober"),
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with what is in --out; --limit may be larger now.", rich_help_panel=OUTPUT
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Let the model answer questions without and with documents, and train networks on what its states tell of it.

    Some hundreds of questions make a prober worth having; 20 are the least (40 for --kind question). Stop with Ctrl-C
    and go on with --resume: the result is the same. Do not report numbers on the same questions.
    """
    with reporting_errors():
        if kind not in _KINDS:
            raise ConfigError(f"--kind {kind!r} is no kind of prober", " or ".join(_KINDS))
        settings = settings_typed(ctx)
        wanted = _Wanted(
            kind=cast("ProberKind", kind),
            layers=_layers(layers),
            recipe=_recipe(recipe, learning_rate, batch_size, epochs),
            limit=limit,
            seed=seed,
            name=name,
            out=out,
            resume=resume,
        )
        path = _train(wanted, settings, data or [])
        from adaptrag_cli.cli.probe_view import print_prober
        from adaptrag_cli.probing.files import read_prober_file

        print_prober(read_prober_file(path), as_json=as_json)


@probe_app.command("show", epilog="Examples:\n\nadaptrag probe show hotpot\n\nadaptrag probe show hotpot --html p.html")
def show(
    name: Name,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one page with all figures, readable offline.")
    ] = None,
    models_dir: ModelsDir = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show how well a prober tells right texts from wrong ones, beside simpler signals, and what it was trained on."""
    with reporting_errors():
        from adaptrag_cli.cli.probe_view import print_prober, prober_page
        from adaptrag_cli.probing.files import read_prober_file

        found = read_prober_file(_path(_models_dir(models_dir, config), name))
        if html is not None:
            write_page(html, prober_page(found))
            say(printable(f"wrote {html}"))
        if as_json or html is None:
            print_prober(found, as_json=as_json)


@probe_app.command("list")
def list_all(models_dir: ModelsDir = None, config: ConfigFile = None, as_json: Json = False) -> None:
    """List the probers that are here, the newest first."""
    with reporting_errors():
        from adaptrag_cli.cli.probe_view import print_list
        from adaptrag_cli.probing.files import list_probers

        folder = list_probers(_models_dir(models_dir, config))
        for problem in folder.problems:
            say(printable(f"warning: {problem}"))
        if not folder.files and not as_json:
            say("no prober was trained yet: adaptrag probe train --help")
            return
        print_list(folder.files, as_json=as_json)


@probe_app.command("remove")
def remove(name: Name, models_dir: ModelsDir = None, config: ConfigFile = None) -> None:
    """Delete a prober."""
    with reporting_errors():
        path = _path(_models_dir(models_dir, config), name)
        path.unlink()
        say(printable(f"removed {path}"))


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """What the command line asks for."""

    kind: ProberKind
    layers: tuple[int, ...] | None
    recipe: Recipe
    limit: int
    seed: int
    name: str | None
    out: Path
    resume: bool


def _train(wanted: _Wanted, settings: Settings, data: list[str]) -> Path:
    """Write texts, train, and keep the prober; return its file."""
    from adaptrag_cli.cli.eval_progress import watching_evaluation
    from adaptrag_cli.evaluation.probing.generation import make_rows, require_free_for_rows
    from adaptrag_cli.evaluation.probing.split import require_questions
    from adaptrag_cli.evaluation.probing.train import train_prober
    from adaptrag_cli.evaluation.resume import require_run_folder
    from adaptrag_cli.probing.files import prober_path, write_prober
    from adaptrag_cli.session.plan import model_load_of, models_dir_of

    require_run_folder(wanted.out)
    model = model_load_of(settings).file.name
    name = wanted.name or (model if wanted.kind == "answer" else f"{model}-question")
    path = prober_path(models_dir_of(settings), name)
    before = require_free_for_rows(wanted.out, resume=wanted.resume)
    plan = _plan(wanted, settings, data, is_begun=before is not None)
    require_questions(sum(len(asked.questions.questions) for asked in plan.sets), wanted.kind)
    for asked in plan.sets:
        for note in asked.questions.notes:
            say(printable(f"{asked.questions.name}: {note}"))
    with watching_evaluation() as watcher:
        rows = make_rows(plan, watcher, resume=wanted.resume)
    with watching_evaluation() as watcher:
        made = train_prober(
            rows, recipe=wanted.recipe, seed=wanted.seed, on_note=watcher.note, should_stop=watcher.should_stop
        )
    if path.exists():
        say(printable(f"the earlier prober {name!r} is replaced"))
    write_prober(path, made)
    say(printable(f"wrote {path}"))
    return path


def _plan(wanted: _Wanted, settings: Settings, data: list[str], *, is_begun: bool) -> RowPlan:
    from adaptrag_cli.cli.asked_sets import read_asked
    from adaptrag_cli.cli.self_made import SelfMade, self_made_questions, with_index
    from adaptrag_cli.evaluation.plan import sampled
    from adaptrag_cli.evaluation.probing.generation import AskedSet, RowPlan
    from adaptrag_cli.evaluation.probing.split import require_questions

    if data:
        sets = read_asked(data, wanted.limit, wanted.seed)
        source = ", ".join(f"{s.questions.name} ({len(s.questions.questions)} questions)" for s in sets)
    else:
        settings, _ = with_index(settings)
        written = self_made_questions(
            settings,
            SelfMade(
                out=wanted.out,
                limit=wanted.limit,
                seed=wanted.seed,
                resume=wanted.resume,
                is_begun=is_begun,
                use_them="adaptrag probe train --data {}:INDEX",
                require_enough=lambda count: require_questions(count, wanted.kind),
            ),
        )
        sets = (AskedSet(questions=sampled(written, wanted.limit, wanted.seed)),)
        source = f"{len(sets[0].questions.questions)} questions written from index {settings.index.name}"
    return RowPlan(
        settings=settings,
        kind=wanted.kind,
        sets=sets,
        layers=wanted.layers,
        out=wanted.out,
        seed=wanted.seed,
        limit=wanted.limit,
        source=source,
        labelled=bool(data),
    )


def _layers(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(f"--layers {text!r} are no numbers", "write them as --layers 8,10,12") from error


def _recipe(name: str, learning_rate: float | None, batch: int | None, epochs: int | None) -> Recipe:
    """A recipe with what was typed in place of its own.

    Raises:
        ConfigError: there is no such recipe, or nothing would be left of it.
    """
    import msgspec

    from adaptrag_cli.probing.training import RECIPES

    known = dict(RECIPES)
    found = next((recipe for known_name, recipe in known.items() if known_name == name), None)
    if found is None:
        raise UnknownName("recipe", name, known)
    if learning_rate is not None and not 0 < learning_rate < 1:
        raise ConfigError(f"--learning-rate {learning_rate:g} makes no sense", "a number like 0.001")
    if epochs is not None and epochs <= found.warm_up_epochs:
        raise ConfigError(
            f"--epochs {epochs}: recipe {name} keeps no weights of its first {found.warm_up_epochs}",
            f"give at least {found.warm_up_epochs + 1}",
        )
    typed = {"learning_rate": learning_rate, "batch": batch, "epochs": epochs}
    return msgspec.structs.replace(found, **{field: value for field, value in typed.items() if value is not None})


def _models_dir(models_dir: Path | None, config: Path | None) -> Path:
    from adaptrag_cli.session.plan import models_dir_of

    return models_dir_of(load_settings(flags={"models.dir": models_dir}, config_file=config))


def _path(models_dir: Path, name: str) -> Path:
    """The file of a prober that is there.

    Raises:
        UnknownName: there is none.
    """
    from adaptrag_cli.probing.files import list_probers, prober_path

    path = prober_path(models_dir, name)
    if not path.is_file():
        known = [file.name for file in list_probers(models_dir).files]
        raise UnknownName("prober", name, known, "" if known else "train one: adaptrag probe train --help")
    return path
