"""Runs of deeprag synthesize to train on, and a model of random weights in place of a loaded one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import gguf
import msgspec
import pytest

from adaptrag_cli.identity import fingerprint_with, name_with
from adaptrag_cli.learning import training
from adaptrag_cli.learning.export import Layout, interleaved_halves
from adaptrag_cli.learning.lora import lora_weights
from adaptrag_cli.learning.runs import SynthesisLog, write_run
from adaptrag_cli.models.adapters import AdapterFile
from adaptrag_cli.models.files import ModelFile
from explored_trees import explored, manifest
from tiny_learner import ByteTokens, tiny_base

SOLVED = {f"question {number}": ("DD", "DR", "RD", "DR")[number % 4] for number in range(8)}


@contextmanager
def byte_tokens(path: Path, *, trusted: bool) -> Iterator[ByteTokens]:
    yield ByteTokens()


def tiny_layout(path: Path, model) -> Layout:
    """Query rows are stored in pairs, as in a llama file."""
    modules = list(lora_weights(model))
    return Layout(
        architecture="llama",
        tensors={module: f"blk.{number}.weight" for number, module in enumerate(modules)},
        orders={module: interleaved_halves(16, 4) for module in modules if module.endswith("q_proj")},
    )


@contextmanager
def a_tiny_world(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Train the tiny model, whatever is to be trained."""
    import torch

    monkeypatch.setattr(training, "load_base", lambda path, *, device: tiny_base())
    monkeypatch.setattr(training, "open_tokens", byte_tokens)
    monkeypatch.setattr(training, "read_layout", tiny_layout)
    monkeypatch.setattr(training, "physical_cores", lambda: 1)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def a_run(folder: Path, solved: dict[str, str] = SOLVED, *, fingerprint: str = "sha256:base", **told: object) -> Path:
    folder.mkdir(parents=True)
    run = msgspec.structs.replace(manifest(*solved), model_fingerprint=fingerprint, **told)
    write_run(folder, run)
    with closing(SynthesisLog(folder, run)) as log:
        for question, path in solved.items():
            log.append(explored(question, path))
    return folder


def explored_with(adapter: AdapterFile, base: str = "sha256:base") -> dict[str, str]:
    """What a manifest tells of a run that a model with an adapter has explored."""
    return {
        "model": name_with("base", adapter.name),
        "fingerprint": fingerprint_with(base, adapter.fingerprint),
        "adapter": adapter.name,
    }


def a_base(folder: Path) -> ModelFile:
    """A model file of which only the architecture is read."""
    path = folder / "base.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return ModelFile(path=path, name="base", fingerprint="sha256:base", entry=None, verified=True)
