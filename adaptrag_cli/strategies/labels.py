"""Read which questions of an earlier evaluation were answered right from memory and from documents.

Only the few fields that label a question are read from the run's lines, so any run that asked `never` and `always`
serves, whatever else it measured.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from adaptrag_cli.errors import ConfigError
from adaptrag_cli.events import Scalar
from adaptrag_cli.strategies.base import LabelledQuestion, Labels

_HINT = "make a run with: adaptrag eval DATA --strategies never,always --out FOLDER"


class _Line(msgspec.Struct):
    cell: str
    set: str
    strategy: str
    question_id: str
    query: str
    em: float
    meta: dict[str, Scalar]


def read_labels(folder: Path) -> Labels:
    """Label the questions that the run in `folder` asked both `never` and `always`.

    Raises:
        ConfigError: there is no run, or it did not ask both.
    """
    path = folder / "results.jsonl"
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigError(f"{folder} holds no evaluation: {error.strerror}", _HINT) from error
    decoder = msgspec.json.Decoder(_Line)
    by_question: dict[tuple[str, str, str], dict[str, _Line]] = {}
    for number, text in enumerate(lines[:-1], start=1):  # what a kill cut off has no newline and is not read
        try:
            line = decoder.decode(text)
        except msgspec.DecodeError as error:
            raise ConfigError(f"{path}:{number}: not a result: {error}", _HINT) from error
        by_question.setdefault((line.cell, line.set, line.question_id), {})[line.strategy] = line
    questions = tuple(
        LabelledQuestion(
            id=question_id,
            query=found["never"].query,
            right_from_memory=found["never"].em > 0,
            right_from_documents=found["always"].em > 0,
            facts=found["never"].meta,
        )
        for (_, _, question_id), found in by_question.items()
        if "never" in found and "always" in found
    )
    if not questions:
        raise ConfigError(f"{folder}: no question was asked both never and always", _HINT)
    return Labels(source=str(folder), questions=questions)
