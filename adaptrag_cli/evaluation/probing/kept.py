"""Trained networks in a run's folder, so that a training that was stopped trains none of them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.disk import replace_durably
from adaptrag_cli.events import Record

_KEY = "adaptrag"
Arrays = Mapping[str, NDArray[np.float32]]


class Training(Record, frozen=True, kw_only=True):
    """How a network was trained, and what it costs to do so."""

    digest: str
    """Of everything that decides its weights."""
    best_epoch: int
    epochs: int
    accuracy: float
    seconds: float
    peak_memory: int


def kept_or(path: Path, digest: str, train: Callable[[], tuple[Arrays, Training]]) -> tuple[Arrays, Training]:
    """What lies in a file, where it is of the same digest; else train, and keep that."""
    kept = _read(path)
    if kept is not None and kept[1].digest == digest:
        return kept
    arrays, training = train()
    from safetensors.numpy import save

    path.parent.mkdir(parents=True, exist_ok=True)
    replace_durably(path, save(dict(arrays), metadata={_KEY: msgspec.json.encode(training).decode()}))
    return arrays, training


def _read(path: Path) -> tuple[Arrays, Training] | None:
    """None where there is nothing, or nothing that can be used: then it is trained anew."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            training = msgspec.json.decode((file.metadata() or {})[_KEY], type=Training)
            return {name: file.get_tensor(name) for name in file.keys()}, training  # noqa: SIM118 (it is no mapping)
    except (SafetensorError, msgspec.DecodeError, OSError, ValueError, KeyError):
        return None
