"""What was measured for the answer model, shipped with it or on this machine, and where it does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from adaptrag_cli.calibration import Calibrated, FittedVerifier, MeasuredWith, calibration_path, read_calibration
from adaptrag_cli.events import Setting, WarningRaised
from adaptrag_cli.evidence import EvidenceRule
from adaptrag_cli.identity import shortened
from adaptrag_cli.index.store import Store
from adaptrag_cli.models.catalogue import DEFAULT_ENCODER, Calibration
from adaptrag_cli.models.files import ModelFile
from adaptrag_cli.strategies.base import Options, Strategy

if TYPE_CHECKING:
    from adaptrag_cli.session.plan import Plan

_CALIBRATED = "calibrated on"
"""How the origin of a value begins that the user's own calibration gave."""
_MEASURED = "measured for this model"
_TAUGHT = "deeprag"
"""The strategy whose form adapters are trained to."""
_FORM = ("mode", "smoothing", "difference")
"""Options that decide what a trigger is held against."""


def measured_settings(
    strategy: Strategy,
    origins: Mapping[str, str],
    file: ModelFile,
    calibrated: Calibrated | None,
    shipped: Calibration | None,
) -> tuple[Setting, ...]:
    """Values that stand in for the strategy's own defaults with this model."""
    found = (_threshold(calibrated, shipped), _trigger(strategy, origins, shipped), taught_examples(strategy, file))
    return tuple(setting for setting in found if setting is not None)


def find_calibration(models_dir: Path, file: ModelFile) -> tuple[Calibrated | None, tuple[WarningRaised, ...]]:
    """What was fitted for these very weights; a calibration of another file of the same name does not count."""
    found = read_calibration(calibration_path(models_dir, file.name))
    if found is None or file.matches(found.model_fingerprint):
        return found, ()
    return None, (
        WarningRaised(
            code="calibration_not_used",
            message=f"{file.name} was calibrated as {shortened(found.model_fingerprint)}, and this file is "
            f"{shortened(file.fingerprint)}: calibrate again, or if it is the same file: adaptrag models verify",
        ),
    )


def _threshold(calibrated: Calibrated | None, shipped: Calibration | None) -> Setting | None:
    if calibrated is not None and calibrated.threshold is not None:
        kind = "" if calibrated.labelled else ", which the model wrote itself"
        origin = f"{_CALIBRATED} {calibrated.source}{kind}"
        return Setting(name="threshold", value=calibrated.threshold.threshold, origin=origin)
    if shipped is not None:
        return Setting(name="threshold", value=shipped.threshold, origin=_MEASURED)
    return None


def taught_examples(strategy: Strategy, file: ModelFile) -> Setting | None:
    """An adapter of `adaptrag deeprag train` has learned the form without worked examples, and is asked without."""
    if strategy.name != _TAUGHT or file.adapter is None or not file.adapter.stage:
        return None
    return Setting(name="examples", value=0, origin=f"adapter {file.adapter.name} was trained without")


def _trigger(strategy: Strategy, origins: Mapping[str, str], shipped: Calibration | None) -> Setting | None:
    """What a method holds words against; it was measured in the form that the method has by default."""
    trigger = shipped.triggers.get(strategy.name) if shipped is not None else None
    if trigger is None or any(origins.get(f"ask.{name}", "default") != "default" for name in _FORM):
        return None
    return Setting(name="trigger", value=trigger, origin=_MEASURED)


def measured_rule(calibration: Calibration | None, store: Store) -> EvidenceRule | None:
    """The measured rule, where model and encoder are the ones it was measured with."""
    if calibration is None or store.encoder.name != DEFAULT_ENCODER:
        return None
    if calibration.abstain_uncertainty is None or calibration.abstain_query_score is None:
        return None
    return EvidenceRule(
        max_answer_uncertainty=calibration.abstain_uncertainty, min_query_score=calibration.abstain_query_score
    )


def rule_settings(rule: EvidenceRule | None) -> tuple[Setting, ...]:
    """Tell the rule in numbers."""
    if rule is None:
        return ()
    values = (("max_answer_uncertainty", rule.max_answer_uncertainty), ("min_query_score", rule.min_query_score))
    return tuple(Setting(name=name, value=value, origin=_MEASURED) for name, value in values)


def threshold_warnings(strategy: Strategy, rows: tuple[Setting, ...], file: ModelFile) -> tuple[WarningRaised, ...]:
    """Tell when no threshold was measured for the model."""
    origin = next((row.origin for row in rows if row.name == "threshold"), "")
    if not origin.startswith("default of"):
        return ()
    return (
        WarningRaised(
            code="threshold_uncalibrated",
            message=f"no threshold was measured for {file.name}: using the paper's, under which small models look "
            "nearly everything up; set one with --threshold",
        ),
    )


def settings_warnings(
    strategy: Strategy,
    options: Options,
    rows: tuple[Setting, ...],
    calibrated: Calibrated | None,
    shipped: Calibration | None,
) -> tuple[WarningRaised, ...]:
    """Tell when what was fitted is used under other settings than it was measured with."""
    now = measured_with(options)
    if strategy.name == "dtr+verify":
        differences = [verifier.differences(now) for verifier in known_verifiers(calibrated, shipped)]
        if not differences or not all(differences):
            return ()
        return (_not_matching(f"the weighing was fitted with {differences[0]}, so everything is looked up"),)
    if calibrated is None or not _uses_own_threshold(rows) or not isinstance(calibrated.measured_with, MeasuredWith):
        return ()
    differences_now = calibrated.measured_with.differences(now)
    return (_not_matching(f"the threshold was calibrated with {differences_now}"),) if differences_now else ()


def encoder_warnings(plan: Plan, encoder: str) -> tuple[WarningRaised, ...]:
    """Tell when what was fitted is used over an index of another encoder; dtr+verify refuses that itself."""
    calibrated = plan.calibrated
    if calibrated is None:
        return ()
    warnings = []
    if calibrated.encoder != encoder and _uses_own_threshold(plan.rows):
        warnings.append(
            _not_matching(f"the threshold was calibrated with encoder {calibrated.encoder} (now {encoder})")
        )
    uses_line = "ais" in plan.strategy.uses and plan.options.ais == "dynamic" and calibrated.alpha_line is not None
    if uses_line and calibrated.alpha_encoder != encoder:
        warnings.append(
            _not_matching(f"the query weight was fitted with encoder {calibrated.alpha_encoder} (now {encoder})")
        )
    return tuple(warnings)


def known_verifiers(calibrated: Calibrated | None, shipped: Calibration | None) -> list[FittedVerifier]:
    """What was fitted for dtr+verify, the user's own first."""
    found = (calibrated.verifier if calibrated else None, shipped.verifier if shipped else None)
    return [verifier for verifier in found if verifier is not None]


def measured_with(options: Options) -> MeasuredWith:
    """The settings that decide how good answers from documents are."""
    return MeasuredWith(retriever=options.retriever, top_n=options.top_n, top_k=options.top_k, ais=options.ais)


def _uses_own_threshold(rows: tuple[Setting, ...]) -> bool:
    return any(row.name == "threshold" and row.origin.startswith(_CALIBRATED) for row in rows)


def _not_matching(what: str) -> WarningRaised:
    return WarningRaised(
        code="calibration_not_matching", message=f"{what}; calibrate with these settings: adaptrag calibrate"
    )
