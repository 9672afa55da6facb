"""Every figure of six held-out texts of three questions, worked out by hand."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from adaptrag_cli.evaluation.probing.assess import Assessment, assess, held_out_accuracy
from adaptrag_cli.evaluation.probing.measures import auroc_by_question, compared, mean_by_question
from adaptrag_cli.evaluation.probing.memory import forget_peak_memory, peak_memory
from adaptrag_cli.evaluation.probing.outcome import (
    Costs,
    CurvePoint,
    HeldOut,
    LayerTraining,
    Outcome,
    PartSize,
    SetShare,
)
from adaptrag_cli.evaluation.statistics import RESAMPLES, paired_test, resampled
from adaptrag_cli.probing.training import RECIPES
from adaptrag_cli.report.probe_figures import probe_figures
from adaptrag_cli.report.probe_tables import sections
from probers import prober

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
        HeldOut(set="s", question=question, retrieved=way, right=right, balanced=True, uncertainty=u, logits=logits)
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


def test_a_question_that_two_sets_ask_is_paired_within_each():
    texts = outcome_of_six().texts
    other = tuple(msgspec.structs.replace(text, set="t", right=not text.right) for text in texts[:2])
    found = assess(outcome_of_six(texts=(*texts, *other), curve=()))
    # always: a and b of three, and nothing of the fourth; were it paired across sets, never would change with it
    assert (found.answers["always look up"].n, round(4 * found.answers["always look up"].mean)) == (4, 2)
    assert round(4 * found.answers["never look up"].mean) == 1


# --- what is shown of it


def test_the_tables_show_these_numbers(found: Assessment):
    outcome = outcome_of_six(
        sets=(
            SetShare(
                name="s", questions=3, index="i", written=3, right=1, written_with_passages=2, right_with_passages=2
            ),
        ),
        failed=1,
        failure="the question is too long",
    )
    parts = {part.title: part for part in sections(prober(), outcome, found, 3 << 20)}
    facts = dict(parts["What it is"].table.rows)
    assert facts["layers"] == "8, 10 of 4" and facts["size"].endswith("3.0 MiB")
    trained = parts["What it was trained on"]
    assert trained.table.rows[0] == ("s", 3, "33.3", "100.0")
    assert trained.notes == ("1 text could not be written; the first: the question is too long.",)
    told = {row[0]: row[1:] for row in parts["How well it tells right texts from wrong ones"].table.rows}
    assert told["layer 8"][0].startswith("66.7 ") and told["layer 10"][0].startswith("16.7 ")
    assert told["all layers"][1].startswith("0.556 ") and told["uncertainty u"][1].startswith("0.778 ")
    assert told["majority"][1] == "" and told["all layers"][2] != "" == told["majority"][2]
    answers = {name: share.split()[0] for name, share in parts["What the answers come to"].table.rows}
    assert answers["the prober"] == "66.7" and answers["uncertainty u"] == "33.3"


def test_the_figures_draw_these_numbers(found: Assessment):
    drawn = {figure.name: figure for figure in probe_figures(outcome_of_six(), found)}
    by_layer = drawn["accuracy-by-layer"].series[0]
    assert (by_layer.x, by_layer.y) == ((8.0, 10.0), (pytest.approx(4 / 6), pytest.approx(1 / 6)))
    right, wrong = drawn["logits-of-two-layers"].series
    # layer 8 across and 10 up, retrieve less stop
    assert list(zip(right.x, right.y, strict=True)) == [(-1.0, -1.0), (-1.0, 1.0), (1.0, 1.0)]
    assert list(zip(wrong.x, wrong.y, strict=True)) == [(2.0, -1.0), (-1.0, -2.0), (3.0, 0.0)]
    thetas = {row[0]: row[1:] for row in drawn["theta-sweep"].data.rows}
    assert [cell.split()[0] for cell in thetas["0"]] == ["66.7", "33.3", "66.7"]
    assert [cell.split()[0] for cell in thetas["-2"]] == ["66.7", "0.0", "33.3"]
    curve = drawn["learning-curve"].data.rows
    assert [(row[0], row[1].split()[0], row[3].split()[0]) for row in curve] == [
        (4, "50.0", "66.7"),
        (6, "66.7", "66.7"),
    ]
    assert [row[0] for row in drawn["number-of-layers"].data.rows] == ["8", "8, 10"]
    together = drawn["prober-and-answers"].series
    at = together[0].words.index("theta -2")
    assert (together[0].x[at], together[0].y[at]) == (pytest.approx(4 / 6), pytest.approx(1 / 3))
    densities = [(series.panel, series.name) for series in drawn["logit-density"].series]
    assert densities == [(f"layer {n}", kind) for n in (8, 10) for kind in ("right: stop", "wrong: retrieve")]


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
