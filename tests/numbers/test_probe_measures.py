"""What tells right from wrong: calibration, AUROC, a fitted threshold, the split of rows, on numbers made by hand."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest

from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.probing.generation import layers_of
from adaptrag_cli.evaluation.probing.measures import (
    below,
    calibration_bins,
    correlation,
    density,
    expected_calibration_error,
    fit_threshold,
    quality,
    stop_probability,
)
from adaptrag_cli.evaluation.probing.split import curve_subsets, question_of, require_questions, split_rows
from probe_rows import half_right, manifest_of, write_rows


def test_the_calibration_error_weighs_each_bin_by_its_texts():
    probabilities = np.array([0.05, 0.15, 0.15, 0.95, 0.95, 1.0])
    right = np.array([False, True, False, True, True, False])
    bins = calibration_bins(probabilities, right)
    assert [(b.low, b.high, b.texts) for b in bins] == [(0.0, 0.1, 1), (0.1, 0.2, 2), (0.9, 1.0, 3)]
    # 1/6 |.05 - 0| + 2/6 |.15 - .5| + 3/6 |2.9/3 - 2/3| = (.05 + .70 + .90) / 6
    assert expected_calibration_error(bins) == pytest.approx(0.275)


def test_quality_is_accuracy_with_wilsons_interval_and_auroc():
    right = np.array([True, True, False, False])
    scores = np.array([3.0, 1.0, 2.0, 0.0])
    found = quality("q", scores > 1.5, right, "abcd", scores=scores)
    assert found.accuracy.mean == 0.5
    # Wilson, 2 of 4: centre .5, half width 1.96 sqrt(4 * .25 + .9604) / (4 + 3.8415) = .3500
    assert (found.accuracy.low, found.accuracy.high) == pytest.approx((0.1500, 0.8500), abs=1e-4)
    # of the four pairs of a right and a wrong text three are in order: 3 > 2, 3 > 0, 1 > 0
    assert found.auroc.mean == pytest.approx(0.75)
    assert (found.calibration_error, found.bins) == (None, ())


def test_auroc_is_that_of_scikit_learn():
    from sklearn.metrics import roc_auc_score

    generator = np.random.default_rng(1)
    right = generator.random(60) < 0.4
    scores = np.round(generator.standard_normal(60) + right, 1)  # with ties
    found = quality("q", scores > 0, right, list(map(str, range(60))), scores=scores)
    assert found.auroc.mean == pytest.approx(roc_auc_score(right, scores))


def test_the_probability_of_stopping_is_a_softmax():
    logits = np.array([[0.2, 1.0], [0.0, 0.0], [800.0, -800.0]])
    assert stop_probability(logits).tolist() == pytest.approx([1 / (1 + math.exp(-0.8)), 0.5, 0.0])


def test_the_best_threshold_is_the_smallest_of_equal_ones():
    # up to 1: right, right, wrong; beyond: wrong. At .5 three of four are told well, at 1.0 too, at .2 two.
    assert fit_threshold([0.2, 0.5, 1.0, None], [True, True, False, False]) == 0.5
    assert fit_threshold([0.2, 0.5], [False, False]) is None
    assert fit_threshold([0.7, None], [True, True]) == 0.7
    assert below([0.2, 0.5, None], 0.5).tolist() == [True, True, False]
    assert below([0.2], None).tolist() == [False]


def test_correlation_needs_three_points_that_change():
    assert correlation([(0.5, 0.2), (0.6, 0.4), (0.7, 0.6)]) == pytest.approx(1.0)
    assert correlation([(0.5, 0.2), (0.6, 0.4)]) is None
    assert correlation([(0.5, 0.2), (0.5, 0.4), (0.5, 0.6)]) is None


def test_density_adds_up_to_one():
    grid = np.linspace(-10, 10, 2001)
    heights = density(np.array([-1.0, 0.0, 2.0]), grid)
    assert heights is not None
    assert float(heights.sum() * (grid[1] - grid[0])) == pytest.approx(1.0, abs=1e-6)
    assert density(np.array([1.0, 1.0]), grid) is None
    assert density(np.array([1.0]), grid) is None


def test_layers_are_sorted_and_the_models_own():
    assert layers_of((12, 8, 8), 24) == (8, 12)
    assert layers_of(None, 18) == (6, 8, 10, 12, 14, 16)
    with pytest.raises(ConfigError, match="no layer 24") as refused:
        layers_of((8, 24), 24)
    assert refused.value.hint == "its layers are 0 to 23"


def test_parts_share_no_question_and_each_is_balanced(tmp_path: Path):
    data = write_rows(tmp_path, 60, shift=1.0)
    split = split_rows(data, seed=3)
    questions = question_of(data)
    parts = [split.train, split.stop, split.held_out]
    sets = [{questions[number] for number in part.all_rows} for part in parts]
    assert [len(found) for found in sets] == [part.questions for part in parts] == [36, 9, 15]
    assert sum(map(len, sets)) == len(set().union(*sets)) == 60
    for part in parts:
        rights = [data.rows[number].right for number in part.rows]
        assert 2 * sum(rights) == len(rights) > 0
        assert set(part.rows) <= set(part.all_rows)
    assert split_rows(data, seed=3) == split
    assert split_rows(data, seed=4).held_out.all_rows != split.held_out.all_rows


def test_equal_questions_of_two_sets_stay_on_one_side(tmp_path: Path):
    one = manifest_of(40).sets[0]
    twice = (one, msgspec.structs.replace(one, name="other"))
    data = write_rows(tmp_path, 40, shift=1.0, sets=twice, indexes={"s": "i", "other": "i"})
    split = split_rows(data, seed=0)
    questions = question_of(data)
    assert len(data.rows) == 160
    trained, held_out = ({questions[n] for n in part.all_rows} for part in (split.train, split.held_out))
    assert not trained & held_out


def test_the_curve_grows_and_keeps_what_it_has(tmp_path: Path):
    data = write_rows(tmp_path, 60, shift=1.0)
    train = split_rows(data, seed=0).train.rows
    subsets = curve_subsets(data, train, seed=0)
    assert subsets[-1] == train
    assert [len(subset) for subset in subsets] == sorted(len(subset) for subset in subsets)
    for smaller, larger in pairwise(subsets):
        assert set(smaller) < set(larger)
        assert 2 * sum(data.rows[n].right for n in smaller) == len(smaller) >= 16


def test_one_sided_and_too_few_texts_are_refused(tmp_path: Path):
    for folder, right, words in (
        ("wrong", lambda *_: False, "all 60 texts that the model wrote are wrong"),
        ("right", lambda *_: True, "all 60 texts that the model wrote are right"),
        ("few", lambda number, _: number < 5, "10 right and 50 wrong texts are too few: 20 of each are needed"),
    ):
        data = write_rows(tmp_path / folder, 30, shift=1.0, right=right)
        with pytest.raises(ConfigError, match=words) as refused:
            split_rows(data, seed=0)
        assert "questions" in refused.value.hint


def test_states_that_are_no_numbers_are_left_out_and_counted(tmp_path: Path):
    data = write_rows(tmp_path, 60, shift=1.0)
    data.states[5, 1, 2] = np.nan
    data.states[9, 0, 0] = np.inf
    split = split_rows(data, seed=0)
    assert (split.not_finite, split.without_states) == (2, 0)
    assert not {5, 9} & {n for part in (split.train, split.stop, split.held_out) for n in part.all_rows}


def test_questions_are_counted_before_anything_is_written():
    require_questions(20, "answer")
    require_questions(40, "question")
    with pytest.raises(ConfigError, match="39 questions cannot train a prober: at least 40 are needed"):
        require_questions(39, "question")


def test_the_made_rows_are_what_these_tests_think():
    assert [half_right(n, False) for n in range(4)] == [True, False, True, False]
    assert [half_right(n, True) for n in range(7)] == [True, True, False, True, False, True, True]
