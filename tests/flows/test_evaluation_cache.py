"""What a cached model remembers, what it charges, and what it counts as reused."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from adaptrag_cli.evaluation.cache import EvaluationCache
from adaptrag_cli.evaluation.cached import CachedModel, WorkClock
from adaptrag_cli.models.base import Generation, Prompt, Token
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
