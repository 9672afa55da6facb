"""The rows that probers are trained on, in a folder: what was written, whether it was right, and the model's states.

States lie as raw numbers in a file of their own, one record a row, and a row's line is written after its record. So a
kill at any time costs the rows in progress and nothing else: what has no line is cut off when the folder is opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.disk import flush_to_disk, replace_durably
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.results import SetInfo
from adaptrag_cli.events import Record, Scalar
from adaptrag_cli.json_lines import RecordLog, read_records
from adaptrag_cli.probing.prober import ProberKind

FORMAT = 1
MANIFEST = "probe.json"
ROWS = "rows.jsonl"
STATES = "states.f32"
_NUMBER = np.dtype("<f4")
_ANEW = "give another --out"
RowKey = tuple[str, str, bool]
"""Set, question, and whether passages were read."""


class RowManifest(Record, frozen=True, kw_only=True):
    """What the rows of a folder are of. Rows of two set-ups never lie in one folder."""

    format: int = FORMAT
    created: str
    adaptrag_version: str
    versions: dict[str, str]
    """Of the libraries that decide numbers."""
    kind: ProberKind
    model: str
    model_fingerprint: str
    layer_count: int
    layers: tuple[int, ...]
    seed: int
    limit: int | None
    source: str
    """Where the questions come from, in words."""
    labelled: bool
    """Whether people wrote the answers."""
    sets: tuple[SetInfo, ...]
    indexes: dict[str, str]
    """Index fingerprint by question set; empty where nothing is looked up."""
    settings: dict[str, Scalar]
    """What else decides a row: prompt, lengths, and how passages are searched."""

    @property
    def keys(self) -> tuple[RowKey, ...]:
        """Every row that is wanted, in order."""
        with_passages = (False, True) if self.kind == "answer" else (False,)
        return tuple((s.name, question, way) for s in self.sets for question in s.questions for way in with_passages)


class Row(Record, frozen=True, kw_only=True):
    """One text that the model wrote for a question."""

    set: str
    question_id: str
    retrieved: bool
    """Whether it was written with passages."""
    right: bool
    """Whether a gold answer stands in it (ACC)."""
    uncertainty: float | None
    """Mean negative log-probability of its tokens; None where there is none."""
    written: str
    answer: str
    tokens: int
    seconds: float
    """Time of the model's calls."""
    peak_memory: int = 0
    """Most bytes that the process had held until then; 0 where the system does not tell."""
    failure: str = ""
    """Why nothing was written."""
    width: int = 0
    """Numbers of a state; 0: the model gave none."""
    record: int | None = None
    """Which record of the states' file is its own."""

    @property
    def key(self) -> RowKey:
        return (self.set, self.question_id, self.retrieved)


@dataclass(frozen=True, kw_only=True, eq=False)
class RowData:
    """The rows of a folder, in the order of its manifest."""

    folder: Path
    manifest: RowManifest
    rows: tuple[Row, ...]
    states: NDArray[np.float32]
    """(rows, layers, width); NaN where the model gave none."""

    @property
    def is_whole(self) -> bool:
        """Whether every row that is wanted is there."""
        return len(self.rows) == len(self.manifest.keys)


