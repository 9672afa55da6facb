"""An adapter in llama.cpp against the same one in transformers, on the same weights."""

from __future__ import annotations

import ctypes
import os
from dataclasses import replace
from pathlib import Path

import filelock
import numpy as np
import pytest

from adaptrag_cli.learning.export import AdapterFacts, Layout, read_layout, read_weights, write_adapter
from adaptrag_cli.learning.lora import LoraPair, LoraShape, LoraWeights, add_lora, load_base, set_lora_weights
from adaptrag_cli.models.base import load_lanes
from adaptrag_cli.models.llama import LlamaModel
from adaptrag_cli.models.vocabulary import open_tokens

pytestmark = pytest.mark.small_model

LLAMA, QWEN = "smollm2-135m-instruct", "qwen2.5-coder-0.5b-instruct"
_STRENGTH = {"llama": 0.06, "qwen2": 0.03}
"""How far from 0 the numbers of B lie."""
SHAPE = LoraShape(rank=4, alpha=8)
QUESTION = "Who wrote Hamlet? <|im_end|> And when?"
WRITTEN = "Follow up: Who wrote Hamlet?\nIntermediate answer: Shakespeare\nSo the final answer is: about 1600"
FACTS = AdapterFacts(
    name="random", base="base", base_fingerprint="sha256:x", alpha=8.0, stage="imitation", created="now", report={}
)


@pytest.fixture(scope="module", params=[LLAMA, QWEN])
def path(models_dir: Path, request: pytest.FixtureRequest) -> Path:
    from adaptrag_cli.models.download import ensure_models
    from adaptrag_cli.models.files import locate_model

    with filelock.FileLock(models_dir / ".tests.lock"):
        ensure_models([request.param], models_dir)
    return locate_model(request.param, models_dir).path


def random_weights(model, layout: Layout) -> LoraWeights:
    """A change of about a nat, as large as a training's."""
    from adaptrag_cli.learning.lora import lora_weights

    random = np.random.default_rng(0)
    return {
        name: LoraPair(
            a=random.normal(0, pair.a.shape[1] ** -0.5, pair.a.shape).astype(np.float32),
            b=random.normal(0, _STRENGTH[layout.architecture], pair.b.shape).astype(np.float32),
        )
        for name, pair in lora_weights(model).items()
    }


def logprobs_in_torch(model, token_ids: tuple[int, ...]) -> np.ndarray:
    """Of each token but the first, after those before it."""
    import torch

    ids = torch.tensor([token_ids])
    with torch.no_grad():
        logprobs = model(input_ids=ids).logits[0, :-1].log_softmax(-1)
    return logprobs.gather(1, ids[0, 1:, None])[:, 0].numpy()


def logprobs_in_llama(path: Path, token_ids: tuple[int, ...], adapter: Path | None) -> np.ndarray:
    """The same through llama.cpp's own functions."""
    (model,) = load_lanes(path, lanes=1, name="m", fingerprint="", trusted=True, context_length=512, threads=1)
    assert isinstance(model, LlamaModel)
    native, context = model._context._native, model._context._context
    if adapter is not None:
        loaded = native.llama_adapter_lora_init(model._context._model, os.fsencode(adapter))
        assert loaded
        adapters, scales = (native.llama_adapter_lora_p_ctypes * 1)(loaded), (ctypes.c_float * 1)(1.0)
        assert native.llama_set_adapters_lora(context, adapters, 1, scales) == 0
    found = []
    width = model.info.vocabulary_size
    for at, token_id in enumerate(token_ids):
        batch = native.llama_batch_get_one((native.llama_token * 1)(token_id), 1)
        assert native.llama_decode(context, batch) == 0
        logits = np.ctypeslib.as_array(native.llama_get_logits(context), shape=(width,)).astype(np.float64)
        if at + 1 < len(token_ids):
            peak = logits.max()
            found.append(logits[token_ids[at + 1]] - peak - np.log(np.exp(logits - peak).sum()))
    model.close()
    return np.array(found)


