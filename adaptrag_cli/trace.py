"""Traces on disk, and the fold of a trace into one summary.

A trace file holds one event a line. It is written as the run goes, so a killed run leaves a readable beginning. A file
whose name ends in `.gz` is compressed; reading goes by what the file holds, whatever its name.
`fold` is the only place where events become a whole; the command line, `--json` and evaluation read its summary.
"""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, cast, get_args

import msgspec

from adaptrag_cli.errors import AdaptRAGError, ConfigError
from adaptrag_cli.events import (
    SCHEMA_VERSION,
    AgreementMeasured,
    AnswersWeighed,
    AnyEvent,
    Candidate,
    ChunkPeeked,
    ChunksReranked,
    ChunksSelected,
    DecisionMade,
    Event,
    EvidenceJudged,
    GenerationFinished,
    GenerationReused,
    PathName,
    PathRetrieved,
    Phase,
    PromptBuilt,
    PseudoContextWritten,
    QueryBuilt,
    RankedChunk,
    Record,
    RunFailed,
    RunFinished,
    RunStarted,
    SentenceCited,
    TokenGenerated,
    TokensDiscarded,
    UncertaintyMeasured,
    WarningRaised,
    WordMeasured,
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


@dataclass(frozen=True, kw_only=True)
class Writing:
    """What one phase wrote, and from what."""

    text: str = ""
    tokens: tuple[TokenGenerated, ...] = ()
    prompt: PromptBuilt | None = None
    finished: GenerationFinished | None = None
    is_reused: bool = False
    """The caller handed the text in, so no prompt was built."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """One look-up: the decision that asked for it, what was searched for and what was found."""

    decision: DecisionMade
    kept: str
    """The chain of thought as it stood when it was looked up, without what was discarded; empty where there is none."""
    discarded: str = ""
    """What was cut off for it."""
    query: QueryBuilt | None = None
    """None where the question itself, or a passage, is searched for."""
    paths: Mapping[PathName, PathRetrieved] = field(default_factory=dict)
    selection: ChunksSelected | None = None


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """A run as a whole. Of things that happen several times (a phase, a path), the last one stands.

    Methods that look up while they reason go through `rounds`, and all calls together write `reasoning`.
    """

    started: RunStarted
    writings: Mapping[Phase, Writing] = field(default_factory=dict)
    pseudo_context: str | None = None
    uncertainty: UncertaintyMeasured | None = None
    """The last one that was measured."""
    reasoning_calls: tuple[tuple[str, ...], ...] = ()
    """The texts of the tokens that each call of the chain of thought wrote and kept."""
    watched: tuple[WordMeasured, ...] = ()
    cut_off: str = ""
    """What was discarded since the last decision."""
    rounds: tuple[Round, ...] = ()
    agreement: AgreementMeasured | None = None
    decision: DecisionMade | None = None
    paths: Mapping[PathName, PathRetrieved] = field(default_factory=dict)
    reranking: Mapping[PathName, ChunksReranked] = field(default_factory=dict)
    """By the text that the chunks were read against."""
    selections: tuple[ChunksSelected, ...] = ()
    peek: RankedChunk | None = None
    sentences: tuple[SentenceCited, ...] = ()
    evidence: EvidenceJudged | None = None
    weighing: AnswersWeighed | None = None
    warnings: tuple[WarningRaised, ...] = ()
    finished: RunFinished | None = None
    failed: RunFailed | None = None

    @property
    def reasoning(self) -> str:
        """The chain of thought without what was discarded; empty where there is none."""
        return "".join(text for call in self.reasoning_calls for text in call)

    @property
    def selection(self) -> ChunksSelected | None:
        """The last one."""
        return self.selections[-1] if self.selections else None

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """All scored chunks in selection order."""
        return self.selection.candidates if self.selection else ()

    @property
    def selected(self) -> tuple[Candidate, ...]:
        """The chunks that were kept, best first."""
        return tuple(candidate for candidate in self.candidates if candidate.kept)

    @property
    def sources(self) -> tuple[Candidate, ...]:
        """The chunks that were consulted for the answer, in the order of its prompt: marker [1] is the first."""
        by_id = {candidate.chunk_id: candidate for s in self.selections for candidate in s.candidates}
        chunk_ids = self.finished.chunk_ids if self.finished else ()
        return tuple(by_id[chunk_id] for chunk_id in chunk_ids if chunk_id in by_id)

    @property
    def was_looked_up(self) -> bool:
        """Whether documents were searched for the answer; a search that only helped to decide does not count."""
        return any(not path.before_decision for path in self.paths.values()) or self.selection is not None

    @property
    def total_ms(self) -> float:
        """Time from the start of the run to its end."""
        end = self.finished or self.failed
        return end.elapsed_ms if end else 0.0


def fold(events: Iterable[Event]) -> RunSummary:
    """Put a run together from its events; a run that was cut off gives what there was.

    Raises:
        ValueError: the first event is not `run_started`.
    """
    stream = iter(events)
    started = next(stream, None)
    if not isinstance(started, RunStarted):
        raise ValueError("a run starts with run_started")
    return advance(RunSummary(started=started), stream)


def advance(run: RunSummary, events: Iterable[Event]) -> RunSummary:
    """Put more events of a run to what is folded already."""
    return reduce(_advance, events, run)


def _advance(run: RunSummary, event: Event) -> RunSummary:
    match event:
        case PromptBuilt() | TokenGenerated() | GenerationFinished() | GenerationReused():
            before = run.writings.get(event.phase, Writing())
            run = replace(run, writings={**run.writings, event.phase: _write(before, event)})
            return _reason(run, event) if event.phase == "reasoning" else run
        case UncertaintyMeasured():
            return replace(run, uncertainty=event)
        case WordMeasured():
            return replace(run, watched=(*run.watched, event))
        case TokensDiscarded():
            return _discard(run, event)
        case QueryBuilt():
            return _in_round(run, query=event)
        case AgreementMeasured():
            return replace(run, agreement=event)
        case DecisionMade():
            opened = (Round(decision=event, kept=run.reasoning, discarded=run.cut_off),) if event.retrieve else ()
            return replace(run, decision=event, rounds=(*run.rounds, *opened), cut_off="")
        case PseudoContextWritten():
            return replace(run, pseudo_context=event.text)
        case PathRetrieved():
            run = replace(run, paths={**run.paths, event.path: event})
            return _in_round(run, paths={**run.rounds[-1].paths, event.path: event}) if run.rounds else run
        case ChunksReranked():
            return replace(run, reranking={**run.reranking, event.path: event})
        case ChunksSelected():
            return _in_round(replace(run, selections=(*run.selections, event)), selection=event)
        case ChunkPeeked():
            return replace(run, peek=event.chunk)
        case SentenceCited():
            return replace(run, sentences=(*run.sentences, event))
        case EvidenceJudged():
            return replace(run, evidence=event)
        case AnswersWeighed():
            return replace(run, weighing=event)
        case WarningRaised():
            return replace(run, warnings=(*run.warnings, event))
        case RunFinished():
            return replace(run, finished=event)
        case RunFailed():
            return replace(run, failed=event)
    raise TypeError(f"no place in a summary for {type(event).__name__}")


def _reason(run: RunSummary, event: Event) -> RunSummary:
    calls = run.reasoning_calls
    match event:
        case PromptBuilt():
            return replace(run, reasoning_calls=(*calls, ()))
        case TokenGenerated() if calls:
            return replace(run, reasoning_calls=(*calls[:-1], (*calls[-1], event.text)))
    return run


def _discard(run: RunSummary, event: TokensDiscarded) -> RunSummary:
    calls = run.reasoning_calls
    if event.phase != "reasoning" or not calls:
        return run
    return replace(run, reasoning_calls=(*calls[:-1], calls[-1][: event.from_step]), cut_off=event.text)


def _in_round(run: RunSummary, **found: Any) -> RunSummary:
    if not run.rounds:
        return run
    return replace(run, rounds=(*run.rounds[:-1], replace(run.rounds[-1], **found)))


def _write(before: Writing, event: PromptBuilt | TokenGenerated | GenerationFinished | GenerationReused) -> Writing:
    match event:
        case PromptBuilt():
            return Writing(prompt=event)
        case TokenGenerated():
            text = before.text if before.is_reused else before.text + event.text
            return replace(before, text=text, tokens=(*before.tokens, event))
        case GenerationFinished():
            return replace(before, text=event.text, finished=event)
        case GenerationReused():
            return Writing(text=event.text, is_reused=True)


def to_document(run: RunSummary) -> dict[str, Any]:
    """The document of `--json`, with the names that the README lists. Names are added, never renamed or removed.

    Raises:
        ValueError: the run has no answer.
    """
    if run.finished is None:
        raise ValueError("only a finished run has a document")
    end = run.finished
    return {
        "query": run.started.query,
        "strategy": run.started.strategy,
        "model": run.started.model,
        "index": run.started.index,
        "answer": end.answer,
        "answer_source": end.answer_source,
        "decision": _decision_document(run.decision),
        "draft": _writing_document(run.writings.get("draft")),
        "pseudo_context": _writing_document(run.writings.get("pseudo_context")),
        "reasoning": run.reasoning or None,
        "rounds": [_round_document(each) for each in run.rounds],
        "phases": {phase: _call_document(writing) for phase, writing in run.writings.items()},
        "agreement": _pick(run.agreement, _AGREEMENT_FIELDS) if run.agreement else None,
        "paths": {name: _path_document(run.paths.get(name)) for name in get_args(PathName)},
        "reranking": [_reranking_document(reranked) for reranked in run.reranking.values()],
        "selected": [_pick(chunk, _SELECTED_FIELDS) for chunk in run.selected],
        "candidates": [_pick(chunk, _CANDIDATE_FIELDS) for chunk in run.candidates],
        "peek": _pick(run.peek, _PEEK_FIELDS) if run.peek else None,
        "sentences": [_pick(sentence, ("text", "chunk_ids", "markers")) for sentence in run.sentences],
        "evidence": _pick(run.evidence, _EVIDENCE_FIELDS) if run.evidence else None,
        "weighing": _pick(run.weighing, _WEIGHING_FIELDS) if run.weighing else None,
        "counts": msgspec.to_builtins(end.counts),
        "timings_ms": {**_stage_times(end), "total": end.elapsed_ms},
        "warnings": [_pick(warning, ("code", "message")) for warning in run.warnings],
    }


_DECISION_FIELDS = ("retrieve", "uncertainty", "threshold", "reason")
_ODDS_FIELDS = ("above", "up_to", "right", "drafts")
_AGREEMENT_FIELDS = ("rule", "first", "second", "value", "limit", "agree")
_CALL_FIELDS = ("prompt_tokens", "reused_tokens", "generated_tokens", "stop_reason")
_WEIGHING_FIELDS = ("draft_chance", "documents_chance", "floor", "chosen")
_PEEK_FIELDS = ("chunk_id", "document", "location", "score")
_PATH_FIELDS = ("chunk_id", "document", "location", "rank", "score")
_SCORE_FIELDS = ("query_score", "pseudo_context_score", "ais_score", "rank")
_SELECTED_FIELDS = ("chunk_id", "document", "location", "text", *_SCORE_FIELDS)
_CANDIDATE_FIELDS = (*_SELECTED_FIELDS, "title", "paths", "query_angle", "pseudo_context_angle", "kept")
_EVIDENCE_FIELDS = ("supported", "answer_uncertainty", "best_query_score", "reason")


def _decision_document(decision: DecisionMade | None) -> dict[str, Any] | None:
    if decision is None:
        return None
    odds = decision.draft_odds
    return {**_pick(decision, _DECISION_FIELDS), "draft_odds": _pick(odds, _ODDS_FIELDS) if odds else None}


def _round_document(each: Round) -> dict[str, Any]:
    query = each.query
    return {
        "decision": _pick(each.decision, _DECISION_FIELDS),
        "kept": each.kept,
        "discarded": each.discarded,
        "query": {
            "method": query.method,
            "text": query.text,
            "words": [_pick(word, ("text", "weight")) for word in query.words],
        }
        if query
        else None,
        "paths": {name: _path_document(path) for name, path in each.paths.items()},
        "selected": [c.chunk_id for c in each.selection.candidates if c.kept] if each.selection else [],
    }


def _pick(record: Record, names: Iterable[str]) -> dict[str, Any]:
    values = ((name, getattr(record, name)) for name in names)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values}


def _writing_document(writing: Writing | None) -> dict[str, Any] | None:
    if writing is None:
        return None
    return {
        "text": writing.text,
        "tokens": [_pick(token, ("text", "logprob", "entropy")) for token in writing.tokens],
    }


def _call_document(writing: Writing) -> dict[str, Any]:
    """A call of the model; its numbers are null where the text was handed in, or the run ended before the call did."""
    done = writing.finished
    numbers = _pick(done, _CALL_FIELDS) if done else dict.fromkeys(_CALL_FIELDS)
    return {"text": writing.text, "is_reused": writing.is_reused, **numbers}


def _reranking_document(reranked: ChunksReranked) -> dict[str, Any]:
    chunks = zip(reranked.chunk_ids, reranked.scores, strict=False)  # a trace from elsewhere may hold anything
    return {
        **_pick(reranked, ("reranker", "path", "llm_calls")),
        "chunks": [{"chunk_id": chunk_id, "score": score} for chunk_id, score in chunks],
    }


def _path_document(path: PathRetrieved | None) -> list[dict[str, Any]]:
    return [_pick(chunk, _PATH_FIELDS) for chunk in path.chunks] if path else []


def _stage_times(end: RunFinished) -> dict[str, float]:
    times: dict[str, float] = {}
    for timing in end.timings:
        times[timing.stage] = times.get(timing.stage, 0.0) + timing.ms
    return times
