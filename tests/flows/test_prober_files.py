"""Probers on disk: what is written is read again, and what is no prober of this model is refused in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from adaptrag_cli.errors import ConfigError, ModelError, UnknownName
from adaptrag_cli.models.files import ModelFile
from adaptrag_cli.models.stamps import partial_fingerprint
from adaptrag_cli.probing.files import (
    find_prober,
    list_probers,
    prober_path,
    read_prober,
    read_prober_file,
    write_prober,
)
from adaptrag_cli.probing.prober import tensor_shapes
from probers import prober, random_weights


def model_file(fingerprint: str = "sha256:" + "0" * 64, path: Path = Path("tiny.gguf")) -> ModelFile:
    return ModelFile(path=path, name="tiny", fingerprint=fingerprint, entry=None, verified=True)


TINY = {"kind": "answer", "model": model_file()}
HEADER = {
    "format": 1,
    "kind": "answer",
    "model": "tiny",
    "model_fingerprint": "sha256:0",
    "width": 8,
    "layer_count": 4,
    "layers": [1],
    "seed": 0,
    "report": {},
}


def written(models_dir, name, *, age=0, **facts):
    path = prober_path(models_dir, name)
    write_prober(path, prober(**facts))
    os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return path


def broken(tmp_path, *, header=None, drop=None, **changed):
    tensors = {f"layers.1.{name}": array for name, array in random_weights(8).items()}
    tensors.update(changed)
    if drop:
        del tensors[drop]
    path = tmp_path / "x.safetensors"
    save_file(tensors, path, metadata=None if header is None else {"adaptrag": header})
    return path


def test_a_prober_is_read_as_it_was_written(tmp_path):
    made = prober()
    path = written(tmp_path, "mine")
    found = read_prober(path)
    assert path == tmp_path / "probers" / "mine.safetensors"
    for name in ("kind", "model", "model_fingerprint", "width", "layer_count", "seed", "report"):
        assert getattr(found, name) == getattr(made, name)
    state = {1: [float(n) for n in range(8)], 2: [1.0, -1.0] * 4}
    assert found.logits(state) == made.logits(state)
    assert list(path.parent.iterdir()) == [path]


def test_the_same_prober_is_the_same_bytes(tmp_path):
    first, second = written(tmp_path, "first"), written(tmp_path, "second")
    assert first.read_bytes() == second.read_bytes()


def test_a_list_tells_the_newest_first_and_what_is_broken(tmp_path):
    written(tmp_path, "old", age=60)
    newest = written(tmp_path, "new", kind="question", seed=9)
    broken_path = tmp_path / "probers" / "broken.safetensors"
    broken_path.write_bytes(b"PK\x03\x04 no tensors")
    folder = list_probers(tmp_path)
    assert [file.name for file in folder.files] == ["new", "old"]
    first = folder.files[0]
    assert (first.path, first.info.kind, first.info.seed, first.layers) == (newest, "question", 9, (1, 2))
    assert first.size == newest.stat().st_size
    (problem,) = folder.problems
    assert problem.startswith(f"{broken_path} is no prober: ") and "\n" not in problem


def test_no_folder_is_no_prober(tmp_path):
    assert list_probers(tmp_path).files == ()


# --- which one is meant


def test_without_a_name_the_newest_of_kind_and_model_is_meant(tmp_path):
    written(tmp_path, "old", age=60)
    written(tmp_path, "mine", age=30)
    written(tmp_path, "question", kind="question")
    written(tmp_path, "other", model="other", model_fingerprint="sha256:" + "1" * 64)
    assert find_prober(tmp_path, "", **TINY).name == "mine"
    assert find_prober(tmp_path, "", **{**TINY, "kind": "question"}).name == "question"
    assert find_prober(tmp_path, "old", **TINY).name == "old"


@pytest.mark.parametrize(
    ("kind", "reads", "hint"),
    [
        ("answer", "the states of rationale and answer", "adaptrag probe train --model tiny ..."),
        ("question", "the states of the question", "adaptrag probe train --model tiny --kind question ..."),
    ],
)
def test_no_prober_at_all(tmp_path, kind, reads, hint):
    with pytest.raises(ConfigError) as caught:
        find_prober(tmp_path, "", **{**TINY, "kind": kind})
    assert caught.value.message == f"no prober was trained that reads {reads} of tiny"
    assert caught.value.hint == hint


def test_another_model_or_quantisation_is_refused_and_both_are_named(tmp_path):
    written(tmp_path, "other", model="other")
    written(tmp_path, "mine")
    q8 = {**TINY, "model": model_file("sha256:" + "8" * 64)}
    told = "was trained on tiny (sha256:000000000000...), and tiny (sha256:888888888888...) answers"
    for name in ("mine", ""):
        with pytest.raises(ConfigError) as caught:
            find_prober(tmp_path, name, **q8)
        assert caught.value.message == f"prober 'mine' {told}"
    with pytest.raises(ConfigError, match=r"prober 'other' was trained on other \(.*\), and tiny \(.*\) answers$"):
        find_prober(tmp_path, "other", **q8)


@pytest.mark.parametrize("adapter", ["", "+sha256:a"])
def test_a_model_that_was_verified_since_is_the_same(tmp_path, adapter):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"weights")
    written(tmp_path, "mine", model_fingerprint=partial_fingerprint(path) + adapter)
    same = model_file("sha256:" + "1" * 64 + adapter, path)
    for name in ("mine", ""):
        assert find_prober(tmp_path, name, kind="answer", model=same).name == "mine"
    for other in (model_file("sha256:" + "1" * 64 + "+sha256:b", path), model_file(path=path.with_name("no.gguf"))):
        path.with_name("no.gguf").write_bytes(b"others")
        with pytest.raises(ConfigError, match="was trained on tiny"):
            find_prober(tmp_path, "mine", kind="answer", model=other)


def test_another_kind_is_refused(tmp_path):
    written(tmp_path, "mine")
    with pytest.raises(ConfigError, match="prober 'mine' is of kind 'answer', and one of kind 'question' is asked"):
        find_prober(tmp_path, "mine", **{**TINY, "kind": "question"})


def test_an_unknown_name_tells_the_near_one(tmp_path):
    written(tmp_path, "mine")
    with pytest.raises(UnknownName, match="unknown prober 'mien'; did you mean 'mine'"):
        find_prober(tmp_path, "mien", **TINY)


@pytest.mark.parametrize("name", ["", "..", ".x", "a/b", "/etc/passwd", "..\\x"])
def test_a_name_is_no_path(tmp_path, name):
    with pytest.raises(ConfigError, match="cannot be the name of a prober"):
        prober_path(tmp_path, name)


# --- files from elsewhere


def refusal(path):
    with pytest.raises(ModelError) as caught:
        read_prober(path)
    assert caught.value.hint == "delete it, and run: adaptrag probe train"
    message = caught.value.message
    assert message.startswith(f"{path} is no prober: ") and "\n" not in message
    with pytest.raises(ModelError) as again:
        read_prober_file(path)
    assert again.value.message == message
    return message.removeprefix(f"{path} is no prober: ")


def test_weights_of_something_else(tmp_path):
    assert refusal(broken(tmp_path)) == "it does not say which model it is for"
    assert refusal(broken(tmp_path, header="{")) == "Input data was truncated"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": 2}, "its format is 2, and this version reads 1"),
        ({"kind": "other"}, "Invalid enum value 'other' - at `$.kind`"),
        ({"layers": []}, "Expected `array` of length >= 1 - at `$.layers`"),
        ({"layers": [4]}, "it is for layers that a model of 4 does not have"),
        ({"layers": [1, 1]}, "it is for layers that a model of 4 does not have"),
        ({"layers": [1, 2]}, "it has not the tensors of its layers"),
        ({"width": 0}, "Expected `int` >= 1 - at `$.width`"),
        ({"width": 9}, "tensor layers.1."),
    ],
)
def test_a_header_that_does_not_fit(tmp_path, change, reason):
    assert refusal(broken(tmp_path, header=json.dumps({**HEADER, **change}))).startswith(reason)


def test_a_tensor_that_is_missing_or_of_another_shape_or_type(tmp_path):
    header = json.dumps(HEADER)
    assert refusal(broken(tmp_path, header=header, drop="layers.1.norm0.bias")) == (
        "it has not the tensors of its layers"
    )
    changed = {"layers.1.norm0.bias": np.zeros(9, dtype=np.float32)}
    assert refusal(broken(tmp_path, header=header, **changed)) == "tensor layers.1.norm0.bias is F32 [9], not F32 [8]"
    changed = {"layers.1.norm0.bias": np.zeros(8, dtype=np.float64)}
    assert refusal(broken(tmp_path, header=header, **changed)) == "tensor layers.1.norm0.bias is F64 [8], not F32 [8]"


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_weights_that_are_no_numbers(tmp_path, number):
    changed = {"layers.1.norm0.bias": np.full(8, number, dtype=np.float32)}
    path = broken(tmp_path, header=json.dumps(HEADER), **changed)
    with pytest.raises(ModelError, match="some of its weights are no numbers"):
        read_prober(path)


def test_a_file_that_was_cut_off(tmp_path):
    path = written(tmp_path, "mine")
    path.write_bytes(path.read_bytes()[:-4])
    refusal(path)


def test_weights_that_are_not_of_the_width_are_not_written(tmp_path):
    weights = {name: np.zeros(shape, dtype=np.float32) for name, shape in tensor_shapes(9).items()}
    with pytest.raises(ValueError, match="no prober for states of 8 numbers"):
        write_prober(prober_path(tmp_path, "mine"), prober(layers={1: weights}))
    assert not (tmp_path / "probers").exists()
