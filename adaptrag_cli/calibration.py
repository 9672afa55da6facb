"""What was fitted for one answer model on this machine: its values, its file, and how they are applied.

`adaptrag calibrate` fits and writes (`evaluation/`); a session reads, and strategies apply. The file is plain JSON that
is validated when it is read: numbers and names, nothing that could be run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from adaptrag_cli.disk import replace_durably
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.events import DraftOdds, Record

FORMAT = 1


class MeasuredWith(Record, frozen=True, kw_only=True):
    """The settings of looking up that decide how good answers from documents are."""

    retriever: str
    top_n: int
    top_k: int
    ais: str

    def differences(self, now: MeasuredWith, names: Sequence[str] = ("retriever", "top_n", "top_k", "ais")) -> str:
        """How other settings differ, in words: `top_k 3 (now 5)`; empty where they do not."""
        pairs = [(name, getattr(self, name), getattr(now, name)) for name in names]
        return ", ".join(f"{name} {then} (now {value})" for name, then, value in pairs if then != value)


class FittedThreshold(Record, frozen=True, kw_only=True):
    """The threshold chosen for drafts, and how sure that is."""

    threshold: float
    low: float
    """95 % bootstrap interval of the choice."""
    high: float
    target: str
    """`em`, `f1`, or `budget 0.5`."""
    gain: float
    """Held-out gain of the target over the threshold that was shipped (0 to 1)."""
    gain_low: float
    gain_high: float
    held_out: float | UnsetType = UNSET
    """Mean of the target over the questions, each under the choices that were made without it (0 to 1)."""
    held_out_low: float | UnsetType = UNSET
    held_out_high: float | UnsetType = UNSET


class Logistic(Record, frozen=True, kw_only=True):
    """A logistic model: chance = 1 / (1 + exp(-(intercept + sum weight_i * (x_i - mean_i) / scale_i)))."""

    features: tuple[str, ...]
    weights: tuple[float, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    intercept: float

    def chance(self, values: Mapping[str, float]) -> float:
        """The fitted chance for named features; a missing one counts as its mean."""
        total = self.intercept
        for name, weight, mean, scale in zip(self.features, self.weights, self.means, self.scales, strict=True):
            total += weight * (values.get(name, mean) - mean) / scale
        return 1.0 / (1.0 + math.exp(-min(max(total, -60.0), 60.0)))


class FittedVerifier(Record, frozen=True, kw_only=True):
    """What dtr+verify weighs with."""

    encoder: str
    """Similarities of another encoder mean something else."""
    look_up: Literal["query", "both"]
    """Paths that are searched: the ones whose answers were better on the calibration questions."""
    skip_margin: float
    """Nothing is looked up only when the draft is likelier right by more than this."""
    keep_margin: float
    """After a look-up the draft is given only when it is likelier right by more than this."""

    draft: Logistic
    """Chance that the draft is right, from its uncertainty alone."""
    before: Logistic
    """Chance that documents would give the right answer, from what one search shows."""
    after: Logistic
    """Chance that the answer from documents is right, from everything known after it."""
    draft_after: Logistic
    """Chance that the draft is right, from everything known after retrieval."""
    measured_with: MeasuredWith | UnsetType = UNSET
    """Under other settings the chances mean little: see `without_trust`."""

    def differences(self, now: MeasuredWith) -> str:
        """How the settings differ that matter to it; one path knows no AIS and no `top_n`."""
        if not isinstance(self.measured_with, MeasuredWith):
            return ""
        names = ("retriever", "top_k") if self.look_up == "query" else ("retriever", "top_n", "top_k", "ais")
        return self.measured_with.differences(now, names)

    def without_trust(self) -> FittedVerifier:
        """The same with margins that always look up and never keep a draft; a floor still has its say."""
        return msgspec.structs.replace(self, skip_margin=1.0, keep_margin=1.0)


class FittedOn(Record, frozen=True, kw_only=True):
    """Where a part comes from that was fitted apart from the rest."""

    source: str
    labelled: bool
    encoder: str
    question_digests: tuple[str, ...]
    created: str


class Calibrated(Record, frozen=True, kw_only=True):
    """Everything fitted for one answer model and encoder."""

    format: int = FORMAT
    model: str
    model_fingerprint: str
    encoder: str
    source: str
    """Where the questions come from, in words: `hotpotqa (150 questions)` or `questions written from index notes`."""
    labelled: bool
    """False when the questions were written by the model itself from the index: weaker evidence."""
    questions: int
    question_digests: tuple[str, ...]
    """Digests of the questions, so that a report on the same questions can be refused."""
    threshold: FittedThreshold | None = None
    odds: tuple[DraftOdds, ...] = ()
    """Isotonic map from uncertainty to how often drafts were right, as bands without a gap."""
    verifier: FittedVerifier | None = None
    alpha_line: tuple[float, float] | None = None
    """Slope per radian and intercept of PAIRS' query weight."""
    created: str
    adaptrag_version: str
    measured_with: MeasuredWith | UnsetType = UNSET
    """What the threshold was measured with."""
    alpha_fitted_on: FittedOn | UnsetType = UNSET
    """Where the line comes from, unless it was fitted with the rest."""

    @property
    def alpha_encoder(self) -> str:
        """The encoder whose angles the line is about."""
        return self.alpha_fitted_on.encoder if isinstance(self.alpha_fitted_on, FittedOn) else self.encoder


