"""`adaptrag models adapters`: list and remove what was trained for a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from adaptrag_cli.cli.boundary import is_agreed, reporting_errors, say
from adaptrag_cli.config import load_settings
from adaptrag_cli.errors import ModelError, RunCancelled, UnknownName
from adaptrag_cli.locations import default_models_dir
from adaptrag_cli.models.adapters import (
    LIST,
    AdapterFile,
    adapter_names,
    adapter_path,
    adapters_dir,
    awaits_verification,
    fitting_models,
    list_adapters,
)
from adaptrag_cli.models.catalogue import ENTRIES
from adaptrag_cli.models.files import describe_installed, is_installed
from adaptrag_cli.terminal import printable

FORMAT = 1

adapters_app = typer.Typer(
    help="List and remove LoRA adapters: what adaptrag deeprag train has taught a model, in a file of its own.",
    no_args_is_help=True,
    epilog="Adapters lie in the folder adapters of the models folder. Each belongs to one model file, and is put on it "
    "with --adapter NAME.",
)

ModelsDir = Annotated[
    Path | None, typer.Option("--models-dir", metavar="FOLDER", help="Folder of the model files.", show_default=False)
]


@adapters_app.command(
    "list", epilog="Examples:\n\nadaptrag models adapters list\n\nadaptrag models adapters list --json"
)
def list_all(
    models_dir: ModelsDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List the adapters that are here, the newest first, and which installed models each can be put on."""
    with reporting_errors():
        folder = _models_dir(models_dir)
        found = list_adapters(folder)
        for problem in found.problems:
            say(printable(f"warning: {problem}"))
        if as_json:
            from adaptrag_cli.render import json_text

            rows = [_facts(file, folder) for file in found.files]
            print(json_text({"format": FORMAT, "adapters_dir": str(adapters_dir(folder)), "adapters": rows}))
            return
        if not found.files:
            say(printable(f"no adapter in {adapters_dir(folder)}: adaptrag deeprag train makes one"))
            return
        _print_table(found.files, folder)


@adapters_app.command("remove", epilog="Example:\n\nadaptrag models adapters remove mine --yes")
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the adapter.", show_default=False)],
    models_dir: ModelsDir = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete an adapter. The model stays."""
    with reporting_errors():
        folder = _models_dir(models_dir)
        path = adapter_path(folder, name)
        if not path.is_file():
            raise UnknownName("adapter", name, adapter_names(folder), f"see them with: {LIST}")
        if not yes and not is_agreed(f"Remove adapter {name} ({path})?"):
            raise RunCancelled(f"stopped; adapter {name!r} is still there")
        path.unlink()
        say(printable(f"removed {path}"))


def _models_dir(flag: Path | None) -> Path:
    return load_settings(flags={"models.dir": flag}).models.dir or default_models_dir()


def _print_table(files: tuple[AdapterFile, ...], folder: Path) -> None:
    cells = [("NAME", "STAGE", "SIZE", "CREATED", "FOR")]
    for file in files:
        fits = ", ".join(fitting_models(file, folder)) or _missing(file, folder)
        cells.append((file.name, file.stage or "-", f"{file.size / 1e6:.1f} MB", file.created[:10] or "-", fits))
    widths = [max(len(printable(line[column])) for line in cells) for column in range(len(cells[0]))]
    for line in cells:
        padded = (printable(cell).ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(padded).rstrip())


def _missing(file: AdapterFile, folder: Path) -> str:
    """The model that an adapter is for, and what is wrong with it."""
    name = file.base_name or file.architecture
    entry = next((entry for entry in ENTRIES if entry.name == name and is_installed(entry, folder)), None)
    if entry is None:
        return f"{name} (not here)"
    try:
        is_unknown = awaits_verification(file, describe_installed(entry, folder))
    except ModelError:  # a damaged model, which the doctor tells
        is_unknown = False
    return f"{name} (to be verified)" if is_unknown else f"{name} (another file)"


def _facts(file: AdapterFile, folder: Path) -> dict[str, Any]:
    return {
        "name": file.name,
        "path": str(file.path),
        "architecture": file.architecture,
        "base": file.base_name or None,
        "base_fingerprint": file.base_fingerprint or None,
        "stage": file.stage or None,
        "created": file.created or None,
        "size_bytes": file.size,
        "fingerprint": file.fingerprint,
        "fits": list(fitting_models(file, folder)),
        "report": dict(file.report),
    }
