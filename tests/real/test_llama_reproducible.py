"""The same prompt gives bit-equal logits, however its prefill is cut and whatever prefix was reused.

This is a property of llama.cpp's CPU kernels on the machine at hand. When it fails, `GRANULE` in `models/context.py` is
too small for these kernels: `test_our_granule_is_not_below_the_smallest_that_works` finds the smallest one that works.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from adaptrag_cli.models import context as runtime
from adaptrag_cli.models.chat import SafeTokenizer
from adaptrag_cli.models.context import GRANULE, PART, SHORTEST_PART, NativeContext

pytestmark = pytest.mark.small_model

TEXT = (
    "The ferry to Saltmarsh leaves at 06:40, except on Mondays, when the harbour master's daughter winds the clock. "
    "Nobody in the village can say why the bell of the lighthouse rings twice; the oldest chronicle, from 1742, blames "
    "a wager between two fishermen. (Its author, a certain Dr. Oleander Finch, also sold umbrellas.) Über den Deich "
    "führt ein Weg; 海辺には誰もいない。 for i in range(10): print(i ** 2) # squares\n"
)


@pytest.fixture(scope="module")
def native(small_llm_path: Path) -> Iterator[NativeContext]:
    opened = NativeContext(small_llm_path, context_length=512, gpu_layers=0, threads=1)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def token_ids(native: NativeContext) -> list[int]:
    return SafeTokenizer(native.vocabulary).plain_ids(TEXT * 3)


def logits_after(native: NativeContext, token_ids: Sequence[int], cuts: Sequence[int] = ()) -> np.ndarray:
    """Evaluate from an empty cache in the given parts."""
    native.forget()
    for start, end in pairwise([0, *cuts, len(token_ids)]):
        native._evaluate(token_ids[start:end])
    return native.logits().copy()


def random_cuts(length: int, granule: int, rng: random.Random) -> list[int]:
    """Choose places to cut, every part between them at least as long as the shortest and at most `PART`."""
    cuts = [0]
    while length - cuts[-1] > PART or (length - cuts[-1] > 3 * SHORTEST_PART and rng.random() < 0.7):
        longest = min(PART, length - cuts[-1] - SHORTEST_PART)
        size = rng.randint(SHORTEST_PART, longest)
        cuts.append(cuts[-1] + max(SHORTEST_PART, size // granule * granule))
    return cuts[1:]


@pytest.mark.parametrize("length", [37, 101, 150])
def test_logits_do_not_depend_on_the_cuts(native: NativeContext, token_ids: list[int], length: int):
    prompt = token_ids[5 : 5 + length]
    native.forget()
    assert native.prefill(prompt) == 0
    expected = native.logits().copy()
    rng = random.Random(length)
    for _ in range(3):
        cuts = random_cuts(length, GRANULE, rng)
        assert np.array_equal(logits_after(native, prompt, cuts), expected), f"cut at {cuts}"


def test_logits_do_not_depend_on_the_prefix_reused(native: NativeContext, token_ids: list[int]):
    prompt = token_ids[:120]
    expected = logits_after(native, prompt, [64])
    other = token_ids[200:]
    for common in (9, 61, 118):
        native.prefill([*prompt[:common], *other[: 150 - common]])
        reused = native.prefill(prompt)
        assert common - GRANULE < reused <= common or reused == 120 - SHORTEST_PART
        assert np.array_equal(native.logits(), expected), f"{reused} tokens reused"


def test_generated_tokens_are_not_taken_for_a_prompt(native: NativeContext, token_ids: list[int]):
    prompt = token_ids[:60]
    expected = logits_after(native, prompt)
    native.prefill(prompt[:30])
    for token_id in prompt[30:50]:  # the same tokens, but evaluated one by one
        native.step({0: token_id})
    assert native.prefill(prompt) <= 30
    assert np.array_equal(native.logits(), expected)


def test_the_decoding_after_a_reused_prefix_is_the_same_too(native: NativeContext, token_ids: list[int]):
    prompt, following = token_ids[:75], token_ids[75:80]

    def trajectory() -> list[np.ndarray]:
        native.prefill(prompt)
        steps = []
        for token_id in following:
            native.step({0: token_id})
            steps.append(native.logits().copy())
        return steps

    native.forget()
    fresh = trajectory()
    native.prefill([*prompt[:50], *token_ids[100:140]])
    assert all(np.array_equal(a, b) for a, b in zip(fresh, trajectory(), strict=True))


def test_our_granule_is_not_below_the_smallest_that_works(native: NativeContext, token_ids: list[int]):
    """On the machine this was written on, cuts at multiples of 1 and 2 change the logits by up to 0.6."""
    prompt = token_ids[:37]
    expected = logits_after(native, prompt)

    def works(granule: int) -> bool:
        return all(np.array_equal(logits_after(native, prompt, [8 + granule * i]), expected) for i in (1, 2))

    smallest = next((granule for granule in (1, 2, 4, 8) if works(granule)), None)
    assert smallest in {1, 2, GRANULE}


def test_a_context_that_cannot_forget_a_part_evaluates_everything(
    native: NativeContext, token_ids: list[int], monkeypatch: pytest.MonkeyPatch
):
    """Recurrent models refuse `llama_memory_seq_rm` of a part."""
    prompt = token_ids[:40]
    expected = logits_after(native, prompt)
    native.prefill(prompt)
    real = native._native.llama_memory_seq_rm
    monkeypatch.setattr(
        native._native,
        "llama_memory_seq_rm",
        lambda memory, seq, start, end: start <= 0 and real(memory, seq, start, end),
    )
    assert native.prefill(prompt) == 0
    assert np.array_equal(native.logits(), expected)


def test_parts_are_not_cut_again_by_llama_cpp(native: NativeContext):
    library = native._native
    assert library.llama_n_batch(native._context) == library.llama_n_ubatch(native._context) == runtime.PART
