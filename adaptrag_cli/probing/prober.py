"""A prober: for each probed layer a small network from a state to two logits, retrieve and stop (METHODS 8).

Network: LayerNorm(d) - Linear(d, 512) - SiLU - LayerNorm - Linear(512, 512) - SiLU - LayerNorm - Linear(512, 2), as the
released code has it; the dropout in it belongs to training. It begins with a LayerNorm, so the mean of some states and
their sum give the same logits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.errors import ModelError

HIDDEN = 512
EPS = 1e-5
"""What a LayerNorm adds to the variance."""
ProberKind = Literal["answer", "question"]
"""What the states are of: rationale and answer while they are written (Probing-RAG), or the question (UAR)."""
LayerWeights = Mapping[str, NDArray[np.float32]]
"""The tensors of one layer's network, by the names of `tensor_shapes`."""


def tensor_shapes(width: int) -> dict[str, tuple[int, ...]]:
    """Shape of each tensor of a layer's network; a Linear's weight is (outputs, inputs).

    Args:
        width: of the states.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for number, (inputs, outputs) in enumerate(((width, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 2))):
        shapes[f"norm{number}.weight"] = shapes[f"norm{number}.bias"] = (inputs,)
        shapes[f"linear{number}.weight"] = (outputs, inputs)
        shapes[f"linear{number}.bias"] = (outputs,)
    return shapes


def parameter_count(width: int) -> int:
    """Numbers in one layer's network."""
    return sum(prod(shape) for shape in tensor_shapes(width).values())


@dataclass(frozen=True, kw_only=True)
class ProberInfo:
    """What is known of a prober beside its weights."""

    kind: ProberKind
    model: str
    """Name of the model whose states it reads."""
    model_fingerprint: str
    width: int
    """Numbers in a state."""
    layer_count: int
    """Layers of the model."""
    seed: int
    report: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """How it was trained, on what, and how well it did on what was held out: JSON values."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Prober(ProberInfo):
    """Networks for some layers of one model."""

    layers: Mapping[int, LayerWeights]
    """By layer, from 0."""

    def logits(self, states: Mapping[int, Sequence[float]]) -> dict[int, tuple[float, float]]:
        """The logits (retrieve, stop) of each layer; a state that is not finite gives NaN.

        Args:
            states: a state of each layer, or the mean or sum of several.

        Raises:
            ModelError: a layer's state is missing, or is not as wide as the prober's.
        """
        return {layer: self._logits(layer, states.get(layer, ())) for layer in self.layers}

    def _logits(self, layer: int, state: Sequence[float]) -> tuple[float, float]:
        with np.errstate(over="ignore"):
            values = np.asarray(state, dtype=np.float32)
        if values.shape != (self.width,):
            raise ModelError(
                f"the prober of {self.model} reads {self.width} numbers after layer {layer}, and got {values.size}",
                "train one for this model: adaptrag probe train",
            )
        retrieve, stop = forward(self.layers[layer], values).tolist()
        return retrieve, stop


def forward(weights: LayerWeights, states: NDArray[np.floating]) -> NDArray[np.floating]:
    """Logits (..., 2) of states (..., width), in the precision of the states."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = states
        for number in range(3):
            if number:
                values = _silu(values)
            values = _layer_norm(values, weights[f"norm{number}.weight"], weights[f"norm{number}.bias"])
            values = values @ weights[f"linear{number}.weight"].T + weights[f"linear{number}.bias"]
        return values


def _layer_norm(
    values: NDArray[np.floating], weight: NDArray[np.float32], bias: NDArray[np.float32]
) -> NDArray[np.floating]:
    centred = values - values.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    normed: NDArray[np.floating] = centred / np.sqrt(variance + np.float32(EPS)) * weight + bias
    return normed


def _silu(values: NDArray[np.floating]) -> NDArray[np.floating]:
    activated: NDArray[np.floating] = values / (1 + np.exp(-values))
    return activated
