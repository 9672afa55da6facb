"""Train probers with torch: one network for each layer, decided by its rows, the seed and the layer alone.

Differs from the released code (METHODS 8), whose cross-entropy is taken of probabilities: ours is taken of the logits,
so that the loss goes on teaching where the network is sure and wrong. One thread and one generator for each layer make
the weights the same bytes whatever was trained before, or whether it was stopped in between.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.errors import ConfigError
from adaptrag_cli.events import Record
from adaptrag_cli.probing.decision import stops
from adaptrag_cli.probing.prober import EPS, LayerWeights, tensor_shapes

if TYPE_CHECKING:
    import torch

RecipeName = Literal["small", "paper", "code"]


class Recipe(Record, frozen=True, kw_only=True):
    """How a network is trained: AdamW and cross-entropy; the learning rate shrinks with every batch."""

    learning_rate: float
    batch: int
    epochs: int
    """At most."""
    decay: float = 0.995
    """What the learning rate is multiplied by after each batch."""
    weight_decay: float = 0.01
    dropout: float = 0.1
    warm_up_epochs: int = 0
    """The first epochs, whose weights are not among those that may be kept."""
    patience: int = 0
    """Epochs without better weights after which it ends; 0: it never ends early."""


RECIPES: Mapping[RecipeName, Recipe] = {
    "small": Recipe(learning_rate=3e-4, batch=16, epochs=30, weight_decay=0.05, warm_up_epochs=2, patience=6),
    "paper": Recipe(learning_rate=1e-3, batch=12, epochs=2, warm_up_epochs=1),
    "code": Recipe(learning_rate=1e-4, batch=8, epochs=2),
}
"""`paper` and `code` as METHODS 8 has them, made for 26,000 rows; `small` is ours, for some hundreds."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledStates:
    """States of one layer, and what was right."""

    states: NDArray[np.float32]
    """(n, width), all finite."""
    labels: NDArray[np.int64]
    """(n,): 1 where the answer was right (stop), else 0 (retrieve)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedLayer:
    """The weights that did best on what training was stopped by."""

    weights: LayerWeights
    best_epoch: int
    """From 1."""
    epochs: int
    """That were run."""
    accuracy: float
    """On what training was stopped by."""


def train_layer(train: LabelledStates, stop: LabelledStates, *, recipe: Recipe, seed: int, layer: int) -> TrainedLayer:
    """Train the network of one layer, and keep the weights of the epoch with the best accuracy on `stop`.

    Of equal accuracies the lower loss wins, then the earlier epoch.

    Raises:
        ConfigError: the numbers grew beyond all bounds.
    """
    import torch

    with _one_thread(), torch.enable_grad():
        generator = torch.Generator().manual_seed(_seed_of(seed, layer))
        network = _new_network(train.states.shape[1], generator)
        optimiser = torch.optim.AdamW(
            network.values(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay, foreach=False
        )
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, gamma=recipe.decay)
        states, labels = torch.from_numpy(train.states), torch.from_numpy(train.labels)
        best: TrainedLayer | None = None
        best_loss = float("inf")
        epoch = 0
        for epoch in range(1, recipe.epochs + 1):
            for part in torch.split(torch.randperm(len(labels), generator=generator), recipe.batch):
                optimiser.zero_grad()
                logits = _logits(network, states[part], recipe.dropout, generator)
                torch.nn.functional.cross_entropy(logits, labels[part]).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                schedule.step()
            if epoch <= recipe.warm_up_epochs:
                continue
            accuracy, loss = _measured(network, stop)
            if not np.isfinite(loss):
                raise ConfigError(f"layer {layer}: its training left all bounds", "give a smaller --learning-rate")
            if best is None or (accuracy, -loss) > (best.accuracy, -best_loss):
                best_loss = loss
                best = TrainedLayer(weights=_copied(network), best_epoch=epoch, epochs=epoch, accuracy=accuracy)
            elif recipe.patience and epoch - best.best_epoch >= recipe.patience:
                break
    assert best is not None, "a recipe has more epochs than warm up"
    return TrainedLayer(weights=best.weights, best_epoch=best.best_epoch, epochs=epoch, accuracy=best.accuracy)


def _seed_of(seed: int, layer: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}:{layer}".encode()).digest()[:7], "big")


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums over several threads come in another order, and so end in other last bits."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _new_network(width: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Linear weights and biases uniform within 1/sqrt(inputs), as torch begins; the norms change nothing yet."""
    import torch

    shapes = tensor_shapes(width)
    network: dict[str, torch.Tensor] = {}
    for name, shape in shapes.items():
        part, _, kind = name.partition(".")
        if part.startswith("norm"):
            value = torch.ones(shape) if kind == "weight" else torch.zeros(shape)
        else:
            bound = shapes[f"{part}.weight"][1] ** -0.5
            value = torch.empty(shape).uniform_(-bound, bound, generator=generator)
        network[name] = value.requires_grad_()
    return network


def _logits(
    network: Mapping[str, torch.Tensor],
    states: torch.Tensor,
    dropout: float = 0.0,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """Logits (n, 2) of states (n, width); dropout stands before the second and the third Linear."""
    import torch

    values = states
    for number in range(3):
        if number:
            values = torch.nn.functional.silu(values)
        norm = (network[f"norm{number}.weight"], network[f"norm{number}.bias"])
        values = torch.nn.functional.layer_norm(values, norm[0].shape, *norm, eps=EPS)
        if number and dropout:
            kept = torch.rand(values.shape, generator=generator) >= dropout
            values = values * kept / (1 - dropout)
        values = torch.nn.functional.linear(values, network[f"linear{number}.weight"], network[f"linear{number}.bias"])
    return values


def _measured(network: Mapping[str, torch.Tensor], rows: LabelledStates) -> tuple[float, float]:
    """Accuracy and mean loss; a tie of the logits stops, as in the paper's decision."""
    import torch

    with torch.no_grad():
        logits = _logits(network, torch.from_numpy(rows.states))
        labels = torch.from_numpy(rows.labels)
        accuracy = float((stops(logits.numpy()) == rows.labels).mean())
        return accuracy, torch.nn.functional.cross_entropy(logits, labels).item()


def _copied(network: Mapping[str, torch.Tensor]) -> LayerWeights:
    return {name: value.detach().numpy().copy() for name, value in network.items()}
