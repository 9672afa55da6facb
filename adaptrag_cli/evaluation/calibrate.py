"""From one finished run to everything that is fitted for an answer model.

The run asked `never`, `always` and `dtr:gate=false`: drafts and answers from documents, once each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from adaptrag_cli import __version__
from adaptrag_cli.calibration import Calibrated, question_digest
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.alpha import AlphaFit, fit_alpha
from adaptrag_cli.evaluation.results import RunData, StrategySpec
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
    """Threshold without the calibration."""
    scores: dict[str, Interval]
    """Held-out target by strategy: never, always, dtr without a gate, dtr at the shipped and at the chosen threshold,
    dtr+verify."""
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
    seed: int = 0,
) -> CalibrationReport:
    """Fit threshold, odds, verifier and, if asked, PAIRS' line.

    Args:
        shipped: threshold in use without a calibration.
        source: where the questions come from, in words.
        labelled: whether people wrote the answers.
        encoder: name of the index's encoder; None means the one that the run names.

    Raises:
        ConfigError: too few questions, or `alpha` and too few gold chunks.
    """
    examples = examples_of(run)
    require_enough(len(examples))
    cell = run.manifest.cells[0]
    encoder = encoder or cell.encoder
    drafts = _drafts(examples, aim.target)
    threshold = fit_threshold(drafts, target=str(aim), shipped=shipped, budget=aim.budget, seed=seed)
    line = (
        fit_alpha([r for r in run.results if r.cell == cell.name and r.strategy == BOTH], seed=seed) if alpha else None
    )
    return CalibrationReport(
        calibrated=Calibrated(
            model=cell.model,
            model_fingerprint=cell.model_fingerprint,
            encoder=encoder,
            source=source,
            labelled=labelled,
            questions=len(examples),
            question_digests=tuple(question_digest(example.query) for example in examples),
            threshold=threshold,
            odds=fit_odds([e.uncertainty for e in examples], [e.draft_em > 0 for e in examples]),
            verifier=fit_verifier(examples, encoder=encoder, target=aim.target, seed=seed),
            alpha_line=line.line if line is not None else None,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            adaptrag_version=__version__,
        ),
        curve=threshold_curve(drafts),
        target=aim.target,
        shipped=shipped,
        scores=_scores(examples, drafts, aim, shipped, seed),
        alpha=line,
        notes=_notes(examples, labelled),
    )


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


def _scores(examples: Sequence[Example], drafts: Drafts, aim: Aim, shipped: float, seed: int) -> dict[str, Interval]:
    target = aim.target
    at_shipped = drafts.scores_at(shipped).tolist()
    verified = [o.em if target == "em" else o.f1 for o in held_out_outcomes(examples, target=target, seed=seed)]
    values: dict[str, list[float]] = {
        "never": drafts.draft.tolist(),
        "always": [_documents_score(example, "query", target) for example in examples],
        "dtr, everything looked up": drafts.documents.tolist(),
        f"dtr at {shipped:g} (before)": at_shipped,
        "dtr+verify (held out)": verified,
    }
    return {name: interval for name, scores in values.items() if (interval := mean_interval(scores, seed=seed))}


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
