"""The panels of methods that ask in steps, and of those whose decisions are read from the model's states."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from textual.pilot import Pilot
from textual.widgets import Static

import traces
from adaptrag_cli.events import (
    Event,
    LayerLogits,
    ProbeMeasured,
    PromptBuilt,
    StepAnswered,
    StepDecided,
    SubQueryAsked,
    TokenGenerated,
)
from adaptrag_cli.tui.messages import ChunkOpened
from adaptrag_cli.tui.panels.base import Panel
from adaptrag_cli.tui.panels.decision import DecisionPanel
from adaptrag_cli.tui.panels.draft import DraftPanel
from adaptrag_cli.tui.panels.probe_rounds import ProbeRounds, drawn
from adaptrag_cli.tui.panels.step_tree import StepTree
from panel_host import PanelHost

STEPS, PROBED = traces.asked_in_steps(), traces.probed_twice()
LEGEND = "each layer: left retrieve, right stop; logits from {}"


def drive(
    panel: Panel,
    events: Sequence[Event],
    test: Callable[[Pilot[None]], Awaitable[None]],
    size: tuple[int, int] = (80, 24),
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


def rows(panel: Panel) -> list[str]:
    return [str(option.prompt) for option in panel.query_one(StepTree).options]


def before(kind: type[Event], count: int = 1) -> int:
    """The number of events before the `count`th event of a kind."""
    return [number for number, event in enumerate(STEPS) if isinstance(event, kind)][count - 1]


# --- probers


def probe(*logits: tuple[float | None, float | None], number: int = 0, theta: float = 0.0) -> ProbeMeasured:
    layers = tuple(LayerLogits(layer=8 + 2 * i, retrieve=r, stop=s) for i, (r, s) in enumerate(logits))
    sums = [None if None in values else sum(values) for values in zip(*logits, strict=True)] or [None, None]
    is_undefined = None in sums
    return ProbeMeasured(
        round=number,
        layers=layers,
        retrieve_score=sums[0],
        stop_score=sums[1],
        theta=theta,
        rule="logits",
        retrieve=is_undefined or sums[0] + theta > sums[1],
        is_undefined=is_undefined,
    )


def test_a_round_is_a_row_of_bars_with_sums_and_outcome():
    # from 0.00 to 1.75 in 8 levels: 1 + round(7 value / 1.75) = 1 + round(4 value)
    found = [probe((1.5, 0.5), (0.25, 0.5)), probe((0.0, 1.75), (0.0, 0.5), number=1, theta=-0.5)]
    lines = [line.rstrip() for line in drawn(found, 46, 4).plain.split("\n")]
    assert lines == [
        LEGEND.format("0.00 to 1.75"),
        "layer 8   10",
        "   0  ▇▃  ▂▃   1.75 > 1.00  look it up",
        "   1  ▁█  ▁▃   0.00 - 0.50 <= 2.25  stop",
    ]


def test_bars_grow_with_the_room_for_them():
    lines = [line.rstrip() for line in drawn([probe((2.0, 0.0), (1.0, 0.0))], 60, 24).plain.split("\n")]
    # levels of 24: 24 and 1; 1 + round(23 / 2) = 13 and 1
    assert lines[1:] == [
        "layer 8     10",
        "      ██",
        "      ██    ▅▅",
        "   0  ██▁▁  ██▁▁   3.00 > 0.00  look it up",
    ]


def test_the_higher_bar_has_its_colour():
    content = drawn([probe((1.5, 0.5), (0.25, 0.5))], 44, 3)
    styles = {content.plain[span.start : span.end]: str(span.style) for span in content.spans}
    assert styles["██"] == "bold $text-warning"
    assert styles["▁▁"] == "$foreground-muted"  # 0.25 against the 0.50 of the same layer
    assert styles["  look it up"] == "bold $text-warning"


def test_what_is_no_number_is_marked_and_looked_up():
    lines = [line.rstrip() for line in drawn([probe((None, 1.0), (0.0, 0.5))], 50, 3).plain.split("\n")]
    assert lines == [
        LEGEND.format("0.00 to 1.00; ?: no number"),
        "layer 8     10",
        "   0  ??██  ▁▁▅▅   no number  look it up",
    ]


def test_no_state_at_all_is_told():
    lines = drawn([probe()], 60, 3).plain.split("\n")
    assert lines[-1].split() == ["0", "no", "state", "to", "read", "look", "it", "up"]


def test_a_round_without_a_state_leaves_the_layers_named():
    lines = drawn([probe(), probe((1.0, 0.0), (1.0, 0.0), number=1)], 60, 4).plain.split("\n")
    assert lines[1].split() == ["layer", "8", "10"]


def test_many_layers_have_the_sums_below_and_too_many_are_counted():
    many = [probe(*[(1.0, 0.0)] * 24)]
    lines = [line.rstrip() for line in drawn(many, 40, 10).plain.split("\n")]
    assert lines[0:2] == [LEGEND.format("0.00 to 1.00"), "layer 22  26  30  34  38  42  46  50  54    (and 7 before)"]
    assert lines[-2:] == ["   0  " + "█▁" * 17, "      24.00 > 0.00  look it up"]


def test_low_panels_do_without_the_outcome_in_words():
    rounds = [probe(*[(1.0, 0.0)] * 8, number=number) for number in range(5)]
    lines = drawn(rounds, 51, 8).plain.split("\n")
    assert len(lines) == 7
    assert lines[-1] == "   4  " + "█▁  " * 8 + " 8.00 > 0.00"


def test_the_decision_panel_shows_every_round_as_it_comes():
    panel = DecisionPanel()
    second = [number for number, event in enumerate(PROBED) if isinstance(event, ProbeMeasured)][1]

    async def test(pilot: Pilot[None]) -> None:
        rounds = panel.query_one(ProbeRounds)
        assert rounds.display
        assert rounds.count == 1
        assert said(panel, "#decision-verdict") == "reasoning towards the answer ... (looked up once so far)"
        panel.show(PROBED[second:])
        await pilot.pause()
        shown = str(rounds.query_one(Static).content)
        assert "1.75 > 1.00  look it up" in shown
        assert "0.50 <= 1.75  stop" in shown
        assert said(panel, "#decision-verdict") == "looked up once"
        assert said(panel, "#decision-reason") == "in the end: the probers say stop: 0.50 <= 1.75"
        assert not panel.query_one("#decision-facts").display  # the look-ups stand beside the logits
        panel.begin()
        panel.show(traces.skipped())
        assert not rounds.display

    drive(panel, PROBED[:second], test)


# --- steps


def test_steps_are_a_tree_with_decision_chunks_and_answer():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        assert panel.border_title == "1 Steps"
        assert rows(panel) == [
            "1. When is quiet time?",
            "  ├ the model searches (log-odds +1.25)",
            "  ├ [1] handbook.md:11-19  Handbook > House rules",
            "  ├ [2] handbook.md:31-39  Handbook > House rules",
            "  └ -> 21:30",
            "2. Who wakes us?",
            "  ├ the model answers from memory (log-odds -2.00)",
            "  └ -> the rooster",
            "3. when is quiet time",
            "  └ asked before",
            "= 8 hours",
        ]

    drive(panel, STEPS, test)


def test_what_is_being_written_stands_where_it_will_be_told():
    panel = DraftPanel()
    asked, answered = before(SubQueryAsked, 2), before(StepAnswered, 2)

    async def test(pilot: Pilot[None]) -> None:
        assert rows(panel)[-1] == "... Follow up: Who wakes us?"
        panel.show(STEPS[asked : asked + 1])
        assert rows(panel)[-1] == "2. Who wakes us?"
        panel.show(STEPS[asked + 1 : answered - 2])
        assert rows(panel)[-2:] == ["  ├ the model answers from memory (log-odds -2.00)", "  └ -> the ..."]
        panel.show(STEPS[answered - 2 : answered + 1])
        assert rows(panel)[-1] == "  └ -> the rooster"

    drive(panel, STEPS[:asked], test)


def test_event_by_event_and_at_once_are_the_same_tree():
    at_once, stepwise = DraftPanel(), DraftPanel()
    shown = []

    async def look(pilot: Pilot[None]) -> None:
        shown.append(rows(at_once))

    async def step(pilot: Pilot[None]) -> None:
        for event in STEPS:
            stepwise.show([event])
        await pilot.pause()
        shown.append(rows(stepwise))

    drive(at_once, STEPS, look)
    drive(stepwise, [], step)
    assert shown[0] == shown[1]


def test_long_questions_wrap_beside_the_guides():
    panel = DraftPanel()
    long = "a very long question that takes two lines"
    events = [msgspec.structs.replace(e, text=long) if isinstance(e, SubQueryAsked) else e for e in STEPS]

    async def test(pilot: Pilot[None]) -> None:
        assert rows(panel)[0] == "1. a very long question that\n   takes two lines"
        assert rows(panel)[1] == "  ├ the model searches\n  │ (log-odds +1.25)"

    drive(panel, events, test, (32, 24))


def test_a_source_that_was_left_out_and_an_empty_answer_are_told():
    panel = DraftPanel()
    at = before(StepAnswered)
    emptied = msgspec.structs.replace(STEPS[at], text="", chunk_ids=("handbook.md#1",))

    async def test(pilot: Pilot[None]) -> None:
        assert rows(panel)[3:] == ["  ├ [2] handbook.md:31-39 (not read)  Handbook > House rules", "  └ -> (no answer)"]

    drive(panel, [*STEPS[:at], emptied], test)


def test_enter_opens_a_source_and_nothing_else():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        await pilot.press("enter", "down", "down", "enter")
        (asked,) = pilot.app.asked
        assert isinstance(asked, ChunkOpened)
        assert asked.chunk.chunk_id == "handbook.md#1"

    drive(panel, STEPS, test)


def test_a_method_that_thinks_and_searches_has_its_text_above_the_tree():
    panel = DraftPanel()
    thought = [
        msgspec.structs.replace(e, phase="reasoning") if isinstance(e, PromptBuilt | TokenGenerated) else e
        for e in STEPS[: before(StepDecided) + 1]
    ]

    async def test(pilot: Pilot[None]) -> None:
        assert panel.border_title == "1 Chain of thought"
        assert panel.query_one("TokenView").display
        assert panel.query_one(StepTree).display
        assert not panel.query_one("EntropyChart").display
        assert said(panel, "#draft-summary").startswith("2 tokens kept, 1 call")

    drive(panel, thought, test)


def test_another_run_forgets_the_steps():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        panel.begin()
        panel.show(traces.skipped())
        await pilot.pause()
        assert panel.border_title == "1 Draft"
        assert not panel.query_one(StepTree).display

    drive(panel, STEPS, test)


def test_the_decision_panel_lists_the_steps():
    panel = DecisionPanel()

    async def test(pilot: Pilot[None]) -> None:
        assert said(panel, "#decision-verdict") == (
            "answering what was asked ... (asked 2 questions and looked up 1 of them so far)"
        )
        panel.show(STEPS[before(StepAnswered, 2) :])
        assert said(panel, "#decision-verdict") == "asked 2 questions and looked up 1 of them"
        assert said(panel, "#decision-facts").split("\n") == [
            "step 1: the model searches (log-odds +1.25)",
            "step 2: the model answers from memory (log-odds -2.00)",
        ]

    drive(panel, STEPS[: before(StepAnswered, 2)], test)
