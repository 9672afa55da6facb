"""Print runs of `adaptrag deeprag synthesize`: their figures, their questions, and the tree of one question."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from adaptrag_cli.learning.branches import CHOSEN, Branch, LineKind, branches_of, lines_of, path_told
from adaptrag_cli.learning.run_figures import RunFigures, run_figures
from adaptrag_cli.learning.runs import Explored, SynthesisManifest
from adaptrag_cli.learning.tree import choose_path
from adaptrag_cli.render import json_text
from adaptrag_cli.report.figure import Table
from adaptrag_cli.report.sections import Section
from adaptrag_cli.report.terminal_form import print_drawing, print_sections, width_of
from adaptrag_cli.report.training_tables import exploration_sections

FORMAT = 1
_LEAST_ID = 8
"""Characters of an id in the list, where they tell it from the others."""
_BESIDE = 37
"""Columns of the list for all but ids and questions."""
_LEAST_SHOWN = 12
"""Characters of a question, however long the ids are."""


def print_synthesis(
    run: Path, manifest: SynthesisManifest, explored: Sequence[Explored], *, as_json: bool
) -> RunFigures:
    """Print what came of a run, and return its figures."""
    figures = run_figures(manifest, explored)
    if as_json:
        print(json_text({"format": FORMAT, "run": str(run), **_facts(manifest, figures)}))
    else:
        print_sections(_title(run, manifest), exploration_sections(manifest, figures), (), sys.stdout)
    return figures


def print_questions(run: Path, manifest: SynthesisManifest, explored: Sequence[Explored], *, as_json: bool) -> None:
    """Print what came of a run, and a line for each question."""
    figures = run_figures(manifest, explored)
    if as_json:
        questions = [_question(manifest, each) for each in explored]
        print(json_text({"format": FORMAT, "run": str(run), **_facts(manifest, figures), "questions": questions}))
        return
    rows = []
    ids = _short_ids([each.question_id for each in explored])
    shown = max(_LEAST_SHOWN, width_of(sys.stdout) - _BESIDE - max(map(len, ids), default=0))
    for each, short in zip(explored, ids, strict=True):
        chosen = choose_path(each.tree, manifest.paths, seed=manifest.seed)
        solved = ("", "", "") if chosen is None else ("yes", chosen.path or "-", chosen.retrievals)
        rows.append((short, *solved, len(each.tree.nodes), _shortened(each.tree.question, shown)))
    table = Table(columns=("id", "solved", "path", "look-ups", "nodes", "question"), rows=tuple(rows))
    note = f"D: from memory, R: from documents. One tree: adaptrag deeprag tree {run} ID, or the beginning of one."
    parts = [Section(title="Questions", table=table, notes=(note,))] if rows else []
    print_sections(_title(run, manifest), (*parts, *exploration_sections(manifest, figures)), (), sys.stdout)


def _short_ids(ids: Sequence[str]) -> list[str]:
    """Beginnings that are long enough to tell them apart."""
    longest = max(map(len, ids), default=0)
    enough = next((n for n in range(_LEAST_ID, longest) if len({each[:n] for each in ids}) == len(set(ids))), longest)
    return [each[:enough] for each in ids]


def print_tree(manifest: SynthesisManifest, explored: Explored, *, as_json: bool) -> None:
    """Draw one question's tree, its chosen path marked."""
    if as_json:
        print(json_text({"format": FORMAT, "paths": manifest.paths, **_tree(manifest, explored)}))
        return
    from rich.tree import Tree

    chosen = choose_path(explored.tree, manifest.paths, seed=manifest.seed)
    root = branches_of(explored.tree, chosen)
    drawn = Tree(_label(root, explored.tree.question), guide_style="dim")
    _grow(drawn, root)
    print_drawing(drawn, _notes(manifest, explored), sys.stdout)


def _grow(drawn: Any, branch: Branch) -> None:
    for child in branch.children:
        _grow(drawn.add(_label(child), guide_style="dim"), child)


def _label(branch: Branch, question: str = "") -> Any:
    from rich.text import Text

    from adaptrag_cli.terminal import printable

    lines = lines_of(branch, question)
    return Text("\n").join(Text(printable(line), style=_STYLES[kind]) for kind, line in lines)


_STYLES: Mapping[LineKind, str] = {
    "question": "bold",
    "chosen": "bold green",
    "answer": "",
    "asks": "cyan",
    "right": "bold green",
    "wrong": "red",
    "unfinished": "dim",
}


def _notes(manifest: SynthesisManifest, explored: Explored) -> list[str]:
    chosen = choose_path(explored.tree, manifest.paths, seed=manifest.seed)
    golds = f"gold: {' | '.join(explored.golds)}"
    calls = explored.tree.calls
    cost = (
        f"nodes: {len(explored.tree.nodes)}, calls for a next sub-query: {calls.sub_queries}, answers from memory: "
        f"{calls.direct_answers}, from documents: {calls.retrieved_answers}, final: {calls.finals}; "
        f"{explored.seconds:.0f} s"
    )
    if chosen is not None:
        return [f"{CHOSEN} {path_told(chosen, manifest.paths)}", golds, cost]
    why = "the cap on expansions was reached" if explored.tree.is_cut else "every path was explored"
    return [f"no path is right; {why}", golds, cost]


def _title(run: Path, manifest: SynthesisManifest) -> str:
    taught = f", taught by {manifest.teacher}" if manifest.teacher != manifest.model else ""
    return f"{run}: trees of {manifest.model}{taught}, {manifest.paths} right paths"


def _facts(manifest: SynthesisManifest, figures: RunFigures) -> dict[str, Any]:
    return {"manifest": msgspec.to_builtins(manifest), "figures": msgspec.to_builtins(figures, str_keys=True)}


def _question(manifest: SynthesisManifest, explored: Explored) -> dict[str, Any]:
    chosen = choose_path(explored.tree, manifest.paths, seed=manifest.seed)
    return {
        "set": explored.set,
        "id": explored.question_id,
        "question": explored.tree.question,
        "golds": list(explored.golds),
        "solved": chosen is not None,
        "path": chosen.path if chosen else None,
        "retrievals": chosen.retrievals if chosen else None,
        "nodes": len(explored.tree.nodes),
        "is_cut": explored.tree.is_cut,
        "seconds": explored.seconds,
    }


def _tree(manifest: SynthesisManifest, explored: Explored) -> dict[str, Any]:
    chosen = choose_path(explored.tree, manifest.paths, seed=manifest.seed)
    nodes = [
        {
            "path": node.path,
            "retrievals": node.retrievals,
            "answer": node.steps[-1].answer if node.steps else None,
            "passages": list(node.steps[-1].passages) if node.steps else [],
            "outcome": node.outcome,
            "ending": node.ending,
            "asks": node.sub_query or None,
            "final": node.final or None,
            "popped": node.popped,
            "chosen": chosen is not None and chosen.path.startswith(node.path),
        }
        for node in explored.tree.nodes.values()
    ]
    return _question(manifest, explored) | {"calls": msgspec.to_builtins(explored.tree.calls), "tree": nodes}


def _shortened(text: str, characters: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= characters else f"{line[: characters - 3]}..."
