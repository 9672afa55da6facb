"""An engine without a process: the little world of `lamp`, asked in a thread.

It speaks the same protocol, runs the real `engine` with a scripted model, and waits where a test tells it to.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path

from adaptrag_cli import engine
from adaptrag_cli.config import load_settings
from adaptrag_cli.errors import AdaptRAGError, RunCancelled
from adaptrag_cli.events import Setting, TokenGenerated
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.service.protocol import (
    AnyReply,
    AnyRequest,
    Ask,
    Cancel,
    Ended,
    LookUp,
    Prepare,
    Ready,
    Told,
    failed,
)
from adaptrag_cli.strategies.base import Options, Resources, Reuse, load_strategy, resolve_options
from fakes import ScriptedModel
from lamp import lamp_retriever, unsure_model

THRESHOLD = 0.3
MEASURED = Setting(name="threshold", value=THRESHOLD, origin="measured for this model")


class StubEngine:
    """Answers requests in the thread that reads its batches."""

    def __init__(
        self, folder: Path, *, model: ScriptedModel | None = None, failure: AdaptRAGError | None = None
    ) -> None:
        self.model = unsure_model(model)
        self.failure = failure
        """Raised instead of getting ready."""
        self.gate = threading.Event()
        """While it is clear, a run waits after the second token of its draft."""
        self.gate.set()
        self.dies = False
        """End without a word when the next run has written a token."""
        self.requests: list[AnyRequest] = []
        self.is_closed = False
        self._retriever: Retriever = lamp_retriever(folder)
        self._queue: queue.Queue[AnyRequest | None] = queue.Queue()
        self._cancelled: set[int] = set()

    def send(self, request: AnyRequest) -> None:
        self.requests.append(request)
        if isinstance(request, Cancel):
            self._cancelled.add(request.job)
            self.gate.set()
        else:
            self._queue.put(request)

    def batches(self) -> Iterator[list[AnyReply]]:
        while (request := self._queue.get()) is not None:
            for reply in self._replies(request):
                yield [reply]
                if self.dies and isinstance(reply, Told) and isinstance(reply.event, TokenGenerated):
                    return

    def last_words(self) -> str:
        return "killed by SIGABRT\nGGML_ASSERT failed"

    def close(self) -> None:
        self.is_closed = True
        self.gate.set()
        self._queue.put(None)

    def _replies(self, request: Prepare | Ask | LookUp) -> Iterator[AnyReply]:
        if self.failure is not None:
            yield failed(request.job, self.failure)
            return
        settings = load_settings(flags=request.flags)
        strategy = load_strategy(settings.ask.strategy)
        options, rows = resolve_options(strategy, settings.ask, settings.origins, measured=(MEASURED,))
        yield self._ready(request.job, strategy.name, options)
        if not isinstance(request, Prepare):
            use = Resources(
                model=self.model,
                retriever=self._retriever,
                options=options,
                reuse=Reuse.of_events(request.reuse),
            )
            run = engine.Run(query=request.query, settings=rows)
            begin = engine.answer if isinstance(request, Ask) else engine.look_up
            yield from self._told(request.job, begin(run, strategy, use))
        yield Ended(job=request.job)

    def _told(self, job: int, events) -> Iterator[AnyReply]:
        event = next(events, None)
        tokens = 0
        while event is not None:
            yield Told(job=job, event=event)
            tokens += isinstance(event, TokenGenerated)
            if tokens == 1:
                self.gate.wait()
            event = events.throw(RunCancelled("stopped")) if job in self._cancelled else next(events, None)
            self._cancelled.discard(job)

    def _ready(self, job: int, strategy: str, options: Options) -> Ready:
        info, store = self.model.info, self._retriever.store
        return Ready(
            job=job,
            strategy=strategy,
            model=info.name,
            model_path=info.path,
            gpu_layers_requested=info.gpu_layers_requested,
            gpu_layers_used=info.gpu_layers_used,
            gpu_reason=info.gpu_reason,
            threads=info.threads,
            context_length=info.context_length,
            index=store.name,
            index_path=str(store.path),
            index_fingerprint=store.fingerprint,
            chunks=store.chunk_count,
            is_fresh=True,
            warnings=(),
            defaults={"threshold": options.threshold, "top_k": options.top_k},
        )
