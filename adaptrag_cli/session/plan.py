"""Resolve strategy, options and model files before anything is loaded, so that a misspelt name is told at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from adaptrag_cli.calibration import Calibrated, FittedVerifier
from adaptrag_cli.config import Settings
from adaptrag_cli.events import DraftOdds, Setting, WarningRaised
from adaptrag_cli.locations import default_index_dir, default_models_dir
from adaptrag_cli.models.adapters import locate_adapted
from adaptrag_cli.models.base import SIGNALS
from adaptrag_cli.models.catalogue import Calibration
from adaptrag_cli.models.files import ModelFile, locate_model
from adaptrag_cli.session.measured import (
    find_calibration,
    known_verifiers,
    measured_settings,
    measured_with,
    settings_warnings,
    threshold_warnings,
)
from adaptrag_cli.strategies.base import (
    Options,
    Strategy,
    load_strategy,
    probed_states,
    resolve_options,
    unused_flags,
    wanted_capabilities,
)
from adaptrag_cli.strategies.labels import require_labels

if TYPE_CHECKING:
    from adaptrag_cli.probing.files import ProberFile
    from adaptrag_cli.probing.prober import ProberKind


@dataclass(frozen=True, kw_only=True)
class ModelLoad:
    """All that decides what a loaded model is: two equal ones need only one model."""

    file: ModelFile
    context_length: int
    gpu_layers: str
    threads: int | None
    signals: bool = False
    """Whether it is to give attention and states; others need not pay for that."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A strategy with its options, resolved for one answer model before anything is loaded."""

    strategy: Strategy
    options: Options
    rows: tuple[Setting, ...]
    warnings: tuple[WarningRaised, ...]
    load: ModelLoad
    calibrated: Calibrated | None
    """What `adaptrag calibrate` fitted for the model on this machine."""
    shipped: Calibration | None
    """What was measured for the model and stands in the catalogue."""
    judge: ModelLoad | None = None
    """A second model that judges."""
    reranker: str | None = None
    """Cross-encoder to open; empty means the answer model itself, None that nothing is reranked."""
    prober: ProberFile | None = None
    """What reads the model's states; None where nothing does."""

    @property
    def draft_odds(self) -> tuple[DraftOdds, ...]:
        """The user's own measurement before the shipped one."""
        if self.calibrated is not None and self.calibrated.odds:
            return self.calibrated.odds
        return self.shipped.odds if self.shipped else ()

    @property
    def verifier(self) -> FittedVerifier | None:
        """What dtr+verify weighs with: the user's own before the shipped one, and one for these settings before both.

        Where none is for these settings, what there is no longer decides: it looks up and gives the documents' answer.
        """
        known = known_verifiers(self.calibrated, self.shipped)
        now = measured_with(self.options)
        matching = next((verifier for verifier in known if not verifier.differences(now)), None)
        return matching or (known[0].without_trust() if known else None)

    @property
    def uncalibrated_threshold(self) -> float:
        """The threshold that holds without a calibration of the user's own."""
        return self.shipped.threshold if self.shipped is not None else self.strategy.defaults.threshold


