"""What a model's layers show while it computes: attention and residual states, reduced as soon as they are there.

llama.cpp names the attention probabilities of a layer `kq_soft_max-<layer>`, of shape (heads, tokens, keys), the keys
padded; they are computed only without flash attention. The residual state after a layer is `l_out-<layer>`, of shape
(tokens, width); after the last layer only for tokens whose logits are wanted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.errors import ModelError
from adaptrag_cli.models.base import Attention
from adaptrag_cli.models.graph_watch import GraphWatch, Node

ROW_TOLERANCE = 1e-3
"""How far from 1 the attention of a token may sum up."""


class AttentionReader:
    """Reduce the attention of one layer over the parts of a text; no array of heads x tokens x tokens is kept."""

    def __init__(self, *, layer: int, heads: int, first_row: int, n_keys: int) -> None:
        """
        Args:
            first_row: the first token whose attention is wanted.
            n_keys: tokens of the text.
        """
        n_rows = n_keys - first_row
        self._layer = layer
        self._first_row = first_row
        self._sums = np.zeros((n_rows, n_keys), dtype=np.float32)
        self._received = np.zeros((heads, n_rows), dtype=np.float32)
        self._received_later = np.zeros((heads, n_rows), dtype=np.float32)
        self._rows_read = 0

    @contextmanager
    def part(self, watch: GraphWatch, start: int, end: int) -> Iterator[None]:
        """Read while the tokens [start, end) are evaluated, which stand in the cells of their numbers."""
        with watch.reading({f"kq_soft_max-{self._layer}": partial(self._read, start, end)}):
            yield

    def result(self) -> Attention:
        """What was read.

        Raises:
            ModelError: it is not the attention of the text, or not of all of it.
        """
        rows = self._sums / np.float32(len(self._received))
        is_share = np.abs(rows.sum(axis=1, dtype=np.float64) - 1) <= ROW_TOLERANCE  # NaN is none
        if self._rows_read != len(rows) or not is_share.all() or np.triu(rows[:, self._first_row :], k=1).any():
            raise ModelError(
                f"what llama.cpp computes in layer {self._layer} is not the attention that each token pays to those "
                "before it",
                "choose another model with --model",
            )
        return Attention(
            rows=rows,
            first_row=self._first_row,
            received=self._received.mean(axis=0),
            received_later=self._received_later.mean(axis=0),
        )

    def _read(self, start: int, end: int, node: Node) -> None:
        heads, n_tokens = len(self._received), end - start
        first = max(start, self._first_row)
        width, rest = divmod(node.size, heads * n_tokens)
        if rest or width < end:
            raise ModelError(f"the attention of layer {self._layer} has {node.size} values, no {heads} heads of them")
        if first >= end:
            return
        rows = slice(first - self._first_row, end - self._first_row)
        for head in range(heads):
            offset = (head * n_tokens + first - start) * width
            paid = node.read(offset, (end - first) * width).reshape(end - first, width)[:, :end]
            self._sums[rows, :end] += paid
            among = paid[:, self._first_row :]
            _raise_to(self._received[head], among)
            _raise_to(self._received_later[head], np.tril(among, k=rows.start - 1))
        self._rows_read += end - first


def _raise_to(greatest: NDArray[np.float32], among: NDArray[np.float32]) -> None:
    """Take what a row pays where it is more than the greatest so far; `among` has fewer columns in early parts."""
    known = greatest[: among.shape[1]]
    np.maximum(known, among.max(axis=0), out=known)


class NodeReader:
    """Copy whole nodes; a batch that llama.cpp evaluates in pieces gives its rows in order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._values: dict[str, list[NDArray[np.float32]]] = {name: [] for name in names}

    @contextmanager
    def read(self, watch: GraphWatch) -> Iterator[None]:
        with watch.reading({name: partial(self._read, name) for name in self._values}):
            yield

    def rows(self, name: str, n_rows: int) -> NDArray[np.float32]:
        """The values of a node for each of `n_rows` tokens, shape (n_rows, width).

        Raises:
            ModelError: they were not computed, or not for so many tokens.
        """
        values = self._values[name]
        size = sum(map(len, values))
        if size == 0 or size % n_rows:
            raise ModelError(f"llama.cpp does not compute {name} for {n_rows} tokens", "choose another model")
        return np.concatenate(values).reshape(n_rows, size // n_rows)

    def last_row(self, name: str, width: int) -> NDArray[np.float32]:
        """The values of a node for the last token, whether or not the others were computed, shape (width,).

        Raises:
            ModelError: they were not computed, or not for tokens of this width.
        """
        values = self._values[name]
        size = sum(map(len, values))
        if size == 0 or size % width:
            raise ModelError(f"llama.cpp does not compute {name} of {width} numbers", "choose another model")
        return values[-1][-width:]

    def _read(self, name: str, node: Node) -> None:
        self._values[name].append(node.read(0, node.size))


def state_name(layer: int) -> str:
    """llama.cpp's name of the residual state after a layer."""
    return f"l_out-{layer}"


class StateMeans:
    """The mean state after each of some layers over the tokens of a text, in constant memory."""

    def __init__(self, layers: Mapping[int, int]) -> None:
        """Take the layers by the names that their means shall have."""
        self._names = dict(layers)
        self.layers = frozenset(layers.values())
        self._sums: dict[int, NDArray[np.float64]] = {}
        self.count = 0
        """Tokens that were counted."""

    def add(self, states: Mapping[int, NDArray[np.float32]], position: int) -> None:
        """Count a token: row `position` of each layer's states, shape (tokens of the batch, width)."""
        self.count += 1
        for layer in self.layers:
            state = states[layer][position].astype(np.float64)
            self._sums[layer] = self._sums[layer] + state if layer in self._sums else state

    def means(self) -> dict[int, tuple[float, ...]]:
        """The mean of each layer; none when no token was counted."""
        if self.count == 0:
            return {}
        return {name: tuple((self._sums[layer] / self.count).tolist()) for name, layer in self._names.items()}
