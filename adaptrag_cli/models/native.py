"""The seam to llama.cpp's C library: start it quietly, stop it from another thread, count the cores."""

from __future__ import annotations

import ctypes
import os
import sys
from collections import deque
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

_ERROR_LEVEL = 4  # GGML_LOG_LEVEL_ERROR
_errors: deque[str] = deque(maxlen=20)
_kept_callbacks: list[Any] = []


@cache
def llama_library() -> ModuleType:
    """Import and start llama.cpp once, with its log kept from the terminal."""
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # an abort would otherwise start a debugger and print its output
    import llama_cpp

    log = llama_cpp.llama_log_callback(_keep_error)
    _kept_callbacks.append(log)  # a collected callback is a segmentation fault
    llama_cpp.llama_log_set(log, None)
    llama_cpp.llama_backend_init()
    return llama_cpp


def _keep_error(level: int, text: bytes | None, _: object) -> None:
    if level == _ERROR_LEVEL and text and text.strip():
        _errors.append(" ".join(text.decode("utf-8", "replace").split()))


def forget_native_errors() -> None:
    """Drop what llama.cpp has complained about so far."""
    _errors.clear()


def native_reason() -> str:
    """The most telling of llama.cpp's complaints, without its function names; empty when there is none."""
    for line in _errors:  # the first is the cause, later ones repeat it from further up
        return line.split("error loading model: ")[-1].split(": error: ")[-1]
    return ""


class StopFlag:
    """A flag that llama.cpp polls hundreds of times a token without taking Python's interpreter lock.

    The abort callback is the C library's own `strlen` over a two-byte buffer: its result, 0 or 1, is the flag.
    """

    def __init__(self) -> None:
        llama_cpp = llama_library()
        library = ctypes.cdll.msvcrt if sys.platform == "win32" else ctypes.CDLL(None)
        self._bytes = ctypes.create_string_buffer(2)
        self._callback = ctypes.cast(library.strlen, llama_cpp.ggml_abort_callback)

    def attach(self, context: Any) -> None:
        """Let this flag stop evaluations in a `llama_context`; it must live as long as the context."""
        address = ctypes.cast(self._bytes, ctypes.c_void_p)
        llama_library().llama_set_abort_callback(context, self._callback, address)

    @property
    def is_set(self) -> bool:
        return self._bytes.raw[0] != 0

    def set(self) -> None:
        self._bytes[0] = b"\x01"

    def reset(self) -> None:
        self._bytes[0] = b"\x00"


def physical_cores() -> int:
    """Count the physical cores this process may use, with CPU affinity and a container's quota respected.

    More threads than that wait for each other in busy loops and are slower, not faster.
    """
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    allowed = os.sched_getaffinity(0)
    cores = {_siblings(cpu) for cpu in allowed}
    return max(1, min(len(cores), _quota() or len(cores)))


def _siblings(cpu: int) -> str:
    try:
        return Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)


def _quota() -> int | None:
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, round(int(limit) / int(period)))
    except (OSError, ValueError):  # not Linux, or `max`: no quota
        return None
