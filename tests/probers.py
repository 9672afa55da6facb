"""Probers that are made, not trained: small widths, weights from a seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from adaptrag_cli.probing.prober import LayerWeights, Prober, tensor_shapes


def random_weights(width: int, seed: int = 0) -> LayerWeights:
    """Numbers of about the size that trained ones have."""
    generator = np.random.default_rng(seed)
    return {
        name: (generator.standard_normal(shape) / np.sqrt(shape[-1]) + name.startswith("norm")).astype(np.float32)
        for name, shape in tensor_shapes(width).items()
    }


def constant_weights(width: int, retrieve: float, stop: float) -> LayerWeights:
    """Weights that give these logits, whatever the state."""
    weights = {name: np.zeros(shape, dtype=np.float32) for name, shape in tensor_shapes(width).items()}
    weights["linear2.bias"][:] = (retrieve, stop)
    return weights


def sign_weights(width: int) -> LayerWeights:
    """Weights whose retrieve logit is positive where the state's first number is the greater of the first two.

    One hidden unit carries the difference of the two, so the logits are (x, -x) with x > 0 exactly there.
    """
    weights = {name: np.zeros(shape, dtype=np.float32) for name, shape in tensor_shapes(width).items()}
    for number in range(3):
        weights[f"norm{number}.weight"][:] = 1
    weights["linear0.weight"][0, :2] = (4, -4)
    weights["linear1.weight"][0, 0] = 1
    weights["linear2.weight"][:, 0] = (1, -1)
    return weights


def prober(**facts: Any) -> Prober:
    """A prober of layers 1 and 2 of a model of four layers with eight numbers each, but for what is given."""
    width = facts.get("width", 8)
    return Prober(
        **{
            "kind": "answer",
            "model": "tiny",
            "model_fingerprint": "sha256:" + "0" * 64,
            "width": width,
            "layer_count": 4,
            "layers": {layer: random_weights(width, seed=layer) for layer in (1, 2)},
            "seed": 7,
            "report": {"rows": 600, "accuracy": {"1": 0.75}},
            **facts,
        }
    )
