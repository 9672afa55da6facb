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

from adaptrag_cli.disk import replace_durably
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.events import DraftOdds, Record

FORMAT = 1


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
    """How many of the questions it was fitted on."""
    known = frozenset(calibrated.question_digests)
    return sum(1 for query in queries if question_digest(query) in known)
