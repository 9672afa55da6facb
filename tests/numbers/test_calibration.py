"""Thresholds, odds, PAIRS' line and the calibration file, on numbers that can be followed with a pencil."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from adaptrag_cli.calibration import (
    Calibrated,
    FittedThreshold,
    Logistic,
    calibration_path,
    overlap,
    question_digest,
    read_calibration,
    write_calibration,
)
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.alpha import DualSearch, best_weights, fit_line, recall_of
from adaptrag_cli.evaluation.thresholds import (
    best_threshold,
    drafts_of,
    fit_odds,
    fit_threshold,
    threshold_curve,
)
from adaptrag_cli.events import DraftOdds
from adaptrag_cli.selection import ALPHA_LINE

# Six questions:    u    .1   .2   .2   .4   .8  none
#               draft     1    1    0    0    1    1
#           documents     1    0    1    1    0    0
SIX = drafts_of([0.4, 0.1, 0.2, None, 0.2, 0.8], [0, 1, 1, 1, 0, 1], [1, 1, 0, 0, 1, 0])


def test_the_whole_curve_from_one_pass():
    curve = threshold_curve(SIX)
    assert curve.thresholds.tolist() == [0.0, 0.1, 0.2, 0.4, 0.8]
    # t = 0: all documents 1+0+1+1+0+0 = 3.  .1: the same.  .2: 1 + (1+0) + 1+0+0 = 3.  .4: 1+1+0 + 0 + 0+0 = 2.
    # .8: 1+1+0+0+1 + documents of the undefined one (0) = 3.
    assert curve.scores.tolist() == pytest.approx([3 / 6, 3 / 6, 3 / 6, 2 / 6, 3 / 6])
    # Looked up: all, all but one, three, two, and always the undefined one.
    assert curve.trigger_ratios.tolist() == pytest.approx([6 / 6, 5 / 6, 3 / 6, 2 / 6, 1 / 6])


def test_the_curve_is_what_asking_again_at_each_threshold_would_give():
    generator = np.random.default_rng(1)
    drafts = drafts_of(generator.integers(0, 9, 50) / 10, generator.random(50), generator.random(50))
    curve = threshold_curve(drafts)
    for threshold, score, ratio in zip(curve.thresholds, curve.scores, curve.trigger_ratios, strict=True):
        assert score == pytest.approx(drafts.scores_at(threshold).mean())
        assert ratio == pytest.approx((drafts.uncertainty > threshold).mean())


def test_of_equal_thresholds_the_middle_one():
    assert best_threshold(SIX) == pytest.approx(0.15)  # 3/6 at 0, .1, .2 and .8: of these .1, halfway to .2


def test_a_threshold_stands_halfway_to_the_next_uncertainty():
    # Skipping .1 and .2 is right, skipping .6 is wrong: (.2 + .6) / 2.
    assert best_threshold(drafts_of([0.1, 0.2, 0.6], [1, 1, 0], [0, 0, 1])) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("draft", "documents", "threshold"),
    [([0, 0, 0], [1, 1, 1], 0.0), ([1, 1, 1], [0, 0, 0], 0.6)],
    ids=["documents always better", "memory always better"],
)
def test_the_ends_look_up_all_or_nothing(draft, documents, threshold):
    assert best_threshold(drafts_of([0.1, 0.2, 0.6], draft, documents)) == threshold


def test_a_budget_bounds_what_is_looked_up():
    drafts = drafts_of([0.1, 0.2, 0.3, 0.4], [0, 0, 0, 0], [1, 1, 1, 1])
    assert best_threshold(drafts) == 0.0
    # Half may be looked up: t >= .2, and of these t = .2 keeps most of the score; up to .3 nothing changes.
    assert best_threshold(drafts, 0.5) == pytest.approx(0.25)
    assert best_threshold(drafts, 0.0) == 0.4
    assert best_threshold(SIX, 0.0) == 0.8  # the undefined one is looked up whatever the budget


@pytest.mark.parametrize("budget", [0.0, 0.25, 0.5, 1.0])
def test_a_fitted_threshold_keeps_within_the_budget(budget):
    generator = np.random.default_rng(2)
    drafts = drafts_of(generator.random(60), np.zeros(60), np.ones(60))
    fitted = fit_threshold(drafts, target=f"budget {budget:g}", shipped=0.5, budget=budget)
    assert (drafts.uncertainty > fitted.threshold).mean() <= budget
    assert fitted.low <= fitted.threshold <= fitted.high


def test_a_clear_step_is_found_and_its_gain_is_measured_on_what_was_held_out():
    # Drafts are right up to .5 and documents beyond: the best threshold gives 1.0, the shipped one (0) 20 of 40.
    u = [i / 40 for i in range(1, 41)]
    drafts = drafts_of(u, [float(x <= 0.5) for x in u], [float(x > 0.5) for x in u])
    fitted = fit_threshold(drafts, target="em", shipped=0.0)
    assert 0.5 <= fitted.threshold < 0.525
    assert 0.4 < fitted.low <= fitted.high < 0.6
    # A fold may hold out the questions beside the step; no more than one of 40 is then wrong.
    assert 19 / 40 <= fitted.gain <= 20 / 40
    assert fitted.gain_low <= fitted.gain <= fitted.gain_high


def test_the_choice_is_the_same_for_the_same_seed():
    generator = np.random.default_rng(3)
    drafts = drafts_of(generator.random(50), generator.integers(0, 2, 50), generator.integers(0, 2, 50))
    first, again, other = (fit_threshold(drafts, target="em", shipped=0.3, seed=seed) for seed in (4, 4, 5))
    assert first == again
    assert first != other


def test_where_both_are_always_equal_nothing_is_gained():
    fitted = fit_threshold(drafts_of([0.1, 0.2, 0.3], [1, 0, 1], [1, 0, 1]), target="em", shipped=0.2)
    assert (fitted.gain, fitted.gain_low, fitted.gain_high) == (0.0, 0.0, 0.0)


def test_odds_are_pooled_until_they_never_rise():
    # u .1 .2 .3 ... with five drafts each. Right: 5, 3, 4, 0. Violators .2 and .3 are pooled: 7 of 10.
    u = [x for x in (0.1, 0.2, 0.3, 0.4) for _ in range(5)]
    right = [i < count for count in (5, 3, 4, 0) for i in range(5)]
    assert fit_odds(u, right) == (
        DraftOdds(above=0.0, up_to=pytest.approx(0.15), right=5, drafts=5),
        DraftOdds(above=pytest.approx(0.15), up_to=pytest.approx(0.35), right=7, drafts=10),
        DraftOdds(above=pytest.approx(0.35), up_to=None, right=0, drafts=5),
    )


def test_small_bands_join_their_neighbour():
    # Pooling alone gives .1 (1 of 1), .2 to .7 (3 of 6), .8 (0 of 1): the first takes the second in, the last joins.
    u = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    right = [True, False, True, False, True, False, True, False]
    assert fit_odds(u, right) == (DraftOdds(above=0.0, up_to=None, right=4, drafts=8),)


@pytest.mark.parametrize("right", [True, False])
def test_a_constant_outcome_is_one_band(right):
    bands = fit_odds([0.1, 0.2, 0.3, None], [right] * 4)
    assert bands == (DraftOdds(above=0.0, up_to=None, right=3 * right, drafts=3),)


def test_drafts_without_uncertainty_make_no_bands():
    assert fit_odds([None, None], [True, False]) == ()


def test_bands_never_rise_and_leave_no_gap():
    generator = np.random.default_rng(5)
    u = generator.random(200).tolist()
    bands = fit_odds(u, [x < generator.random() for x in u])
    shares = [band.right / band.drafts for band in bands]
    assert len(bands) > 2
    assert shares == sorted(shares, reverse=True)
    assert bands[0].above == 0.0 and bands[-1].up_to is None
    assert [band.above for band in bands[1:]] == [band.up_to for band in bands[:-1]]
    assert sum(band.drafts for band in bands) == 200


def test_the_line_of_the_specification():
    # METHODS 3: (.4, .47) (.6, .50) (.8, .49) (1.0, .52) gives slope .07 and intercept .446.
    slope, intercept = fit_line(np.array([0.4, 0.6, 0.8, 1.0]), np.array([0.47, 0.50, 0.49, 0.52]))
    assert (slope, intercept) == (pytest.approx(0.07), pytest.approx(0.446))


def test_a_line_through_one_angle_is_flat():
    assert fit_line(np.array([0.5, 0.5]), np.array([0.4, 0.6])) == (0.0, pytest.approx(0.5))


def search(similarity: float, *chunks: tuple[float, float, bool], kept: int = 1) -> DualSearch:
    return DualSearch(
        query_pseudo_similarity=similarity,
        query_scores=tuple(c[0] for c in chunks),
        pseudo_context_scores=tuple(c[1] for c in chunks),
        chunk_ids=tuple(f"c{i}" for i in range(len(chunks))),
        documents=tuple(f"d{i}" for i in range(len(chunks))),
        gold=tuple(c[2] for c in chunks),
        kept=kept,
    )


def test_the_best_weight_of_a_gold_chunk():
    # METHODS 3: (.8, .96) gives alpha* = .283794 / (.643501 + .283794) = .306045; (1, 1) is 0/0 and left out.
    theta0, weights = best_weights([search(0.6, (0.8, 0.96, True), (0.5, 0.5, False)), search(1.0, (1.0, 1.0, True))])
    assert theta0.tolist() == [pytest.approx(0.927295, abs=1e-6)]
    assert weights.tolist() == [pytest.approx(0.306045, abs=1e-6)]


def test_scores_pick_different_chunks():
    # METHODS 2: Eq. 7 prefers (.9, .5) to (.7, .7), the sum does not tell (ties by s1), dynamic as METHODS 3.
    pair = search(0.6, (0.7, 0.7, True), (0.9, 0.5, False))
    assert recall_of(pair, "cos", ALPHA_LINE) == 0.0
    assert recall_of(pair, "dynamic", ALPHA_LINE) == 0.0
    # A line that trusts the pseudo-context alone: theta2 is .795 against 1.047.
    assert recall_of(pair, "dynamic", (0.0, 0.0)) == 1.0


def calibrated(**changes: object) -> Calibrated:
    return msgspec.structs.replace(
        Calibrated(
            model="m",
            model_fingerprint="sha256:1",
            encoder="e",
            source="squad (2 questions)",
            labelled=True,
            questions=2,
            question_digests=(question_digest("Who lit the lamp?"), question_digest("Why?")),
            threshold=FittedThreshold(
                threshold=0.3, low=0.1, high=0.5, target="em", gain=0.02, gain_low=-0.01, gain_high=0.05
            ),
            odds=(DraftOdds(above=0.0, up_to=None, right=1, drafts=2),),
            created="2026-01-31T00:00:00+00:00",
            adaptrag_version="0",
        ),
        **changes,
    )


def test_a_calibration_comes_back_from_its_file(tmp_path):
    path = calibration_path(tmp_path, "some/where/model.gguf")
    assert path == tmp_path / "calibrations" / "model.gguf.json"
    assert read_calibration(path) is None
    write_calibration(path, calibrated())
    assert read_calibration(path) == calibrated()


def test_files_of_before_read_and_are_written_as_they_were(tmp_path):
    before = msgspec.json.decode(msgspec.json.encode(calibrated()))
    assert before.keys() == {
        *("format", "model", "model_fingerprint", "encoder", "source", "labelled", "questions", "question_digests"),
        *("threshold", "odds", "verifier", "alpha_line", "created", "adaptrag_version"),
    }
    assert before["threshold"].keys() == {"threshold", "low", "high", "target", "gain", "gain_low", "gain_high"}


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": 1, "model": 3}'])
def test_another_file_is_refused(tmp_path, text):
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="is no calibration") as caught:
        read_calibration(path)
    assert caught.value.hint == "delete it, and run: adaptrag calibrate"


def test_the_same_question_is_known_again():
    assert question_digest(" Who lit\tthe  LAMP? ") == question_digest("Who lit the lamp?")
    assert question_digest("Who lit the lamps?") != question_digest("Who lit the lamp?")
    assert overlap(calibrated(), ["who lit the lamp?", "What?", "WHY?"]) == 2


def test_a_logistic_model_by_hand():
    # z = -1 + 2 (x - 3) / 4; at x = 5: -1 + 1 = 0, chance 1/2; a missing x counts as its mean: 1 / (1 + e).
    model = Logistic(features=("x",), weights=(2.0,), means=(3.0,), scales=(4.0,), intercept=-1.0)
    assert model.chance({"x": 5.0}) == 0.5
    assert model.chance({}) == pytest.approx(1 / (1 + math.e))
    assert model.chance({"x": 1e9}) == pytest.approx(1.0)
