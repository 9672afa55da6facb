"""Let a model judge which of two answers is better: wins, draws and losses in both orders (ETC Fig. 2).

Differs from the paper: a local model judges, by the log-odds of its verdict instead of a sampled text, so that the same
run gives the same figures; and every pair is read in both orders, because small judges prefer a place. A verdict counts
when both orders agree on it or one of them calls a draw; contrary verdicts are a draw, and their share is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from adaptrag_cli import prompts
from adaptrag_cli.answers import normalise_answer
from adaptrag_cli.errors import ConfigError, UnknownName
from adaptrag_cli.evaluation.results import Result, RunData
from adaptrag_cli.evaluation.statistics import Interval, mean_interval
from adaptrag_cli.events import Record
from adaptrag_cli.models.base import LanguageModel

Verdict = Literal["win", "equal", "loss"]
_LABELS = ("1", "2", "0")
"""The first answer is better, the second is, neither."""


class PairVerdict(Record, frozen=True, kw_only=True):
    """One question, seen from the first strategy."""

    set: str
    question_id: str
    verdict: Verdict
    is_contrary: bool
    """The verdict turned round with the order."""
    identical: bool
    """Both answers are the same when normalised: a draw without asking."""


class PairwiseRow(Record, frozen=True, kw_only=True):
    """One question set. Shares are from 0 to 1."""

    set: str
    n: int
    win: Interval
    equal: Interval
    loss: Interval
    contrary: float
    identical: float


def pairs_to_judge(first: RunData, first_label: str, second: RunData, second_label: str) -> list[tuple[Result, Result]]:
    """The questions that both were asked, in the first run's order; ids may be line numbers, so texts must agree, too.

    Raises:
        ConfigError: a label is unknown, or no question is shared.
    """
    ours, theirs = _results(first, first_label), _results(second, second_label)
    shared = [
        (result, theirs[key]) for key, result in ours.items() if key in theirs and theirs[key].query == result.query
    ]
    if not shared:
        raise ConfigError("the two runs share no question", "judge strategies that were asked the same questions")
    return shared


def judge_pairs(
    pairs: Sequence[tuple[Result, Result]], judge: LanguageModel, *, should_stop: Callable[[], bool] = lambda: False
) -> Iterator[PairVerdict]:
    """Judge one pair after the other."""
    for ours, theirs in pairs:
        if should_stop():
            return
        yield _judge(ours, theirs, judge)


def summarise_verdicts(verdicts: Sequence[PairVerdict], *, seed: int = 0) -> tuple[PairwiseRow, ...]:
    """Rows by question set, and `all sets` last where there are several."""
    names = list(dict.fromkeys(verdict.set for verdict in verdicts))
    rows = [_row(name, [v for v in verdicts if v.set == name], seed) for name in names]
    if len(names) > 1:
        rows.append(_row("all sets", verdicts, seed))
    return tuple(rows)


def _results(run: RunData, label: str) -> dict[tuple[str, str, str], Result]:
    labels = [spec.label for spec in run.manifest.strategies]
    if label not in labels:
        raise UnknownName(f"strategy of {run.name}", label, labels)
    return {(r.cell, r.set, r.question_id): r for r in run.results if r.strategy == label}


def _judge(ours: Result, theirs: Result, judge: LanguageModel) -> PairVerdict:
    identical = normalise_answer(ours.prediction) == normalise_answer(theirs.prediction)
    if identical:
        verdict: Verdict = "equal"
        is_contrary = False
    else:
        forward = _verdict(ours, ours.prediction, theirs.prediction, judge)
        backward = -_verdict(ours, theirs.prediction, ours.prediction, judge)
        is_contrary = forward * backward < 0
        total = forward + backward
        verdict = "win" if total > 0 else "loss" if total < 0 else "equal"
    return PairVerdict(
        set=ours.set,
        question_id=ours.question_id,
        verdict=verdict,
        is_contrary=is_contrary,
        identical=identical,
    )


def _verdict(question: Result, first: str, second: str, judge: LanguageModel) -> int:
    """1 when the first answer is likelier called better, -1 when the second is, 0 for neither."""
    prompt = judge.build_prompt(prompts.better_answer(question.query, question.golds, first, second))
    first_better, second_better, neither = judge.label_logprobs(prompt, _LABELS).logprobs
    if neither >= max(first_better, second_better):
        return 0
    return 1 if first_better >= second_better else -1


def _row(name: str, verdicts: Sequence[PairVerdict], seed: int) -> PairwiseRow:
    def share(verdict: Verdict) -> Interval:
        interval = mean_interval([float(v.verdict == verdict) for v in verdicts], seed=seed)
        assert interval is not None, "a set has questions"
        return interval

    return PairwiseRow(
        set=name,
        n=len(verdicts),
        win=share("win"),
        equal=share("equal"),
        loss=share("loss"),
        contrary=sum(v.is_contrary for v in verdicts) / len(verdicts),
        identical=sum(v.identical for v in verdicts) / len(verdicts),
    )
