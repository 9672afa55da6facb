"""From one finished run to everything that is fitted for an answer model.

The run asked `never`, `always` and `dtr:gate=false`: drafts and answers from documents, once each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec import UnsetType

from adaptrag_cli import __version__
from adaptrag_cli.calibration import Calibrated, FittedThreshold, MeasuredWith, keeping, question_digest
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.alpha import AlphaFit, fit_alpha
from adaptrag_cli.evaluation.results import Cell, RunData, StrategySpec
from adaptrag_cli.evaluation.statistics import Interval, mean_interval
from adaptrag_cli.evaluation.thresholds import Curve, Drafts, drafts_of, fit_odds, fit_threshold, threshold_curve
from adaptrag_cli.evaluation.verifier import (
    ALWAYS,
    BOTH,
    NEVER,
    Example,
    examples_of,
    fit_verifier,
    held_out_outcomes,
)

MIN_QUESTIONS = 40
"""With fewer, the interval of a threshold spans nearly everything."""
STRATEGIES = (
    StrategySpec(label=NEVER, strategy="never"),
    StrategySpec(label=ALWAYS, strategy="always"),
    StrategySpec(label=BOTH, strategy="dtr", overrides={"ask.gate": False}),
)
"""What is asked of every question."""
ALPHA_STRATEGIES = STRATEGIES[-1:]
"""What PAIRS' line is fitted on."""
CHOSEN = "dtr, chosen threshold (held out)"
Target = Literal["em", "f1"]


@dataclass(frozen=True, kw_only=True)
class Aim:
    """What the threshold is chosen for."""

    target: Target = "em"
    budget: float | None = None
    """Largest share of questions to look up."""

    def __str__(self) -> str:
        return self.target if self.budget is None else f"budget {self.budget:g}"


@dataclass(frozen=True, kw_only=True)
class CalibrationReport:
    """What was fitted, and what a person should see of it."""

    calibrated: Calibrated
    curve: Curve
    target: Target
    shipped: float
    """Threshold that holds without a calibration of the user's own."""
    scores: dict[str, Interval]
    """Target by strategy: never, always, dtr without a gate, dtr at the shipped threshold, and on held-out folds dtr at
    the chosen threshold and dtr+verify."""
    alpha: AlphaFit | None
    notes: tuple[str, ...]
    """What limits the fit, in sentences."""


def require_enough(count: int) -> None:
    """Refuse to fit on too few questions.

    Raises:
        ConfigError: saying how many are needed.
    """
    if count < MIN_QUESTIONS:
        raise ConfigError(
            f"{count} questions cannot calibrate a model: at least {MIN_QUESTIONS} are needed",
            "give more DATA or a larger --limit; a hundred or more give a narrow interval",
        )


def calibrate(
    run: RunData,
    *,
    aim: Aim,
    shipped: float,
    source: str,
    labelled: bool = True,
    encoder: str | None = None,
    alpha: bool = False,
    earlier: Calibrated | None = None,
    seed: int = 0,
) -> CalibrationReport:
    """Fit threshold, odds, verifier and, if asked, PAIRS' line.

    Args:
        shipped: threshold in use without a calibration of the user's own.
        source: where the questions come from, in words.
        labelled: whether people wrote the answers.
        encoder: name of the index's encoder; None means the one that the run names.
        earlier: calibration of the model so far; what is not fitted now is kept of it.

    Raises:
        ConfigError: too few questions, or `alpha` and too few gold chunks.
    """
    examples = examples_of(run)
    require_enough(len(examples))
    cell = run.manifest.cells[0]
    encoder = encoder or cell.encoder
    drafts = _drafts(examples, aim.target)
    threshold = fit_threshold(drafts, target=str(aim), shipped=shipped, budget=aim.budget, seed=seed)
    line = _fit_alpha(run, cell, seed) if alpha else None
    verifier = fit_verifier(examples, encoder=encoder, target=aim.target, seed=seed)
    measured_with = measured_with_of(cell)
    if measured_with is not None:
        verifier = msgspec.structs.replace(verifier, measured_with=measured_with)
    fitted = Calibrated(
        model=cell.model,
        model_fingerprint=cell.model_fingerprint,
        encoder=encoder,
        source=source,
        labelled=labelled,
        questions=len(examples),
        question_digests=tuple(question_digest(example.query) for example in examples),
        threshold=threshold,
        odds=fit_odds([e.uncertainty for e in examples], [e.draft_em > 0 for e in examples]),
        verifier=verifier,
        alpha_line=line.line if line is not None else None,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        adaptrag_version=__version__,
        measured_with=measured_with or msgspec.UNSET,
    )
    return CalibrationReport(
        calibrated=keeping(fitted, earlier),
        curve=threshold_curve(drafts),
        target=aim.target,
        shipped=shipped,
        scores=_scores(examples, drafts, threshold, aim, shipped, seed),
        alpha=line,
        notes=_notes(examples, labelled) + replaced_note(fitted, earlier),
    )


