"""Files of an index that survive a crash: hashed while they are written, and flushed to the disk."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, cast

from adaptrag_cli.disk import flush_to_disk
from adaptrag_cli.errors import AdaptRAGError

if TYPE_CHECKING:
    from numpy.typing import NDArray


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


def write_array(path: Path, values: NDArray[Any]) -> DurableFile:
    """Write one array as `.npy`, without pickle."""
    import numpy as np

    with DurableFile(path) as file:
        np.lib.format.write_array(cast("IO[bytes]", file), values, allow_pickle=False)
    return file


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