class RowLog:
    """The rows of a folder, appended durably one at a time."""

    def __init__(self, folder: Path, layers: Sequence[int]) -> None:
        """Go on where the last writer was stopped.

        Raises:
            ConfigError: the files do not belong together.
        """
        self._layers = tuple(layers)
        rows = _read_lines(folder)
        self.done: set[RowKey] = {row.key for row in rows}
        self._width = next((row.width for row in rows if row.width), 0)
        self._records = sum(row.record is not None for row in rows)
        self._states = (folder / STATES).open("ab")
        size = self._records * self._record_size
        if self._states.tell() < size:
            self._states.close()
            raise ConfigError(f"{folder / STATES} lacks states of its rows", _ANEW)
        if self._states.tell() > size:
            self._states.truncate(size)
            os.fsync(self._states.fileno())
        self._lines = RecordLog(folder / ROWS)

    def append(self, row: Row, states: Mapping[int, Sequence[float]]) -> None:
        """Write a row and the states of its layers (none: the model gave none) through to the disk."""
        if row.key in self.done:
            raise ValueError(f"row {row.key} is there already")
        if states:
            numbers = np.array([states[layer] for layer in self._layers], dtype=_NUMBER)
            self._width = self._width or numbers.shape[1]
            if numbers.shape[1] != self._width:
                raise ValueError(f"states of {numbers.shape[1]} numbers do not belong among those of {self._width}")
            self._states.write(numbers.tobytes())
            flush_to_disk(self._states)
            row = msgspec.structs.replace(row, width=self._width, record=self._records)
            self._records += 1
        self._lines.append(row)
        self.done.add(row.key)

    def close(self) -> None:
        self._states.close()
        self._lines.close()

    @property
    def _record_size(self) -> int:
        return len(self._layers) * self._width * _NUMBER.itemsize


def write_row_manifest(folder: Path, manifest: RowManifest) -> None:
    """Write it whole or not at all."""
    replace_durably(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")


def read_row_manifest(folder: Path) -> RowManifest | None:
    """Read what the rows of a folder are of; None where it holds none.

    Raises:
        ConfigError: it is of another version, or broken.
    """
    path = folder / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=RowManifest)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError, ValueError) as error:
        raise ConfigError(f"{path}: no manifest of this version: {error}", _ANEW) from error
    if manifest.format != FORMAT:
        raise ConfigError(f"{path} is of format {manifest.format}, and this version reads {FORMAT}", _ANEW)
    return manifest


def read_rows(folder: Path) -> RowData:
    """Read all finished rows with their states.

    Raises:
        ConfigError: the folder holds none, or they are broken.
    """
    manifest = read_row_manifest(folder)
    if manifest is None:
        raise ConfigError(f"{folder} holds no rows for a prober", "make some with: adaptrag probe train --out FOLDER")
    rows = _read_lines(folder)
    width = next((row.width for row in rows if row.width), 0)
    records = _records(folder / STATES, rows, (len(manifest.layers), width))
    order = {key: number for number, key in enumerate(manifest.keys)}
    rows = sorted((row for row in rows if row.key in order), key=lambda row: order[row.key])
    states = np.full((len(rows), len(manifest.layers), width), np.nan, dtype=np.float32)
    for number, row in enumerate(rows):
        if row.record is not None:
            states[number] = records[row.record]
    return RowData(folder=folder, manifest=manifest, rows=tuple(rows), states=states)


def _read_lines(folder: Path) -> list[Row]:
    """The rows that have a whole line.

    Raises:
        ConfigError: a line is broken, or its record is not the next one.
    """
    path = folder / ROWS
    rows = list(read_records(path, msgspec.json.Decoder(Row).decode, what="no row", hint=_ANEW))
    _require_one_sequence(path, rows)
    return rows


def _require_one_sequence(path: Path, rows: Iterable[Row]) -> None:
    with_states = [row for row in rows if row.record is not None]
    if [row.record for row in with_states] != list(range(len(with_states))) or len({r.width for r in with_states}) > 1:
        raise ConfigError(f"{path}: its rows do not follow each other", _ANEW)


def _records(path: Path, rows: Sequence[Row], shape: tuple[int, int]) -> NDArray[np.float32]:
    count = sum(row.record is not None for row in rows)
    needed = count * shape[0] * shape[1]
    numbers = np.fromfile(path, dtype=_NUMBER, count=needed) if needed else np.empty(0, dtype=_NUMBER)
    if numbers.size < needed:
        raise ConfigError(f"{path} lacks states of its rows", _ANEW)
    return numbers.reshape(count, *shape).astype(np.float32, copy=False)
