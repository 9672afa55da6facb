"""Change an adapter item by item until its held-out loss falls no more, in a way that a stop does not change.

AdamW, a warm-up and a cosine; gradients are gathered over some items, for memory holds one at a time. A checkpoint
stands between two items with all that decides what follows: weights, moments, gathered gradients and losses. It is a
safetensors file, which holds numbers and text and nothing that could be run.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from adaptrag_cli.disk import replace_durably
from adaptrag_cli.errors import ConfigError, RunCancelled
from adaptrag_cli.events import Record
from adaptrag_cli.learning.lora import LoraWeights, lora_weights, save_memory, set_lora_weights, trainable

if TYPE_CHECKING:
    import torch

CHECKPOINT = "checkpoint.safetensors"
LOSSES = "losses.jsonl"
LONG = 768
"""Tokens from which inner values are computed again in place of being kept."""
_CLIP = 1.0
"""Longest gradient."""
_CHECKPOINT_SECONDS = 600.0
_KEY = "adaptrag"

Item = TypeVar("Item", bound=Sized)


class Recipe(Record, frozen=True, kw_only=True):
    """How an adapter is trained."""

    learning_rate: float
    """The highest, at the end of the warm-up."""
    epochs: int
    """At most."""
    accumulation: int = 4
    """Items of a step."""
    warm_up: float = 0.1
    """Share of the steps."""
    weight_decay: float = 0.01
    patience: int = 1
    """Epochs without a lower held-out loss after which it ends; 0: it never ends early."""


class LossPoint(Record, frozen=True, kw_only=True):
    """A point of the loss curve: a step of training, or a measurement of what was held out."""

    step: int
    epoch: float
    loss: float | None = None
    """Mean over the items of the step."""
    held_out: float | None = None
    learning_rate: float = 0.0


class _State(msgspec.Struct, kw_only=True):
    """Where a training stands; with the tensors, all that decides how it goes on."""

    digest: str
    cursor: int = 0
    """Items that were learned from, over all epochs."""
    step: int = 0
    gathered: list[float] = msgspec.field(default_factory=list)
    """Losses of the items since the last step."""
    points: list[LossPoint] = msgspec.field(default_factory=list)
    best_loss: float | None = None
    best_epoch: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What training came to; the model has the weights of the best epoch."""

    points: tuple[LossPoint, ...]
    best_epoch: int
    epochs: int
    """That were run."""
    steps: int
    seconds: float

    @property
    def held_out_before(self) -> float:
        return next(point.held_out for point in self.points if point.held_out is not None)

    @property
    def held_out_after(self) -> float:
        """That of the weights which are kept."""
        return min(point.held_out for point in self.points if point.held_out is not None and point.epoch >= 1)


