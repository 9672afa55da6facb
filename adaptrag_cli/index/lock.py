"""One writer of an index at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from adaptrag_cli.disk import only_process
from adaptrag_cli.errors import IndexBusy

LOCK_FOLDER = ".locks"


@contextmanager
def writer_lock(index_dir: Path, name: str) -> Iterator[None]:
    """Hold the right to write an index.

    Raises:
        IndexBusy: another process holds it; the message carries its id.
    """

    def busy(pid: str) -> IndexBusy:
        return IndexBusy(f"index {name!r} is being written by process {pid}", "wait until it is done, or stop it")

    with only_process(index_dir / LOCK_FOLDER, name, busy):
        yield
