"""What a moved threshold and other settings would do, judged without a screen."""

from __future__ import annotations

import pytest

from adaptrag_cli.tui.record import Record
from adaptrag_cli.tui.what_if import HIGHEST_THRESHOLD, WhatIf, next_threshold
from traces import always, blank_draft, looked_up_twice, retrieved, skipped


def what_if(events) -> WhatIf:
    return WhatIf(Record(number=1, query="Why?", flags={}, events=events))


@pytest.mark.parametrize(
    ("now", "direction", "then"),
    [
        (0.3, 1, 0.35),
        (0.3, -1, 0.25),
        (0.1, 1, 0.15),
        (0.1, -1, 0.09),
        (0.09, 1, 0.1),
        (1.0, 1, 1.1),
        (1.0, -1, 0.95),
        (0.0, -1, 0.0),
        (0.001, 1, 0.011),
        (HIGHEST_THRESHOLD, 1, HIGHEST_THRESHOLD),
    ],
)
def test_steps_grow_with_the_threshold(now: float, direction: int, then: float):
    assert next_threshold(now, direction) == pytest.approx(then)


def test_u_above_the_threshold_flips_when_the_threshold_reaches_it():
    it = what_if(retrieved())  # u = 0.57, threshold 0.30
    assert (it.threshold, it.flips, it.changes) == (0.3, False, {})
    it.move_threshold(0.55)
    assert (it.flips, it.changes) == (False, {"ask.threshold": 0.55})
    it.move_threshold(0.57)  # equality keeps the draft
    assert it.flips
    it.move_threshold(0.3)
    assert (it.flips, it.changes) == (False, {})


def test_u_below_the_threshold_flips_below_it():
    it = what_if(skipped())  # u = 0.02
    it.move_threshold(0.02)
    assert not it.flips
    it.move_threshold(0.01)
    assert it.flips


def test_an_undefined_u_looks_up_at_any_threshold():
    it = what_if(blank_draft())
    it.move_threshold(5.0)
    assert not it.flips


def test_a_run_without_a_threshold_has_none_to_move():
    assert what_if(always()).threshold is None
    assert WhatIf().threshold is None


def test_a_run_that_holds_words_against_a_trigger_has_no_threshold_to_move():
    it = what_if(looked_up_twice())
    assert (it.threshold, it.flips) == (None, False)


def test_the_selection_is_told_apart_from_the_threshold():
    it = what_if(retrieved())
    it.move_threshold(0.5)
    it.change({"ask.top_k": 2})
    it.change({"ask.top_k": 1, "ask.ais": "sum"})
    assert it.selection == {"ask.top_k": 1, "ask.ais": "sum"}
    assert it.changes == {"ask.threshold": 0.5, "ask.top_k": 1, "ask.ais": "sum"}