@dataclass(kw_only=True)
class Fitting(Generic[Item]):
    """A training of a model's adapter on items."""

    model: Any
    train: Sequence[Item]
    held_out: Sequence[Item]
    loss: Callable[[Item], torch.Tensor]
    recipe: Recipe
    seed: int
    folder: Path
    digest: str
    """Of all that decides what is learned."""
    before_item: Callable[[int], None] = lambda _: None
    """Told how many items were learned from, before the next one is: a loss that draws may draw by it."""
    on_item: Callable[[int, int], None] = lambda _done, _total: None
    """Told of items that were learned from, of all that are at most."""
    on_point: Callable[[LossPoint], None] = lambda _: None
    should_stop: Callable[[], bool] = lambda: False
    _state: _State = field(init=False)
    _best: LoraWeights | None = field(init=False, default=None)

    def run(self, *, resume: bool = False) -> Fitted:
        """Train, and leave the weights of the epoch with the lowest held-out loss in the model.

        A checkpoint is kept even then, for `forget_checkpoint` to delete: nothing is trained again where what follows
        is cut short.

        Raises:
            ConfigError: an earlier training is not to go on, or is of something else; or the numbers left all bounds.
            RunCancelled: the person stopped it.
        """
        import torch

        self._optimiser = torch.optim.AdamW(
            list(trainable(self.model).values()), lr=0.0, weight_decay=self.recipe.weight_decay, foreach=False
        )
        self._state = _State(digest=self.digest)
        self._open(resume)
        self._since = self._saved = time.monotonic()
        self.model.train()
        with torch.enable_grad():
            while not self._is_over():
                self._stop_if_asked()
                if time.monotonic() - self._saved > _CHECKPOINT_SECONDS:
                    self._save()
                self._learn()
        assert self._best is not None, "each epoch ends with a measurement"
        set_lora_weights(self.model, self._best)
        self.model.eval()
        self._count_seconds()
        state = self._state
        return Fitted(
            points=tuple(state.points),
            best_epoch=state.best_epoch,
            epochs=state.cursor // len(self.train),
            steps=state.step,
            seconds=state.seconds,
        )

    def _is_over(self) -> bool:
        """Measure where an epoch begins or ends; say whether none is to follow."""
        state, count = self._state, len(self.train)
        epoch, inside = divmod(state.cursor, count)
        if inside:
            return False
        measured = [point for point in state.points if point.held_out is not None]
        if len(measured) <= epoch:
            self._measure(epoch)
        is_patient = not self.recipe.patience or epoch - state.best_epoch < self.recipe.patience
        return epoch >= self.recipe.epochs or not is_patient

    def _measure(self, epoch: int) -> None:
        import torch

        self.model.eval()
        losses = []
        with torch.no_grad():
            for item in self.held_out:
                self._stop_if_asked()
                losses.append(self.loss(item).item())
        self.model.train()
        held_out = sum(losses) / len(losses)
        self._require_number(held_out)
        if epoch and (self._state.best_loss is None or held_out < self._state.best_loss):
            self._state.best_loss, self._state.best_epoch = held_out, epoch
            self._best = lora_weights(self.model)
        self._add(LossPoint(step=self._state.step, epoch=float(epoch), held_out=held_out))
        self._save()

    def _learn(self) -> None:
        """Learn from the next item; with the last one of a step, change the weights."""
        import torch

        state, count = self._state, len(self.train)
        epoch, at = divmod(state.cursor, count)
        begin = at // self.recipe.accumulation * self.recipe.accumulation
        size = min(self.recipe.accumulation, count - begin)
        item = self.train[self._order(epoch)[at]]
        save_memory(self.model, len(item) > LONG)
        self.before_item(state.cursor)
        loss = self.loss(item)
        self._require_number(loss.item())
        (loss / size).backward()  # type: ignore[no-untyped-call]
        state.gathered.append(loss.item())
        state.cursor += 1
        if at + 1 == begin + size:
            rate = self._learning_rate()
            for group in self._optimiser.param_groups:
                group["lr"] = rate
            torch.nn.utils.clip_grad_norm_(list(trainable(self.model).values()), _CLIP, foreach=False)
            self._optimiser.step()
            self._optimiser.zero_grad()
            state.step += 1
            mean = sum(state.gathered) / size
            state.gathered = []
            self._add(LossPoint(step=state.step, epoch=state.cursor / count, loss=mean, learning_rate=rate))
        self.on_item(state.cursor, count * self.recipe.epochs)

    def _order(self, epoch: int) -> list[int]:
        order = list(range(len(self.train)))
        random.Random(f"{self.seed} {epoch}").shuffle(order)
        return order

    def _learning_rate(self) -> float:
        """Of the next step: up in a line during the warm-up, and down along half a cosine."""
        total = self.recipe.epochs * math.ceil(len(self.train) / self.recipe.accumulation)
        warm_up = math.ceil(self.recipe.warm_up * total)
        number = self._state.step
        if number < warm_up:
            return self.recipe.learning_rate * (number + 1) / warm_up
        return self.recipe.learning_rate * (1 + math.cos(math.pi * (number - warm_up) / (total - warm_up))) / 2

    def _require_number(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise ConfigError("the training left all bounds", "give a smaller --learning-rate")

    def _add(self, point: LossPoint) -> None:
        self._state.points.append(point)
        with (self.folder / LOSSES).open("ab") as file:
            file.write(msgspec.json.encode(point) + b"\n")
        self.on_point(point)

    def _stop_if_asked(self) -> None:
        if self.should_stop():
            self._save()
            raise RunCancelled("stopped while an adapter was trained", "go on with the same command and --resume")

    def _count_seconds(self) -> None:
        now = time.monotonic()
        self._state.seconds += now - self._since
        self._since = now

    def _open(self, resume: bool) -> None:
        """Take a checkpoint up, or begin anew."""
        self.folder.mkdir(parents=True, exist_ok=True)
        require_free_to_train(self.folder, resume=resume)
        path = self.folder / CHECKPOINT
        if path.exists():
            self._load(path)
        replace_durably(
            self.folder / LOSSES, b"".join(msgspec.json.encode(point) + b"\n" for point in self._state.points)
        )

    def _save(self) -> None:
        from safetensors.torch import save

        self._count_seconds()
        tensors: dict[str, torch.Tensor] = {}
        for name, value in trainable(self.model).items():
            tensors[f"weight/{name}"] = value.detach()
            if value.grad is not None:
                tensors[f"gradient/{name}"] = value.grad
            moments = self._optimiser.state.get(value, {})
            for moment in ("exp_avg", "exp_avg_sq"):
                if moment in moments:
                    tensors[f"{moment}/{name}"] = moments[moment]
        tensors |= dict(_best_tensors(self._best))
        held = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
        header = {_KEY: msgspec.json.encode(self._state).decode()}
        replace_durably(self.folder / CHECKPOINT, save(held, metadata=header))
        self._saved = time.monotonic()

    def _load(self, path: Path) -> None:
        import torch
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
                state = msgspec.json.decode((file.metadata() or {})[_KEY], type=_State)
        except (SafetensorError, msgspec.DecodeError, OSError, KeyError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise ConfigError(f"{path} is no checkpoint: {reason}", "delete it, and train anew") from error
        if state.digest != self.digest:
            raise ConfigError(
                f"{self.folder} was begun with other data or options",
                f"give those that it was begun with, or delete {path}",
            )
        self._state = state
        best: dict[str, dict[str, Any]] = {}
        for name, tensor in tensors.items():
            kind, _, rest = name.partition("/")
            if kind == "best":
                part, _, module = rest.partition("/")
                best.setdefault(module, {})[part] = tensor.numpy()
        self._best = _pairs(best) if best else None
        with torch.no_grad():
            for name, value in trainable(self.model).items():
                value.copy_(tensors[f"weight/{name}"])
                gradient = tensors.get(f"gradient/{name}")
                value.grad = None if gradient is None else gradient.to(value.device)
                if f"exp_avg/{name}" in tensors:
                    self._optimiser.state[value] = {
                        "step": torch.tensor(float(state.step)),
                        "exp_avg": tensors[f"exp_avg/{name}"].to(value.device),
                        "exp_avg_sq": tensors[f"exp_avg_sq/{name}"].to(value.device),
                    }


def require_free_to_train(folder: Path, *, resume: bool) -> None:
    """Refuse a folder that holds a training which is not to go on.

    Raises:
        ConfigError: saying how to go on with it.
    """
    if has_checkpoint(folder) and not resume:
        raise ConfigError(
            f"{folder} holds a training that was stopped", f"go on with --resume, or delete {folder / CHECKPOINT}"
        )


def has_checkpoint(folder: Path) -> bool:
    """Whether a folder holds a training that was stopped."""
    return (folder / CHECKPOINT).exists()


def forget_checkpoint(folder: Path) -> None:
    """Delete a checkpoint: what came of the training is kept elsewhere."""
    (folder / CHECKPOINT).unlink(missing_ok=True)


def _best_tensors(best: LoraWeights | None) -> Iterator[tuple[str, torch.Tensor]]:
    import torch

    for module, pair in (best or {}).items():
        yield f"best/a/{module}", torch.from_numpy(pair.a)
        yield f"best/b/{module}", torch.from_numpy(pair.b)


def _pairs(parts: dict[str, dict[str, Any]]) -> LoraWeights:
    from adaptrag_cli.learning.lora import LoraPair

    return {module: LoraPair(a=part["a"], b=part["b"]) for module, part in parts.items()}
