"""`adaptrag index` and `adaptrag indexes`: make an index of a folder, and list, show, verify and remove indexes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adaptrag_cli.cli.boundary import is_agreed, reporting_errors, say
from adaptrag_cli.cli.options import complete_index
from adaptrag_cli.config import Settings, load_settings
from adaptrag_cli.errors import RunCancelled
from adaptrag_cli.locations import default_index_dir, default_models_dir
from adaptrag_cli.terminal import printable

if TYPE_CHECKING:
    from adaptrag_cli.documents.folder import Skipped
    from adaptrag_cli.index.build import IndexReport
    from adaptrag_cli.index.home import IndexSummary
    from adaptrag_cli.index.local import LocalStore
    from adaptrag_cli.index.reading import Repaired

_WHAT = "What is read"
_HOW = "How it is cut"
_PLACES = "Places"
_NAMES_SHOWN = 3
_REASONS_SHOWN = 12

IndexDir = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Folder of the indexes.", show_default=False, rich_help_panel=_PLACES),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="Settings file to read instead of the usual ones.", rich_help_panel=_PLACES
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]

indexes_app = typer.Typer(
    help="List, show, verify and remove indexes.",
    no_args_is_help=True,
    epilog="Indexes lie in --index-dir, else ADAPTRAG_INDEX_DIR, else `index.dir` of adaptrag.toml, else ./indexes if "
    "that folder is one of ours, else your user data folder.",
)


IndexName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the index.", autocompletion=complete_index)]


def index(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Folder of documents, or one file (JSONL: a corpus).")],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the index; without it, the folder's.")
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="Catalogue name, sentence-transformers folder or hub name.", rich_help_panel=_HOW),
    ] = None,
    prefixes: Annotated[
        bool,
        typer.Option(
            "--prefixes",
            help="Put what the encoder was trained with in front of questions and texts ('query: ' and 'passage: ' for "
            "e5-base-v2); the papers do not.",
            rich_help_panel=_HOW,
        ),
    ] = False,
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Read only files like this; may be repeated.", rich_help_panel=_WHAT),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Leave out files like this; may be repeated.", rich_help_panel=_WHAT),
    ] = None,
    no_gitignore: Annotated[
        bool, typer.Option("--no-gitignore", help="Read what .gitignore names, too.", rich_help_panel=_WHAT)
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Read even / or the home folder.", rich_help_panel=_WHAT)] = False,
    chunk_tokens: Annotated[
        int | None,
        typer.Option(metavar="N", help="Size of a chunk in the encoder's tokens.", rich_help_panel=_HOW),
    ] = None,
    overlap: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens that neighbours may share.", rich_help_panel=_HOW)
    ] = None,
    body_only: Annotated[
        bool,
        typer.Option("--body-only", help="Embed without title and headings, as DTR's code.", rich_help_panel=_HOW),
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Read and embed everything again.", rich_help_panel=_HOW)
    ] = False,
    index_dir: IndexDir = None,
    models_dir: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder of the model files.", rich_help_panel=_PLACES)
    ] = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Make an index of a folder, or bring it up to date.

    Every file is hashed; only what changed is parsed and embedded. The index that is there answers until the new one
    is complete. Stop with Ctrl-C and run the same command again to continue.

    Examples: adaptrag index ~/notes | adaptrag index docs --include '*.md' --name handbook |
    adaptrag index corpus.jsonl --body-only
    """
    with reporting_errors():
        from adaptrag_cli.cli.index_progress import showing_build
        from adaptrag_cli.documents.folder import refuse_dangerous_root
        from adaptrag_cli.index.build import BuildOptions, build_index
        from adaptrag_cli.index.home import default_name
        from adaptrag_cli.models.encoder import load_encoder

        settings = load_settings(
            flags={
                "models.encoder": encoder,
                "models.dir": models_dir,
                "index.dir": index_dir,
                "index.chunk_tokens": chunk_tokens,
                "index.chunk_overlap": overlap,
                "index.body_only": True if body_only else None,
            },
            config_file=config_file,
        )
        refuse_dangerous_root(path, yes)
        folder = _index_dir(settings)
        options = BuildOptions(
            include=tuple(include or ()),
            exclude=tuple(exclude or ()),
            use_gitignore=not no_gitignore,
            chunk_tokens=settings.index.chunk_tokens,
            overlap=settings.index.chunk_overlap,
            body_only=settings.index.body_only,
            rebuild=rebuild,
        )
        index_name = name or default_name(folder, path)
        models = settings.models.dir or default_models_dir()
        prefix = None if prefixes else ""  # None: the encoder's own
        loaded = load_encoder(
            settings.models.encoder,
            models,
            query_prefix=prefix,
            document_prefix=prefix,
            notify=lambda line: say(printable(line)),
        )
        with showing_build() as on_progress:
            report = build_index(
                path, name=index_name, index_dir=folder, encoder=loaded, options=options, on_progress=on_progress
            )
        for note in report.notes:
            say(printable(f"note: {note}"))
        if as_json:
            print(json.dumps(report.as_json(), indent=2))
        else:
            _print_report(report)


