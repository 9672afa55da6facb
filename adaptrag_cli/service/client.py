"""The screen's end of the pipe: start the engine's process, send requests, take replies in batches, see it die."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from adaptrag_cli.errors import AdaptRAGError
from adaptrag_cli.service.protocol import AnyReply, AnyRequest, decode_reply, encode_message
from adaptrag_cli.terminal import printable

_GRACE_S = 0.2
_LAST_LINES = 10
_LAST_BYTES = 8192
# The package may stand in a folder that is only on this process's path; the working folder must not be on the child's.
_START = "import sys; sys.path.append(sys.argv[1]); from adaptrag_cli.service.child import main; main()"


class EngineProcess:
    """The engine in a process of its own, started by the first request. Once it has ended it stays so."""

    def __init__(self, command: Sequence[str] | None = None) -> None:
        """`command` starts another program that talks the same protocol (in tests)."""
        root = str(Path(__file__).resolve().parents[2])
        self._command = command or [sys.executable, "-P", "-c", _START, root]
        self._replies: queue.Queue[AnyReply | None] = queue.Queue()
        """None says that no more will come."""
        self._ended = threading.Event()
        self._last_words = ""
        self._is_closed = False
        self._starting = threading.Lock()
        self._writing = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and not self._ended.is_set()

    def send(self, request: AnyRequest) -> None:
        """Hand a request over. One to a process that has ended is lost, which `batches` tells by its end.

        Raises:
            AdaptRAGError: the process cannot be started.
        """
        line = encode_message(request)
        with self._starting:
            if self._is_closed:
                return
            process = self._process or self._start()
        assert process.stdin is not None
        with self._writing, suppress(OSError, ValueError):  # a broken pipe, or one that is closed here
            process.stdin.write(line)
            process.stdin.flush()

    def batches(self, interval_s: float = 0.2) -> Iterator[list[AnyReply]]:
        """Yield replies in order, at most one batch in each interval, until the process has ended.

        The first reply after a pause comes at once.
        """
        due = 0.0
        while (reply := self._replies.get()) is not None:
            self._ended.wait(max(0.0, due - time.monotonic()))
            due = time.monotonic() + interval_s
            batch = [reply]
            for _ in range(self._replies.qsize()):
                if (reply := self._replies.get()) is None:
                    self._replies.put(None)
                    break
                batch.append(reply)
            yield batch
        self._replies.put(None)  # for whoever asks again

    def last_words(self) -> str:
        """How it ended, and the last lines that it wrote to stderr; empty while it runs."""
        return self._last_words

    def close(self) -> None:
        """End it at once, whatever it does. Safe to call twice and from another thread."""
        with self._starting:
            self._is_closed = True
            process, reader = self._process, self._reader
        if process is None or reader is None:
            self._ended.set()
            self._replies.put(None)
            return
        self._close_stdin(process)
        if not self._ended.wait(_GRACE_S):
            process.kill()
        reader.join()

    def _close_stdin(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        if self._writing.acquire(timeout=_GRACE_S):  # not while a request is on its way into a process that hangs
            with suppress(OSError):  # unsent bytes for a dead process
                process.stdin.close()
            self._writing.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> subprocess.Popen[bytes]:
        stderr = tempfile.TemporaryFile()  # noqa: SIM115 - `_follow` closes it
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
            )
        except OSError as error:
            stderr.close()
            raise AdaptRAGError(f"the engine's process cannot be started: {error.strerror}") from error
        self._reader = threading.Thread(
            target=self._follow, args=(self._process, stderr), daemon=True, name="adaptrag-replies"
        )
        self._reader.start()
        return self._process

    def _follow(self, process: subprocess.Popen[bytes], stderr: BinaryIO) -> None:
        """Read replies until there are no more, and clear away what the process leaves."""
        assert process.stdout is not None
        try:
            with process.stdout as replies, stderr:
                for line in replies:
                    if line.endswith(b"\n"):  # it may die in the middle of one
                        self._replies.put(decode_reply(line))
                self._last_words = _words(process.wait(), stderr)
        finally:
            self._ended.set()
            self._replies.put(None)
            self._close_stdin(process)


def _words(code: int, stderr: BinaryIO) -> str:
    size = stderr.seek(0, 2)
    stderr.seek(max(0, size - _LAST_BYTES))
    lines = [printable(line.rstrip()) for line in stderr.read().decode("utf-8", "replace").splitlines()]
    return "\n".join([_ending(code), *[line for line in lines if line][-_LAST_LINES:]])


def _ending(code: int) -> str:
    if code >= 0:
        return f"the engine's process ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:  # a real-time signal
        name = f"signal {-code}"
    return f"the engine's process was ended by {name}"
