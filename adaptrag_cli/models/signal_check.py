"""Find out at load whether a model's attention and states are what they are taken for, rather than give nonsense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.errors import ModelError
from adaptrag_cli.models.context import PART, NativeContext
from adaptrag_cli.models.signals import state_name

CHECK_TEXT = "The ferry leaves at twenty to seven, except on Mondays, when nobody in the village winds the clock."
_HEAD_INPUT = "result_norm"
"""llama.cpp's name of what the output head reads: the last layer's state, normalised and scaled."""
_LEAST_CORRELATION = 0.99


def check_signals(context: NativeContext, token_ids: Sequence[int]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Try each signal on a short text; return the capabilities that the model has, and why it lacks the others."""
    token_ids = token_ids[:PART]
    checks: dict[str, Callable[[NativeContext, Sequence[int]], None]] = {
        "attention": _check_attention,
        "states": _check_states,
    }
    found: set[str] = set()
    notes: list[str] = []
    for capability, check in checks.items():
        try:
            check(context, token_ids)
            found.add(capability)
        except ModelError as error:
            notes.append(f"the model gives no {capability}: {error.message}")
    context.forget()
    return frozenset(found), tuple(notes)


def _check_attention(context: NativeContext, token_ids: Sequence[int]) -> None:
    """Require that each row of the last layer is a share of the text up to its token, which reading it checks."""
    if not context.keeps_all_keys:
        raise ModelError("its layers do not keep every token of a text (sliding window or recurrent)")
    context.attend(token_ids, first_row=0, layer=context.layer_count - 1)


def _check_states(context: NativeContext, token_ids: Sequence[int]) -> None:
    """Require a state of the model's width for each token and layer, and that the head reads the last one.

    The head's matrix would have to be copied and dequantised to compute logits from a state. But its input is a node of
    the graph: the state, normalised, times a weight for each channel (and plus a bias in some models). So each channel
    of the two must be in proportion over the tokens.
    """
    names = [state_name(layer) for layer in range(context.layer_count)]
    values = context.watch_text(token_ids, [*names, _HEAD_INPUT])
    states = [values[name] for name in names]
    if any(state.shape[1] != context.width for state in states):
        raise ModelError(f"the states of its layers are not {context.width} numbers wide")
    if not all(np.isfinite(state).all() for state in states):
        raise ModelError("the states of its layers are not finite")
    if any(np.array_equal(a, b) for a, b in pairwise(states)):
        raise ModelError("the states of two of its layers are the same")
    if not _channel_correlation(states[-1], values[_HEAD_INPUT]) >= _LEAST_CORRELATION:  # NaN is none
        raise ModelError("its output head reads something else than the state of its last layer")


def _channel_correlation(state: NDArray[np.float32], head_input: NDArray[np.float32]) -> float:
    """Median over the channels of |r| over the tokens, between the normalised state and the head's input.

    Dividing by the standard deviation stands for both kinds of normalisation: the mean of a state is near 0.
    """
    if state.shape != head_input.shape:
        return 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        normal = (state - state.mean(axis=1, keepdims=True)) / state.std(axis=1, keepdims=True)
    a, b = normal - normal.mean(axis=0), head_input - head_input.mean(axis=0)
    scale = np.linalg.norm(a, axis=0) * np.linalg.norm(b, axis=0)
    products = np.abs((a * b).sum(axis=0))
    return float(np.median(np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)))
