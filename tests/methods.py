"""Whole runs of single methods: run one with everything it is given, and look at its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from adaptrag_cli import engine
from adaptrag_cli.events import (
    Event,
    GenerationFinished,
    PromptBuilt,
    QueryBuilt,
    RunFinished,
    TokenGenerated,
    WarningRaised,
    decode_event,
    encode_event,
)
from adaptrag_cli.strategies.base import Options, Resources, load_strategy
from lamp import QUERY
from laws import check_laws

E = TypeVar("E", bound=Event)


def run_with(use: Resources, strategy: str, /, **options: object) -> list[Event]:
    """Ask the lamp question, and hold the trace to its laws."""
    chosen = replace(use, options=replace(Options(top_n=2, top_k=2), **options))
    events = list(engine.answer(engine.Run(query=QUERY, peek=False), load_strategy(strategy), chosen))
    check_laws(events)
    assert [decode_event(encode_event(event)) for event in events] == events
    return events


def only(events: Sequence[Event], kind: type[E]) -> E:
    """The one event of a kind."""
    found = [event for event in events if isinstance(event, kind)]
    assert len(found) == 1, f"{len(found)} of {kind.__name__}"
    return found[0]


def outline(events: Sequence[Event]) -> list[str]:
    """The events in short: kinds, and phases or paths where they have one; tokens left out."""
    shown = (e for e in events if not isinstance(e, TokenGenerated | GenerationFinished))
    return [":".join(filter(None, (type(e).__name__, getattr(e, "phase", getattr(e, "path", ""))))) for e in shown]


def codes(events: Sequence[Event]) -> list[str]:
    """The warnings."""
    return [event.code for event in events if isinstance(event, WarningRaised)]


def queries(events: Sequence[Event]) -> list[tuple[str, str]]:
    """The queries that were built, and how."""
    return [(event.method, event.text) for event in events if isinstance(event, QueryBuilt)]


def chunks_read(events: Sequence[Event]) -> list[tuple[str, ...]]:
    """The chunks that each call read."""
    return [event.chunk_ids for event in events if isinstance(event, PromptBuilt)]


def asked(events: Sequence[Event], phase: str) -> str:
    """What the model was asked in a phase, as a scripted model wraps it."""
    prompt = next(e for e in events if isinstance(e, PromptBuilt) and e.phase == phase)
    return prompt.text.removeprefix("<user>").removesuffix("</user>\n<assistant>")


def cost(events: Sequence[Event]) -> tuple[int, int]:
    """LLM calls and searches (METHODS 14)."""
    counts = only(events, RunFinished).counts
    return counts.llm_calls, counts.searches
