"""Traces on disk.

A trace file holds one event a line. It is written as the run goes, so a killed run leaves a readable beginning. A file
whose name ends in `.gz` is compressed; reading goes by what the file holds, whatever its name.
"""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

from adaptrag_cli.errors import AdaptRAGError, ConfigError
from adaptrag_cli.events import (
    SCHEMA_VERSION,
    AnyEvent,
    Event,
    RunFailed,
    RunFinished,
    RunStarted,
    decode_event,
    encode_event,
)

_RECORD_HINT = "record one with: adaptrag ask QUESTION --trace FILE"
_GZIP_START = b"\x1f\x8b"


class TraceWriter:
    """Write events to a file, one line each.

    Opening checks that the file can be written, so that a bad path is told before a model is loaded. An earlier trace
    is replaced when the first event comes; any other file with content is refused, so no document is overwritten.

    Raises:
        ConfigError: the path is a folder, cannot be written, or holds something that is not a trace.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_new = not path.exists()
        if not self._is_new:
            _refuse_foreign_content(path)
        try:
            self._file: BinaryIO = path.open("ab")
            self._lines: BinaryIO = self._file
        except OSError as error:
            raise ConfigError(
                f"cannot write the trace {path}: {error.strerror}", "name a file in a folder that exists: --trace FILE"
            ) from error
        self._written = 0

    def write(self, event: Event) -> None:
        """Append one event and hand it to the operating system.

        Raises:
            AdaptRAGError: the disk is full or gone.
        """
        try:
            if not self._written:
                self._begin()
            self._lines.write(encode_event(event) + b"\n")
            self._lines.flush()
        except OSError as error:
            raise AdaptRAGError(f"cannot write the trace {self.path}: {error.strerror}") from error
        self._written += 1

    def _begin(self) -> None:
        if stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            self._file.truncate(0)
        if self.path.suffix == ".gz":
            # Neither name nor time: equal runs give equal files.
            self._lines = cast(BinaryIO, gzip.GzipFile(filename="", fileobj=self._file, mode="wb", mtime=0))

    def close(self) -> None:
        """Close the file; a file that was made here and stayed empty is removed."""
        with suppress(OSError):  # what could not be flushed was told by `write`
            self._lines.close()
        with suppress(OSError):
            self._file.close()
        if self._is_new and not self._written:
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _refuse_foreign_content(path: Path) -> None:
    if path.is_dir():
        raise ConfigError(f"the trace {path} is a folder", "name a file: --trace FILE")
    if not path.is_file():  # a device or a pipe, such as /dev/stderr
        return
    try:
        with _opened(path) as file:
            first = file.readline()
    except (EOFError, zlib.error, gzip.BadGzipFile):
        first = _GZIP_START  # compressed, and not to be read: no trace of ours
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", "name another file: --trace FILE") from error
    if first and not _is_start_of_trace(first):
        raise ConfigError(
            f"{path} exists and is not a trace, so it is not overwritten", "name another file: --trace FILE"
        )


def _is_start_of_trace(line: bytes) -> bool:
    try:
        return isinstance(decode_event(line), RunStarted)
    except ConfigError:
        return False


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The lines of a trace, compressed or not."""
    with path.open("rb") as file:
        if file.peek(2)[:2] == _GZIP_START:
            with gzip.open(file) as lines:
                yield cast(BinaryIO, lines)
        else:
            yield file


def read_trace(path: Path) -> Iterator[AnyEvent]:
    """Read a trace, event by event, in the order of the run.

    Raises:
        ConfigError: naming file and line, when the file cannot be read, a line is no event, the order is broken, or
            the trace ends before its run did.
    """
    number = 0
    last: AnyEvent | None = None
    try:
        with _opened(path) as file:
            for number, line in enumerate(file, start=1):
                event = _read_line(path, number, line)
                _check_order(f"{path}, line {number}", last, event)
                yield event
                last = event
    except EOFError:
        pass  # a compressed file that was cut off, told below as any other
    except (zlib.error, gzip.BadGzipFile) as error:
        raise ConfigError(
            f"{path}, line {number + 1}: the compressed file is damaged: {error}", _RECORD_HINT
        ) from error
    except OSError as error:
        raise ConfigError(f"cannot read the trace {path}: {error.strerror}", _RECORD_HINT) from error
    if last is None:
        raise ConfigError(f"the trace {path} is empty", _RECORD_HINT)
    if not isinstance(last, RunFinished | RunFailed):
        raise ConfigError(f"{path}, line {number}: the trace ends before its run did", _RECORD_HINT)


def _read_line(path: Path, number: int, line: bytes) -> AnyEvent:
    try:
        return decode_event(line)
    except ConfigError as error:
        raise ConfigError(f"{path}, line {number}: {error.message}", error.hint) from error


def _check_order(where: str, last: AnyEvent | None, event: AnyEvent) -> None:
    if last is None:
        if not isinstance(event, RunStarted):
            raise ConfigError(f"{where}: a trace starts with run_started", _RECORD_HINT)
        if event.schema_version > SCHEMA_VERSION:
            raise ConfigError(
                f"{where}: schema version {event.schema_version} is newer than {SCHEMA_VERSION}", "update adaptrag-cli"
            )
    elif isinstance(event, RunStarted) or isinstance(last, RunFinished | RunFailed):
        raise ConfigError(f"{where}: the file holds more than one run", "keep one run in a file")
    expected = 0 if last is None else last.seq + 1
    if event.seq != expected:
        raise ConfigError(f"{where}: seq is {event.seq} where {expected} was expected (a line is missing)")
