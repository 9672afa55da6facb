"""The panels of a method that looks up while it writes: cuts, queries, rounds, and the word that is held up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import pytest
from rich.segment import Segment
from textual.pilot import Pilot
from textual.widgets import OptionList, Static, Tab

import traces
from adaptrag_cli.events import DecisionMade, Event, PathRetrieved, PromptBuilt, QueryBuilt, RunStarted, WordMeasured
from adaptrag_cli.tui.app import AdaptRAGApp
from adaptrag_cli.tui.launch import Launch
from adaptrag_cli.tui.main_screen import MainScreen
from adaptrag_cli.tui.messages import PromptOpened
from adaptrag_cli.tui.panels.base import Panel
from adaptrag_cli.tui.panels.chunk_list import ChunkList
from adaptrag_cli.tui.panels.decision import DecisionPanel
from adaptrag_cli.tui.panels.draft import DraftPanel
from adaptrag_cli.tui.panels.entropy_chart import EntropyChart
from adaptrag_cli.tui.panels.gauge import Gauge
from adaptrag_cli.tui.panels.look_ups import LookUps
from adaptrag_cli.tui.panels.paths import PathColumn, PathsPanel
from adaptrag_cli.tui.panels.selection import SelectionPanel
from adaptrag_cli.tui.panels.timeline import TimelinePanel
from adaptrag_cli.tui.panels.token_view import TokenView
from panel_host import PanelHost

RUN = traces.looked_up_twice()
WRITTEN = "Quiet time starts at 22:00. ‹1› 21:30. The quiet ends at 6:00, before breakfast. ‹2› 7:00."


def place(kind: type[Event], count: int = 1) -> int:
    """The number of events before the `count`th event of a kind."""
    return [number for number, event in enumerate(RUN) if isinstance(event, kind)][count - 1]


FIRST_DECISION, LAST_DECISION = place(DecisionMade), place(DecisionMade, 3)


def drive(
    panel: Panel,
    events: Sequence[Event],
    test: Callable[[Pilot[None]], Awaitable[None]],
    size: tuple[int, int] = (100, 24),
) -> PanelHost:
    async def run() -> PanelHost:
        app = PanelHost(panel, events)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await test(pilot)
        return app

    return asyncio.run(run())


def said(panel: Panel, selector: str) -> str:
    return str(panel.query_one(selector, Static).content)


def segments(panel: Panel) -> list[Segment]:
    view = panel.query_one(TokenView)
    return [segment for line in range(view.size.height) for segment in view.render_line(line)]


# --- the chain of thought


def test_discarded_tokens_are_struck_through_and_the_look_ups_numbered_where_they_were():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        shown = segments(panel)
        assert " ".join("".join(s.text for s in shown).split()).startswith(WRITTEN)
        struck = [s for s in shown if s.style and s.style.strike]
        assert "".join(s.text for s in struck).split() == ["22:00.", "6:00,", "before", "breakfast."]
        assert all(s.style.dim and s.style.bgcolor == shown[-1].style.bgcolor for s in struck if s.style)
        assert [s.text for s in shown if s.style and s.style.reverse] == ["‹1›", "‹2›"]
        assert said(panel, "#draft-summary") == ("20 tokens kept, 6 discarded, 5 calls, 2 look-ups, mean entropy 0.43")
        assert panel.border_title == "1 Chain of thought"

    drive(panel, RUN, test)


def test_event_by_event_and_at_once_look_the_same():
    at_once, stepwise = DraftPanel(), DraftPanel()
    shown: list[list[Segment]] = []

    async def look(pilot: Pilot[None]) -> None:
        shown.append(segments(at_once))

    async def step(pilot: Pilot[None]) -> None:
        for event in RUN:
            stepwise.show([event])
        await pilot.pause()
        shown.append(segments(stepwise))

    drive(at_once, RUN, look)
    drive(stepwise, [], step)
    assert shown[0] == shown[1]


def test_what_is_cut_is_struck_through_when_it_is_told_and_not_before():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        assert not any(s.style and s.style.strike for s in segments(panel))
        panel.show(RUN[FIRST_DECISION - 1 : FIRST_DECISION + 1])
        await pilot.pause()
        assert any(s.style and s.style.strike for s in segments(panel))
        assert "‹1›" not in "".join(s.text for s in segments(panel))  # it stands before what comes next

    drive(panel, RUN[: FIRST_DECISION - 1], test)


def test_a_look_up_before_anything_is_written_has_its_number_and_takes_no_threshold_away():
    draft, decision = DraftPanel(), DecisionPanel()
    first = msgspec.structs.replace(RUN[FIRST_DECISION], uncertainty=None, threshold=None, reason="looks up first")
    events = [RUN[0], first, *RUN[FIRST_DECISION + 1 : FIRST_DECISION + 4], *RUN[1:FIRST_DECISION]]

    async def test_draft(pilot: Pilot[None]) -> None:
        assert "".join(s.text for s in segments(draft)).split()[:2] == ["‹1›", "Quiet"]

    async def test_decision(pilot: Pilot[None]) -> None:
        assert "threshold 1.00" in str(decision.query_one(Gauge).render())
        assert said(decision, "#decision-facts").split("\n")[0] == "look-up 1: looks up first"

    drive(draft, events, test_draft)
    drive(decision, events, test_decision)


def test_the_end_of_a_text_that_came_at_once_is_in_sight():
    async def body() -> None:
        app = AdaptRAGApp(Launch(trace=tuple(RUN)))
        app.animation_level = "none"
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.pause()
            await pilot.press("G")
            await pilot.pause()
            view = app.screen.query_one(TokenView)
            assert view.scroll_y == view.max_scroll_y == 1

    asyncio.run(body())


def test_wrapping_again_keeps_cuts_and_numbers():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        await pilot.resize_terminal(40, 24)
        await pilot.pause()
        shown = segments(panel)
        assert " ".join("".join(s.text for s in shown).split()).startswith(WRITTEN[:40])
        assert "‹1›" in [s.text for s in shown]
        assert panel.query_one(TokenView).discarded == 6

    drive(panel, RUN, test)


def test_another_run_forgets_the_chain_of_thought():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        panel.begin()
        panel.show(traces.skipped())
        await pilot.pause()
        assert panel.border_title == "1 Draft"
        assert said(panel, "#draft-summary").startswith("2 tokens, mean NLL")
        assert not any(s.style and s.style.strike for s in segments(panel))

    drive(panel, RUN, test)


def test_a_chain_of_thought_without_a_look_up_counts_its_call():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        assert said(panel, "#draft-summary") == "7 tokens kept, 1 call, mean entropy 0.16"

    drive(panel, traces.certain_while_writing(), test)


# --- the chart


def test_the_chart_shows_differences_values_of_each_call_threshold_and_cuts():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        chart = panel.query_one(EntropyChart)
        assert [line.x for line in chart._v_lines] == [4.5, 13.5]  # before the fifth and the fourteenth token
        lines = [(list(d.x), list(d.y)) for d in chart._datasets if type(d).__name__ == "LinePlot"]
        assert lines == [
            ([0.5, 26.5], [1.0, 1.0]),
            ([3.0, 5.0], [0.1, 1.62]),
            ([14.0, 16.0], [2.0, -2.86]),
            ([26.0], [0.1]),
        ]
        dots, crosses = ([list(d.y) for d in chart._datasets if getattr(d, "marker", "") == mark] for mark in "•×")
        assert dots == [[0.1, 0.2, 1.9, 0.1, 2.1, -1.3, -0.1, 0.0]]
        assert crosses == [[0.1, 1.7, 2.0, -3.4, 0.1]]
        assert said(panel, "#draft-trend") == ("line: value, flat: threshold 1.00; • 1st, × 2nd difference; │ cut")

    drive(panel, RUN, test)


def test_where_drops_fire_too_the_threshold_is_drawn_on_both_sides():
    panel = DraftPanel()
    word = msgspec.structs.replace(next(e for e in RUN if getattr(e, "fires", False)), is_absolute=True, value=-1.62)

    async def test(pilot: Pilot[None]) -> None:
        chart = panel.query_one(EntropyChart)
        lines = [(list(d.x), list(d.y)) for d in chart._datasets if type(d).__name__ == "LinePlot"]
        assert lines == [([0.5, 16.5], [1.0, 1.0]), ([0.5, 16.5], [-1.0, -1.0]), ([5.0], [-1.62])]
        assert chart._y_min == -2.0
        assert said(panel, "#draft-trend").startswith("line: value, flat: threshold ±1.00")

    drive(panel, [*RUN[:9], word], test)


def test_a_method_without_differences_does_not_name_them():
    panel = DraftPanel()
    word = msgspec.structs.replace(
        next(e for e in RUN if getattr(e, "fires", False)), first_difference=None, second_difference=None
    )

    async def test(pilot: Pilot[None]) -> None:
        assert said(panel, "#draft-trend") == "line: value, flat: threshold 1.00"

    drive(panel, [*RUN[:9], word], test)


# --- the decision


def test_the_word_that_is_held_against_the_threshold_has_the_gauge():
    panel = DecisionPanel()

    async def test(pilot: Pilot[None]) -> None:
        gauge = str(panel.query_one(Gauge).render())
        assert '"starts" (0.10)' in gauge and "threshold 1.00" in gauge and "nats" not in gauge
        assert said(panel, "#decision-verdict") == "reasoning towards the answer ..."
        panel.show(RUN[FIRST_DECISION - 2 : FIRST_DECISION + 1])
        assert '"22:00" (1.62)' in str(panel.query_one(Gauge).render())
        assert said(panel, "#decision-verdict") == "reasoning towards the answer ... (looked up once so far)"
        assert said(panel, "#decision-facts").split("\n") == [
            'look-up 1: at "22:00" (1.62)',
            'now "22:00": 1.62 against 1.00; entropy 2.30, first difference 1.90, second 1.70',
        ]
        panel.show(RUN[FIRST_DECISION + 1 :])
        assert said(panel, "#decision-verdict") == "looked up 2 times"
        assert said(panel, "#decision-reason") == "in the end: no word fires"

    drive(panel, RUN[: FIRST_DECISION - 2], test)


def test_the_end_of_a_chain_of_thought_reads_no_documents():
    panel = DecisionPanel()
    concluding = [number for number, e in enumerate(RUN) if isinstance(e, PromptBuilt)][-1]

    async def test(pilot: Pilot[None]) -> None:
        assert said(panel, "#decision-verdict") == "coming to the answer ... (looked up 2 times so far)"

    drive(panel, RUN[: concluding + 1], test)


def test_another_threshold_judges_no_word_anew():
    panel = DecisionPanel()

    async def test(pilot: Pilot[None]) -> None:
        panel.judge_at(0.05)
        assert said(panel, "#decision-what-if") == ""
        assert said(panel, "#decision-verdict") == "looked up 2 times"

    drive(panel, RUN, test)


def test_keys_and_clicks_say_that_a_trigger_cannot_be_moved():
    async def body() -> None:
        app = AdaptRAGApp(Launch(trace=tuple(RUN)))
        app.animation_level = "none"
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.press("G")
            await pilot.press("left_square_bracket")
            await pilot.click(Gauge, offset=(3, 1))
            await pilot.pause()
            main = app.screen
            assert isinstance(main, MainScreen)
            assert main.what_if.threshold is None
            assert main.what_if.changes == {}
            why = "a trigger cannot be moved afterwards: what was written after it depends on it; ask with --trigger"
            assert {n.message for n in app._notifications} == {why}

    asyncio.run(body())


def test_in_the_end_the_gauge_shows_the_last_word_though_the_last_call_was_not_watched():
    panel = DecisionPanel()
    second = place(QueryBuilt, 2)
    unwatched = [e for e in RUN[second:] if not isinstance(e, WordMeasured)]

    async def test(pilot: Pilot[None]) -> None:
        gauge = str(panel.query_one(Gauge).render())
        assert '"6:00" (2.00)' in gauge and "▼" in gauge
        assert said(panel, "#decision-facts").split("\n")[-1].startswith('last "6:00": 2.00 against 1.00')

    drive(panel, [*RUN[:second], *unwatched], test)


def test_a_drop_is_marked_by_its_size_where_sizes_count():
    panel = DecisionPanel()
    word = msgspec.structs.replace(
        next(e for e in RUN if isinstance(e, WordMeasured)), is_absolute=True, value=-0.5, threshold=1.0
    )

    async def test(pilot: Pilot[None]) -> None:
        assert panel.query_one(Gauge)._uncertainty == 0.5

    drive(panel, [*RUN[:8], word], test)


def test_before_the_first_look_up_no_path_claims_to_search_for_the_question():
    panel = PathsPanel()

    async def test(pilot: Pilot[None]) -> None:
        (shown,) = [column for column in panel.query(PathColumn) if column.display and column.region]
        assert shown.path == "reasoning"
        assert shown.text.is_empty
        assert "nothing was looked up yet" in [str(line.content) for line in shown.query(Static)]

    drive(panel, RUN[:3], test)


def test_a_selection_without_ais_does_not_name_it():
    panel = SelectionPanel()

    async def test(pilot: Pilot[None]) -> None:
        assert panel.border_title == "4 Selection"
        assert said(panel, "#selection-line").startswith("without AIS: by the query that was made of the text")
        panel.begin()
        panel.show(traces.retrieved())
        assert panel.border_title == "4 Selection (AIS)"

    drive(panel, RUN, test)


def test_tabs_are_named_as_their_panels():
    async def body() -> None:
        app = AdaptRAGApp(Launch(trace=tuple(RUN)))
        app.animation_level = "none"
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("G")
            await pilot.pause()
            labels = [tab.label_text for tab in app.screen.query(Tab)]
            assert labels == ["1 Chain of thought", "2 Decision", "3 Paths", "4 Selection", "5 Answer", "6 Timeline"]

    asyncio.run(body())


# --- the look-ups


def look_up(panel: Panel) -> tuple[str, str, list[str]]:
    """Head, query and places of the look-up that is shown."""
    look_ups = panel.query_one(LookUps)
    head, _, query, _ = (str(line.content) for line in look_ups.query(Static))
    found = look_ups.query_one(ChunkList).found
    return head, query.strip(), [chunk.location for chunk in found.chunks]


FIRST = (
    "look-up 1 of 2  sparse, 2 chunks",
    "quiet 0.41  time 0.35  starts 0.12",
    ["handbook.md:11-19", "handbook.md:31-39"],
)
SECOND = ("look-up 2 of 2  sparse, 2 chunks", "quiet 0.22  ends 0.50", ["handbook.md:21-29", "handbook.md:11-19"])


@pytest.mark.parametrize("size", [(76, 14), (120, 40)])
def test_keys_lead_from_one_look_up_to_the_next(size: tuple[int, int]):
    panel = PathsPanel()

    async def test(pilot: Pilot[None]) -> None:
        assert look_up(panel) == SECOND
        assert not any(column.display and column.region for column in panel.query(PathColumn))
        for key, then in (("p", FIRST), ("p", SECOND), ("left", FIRST), ("right", SECOND), ("right", FIRST)):
            await pilot.press(key)
            assert look_up(panel) == then

    drive(panel, RUN, test, size)


def test_the_newest_look_up_is_shown_until_the_person_goes_elsewhere():
    panel = PathsPanel()
    second = place(QueryBuilt, 2)

    async def test(pilot: Pilot[None]) -> None:
        assert look_up(panel)[0] == "look-up 1 of 1  sparse, 2 chunks"
        panel.show([RUN[second]])
        assert look_up(panel) == ("look-up 2 of 2", "quiet 0.22  ends 0.50", [])
        assert "not searched yet" in [str(line.content) for line in panel.query_one(LookUps).query(Static)]
        await pilot.press("p")
        panel.show(RUN[second + 1 :])
        assert look_up(panel) == FIRST

    drive(panel, RUN[:second], test)


def test_heavier_words_are_shaded_more_and_bold_without_colour():
    panel = PathsPanel()

    async def test(pilot: Pilot[None]) -> None:
        query = list(panel.query_one(LookUps).query(Static))[2].content
        styles = {query.plain[span.start : span.end]: str(span.style) for span in query.spans}
        assert styles["ends"].startswith("bold ")
        assert " on #" in styles["quiet"] and not styles["quiet"].startswith("bold")

    drive(panel, RUN, test)


def test_a_search_that_finds_nothing_says_so():
    panel = PathsPanel()
    events = [msgspec.structs.replace(e, chunks=()) if isinstance(e, PathRetrieved) else e for e in RUN]

    async def test(pilot: Pilot[None]) -> None:
        assert look_up(panel)[2] == []
        assert "nothing was found" in [str(line.content) for line in panel.query_one(LookUps).query(Static)]

    drive(panel, events, test)


def test_another_look_up_of_the_question_replaces_the_rounds():
    panel = PathsPanel()
    start = next(event for event in RUN if isinstance(event, RunStarted))
    again = [start, *traces.always()[1:3]]

    async def test(pilot: Pilot[None]) -> None:
        panel.show(again, consulted=False)
        await pilot.pause()
        assert not panel.query_one(LookUps).display
        assert [chunk.location for chunk in panel.query_one("PathColumn ChunkList", ChunkList).found.chunks] == [
            "handbook.md:11-19"
        ]

    drive(panel, RUN, test)


# --- the timeline


def test_each_call_and_each_look_up_is_a_row():
    panel = TimelinePanel()

    async def test(pilot: Pilot[None]) -> None:
        rows = [str(option.prompt).split() for option in panel.query_one(OptionList).options]
        assert [row[0] if row[0] in {"decide", "answer", "setup"} else " ".join(row[:2]) for row in rows] == [
            "reasoning 1",
            "decide",
            "look-up 1",
            "reasoning 2",
            "reasoning 3",
            "look-up 2",
            "reasoning 4",
            "reasoning 5",
            "answer",
            "setup",
        ]
        assert rows[2][-5:] == ["300", "ms", "2", "chunks", "found"]
        await pilot.press("down", "down", "down", "enter")
        (asked,) = pilot.app.asked
        assert isinstance(asked, PromptOpened)
        assert asked.prompt.chunk_ids == ("handbook.md#1", "handbook.md#3")  # of the second call

    drive(panel, RUN, test, (60, 16))


def test_the_call_that_writes_a_query_stands_with_its_look_up():
    panel = TimelinePanel()
    events: list[Event] = []
    for event in RUN:
        if isinstance(event, QueryBuilt):
            events += traces.written("search_query", "Which", " hour?", prompt_tokens=40 + len(events))
        events.append(event)
    asked = [event.tokens for event in events if isinstance(event, PromptBuilt) and event.phase == "search_query"]

    async def test(pilot: Pilot[None]) -> None:
        rows = [str(option.prompt).split() for option in panel.query_one(OptionList).options]
        assert [row[:2] for row in rows if row[0] not in {"reasoning", "answer", "setup", "decide"}] == [
            ["look-up", "1"],
            ["look-up", "2"],
        ]
        await pilot.press("down", "down", "enter", "down", "down", "down", "enter")
        assert [message.prompt.tokens for message in pilot.app.asked] == asked

    drive(panel, traces.stamped(events), test, (60, 16))


def test_a_single_call_has_no_number():
    panel = TimelinePanel()

    async def test(pilot: Pilot[None]) -> None:
        rows = [str(option.prompt).split()[:2] for option in panel.query_one(OptionList).options]
        assert rows[0] == ["reasoning", "900"]

    drive(panel, traces.certain_while_writing(), test)
