"""Two runs of one question, side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from textual.app import App
from textual.containers import VerticalScroll
from textual.widgets import Static

import traces
from adaptrag_cli.events import RunStarted, Setting
from adaptrag_cli.run_summary import RunSummary, fold
from adaptrag_cli.tui.screens.compare import CompareScreen


class Host(App[None]):
    """Opens the comparison."""

    def __init__(self, left: RunSummary, right: RunSummary, theme: str = "textual-dark") -> None:
        super().__init__()
        self.comparison = CompareScreen(left, right)
        self.is_closed = False
        self._look = theme

    def on_mount(self) -> None:
        self.theme = self._look
        self.push_screen(self.comparison, self._close)

    def _close(self, _: None) -> None:
        self.is_closed = True


def see(left: RunSummary, right: RunSummary, look: Callable[[Host], None], *keys: str) -> None:
    async def drive() -> None:
        host = Host(left, right)
        async with host.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            await pilot.press(*keys)
            await pilot.pause()
            look(host)

    asyncio.run(drive())


def said(host: Host, name: str) -> list[str]:
    return str(host.comparison.query_one(f"#{name}", Static).render()).splitlines()


def marked(host: Host, name: str) -> list[str]:
    content = host.comparison.query_one(f"#{name}", Static).visual
    return [content.plain[span.start : span.end] for span in content.spans if "underline" in str(span.style)]


def answering(answer: str) -> RunSummary:
    """A run of `always` whose answer is this."""
    run = fold(traces.always())
    return replace(run, finished=msgspec.structs.replace(run.finished, answer=answer))


def test_everything_of_both_runs_is_told():
    def look(host: Host) -> None:
        assert said(host, "left-head") == ["dtr"]
        assert said(host, "right-head") == ["always"]
        assert said(host, "left-decision") == ["looked it up: u = 0.57 > 0.30 (dtr, dense, 2 of 3 chunks) - 2.3 s"]
        assert said(host, "right-decision") == [
            "looked it up: every question is looked up (always, sparse, 1 of 1 chunks) - 0.9 s",
            "no answer in the documents: the answer is a guess: u = 1.20 > 0.80",
            "the guess was: 21:30",
        ]
        assert said(host, "left-answer") == ["21:30"]
        assert said(host, "right-answer") == ["The documents do not tell."]
        assert said(host, "left-sources") == [
            "both  [1] handbook.md:11-19  (s1 0.80, s2 0.96, AIS 0.60)",
            "only here  [2] handbook.md:21-29  (s1 0.60, s2 1.00, AIS 0.60)",
        ]
        assert said(host, "right-sources") == ["both  looked at [1] handbook.md:11-19  (s1 0.80)"]
        assert [line.split() for line in said(host, "left-cost")] == [
            ["LLM", "calls", "3"],
            ["searches", "2"],
            ["prompt", "tokens", "100"],
            ["of", "them", "reused", "0"],
            ["tokens", "written", "8"],
            ["seconds", "2.3"],
        ]

    see(fold(traces.retrieved()), fold(traces.unanswered()), look)


def test_words_that_the_other_answer_lacks_are_marked_and_counted():
    left, right = answering("Quiet time is 21:30, on weekdays."), answering("quiet time is at 22:30 on weekdays")

    def look(host: Host) -> None:
        assert marked(host, "left-answer") == ["21:30,"]
        assert marked(host, "right-answer") == ["at 22:30"]
        assert said(host, "difference") == ["Marked so: what the other answer lacks (1 of 6 words left, 2 of 7 right)."]
        assert marked(host, "difference") == ["so"]

    see(left, right, look)


def test_the_same_words_are_called_the_same():
    def look(host: Host) -> None:
        assert said(host, "difference") == ["Both answers are the same, word by word."]
        assert marked(host, "left-answer") == marked(host, "right-answer") == []

    see(answering("Quiet time."), answering("quiet time"), look)


def test_one_strategy_twice_is_told_apart_by_its_settings():
    def with_threshold(value: float) -> RunSummary:
        events = [
            msgspec.structs.replace(e, settings=(Setting(name="threshold", value=value, origin="x"), e.settings[1]))
            if isinstance(e, RunStarted)
            else e
            for e in traces.skipped()
        ]
        return fold(events)

    def look(host: Host) -> None:
        assert said(host, "left-head") == ["dtr, threshold 0.3"]
        assert said(host, "right-head") == ["dtr, threshold 0.01"]
        assert said(host, "left-sources") == [
            "not consulted: handbook.md:11-19 (s1 0.71); to consult it: --strategy always"
        ]

    see(with_threshold(0.3), with_threshold(0.01), look)


def test_a_side_is_filled_while_it_runs():
    events = traces.always()

    async def drive() -> None:
        host = Host(fold(traces.retrieved()), fold(events[:1]))
        async with host.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            assert said(host, "right-head") == ["always (running...)"]
            assert said(host, "right-decision") == ["not made yet"]
            assert not host.comparison.query_one("#difference").display
            host.comparison.update("right", fold(events[:7]))
            await pilot.pause()
            assert said(host, "right-decision") == ["every question is looked up"]
            assert said(host, "right-answer") == ["21:30"]
            assert said(host, "left-sources")[0].startswith("[1]")  # whether the other has it is not known yet
            host.comparison.update("right", fold(events))
            await pilot.pause()
            assert said(host, "right-head") == ["always"]
            assert said(host, "difference") == ["Both answers are the same, word by word."]
            assert said(host, "left-sources")[0].startswith("both")

    asyncio.run(drive())


def test_a_failed_side_tells_why():
    def look(host: Host) -> None:
        assert said(host, "right-head") == ["dtr, style short"]
        assert said(host, "right-decision") == ["failed: the model broke", "adaptrag doctor"]
        assert said(host, "right-answer") == ["none"]
        assert not host.comparison.query_one("#difference").display

    see(fold(traces.cited()), fold(traces.failed()), look)


@pytest.mark.parametrize("key", ["escape", "c"])
def test_it_closes(key):
    def look(host: Host) -> None:
        assert host.is_closed

    see(fold(traces.always()), fold(traces.retrieved()), look, key)


def test_long_answers_stay_side_by_side_and_scroll_together():
    def look(host: Host) -> None:
        left, right = (host.comparison.query_one(f"#{side}-answer") for side in ("left", "right"))
        assert left.region.y == right.region.y < 0
        assert left.region.right <= right.region.x < right.region.right <= 80
        body = host.comparison.query_one(VerticalScroll)
        assert body.scroll_y == body.max_scroll_y > 0

    see(answering("word " * 300), answering("[bold]other[/bold] \x1b[31m" * 100), look, "end")


def test_markup_and_escape_sequences_are_shown():
    def look(host: Host) -> None:
        assert said(host, "left-answer") == ["[red]x[/red] \\x1b[31my"]

    see(answering("[red]x[/red] \x1b[31my"), answering("z"), look)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["small", "large"])
def test_looks(size, snap_compare, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR")
    assert snap_compare(Host(fold(traces.cited()), fold(traces.always())), terminal_size=size)


def test_looks_of_a_running_side_in_a_light_theme(snap_compare, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR")
    host = Host(fold(traces.retrieved()), fold(traces.always()[:5]), "textual-light")
    assert snap_compare(host, terminal_size=(80, 24))
