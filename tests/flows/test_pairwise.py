"""Which of two answers a judge prefers: both orders, draws, and pairs that must not be made."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from adaptrag_cli.errors import ConfigError, UnknownName
from adaptrag_cli.evaluation.pairwise import PairVerdict, judge_pairs, pairs_to_judge, summarise_verdicts
from adaptrag_cli.evaluation.results import Result, RunData, read_run
from fakes import ScriptedModel
from report_runs import write_run


@pytest.fixture
def run(tmp_path: Path) -> RunData:
    write_run(tmp_path / "run")
    return read_run(tmp_path / "run")


def answers(run: RunData, first: str, second: str) -> tuple[Result, Result]:
    result = msgspec.structs.replace(run.results[0], query="Who lit it?", golds=("Ann",))
    return msgspec.structs.replace(result, prediction=first), msgspec.structs.replace(result, prediction=second)


def judge(forward: tuple[float, float, float], backward: tuple[float, float, float]) -> ScriptedModel:
    """Log-probabilities of 1, 2 and 0 when Ann's answer comes first, and when it comes second."""
    labels = ("1", "2", "0")
    model = ScriptedModel().labels("Answer 1: Ann\nAnswer 2: Bob", dict(zip(labels, forward, strict=True)))
    return model.labels("Answer 1: Bob\nAnswer 2: Ann", dict(zip(labels, backward, strict=True)))


@pytest.mark.parametrize(
    ("forward", "backward", "verdict", "is_contrary"),
    [
        ((-0.1, -3, -4), (-3, -0.1, -4), "win", False),  # Ann is better wherever she stands
        ((-3, -0.1, -4), (-0.1, -3, -4), "loss", False),
        ((-0.1, -3, -4), (-0.1, -3, -4), "equal", True),  # the first place is better, whoever stands there
        ((-0.1, -3, -4), (-3, -4, -0.1), "win", False),  # one order calls a draw
        ((-3, -4, -0.1), (-3, -4, -0.1), "equal", False),
    ],
)
def test_a_verdict_needs_both_orders(run, forward, backward, verdict, is_contrary):
    (found,) = judge_pairs([answers(run, "Ann", "Bob")], judge(forward, backward))
    assert (found.verdict, found.is_contrary, found.identical) == (verdict, is_contrary, False)


def test_the_same_answer_is_a_draw_without_asking(run):
    (found,) = judge_pairs([answers(run, "The Ann!", "ann")], ScriptedModel())
    assert (found.verdict, found.identical) == ("equal", True)


def test_questions_of_the_same_id_but_another_text_are_no_pair(run):
    labels = [spec.label for spec in run.manifest.strategies]
    pairs = pairs_to_judge(run, labels[0], run, labels[1])
    assert pairs
    assert all(ours.query == theirs.query for ours, theirs in pairs)
    others = tuple(msgspec.structs.replace(r, query=f"Other: {r.query}") for r in run.results)
    with pytest.raises(ConfigError, match="share no question"):
        pairs_to_judge(run, labels[0], msgspec.structs.replace(run, results=others), labels[1])
    with pytest.raises(UnknownName):
        pairs_to_judge(run, "nobody", run, labels[1])


def test_shares_by_set_and_over_all():
    def verdict(name: str, verdict: str) -> PairVerdict:
        return PairVerdict(set=name, question_id="q", verdict=verdict, is_contrary=False, identical=False)

    rows = summarise_verdicts([verdict("a", "win"), verdict("a", "loss"), verdict("b", "win"), verdict("b", "equal")])
    assert [(row.set, row.n, row.win.mean, row.equal.mean, row.loss.mean) for row in rows] == [
        ("a", 2, 0.5, 0.0, 0.5),
        ("b", 2, 0.5, 0.5, 0.0),
        ("all sets", 4, 0.5, 0.25, 0.25),
    ]
