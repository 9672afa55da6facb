"""Run one question: the only place that does.

`answer` wraps a strategy's generator, stamps and orders its events, counts what it cost, adds the peek, and turns an
expected failure into the last event; `look_up` does the same for the middle of a run alone. A programming error is not
an event: it propagates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import msgspec

from adaptrag_cli import __version__
from adaptrag_cli.errors import AdaptRAGError, ConfigError
from adaptrag_cli.events import (
    ChunkPeeked,
    ChunksReranked,
    Counts,
    Event,
    GenerationFinished,
    PathRetrieved,
    RunFailed,
    RunFinished,
    RunStarted,
    Setting,
    StageTime,
    StepDecided,
    WarningRaised,
    stage_of,
)
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.strategies.base import Answer, Resources, Strategy, check_capabilities
from adaptrag_cli.terminal import valid_unicode

Clock = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One question and what is said about it in the trace."""

    query: str
    settings: tuple[Setting, ...] = ()
    warnings: Sequence[WarningRaised] = ()
    """Known before the run: a stale index, an uncalibrated model."""
    peek: bool = True
    """Show the best chunk of one search after a skipped retrieval. Off in measurements."""


def answer(
    run: Run, strategy: Strategy, use: Resources, *, clock: Clock = time.monotonic
) -> Generator[Event, None, None]:
    """Yield the events of one run, from `run_started` to `run_finished` or `run_failed`.

    To stop early, throw `RunCancelled` in, which gives the last event; or close the generator, which gives none. Only
    working time is counted: what the consumer does between two events is not.
    """
    meter = _Meter(clock)
    return _stamped(_answering(run, strategy, use, meter), meter)


def look_up(
    run: Run, strategy: Strategy, use: Resources, *, clock: Clock = time.monotonic
) -> Generator[Event, None, None]:
    """Yield what the strategy would retrieve and select, stamped as `answer` does, and stop there.

    This is no run: nothing is decided or answered, so there is no `run_finished`, and the laws of a run do not hold. A
    failure is the last event here, too.
    """
    return _stamped(_looking_up(run, strategy, use), _Meter(clock))


def _stamped(events: Generator[Event, None, None], meter: _Meter) -> Generator[Event, None, None]:
    try:
        while True:
            meter.resume()
            try:
                yield meter.stamp(next(events))
            except StopIteration:
                return
            except AdaptRAGError as error:
                yield meter.stamp(
                    RunFailed(
                        error=type(error).__name__,
                        message=error.message,
                        hint=error.hint,
                        exit_code=int(error.exit_code),
                    )
                )
                return
    finally:
        events.close()


def _answering(run: Run, strategy: Strategy, use: Resources, meter: _Meter) -> Generator[Event, None, None]:
    query = yield from _start(run, strategy, use)
    answer_ = yield from strategy.run(query, use)
    if run.peek and answer_.source == "draft" and use.retriever is not None and meter.counts().searches == 0:
        yield from _peek(query, use.retriever, use)
    yield _finished(answer_, meter)


def _looking_up(run: Run, strategy: Strategy, use: Resources) -> Generator[Event, None, None]:
    query = yield from _start(run, strategy, use)
    use.require_retriever()  # before anything is written for the search
    yield from strategy.look_up(query, use)


def _start(run: Run, strategy: Strategy, use: Resources) -> Generator[Event, None, str]:
    """Say what is to be done and refuse what cannot be; return the question as it is asked."""
    query = _clean(run.query)
    yield _started(query, run, strategy, use)
    yield from run.warnings
    if not query:
        raise ConfigError("the question is empty", 'adaptrag ask "Who wrote the handbook?"')
    check_capabilities(strategy, use.model)
    return query


def _peek(query: str, retriever: Retriever, use: Resources) -> Generator[Event, None, None]:
    """Find one chunk as the strategy would; its score is the encoder's similarity, whichever retriever found it."""
    try:
        found = retriever.search(query, retriever=use.options.retriever, n=1)
        vector = retriever.embed(query)
        if not found or vector is None:
            yield ChunkPeeked(chunk=None)
            return
        score = float(retriever.similarities(vector, [found[0].row])[0])
        yield ChunkPeeked(chunk=msgspec.structs.replace(found[0].as_record(), score=score))
    except AdaptRAGError as error:  # the question is answered; what was not consulted cannot spoil that
        yield WarningRaised(code="peek_failed", message=error.message)


def _clean(query: str) -> str:
    return valid_unicode(query).strip()


def _started(query: str, run: Run, strategy: Strategy, use: Resources) -> RunStarted:
    info = use.model.info
    store = use.retriever.store if use.retriever is not None else None
    return RunStarted(
        query=query,
        strategy=strategy.name,
        settings=run.settings,
        model=info.name,
        model_fingerprint=info.fingerprint,
        index=store.name if store is not None else "",
        index_fingerprint=store.fingerprint if store is not None else "",
        gpu_layers_requested=info.gpu_layers_requested,
        gpu_layers_used=info.gpu_layers_used,
        gpu_reason=info.gpu_reason,
        threads=info.threads,
        context_length=info.context_length,
        entropy_support=info.entropy_support,
        adaptrag_version=__version__,
    )


def _finished(answer_: Answer, meter: _Meter) -> RunFinished:
    return RunFinished(
        answer=answer_.text,
        answer_source=answer_.source,
        extraction=answer_.extraction,
        chunk_ids=answer_.chunk_ids,
        counts=meter.counts(),
        timings=meter.timings(),
    )


class _Meter:
    """Stamps events, and adds up counts and working time by stage."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._resumed_at = 0.0
        self._elapsed_ms = 0.0
        self._seq = 0
        self._stages: dict[str, float] = {}
        self._counts: dict[str, int] = dict.fromkeys(Counts.__struct_fields__, 0)

    def resume(self) -> None:
        self._resumed_at = self._clock()

    def stamp(self, event: Event) -> Event:
        worked_ms = max(0.0, (self._clock() - self._resumed_at) * 1000.0)
        self._elapsed_ms += worked_ms
        stage = stage_of(event)
        self._stages[stage] = self._stages.get(stage, 0.0) + worked_ms
        self._count(event)
        stamped = msgspec.structs.replace(event, seq=self._seq, elapsed_ms=round(self._elapsed_ms, 3))
        self._seq += 1
        return stamped

    def counts(self) -> Counts:
        return Counts(**self._counts)

    def timings(self) -> tuple[StageTime, ...]:
        return tuple(StageTime(stage=name, ms=round(ms, 3)) for name, ms in self._stages.items())

    def _count(self, event: Event) -> None:
        if isinstance(event, GenerationFinished):
            self._counts["llm_calls"] += 1
            self._counts["prompt_tokens"] += event.prompt_tokens
            self._counts["reused_tokens"] += event.reused_tokens
            self._counts["generated_tokens"] += event.generated_tokens
        elif isinstance(event, PathRetrieved):
            self._counts["searches"] += 1
        elif isinstance(event, ChunksReranked | StepDecided):
            self._counts["llm_calls"] += event.llm_calls
            self._counts["prompt_tokens"] += event.prompt_tokens
            self._counts["reused_tokens"] += event.reused_tokens
