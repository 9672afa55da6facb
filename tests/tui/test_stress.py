"""A very long text on the whole screen: keys are answered all the while, and a batch costs no more late than early."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator

import msgspec
import pytest
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

import traces
from adaptrag_cli.events import Event, PromptBuilt, TokenGenerated
from adaptrag_cli.service.protocol import AnyReply, AnyRequest, Cancel, Told
from adaptrag_cli.tui.app import AdaptRAGApp
from adaptrag_cli.tui.launch import Launch
from adaptrag_cli.tui.panels import entropy_chart
from adaptrag_cli.tui.panels.token_view import TokenView
from adaptrag_cli.tui.screens.help import HelpScreen
from driving import QUERY, Driven, drive

TOKENS, BATCH = 4_000, 100
LOOK_UPS = 4
EARLY, LATE = slice(11, 23), slice(29, 41)
"""Batches that are compared: each panel is in front as often. Before the first of them the chart still gets wider, and
all look-ups are made."""


def token(phase: str, step: int) -> TokenGenerated:
    return TokenGenerated(
        phase=phase,
        step=step,
        text=f" word{step % 7}" if step % 50 else "\n",
        logprob=-0.5,
        entropy=(step * 37 % 50) / 10,
        alternatives=(),
    )


def long_draft() -> Iterator[list[Event]]:
    yield [traces.started(), PromptBuilt(phase="draft", text="prompt", tokens=20)]
    for start in range(0, TOKENS, BATCH):
        yield [token("draft", step) for step in range(start, start + BATCH)]


def long_chain_of_thought() -> Iterator[list[Event]]:
    """Each batch ends with words that were watched; the first ones are calls, each cut and looked up."""
    prompt = PromptBuilt(phase="reasoning", text="prompt", tokens=20)
    yield [traces.started("etc"), prompt]
    first = 0
    for number, start in enumerate(range(0, TOKENS, BATCH)):
        steps = range(start - first, start - first + BATCH)
        words = ((step, "word", 0.5, 0.1, step % 7 / 10 - 0.3, step % 9 / 10) for step in steps[::5])
        yield [*(token("reasoning", step) for step in steps), *traces.watched(*words)]
        if number < LOOK_UPS:
            cut = steps[-3]
            yield [*traces.looked_up_at("word", 1.2, cut, "discarded", ("quiet", 0.4), found=((1, 9.5),)), prompt]
            first = start + BATCH


def stamped(batches: Iterator[list[Event]]) -> Iterator[list[Event]]:
    numbers = itertools.count()
    for events in batches:
        yield [msgspec.structs.replace(e, seq=(n := next(numbers)), elapsed_ms=50.0 * n) for e in events]


class Mute:
    """An engine that takes every request and says nothing: the test speaks for it."""

    def __init__(self) -> None:
        self.requests: list[AnyRequest] = []
        self._closed = threading.Event()

    def send(self, request: AnyRequest) -> None:
        self.requests.append(request)

    def batches(self) -> Iterator[list[AnyReply]]:
        self._closed.wait()
        yield from ()

    def last_words(self) -> str:
        return ""

    def close(self) -> None:
        self._closed.set()


def calls_of(work: Callable[[], None]) -> int:
    """How many functions the work calls: a measure that no other process disturbs."""
    calls = 0

    def count(frame: object, what: str, argument: object) -> None:
        nonlocal calls
        calls += what in {"call", "c_call"}

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lines that widgets were asked to draw."""
    lines: list[int] = []
    render_lines = Widget.render_lines

    def counting(widget: Widget, crop: Region) -> list[Strip]:
        lines.append(crop.height)
        return render_lines(widget, crop)

    monkeypatch.setattr(Widget, "render_lines", counting)
    return lines


@pytest.fixture
def chart_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which each batch comes a second after the last, so that none of them waits to be drawn."""
    ticks = itertools.count(1.0)
    monkeypatch.setattr(entropy_chart, "monotonic", lambda: next(ticks))


@pytest.mark.usefixtures("chart_drawn_at_once")
@pytest.mark.parametrize("run", [long_draft, long_chain_of_thought])
def test_four_thousand_tokens_leave_keys_and_cost_as_they_were(run, drawn: list[int]):
    async def body() -> None:
        engine = Mute()
        app = AdaptRAGApp(Launch(question=QUERY), start_engine=lambda: engine)
        app.animation_level = "none"
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.pause()
            it = Driven(app, pilot, [])
            job = engine.requests[-1].job
            calls, lines = [], []
            for number, events in enumerate(stamped(run())):
                told = [Told(job=job, event=event) for event in events]
                drawn.clear()
                calls.append(calls_of(lambda told=told: it.main.receive(told)))
                await pilot.pause()
                lines.append(sum(drawn))
                await press(it, number)
            assert len(tokens_of(it).tokens) == TOKENS
            assert sum(calls[LATE]) <= 1.05 * sum(calls[EARLY])
            assert sum(lines[LATE]) <= 1.1 * sum(lines[EARLY])
            assert it.main.desk.is_busy  # it was written until the end
            await pilot.press("escape")
            assert engine.requests[-1] == Cancel(job=job)

    drive(body())


def tokens_of(it: Driven) -> TokenView:
    return it.main._deck.panel(1).query_one(TokenView)


async def press(it: Driven, number: int) -> None:
    """Press keys that a person might, and see that they do what they do."""
    panel = it.main._deck.panel(number % 6 + 1)
    await it.pilot.press(str(panel.number))
    await it.pilot.pause()
    assert it.main._deck.front is panel
    if panel.number == 1 and number:
        view = tokens_of(it)
        await it.pilot.press("home")
        assert view.step == 0
        await it.pilot.press("end")
        assert view.step == len(view.tokens) - 1
    elif number == 19:  # the second panel is in front, which has nothing to focus
        await it.pilot.press("question_mark")
        await it.pilot.pause()
        assert isinstance(it.app.screen, HelpScreen)
        await it.pilot.press("escape")
        await it.pilot.pause()
        assert it.app.screen is it.main
