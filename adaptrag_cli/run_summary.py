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
    ProbeMeasured,
    PromptBuilt,
    PseudoContextWritten,
    QueryBuilt,
    RankedChunk,
    RunFailed,
    RunFinished,
    RunStarted,
    SentenceCited,
    StepAnswered,
    StepDecided,
    SubQueryAsked,
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
class ReasoningCall:
    """A call that wrote a part of the chain of thought, the words that were watched in it, and where it was cut."""

    writing: Writing = field(default_factory=Writing)
    words: tuple[WordMeasured, ...] = ()
    cut: int | None = None
    """The first token that was discarded; None where all of them stand."""
    cut_reason: str = ""

    @property
    def kept_tokens(self) -> tuple[TokenGenerated, ...]:
        return self.writing.tokens[: self.cut]

    @property
    def discarded_tokens(self) -> tuple[TokenGenerated, ...]:
        return () if self.cut is None else self.writing.tokens[self.cut :]

    @property
    def kept(self) -> str:
        return _text(self.kept_tokens)

    @property
    def discarded(self) -> str:
        return _text(self.discarded_tokens)

    @property
    def firing_word(self) -> WordMeasured | None:
        """The word because of which it was looked up."""
        return next((word for word in self.words if word.fires), None)


@dataclass(frozen=True, kw_only=True)
class Round:
    """One look-up: the decision that asked for it, what was searched for and what was found."""

    decision: DecisionMade
    calls: int
    """How many calls had written the chain of thought when it was looked up."""
    kept: str
    """The chain of thought as it stood then, without what was discarded; empty where there is none."""
    word: WordMeasured | None = None
    """The word that asked for it, where words are watched."""
    discarded: str = ""
    """What was cut off for it."""
    probe: ProbeMeasured | None = None
    """What the model's states said, where they ask for it."""
    query: QueryBuilt | None = None
    """None where the question itself, or a passage, is searched for."""
    paths: Mapping[PathName, PathRetrieved] = field(default_factory=dict)
    selection: ChunksSelected | None = None


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a narrative: what it asked, whether it looked that up, and what it answered."""

    asked: SubQueryAsked
    decided: StepDecided | None = None
    """None where the run ended before, or because the step asked again what was asked."""
    answered: StepAnswered | None = None
    round: int | None = None
    """Number of its look-up in the `rounds` of the run, from 0; None where it has none."""


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """A run as a whole. Of things that happen several times (a phase, a path), the last one stands.

    Every look-up is one of the `rounds`. Of methods that look up while they write, all `reasoning_calls` together write
    the chain of thought. Methods that ask in `steps` have no chain of thought.
    """

    started: RunStarted
    writings: Mapping[Phase, Writing] = field(default_factory=dict)
    pseudo_context: str | None = None
    uncertainty: UncertaintyMeasured | None = None
    """The last one that was measured."""
    reasoning_calls: tuple[ReasoningCall, ...] = ()
    rounds: tuple[Round, ...] = ()
    probes: tuple[ProbeMeasured, ...] = ()
    """One for each text whose states were read, in the order of the rounds."""
    steps: tuple[Step, ...] = ()
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
        return "".join(call.kept for call in self.reasoning_calls)

    @property
    def looks_up_while_writing(self) -> bool:
        """Whether it was searched for what had been written so far."""
        return any(each.query is not None for each in self.rounds)

    def unwatched_after(self, each: Round) -> ReasoningCall | None:
        """The call that was written from what a look-up found and kept as it came, where other calls are watched."""
        after = self.reasoning_calls[each.calls] if each.calls < len(self.reasoning_calls) else None
        watches = any(call.words for call in self.reasoning_calls)
        return after if after is not None and watches and not after.words else None

    def round_of(self, step: Step) -> Round | None:
        """The look-up of a step."""
        return None if step.round is None else self.rounds[step.round]

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
            return _watch(run, event)
        case TokensDiscarded():
            return _discard(run, event)
        case QueryBuilt():
            return _begin_search(run, event)
        case AgreementMeasured():
            return replace(run, agreement=event)
        case ProbeMeasured():
            return replace(run, probes=(*run.probes, event))
        case SubQueryAsked():
            return replace(run, steps=(*run.steps, Step(asked=event)))
        case StepDecided():
            return _in_step(run, decided=event)
        case StepAnswered():
            return _in_step(run, answered=event)
        case DecisionMade():
            run = replace(run, decision=event)
            return _open_round(run, event) if event.retrieve else run
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


def _reason(run: RunSummary, event: PromptBuilt | TokenGenerated | GenerationFinished | GenerationReused) -> RunSummary:
    calls = run.reasoning_calls
    if isinstance(event, PromptBuilt | GenerationReused) or not calls:
        return replace(run, reasoning_calls=(*calls, ReasoningCall(writing=_write(Writing(), event))))
    return _in_call(run, writing=_write(calls[-1].writing, event))


def _watch(run: RunSummary, event: WordMeasured) -> RunSummary:
    if event.phase != "reasoning" or not run.reasoning_calls:
        return run
    return _in_call(run, words=(*run.reasoning_calls[-1].words, event))


def _discard(run: RunSummary, event: TokensDiscarded) -> RunSummary:
    if event.phase == "answer":
        return _discard_answer(run, event)
    if event.phase != "reasoning" or not run.reasoning_calls:
        return run
    run = _in_call(run, cut=event.from_step, cut_reason=event.reason)
    is_told_late = run.rounds and run.rounds[-1].calls == len(run.reasoning_calls)
    return _in_round(run, kept=run.reasoning, discarded=run.reasoning_calls[-1].discarded) if is_told_late else run


def _discard_answer(run: RunSummary, event: TokensDiscarded) -> RunSummary:
    """An answer that is written anew: what stood is told with the round that it was discarded for."""
    run = replace(run, writings={phase: writing for phase, writing in run.writings.items() if phase != "answer"})
    if not run.rounds:
        return run
    parts = (run.rounds[-1].discarded, event.text.strip())
    return _in_round(run, discarded="\n".join(part for part in parts if part))


def _in_call(run: RunSummary, **changed: Any) -> RunSummary:
    *before, last = run.reasoning_calls
    return replace(run, reasoning_calls=(*before, replace(last, **changed)))


def _open_round(run: RunSummary, decision: DecisionMade) -> RunSummary:
    last = run.reasoning_calls[-1] if run.reasoning_calls else ReasoningCall()
    opened = Round(
        decision=decision,
        calls=len(run.reasoning_calls),
        kept=run.reasoning,
        word=last.firing_word,
        discarded=last.discarded,
        probe=run.probes[-1] if run.probes else None,
    )
    if run.steps and run.steps[-1].answered is None:
        run = _in_step(run, round=len(run.rounds))
    return replace(run, rounds=(*run.rounds, opened))


def _begin_search(run: RunSummary, query: QueryBuilt) -> RunSummary:
    """Each query is a look-up of its own: one decision may ask for several."""
    if run.rounds and run.rounds[-1].query is not None:
        last = run.rounds[-1]
        run = replace(run, rounds=(*run.rounds, replace(last, query=None, paths={}, selection=None)))
    return _in_round(run, query=query)


def _in_step(run: RunSummary, **told: Any) -> RunSummary:
    if not run.steps:
        return run
    return replace(run, steps=(*run.steps[:-1], replace(run.steps[-1], **told)))


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


def _text(tokens: Iterable[TokenGenerated]) -> str:
    return "".join(token.text for token in tokens)
