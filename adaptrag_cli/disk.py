"""What models and indexes both do on a disk: hash files, make changes survive a power cut, and keep to one writer."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def sha256_of(path: Path) -> str:
    """SHA-256 of a whole file as hexadecimal digits: 1 to 4 s a gigabyte."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flush_to_disk(file: IO[bytes]) -> None:
    """Push what was written to an open file through to the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_to_disk(path: Path) -> None:
    """Make a closed file's bytes, or a folder's new and renamed names, survive a power cut."""
    if os.name == "nt" and path.is_dir():  # Windows cannot open a folder, and its journal orders renames
        return
    descriptor = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_durably(path: Path, data: bytes) -> None:
    """Put new content in place of a file in one step: readers see the old or the new, never a part."""
    beside = path.with_name(f".{path.name}.new")
    with beside.open("wb") as file:
        file.write(data)
        flush_to_disk(file)
    beside.replace(path)
    sync_to_disk(path.parent)


@contextmanager
def only_process(folder: Path, name: str, busy: Callable[[str], Exception]) -> Iterator[None]:
    """Hold a lock in a folder; the operating system drops it when the process ends, however it ends.

    Args:
        busy: makes what is raised when another process holds the lock, from that process's id or `?`.
    """
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    # The id stands beside the lock: taking a lock empties its file, and some systems let nobody read a locked one.
    holder = folder / f"{name}.pid"
    lock = FileLock(folder / f"{name}.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise busy(_read_pid(holder)) from error
    try:
        holder.write_text(f"{os.getpid()}\n", encoding="ascii")
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _read_pid(holder: Path) -> str:
    try:
        digits = holder.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return "?"
    return digits if digits.isdecimal() else "?"
