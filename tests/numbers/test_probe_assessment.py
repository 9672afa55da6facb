"""Every figure of six held-out texts of three questions, worked out by hand."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from adaptrag_cli.evaluation.probing.assess import Assessment, assess, held_out_accuracy
from adaptrag_cli.evaluation.probing.measures import auroc_by_question, compared, mean_by_question
from adaptrag_cli.evaluation.probing.memory import forget_peak_memory, peak_memory
from adaptrag_cli.evaluation.probing.outcome import Costs, CurvePoint, HeldOut, LayerTraining, Outcome, PartSize
from adaptrag_cli.evaluation.statistics import RESAMPLES, paired_test, resampled
from adaptrag_cli.probing.training import RECIPES

TEXTS = (
    #  passages, right, u, (retrieve, stop) of layers 8 and 10           sums      said
    ("a", False, True, 0.2, ((0.0, 1.0), (0.0, 1.0))),  #               0 2      stop
    ("a", True, True, 0.1, ((0.0, 1.0), (1.0, 0.0))),  #                1 1      stop, a tie
    ("b", False, False, 0.3, ((2.0, 0.0), (0.0, 1.0))),  #              2 1      retrieve
    ("b", True, True, 0.6, ((1.0, 0.0), (1.0, 0.0))),  #                2 0      retrieve, and it is right
    ("c", False, False, 0.9, ((0.0, 1.0), (0.0, 2.0))),  #              0 3      stop, and it is wrong
    ("c", True, False, 0.4, ((3.0, 0.0), (0.0, 0.0))),  #               3 0      retrieve
)


def outcome_of_six(**facts: object) -> Outcome:
    texts = tuple(
        HeldOut(question=question, retrieved=way, right=right, balanced=True, uncertainty=u, logits=logits)
        for question, way, right, u, logits in TEXTS
    )
    part = PartSize(rows=6, questions=3)
    made = Outcome(
        created="",
        adaptrag_version="1",
        source="made",
        labelled=True,
        question_digests=(),
        settings={},
        sets=(),
        without_states=0,
        not_finite=0,
        train=part,
        stop=part,
        held_out=part,
        recipe=RECIPES["small"],
        layers=tuple(LayerTraining(layer=y, best_epoch=1, epochs=1, accuracy=0.5, seconds=1.0) for y in (8, 10)),
        threshold=0.35,
        passages_stop=(False, True),
        curve=(
            CurvePoint(rows=4, logits=tuple((1.0, 0.0) for _ in texts)),
            CurvePoint(rows=6, logits=tuple((r1 + r2, s1 + s2) for *_, ((r1, s1), (r2, s2)) in TEXTS)),
        ),
        texts=texts,
        costs=Costs(generation_seconds=1, generation_peak_memory=1, training_seconds=1, training_peak_memory=1),
    )
    return msgspec.structs.replace(made, **facts)


@pytest.fixture(scope="module")
def found() -> Assessment:
    return assess(outcome_of_six())


def test_accuracies_are_those_of_the_table(found: Assessment):
    # u up to .35 stops a, a, b: right, right, wrong; with passages: stops a, b, c of the second texts
    assert {
        quality.name: quality.accuracy.mean * 6 for quality in (*found.layers, found.together, *found.baselines)
    } == {
        "8": pytest.approx(4),
        "10": pytest.approx(1),
        "all layers": pytest.approx(4),
        "majority": pytest.approx(3),
        "has passages": pytest.approx(4),
        "uncertainty u": pytest.approx(4),
    }
    assert held_out_accuracy(outcome_of_six()) == pytest.approx(4 / 6)


def test_aurocs_count_the_pairs_in_order(found: Assessment):
    # nine pairs of a right and a wrong text. Stop less retrieve: right 2, 0, -2; wrong -1, 3, -3: 2 + 2 + 1 in order
    assert found.together.auroc.mean == pytest.approx(5 / 9)
    by_name = {quality.name: quality for quality in found.baselines}
    # less u: right -.2, -.1, -.6; wrong -.3, -.9, -.4: 3 + 3 + 1
    assert by_name["uncertainty u"].auroc.mean == pytest.approx(7 / 9)
    # with passages 1: right 0, 1, 1; wrong 0, 0, 1: (.5 + .5 + 0) + 2.5 + 2.5
    assert by_name["has passages"].auroc.mean == pytest.approx(6 / 9)
    assert by_name["majority"].auroc is None


def test_differences_are_counted_by_question(found: Assessment):
    told = {
        name: (round(6 * paired.difference), paired.wins, paired.losses, paired.ties)
        for name, paired in found.comparisons.items()
    }
    # texts told right of a, b, c: all layers 2 1 1; majority 2 1 0; has passages 1 2 1; uncertainty 2 0 2
    assert told == {"majority": (1, 1, 0, 2), "has passages": (0, 1, 1, 1), "uncertainty u": (0, 1, 1, 1)}
    assert {paired.comparisons for paired in found.comparisons.values()} == {3}


def test_answers_are_those_of_what_was_decided(found: Assessment):
    # right without: a; right with: a and b. By u (.35) a and b stop; the probers let a and c stop
    shares = {name: round(3 * interval.mean) for name, interval in found.answers.items()}
    assert shares == {
        "never look up": 1,
        "always look up": 2,
        "uncertainty u": 1,
        "the prober": 2,
        "the better text": 2,
    }


def test_a_greater_theta_looks_up_more(found: Assessment):
    by_theta = {point.theta: point for point in found.thetas}
    # S1 - S0 of all texts: 2, 0, -1, -2, 3, -3; of those without passages 2, -1, 3
    told = {
        theta: (round(6 * p.accuracy.mean), round(3 * p.looked_up), round(3 * p.answers.mean))
        for theta, p in by_theta.items()
    }
    assert told[-2.0] == (4, 0, 1)  # only -3 retrieves: a, a, b right; c's second, too
    assert told[0.0] == (4, 1, 2)
    assert told[1.0] == (3, 1, 2)  # the tie of a's second text retrieves now
    assert told[4.0] == (3, 3, 2)


def test_the_curve_and_the_layers_are_measured_as_all_is(found: Assessment):
    less, whole = found.curve
    assert (less.rows, round(6 * less.quality.accuracy.mean), round(3 * less.answers.mean)) == (4, 3, 2)  # all retrieve
    assert (whole.rows, whole.quality, whole.answers) == (6, found.together, found.answers["the prober"])
    assert [point.layers for point in found.by_layers] == [(8,), (8, 10)]
    # layer 8 alone: a and c stop, as with both
    assert [(round(6 * p.accuracy.mean), round(3 * p.answers.mean)) for p in found.by_layers] == [(4, 2), (4, 2)]


def test_a_question_of_which_one_text_is_left_gives_no_answer():
    found = assess(outcome_of_six(texts=outcome_of_six().texts[:5], curve=()))
    assert found.answers["always look up"].n == 2


# --- texts of one question belong together


def test_a_resample_takes_whole_questions():
    weights = resampled(["a", "b", "a", "c"], seed=3)
    assert weights.shape == (RESAMPLES, 4)
    assert (weights[:, 0] == weights[:, 2]).all()
    assert (weights[:, [0, 1, 3]].sum(axis=1) == 3).all()
    assert weights[:, 1].mean() == pytest.approx(1, abs=0.05)


def test_every_text_twice_tells_no_more_than_once():
    generator = np.random.default_rng(5)
    right, scores = generator.random(40) < 0.5, generator.standard_normal(40)
    names = [f"q{number:02}" for number in range(40)]
    twice = [*names, *names]
    one = mean_by_question(right.astype(float), names)
    two = mean_by_question(np.tile(right, 2).astype(float), twice)
    assert (two.mean, two.n) == (one.mean, 80)
    assert two.high - two.low == pytest.approx(one.high - one.low, rel=0.15)
    alone = auroc_by_question(right, scores, names)
    doubled = auroc_by_question(np.tile(right, 2), np.tile(scores, 2), twice)
    assert doubled.mean == pytest.approx(alone.mean)
    assert doubled.high - doubled.low == pytest.approx(alone.high - alone.low, rel=0.15)
    other = generator.random(40) < 0.5
    once, again = compared(right, other, names), compared(np.tile(right, 2), np.tile(other, 2), twice)
    assert once == paired_test(right.astype(float).tolist(), other.astype(float).tolist())
    assert (again.difference, again.wins, again.losses) == (once.difference, once.wins, once.losses)
    assert again.p_value == pytest.approx(once.p_value, abs=0.05)
    assert again.high - again.low == pytest.approx(once.high - once.low, rel=0.15)


def test_equal_values_are_worth_one_text_a_question():
    found = mean_by_question(np.ones(6), list("aabbcc"))
    # Wilson, 3 of 3: 3 / (3 + 3.8415)
    assert (found.low, found.high, found.n) == (pytest.approx(0.4385, abs=1e-4), 1.0, 6)


# --- memory


def test_what_was_freed_is_forgotten_where_the_system_can():
    block = np.ones(40_000_000)
    held = peak_memory()
    assert held >= block.nbytes or held == 0
    del block
    if forget_peak_memory():
        assert peak_memory() < held - 200_000_000
    else:
        assert peak_memory() == held
