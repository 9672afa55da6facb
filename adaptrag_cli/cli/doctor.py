"""`adaptrag doctor`: one line per part, with the remedy under what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from adaptrag_cli.cli.boundary import reporting_errors
from adaptrag_cli.terminal import printable


def doctor(
    verify: Annotated[
        bool, typer.Option("--verify", help="Also hash every model and index, and let the model write a word.")
    ] = False,
    index_dir: Annotated[Path | None, typer.Option(help="Folder of the indexes.")] = None,
    models_dir: Annotated[Path | None, typer.Option(help="Folder of the model files.")] = None,
    model: Annotated[str | None, typer.Option(help="Catalogue name or path of a GGUF file.")] = None,
    adapter: Annotated[
        str | None, typer.Option(metavar="NAME", help="LoRA adapter of the model; none: without.")
    ] = None,
    config_file: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings file to read.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check Python, packages, models and indexes, and tell the remedy of what is wrong.

    Exit code 0 when the tool can be used, else that of the first part that cannot.
    """
    with reporting_errors():
        from adaptrag_cli.doctor import Check, exit_code_of, run_checks

        flags = {
            "index.dir": index_dir,
            "models.dir": models_dir,
            "models.answer": model,
            "models.adapter": adapter,
        }
        checks: list[Check] = []
        for check in run_checks(flags=flags, config_file=config_file, is_thorough=verify):
            checks.append(check)
            if not as_json:
                print(printable(f"{check.status:<4}  {check.name:<16}  {check.detail}"), flush=True)
                if check.remedy:
                    print(printable(f"      {'':<16}  -> {check.remedy}"), flush=True)
        code = exit_code_of(checks)
        if as_json:
            rows = [
                {"name": c.name, "status": c.status, "detail": c.detail, "remedy": c.remedy or None} for c in checks
            ]
            print(json.dumps({"usable": code == 0, "exit_code": int(code), "checks": rows}, indent=2))
        if code:
            raise typer.Exit(int(code))
