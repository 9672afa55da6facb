"""`adaptrag config`: every setting, its value, and where the value came from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from adaptrag_cli.cli.boundary import reporting_errors, say
from adaptrag_cli.config import (
    UNSET_MEANS,
    Settings,
    allowed_for,
    flag_of,
    load_settings,
    setting_names,
    variable_of,
)
from adaptrag_cli.locations import default_index_dir, default_models_dir
from adaptrag_cli.terminal import printable


def config(
    config_file: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings file to read instead of the usual ones.")
    ] = None,
    index_dir: Annotated[Path | None, typer.Option(help="Folder of the indexes.")] = None,
    models_dir: Annotated[Path | None, typer.Option(help="Folder of the model files.")] = None,
    allowed: Annotated[
        bool, typer.Option("--allowed", help="Show what each setting may be and its environment variable.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show every setting with its value and where it came from.

    Nearest wins: flag, environment variable, ./adaptrag.toml, your own adaptrag.toml, default.
    """
    with reporting_errors():
        if allowed:  # reads nothing, so that it also helps when a file is broken
            _print_columns([(name, allowed_for(name), variable_of(name)) for name in setting_names()])
            return
        settings = load_settings(flags={"index.dir": index_dir, "models.dir": models_dir}, config_file=config_file)
        if as_json:
            print(json.dumps(as_document(settings), indent=2))
            return
        _print_columns([_row(item) for item in as_document(settings)["settings"]])
        say(f"settings files read: {printable(', '.join(map(str, settings.files)) or 'none')}")


def as_document(settings: Settings) -> dict[str, Any]:
    """The settings as `--json` prints them; a folder that is not set is shown as the one that is used."""
    index_dir, why = default_index_dir(Path.cwd())
    used_folders = {"models.dir": (default_models_dir(), "user data folder"), "index.dir": (index_dir, why)}
    items = []
    for row in settings.as_rows():
        item: dict[str, Any] = {"name": row.name, "value": row.value, "origin": row.origin}
        if row.value is None and row.name in used_folders:
            folder, reason = used_folders[row.name]
            item |= {"value": str(folder), "origin": f"default ({reason})"}
        elif row.value is None:
            item["unset_means"] = UNSET_MEANS[row.name]
        items.append(item | {"flag": flag_of(row.name), "variable": variable_of(row.name)})
    return {"settings": items, "files": [str(path) for path in settings.files]}


def _row(item: dict[str, Any]) -> tuple[str, str, str]:
    value = item["value"]
    shown = (
        f"({item['unset_means']})" if value is None else json.dumps(value) if isinstance(value, bool) else str(value)
    )
    return item["name"], shown, item["origin"]


def _print_columns(rows: Sequence[tuple[str, ...]]) -> None:
    clean = [tuple(printable(cell) for cell in row) for row in rows]
    widths = [min(56, max(len(row[column]) for row in clean)) for column in range(len(clean[0]) - 1)]
    for row in clean:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        print("  ".join([*padded, row[-1]]))
