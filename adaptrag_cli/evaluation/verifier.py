"""Fit what dtr+verify weighs with, and tell from finished runs what it would have answered.

A run that asked `never`, `always` and `dtr:gate=false` holds everything: the draft, the answers from one path and from
two, and every chunk. So a verifier is fitted, and tried on sets it has not seen, without generating anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.calibration import FittedVerifier, Logistic
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.results import Result, RunData
from adaptrag_cli.events import AnswerSource, ChunksSelected, Event, EvidenceJudged
from adaptrag_cli.strategies.weighing import (
    AFTER,
    AFTER_BOTH,
    BEFORE,
    DRAFT,
    Seen,
    after_features,
    before_features,
    is_worth_looking_up,
    likelier,
)
from adaptrag_cli.trace import read_trace

NEVER, ALWAYS, BOTH = "never", "always", "dtr:gate=false"
"""The strategies that a calibration run asks, by label."""
FOLDS = 5
REPEATS = 2
STRENGTH = 1.0
"""Inverse strength of the L2 penalty on standardised features."""
MIN_OF_EACH = 5
"""Right and wrong answers that a logistic model needs; with fewer it gives one chance to all."""
MARGINS = (0.1, 0.2, 0.3, 0.5, 1.0)
"""What may be chosen. None is smaller than .1: such chances are not known better. 1 never skips, and never keeps a
draft: with both, the strategy is `always` or `dtr:gate=false`."""
_MARGINS = tuple((skip, keep) for skip in MARGINS for keep in MARGINS)
_SETS_AS_PARTS = 3
LookUp = Literal["query", "both"]
Target = Literal["em", "f1"]


@dataclass(frozen=True, kw_only=True)
class Documents:
    """What looking up on one or two paths gave for a question."""

    answer: str
    """Empty where documents gave none."""
    em: float
    f1: float
    features: Mapping[str, float]
    """Everything known afterwards."""
    llm_calls: int
    searches: int


@dataclass(frozen=True, kw_only=True)
class Example:
    """One question with its draft and the answers from documents."""

    set: str
    question_id: str
    query: str
    uncertainty: float | None
    draft: str
    draft_em: float
    draft_f1: float
    before: Mapping[str, float]
    """What draft and peek tell."""
    documents: Mapping[LookUp, Documents]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What dtr+verify would have done with a question."""

    set: str
    question_id: str
    retrieved: bool
    source: AnswerSource
    prediction: str
    em: float
    f1: float
    draft_chance: float
    documents_chance: float
    llm_calls: int
    searches: int


def examples_of(run: RunData, *, cell: str | None = None) -> tuple[Example, ...]:
    """The questions that a run asked all three strategies.

    Raises:
        ConfigError: there is none, or a trace is missing.
    """
    name = cell or run.manifest.cells[0].name
    examples: list[Example] = []
    for info in run.manifest.sets:
        table = run.by_strategy(cell=name, set=info.name)
        never, always, both = (table.get(label, {}) for label in (NEVER, ALWAYS, BOTH))
        examples += [
            _example(run, never[i], always[i], both[i])
            for i in info.questions
            if i in never and i in always and i in both
        ]
    if not examples:
        raise ConfigError(
            f"{run.name}: no question was asked {NEVER}, {ALWAYS} and {BOTH}",
            f"make a run with: adaptrag eval DATA --strategies {NEVER},{ALWAYS},{BOTH}",
        )
    return tuple(examples)


def fit_verifier(examples: Sequence[Example], *, encoder: str, target: Target = "em", seed: int = 0) -> FittedVerifier:
    """Fit the four chances, and choose paths and margins by what they give on held-out folds.

    Two paths are taken only where they serve the target better by more than one standard error of the difference:
    one path is cheaper.
    """
    look_up = _choose_look_up(examples, target)
    skip_margin, keep_margin = _choose_margins(examples, look_up, target, seed)
    fitted = _fit(examples, encoder, look_up)
    return msgspec.structs.replace(fitted, skip_margin=skip_margin, keep_margin=keep_margin)


def held_out_outcomes(examples: Sequence[Example], *, target: Target = "em", seed: int = 0) -> tuple[Outcome, ...]:
    """What dtr+verify would answer to each question when it is fitted on the other folds, margins included."""
    outcomes: dict[int, Outcome] = {}
    for fold in np.array_split(np.random.default_rng(seed).permutation(len(examples)), FOLDS):
        held_out = set(fold.tolist())
        rest = [example for i, example in enumerate(examples) if i not in held_out]
        verifier = fit_verifier(rest, encoder="", target=target, seed=seed)
        outcomes |= {i: _verified(examples[i], verifier, 0.0) for i in held_out}
    return tuple(outcomes[i] for i in range(len(examples)))


