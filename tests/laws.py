"""The laws of the stream of events, as `adaptrag_cli.events` states them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from adaptrag_cli.answers import concluded_answer, final_answer, marked_answer, tagged_answer
from adaptrag_cli.events import (
    DOCUMENTS_DO_NOT_TELL,
    ChunksSelected,
    DecisionMade,
    Event,
    GenerationReused,
    PathRetrieved,
    Phase,
    PromptBuilt,
    RunFailed,
    RunFinished,
    RunStarted,
    SentenceCited,
    TokenGenerated,
    TokensDiscarded,
)


def check_laws(events: Sequence[Event]) -> None:
    """Assert the laws of the stream.

    Raises:
        AssertionError: naming the law that is broken.
    """
    assert events and isinstance(events[0], RunStarted), "the first event is run_started"
    terminal = [i for i, event in enumerate(events) if isinstance(event, RunFinished | RunFailed)]
    assert terminal == [len(events) - 1], "exactly one terminal event, last"
    assert [event.seq for event in events] == list(range(len(events))), "seq is 0..n without gaps"
    times = [event.elapsed_ms for event in events]
    assert times == sorted(times), "time never goes back"
    retrieved: set[str] = set()
    decided = False
    for event in events:
        if isinstance(event, DecisionMade):
            decided = event.retrieve
        elif isinstance(event, PathRetrieved):
            assert decided or event.before_decision, "a retrieval follows a decision that said yes"
            retrieved.update(chunk.chunk_id for chunk in event.chunks)
        elif isinstance(event, ChunksSelected):
            assert {c.chunk_id for c in event.candidates} <= retrieved, "a selected chunk came from a path"
            assert [c.rank for c in event.candidates] == list(range(1, len(event.candidates) + 1)), "ranks are 1..n"
    last = events[-1]
    if isinstance(last, RunFinished):
        kept = kept_chunk_ids(events)
        assert set(last.chunk_ids) <= kept, "a source was selected"
        assert last.answer == _extracted(events, last), "the answer is its stated extraction"


def _extracted(events: Sequence[Event], end: RunFinished) -> str:
    match end.extraction:
        case "whole":
            return _written(events, "answer")
        case "tagged":
            return tagged_answer(_written(events, "draft" if end.answer_source == "draft" else "answer"))
        case "draft":
            return _written(events, "draft")
        case "reasoned":
            return concluded_answer(kept_text(events, "reasoning"), _written(events, "answer"))
        case "concluded":
            written = _written(events, "answer")
            return concluded_answer(written, written)
        case "marked":
            return marked_answer(kept_text(events, "reasoning"), _written(events, "answer"))
        case "final":
            return final_answer(_written(events, "sub_query"), _written(events, "answer"))
        case "cited":
            return " ".join(event.marked_text for event in events if isinstance(event, SentenceCited))
        case "none":
            return DOCUMENTS_DO_NOT_TELL


def _written(events: Sequence[Event], phase: Phase) -> str:
    """The trimmed tokens of a phase; of several calls, the last one stands."""
    text = ""
    for event in events:
        if isinstance(event, PromptBuilt | GenerationReused) and event.phase == phase:
            text = ""
        elif isinstance(event, TokenGenerated) and event.phase == phase:
            text += event.text
    return text.strip()


def kept_text(events: Iterable[Event], phase: Phase) -> str:
    """All that the calls of a phase wrote, one after the other, without the tokens that were discarded."""
    calls: list[list[str]] = []
    for event in events:
        match event:
            case PromptBuilt() if event.phase == phase:
                calls.append([])
            case TokenGenerated() if event.phase == phase:
                calls[-1].append(event.text)
            case TokensDiscarded() if event.phase == phase:
                del calls[-1][event.from_step :]
    return "".join(text for call in calls for text in call)


def kept_chunk_ids(events: Iterable[Event]) -> set[str]:
    """Ids of the chunks that any selection kept."""
    return {c.chunk_id for e in events if isinstance(e, ChunksSelected) for c in e.candidates if c.kept}
