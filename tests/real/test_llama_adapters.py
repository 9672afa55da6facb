"""Adapters in llama.cpp: what they change, that nothing is left of them, and that a bad one ends no process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import filelock
import msgspec
import numpy as np
import pytest

from adapters import write_lora
from adaptrag_cli import locations
from adaptrag_cli.errors import ModelError
from adaptrag_cli.models import gguf_check
from adaptrag_cli.models.base import Generation, LanguageModel, load_lanes
from adaptrag_cli.models.chat import SafeTokenizer
from adaptrag_cli.models.context import NativeContext

pytestmark = pytest.mark.small_model

TINY_LLM = "smollm2-135m-instruct"
TEXT = "The ferry to Saltmarsh leaves at 06:40, except on Mondays, when the harbour master winds the clock. " * 3
QUESTIONS = ("Name three rivers of France.", "Why does the moon have phases?", "2, 4, 8, 16: what comes next?")


@pytest.fixture(scope="module")
def base(models_dir: Path) -> Path:
    """The 135M."""
    from adaptrag_cli.models.download import ensure_models
    from adaptrag_cli.models.files import locate_model

    with filelock.FileLock(models_dir / ".tests.lock"):
        ensure_models([TINY_LLM], models_dir)
    return locate_model(TINY_LLM, models_dir).path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, base: Path) -> Path:
    """Two adapters of the 135M: `random`, and `zero`, which changes nothing."""
    folder = tmp_path_factory.mktemp("adapters")
    write_lora(folder / "random.gguf", base, seed=0)
    write_lora(folder / "zero.gguf", base, seed=None)
    return folder


def logits_of(base: Path, adapter: Path | None) -> np.ndarray:
    """After a text, from a context that is opened and closed."""
    native = NativeContext(base, context_length=256, gpu_layers=0, threads=1, adapter=adapter)
    try:
        native.prefill(SafeTokenizer(native.vocabulary).plain_ids(TEXT)[:61])
        return native.logits().copy()
    finally:
        native.close()


def load(
    base: Path, *, lanes: int = 1, adapter: Path | None = None, signals: bool = False
) -> tuple[LanguageModel, ...]:
    return load_lanes(
        base,
        lanes=lanes,
        name="tiny",
        fingerprint="sha256:test",
        trusted=True,
        context_length=256,
        threads=1,
        adapter=adapter,
        signals=signals,
    )


def together(lanes: tuple[LanguageModel, ...], questions: tuple[str, ...]) -> list[Generation]:
    """Take a token of each in turn."""
    runs = [m.generate(m.build_prompt(q), max_tokens=6) for m, q in zip(lanes, questions, strict=True)]
    done: dict[int, Generation] = {}
    while len(done) < len(runs):
        for number, run in enumerate(runs):
            if number not in done:
                try:
                    next(run)
                except StopIteration as end:
                    done[number] = end.value
    return [done[number] for number in range(len(runs))]


@pytest.fixture(scope="module")
def plain(base: Path) -> np.ndarray:
    return logits_of(base, None)


def test_an_adapter_without_weights_changes_no_bit_and_another_does(
    base: Path, folder: Path, plain: np.ndarray
) -> None:
    assert np.array_equal(logits_of(base, folder / "zero.gguf"), plain)
    adapted = logits_of(base, folder / "random.gguf")
    assert np.abs(adapted - plain).max() > 0.5
    assert np.array_equal(logits_of(base, folder / "random.gguf"), adapted)
    assert np.array_equal(logits_of(base, None), plain), "something was left of the adapter"


def test_a_prefix_is_reused_bit_for_bit(base: Path, folder: Path) -> None:
    native = NativeContext(base, context_length=256, gpu_layers=0, threads=1, adapter=folder / "random.gguf")
    prompt = SafeTokenizer(native.vocabulary).plain_ids(TEXT)[:61]
    native.prefill(prompt)
    expected = native.logits().copy()
    for common in (9, 33, 45):
        native.prefill([*prompt[:common], *prompt[:20]])
        assert native.prefill(prompt) == common // 4 * 4
        assert np.array_equal(native.logits(), expected)
    native.close()


@pytest.fixture(scope="module")
def alone(base: Path, folder: Path) -> Iterator[list[Generation]]:
    """The answers of a model of one lane."""
    (model,) = load(base, adapter=folder / "random.gguf")
    yield [together((model,), (question,))[0] for question in QUESTIONS]
    model.close()


def test_lanes_give_the_numbers_of_one_by_one(base: Path, folder: Path, alone: list[Generation]) -> None:
    """Batches would not: the adapter's float weights are multiplied by other kernels for one token than for several."""
    lanes = load(base, lanes=3, adapter=folder / "random.gguf")
    found = together(lanes, QUESTIONS)
    lanes[0].close()
    assert [generation.tokens for generation in found] == [generation.tokens for generation in alone]
    (model,) = load(base)
    bare = together((model,), QUESTIONS[:1])[0]
    model.close()
    assert bare.tokens != alone[0].tokens


def test_attention_and_states_are_of_the_adapted_model(base: Path, folder: Path) -> None:
    found = {}
    for name in (None, "zero", "random"):
        (model,) = load(base, signals=True, adapter=folder / f"{name}.gguf" if name else None)
        assert {"attention", "states"} <= model.info.capabilities
        prompt = model.build_prompt(QUESTIONS[0])
        found[name] = np.array(model.prompt_states(prompt, (-1,))[-1])
        attention = model.attend(prompt, model.tokenize(" The Seine."))
        assert attention.rows.sum(axis=1) == pytest.approx(1.0, abs=1e-3)
        model.close()
    assert np.array_equal(found["zero"], found[None])
    assert np.abs(found["random"] - found[None]).max() > 0.1


def test_an_adapter_of_another_model_is_refused_by_llama_cpp(
    base: Path, small_llm_path: Path, tmp_path: Path, plain: np.ndarray
) -> None:
    other = write_lora(tmp_path / "other.gguf", small_llm_path)
    with pytest.raises(ModelError, match="other.gguf does not go with .*: model arch and LoRA arch mismatch") as caught:
        load(base, adapter=other)
    assert "\n" not in caught.value.message
    forged = write_lora(tmp_path / "forged.gguf", small_llm_path, **{"general.architecture": "llama"})
    with pytest.raises(ModelError, match="forged.gguf does not go with ") as caught:
        load(base, adapter=forged)
    assert "\n" not in caught.value.message
    assert np.array_equal(logits_of(base, None), plain)


@pytest.mark.parametrize("kept", [0.999, 0.5, 0.01])
def test_an_adapter_that_was_cut_short_is_one_line(base: Path, folder: Path, tmp_path: Path, kept: float) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes((folder / "random.gguf").read_bytes())
    os.truncate(path, int(path.stat().st_size * kept))
    with pytest.raises(ModelError, match="cut.gguf") as caught:
        load(base, adapter=path)
    assert "\n" not in caught.value.message


def test_a_pair_of_model_and_adapter_is_tried_once(base: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    monkeypatch.setattr(gguf_check, "probe_gguf", lambda path, adapter: tried.append((path, adapter)))
    adapter = folder / "zero.gguf"
    for _ in range(2):
        gguf_check.check_gguf(base, trusted=True, adapter=adapter)
    assert tried == [(base, adapter)]
    memory = msgspec.json.decode((locations.user_data_dir() / "gguf-checks.json").read_bytes())
    assert memory[str(adapter.resolve())]["base"]["size"] == base.stat().st_size
    os.utime(adapter, ns=(0, 0))
    gguf_check.check_gguf(base, trusted=True, adapter=adapter)
    assert len(tried) == 2
