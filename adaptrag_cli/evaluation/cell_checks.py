"""What is refused or told of a cell before its first question: missing corpora, labels that tell, warnings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from adaptrag_cli.calibration import question_digest
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.calibrate import MIN_QUESTIONS
from adaptrag_cli.evaluation.questions import QuestionSet
from adaptrag_cli.models.files import ModelFile
from adaptrag_cli.session.indexes import OpenIndex
from adaptrag_cli.session.measured import encoder_warnings
from adaptrag_cli.session.plan import Plan
from adaptrag_cli.strategies.base import unused_flags
from adaptrag_cli.strategies.labels import labels_of_another_model, read_labels
from adaptrag_cli.strategies.routers import log_popularity

Plans = Mapping[str, Plan]
"""Resolved strategies by label."""
Indexes = Mapping[str, OpenIndex | None]
"""Open indexes by question set; None where a set has no corpus."""


def require_corpora(indexes: Indexes, plans: Plans) -> None:
    """Refuse strategies that look up over a set without passages.

    Raises:
        ConfigError: naming set and strategies.
    """
    needy = [label for label, plan in plans.items() if plan.strategy.needs_index]
    without = next((name for name, opened in indexes.items() if opened is None), None)
    if needy and without is not None:
        raise ConfigError(
            f"{without} has no corpus, and {', '.join(needy)} need one",
            "give --index NAME or --corpus FILE, or --strategies never",
        )


def require_other_labels(
    sets: Sequence[QuestionSet], plans: Plans, folder: Path | None, file: ModelFile, note: Callable[[str], None]
) -> None:
    """Refuse labels that come from the questions that are asked: a table would flatter what uses them.

    Raises:
        ConfigError: some questions are labelled, or the labels cannot be read.
    """
    users = [label for label, plan in plans.items() if "labels" in plan.strategy.uses]
    if not users or folder is None:
        return
    labels = read_labels(folder, model_fingerprint=file.fingerprint)
    if labels.model_fingerprint != file.fingerprint:
        note(f"warning: {labels_of_another_model(labels, file.name)}")
    is_routed = any(plan.strategy.name == "adaptive-rag" for plan in plans.values())
    if is_routed and not any(question.simplest for question in labels.questions):
        raise ConfigError(
            f"adaptive-rag cannot be asked: no question of --labels {folder} was asked never, always and ircot",
            "leave it out of --strategies, or label with: --strategies never,always,ircot",
        )
    is_gated = any(plan.strategy.name == "popularity" for plan in plans.values())
    known = sum(log_popularity(question.facts) is not None for question in labels.questions)
    if is_gated and known < MIN_QUESTIONS:
        note(
            f"warning: popularity sets its limits by {known} labelled questions with a known popularity: with fewer "
            f"than {MIN_QUESTIONS} they are mostly chance"
        )
    labelled = {question_digest(question.query) for question in labels.questions}
    asked = {question_digest(question.text) for question_set in sets for question in question_set.questions}
    if labelled & asked:
        raise ConfigError(
            f"{len(labelled & asked)} of the {len(asked)} questions stand in --labels {folder} too, and "
            f"{', '.join(users)} would be measured on what they were told",
            "label other questions: adaptrag eval OTHER --strategies never,always --out FOLDER",
        )


def require_untrained_questions(sets: Sequence[QuestionSet], plans: Plans) -> None:
    """Refuse to measure a prober on questions that it was trained on, or stopped or tried by.

    Raises:
        ConfigError: naming the strategy.
    """
    asked = {question_digest(question.text) for question_set in sets for question in question_set.questions}
    for label, plan in plans.items():
        known = plan.prober.info.report.get("question_digests", ()) if plan.prober is not None else ()
        if plan.prober is not None and (both := asked.intersection(known)):
            raise ConfigError(
                f"{len(both)} of the {len(asked)} questions were used to train prober {plan.prober.name!r}, and "
                f"{label} would be measured on what it was told",
                "ask others, or leave it out of --strategies",
            )


def tell_warnings(plans: Plans, indexes: Indexes, origins: Mapping[str, str], note: Callable[[str], None]) -> None:
    """Say once what every run of a strategy, or every question over an index, would be warned of."""
    encoders = sorted({opened.retriever.encoder.fingerprint.name for opened in indexes.values() if opened})
    told: dict[str, None] = {}
    for plan in plans.values():
        told.update(dict.fromkeys(w.message for w in plan.warnings if w.code != "option_unused"))
        told.update(dict.fromkeys(w.message for name in encoders for w in encoder_warnings(plan, name)))
    unused = [unused_flags(plan.strategy, origins) for plan in plans.values()]
    for flag in set(unused[0]).intersection(*unused[1:]):
        told[f"{flag} changes nothing with any of the strategies"] = None
    for opened in indexes.values():
        told.update(dict.fromkeys(w.message for w in opened.warnings) if opened else {})
    for message in told:
        note(f"warning: {message}")
