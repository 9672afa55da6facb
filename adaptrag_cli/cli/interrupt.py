"""Ctrl-C while a model computes.

Python runs signal handlers between bytecodes of the main thread, so none runs while that thread is inside llama.cpp.
The interpreter's C handler, however, writes the signal's number to the wakeup descriptor at once; a thread that waits
on the other end cancels the model.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from adaptrag_cli.cli.boundary import say

_CANCEL_AGAIN_S = 0.1
_SLOW = 10
"""Cancellations without an end after which the person is told that the interrupt has arrived."""


class Interruption:
    """Whether the person has asked to stop."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self.is_requested = False
        self._cancel = cancel

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Cancel at the first Ctrl-C; at the second, stop the hard way."""
        if self.is_requested:
            raise KeyboardInterrupt
        self.is_requested = True
        self._cancel()

    def watch(self, descriptor: socket.socket) -> None:
        """Cancel when the descriptor delivers an interrupt, and from then on repeatedly until it is closed.

        Once is not enough: a model forgets a cancellation that came just before its next call. What cannot be
        cancelled, such as loading weights, goes on for a while: that is told.
        """
        cancelled = 0
        while True:
            try:
                numbers = descriptor.recv(64)
            except TimeoutError:
                self._cancel()
                cancelled += 1
                if cancelled == _SLOW:
                    say("stopping as soon as what is under way is done")
                continue
            if not numbers:
                return
            if signal.SIGINT in numbers:
                self._cancel()
                descriptor.settimeout(_CANCEL_AGAIN_S)


@contextmanager
def cancelling_on_interrupt(cancel: Callable[[], None]) -> Iterator[Interruption]:
    """Call `cancel` at Ctrl-C, from whichever thread gets there first; restore all handlers afterwards.

    Does nothing outside the main thread, or where interrupts are ignored (`nohup`, background jobs).
    """
    interruption = Interruption(cancel)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield interruption
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)  # set_wakeup_fd demands it
    thread = threading.Thread(target=interruption.watch, args=(reader,), daemon=True, name="adaptrag-interrupt")
    thread.start()
    previous_descriptor = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    previous_handler = signal.signal(signal.SIGINT, interruption.on_signal)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGINT, previous_handler)
        signal.set_wakeup_fd(previous_descriptor)
        writer.close()
        thread.join()
        reader.close()
