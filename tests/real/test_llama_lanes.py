"""Two and three texts decoded as one batch have bit for bit the numbers of one-by-one.

A property of llama.cpp's CPU kernels on the machine at hand: when it fails, `MAX_EQUAL_LANES` is too large for them.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from adaptrag_cli.errors import ConfigError, ModelError, RunCancelled
from adaptrag_cli.models.base import Generation, LanguageModel, Token, load_lanes
from adaptrag_cli.models.context import PART
from adaptrag_cli.models.lanes import MAX_EQUAL_LANES
from adaptrag_cli.models.llama import LlamaModel

pytestmark = pytest.mark.small_model

QUESTIONS = (
    "Name three rivers of France.",
    "Why does the moon have phases? Explain it in one sentence for a child who has never heard of orbits.",
    "2, 4, 8, 16: what comes next?",
    "Write a passage about the lighthouse of Saltmarsh and its keeper, Dr. Oleander Finch, who sold umbrellas.",
    "What is sold here? " + "Umbrellas, kites and rope. " * 32,  # more cells of the cache than the others take
    "Translate to German: the ferry leaves at twenty to seven, except on Mondays.",
)
LENGTHS = (8, 12, 3, 10, 4, 12)


def load(path: Path, lanes: int) -> tuple[LanguageModel, ...]:
    return load_lanes(
        path, lanes=lanes, name="small", fingerprint="sha256:test", trusted=True, context_length=512, threads=1
    )


@pytest.fixture(scope="module")
def alone(small_llm_path: Path) -> dict[str, Generation]:
    """Every question on a model of its own lane, from an empty cache."""
    (model,) = load(small_llm_path, 1)
    generations = {}
    for question, length in zip(QUESTIONS, LENGTHS, strict=True):
        model.forget()
        generations[question] = finish(model.generate(model.build_prompt(question), max_tokens=length))
    model.close()
    return generations


@pytest.fixture(scope="module")
def lanes(small_llm_path: Path) -> Iterator[tuple[LanguageModel, ...]]:
    models = load(small_llm_path, MAX_EQUAL_LANES)
    yield models
    models[0].close()


def finish(tokens: Generator[Token, None, Generation]) -> Generation:
    while True:
        try:
            next(tokens)
        except StopIteration as done:
            return done.value


def start(model: LanguageModel, question: str) -> Generator[Token, None, Generation]:
    return model.generate(model.build_prompt(question), max_tokens=LENGTHS[QUESTIONS.index(question)])


def in_lock_step(lanes: Sequence[LanguageModel], questions: Sequence[str]) -> dict[str, Generation]:
    """Take a token of each in turn; a lane that is free takes the next question."""
    waiting = list(questions)
    going: dict[int, tuple[str, Generator[Token, None, Generation]]] = {}
    done: dict[str, Generation] = {}
    while waiting or going:
        for lane, model in enumerate(lanes):
            if lane not in going and waiting:
                question = waiting.pop(0)
                going[lane] = (question, start(model, question))
            if lane in going:
                question, tokens = going[lane]
                try:
                    next(tokens)
                except StopIteration as end:
                    done[question] = end.value
                    del going[lane]
    return done


def numbers(generation: Generation) -> list[tuple[object, ...]]:
    return [(t.id, t.text, t.logprob, t.entropy, t.alternatives) for t in generation.tokens]


@pytest.mark.parametrize("count", [2, 3])
def test_a_batch_gives_the_numbers_of_one_by_one(
    lanes: tuple[LanguageModel, ...], alone: dict[str, Generation], count: int
):
    for lane in lanes:
        lane.forget()
    together = in_lock_step(lanes[:count], QUESTIONS)
    for question in QUESTIONS:
        assert numbers(together[question]) == numbers(alone[question]), question
        assert together[question].stop_reason == alone[question].stop_reason


def test_lanes_reuse_their_own_prompts_only(lanes: tuple[LanguageModel, ...], alone: dict[str, Generation]):
    in_lock_step(lanes, QUESTIONS[:3])
    again = in_lock_step(lanes, QUESTIONS[:3])
    for question in QUESTIONS[:3]:
        assert numbers(again[question]) == numbers(alone[question])
        assert again[question].reused_tokens > 0
    other_way = in_lock_step(lanes, QUESTIONS[2::-1])
    assert all(numbers(other_way[q]) == numbers(alone[q]) for q in QUESTIONS[:3])


def test_a_text_that_is_left_does_not_disturb_the_others(
    lanes: tuple[LanguageModel, ...], alone: dict[str, Generation]
):
    first, second, third = (start(model, question) for model, question in zip(lanes, QUESTIONS, strict=False))
    for tokens in (first, second, third, first, second, third):
        next(tokens)
    second.close()
    assert numbers(finish(first)) == numbers(alone[QUESTIONS[0]])
    assert numbers(finish(third)) == numbers(alone[QUESTIONS[2]])


def test_each_text_is_charged_its_share(lanes: tuple[LanguageModel, ...]):
    """The shares add up to no more than the time that passed, though each batch served several texts."""
    started = time.perf_counter()
    together = in_lock_step(lanes, QUESTIONS[:3])
    passed = time.perf_counter() - started
    shares = [generation.seconds for generation in together.values()]
    assert min(shares) > 0
    assert passed / 2 < sum(shares) <= passed


def test_texts_begin_end_and_meet_at_any_time(lanes: tuple[LanguageModel, ...], alone: dict[str, Generation]):
    """Rivers alone, then with the moon, then all three; the series ends by its length, the moon is asked on alone."""
    rivers, moon, series = (start(lane, question) for lane, question in zip(lanes, QUESTIONS, strict=False))
    seen = [next(rivers), next(rivers)]
    others = [next(moon)]
    for _ in range(2):
        seen.append(next(rivers))
        others.append(next(moon))
        next(series)
    assert numbers(finish(series)) == numbers(alone[QUESTIONS[2]])
    assert tuple(seen) == alone[QUESTIONS[0]].tokens[: len(seen)]
    assert numbers(finish(moon)) == numbers(alone[QUESTIONS[1]])
    assert numbers(finish(rivers)) == numbers(alone[QUESTIONS[0]])


def test_a_stop_string_ends_one_text_only(lanes: tuple[LanguageModel, ...], alone: dict[str, Generation]):
    full = alone[QUESTIONS[1]].text
    stop = full[len(full) // 2 :][:5]
    stopped = lanes[0].generate(lanes[0].build_prompt(QUESTIONS[1]), max_tokens=LENGTHS[1], stop=(stop,))
    going = start(lanes[1], QUESTIONS[3])
    for tokens in (stopped, going, stopped, going):
        next(tokens)
    cut = finish(stopped)
    assert (cut.text, cut.stop_reason) == (full[: full.index(stop)], "stop")
    assert numbers(finish(going)) == numbers(alone[QUESTIONS[3]])


def test_labels_are_scored_between_the_tokens_of_others(lanes: tuple[LanguageModel, ...], alone: dict[str, Generation]):
    first, second = start(lanes[0], QUESTIONS[0]), start(lanes[1], QUESTIONS[1])
    for tokens in (first, second, first):
        next(tokens)
    best = alone[QUESTIONS[3]].tokens[0]
    scores = lanes[2].label_logprobs(lanes[2].build_prompt(QUESTIONS[3]), [best.text])
    assert scores.logprobs == (best.logprob,)
    assert numbers(finish(second)) == numbers(alone[QUESTIONS[1]])
    assert numbers(finish(first)) == numbers(alone[QUESTIONS[0]])


def test_cancel_stops_every_lane_and_a_new_call_does_not_revive_them(
    lanes: tuple[LanguageModel, ...], alone: dict[str, Generation]
):
    first, second, third = (start(lane, question) for lane, question in zip(lanes, QUESTIONS, strict=False))
    for tokens in (first, second, first):  # the second has a token decoded ahead, the third has not begun
        next(tokens)
    lanes[2].cancel()
    with pytest.raises(RunCancelled):
        next(first)
    again = start(lanes[0], QUESTIONS[3])
    next(again)
    for tokens in (second, third):
        with pytest.raises(RunCancelled):
            next(tokens)
    assert numbers(finish(again)) == numbers(alone[QUESTIONS[3]])


def test_a_call_after_cancel_leaves_the_others_stopped(lanes: tuple[LanguageModel, ...]):
    """The flag is taken back before any lane could look at it."""
    first, second = start(lanes[0], QUESTIONS[0]), start(lanes[1], QUESTIONS[1])
    next(first)
    next(second)
    lanes[0].cancel()
    next(start(lanes[2], QUESTIONS[2]))
    for tokens in (first, second):
        with pytest.raises(RunCancelled):
            next(tokens)


def test_a_batch_that_fails_ends_its_texts_only(
    lanes: tuple[LlamaModel, ...], alone: dict[str, Generation], monkeypatch: pytest.MonkeyPatch
):
    first, second = start(lanes[0], QUESTIONS[0]), start(lanes[1], QUESTIONS[1])
    next(first)
    next(second)
    context = lanes[0]._context
    with monkeypatch.context() as patch:
        patch.setattr(context._native, "llama_decode", lambda *_: -3)
        with pytest.raises(ModelError, match="could not evaluate 2 tokens"):
            next(first)
    with pytest.raises(ModelError, match="could not evaluate 2 tokens"):
        next(second)
    assert numbers(finish(start(lanes[1], QUESTIONS[1]))) == numbers(alone[QUESTIONS[1]])


def test_a_prefill_that_fails_leaves_the_other_texts_alone(
    lanes: tuple[LlamaModel, ...], alone: dict[str, Generation], monkeypatch: pytest.MonkeyPatch
):
    first = start(lanes[0], QUESTIONS[0])
    next(first)
    with monkeypatch.context() as patch:
        patch.setattr(lanes[0]._context._native, "llama_decode", lambda *_: -3)
        with pytest.raises(ModelError):
            next(start(lanes[1], QUESTIONS[1]))
    assert numbers(finish(first)) == numbers(alone[QUESTIONS[0]])


def test_logits_that_are_no_numbers_end_only_the_text_they_belong_to(
    lanes: tuple[LlamaModel, ...], alone: dict[str, Generation], monkeypatch: pytest.MonkeyPatch
):
    first, second, third = (start(lane, question) for lane, question in zip(lanes, QUESTIONS, strict=False))
    for tokens in (first, second, third):
        next(tokens)
    context = lanes[0]._context
    real = context.logits

    def damaged(position: int = -1) -> np.ndarray:
        return real(position) * np.float32(np.nan if position == 1 else 1)

    with monkeypatch.context() as patch:
        patch.setattr(context, "logits", damaged)
        next(first)
    with pytest.raises(ModelError, match="not numbers"):
        next(second)
    assert numbers(finish(first)) == numbers(alone[QUESTIONS[0]])
    assert numbers(finish(third)) == numbers(alone[QUESTIONS[2]])


def test_labels_can_be_cancelled(lanes: tuple[LlamaModel, ...], monkeypatch: pytest.MonkeyPatch):
    lane = lanes[1]
    evaluate = lane._context._evaluate
    parts: list[int] = []

    def cancelled(token_ids: Sequence[int], sequence: int = 0) -> None:
        parts.append(len(token_ids))
        lanes[0].cancel()
        evaluate(token_ids, sequence)

    prompt = lane.build_prompt("Umbrellas, kites and rope. " * 14)
    lane.forget()
    with monkeypatch.context() as patch:
        patch.setattr(lane._context, "_evaluate", cancelled)
        with pytest.raises(RunCancelled):
            lane.label_logprobs(prompt, ["Yes"])
    assert parts == [PART], "it stopped before the prompt was done"
    assert lane.label_logprobs(prompt, ["Yes"]).reused_tokens == 0


def test_an_empty_label_is_no_label(lanes: tuple[LanguageModel, ...]):
    with pytest.raises(ValueError, match="label"):
        lanes[0].label_logprobs(lanes[0].build_prompt("x"), ["Yes", ""])


@pytest.mark.parametrize("count", [0, 129])
def test_a_number_of_lanes_without_sense_is_refused(small_llm_path: Path, count: int):
    with pytest.raises(ConfigError, match=f"{count} texts"):
        load(small_llm_path, count)