def verify_outcomes(
    run: RunData | Sequence[Example], verifier: FittedVerifier, floor: float = 0.0
) -> tuple[Outcome, ...]:
    """What dtr+verify would answer to the questions of a run, from the answers that are there."""
    examples = examples_of(run) if isinstance(run, RunData) else run
    return tuple(_verified(example, verifier, floor) for example in examples)


def fit_logistic(rows: Sequence[Mapping[str, float]], right: Sequence[bool], features: Sequence[str]) -> Logistic:
    """Fit a logistic model with an L2 penalty on standardised features.

    A feature without spread gets no weight. With too few of either kind the one chance is (right + 1/2) / (n + 1).
    """
    table = [[row.get(name, np.nan) for name in features] for row in rows]
    values = _with_means(np.asarray(table, dtype=np.float64).reshape(len(rows), len(features)))
    labels = np.asarray(right, dtype=bool)
    count = int(labels.sum())
    if min(count, len(labels) - count) < MIN_OF_EACH:
        return _constant(count, len(labels))
    spreads = values.std(axis=0)
    used = np.flatnonzero(spreads > 1e-9).tolist()
    if not used:
        return _constant(count, len(labels))
    means, scales = values[:, used].mean(axis=0), spreads[used]
    weights, intercept = _penalised((values[:, used] - means) / scales, labels)
    return Logistic(
        features=tuple(features[i] for i in used),
        weights=tuple(weights.tolist()),
        means=tuple(means.tolist()),
        scales=tuple(scales.tolist()),
        intercept=intercept,
    )


def _constant(right: int, total: int) -> Logistic:
    chance = (right + 0.5) / (total + 1)
    return Logistic(features=(), weights=(), means=(), scales=(), intercept=float(np.log(chance / (1 - chance))))


