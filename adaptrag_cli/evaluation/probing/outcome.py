"""What a prober's file says of its training: on what, how, and what it said of every text that was held out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from adaptrag_cli.errors import ModelError
from adaptrag_cli.events import Record, Scalar
from adaptrag_cli.probing.training import Recipe

FORMAT = 3


class PartSize(Record, frozen=True, kw_only=True):
    """How much a part holds."""

    rows: int
    """Balanced."""
    questions: int


class SetShare(Record, frozen=True, kw_only=True):
    """Texts of one question set, before any were left out."""

    name: str
    questions: int
    index: str
    """Fingerprint of its index; empty where nothing was looked up."""
    written: int
    """Texts without passages; not those that the model could not write."""
    right: int
    written_with_passages: int = 0
    right_with_passages: int = 0


class LayerTraining(Record, frozen=True, kw_only=True):
    """How one layer's network was trained."""

    layer: int
    best_epoch: int
    epochs: int
    accuracy: float
    """On what training was stopped by."""
    seconds: float


class CurvePoint(Record, frozen=True, kw_only=True):
    """All layers together, trained on a part of the rows."""

    rows: int
    logits: tuple[tuple[float, float], ...]
    """(retrieve, stop) of each held-out text, summed over the layers."""


class HeldOut(Record, frozen=True, kw_only=True):
    """A text that was held out."""

    set: str
    question: str
    """Digest of the question."""
    retrieved: bool
    right: bool
    balanced: bool
    """Whether it is among those that accuracies are measured on; the others count for what the answers come to."""
    uncertainty: float | None
    logits: tuple[tuple[float, float], ...]
    """(retrieve, stop) of each layer."""


class Costs(Record, frozen=True, kw_only=True):
    """What it took. Memory is the most that the process held meanwhile; 0 where the system does not tell."""

    generation_seconds: float
    generation_peak_memory: int
    training_seconds: float
    """Of all networks, the training-size curve's too."""
    training_peak_memory: int


class Outcome(Record, frozen=True, kw_only=True):
    """A prober's `report`."""

    format: int = FORMAT
    created: str
    adaptrag_version: str
    source: str
    labelled: bool
    """Whether people wrote the questions' answers."""
    question_digests: tuple[str, ...]
    settings: dict[str, Scalar]
    """What decided the texts."""
    sets: tuple[SetShare, ...]
    without_states: int
    not_finite: int
    """Texts that were left out for their states."""
    failed: int = 0
    """Texts that the model could not write."""
    failure: str = ""
    """Why not the first of them."""
    train: PartSize
    stop: PartSize
    held_out: PartSize
    recipe: Recipe
    layers: tuple[LayerTraining, ...]
    threshold: float | None
    """Uncertainty up to which texts are held right, fitted on what was trained on; None: up to none."""
    passages_stop: tuple[bool, bool]
    """What a text without, and one with passages is held to be, by what was trained on."""
    curve: tuple[CurvePoint, ...]
    texts: tuple[HeldOut, ...]
    costs: Costs


def outcome_of(report: Mapping[str, Any], name: str) -> Outcome:
    """Read what a prober's file says.

    Raises:
        ModelError: it is of another version, or made elsewhere.
    """
    try:
        outcome = msgspec.convert(report, Outcome)
    except (msgspec.ValidationError, ValueError) as error:
        raise ModelError(
            f"prober {name!r} does not say how it was trained: {error}", "train it anew: adaptrag probe train"
        ) from error
    if outcome.format != FORMAT or not _is_consistent(outcome):
        raise ModelError(f"prober {name!r} tells its training in another form", "train it anew: adaptrag probe train")
    return outcome


def _is_consistent(outcome: Outcome) -> bool:
    return all(len(text.logits) == len(outcome.layers) for text in outcome.texts) and all(
        len(point.logits) == len(outcome.texts) for point in outcome.curve
    )
