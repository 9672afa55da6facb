"""What every source of model files shares: progress, results, and the checks on names and disk space."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from adaptrag_cli.errors import DownloadError

_SPARE_BYTES = 64 << 20
"""Left free on the disk after a pull."""

_FOLDER_SUFFIXES = frozenset({".json", ".txt", ".model", ".safetensors", ".md"})
"""All an encoder or reranker needs, and nothing that can run: no Python, no pickled weights."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a pull is."""

    name: str
    done_bytes: int
    total_bytes: int | None
    note: str = ""
    """What is being done, such as `part 3 of 22`."""


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A model that a source laid down beside the models folder, not yet checked against the catalogue."""

    path: Path
    """A file, or a folder."""
    origin: str
    state: Path | None = None
    """The source's note of how far it came, which goes when `path` turns out wrong."""
    checked: dict[str, str] = field(default_factory=dict)
    """SHA-256 by file name, of the files whose hash the source itself published and which were compared with it."""


OnProgress = Callable[[Progress], None]


def check_disk_space(folder: Path, needed_bytes: int, name: str) -> None:
    """Refuse to start what cannot fit.

    Raises:
        DownloadError: less than `needed_bytes` and a reserve are free where `folder` is.
    """
    free = shutil.disk_usage(folder).free
    if free < needed_bytes + _SPARE_BYTES:
        raise DownloadError(
            f"{name} needs {megabytes(needed_bytes + _SPARE_BYTES)} free in {folder}, there are {megabytes(free)}",
            "free some space, or choose another place with --models-dir",
        )


def is_wanted(name: str) -> bool:
    """Whether a file of a model folder is data that the product reads (exported forms and code are not)."""
    path = PurePosixPath(name)
    return path.suffix.lower() in _FOLDER_SUFFIXES and path.parts[0] not in {"onnx", "openvino"}


def safe_relative(name: str, *, where: str) -> PurePosixPath:
    """Accept a file name from outside only if it stays inside the folder it is put in.

    Raises:
        DownloadError: it is absolute, climbs out, or has characters that mean something else on some system.
    """
    path = PurePosixPath(name)
    hostile = not path.parts or path.is_absolute() or ".." in path.parts or any(c in name for c in "\\:\0")
    if hostile:
        raise DownloadError(f"{where} holds a file name that leaves its folder: {name!r}")
    return path


def megabytes(size: int) -> str:
    """Write a size as people read it on a file page (1 MB = 1,000,000 bytes)."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
