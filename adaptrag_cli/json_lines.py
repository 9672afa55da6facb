"""Records as JSON lines that survive a kill: appended one durable line at a time, read back without a torn last one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from adaptrag_cli.disk import flush_to_disk
from adaptrag_cli.errors import ConfigError

T = TypeVar("T")
_SHOWN = 200
"""Characters of a reason."""


class RecordLog:
    """A file that grows by one record at a time. What a kill left of its last line is cut off first."""

    def __init__(self, path: Path) -> None:
        drop_torn_line(path)
        self._file = path.open("ab")

    def append(self, record: object) -> None:
        """Write one line through to the disk."""
        self._file.write(msgspec.json.encode(record) + b"\n")
        flush_to_disk(self._file)

    def close(self) -> None:
        self._file.close()


def read_records(path: Path, decode: Callable[[bytes], T], *, what: str, hint: str) -> Iterator[T]:
    """The records of all whole lines, in order; none where there is no file. Empty lines are passed over.

    Args:
        decode: makes a record of a line, and raises ValueError, TypeError or LookupError where it is none.
        what: what a line should be, as `no result`.

    Raises:
        ConfigError: a line is broken; names the file and the line.
        OSError: the file cannot be read.
    """
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                record = decode(line)
            except (msgspec.DecodeError, ValueError, TypeError, LookupError) as error:
                reason = " ".join(str(error).split())[:_SHOWN]
                raise ConfigError(f"{path}, line {number} is {what}: {reason}", hint) from error
            yield record


def drop_torn_line(path: Path) -> None:
    """Cut off what a kill left of a file's last line, so that the next one starts at its own."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        data = file.read()
        end = data.rfind(b"\n") + 1
        if end < len(data):
            file.truncate(end)
            os.fsync(file.fileno())