@indexes_app.command("list")
def list_indexes(index_dir: IndexDir = None, config_file: ConfigFile = None, as_json: AsJson = False) -> None:
    """List the indexes that there are.

    Example: adaptrag indexes list --json
    """
    with reporting_errors():
        from adaptrag_cli.index import home

        folder = _index_dir(load_settings(flags={"index.dir": index_dir}, config_file=config_file))
        summaries = home.list_indexes(folder)
        if as_json:
            print(json.dumps({"index_dir": str(folder), "indexes": [_as_json(s) for s in summaries]}, indent=2))
            return
        width = max((len(s.name) for s in summaries), default=0)
        for summary in summaries:
            what = summary.problem or (
                f"{summary.documents:,} documents, {summary.chunks:,} chunks, {_megabytes(summary.bytes)}, "
                f"{summary.encoder}, of {summary.path}"
            )
            print(printable(f"{summary.name:{width}}  {what}"))
        say(printable(f"{len(summaries)} in {folder}"))


@indexes_app.command("show")
def show_index(
    name: IndexName, index_dir: IndexDir = None, config_file: ConfigFile = None, as_json: AsJson = False
) -> None:
    """Show what an index was made of, whether its documents have changed, and how to bring it up to date.

    Example: adaptrag indexes show notes
    """
    with reporting_errors():
        store = _open(name, index_dir, config_file)
        document = _description(store)
        if as_json:
            print(json.dumps(document, indent=2))
            return
        for key, value in document.items():
            shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
            if key == "freshness":
                shown = _freshness_line(store.path, value)
            print(printable(f"{key.replace('_', ' '):<12}  {shown}"))


@indexes_app.command("verify")
def verify_index(name: IndexName, index_dir: IndexDir = None, config_file: ConfigFile = None) -> None:
    """Hash every file of an index, and search it.

    Example: adaptrag indexes verify notes
    """
    with reporting_errors():
        store = _open(name, index_dir, config_file)
        store.verify()
        size = sum(file.size for file in store.manifest.stored.values())
        print(f"{store.name}  ok  {len(store.manifest.stored)} files, {_megabytes(size)}, {store.chunk_count:,} chunks")


@indexes_app.command("remove")
def remove_index(
    name: IndexName,
    index_dir: IndexDir = None,
    config_file: ConfigFile = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove an index. The documents stay.

    Example: adaptrag indexes remove notes --yes
    """
    with reporting_errors():
        from adaptrag_cli.index import home

        folder = _index_dir(load_settings(flags={"index.dir": index_dir}, config_file=config_file))
        home.removable_index(folder, name)
        if not yes and not is_agreed(f"Remove index {name} in {folder}?"):
            raise RunCancelled(f"stopped; index {name!r} is still there")
        home.remove_index(folder, name)
        say(printable(f"removed {name}"))


def _index_dir(settings: Settings) -> Path:
    return settings.index.dir or default_index_dir(Path.cwd())[0]


def _open(name: str, index_dir: Path | None, config_file: Path | None) -> LocalStore:
    from adaptrag_cli.index.home import open_index

    return open_index(_index_dir(load_settings(flags={"index.dir": index_dir}, config_file=config_file)), name)


def _as_json(summary: IndexSummary) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(summary)


def _description(store: LocalStore) -> dict[str, Any]:
    from dataclasses import asdict

    manifest, freshness = store.manifest, store.freshness()
    return {
        "name": store.name,
        "path": manifest.path,
        "documents": manifest.documents,
        "chunks": manifest.chunks,
        "encoder": asdict(manifest.recipe.encoder),
        "chunking": {
            "chunk_tokens": manifest.recipe.chunk_tokens or "as the encoder's window",
            "overlap": manifest.recipe.overlap,
            "body_only": manifest.recipe.body_only,
        },
        "fingerprint": manifest.fingerprint,
        "freshness": {
            "changed": len(freshness.changed),
            "deleted": len(freshness.deleted),
            "added": len(freshness.added),
            "deleted_documents": len(freshness.deleted_documents),
            "root_missing": freshness.root_missing,
        },
        "update": store.index_command(),
    }


def _freshness_line(path: Path, freshness: dict[str, Any]) -> str:
    if freshness["root_missing"]:
        return f"{path} is not there"
    line = ", ".join(f"{key} {freshness[key]}" for key in ("changed", "deleted", "added"))
    gone = freshness["deleted_documents"]
    return f"{line}; {gone:,} document{'s' if gone != 1 else ''} gone from what changed" if gone else line


def _print_report(report: IndexReport) -> None:
    documents = report.documents_indexed + report.documents_unchanged
    print(printable(f"{report.name}: {documents:,} documents, {report.chunks:,} chunks, from {report.path}"))
    print(
        f"  {report.documents_indexed:,} new or changed, {report.documents_unchanged:,} unchanged, "
        f"{report.documents_removed:,} removed; {report.chunks_embedded:,} chunks embedded in {report.seconds:.1f} s"
    )
    if report.documents_skipped:
        print(f"  {len(report.documents_skipped):,} skipped of {report.files_seen:,} files seen (all of them: --json)")
        _print_reasons(report.documents_skipped)
    if report.documents_repaired:
        count = len({repaired.document for repaired in report.documents_repaired})
        print(f"  {count:,} repaired on reading (all of them: --json)")
        _print_reasons(report.documents_repaired)
    if not documents:
        say("nothing to ask: no document with text was found")


def _print_reasons(told: Iterable[Skipped | Repaired]) -> None:
    groups: dict[str, list[str]] = defaultdict(list)
    for item in told:
        groups[item.reason].append(item.document)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    for reason, names in ordered[:_REASONS_SHOWN]:
        more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
        print(printable(f"    {len(names):>5,}  {reason}: {', '.join(names[:_NAMES_SHOWN])}{more}"))
    if rest := ordered[_REASONS_SHOWN:]:
        print(f"    {sum(len(names) for _, names in rest):>5,}  for {len(rest):,} other reasons")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