def keeping(fitted: Calibrated, earlier: Calibrated | None) -> Calibrated:
    """What was fitted now, with what it did not fit taken from an earlier calibration of the same weights."""
    if earlier is None or earlier.model_fingerprint != fitted.model_fingerprint:
        return fitted
    if fitted.threshold is None:
        return msgspec.structs.replace(earlier, alpha_line=fitted.alpha_line, alpha_fitted_on=_origin(fitted))
    if fitted.alpha_line is None and earlier.alpha_line is not None:
        origin = earlier.alpha_fitted_on if isinstance(earlier.alpha_fitted_on, FittedOn) else _origin(earlier)
        return msgspec.structs.replace(fitted, alpha_line=earlier.alpha_line, alpha_fitted_on=origin)
    return fitted


def _origin(calibrated: Calibrated) -> FittedOn:
    return FittedOn(
        source=calibrated.source,
        labelled=calibrated.labelled,
        encoder=calibrated.encoder,
        question_digests=calibrated.question_digests,
        created=calibrated.created,
    )


def calibration_path(models_dir: Path, model_name: str) -> Path:
    """The file of a model's calibration."""
    return models_dir / "calibrations" / f"{Path(model_name).name}.json"


def write_calibration(path: Path, calibrated: Calibrated) -> None:
    """Write it whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_durably(path, msgspec.json.format(msgspec.json.encode(calibrated), indent=2) + b"\n")


def read_calibration(path: Path) -> Calibrated | None:
    """Read the file; None when there is none.

    Raises:
        ConfigError: it is not a calibration of this version.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Calibrated)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, ValueError) as error:
        raise ConfigError(f"{path} is no calibration: {error}", "delete it, and run: adaptrag calibrate") from error


def question_digest(query: str) -> str:
    """A digest by which the same question is known again, whatever its spacing and case."""
    import hashlib

    return hashlib.sha256(" ".join(query.casefold().split()).encode("utf-8", "replace")).hexdigest()[:16]


def overlap(calibrated: Calibrated, queries: Sequence[str]) -> int:
    """How many of the questions any part of it was fitted on."""
    known = frozenset(calibrated.question_digests)
    if isinstance(calibrated.alpha_fitted_on, FittedOn):
        known |= frozenset(calibrated.alpha_fitted_on.question_digests)
    return sum(1 for query in queries if question_digest(query) in known)
