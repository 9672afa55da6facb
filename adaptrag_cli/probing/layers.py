"""Which layers are probed."""

from __future__ import annotations


def default_layers(layer_count: int) -> tuple[int, ...]:
    """Every second layer from one third of the depth on, from 0; of 18 layers 6, 8, ..., 16 (METHODS 8).

    The state is the residual after the layer. One third that is no whole number is rounded up: the paper probes "after
    the one-third point".
    """
    first = min(-(-layer_count // 3), layer_count - 1)
    return tuple(range(first, layer_count, 2))
