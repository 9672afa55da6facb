"""The engine's own process: requests on stdin, replies on stdout, one job after another.

The main thread works. A second one listens, so that `Cancel` and the end of stdin are heard while a model computes.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO, cast

from adaptrag_cli.config import load_settings
from adaptrag_cli.errors import AdaptRAGError, RunCancelled
from adaptrag_cli.events import AnyEvent, Event, RunFailed, RunFinished
from adaptrag_cli.models.base import LanguageModel
from adaptrag_cli.service.protocol import (
    AnyReply,
    AnyRequest,
    Ask,
    Cancel,
    Ended,
    Failed,
    LookUp,
    Noted,
    Prepare,
    Ready,
    Told,
    decode_request,
    encode_message,
    failed,
)
from adaptrag_cli.session.session import Session, open_session
from adaptrag_cli.strategies.base import Reuse

_CANCEL_AGAIN_S = 0.05

Work = Prepare | Ask | LookUp


def main() -> None:
    """Serve until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the screen decides
    threading.excepthook = _end_with
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    # What a native library prints must not stand between the replies, nor may anything else read a request.
    os.dup2(2, 1)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    server = _Server(replies)
    threading.Thread(target=server.listen, args=(requests,), daemon=True, name="adaptrag-requests").start()
    server.work()


def _end_with(failure: threading.ExceptHookArgs) -> None:
    """End the process when a thread breaks: one that no longer listens would outlive its parent."""
    threading.__excepthook__(failure)
    sys.stderr.flush()
    os._exit(1)


class _Job:
    """A request that waits, runs, or is over."""

    def __init__(self, request: Work) -> None:
        self.request = request
        self.is_cancelled = False
        self._is_running = False
        self._model: LanguageModel | None = None
        self._over = threading.Event()
        self._lock = threading.Lock()

    def begin(self) -> bool:
        """Start to run; False when it was cancelled while it waited."""
        with self._lock:
            self._is_running = not self.is_cancelled
            return self._is_running

    def reach(self, model: LanguageModel) -> None:
        """Let a cancellation reach the model."""
        with self._lock:
            self._model = model

    def end(self) -> None:
        """Be over: from now on the model is another job's."""
        with self._lock:
            self._over.set()

    def cancel(self) -> bool:
        """Stop, or never start: True says that it waited and is dropped."""
        with self._lock:
            if self.is_cancelled or self._over.is_set():
                return False
            self.is_cancelled = True
            if not self._is_running:
                return True
        threading.Thread(target=self._cancel_model, daemon=True, name="adaptrag-cancel").start()
        return False

    def _cancel_model(self) -> None:
        """Cancel until the job is over: a model forgets a cancellation that came just before its next call."""
        while not self._over.is_set():
            with self._lock:
                if self._model is not None and not self._over.is_set():
                    self._model.cancel()
            self._over.wait(_CANCEL_AGAIN_S)


class _Server:
    """Does the jobs, and keeps between them what is loaded."""

    def __init__(self, replies: BinaryIO) -> None:
        self._replies = replies
        self._sending = threading.Lock()
        self._waiting: queue.Queue[_Job] = queue.Queue()
        self._jobs: dict[int, _Job] = {}
        self._session: Session | None = None

    def listen(self, requests: BinaryIO) -> None:
        """Take requests until there is nobody left who could send one, and then end the process at once."""
        for line in requests:
            if not line.endswith(b"\n"):  # the sender was killed while it wrote
                break
            self._hear(decode_request(line))
        os._exit(0)  # a native call under way would not return for a while

    def work(self) -> None:
        """Do one job after another, for ever."""
        while True:
            job = self._waiting.get()
            if job.begin():
                last = self._do(job)
                job.end()  # first, so that no cancellation of it reaches the next one
                self._send(last)
            del self._jobs[job.request.job]

    def _hear(self, request: AnyRequest) -> None:
        if not isinstance(request, Cancel):
            job = self._jobs[request.job] = _Job(request)
            self._waiting.put(job)
        elif (known := self._jobs.get(request.job)) is not None and known.cancel():
            self._send(failed(request.job, RunCancelled("stopped before it began")))

    def _do(self, job: _Job) -> Ended | Failed:
        request = job.request
        try:
            session = self._open(request)
        except AdaptRAGError as error:
            return failed(request.job, error)
        job.reach(session.model)
        self._send(_ready(request.job, session))
        match request:
            case Ask():
                self._tell(job, session.ask(request.query, reuse=Reuse.of_events(request.reuse)))
            case LookUp():
                self._tell(job, session.look_up(request.query, reuse=Reuse.of_events(request.reuse)))
            case Prepare():
                pass
        return Ended(job=request.job)

    def _open(self, request: Work) -> Session:
        config_file = Path(request.config_file) if request.config_file is not None else None
        settings = load_settings(flags=request.flags, config_file=config_file)
        self._session = open_session(
            settings, keep=self._session, on_note=lambda text: self._send(Noted(job=request.job, text=text))
        )
        return self._session

    def _tell(self, job: _Job, events: Generator[Event, None, None]) -> None:
        """Pass the events on as they come; tell the run itself to stop, since between two calls no model hears it."""
        with closing(events):
            event = next(events, None)
            while event is not None:
                self._send(Told(job=job.request.job, event=cast(AnyEvent, event)))
                if isinstance(event, RunFinished | RunFailed):
                    return
                try:
                    event = events.throw(RunCancelled("stopped")) if job.is_cancelled else next(events)
                except StopIteration:  # a look-up has no event that says it is the last
                    return

    def _send(self, reply: AnyReply) -> None:
        line = encode_message(reply)
        try:
            with self._sending:
                self._replies.write(line)
                self._replies.flush()
        except OSError:  # nobody is left who could read it
            os._exit(0)


def _ready(job: int, session: Session) -> Ready:
    info, store = session.model.info, session.store
    return Ready(
        job=job,
        strategy=session.strategy.name,
        model=info.name,
        model_path=info.path,
        gpu_layers_requested=info.gpu_layers_requested,
        gpu_layers_used=info.gpu_layers_used,
        gpu_reason=info.gpu_reason,
        threads=info.threads,
        context_length=info.context_length,
        index=store.name if store else "",
        index_path=str(store.path) if store else "",
        index_fingerprint=store.fingerprint if store else "",
        chunks=store.chunk_count if store else 0,
        is_fresh=session.freshness is None or session.freshness.is_fresh,
        warnings=session.warnings,
        defaults=asdict(session.options),
    )
