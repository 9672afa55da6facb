"""Files that survive a crash: written, hashed, flushed to the disk, and put in place in one step."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, cast

from adaptrag_cli.errors import AdaptRAGError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_READ_BYTES = 1 << 20


class DurableFile:
    """A new file whose size and SHA-256 are known when it is closed and on the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._file = path.open("xb")
        self._hash = hashlib.sha256()

    def write(self, data: bytes | memoryview) -> int:
        """Append bytes."""
        self._hash.update(data)
        self.size += len(data)
        return self._file.write(data)

    @property
    def sha256(self) -> str:
        """Of what was written so far, as hexadecimal digits."""
        return self._hash.hexdigest()

    def close(self) -> None:
        """Close without flushing: the content is given up."""
        self._file.close()

    def __enter__(self) -> DurableFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                flush_to_disk(self._file)
        finally:
            self._file.close()


def flush_to_disk(file: IO[bytes]) -> None:
    """Push what was written through to the disk."""
    file.flush()
    os.fsync(file.fileno())


def write_array(path: Path, values: NDArray[Any]) -> DurableFile:
    """Write one array as `.npy`, without pickle."""
    import numpy as np

    with DurableFile(path) as file:
        np.lib.format.write_array(cast("IO[bytes]", file), values, allow_pickle=False)
    return file


def replace_durably(path: Path, data: bytes) -> None:
    """Put new content in place of a file in one step: readers see the old or the new, never a part."""
    beside = path.with_name(f".{path.name}.new")
    with beside.open("wb") as file:
        file.write(data)
        flush_to_disk(file)
    beside.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make new and renamed names in a folder survive a power cut."""
    if os.name == "nt":  # Windows cannot open a folder, and its journal orders renames
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Tell a failed write in one line.

    Raises:
        AdaptRAGError: the disk is full, or the folder is not writable.
    """
    try:
        yield
    except OSError as error:
        what = os.strerror(error.errno) if error.errno else str(error)
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        remedy = "free some space and run the same command again" if full else "choose another folder with --index-dir"
        raise AdaptRAGError(
            f"cannot write the index in {folder}: {what}", f"{remedy}; what was indexed before still answers"
        ) from error
