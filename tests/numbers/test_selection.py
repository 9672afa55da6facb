"""Adaptive information selection, with the worked numbers of DTR Eq. 4 to 7 and PAIRS' alpha."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptrag_cli.config import AIS_SCORES
from adaptrag_cli.selection import angles, joint_cosine, query_weight, rank_candidates

ALPHA_CODE = (0.05848, 0.45520)
QUERY = np.array([1.0, 0.0])
PSEUDO_CONTEXT = np.array([0.6, 0.8])
THETA0 = 0.927295  # arccos .6

similarity = st.floats(min_value=-1.0, max_value=1.0)


def eq7(s1: float, s2: float) -> float:
    return float(joint_cosine(np.array([s1]), np.array([s2]))[0])


def rank(score, pairs, theta0=THETA0, ids=None):
    s1, s2 = zip(*pairs, strict=True)
    return rank_candidates(score, s1, s2, math.cos(theta0), ids or [f"c{i}" for i in range(len(pairs))])


@pytest.mark.parametrize(
    ("chunk", "s1", "s2", "cosine", "total"),
    [
        ((0.8, 0.6), 0.8, 0.96, 0.6, 1.76),
        ((1.0, 0.0), 1.0, 0.6, 0.6, 1.6),  # equal to the query
        ((0.6, 0.8), 0.6, 1.0, 0.6, 1.6),  # equal to the pseudo-context
        ((0.96, -0.28), 0.96, 0.352, 0.07584, 1.312),
        ((0.0, 1.0), 0.0, 0.8, -0.6, 0.8),
    ],
)
def test_worked_chunks_in_the_plane(chunk, s1, s2, cosine, total):
    vector = np.array(chunk)
    assert vector @ QUERY == pytest.approx(s1)
    assert vector @ PSEUDO_CONTEXT == pytest.approx(s2)
    ranking = rank("cos", [(s1, s2)])
    assert ranking.scores[0] == pytest.approx(cosine, abs=1e-9)
    assert math.cos(ranking.query_angles[0] + ranking.pseudo_context_angles[0]) == pytest.approx(cosine, abs=1e-9)
    assert rank("sum", [(s1, s2)]).scores[0] == pytest.approx(total)


@pytest.mark.parametrize(
    ("s1", "s2", "cosine"),
    [
        (0.9, 0.5, 0.0725083),
        (0.7, 0.7, -0.02),
        (0.8, 0.6, 0.0),
        (0.1, 0.1, -0.98),
        (-0.6, -0.6, -0.28),
        (-0.9, -0.9, 0.62),
        (1.0000001, 0.5, 0.5),  # equal float32 unit vectors: without the clip this is NaN
    ],
)
def test_worked_pairs_of_eq7(s1, s2, cosine):
    assert eq7(s1, s2) == pytest.approx(cosine, abs=1e-6)


OVERLAP = {"A": (0.90, 0.40), "B": (0.85, 0.80), "C": (0.80, 0.55), "D": (0.50, 0.95)}


def order(score, pairs=OVERLAP):
    ids = list(pairs)
    return [ids[i] for i in rank(score, list(pairs.values()), ids=ids).order]


def test_the_two_scores_keep_different_chunks():
    # Eq. 7: B .363930, D .204584, A -.039500, C -.061099; sums: B 1.65, D 1.45, C 1.35, A 1.30.
    assert [round(eq7(*OVERLAP[c]), 6) for c in "BDAC"] == [0.36393, 0.204584, -0.0395, -0.061099]
    assert order("cos") == ["B", "D", "A", "C"]
    assert order("sum") == ["B", "D", "C", "A"]


def test_beyond_pi_the_angle_sum_ranks_and_the_cosine_is_only_shown():
    # (-.9, -.9) has cosine +.62 and (.1, .1) has -.98; ranking by the cosine would turn the two round.
    ranking = rank("cos", [(-0.9, -0.9), (0.1, 0.1)])
    assert ranking.order == (1, 0)
    assert ranking.scores[0] > ranking.scores[1]


@given(st.lists(st.tuples(similarity, similarity), min_size=2, max_size=8))
def test_where_sums_are_not_negative_the_order_is_the_cosines(pairs):
    pairs = [(s1, s2) for s1, s2 in pairs if s1 + s2 >= 0]
    if len(pairs) < 2:
        return
    ranking = rank("cos", pairs)
    shown = [ranking.scores[i] for i in ranking.order]
    assert all(a >= b - 1e-7 for a, b in itertools.pairwise(shown))


@given(st.floats(0.01, math.pi - 0.01), st.floats(0, 1))
def test_every_chunk_on_the_arc_scores_the_cosine_of_theta0(theta0, share):
    theta1 = share * theta0
    assert eq7(math.cos(theta1), math.cos(theta0 - theta1)) == pytest.approx(math.cos(theta0), abs=1e-6)


@given(st.lists(st.floats(-1, 1), min_size=9, max_size=9))
def test_no_chunk_beats_the_arc(values):
    q, p, d = (np.array(values[i : i + 3]) for i in (0, 3, 6))
    if min(np.linalg.norm(v) for v in (q, p, d)) < 1e-3:
        return
    q, p, d = (v / np.linalg.norm(v) for v in (q, p, d))
    theta1, theta2, theta0 = angles(np.array([d @ q, d @ p, q @ p]))
    assert theta1 + theta2 >= theta0 - 1e-6


def test_at_equal_sums_eq7_prefers_the_unbalanced_chunk():
    assert order("cos", {"balanced": (0.7, 0.7), "unbalanced": (0.9, 0.5)}) == ["unbalanced", "balanced"]
    # The plain sum has no preference: s1 breaks the tie.
    assert rank("sum", [(0.7, 0.7), (0.9, 0.5)]).scores.tolist() == pytest.approx([1.4, 1.4])


def test_dynamic_weight():
    # theta0 = .927295: .058 * .927295 + .455 = .508783; the authors' code: .05848 * .927295 + .4552 = .509428
    assert query_weight(THETA0) == pytest.approx(0.508783, abs=1e-6)
    assert query_weight(THETA0, ALPHA_CODE) == pytest.approx(0.509428, abs=1e-6)
    pairs = {"u": (0.9, 0.5), "v": (0.5, 0.9), "b": (0.7, 0.7)}
    ranking = rank("dynamic", list(pairs.values()))
    assert (-ranking.scores).tolist() == pytest.approx([0.743876, 0.754348, 0.795399], abs=1e-6)
    assert order("dynamic", pairs) == ["u", "v", "b"]
    assert ranking.query_weight == pytest.approx(0.508783, abs=1e-6)


def test_dynamic_weight_of_orthogonal_vectors_by_the_code_line():
    alpha = query_weight(math.pi / 2, ALPHA_CODE)
    assert alpha == pytest.approx(0.54706, abs=1e-5)
    # 45 degrees to both: -pi/4; equal to the query: -(1 - alpha) pi/2
    assert -(math.pi / 4) == pytest.approx(-0.78540, abs=1e-5)
    assert -(1 - alpha) * math.pi / 2 == pytest.approx(-0.71148, abs=1e-5)


@pytest.mark.parametrize("score", AIS_SCORES)
@given(data=st.data())
def test_the_order_does_not_depend_on_how_candidates_are_listed(score, data):
    pairs = data.draw(st.lists(st.tuples(similarity, similarity), min_size=1, max_size=8))
    ids = [f"c{i}" for i in range(len(pairs))]
    permutation = data.draw(st.permutations(range(len(pairs))))
    first = rank(score, pairs, ids=ids)
    second = rank(score, [pairs[i] for i in permutation], ids=[ids[i] for i in permutation])
    assert [ids[i] for i in first.order] == [ids[permutation[i]] for i in second.order]


@pytest.mark.parametrize("score", AIS_SCORES)
def test_nan_ranks_last(score):
    assert rank(score, [(float("nan"), 0.9), (-1.0, -1.0), (0.2, 0.2)]).order[-1] == 0


@given(st.lists(st.tuples(st.floats(-1.001, 1.001), st.floats(-1.001, 1.001)), min_size=1))
def test_finite_similarities_never_score_nan(pairs):
    for score in AIS_SCORES:
        assert np.isfinite(rank(score, pairs).scores).all()


def test_ties_fall_to_the_query_score_then_to_the_chunk_id():
    assert order("sum", {"x": (0.5, 0.75), "y": (0.75, 0.5)}) == ["y", "x"]
    assert order("sum", {"b": (0.5, 0.5), "a": (0.5, 0.5)}) == ["a", "b"]