def plan_session(settings: Settings) -> Plan:
    """Resolve strategy, options and model files without loading anything.

    Raises:
        AdaptRAGError: a name is unknown; a model file, its prober or the labels are missing; a calibration is broken.
    """
    strategy = load_strategy(settings.ask.strategy)
    models_dir = models_dir_of(settings)
    file = _answer_model(settings, models_dir)
    shipped = file.entry.calibration if file.entry is not None and file.adapter is None else None
    calibrated, calibration_warnings = find_calibration(models_dir, file)
    measured = measured_settings(strategy, settings.origins, file, calibrated, shipped)
    options, rows = resolve_options(strategy, settings.ask, settings.origins, measured=measured)
    reranks = "reranker" in strategy.uses or ("ais" in strategy.uses and options.ais == "rerank")
    if file.adapter is not None:
        rows += (Setting(name="adapter", value=file.adapter.name, origin=settings.origin("models.adapter")),)
    judges = "judge" in strategy.uses and settings.models.judge is not None
    judge = _model_load(settings, locate_model(settings.models.judge or "", models_dir)) if judges else None
    if judge is not None:
        rows += (Setting(name="judge", value=judge.file.name, origin=settings.origin("models.judge")),)
    if reranks:
        shown = settings.models.reranker or "the answer model"
        rows += (Setting(name="reranker", value=shown, origin=settings.origin("models.reranker")),)
    prober = _find_prober(probed_states(strategy), options.prober, models_dir, file)
    if prober is not None:
        rows = tuple(_named(row, prober.name) if row.name == "prober" else row for row in rows)
    if "labels" in strategy.uses and settings.ask.labels is not None:
        require_labels(settings.ask.labels)
        rows += (Setting(name="labels", value=str(settings.ask.labels), origin=settings.origin("ask.labels")),)
    warnings = (
        calibration_warnings
        + _adapter_warnings(file)
        + _prober_warnings(prober, options)
        + threshold_warnings(strategy, rows, file)
    )
    warnings += settings_warnings(strategy, options, rows, calibrated, shipped)
    warnings += tuple(
        WarningRaised(code="option_unused", message=f"{flag} changes nothing with strategy {strategy.name!r}")
        for flag in unused_flags(strategy, settings.origins)
    )
    return Plan(
        strategy=strategy,
        options=options,
        rows=rows,
        warnings=warnings,
        load=_model_load(settings, file, signals=bool(wanted_capabilities(strategy) & SIGNALS)),
        calibrated=calibrated,
        shipped=shipped,
        judge=judge,
        reranker=(settings.models.reranker or "") if reranks else None,
        prober=prober,
    )


def model_load_of(settings: Settings) -> ModelLoad:
    """The answer model that the settings name, with its adapter, not loaded yet.

    Raises:
        AdaptRAGError: there is no such model or adapter, its file is not there, or they do not go together.
    """
    return _model_load(settings, _answer_model(settings, models_dir_of(settings)))


def index_dir_of(settings: Settings) -> Path:
    """The folder that holds the indexes."""
    return settings.index.dir or default_index_dir(Path.cwd())[0]


def models_dir_of(settings: Settings) -> Path:
    """The folder that holds the model files."""
    return settings.models.dir or default_models_dir()


def _answer_model(settings: Settings, models_dir: Path) -> ModelFile:
    return locate_adapted(settings.models.answer, settings.models.adapter, models_dir)


def _model_load(settings: Settings, file: ModelFile, *, signals: bool = False) -> ModelLoad:
    return ModelLoad(
        file=file,
        context_length=settings.models.context_length,
        gpu_layers=settings.models.gpu_layers,
        threads=settings.models.threads,
        signals=signals,
    )


def _find_prober(kind: ProberKind | None, name: str, models_dir: Path, file: ModelFile) -> ProberFile | None:
    """The prober that states of the kind are read with, its weights not read."""
    if kind is None:
        return None
    from adaptrag_cli.probing.files import find_prober  # numpy

    return find_prober(models_dir, name, kind=kind, model=file)


def _prober_warnings(prober: ProberFile | None, options: Options) -> tuple[WarningRaised, ...]:
    """Where texts are written otherwise than those that the prober has learned from."""
    if prober is None:
        return ()
    from adaptrag_cli.strategies.rationales import written_with

    now = written_with(prober.info.kind, options)
    trained = prober.info.report.get("settings")
    known = trained if isinstance(trained, dict) else {}
    others = [name for name, value in now.items() if known.get(name, value) != value]
    told = ["with another prompt" if n == "prompt" else f"at {n} {known[n]} and not {now[n]}" for n in others]
    if not told:
        return ()
    return (
        WarningRaised(
            code="prober_settings",
            message=f"prober {prober.name!r} has learned from texts written {', '.join(told)}: what it says of these "
            "is a guess",
        ),
    )


def _named(row: Setting, name: str) -> Setting:
    """The setting with the name of what it stands for."""
    return Setting(name=row.name, value=name, origin=row.origin)


def _adapter_warnings(file: ModelFile) -> tuple[WarningRaised, ...]:
    if file.adapter is None or file.adapter.tells_base:
        return ()
    return (
        WarningRaised(
            code="adapter_base_unknown",
            message=f"adapter {file.adapter.name!r} does not say which model it was trained on, only that it is for "
            f"{file.adapter.base}: on any but its own, answers mean nothing",
        ),
    )
