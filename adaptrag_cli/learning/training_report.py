"""What a training came to, as it stands beside its loss curve and in the adapter's file."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec

from adaptrag_cli.disk import replace_durably
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.results import MANIFEST
from adaptrag_cli.events import Record
from adaptrag_cli.json_lines import read_records
from adaptrag_cli.learning.export import Stage
from adaptrag_cli.learning.fitting import LOSSES, LossPoint, Recipe
from adaptrag_cli.learning.lora import LoraShape
from adaptrag_cli.learning.runs import read_run
from adaptrag_cli.learning.stages import DecisionOdds
from adaptrag_cli.models.adapters import find_adapter

TRAINING = "training"
REPORT = "report.json"
LEARNED_FROM: Mapping[Stage, str] = {"imitation": "trajectories", "calibration": "pairs", "grpo": "questions"}
_ANSWER_ONLY = "answer-only"
TRAININGS = ("imitation", f"imitation-{_ANSWER_ONLY}", "calibration", "grpo")
"""The folders of what can be trained on a run, in the order in which it is."""


class TrainingReport(Record, frozen=True, kw_only=True):
    """What an adapter was trained on, how, and what came of it."""

    stage: Stage
    adapter: str
    run: str
    """Name of the folder."""
    run_id: str = ""
    """What tells it from other runs of that name."""
    base: str
    base_fingerprint: str
    adapter_from: str
    """Adapter that it began with; empty for none."""
    adapter_from_fingerprint: str = ""
    adapter_fingerprint: str = ""
    """Of the adapter's file; empty in that file itself, which cannot hold its own."""
    digest: str = ""
    """Of all that decides what is learned."""
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

    @property
    def training(self) -> str:
        """Name of its folder."""
        return training_name(self.stage, self.objective)


def training_name(stage: Stage, objective: str) -> str:
    """Name of a training's folder: that of its stage, but for the baseline that is no stage of the method."""
    return f"{stage}-{_ANSWER_ONLY}" if objective == _ANSWER_ONLY else stage


def default_name(run: Path, stage: Stage, objective: str) -> str:
    """Name of the adapter where none is given."""
    return f"{run.absolute().name}-{_ANSWER_ONLY if objective == _ANSWER_ONLY else stage}"


def run_id(run: Path) -> str:
    """What tells a run from all others, whatever their folders are called."""
    return hashlib.sha256((run / MANIFEST).read_bytes()).hexdigest()[:16]


def begun_with(run: Path, stage: Stage, models_dir: Path) -> str:
    """The adapter that a stage begins with where none is named.

    None for imitation; for the later stages what stage imitation has made of the run, or else what has explored it.

    Raises:
        ConfigError: there is none, or another file has its name now.
        UnknownName: it was removed.
    """
    if stage == "imitation":
        return ""
    manifest = read_run(run)
    try:
        made = read_report(run, "imitation")
        name, fingerprint, what = made.adapter, made.adapter_fingerprint, f"that stage imitation made of {run}"
    except OSError as error:
        name, fingerprint = manifest.adapter, manifest.model_fingerprint.partition("+")[2]
        what = f"that has explored {run}"
        if not name:
            raise ConfigError(
                f"stage {stage} goes on from stage imitation, which was not trained on {run}",
                f"first: {shlex.join(['adaptrag', 'deeprag', 'train', str(run), '--stage', 'imitation'])}; "
                "or name an adapter with --adapter-from",
            ) from error
    if find_adapter(models_dir, name).fingerprint != fingerprint:
        raise ConfigError(
            f"adapter {name!r} is not the file any more {what}",
            "train stage imitation again, or name an adapter with --adapter-from",
        )
    return name


def write_report(run: Path, report: TrainingReport) -> None:
    """Write it whole or not at all."""
    path = run / TRAINING / report.training / REPORT
    replace_durably(path, msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")


def read_report(run: Path, training: str) -> TrainingReport:
    """What came of a training on a run.

    Raises:
        OSError: it was not done.
        ConfigError: the report is broken.
    """
    path = run / TRAINING / training / REPORT
    try:
        return msgspec.json.decode(path.read_bytes(), type=TrainingReport)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is no report of a training: {error}", "train the stage again") from error


def reports_of(run: Path) -> dict[str, TrainingReport]:
    """What came of every training on a run that is done, in their order.

    Raises:
        ConfigError: a report is broken.
    """
    done = (training for training in TRAININGS if (run / TRAINING / training / REPORT).exists())
    return {training: read_report(run, training) for training in done}


def trainings_begun(run: Path) -> tuple[str, ...]:
    """The trainings of which a run holds a loss curve, in their order."""
    return tuple(training for training in TRAININGS if (run / TRAINING / training / LOSSES).exists())


def read_losses(run: Path, training: str) -> tuple[LossPoint, ...]:
    """The loss curve of a training so far; a line that a kill has cut off is left out.

    Raises:
        ConfigError: another line is broken.
    """
    path = run / TRAINING / training / LOSSES
    decode = msgspec.json.Decoder(LossPoint).decode
    return tuple(read_records(path, decode, what="no point of a loss curve", hint="train the stage again"))
