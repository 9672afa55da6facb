"""The decision panel: the verdict in words, the gauge, the odds, and another threshold."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot
from textual.widgets import Static

import traces
from adaptrag_cli.events import DecisionMade, DraftOdds, Event, GenerationReused
from adaptrag_cli.tables import odds_in_words
from adaptrag_cli.tui.messages import ThresholdMoved
from adaptrag_cli.tui.panels.decision import DecisionPanel
from adaptrag_cli.tui.panels.gauge import Gauge, scale_of
from panel_host import PanelHost

PARTS = ("verdict", "what-if", "reason", "facts", "odds")
ODDS = DraftOdds(above=0.3, up_to=0.6, right=4, drafts=18)
NO_ODDS = "no odds were measured for this model"


def drive(
    events: list[Event],
    test: Callable[[Pilot[None], DecisionPanel], Awaitable[None]],
    size: tuple[int, int] = (76, 14),
) -> PanelHost:
    async def run() -> PanelHost:
        panel = DecisionPanel()
        app = PanelHost(panel, events)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await test(pilot, panel)
        return app

    return asyncio.run(run())


def said(panel: DecisionPanel) -> list[str]:
    """The lines that are shown."""
    lines = [panel.query_one(f"#decision-{part}", Static) for part in PARTS]
    return [str(line.content) for line in lines if line.display]


def gauge_of(panel: DecisionPanel) -> list[str]:
    return [line.rstrip() for line in panel.query_one(Gauge).render().plain.splitlines()]


def decided(u: float, threshold: float, odds: DraftOdds | None = None) -> list[Event]:
    run = [traces.started(), *traces.drafted(u, retrieve=u > threshold)]
    last = msgspec.structs.replace(run[-1], threshold=threshold, draft_odds=odds)
    return [*run[:-1], last]


# --- the verdict in words


@pytest.mark.parametrize(
    ("run", "lines"),
    [
        ([], ["no decision yet"]),
        (traces.retrieved(), ["u = 0.57 > 0.30: looked it up", "the draft is uncertain", NO_ODDS]),
        (traces.skipped(), ["u = 0.02 <= 0.30: answered from memory", "the draft is certain enough", NO_ODDS]),
        (traces.always(), ["looked it up", "every question is looked up"]),
        (
            traces.never(),
            ["answered from memory", "this strategy never looks up", NO_ODDS],
        ),
        (traces.blank_draft(), ["looked it up", "uncertainty is undefined: the draft is empty"]),
        (traces.failed(), ["no decision: the model broke"]),
    ],
    ids=["nothing", "retrieved", "skipped", "always", "never", "blank draft", "failed"],
)
def test_the_verdict_says_what_was_decided_and_why(run: list[Event], lines: list[str]):
    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        assert said(panel) == lines

    drive(run, test)


@pytest.mark.parametrize(
    ("run", "lines"),
    [
        (traces.judge(), ["looked it up", "the judge says Yes", 'the judge says: "Yes, look it up"']),
        (traces.judge_skips(), ["answered from memory", "the judge says No", 'the judge says: "No, it is known"']),
        (
            traces.pairs(),
            [
                "looked it up",
                "the answers differ",
                'from memory: "10 pm"\nfrom the pseudo-context: "21:00"\nnormalised exact match: they differ',
            ],
        ),
        (traces.hyde(), ["looked it up", "every question is looked up"]),
        (
            traces.verify(),
            [
                "looked it up",
                "the documents are likelier right than the draft",
                "searched before the decision: best chunk 0.80\n"
                "chance of being right: draft 0.34, documents 0.61 (given)",
                NO_ODDS,
            ],
        ),
    ],
    ids=["judge", "judge skips", "pairs", "hyde", "verify"],
)
def test_a_decision_without_a_threshold_shows_what_it_was_made_from(run: list[Event], lines: list[str]):
    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        assert said(panel) == lines
        assert panel.query_one(Gauge).display == (NO_ODDS in lines)  # where an uncertainty stands in the decision

    drive(run, test)


def test_what_the_model_is_asked_before_the_decision_is_told_as_it_goes():
    prompt, *tokens = traces.judge()[1:5]

    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        assert said(panel) == ["asking a judge whether to look it up ..."]
        panel.show(tokens[:1])
        assert said(panel)[1] == 'the judge says: "Yes"'
        panel.show(traces.pairs()[1:8])
        assert said(panel)[0] == "imagining a passage to search with ..."
        panel.show([GenerationReused(phase="judge", text="No")])
        assert len(said(panel)) == 1  # of several calls, the last one stands

    drive([traces.started("llm-judge"), prompt], test)


def test_a_verdict_that_the_reason_quotes_is_not_told_twice():
    decision = DecisionMade(retrieve=True, uncertainty=None, threshold=None, reason='the judge says yes: "Yes"')

    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        assert said(panel) == ["looked it up", 'the judge says yes: "Yes"']

    drive([traces.started("llm-judge"), *traces.written("judge", "Yes"), decision], test)


def test_a_draft_that_is_held_against_nothing_moves_no_gauge():
    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        assert said(panel) == ["drafting: 2 tokens so far"]
        assert not panel.query_one(Gauge).display

    drive(traces.pairs()[:4], test)


def test_numbers_that_look_equal_get_more_decimals():
    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        assert said(panel)[0] == "u = 0.3004 > 0.3000: looked it up"

    drive(decided(0.3004, 0.3), test)


@pytest.mark.parametrize(
    ("odds", "words"),
    [
        (ODDS, "of 18 measured drafts with u in 0.30-0.60, 4 were right (22 %)"),
        (
            DraftOdds(above=1.2, up_to=None, right=1, drafts=8),
            "of 8 measured drafts with u above 1.20, 1 was right (12 %)",
        ),
        (
            DraftOdds(above=0.3, up_to=0.6, right=0, drafts=0),
            "no draft with u in 0.30-0.60 was measured for this model",
        ),
        (None, NO_ODDS),
    ],
    ids=["band", "last band", "nothing in the band", "not measured"],
)
def test_odds_in_words(odds: DraftOdds | None, words: str):
    assert odds_in_words(odds) == words


# --- the gauge


def test_gauge_marks_both_values_with_their_numbers():
    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        mark, bar, threshold, ends = gauge_of(panel)
        # 72 columns for 0 to 1 nat: u at 0.57 * 71 = 40.47, the threshold at 0.3 * 71 = 21.3.
        assert mark == " " * 40 + "▼ u = 0.57"
        assert bar == "█" * 21 + "┃" + "█" * 18 + "▍" + "─" * 31  # 0.47 of a column is three eighths
        assert threshold == " " * 21 + "▲ threshold 0.30"
        assert ends == "0" + "1.0 nats".rjust(71)

    drive(traces.retrieved(), test)


@pytest.mark.parametrize(
    ("u", "threshold", "end"),
    [
        (None, None, 1.0),
        (0.57, 0.3, 1.0),
        (0.2, 0.6, 1.5),
        (3.2, 0.3, 4.0),
        (0.5, 6.0, 15.0),
        (1.0, 0.5, 1.0),
        (9.0, 1, 10),
    ],
)
def test_scale_holds_twice_the_threshold_and_u(u: float | None, threshold: float | None, end: float):
    assert scale_of(u, threshold) == pytest.approx(end)


@given(u=st.floats(0, 1e6), threshold=st.floats(0, 1e6))
def test_nothing_lies_beyond_the_scale(u: float, threshold: float):
    end = scale_of(u, threshold)
    most = max(u, 2 * threshold, 1.0)
    assert most <= end * (1 + 1e-6)
    assert end <= 1.5 * most + 1e-6  # the widest step, from 1 to 1.5


def test_gauge_moves_while_the_draft_is_written():
    first, *others = traces.written("draft", "a", "b", "c", logprob=-0.4)

    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        assert said(panel) == ["no decision yet"]
        panel.show(others[:1])
        assert said(panel) == ["drafting: 1 token so far"]
        assert gauge_of(panel)[0].endswith("▼ u = 0.40 so far")
        panel.show([msgspec.structs.replace(others[1], logprob=-0.8)])
        # (0.4 + 0.8) / 2 = 0.6
        assert said(panel) == ["drafting: 2 tokens so far"]
        assert gauge_of(panel)[0].endswith("▼ u = 0.60 so far")
        panel.show([GenerationReused(phase="draft", text="x")])
        assert gauge_of(panel)[0] == ""

    drive([traces.started(), first], test)


def test_a_strategy_without_a_threshold_shows_u_alone():
    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        mark, bar, threshold, _ = gauge_of(panel)
        assert mark.strip() == "▼ u = 0.50"
        assert "┃" not in bar
        assert threshold == ""

    drive(traces.never(), test)


def test_a_strategy_that_measures_nothing_has_no_gauge():
    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        assert not panel.query_one(Gauge).display

    drive(traces.always(), test)


def test_an_undefined_u_says_why_at_the_gauge():
    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        mark, bar, *_ = gauge_of(panel)
        assert mark == "u is undefined: the draft is empty"
        assert "█" not in bar

    drive(traces.blank_draft(), test)


# --- another threshold


def test_another_threshold_judges_anew_and_the_recorded_one_leads_back():
    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        recorded = said(panel)
        panel.judge_at(0.6)
        assert said(panel)[:2] == [
            "u = 0.57 > 0.30: looked it up",
            "at 0.60 it would have been answered from memory: press f to run that branch",
        ]
        assert gauge_of(panel)[2].endswith("▲ threshold 0.60")
        panel.judge_at(0.4)
        assert said(panel)[1] == "at 0.40 it would still have been looked up"
        panel.judge_at(0.3)
        assert said(panel) == recorded
        assert gauge_of(panel)[2].endswith("▲ threshold 0.30")

    drive(traces.retrieved(), test)


def test_a_lower_threshold_would_have_looked_a_skipped_question_up():
    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        panel.judge_at(0.01)
        assert said(panel)[1] == "at 0.01 it would have been looked up: press f to run that branch"
        panel.judge_at(0.02)  # equality answers from the draft
        assert said(panel)[1] == "at 0.02 it would still have been answered from memory"

    drive(traces.skipped(), test)


def test_no_threshold_flips_an_undefined_u():
    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        panel.judge_at(9.0)
        assert said(panel)[1] == "at 9.00 it would still have been looked up"

    drive(traces.blank_draft(), test)


@pytest.mark.parametrize("run", [[], traces.always(), traces.never()], ids=["nothing", "always", "never"])
def test_without_a_recorded_threshold_nothing_is_judged(run: list[Event]):
    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        before = said(panel)
        panel.judge_at(0.6)
        assert said(panel) == before

    drive(run, test)


def test_a_click_on_the_gauge_asks_for_the_threshold_there():
    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        await pilot.click(Gauge, offset=(0, 1))
        await pilot.click(Gauge, offset=(71, 1))
        await pilot.click(Gauge, offset=(30, 2))

    app = drive(traces.retrieved(), test)
    asked = [message.threshold for message in app.asked if isinstance(message, ThresholdMoved)]
    assert asked == [0.0, 1.0, 0.42]  # 30 / 71 = 0.4225


def test_a_click_asks_for_nothing_where_there_is_no_threshold():
    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        await pilot.click(Gauge, offset=(30, 1))

    assert not drive(traces.never(), test).asked


def test_another_run_forgets_the_decision_and_the_moved_threshold():
    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        panel.judge_at(0.6)
        panel.begin()
        assert said(panel) == ["no decision yet"]
        panel.show(traces.retrieved())
        assert said(panel)[:2] == ["u = 0.57 > 0.30: looked it up", "the draft is uncertain"]

    drive(traces.retrieved(), test)


def test_what_was_not_consulted_decides_nothing():
    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        panel.show([DecisionMade(retrieve=True, uncertainty=None, threshold=None, reason="r")], consulted=False)
        assert said(panel)[0] == "u = 0.02 <= 0.30: answered from memory"

    drive(traces.skipped(), test)


def test_text_of_a_model_is_no_markup_and_no_escape():
    decision = DecisionMade(retrieve=True, uncertainty=None, threshold=None, reason="[bold]\x1b[31mred[/bold]")

    async def test(pilot: Pilot[None], panel: DecisionPanel) -> None:
        assert said(panel)[1] == "[bold]\\x1b[31mred[/bold]"

    drive([traces.started("always"), decision], test)


# --- looks


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_looks(snap_compare, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert snap_compare(PanelHost(DecisionPanel(), decided(0.57, 0.3, ODDS)), terminal_size=size)


def test_looks_of_another_threshold_in_a_light_theme(snap_compare, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    panel = DecisionPanel()
    app = PanelHost(panel, decided(0.57, 0.3, ODDS))
    app.theme = "textual-light"

    async def judge(pilot: Pilot[None]) -> None:
        panel.judge_at(0.6)
        await pilot.pause()

    assert snap_compare(app, terminal_size=(60, 12), run_before=judge)


def test_looks_without_colour_in_a_small_tab(snap_compare, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(PanelHost(DecisionPanel(), traces.skipped()), terminal_size=(76, 14))
