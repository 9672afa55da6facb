"""Two and three texts decoded as one batch have bit for bit the numbers of one-by-one.

A property of llama.cpp's CPU kernels on the machine at hand: when it fails, `MAX_EQUAL_LANES` is too large for them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pytest

from adaptrag_cli.models.base import Generation, LanguageModel, Token, load_lanes
from adaptrag_cli.models.lanes import MAX_EQUAL_LANES

pytestmark = pytest.mark.small_model

QUESTIONS = (
    "Name three rivers of France.",
    "Why does the moon have phases? Explain it in one sentence for a child who has never heard of orbits.",
    "2, 4, 8, 16: what comes next?",
    "Write a passage about the lighthouse of Saltmarsh and its keeper, Dr. Oleander Finch, who sold umbrellas.",
    "Is water wet?",
    "Translate to German: the ferry leaves at twenty to seven, except on Mondays.",
)
LENGTHS = (12, 20, 3, 16, 8, 24)


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
    together = in_lock_step(lanes, QUESTIONS)
    assert all(0 < generation.seconds < 60 for generation in together.values())
