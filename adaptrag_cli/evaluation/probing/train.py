"""From rows to a prober: split, train each layer, train again on less for the curve, and keep what was held out."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

import msgspec
import numpy as np
from numpy.typing import NDArray

from adaptrag_cli import __version__
from adaptrag_cli.errors import RunCancelled
from adaptrag_cli.evaluation.probing.kept import Arrays, Training, kept_or
from adaptrag_cli.evaluation.probing.measures import fit_threshold
from adaptrag_cli.evaluation.probing.memory import forget_peak_memory, peak_memory
from adaptrag_cli.evaluation.probing.outcome import (
    Costs,
    CurvePoint,
    HeldOut,
    LayerTraining,
    Outcome,
    PartSize,
    SetShare,
)
from adaptrag_cli.evaluation.probing.rows import RowData
from adaptrag_cli.evaluation.probing.split import Part, Split, curve_subsets, question_of, split_rows
from adaptrag_cli.evaluation.resume import only_writer
from adaptrag_cli.probing.prober import LayerWeights, Prober, forward
from adaptrag_cli.probing.training import LabelledStates, Recipe, train_layer

NETWORKS = "networks"
"""Folder of what was trained, inside that of the rows."""
_HELD_OUT = "held_out"
_DIGITS = 5
"""Of a logit that is kept."""


def train_prober(
    data: RowData,
    *,
    recipe: Recipe,
    seed: int,
    on_note: Callable[[str], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Prober:
    """Train a prober on all rows of a folder; networks that were trained there before are not trained again.

    Raises:
        ConfigError: there are too few rows, or of one kind only.
        RunCancelled: the person stopped it; what was trained is kept.
    """
    split = split_rows(data, seed=seed)
    with only_writer(data.folder):
        trainer = _Trainer(data, split, recipe, seed, on_note, should_stop)
        trained = trainer.train_all()
        subsets = curve_subsets(data, split.train.rows, seed=seed)
        curve = [trainer.curve_point(rows) for rows in subsets[:-1]]
    manifest = data.manifest
    layers = {layer: weights for layer, (weights, _) in zip(manifest.layers, trained, strict=True)}
    logits = np.stack([_said(weights, trainer.held_out[at]) for at, weights in enumerate(layers.values())], axis=1)
    curve.append(_point(len(split.train.rows), logits))
    outcome = _outcome(data, split, recipe, [training for _, training in trained], curve, logits, trainer.costs())
    return Prober(
        kind=manifest.kind,
        model=manifest.model,
        model_fingerprint=manifest.model_fingerprint,
        width=data.states.shape[2],
        layer_count=manifest.layer_count,
        layers=layers,
        seed=seed,
        report=msgspec.to_builtins(outcome),
    )


@dataclass
class _Trainer:
    """Trains networks on parts of the rows, each once."""

    data: RowData
    split: Split
    recipe: Recipe
    seed: int
    on_note: Callable[[str], None]
    should_stop: Callable[[], bool]

    def __post_init__(self) -> None:
        self._trainings: list[Training] = []
        rows = list(self.split.held_out.all_rows)
        self.held_out = [np.ascontiguousarray(self.data.states[rows, at]) for at in range(self.data.states.shape[1])]
        """Of each layer, (texts, width)."""

    def train_all(self) -> list[tuple[Arrays, Training]]:
        """Weights of every layer, trained on all that there is."""
        rows = self.split.train.rows
        return [self._train(at, rows, lambda weights, _: weights) for at in range(len(self.data.manifest.layers))]

    def curve_point(self, rows: Sequence[int]) -> CurvePoint:
        """What all layers say of what was held out when they are trained on these rows; no weights are kept."""
        made = [
            self._train(at, rows, lambda weights, states: {_HELD_OUT: _said(weights, states)}, _HELD_OUT)
            for at in range(len(self.data.manifest.layers))
        ]
        return _point(len(rows), np.stack([arrays[_HELD_OUT] for arrays, _ in made], axis=1))

    def costs(self) -> Costs:
        """What rows and networks have taken, whenever they were made."""
        rows = self.data.rows
        return Costs(
            generation_seconds=sum(row.seconds for row in rows),
            generation_peak_memory=max(row.peak_memory for row in rows),
            training_seconds=sum(training.seconds for training in self._trainings),
            training_peak_memory=max(training.peak_memory for training in self._trainings),
        )

    def _train(
        self,
        at: int,
        rows: Sequence[int],
        keep: Callable[[Arrays, NDArray[np.float32]], Arrays],
        what: str = "weights",
    ) -> tuple[Arrays, Training]:
        """Train the network of one layer on some rows, and keep its weights or what it says of the held-out rows."""
        if self.should_stop():
            raise RunCancelled("stopped while a prober was trained; go on with the same command and --resume")
        layer = self.data.manifest.layers[at]
        train, stop = self._labelled(at, rows), self._labelled(at, self.split.stop.rows)
        held_out = self.held_out[at]
        digest = _digest(train, stop, held_out, self.recipe, (self.seed, layer, version("torch")))

        def trained() -> tuple[Arrays, Training]:
            self.on_note(f"training layer {layer} on {len(rows)} rows")
            is_measured = forget_peak_memory()
            started = time.perf_counter()
            made = train_layer(train, stop, recipe=self.recipe, seed=self.seed, layer=layer)
            training = Training(
                digest=digest,
                best_epoch=made.best_epoch,
                epochs=made.epochs,
                accuracy=made.accuracy,
                seconds=time.perf_counter() - started,
                peak_memory=peak_memory() if is_measured else 0,
            )
            return keep(made.weights, held_out), training

        path = self.data.folder / NETWORKS / f"layer-{layer}-{what}-{len(rows)}.safetensors"
        arrays, training = kept_or(path, digest, trained)
        self._trainings.append(training)
        return arrays, training

    def _labelled(self, at: int, rows: Sequence[int]) -> LabelledStates:
        return LabelledStates(
            states=np.ascontiguousarray(self.data.states[list(rows), at]),
            labels=np.asarray([self.data.rows[number].right for number in rows], dtype=np.int64),
        )


def _said(weights: LayerWeights, held_out: NDArray[np.float32]) -> NDArray[np.float32]:
    """Logits (texts, 2) of states (texts, width).

    In double precision: the order of sums, which follows from the number of cores, changes no decimal that is kept.
    """
    return forward(weights, held_out.astype(np.float64)).astype(np.float32)


def _point(rows: int, logits: NDArray[np.float32]) -> CurvePoint:
    """Logits (texts, layers, 2) as a point of the curve."""
    return CurvePoint(rows=rows, logits=_rounded(logits.astype(np.float64).sum(axis=1)))


def _rounded(logits: NDArray[np.floating]) -> tuple[tuple[float, float], ...]:
    return tuple((round(float(retrieve), _DIGITS), round(float(stop), _DIGITS)) for retrieve, stop in logits)


def _digest(
    train: LabelledStates,
    stop: LabelledStates,
    held_out: NDArray[np.float32],
    recipe: Recipe,
    rest: tuple[object, ...],
) -> str:
    digest = hashlib.sha256(msgspec.json.encode(recipe) + repr(rest).encode())
    for part in (train, stop):
        digest.update(part.states.tobytes() + part.labels.tobytes())
    digest.update(held_out.tobytes())
    return digest.hexdigest()


def _outcome(
    data: RowData,
    split: Split,
    recipe: Recipe,
    trainings: Sequence[Training],
    curve: Sequence[CurvePoint],
    logits: NDArray[np.float32],
    costs: Costs,
) -> Outcome:
    manifest = data.manifest
    learnt = [*split.train.rows, *split.stop.rows]
    failures = [row.failure for row in data.rows if row.failure]
    return Outcome(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        adaptrag_version=__version__,
        source=manifest.source,
        labelled=manifest.labelled,
        question_digests=tuple(dict.fromkeys(digest for info in manifest.sets for digest in info.digests)),
        settings=manifest.settings,
        sets=_set_shares(data),
        without_states=split.without_states - len(failures),
        not_finite=split.not_finite,
        failed=len(failures),
        failure=next(iter(failures), ""),
        train=_size(split.train),
        stop=_size(split.stop),
        held_out=_size(split.held_out),
        recipe=recipe,
        layers=tuple(
            LayerTraining(layer=layer, best_epoch=t.best_epoch, epochs=t.epochs, accuracy=t.accuracy, seconds=t.seconds)
            for layer, t in zip(manifest.layers, trainings, strict=True)
        ),
        threshold=fit_threshold([data.rows[n].uncertainty for n in learnt], [data.rows[n].right for n in learnt]),
        passages_stop=(_mostly_right(data, learnt, retrieved=False), _mostly_right(data, learnt, retrieved=True)),
        curve=tuple(curve),
        texts=_held_out_texts(data, split.held_out, logits),
        costs=costs,
    )


def _size(part: Part) -> PartSize:
    return PartSize(rows=len(part.rows), questions=part.questions)


def _set_shares(data: RowData) -> tuple[SetShare, ...]:
    shares = []
    for info in data.manifest.sets:
        rows = [row for row in data.rows if row.set == info.name and not row.failure]
        alone, read = ([row.right for row in rows if row.retrieved is way] for way in (False, True))
        shares.append(
            SetShare(
                name=info.name,
                questions=len(info.questions),
                index=data.manifest.indexes[info.name],
                written=len(alone),
                right=sum(alone),
                written_with_passages=len(read),
                right_with_passages=sum(read),
            )
        )
    return tuple(shares)


def _mostly_right(data: RowData, numbers: Sequence[int], *, retrieved: bool) -> bool:
    """Whether more of such texts are right than wrong; as many, or none, count as right."""
    rights = [data.rows[number].right for number in numbers if data.rows[number].retrieved is retrieved]
    return 2 * sum(rights) >= len(rights)


def _held_out_texts(data: RowData, part: Part, logits: NDArray[np.float32]) -> tuple[HeldOut, ...]:
    questions, balanced = question_of(data), set(part.rows)
    return tuple(
        HeldOut(
            set=data.rows[number].set,
            question=questions[number],
            retrieved=data.rows[number].retrieved,
            right=data.rows[number].right,
            balanced=number in balanced,
            uncertainty=data.rows[number].uncertainty,
            logits=_rounded(logits[at]),
        )
        for at, number in enumerate(part.all_rows)
    )