@pytest.fixture(scope="module")
def token_ids(path: Path) -> tuple[int, ...]:
    with open_tokens(path, trusted=True) as tokens:
        return tokens.prompt(QUESTION, WRITTEN)


@pytest.fixture(scope="module")
def learner(path: Path):
    return add_lora(load_base(path), SHAPE, seed=0)


@pytest.fixture(scope="module")
def layout(path: Path, learner) -> Layout:
    return read_layout(path, learner)


@pytest.fixture(scope="module")
def trained(learner, layout: Layout):
    set_lora_weights(learner, random_weights(learner, layout))
    return learner


@pytest.fixture(scope="module")
def adapter(layout: Layout, trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("adapters") / "random.gguf"
    write_adapter(file, layout, random_weights(trained, layout), FACTS)
    return file


def test_training_reads_the_tokens_that_answering_reads(path: Path, token_ids: tuple[int, ...]):
    (model,) = load_lanes(path, lanes=1, name="m", fingerprint="", trusted=True, context_length=512, threads=1)
    with open_tokens(path, trusted=True) as tokens:
        assert token_ids == model.build_prompt(QUESTION, written=WRITTEN).token_ids
        assert tokens.plain("Let's <|im_start|>") == model.tokenize("Let's <|im_start|>")
        assert tokens.ends_turn(tokens.end_of_turn)
        asked = tokens.prompt(QUESTION)
        assert asked.count(tokens.end_of_turn) == 2, "that of the template's system turn, and of the user's"
    model.close()


def test_an_adapter_says_in_llama_what_it_says_in_torch(
    path: Path, trained, layout: Layout, adapter: Path, token_ids: tuple[int, ...], tmp_path: Path
):
    """llama.cpp rounds what flows between layers, each CPU in its own way: the base itself differs by 0.08 nats.

    So do the largest differences, of single unlikely tokens: they are told, and means and the shape of the change are
    held to. A Llama model's rows of q and k are permuted: without that the same adapter says something else.
    """
    with trained.disable_adapter():
        base = logprobs_in_torch(trained, token_ids)
    changed = logprobs_in_torch(trained, token_ids)
    base_in_llama = logprobs_in_llama(path, token_ids, None)
    changed_in_llama = logprobs_in_llama(path, token_ids, adapter)
    of_base, of_adapter, by = (
        np.abs(each) for each in (base_in_llama - base, changed_in_llama - changed, changed - base)
    )
    for name, each in (("base", of_base), ("adapter", of_adapter), ("its change", by)):
        print(f"{name}: max {each.max():.3f}, mean {each.mean():.3f} nats")
    alike = np.corrcoef(changed_in_llama - base_in_llama, changed - base)[0, 1]
    print(f"correlation of the changes: {alike:.4f}")
    assert of_adapter.mean() < 2 * of_base.mean() < by.mean()
    assert alike > 0.9
    if not layout.orders:
        return
    assert len(layout.orders) == 60, "q and k of 30 layers"
    as_they_are = tmp_path / "not-permuted.gguf"
    write_adapter(as_they_are, replace(layout, orders={}), random_weights(trained, layout), FACTS)
    otherwise = logprobs_in_llama(path, token_ids, as_they_are)
    assert of_adapter.mean() < 0.7 * np.abs(otherwise - changed).mean()
    assert alike > np.corrcoef(otherwise - base_in_llama, changed - base)[0, 1]


def test_an_adapter_is_read_back_as_it_was(adapter: Path, layout: Layout, trained):
    again = read_weights(adapter, layout)
    for name, pair in random_weights(trained, layout).items():
        assert np.array_equal(again[name].a, pair.a)
        assert np.array_equal(again[name].b, pair.b)
    assert [file.name for file in adapter.parent.iterdir()] == ["random.gguf"]
