"""What a cached model remembers, what it charges, and what it counts as reused."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adaptrag_cli.evaluation.cache import EvaluationCache
from adaptrag_cli.evaluation.cached import CachedModel, WorkClock
from adaptrag_cli.models.base import Generation, LabelScores, Prompt, Token
from adaptrag_cli.models.context import SHORTEST_PART
from fakes import ScriptedModel, reply

BEFORE = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[EvaluationCache]:
    opened = EvaluationCache(tmp_path / "cache.sqlite")
    yield opened
    opened.close()


def written(tokens: Generator[Token, None, Generation]) -> Generation:
    while True:
        try:
            next(tokens)
        except StopIteration as done:
            generation: Generation = done.value
            return generation


def ask(model: CachedModel, text: str) -> Generation:
    return written(model.generate(model.build_prompt(text), max_tokens=4))


def test_what_was_remembered_is_evaluated_before_what_goes_on_from_it(cache: EvaluationCache):
    first = ScriptedModel().then(reply("a b"))
    ask(CachedModel(first, cache, WorkClock()), BEFORE)
    second = ScriptedModel().then(reply("c d"))
    model = CachedModel(second, cache, WorkClock())
    assert ask(model, BEFORE).text == "a b"
    assert second.prefilled == [], "nothing is evaluated for a text that is remembered"
    then = ask(model, f"{BEFORE} and on")
    # 17 tokens are alike, 11 of them stand before the shortest part of the first prompt, and whole fours are reused.
    prompt = second.build_prompt(f"{BEFORE} and on").token_ids
    assert then.reused_tokens == 8
    assert second.prefilled == [prompt[: 8 + SHORTEST_PART]]


def test_nothing_is_evaluated_twice_when_nothing_was_remembered(cache: EvaluationCache):
    scripted = ScriptedModel().then(reply("a b"), reply("c d"))
    model = CachedModel(scripted, cache, WorkClock())
    ask(model, BEFORE)
    assert ask(model, f"{BEFORE} and on").reused_tokens == 8
    assert scripted.prefilled == []


def test_to_catch_up_costs_no_time_of_the_run(cache: EvaluationCache, monkeypatch: pytest.MonkeyPatch):
    ask(CachedModel(ScriptedModel().then(reply("a b")), cache, WorkClock()), BEFORE)
    scripted = ScriptedModel().then(reply("c d"))
    monkeypatch.setattr(scripted, "prefill", lambda prompt: time.sleep(0.2))
    clock = WorkClock()
    model = CachedModel(scripted, cache, clock)
    begun = clock()
    ask(model, BEFORE)
    ask(model, f"{BEFORE} and on")
    assert clock() - begun < 0.2


def test_what_is_read_alone_takes_nothing_from_the_cache(cache: EvaluationCache):
    scripted = ScriptedModel().then(reply("a b"), reply("c d"))
    model = CachedModel(scripted, cache, WorkClock())
    ask(model, BEFORE)
    model.attend(Prompt(text="", token_ids=()), model.tokenize("a b"))
    assert ask(model, f"{BEFORE} and on").reused_tokens == 8


def test_what_is_read_in_its_place_is_what_the_next_prompt_finds(cache: EvaluationCache):
    scripted = ScriptedModel().then(reply("a b"), reply("c d"))
    model = CachedModel(scripted, cache, WorkClock())
    ask(model, BEFORE)
    model.attend(model.build_prompt("something else"), model.tokenize("a b"))
    assert ask(model, f"{BEFORE} and on").reused_tokens == 0


class PacedModel(ScriptedModel):
    """Takes a hundredth of a second for each token of a prompt that it evaluates, and a tenth to write."""

    def generate(self, prompt: Prompt, **wanted: Any) -> Generator[Token, None, Generation]:
        return self._paced(super().generate(prompt, **wanted))

    def _paced(self, tokens: Generator[Token, None, Generation]) -> Generator[Token, None, Generation]:
        generation = yield from tokens
        prefill = 0.01 * (generation.prompt_tokens - generation.reused_tokens)
        return replace(generation, seconds=prefill + 0.1, prefill_seconds=prefill)


def test_what_another_run_left_spares_work_and_is_charged(cache: EvaluationCache):
    """The model evaluates the words that both questions begin with once; each run is charged for all of its own."""
    paced = PacedModel().then(reply("a b"), reply("c d"))
    clock = WorkClock()
    model = CachedModel(paced, cache, clock)
    charged = []
    for text in (BEFORE, f"{BEFORE} and on", f"{BEFORE} and on"):
        model.forget()
        begun = clock()
        generation = ask(model, text)
        charged.append(clock() - begun)
        assert generation.reused_tokens == 0, "a run on its own finds nothing in the cache"
    assert paced.calls[1].generation.reused_tokens > 8
    alone = [0.01 * len(paced.build_prompt(text)) + 0.1 for text in (BEFORE, f"{BEFORE} and on", f"{BEFORE} and on")]
    assert charged == pytest.approx(alone, abs=0.01), "the last one was remembered"


def test_labels_that_another_run_spared_are_charged(cache: EvaluationCache, monkeypatch: pytest.MonkeyPatch):
    """Half a second for 40 tokens alone; the 40 that are spared later cost the same again."""
    scripted = ScriptedModel()
    scores = iter(
        (
            LabelScores(logprobs=(-1.0,), prompt_tokens=40, reused_tokens=0),
            LabelScores(logprobs=(-2.0,), prompt_tokens=40, reused_tokens=40),
        )
    )
    times = iter((0.5, 0.0))

    def score(prompt: Prompt, labels: Sequence[str]) -> LabelScores:
        time.sleep(next(times))
        return next(scores)

    monkeypatch.setattr(scripted, "label_logprobs", score)
    clock = WorkClock()
    model = CachedModel(scripted, cache, clock)
    model.label_logprobs(model.build_prompt(BEFORE), ("yes",))
    model.forget()
    begun = clock()
    assert model.label_logprobs(model.build_prompt(f"{BEFORE} and on"), ("yes",)).reused_tokens == 0
    assert clock() - begun == pytest.approx(0.5, abs=0.1)


def test_states_are_measured_from_an_empty_cache(cache: EvaluationCache, monkeypatch: pytest.MonkeyPatch):
    """The model does not tell what it was spared of a prompt whose states it gives."""
    scripted = ScriptedModel().then(reply("a b"))
    held = []

    def read(prompt: Prompt, layers: Sequence[int]) -> dict[int, tuple[float, ...]]:
        held.append(scripted._cached)
        return dict.fromkeys(layers, (1.0,))

    monkeypatch.setattr(scripted, "prompt_states", read)
    model = CachedModel(scripted, cache, WorkClock())
    ask(model, BEFORE)
    model.forget()
    assert model.prompt_states(model.build_prompt(BEFORE), (0,)) == {0: (1.0,)}
    assert held == [()]
