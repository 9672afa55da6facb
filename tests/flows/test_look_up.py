"""A look-up without a run: what a strategy would retrieve and select, and texts taken out of earlier runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import pytest

from adaptrag_cli import engine
from adaptrag_cli.errors import ExitCode, RunCancelled
from adaptrag_cli.events import (
    ChunksSelected,
    Event,
    GenerationFinished,
    GenerationReused,
    PathRetrieved,
    PromptBuilt,
    PseudoContextWritten,
    RunFailed,
    RunStarted,
    TokenGenerated,
    UncertaintyMeasured,
    WarningRaised,
)
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.strategies.base import Options, Resources, Reuse, load_strategy
from adaptrag_cli.strategies.table import strategy_names
from fakes import ScriptedModel, reply
from lamp import DRAFTING, IMAGINING, QUERY, lamp_retriever, run, unsure_model


@pytest.fixture
def retriever(tmp_path: Path) -> Retriever:
    return lamp_retriever(tmp_path)


@pytest.fixture
def model() -> ScriptedModel:
    return unsure_model(ScriptedModel(gives_states=True))


def look_up(
    model: ScriptedModel,
    retriever: Retriever | None,
    strategy: str = "dtr",
    *,
    query: str = QUERY,
    reuse: Reuse | None = None,
    warnings: Sequence[WarningRaised] = (),
) -> list[Event]:
    use = Resources(
        model=model,
        retriever=retriever,
        options=Options(threshold=0.3, top_n=2, top_k=2),
        reuse=reuse or Reuse(),
    )
    ticks = count()
    asked = engine.Run(query=query, warnings=warnings)
    return list(engine.look_up(asked, load_strategy(strategy), use, clock=lambda: next(ticks) / 1000))


def content(events: Sequence[Event], *kinds: type) -> list[tuple[object, ...]]:
    """The events of these kinds, without their number and time."""
    return [
        tuple(getattr(e, name) for name in e.__struct_fields__ if name not in {"seq", "elapsed_ms"})
        for e in events
        if isinstance(e, kinds)
    ]


def test_dtr_imagines_searches_both_paths_and_selects_and_nothing_else(model, retriever):
    events = look_up(model, retriever)
    kinds = [type(event) for event in events if not isinstance(event, TokenGenerated)]
    assert kinds == [
        RunStarted,
        PromptBuilt,
        GenerationFinished,
        PseudoContextWritten,
        PathRetrieved,
        PathRetrieved,
        ChunksSelected,
    ]
    assert [IMAGINING in call.prompt.text for call in model.calls] == [True]


@pytest.mark.parametrize("strategy", ["dtr", "always"])
def test_it_finds_what_a_run_of_the_strategy_finds(model, retriever, strategy):
    kinds = (PseudoContextWritten, PathRetrieved, ChunksSelected)
    found = content(look_up(model, retriever, strategy), *kinds)
    assert found == content(run(model, retriever, strategy), *kinds)
    assert found


def test_never_gives_what_always_would_find(retriever):
    model = ScriptedModel()  # any call would fail
    kinds = (PathRetrieved, ChunksSelected)
    assert content(look_up(model, retriever, "never"), *kinds) == content(look_up(model, retriever, "always"), *kinds)


def test_it_is_stamped_like_a_run(model, retriever):
    events = look_up(model, retriever)
    assert [event.seq for event in events] == list(range(len(events)))
    assert [event.elapsed_ms for event in events] == [n + 1.0 for n in range(len(events))]  # a tick of 1 ms each


def test_what_is_known_before_comes_first(model, retriever):
    warning = WarningRaised(code="index_not_fresh", message="1 file changed")
    events = look_up(model, retriever, warnings=[warning])
    assert content(events[1:2], WarningRaised) == [("index_not_fresh", "1 file changed")]


@pytest.mark.parametrize("strategy", strategy_names())
def test_without_an_index_the_last_event_says_what_to_do(model, strategy):
    failed = look_up(model, None, strategy)[-1]
    assert isinstance(failed, RunFailed)
    assert (failed.error, failed.exit_code, failed.hint) == ("ConfigError", ExitCode.USAGE, "adaptrag index FOLDER")


def test_an_empty_question_is_refused(model, retriever):
    failed = look_up(model, retriever, query=" ")[-1]
    assert isinstance(failed, RunFailed)
    assert failed.message == "the question is empty"


@pytest.mark.parametrize("at", [PromptBuilt, TokenGenerated, PathRetrieved, ChunksSelected])
def test_it_can_be_told_to_stop(model, retriever, at):
    use = Resources(model=model, retriever=retriever, options=Options())
    stream = engine.look_up(engine.Run(query=QUERY), load_strategy("dtr"), use)
    while not isinstance(next(stream), at):
        pass
    failed = stream.throw(RunCancelled("stopped"))
    assert isinstance(failed, RunFailed)
    assert failed.exit_code == ExitCode.INTERRUPTED
    assert list(stream) == []


def test_texts_come_out_of_a_run_as_the_model_wrote_them(model, retriever):
    reuse = Reuse.of_events(run(model, retriever))
    for taken, words in ((reuse.draft, DRAFTING), (reuse.pseudo_context, IMAGINING)):
        written = next(call.generation for call in model.calls if words in call.prompt.text)
        assert taken is not None and written is not None
        assert (taken.text, taken.stop_reason) == (written.text, written.stop_reason)
        assert (taken.prompt_tokens, taken.reused_tokens) == (written.prompt_tokens, written.reused_tokens)
        assert [(t.text, t.logprob, t.entropy, t.alternatives) for t in taken.tokens] == [
            (t.text, t.logprob, t.entropy, t.alternatives) for t in written.tokens
        ]
        assert {token.id for token in taken.tokens} == {-1}


def test_with_the_texts_of_a_run_only_the_answer_is_generated(model, retriever):
    skipped = run(model, retriever, threshold=0.9)
    found = look_up(model, retriever)
    model.calls.clear()
    events = run(model, retriever, reuse=Reuse.of_events([*skipped, *found]))
    assert ["above context" in call.prompt.text for call in model.calls] == [True]
    assert content(events, UncertaintyMeasured) == content(skipped, UncertaintyMeasured)
    assert content(events, ChunksSelected) == content(found, ChunksSelected)


def test_a_look_up_with_the_pseudo_context_at_hand_calls_no_model(model, retriever):
    first = run(model, retriever)
    again = look_up(ScriptedModel(), retriever, reuse=Reuse.of_events(first))
    assert content(again, PathRetrieved, ChunksSelected) == content(first, PathRetrieved, ChunksSelected)


def test_texts_that_were_reused_are_reused_again(model, retriever):
    first = run(model, retriever)
    once = Reuse.of_events(first)
    second = run(model, retriever, reuse=once)
    assert len([e for e in second if isinstance(e, GenerationReused)]) == 2
    twice = Reuse.of_events(second)
    assert twice.draft is not None and once.draft is not None
    assert (twice.draft.text, twice.draft.tokens) == (once.draft.text, once.draft.tokens)
    assert (twice.draft.prompt_tokens, twice.draft.stop_reason) == (0, "end")  # no call was made for it
    assert twice.pseudo_context is not None and once.pseudo_context is not None
    assert twice.pseudo_context.tokens == once.pseudo_context.tokens


def until(events: Sequence[Event], is_last: Callable[[Event], bool]) -> list[Event]:
    """The beginning of a run, up to the first event that is meant, and the failure that ended it there."""
    stop = next(i for i, event in enumerate(events) if is_last(event)) + 1
    stopped = RunFailed(error="RunCancelled", message="stopped", hint="", exit_code=130)
    return [*events[:stop], stopped]


def test_a_text_that_was_cut_off_is_not_reused(model, retriever):
    events = run(model, retriever)
    cut = until(events, lambda e: isinstance(e, TokenGenerated) and e.phase == "pseudo_context" and e.step == 2)
    assert Reuse.of_events(cut).draft == Reuse.of_events(events).draft
    assert Reuse.of_events(cut).pseudo_context is None
    assert Reuse.of_events(until(events, lambda e: isinstance(e, PromptBuilt))) == Reuse()


def test_a_reused_text_that_was_cut_off_is_not_reused(model, retriever):
    events = run(model, retriever, reuse=Reuse.of_events(run(model, retriever)))
    cut = until(events, lambda e: isinstance(e, TokenGenerated) and e.phase == "draft" and e.step == 0)
    assert Reuse.of_events(cut) == Reuse()
    assert Reuse.of_events(cut[:-1]) == Reuse()  # a killed run has no last event


def test_of_two_calls_of_a_phase_the_last_one_is_taken(model, retriever):
    other = ScriptedModel().when(IMAGINING, reply("Another passage that was imagined."))
    other.when("above", reply("Ottilie")).when(DRAFTING, reply("Swan", logprob=-2.0))
    taken = Reuse.of_events([*run(model, retriever), *run(other, retriever)])
    assert taken.draft is not None
    assert taken.draft.text == "Swan"


def test_a_run_without_a_draft_gives_none(model, retriever):
    assert Reuse.of_events(run(model, retriever, "always")) == Reuse()
    assert Reuse.of_events([]) == Reuse()
