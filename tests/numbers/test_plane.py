"""The picture's geometry, with numbers that one can check with a pencil."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptrag_cli.plane import arc, on_arc, project, spans_plane
from adaptrag_cli.tui.panels.plane_view import fit, fit_sector

SIXTY = math.pi / 3
ROOT_3 = math.sqrt(3.0)


# q = (1, 0) and p = (1/2, sqrt(3)/2) are 60 degrees apart; s1 = q.c and s2 = p.c, then
# x = s1 and y = (s2 - s1/2) / (sqrt(3)/2).
@pytest.mark.parametrize(
    ("s1", "s2", "x", "y"),
    [
        pytest.param(1.0, 0.5, 1.0, 0.0, id="q itself"),  # y = (1/2 - 1/2) / .
        pytest.param(0.5, 1.0, 0.5, ROOT_3 / 2, id="p itself"),  # y = (1 - 1/4) / (sqrt(3)/2) = sqrt(3)/2
        # Halfway, at 30 degrees: s1 = s2 = sqrt(3)/2, y = (sqrt(3)/4) / (sqrt(3)/2) = 1/2.
        pytest.param(ROOT_3 / 2, ROOT_3 / 2, ROOT_3 / 2, 0.5, id="on the arc"),
        # The same direction, half of it out of the plane: all is halved.
        pytest.param(ROOT_3 / 4, ROOT_3 / 4, ROOT_3 / 4, 0.25, id="half out of the plane"),
        pytest.param(0.0, 0.0, 0.0, 0.0, id="perpendicular to both"),
        pytest.param(0.0, ROOT_3 / 2, 0.0, 1.0, id="at 90 degrees"),  # y = (sqrt(3)/2) / (sqrt(3)/2)
        pytest.param(-1.0, -0.5, -1.0, 0.0, id="opposite to q"),
    ],
)
def test_projection_onto_the_plane_of_two_directions_sixty_degrees_apart(s1, s2, x, y):
    assert project(s1, s2, SIXTY) == pytest.approx((x, y), abs=1e-12)


def test_a_similarity_just_above_one_is_pulled_back_to_the_circle():
    assert project(1.0000001, 0.5, SIXTY) == pytest.approx((1.0, 0.0), abs=1e-12)
    # s1 = s2 = 0.9 at 60 degrees: (0.9, 0.45 / 0.866 = 0.5196) has length sqrt(0.81 + 0.27) = 1.0392.
    assert project(0.9, 0.9, SIXTY) == pytest.approx((0.9 / 1.0392305, 0.5196152 / 1.0392305), abs=1e-6)


def test_without_a_pseudo_context_a_chunk_lies_at_its_angle_to_the_query():
    assert on_arc(0.8) == pytest.approx((0.8, 0.6))  # 0.64 + 0.36 = 1
    assert on_arc(-0.6) == pytest.approx((-0.6, 0.8))
    assert on_arc(1.0000001) == (1.0, 0.0)


@pytest.mark.parametrize(("degrees", "spans"), [(0, False), (2.8, False), (2.9, True), (90, True), (178, False)])
def test_two_directions_on_one_line_span_no_plane(degrees, spans):
    assert spans_plane(math.radians(degrees)) is spans  # arcsin 0.05 = 2.866 degrees


@given(
    st.floats(0.06, math.pi - 0.06),
    st.tuples(*[st.floats(-1, 1)] * 3).filter(lambda v: math.hypot(*v) > 0.01),
)
def test_projection_of_a_unit_vector_keeps_its_products_with_both(theta, vector):
    """In three dimensions, with q = e1 and p in the plane of e1 and e2, the projection is the first two coordinates."""
    length = math.hypot(*vector)
    x, y, _ = (part / length for part in vector)
    s1, s2 = x, x * math.cos(theta) + y * math.sin(theta)
    assert project(s1, s2, theta) == pytest.approx((x, y), abs=1e-9)


def test_an_arc_goes_from_the_query_to_its_end():
    # A quarter in two steps: 0, 45 and 90 degrees.
    assert arc(math.pi / 2, 2) == [
        pytest.approx((1.0, 0.0)),
        pytest.approx((1 / math.sqrt(2), 1 / math.sqrt(2))),
        pytest.approx((0.0, 1.0), abs=1e-12),
    ]


def test_a_quarter_circle_fills_the_cells_without_distortion():
    # 41 x 21 cells without margin: 40 columns are 20 cell heights, 20 rows are 20; so one unit is 20 rows, 40 columns.
    view = fit([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)], width=41, height=21, margin=(0, 0))
    assert view.scale == 20.0
    assert view.cell((0.0, 0.0)) == (0.5, 20.5)
    assert view.cell((1.0, 0.0)) == (40.5, 20.5)
    assert view.cell((0.0, 1.0)) == (0.5, 0.5)


def test_margins_stay_free_and_the_picture_stands_in_the_middle():
    # 51 - 1 - 10 = 40 columns, but 15 - 1 - 4 = 10 rows: one unit is 10 rows and 20 columns.
    view = fit([(0.0, 0.0), (1.0, 1.0)], width=51, height=15, margin=(5, 2))
    assert view.scale == 10.0
    assert view.cell((0.0, 0.0)) == (15.5, 12.5)
    assert view.cell((1.0, 1.0)) == (35.5, 2.5)


def test_one_point_alone_is_shown_in_the_middle():
    assert fit([(1.0, 0.0)], width=21, height=11, margin=(0, 0)).cell((1.0, 0.0)) == (10.5, 5.5)


def test_the_origin_is_left_out_where_that_enlarges_the_picture():
    rim = arc(math.radians(30), 60)
    far = fit_sector([(0.8, 0.2)], rim, width=61, height=31, margin=(0, 0))
    # 60 columns for x from 0.85 * 0.8 = 0.68 to 1: 30 / 0.32 = 93.75; 30 rows for y from 0 to 0.5: 30 / 0.5 = 60.
    assert far.scale == pytest.approx(60.0)
    near = fit_sector([(0.1, 0.0)], rim, width=61, height=31, margin=(0, 0))
    assert near.scale == pytest.approx(30.0)  # from 0 to 1 on 60 columns
    assert near.cell((0.0, 0.0))[0] == pytest.approx(0.5)
