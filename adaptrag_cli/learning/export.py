"""Adapters as llama.cpp loads them: two float32 tensors for each weight that was trained, in a GGUF file.

Some kinds of model (llama) store the rows of the query and key weights in another order than transformers has them,
because the rotary embedding pairs other rows; what is added to such rows is stored in that order too. Which order a
file has is not looked up by its kind: the rows of its first layer are compared with those that transformers has made
of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.disk import sync_to_disk
from adaptrag_cli.errors import ModelError
from adaptrag_cli.learning.lora import LoraPair, LoraWeights

Stage = Literal["imitation", "calibration", "grpo"]
_LAYER = re.compile(r"\blayers\.(\d+)\.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """How a model file stores the weights that were trained."""

    architecture: str
    tensors: Mapping[str, str]
    """Name in the file by module."""
    orders: Mapping[str, NDArray[np.int64]]
    """By module: which row of transformers' weight each stored row is; a module that is not named has its own order."""


@dataclass(frozen=True, kw_only=True)
class AdapterFacts:
    """What an adapter's file says beside its weights."""

    name: str
    base: str
    """Name of the model."""
    base_fingerprint: str
    alpha: float
    stage: Stage
    created: str
    report: Mapping[str, Any]


def read_layout(path: Path, model: Any) -> Layout:
    """See how a model file stores the weights that `model` has trainable changes of.

    Raises:
        ModelError: it stores them in a way that no adapter can follow.
    """
    import gguf

    reader = gguf.GGUFReader(path)
    architecture = str(reader.fields["general.architecture"].contents())
    kind = next((number for number, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture), None)
    config = model.get_base_model().config
    names = gguf.get_tensor_name_map(kind, config.num_hidden_layers) if kind is not None else None
    stored = {tensor.name: tensor for tensor in reader.tensors}
    tensors: dict[str, str] = {}
    orders: dict[str, NDArray[np.int64]] = {}
    first: dict[str, NDArray[np.int64] | None] = {}
    for module, weight in _base_weights(model):
        name = names.get_name(module) if names is not None else None
        if name is None or f"{name}.weight" not in stored:
            raise ModelError(f"{path} stores no weight for {module}", "train another --model")
        tensors[module] = f"{name}.weight"
        part = module.rpartition(".")[2]
        if part not in first:
            tensor = stored[tensors[module]]
            own = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            first[part] = _order_of(own, weight.detach().cpu().numpy(), config, where=f"{path}: {tensors[module]}")
        order = first[part]
        if order is not None:
            orders[module] = order
    return Layout(architecture=architecture, tensors=tensors, orders=orders)


def write_adapter(path: Path, layout: Layout, weights: LoraWeights, facts: AdapterFacts) -> None:
    """Write an adapter whole or not at all."""
    import gguf

    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    writer = gguf.GGUFWriter(beside, layout.architecture)
    writer.add_type("adapter")
    writer.add_name(facts.name)
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", facts.alpha)
    writer.add_string("adaptrag.base.name", facts.base)
    writer.add_string("adaptrag.base.fingerprint", facts.base_fingerprint)
    writer.add_string("adaptrag.stage", facts.stage)
    writer.add_string("adaptrag.created", facts.created)
    writer.add_string("adaptrag.report", msgspec.json.encode(facts.report).decode())
    for name, array in stored_tensors(layout, weights):
        writer.add_tensor(name, array)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()
    sync_to_disk(beside)
    beside.replace(path)
    sync_to_disk(path.parent)


def stored_tensors(layout: Layout, weights: LoraWeights) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """The tensors of an adapter; rows of B stand in the order of the file's own."""
    for module, pair in weights.items():
        order = layout.orders.get(module)
        b = pair.b if order is None else pair.b[order]
        yield f"{layout.tensors[module]}.lora_a", np.ascontiguousarray(pair.a, dtype=np.float32)
        yield f"{layout.tensors[module]}.lora_b", np.ascontiguousarray(b, dtype=np.float32)


def read_weights(path: Path, layout: Layout) -> LoraWeights:
    """Read what an adapter adds, in the order of transformers.

    Raises:
        ModelError: it is no adapter for these weights.
    """
    import gguf

    try:
        found = {tensor.name: np.array(tensor.data) for tensor in gguf.GGUFReader(path).tensors}
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} is no adapter: {' '.join(str(error).split())}", "train another one") from error
    weights: dict[str, LoraPair] = {}
    for module, tensor in layout.tensors.items():
        a, stored = found.pop(f"{tensor}.lora_a", None), found.pop(f"{tensor}.lora_b", None)
        if a is None or stored is None:
            raise ModelError(f"{path} changes no {tensor}, which is to be trained", "train another one to begin with")
        b, order = stored, layout.orders.get(module)
        if order is not None:
            b = np.empty_like(stored)
            b[order] = stored
        weights[module] = LoraPair(a=a, b=b)
    if found:
        raise ModelError(f"{path} changes {min(found)}, which is not to be trained", "train another one to begin with")
    return weights


def _base_weights(model: Any) -> Iterator[tuple[str, Any]]:
    """Each changed module with its own weight, of shape (out, in)."""
    for name, module in model.get_base_model().named_modules():
        if getattr(module, "lora_A", None) and _LAYER.search(name):
            yield name, module.get_base_layer().weight


def _order_of(
    stored: NDArray[np.float32], weight: NDArray[np.float32], config: Any, *, where: str
) -> NDArray[np.int64] | None:
    """Which row of `weight` each stored row is; None where it is the same one.

    Raises:
        ModelError: they are rows in no known order.
    """
    if stored.shape == weight.shape:
        if np.array_equal(stored, weight):
            return None
        for heads in (config.num_attention_heads, getattr(config, "num_key_value_heads", None)):
            if heads and len(weight) % (2 * heads) == 0:
                order = interleaved_halves(len(weight), heads)
                if np.array_equal(stored, weight[order]):
                    return order
    raise ModelError(f"{where} has its rows in an order that no adapter can follow", "train another --model")


def interleaved_halves(rows: int, heads: int) -> NDArray[np.int64]:
    """The order in which rotary rows are paired: of each head, the first row of both halves, then the second, ..."""
    return np.arange(rows).reshape(heads, 2, -1).swapaxes(1, 2).reshape(-1)
