"""What a training came to, as it stands beside its loss curve and in the adapter's file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from adaptrag_cli.errors import ConfigError
from adaptrag_cli.events import Record
from adaptrag_cli.json_lines import read_records
from adaptrag_cli.learning.export import Stage
from adaptrag_cli.learning.fitting import LOSSES, LossPoint, Recipe
from adaptrag_cli.learning.lora import LoraShape
from adaptrag_cli.learning.stages import DecisionOdds

TRAINING = "training"
REPORT = "report.json"
LEARNED_FROM: Mapping[Stage, str] = {"imitation": "trajectories", "calibration": "pairs", "grpo": "questions"}


class TrainingReport(Record, frozen=True, kw_only=True):
    """What an adapter was trained on, how, and what came of it."""

    stage: Stage
    adapter: str
    run: str
    """Name of the folder."""
    base: str
    base_fingerprint: str
    adapter_from: str
    """Adapter that it began with; empty for none."""
    seed: int
    shape: LoraShape
    recipe: Recipe
    objective: str
    """`all` or `answer-only` of stage I, or whose decisions stage II compares."""
    beta: float | None
    train: int
    """Trajectories, pairs or questions that were learned from."""
    held_out: int
    too_long: int
    """Left out."""
    steps: int
    epochs: int
    best_epoch: int
    """Whose weights these are."""
    loss_before: float
    """Of what was held out."""
    loss_after: float
    odds_before: DecisionOdds | None
    odds_after: DecisionOdds | None
    seconds: float
    device: str
    versions: dict[str, str]

    @property
    def has_learned(self) -> bool:
        """Whether what was held out is likelier than before."""
        return self.loss_after < self.loss_before


def begun_with(run: Path, stage: Stage) -> str:
    """The adapter that a stage begins with where none is named: none, or what stage imitation has made of the run.

    Raises:
        ConfigError: stage imitation was not trained.
    """
    if stage == "imitation":
        return ""
    try:
        return read_report(run, "imitation").adapter
    except OSError as error:
        raise ConfigError(
            f"stage {stage} goes on from stage imitation, which was not trained on {run}",
            f"first: adaptrag deeprag train {run} --stage imitation; or name an adapter with --adapter-from",
        ) from error


def read_report(run: Path, stage: Stage) -> TrainingReport:
    """What came of a stage of a run.

    Raises:
        OSError: it was not trained.
        ConfigError: the report is broken.
    """
    path = run / TRAINING / stage / REPORT
    try:
        return msgspec.json.decode(path.read_bytes(), type=TrainingReport)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is no report of a training: {error}", "train the stage again") from error


def reports_of(run: Path) -> dict[Stage, TrainingReport]:
    """What came of every stage of a run that is done, in their order.

    Raises:
        ConfigError: a report is broken.
    """
    done = (stage for stage in LEARNED_FROM if (run / TRAINING / stage / REPORT).exists())
    return {stage: read_report(run, stage) for stage in done}


def stages_begun(run: Path) -> tuple[Stage, ...]:
    """The stages of which a run holds a loss curve, in the order in which they follow each other."""
    return tuple(stage for stage in LEARNED_FROM if (run / TRAINING / stage / LOSSES).exists())


def read_losses(run: Path, stage: Stage) -> tuple[LossPoint, ...]:
    """The loss curve of a stage so far; a line that a kill has cut off is left out.

    Raises:
        ConfigError: another line is broken.
    """
    path = run / TRAINING / stage / LOSSES
    decode = msgspec.json.Decoder(LossPoint).decode
    return tuple(read_records(path, decode, what="no point of a loss curve", hint="train the stage again"))