def _with_means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is missing counts as the mean of what is there, as `Logistic.chance` counts it; 0 where nothing is."""
    missing = np.isnan(values)
    counts = np.maximum((~missing).sum(axis=0), 1)
    means = np.where(missing, 0.0, values).sum(axis=0) / counts
    return np.where(missing, means, values)


def _penalised(standardised: NDArray[np.float64], labels: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=STRENGTH, solver="newton-cholesky").fit(standardised, labels)
    return model.coef_[0], float(model.intercept_[0])


def _fit(examples: Sequence[Example], encoder: str, look_up: LookUp) -> FittedVerifier:
    """The four models, with margins that never skip and never keep."""
    before = [example.before for example in examples]
    after = [example.documents[look_up].features for example in examples]
    draft_right = [example.draft_em > 0 for example in examples]
    documents_right = [example.documents[look_up].em > 0 for example in examples]
    features = AFTER_BOTH if look_up == "both" else AFTER
    return FittedVerifier(
        encoder=encoder,
        look_up=look_up,
        skip_margin=1.0,
        keep_margin=1.0,
        draft=fit_logistic(before, draft_right, DRAFT),
        before=fit_logistic(before, documents_right, BEFORE),
        after=fit_logistic(after, documents_right, features),
        draft_after=fit_logistic(after, draft_right, features),
    )


def _choose_look_up(examples: Sequence[Example], target: Target) -> LookUp:
    gains = np.asarray([getattr(e.documents["both"], target) - getattr(e.documents["query"], target) for e in examples])
    error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.inf
    return "both" if gains.mean() > error else "query"


def _choose_margins(examples: Sequence[Example], look_up: LookUp, target: Target, seed: int) -> tuple[float, float]:
    """The skip and keep margin that score best on held-out parts; of equally good ones those that look up least.

    Equally good is within half a question. Parts are whole sets where there are three or more, since a calibration is
    used on questions of another kind than its own; else random folds.
    """
    outcomes: list[list[Outcome]] = [[] for _ in _MARGINS]
    for part in _parts(examples, seed):
        held_out = set(part)
        fitted = _fit([e for i, e in enumerate(examples) if i not in held_out], "", look_up)
        for i in part:
            chances = _chances(examples[i], fitted)
            for column, (skip_margin, keep_margin) in zip(outcomes, _MARGINS, strict=True):
                column.append(_outcome(examples[i], chances, look_up, skip_margin, keep_margin, 0.0))
    scores = [sum(o.em if target == "em" else o.f1 for o in column) / len(column) for column in outcomes]
    looked_up = [sum(o.retrieved for o in column) for column in outcomes]
    good = [row for row, score in enumerate(scores) if score >= max(scores) - 0.5 / len(examples)]
    return _MARGINS[min(good, key=lambda row: (looked_up[row], -_MARGINS[row][1]))]


def _parts(examples: Sequence[Example], seed: int) -> list[list[int]]:
    names = sorted({example.set for example in examples})
    if len(names) >= _SETS_AS_PARTS:
        return [[i for i, e in enumerate(examples) if e.set == name] for name in names]
    generator = np.random.default_rng(seed)
    return [
        fold.tolist() for _ in range(REPEATS) for fold in np.array_split(generator.permutation(len(examples)), FOLDS)
    ]


@dataclass(frozen=True, kw_only=True)
class _Chances:
    """All four chances of a question."""

    draft: float
    before: float
    after: float | None
    draft_after: float


def _chances(example: Example, verifier: FittedVerifier) -> _Chances:
    documents = example.documents[verifier.look_up]
    return _Chances(
        draft=verifier.draft.chance(example.before),
        before=verifier.before.chance(example.before),
        after=verifier.after.chance(documents.features) if documents.answer else None,
        draft_after=verifier.draft_after.chance(documents.features),
    )


def _outcome(
    example: Example, chances: _Chances, look_up: LookUp, skip_margin: float, keep_margin: float, floor: float
) -> Outcome:
    documents = example.documents[look_up]
    retrieved = is_worth_looking_up(chances.draft, chances.before, margin=skip_margin, floor=floor)
    source: AnswerSource = "draft"
    if retrieved:
        source = likelier(chances.draft_after, chances.after, margin=keep_margin, floor=floor)
    answers: dict[AnswerSource, tuple[str, float, float]] = {
        "draft": (example.draft, example.draft_em, example.draft_f1),
        "documents": (documents.answer, documents.em, documents.f1),
        "none": ("", 0.0, 0.0),
    }
    prediction, em, f1 = answers[source]
    peek = 0 if look_up == "query" else 1  # with one path the peek is the search
    return Outcome(
        set=example.set,
        question_id=example.question_id,
        retrieved=retrieved,
        source=source,
        prediction=prediction,
        em=em,
        f1=f1,
        draft_chance=chances.draft_after if retrieved else chances.draft,
        documents_chance=(chances.after or 0.0) if retrieved else chances.before,
        llm_calls=1 + (documents.llm_calls if retrieved else 0),
        searches=documents.searches + peek if retrieved else 1,
    )


def _verified(example: Example, verifier: FittedVerifier, floor: float) -> Outcome:
    margins = (verifier.skip_margin, verifier.keep_margin)
    return _outcome(example, _chances(example, verifier), verifier.look_up, *margins, floor)


def _example(run: RunData, never: Result, always: Result, both: Result) -> Example:
    draft = (never.draft or "").strip()
    query_events, both_events = (list(read_trace(Path(run.folder) / r.trace)) for r in (always, both))
    peeked = _kept(query_events)

    def documents(result: Result, events: Sequence[Event]) -> Documents:
        answered = result.source == "documents"
        judged = [event for event in events if isinstance(event, EvidenceJudged)]
        return Documents(
            answer=result.prediction if answered else "",
            em=result.em if answered else 0.0,
            f1=result.f1 if answered else 0.0,
            features=after_features(
                never.query,
                draft,
                never.uncertainty,
                peeked,
                answer=result.prediction if answered else "",
                answer_uncertainty=judged[-1].answer_uncertainty if judged else None,
                kept=_kept(events),
            ),
            llm_calls=result.llm_calls,
            searches=result.searches,
        )

    return Example(
        set=never.set,
        question_id=never.question_id,
        query=never.query,
        uncertainty=never.uncertainty,
        draft=draft,
        draft_em=never.em,
        draft_f1=never.f1,
        before=before_features(never.query, draft, never.uncertainty, peeked),
        documents={"query": documents(always, query_events), "both": documents(both, both_events)},
    )


def _kept(events: Sequence[Event]) -> list[Seen]:
    selected = [event for event in events if isinstance(event, ChunksSelected)]
    return [Seen.of(c) for c in selected[-1].candidates if c.kept] if selected else []
