"""Run native parsers in a child process that can be killed.

A PDF that makes its parser hang, eat the memory or crash must cost one line in the report, not the run. One child
serves many files (300 documents pay for one start) and is replaced when it dies. Requests and replies are JSON behind
a length of eight bytes; nothing is pickled.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from adaptrag_cli.documents.base import Document, TransientDocumentError
from adaptrag_cli.documents.folder import SourceFile
from adaptrag_cli.errors import DocumentError

MEMORY_LIMIT = 4 * 1024**3
"""Address space of the child in bytes, where the system can limit it."""
_RECURSION_LIMIT = 6000  # the parsers walk trees; 1000 is less than libxml2 lets through
_LENGTH = struct.Struct(">Q")
_START = (
    "import sys; sys.path.append(sys.argv[1]); from adaptrag_cli.documents.isolation import serve; "
    "serve(float(sys.argv[2]))"
)


@dataclass(frozen=True, kw_only=True)
class _Request:
    loader: str
    path: bytes
    """As the system knows it; names need not be valid Unicode."""
    name: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, kw_only=True)
class _Reply:
    document: Document | None = None
    reason: str = ""
    transient: bool = False


class ParserProcess:
    """The child and the talk with it. Safe from several threads; calls wait for each other."""

    def __init__(self, *, timeout: float = 60.0) -> None:
        self.timeout = timeout
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._replies: queue.Queue[bytes] = queue.Queue()

    def load(self, loader: str, file: SourceFile) -> Document:
        """Call `loader` (`module:function`) on the file in the child.

        Raises:
            DocumentError: the loader's own reason.
            TransientDocumentError: a timeout, the child's death, or the system's refusal.
        """
        request = _Request(
            loader=loader, path=os.fsencode(file.path), name=file.name, size=file.size, mtime_ns=file.mtime_ns
        )
        with self._lock:
            data = self._ask(msgspec.json.encode(request))
        reply = msgspec.json.decode(data, type=_Reply)
        if reply.document is None:
            raise TransientDocumentError(reply.reason) if reply.transient else DocumentError(reply.reason)
        return reply.document

    def close(self) -> None:
        """Stop the child."""
        with self._lock:
            self._stop()

    def _ask(self, request: bytes) -> bytes:
        child = self._child if self._child is not None and self._child.poll() is None else self._start()
        assert child.stdin is not None
        try:
            _write(child.stdin, request)
            data = self._replies.get(timeout=self.timeout)
        except queue.Empty:
            self._stop()
            raise TransientDocumentError(f"timed out after {self.timeout:g} s") from None
        except BaseException as error:  # Ctrl-C in the middle of an exchange would shift all later replies by one
            self._stop()
            if isinstance(error, OSError):
                raise TransientDocumentError("its parser crashed") from error
            raise
        if not data:
            self._stop()
            raise TransientDocumentError("its parser crashed")
        return data

    def _start(self) -> subprocess.Popen[bytes]:
        self._stop()
        root = str(Path(__file__).resolve().parents[2])
        self._child = child = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, root, str(self.timeout)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._replies = queue.Queue()
        threading.Thread(target=_pump, args=(child.stdout, self._replies), daemon=True).start()
        return child

    def _stop(self) -> None:
        if self._child is None:
            return
        self._child.kill()
        self._child.wait()
        for stream in (self._child.stdin, self._child.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):  # unsent bytes for a dead child
                    stream.close()
        self._child = None


def shared_process(timeout: float) -> ParserProcess:
    """The one child of this process, started when it is first needed and stopped at exit."""
    global _shared
    if _shared is None:
        _shared = ParserProcess(timeout=timeout)
        atexit.register(_shared.close)
    _shared.timeout = timeout
    return _shared


_shared: ParserProcess | None = None


def serve(timeout: float) -> None:
    """Answer requests on stdin until it ends: the child's main loop."""
    import faulthandler

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    _limit_memory()
    sys.setrecursionlimit(_RECURSION_LIMIT)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a native library prints must not stand between the replies
    while (data := _read(sys.stdin.buffer)) is not None:
        # An orphan that hangs would outlive its parent for ever.
        faulthandler.dump_traceback_later(timeout + 10, exit=True)
        reply = _answer(msgspec.json.decode(data, type=_Request))
        faulthandler.cancel_dump_traceback_later()
        _write(replies, msgspec.json.encode(reply))


def _answer(request: _Request) -> _Reply:
    file = SourceFile(
        path=Path(os.fsdecode(request.path)),
        name=request.name,
        size=request.size,
        mtime_ns=request.mtime_ns,
        alone=False,
    )
    module, function = request.loader.split(":")
    try:
        return _Reply(document=getattr(importlib.import_module(module), function)(file))
    except DocumentError as error:
        return _Reply(reason=one_line(error.message))
    except OSError as error:
        return _Reply(reason=one_line(f"cannot be read: {error.strerror or error}"), transient=True)
    except MemoryError:
        return _Reply(reason="needs too much memory", transient=True)
    except RecursionError:
        return _Reply(reason="nested too deeply")
    except (
        Exception
    ) as error:  # a foreign parser on hostile bytes raises whatever it likes; all of it is contained here
        return _Reply(reason=one_line(f"cannot be parsed: {type(error).__name__}: {error}"))


def one_line(text: str, limit: int = 200) -> str:
    """Make a third party's message fit a report."""
    text = " ".join(text.encode("utf-8", "backslashreplace").decode().split())
    return text if len(text) <= limit else f"{text[:limit]} ..."


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    for limit, value in ((resource.RLIMIT_AS, MEMORY_LIMIT), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(limit)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with contextlib.suppress(ValueError, OSError):  # macOS refuses RLIMIT_AS
            resource.setrlimit(limit, (value, hard))


def _pump(stream: IO[bytes] | None, replies: queue.Queue[bytes]) -> None:
    """Move replies from the pipe to the queue; an empty one says that the child is gone."""
    assert stream is not None
    with contextlib.suppress(OSError, ValueError):  # closed under our hands by `_stop`
        while (data := _read(stream)) is not None:
            replies.put(data)
    replies.put(b"")


def _read(stream: IO[bytes]) -> bytes | None:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    size = _LENGTH.unpack(head)[0]
    data = stream.read(size)
    return data if len(data) == size else None


def _write(stream: IO[bytes], data: bytes) -> None:
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()
