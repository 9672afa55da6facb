"""A run as a whole: the fold of its events into one summary.

`fold` is the only place where events become a whole; the command line, `--json` and the exports read its summary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from adaptrag_cli.events import (
    AgreementMeasured,
    AnswersWeighed,
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
    RunFailed,
    RunFinished,
    RunStarted,
    SentenceCited,
    TokenGenerated,
    TokensDiscarded,
    UncertaintyMeasured,
    WarningRaised,
    WordMeasured,
)


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
