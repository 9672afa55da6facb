"""Ctrl-C, as the thread that waits for it sees it."""

from __future__ import annotations

import signal
import socket
import threading
import time

import pytest

from adaptrag_cli.cli import interrupt
from adaptrag_cli.cli.interrupt import Interruption


def watched(after_s: float, *, until: int) -> list[None]:
    """The cancellations of one interrupt, ended when there are so many."""
    cancelled: list[None] = []
    reader, writer = socket.socketpair()
    thread = threading.Thread(target=Interruption(lambda: cancelled.append(None)).watch, args=(reader,))
    thread.start()
    writer.send(bytes([signal.SIGINT]))
    end = time.monotonic() + after_s
    while len(cancelled) < until and time.monotonic() < end:
        time.sleep(0.001)
    writer.close()
    thread.join()
    reader.close()
    return cancelled


def test_what_stops_at_once_is_not_talked_about(capsys: pytest.CaptureFixture[str]):
    assert watched(10, until=1)
    assert capsys.readouterr().err == ""


def test_what_goes_on_is_cancelled_again_and_told_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(interrupt, "_CANCEL_AGAIN_S", 0.001)
    assert len(watched(10, until=30)) >= 30
    assert capsys.readouterr().err.count("stopping as soon as what is under way is done") == 1