def calibrate_alpha(
    run: RunData,
    *,
    source: str,
    labelled: bool = True,
    encoder: str | None = None,
    earlier: Calibrated | None = None,
    seed: int = 0,
) -> tuple[Calibrated, AlphaFit]:
    """Fit PAIRS' line alone, from a run that asked `dtr:gate=false`; see `calibrate` for the arguments.

    Raises:
        ConfigError: too few gold chunks.
    """
    cell = run.manifest.cells[0]
    line = _fit_alpha(run, cell, seed)
    digests = {question_digest(r.query): None for r in run.results if r.cell == cell.name and r.strategy == BOTH}
    fitted = Calibrated(
        model=cell.model,
        model_fingerprint=cell.model_fingerprint,
        encoder=encoder or cell.encoder,
        source=source,
        labelled=labelled,
        questions=len(digests),
        question_digests=tuple(digests),
        alpha_line=line.line,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        adaptrag_version=__version__,
    )
    return keeping(fitted, earlier), line


def replaced_note(fitted: Calibrated, earlier: Calibrated | None) -> tuple[str, ...]:
    """Say that a calibration of other weights goes: one file is kept per name of a model."""
    if earlier is None or earlier.model_fingerprint == fitted.model_fingerprint:
        return ()
    return (f"the earlier calibration, of other weights called {earlier.model}, is replaced",)


def measured_with_of(cell: Cell) -> MeasuredWith | None:
    """The settings that answers from documents on both paths were made with; None where the run does not tell them."""
    values = {row.name: row.value for row in cell.settings.get(BOTH, ())}
    try:
        return msgspec.convert({name: values[name] for name in MeasuredWith.__struct_fields__}, MeasuredWith)
    except (KeyError, msgspec.ValidationError):
        return None


def _fit_alpha(run: RunData, cell: Cell, seed: int) -> AlphaFit:
    return fit_alpha([r for r in run.results if r.cell == cell.name and r.strategy == BOTH], seed=seed)


def _drafts(examples: Sequence[Example], target: Target) -> Drafts:
    return drafts_of(
        [example.uncertainty for example in examples],
        [_draft_score(example, target) for example in examples],
        [_documents_score(example, "both", target) for example in examples],
    )


def _draft_score(example: Example, target: Target) -> float:
    return example.draft_em if target == "em" else example.draft_f1


def _documents_score(example: Example, look_up: Literal["query", "both"], target: Target) -> float:
    documents = example.documents[look_up]
    return documents.em if target == "em" else documents.f1


def _scores(
    examples: Sequence[Example], drafts: Drafts, chosen: FittedThreshold, aim: Aim, shipped: float, seed: int
) -> dict[str, Interval]:
    target = aim.target
    at_shipped = drafts.scores_at(shipped).tolist()
    verified = [o.em if target == "em" else o.f1 for o in held_out_outcomes(examples, target=target, seed=seed)]
    values: dict[str, list[float]] = {
        "never": drafts.draft.tolist(),
        "always": [_documents_score(example, "query", target) for example in examples],
        "dtr, everything looked up": drafts.documents.tolist(),
        f"dtr at {shipped:g} (shipped)": at_shipped,
        "dtr+verify (held out)": verified,
    }
    scores = {name: interval for name, of in values.items() if (interval := mean_interval(of, seed=seed))}
    return scores | {CHOSEN: _held_out(chosen, len(examples))}


def _held_out(chosen: FittedThreshold, n: int) -> Interval:
    mean, low, high = chosen.held_out, chosen.held_out_low, chosen.held_out_high
    assert not (isinstance(mean, UnsetType) or isinstance(low, UnsetType) or isinstance(high, UnsetType))
    return Interval(mean=mean, low=low, high=high, n=n)


def _notes(examples: Sequence[Example], labelled: bool) -> tuple[str, ...]:
    notes: list[str] = []
    right = sum(example.draft_em > 0 for example in examples)
    best = max(sum(e.documents[p].em > 0 for e in examples) for p in ("query", "both"))
    if not labelled:
        notes.append(
            "the model wrote questions and answers itself, from chunks of the index: weaker evidence than questions "
            "that people asked, since such questions are easy to look up and rarely what you would ask"
        )
    if right == 0:
        notes.append("no draft was right, so this model should look everything up here: no uncertainty tells it apart")
    elif right == len(examples):
        notes.append("every draft was right, so nothing here has to be looked up: no uncertainty tells it apart")
    if best == 0:
        notes.append("no answer from documents was right: is this the index that holds the answers?")
    if all(example.uncertainty is None for example in examples):
        notes.append("no draft had an uncertainty: the model writes blank drafts")
    return tuple(notes)
