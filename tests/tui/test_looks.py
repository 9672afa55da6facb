"""The whole application at the end of each kind of run, as a person sees it."""

from __future__ import annotations

import pytest

import traces
from adaptrag_cli.tui.app import AdaptRAGApp
from adaptrag_cli.tui.launch import Launch

BROAD, SMALL, VAST = (120, 40), (80, 24), (200, 60)


def at_the_end_of(run: str, theme: str = "textual-dark") -> AdaptRAGApp:
    """The replay of a run; the key `G` leads to its end."""
    app = AdaptRAGApp(Launch(trace=tuple(traces.ALL[run]())))
    app.animation_level = "none"
    app.theme = theme
    return app


@pytest.fixture
def in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR")


@pytest.mark.usefixtures("in_colour")
@pytest.mark.parametrize("run", traces.ALL)
def test_all_panels_at_once(snap_compare, run: str):
    assert snap_compare(at_the_end_of(run), terminal_size=BROAD, press=["G"])


@pytest.mark.usefixtures("in_colour")
@pytest.mark.parametrize("tab", ["1", "3", "4", "5"])
@pytest.mark.parametrize("run", ["skipped", "retrieved"])
def test_one_panel_at_a_time(snap_compare, run: str, tab: str):
    assert snap_compare(at_the_end_of(run), terminal_size=SMALL, press=["G", tab])


@pytest.mark.usefixtures("in_colour")
@pytest.mark.parametrize("tab", ["1", "2", "3", "6"])
def test_look_ups_while_writing_one_panel_at_a_time(snap_compare, tab: str):
    assert snap_compare(at_the_end_of("looked_up_twice"), terminal_size=SMALL, press=["G", tab])


@pytest.mark.usefixtures("in_colour")
@pytest.mark.parametrize(("run", "tab"), [("probed_twice", "2"), ("asked_in_steps", "1")])
def test_probes_and_steps_one_panel_at_a_time(snap_compare, run: str, tab: str):
    assert snap_compare(at_the_end_of(run), terminal_size=SMALL, press=["G", tab])


@pytest.mark.usefixtures("in_colour")
def test_look_ups_while_writing_in_a_light_theme(snap_compare):
    assert snap_compare(at_the_end_of("looked_up_twice", "textual-light"), terminal_size=BROAD, press=["G"])


def test_look_ups_while_writing_without_colour(snap_compare):
    assert snap_compare(at_the_end_of("looked_up_twice"), terminal_size=BROAD, press=["G"])


@pytest.mark.usefixtures("in_colour")
@pytest.mark.parametrize("run", ["skipped", "retrieved"])
def test_a_large_terminal(snap_compare, run: str):
    assert snap_compare(at_the_end_of(run), terminal_size=VAST, press=["G"])


@pytest.mark.usefixtures("in_colour")
def test_a_light_theme(snap_compare):
    assert snap_compare(at_the_end_of("retrieved", "textual-light"), terminal_size=BROAD, press=["G"])


def test_without_colour(snap_compare):
    assert snap_compare(at_the_end_of("retrieved"), terminal_size=BROAD, press=["G"])
