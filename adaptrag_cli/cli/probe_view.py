"""Print probers: one with all its tables and figures, as text, JSON or a page; or a list of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from adaptrag_cli.errors import ModelError
from adaptrag_cli.evaluation.probing.assess import Assessment, assess, held_out_accuracy
from adaptrag_cli.evaluation.probing.outcome import Outcome, outcome_of
from adaptrag_cli.probing.files import ProberFile
from adaptrag_cli.probing.prober import parameter_count
from adaptrag_cli.render import json_text
from adaptrag_cli.report.figure import Table, percent
from adaptrag_cli.report.probe_figures import probe_figures
from adaptrag_cli.report.probe_tables import sections
from adaptrag_cli.report.sections import Section, sections_page

FORMAT = 1


def print_prober(file: ProberFile, *, as_json: bool) -> None:
    """Print what was measured of a prober.

    Raises:
        ModelError: its file does not say how it was trained.
    """
    outcome, made = _measured(file)
    if as_json:
        print(json_text(_document(file, outcome, made)))
        return
    from adaptrag_cli.report.terminal_form import print_sections

    parts = sections(file.info, outcome, made, file.size)
    print_sections(_title(file, outcome), parts, probe_figures(outcome, made), sys.stdout)


def prober_page(file: ProberFile) -> str:
    """The same as one HTML page.

    Raises:
        ModelError: its file does not say how it was trained.
    """
    outcome, made = _measured(file)
    return sections_page(
        _title(file, outcome), "The prober", sections(file.info, outcome, made, file.size), probe_figures(outcome, made)
    )


def print_list(files: Sequence[ProberFile], *, as_json: bool) -> None:
    """Print a line for each prober."""
    if as_json:
        print(json_text({"format": FORMAT, "probers": [_facts(file) for file in files]}))
        return
    from adaptrag_cli.report.terminal_form import print_sections

    rows = tuple(
        (file.name, file.info.kind, file.info.model, len(file.layers), _accuracy(file), f"{file.size / 2**20:.1f}")
        for file in files
    )
    table = Table(columns=("prober", "kind", "model", "layers", "accuracy %", "MiB"), rows=rows)
    print_sections(f"{len(files)} probers", (Section(title="The newest first", table=table),), (), sys.stdout)


def _measured(file: ProberFile) -> tuple[Outcome, Assessment]:
    outcome = outcome_of(file.info.report, file.name)
    return outcome, assess(outcome, seed=file.info.seed)


def _title(file: ProberFile, outcome: Outcome) -> str:
    return f"Prober {file.name} of {file.info.model}, trained on {outcome.source}"


def _accuracy(file: ProberFile) -> str:
    try:
        return percent(held_out_accuracy(outcome_of(file.info.report, file.name)))
    except ModelError:
        return ""


def _document(file: ProberFile, outcome: Outcome, made: Assessment) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "prober": _facts(file),
        "training": msgspec.to_builtins(outcome),
        "held_out": msgspec.to_builtins(made),
    }


def _facts(file: ProberFile) -> dict[str, Any]:
    info = file.info
    return {
        "name": file.name,
        "path": str(file.path),
        "kind": info.kind,
        "model": info.model,
        "model_fingerprint": info.model_fingerprint,
        "layers": list(file.layers),
        "layer_count": info.layer_count,
        "width": info.width,
        "parameters_per_layer": parameter_count(info.width),
        "bytes": file.size,
        "seed": info.seed,
    }
