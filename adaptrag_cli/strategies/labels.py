"""Read which questions of an earlier evaluation were answered right from memory and from documents.

Only the few fields that label a question are read from the run's lines, so any run that asked `never` and `always`
serves, whatever else it measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from adaptrag_cli.errors import ConfigError
from adaptrag_cli.events import Scalar
from adaptrag_cli.json_lines import read_records
from adaptrag_cli.strategies.base import LabelledQuestion, Labels

_RESULTS = "results.jsonl"
_MULTI_HOP_SETS = ("2wiki", "hotpot", "musique")
_HINT = (
    "make a run with: adaptrag eval DATA --strategies never,always --out FOLDER; adaptive-rag needs never,always,ircot"
)


class _Line(msgspec.Struct):
    cell: str
    set: str
    strategy: str
    question_id: str
    query: str
    em: float
    meta: dict[str, Scalar]


class _Cell(msgspec.Struct):
    name: str
    model: str
    model_fingerprint: str


class _Manifest(msgspec.Struct):
    cells: tuple[_Cell, ...]


def read_labels(folder: Path, *, model_fingerprint: str = "") -> Labels:
    """Label the questions that the run in `folder` asked both `never` and `always`, in one cell of its grid.

    What is right depends on model, encoder and settings, so cells are never mixed. Of several the only one of the model
    that answers is taken.

    Args:
        model_fingerprint: of the model that answers.

    Raises:
        ConfigError: there is no run, it did not ask both, or none of its cells is the one.
    """
    by_cell: dict[str, dict[tuple[str, str], dict[str, _Line]]] = {}
    for line in _lines(folder):
        found = by_cell.setdefault(line.cell, {}).setdefault((line.set, line.question_id), {})
        found.setdefault(line.strategy, line)  # as a run that goes on reads it
    labelled = {name: questions for name, found in by_cell.items() if (questions := _labelled(found))}
    if not labelled:
        raise ConfigError(f"{folder}: no question was asked both never and always", _HINT)
    cell = _chosen([cell for cell in _cells(folder) if cell.name in labelled], folder, model_fingerprint)
    return Labels(
        source=str(folder),
        questions=labelled[cell.name],
        model=cell.model,
        model_fingerprint=cell.model_fingerprint,
    )


def require_labels(folder: Path) -> None:
    """Refuse, before a model is loaded, a folder that holds no evaluation.

    Raises:
        ConfigError: it holds none.
    """
    if not (folder / _RESULTS).is_file():
        raise ConfigError(f"{folder} holds no evaluation", _HINT)


def labels_of_another_model(labels: Labels, answering: str) -> str:
    """What is wrong with labels that tell what another model knew, in words."""
    return f"the labels of {labels.source} were made with {labels.model}, and {answering} answers"


def _lines(folder: Path) -> Iterator[_Line]:
    require_labels(folder)
    return read_records(folder / _RESULTS, msgspec.json.Decoder(_Line).decode, what="no result", hint=_HINT)


def _labelled(by_question: Mapping[tuple[str, str], Mapping[str, _Line]]) -> tuple[LabelledQuestion, ...]:
    return tuple(
        LabelledQuestion(
            id=question_id,
            query=found["never"].query,
            right_from_memory=found["never"].em > 0,
            right_from_documents=found["always"].em > 0,
            simplest=_simplest(found),
            facts=found["never"].meta,
        )
        for (_, question_id), found in by_question.items()
        if "never" in found and "always" in found
    )


def _simplest(found: Mapping[str, _Line]) -> str:
    """Label a question as Adaptive-RAG does: by the simplest way that was right, else by the kind of its set."""
    with_steps = [line for label, line in found.items() if label.partition(":")[0] == "ircot"]
    if not with_steps:
        return ""
    if found["never"].em > 0:
        return "never"
    if found["always"].em > 0:
        return "always"
    is_multi_hop = found["never"].set.lower().startswith(_MULTI_HOP_SETS)
    return "ircot" if is_multi_hop or any(line.em > 0 for line in with_steps) else "always"


def _cells(folder: Path) -> tuple[_Cell, ...]:
    path = folder / "manifest.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Manifest).cells
    except OSError as error:
        raise ConfigError(f"{folder} holds no evaluation: {error.strerror}", _HINT) from error
    except (msgspec.DecodeError, ValueError) as error:
        raise ConfigError(f"{path}: no manifest of this version: {error}", _HINT) from error


def _chosen(cells: Sequence[_Cell], folder: Path, model_fingerprint: str) -> _Cell:
    """The only cell, or the only one of the model that answers."""
    fitting = cells if len(cells) == 1 else [cell for cell in cells if cell.model_fingerprint == model_fingerprint]
    if len(fitting) != 1:
        names = ", ".join(cell.name for cell in cells) or "none that its manifest names"
        raise ConfigError(
            f"{folder} has labels of several models or settings ({names}), and {len(fitting)} of them of this model",
            _HINT,
        )
    return fitting[0]
