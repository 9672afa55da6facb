"""One writer at a time. The operating system drops the lock when its process ends, however it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from adaptrag_cli.errors import IndexBusy

LOCK_FOLDER = ".locks"


@contextmanager
def writer_lock(index_dir: Path, name: str) -> Iterator[None]:
    """Hold the right to write an index.

    Raises:
        IndexBusy: another process holds it; the message carries its id.
    """
    from filelock import FileLock, Timeout

    folder = index_dir / LOCK_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    # The id stands beside the lock, since taking the lock truncates its file.
    holder = folder / f"{name}.pid"
    lock = FileLock(folder / f"{name}.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise IndexBusy(
            f"index {name!r} is being written by process {_read_pid(holder)}", "wait until it is done, or stop it"
        ) from error
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
