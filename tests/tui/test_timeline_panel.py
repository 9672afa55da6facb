"""Panel 6, fed with hand-made runs: what was done, how long it took, what it cost, and the prompts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import pytest
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.widgets import OptionList, Static

import traces
from adaptrag_cli.events import (
    Counts,
    Event,
    GenerationFinished,
    GenerationReused,
    PromptBuilt,
    RunFailed,
    RunFinished,
    Setting,
    StageTime,
    TokenGenerated,
)
from adaptrag_cli.tui.messages import PromptOpened
from adaptrag_cli.tui.panels.timeline import TimelinePanel
from panel_host import PanelHost

TAB, SMALL, ROOMY = (80, 16), (59, 11), (66, 28)


def on(
    events: Sequence[Event],
    body: Callable[[PanelHost, Pilot[None]], Awaitable[None]],
    *,
    size: tuple[int, int] = TAB,
) -> None:
    async def run() -> None:
        host = PanelHost(TimelinePanel(), events)
        async with host.run_test(size=size) as pilot:
            await pilot.pause()
            await body(host, pilot)

    asyncio.run(run())


def said(events: Sequence[Event], *, size: tuple[int, int] = TAB) -> tuple[str, list[str]]:
    """The line of totals, and the rows under their heading."""
    found: list[tuple[str, list[str]]] = []

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        found.append((total(host), [heading(host), *rows(host)]))

    on(events, body, size=size)
    return found[0]


def total(host: PanelHost) -> str:
    return str(host.panel.query_one("#timeline-total", Static).content)


def heading(host: PanelHost) -> str:
    return str(host.panel.query_one("#timeline-head", Static).content)


def rows(host: PanelHost) -> list[str]:
    return [str(option.prompt).rstrip() for option in host.panel.query_one(OptionList).options]


def setup(host: PanelHost) -> list[str]:
    return str(host.panel.query_one("#timeline-setup", Static).content).split("\n")


def timed(run: list[Event], **times: float) -> list[Event]:
    """The run with these times of its stages, and a cost."""
    timings = tuple(StageTime(stage=stage, ms=ms) for stage, ms in times.items())
    counts = Counts(llm_calls=3, searches=2, prompt_tokens=1234, reused_tokens=1100, generated_tokens=56)
    return [*run[:-1], msgspec.structs.replace(run[-1], timings=timings, counts=counts)]


# --- rows and totals


def test_says_why_it_is_empty():
    assert said([]) == ("no run yet", [""])


def test_a_finished_run_shows_the_times_and_counts_it_was_told():
    run = timed(
        traces.retrieved(),
        setup=12.0,
        draft=2_000.0,
        decide=0.2,
        pseudo_context=4_000.0,
        search_query=80.0,
        search_pseudo_context=60.0,
        select=3.0,
        answer=12_345.0,
        judge=1.0,
    )
    # Two tokens 100 ms apart are ten a second, and the bars are 6 cells for the longest: 48 eighths.
    assert said(run) == (
        "2.3 s, 3 LLM calls, 2 searches, 1,234 prompt tokens, 56 written",
        [
            "stage                       time         tok/s prompt reused written  ended",
            "draft                      2.0 s  █       10.0     20      4       2  end",
            "decide                      0 ms  ▏",
            "pseudo-context             4.0 s  ██      10.0     20      4       4  end",
            "search by query            80 ms  ▏",
            "search by pseudo-context   60 ms  ▏",
            "select                      3 ms  ▏",
            "answer                    12.3 s  ██████  10.0     60      4       2  end",
            "judge                       1 ms  ▏",
            "setup                      12 ms  ▏",
        ],
    )


HEAD = "stage                       time         tok/s prompt reused written  ended"


@pytest.mark.parametrize(
    ("run", "lines"),
    [
        (
            traces.pairs()[:22],
            [
                "draft                     500 ms  ████▎   10.0     20      4       3  end",
                "pseudo-context            700 ms  ██████  10.0     20      4       4  end",
                "second draft              500 ms  ████▎   10.0     20      4       3  end",
                "agreement                 100 ms  ▉         they differ (exact 0.00)",
                "decide                    100 ms  ▉",
                "search by query           100 ms  ▉",
                "search by pseudo-context  100 ms  ▉",
            ],
        ),
        (
            traces.rerank()[:5],
            [
                "decide                    100 ms  ██████",
                "search by query           100 ms  ██████",
                "reranking                 100 ms  ██████               2 chunks read",
                "select                    100 ms  ██████",
            ],
        ),
        (
            traces.verify()[17:23],
            [
                "select                     1.7 s  ██████",
                "answer                    400 ms  █▍      10.0     20      4       2  end",
                "weighing                  100 ms  ▍       draft 0.34, documents 0.61",
            ],
        ),
        (
            traces.thinking_aloud()[1:9],
            [
                "decide                    100 ms  █",
                "rationale                 600 ms  ██████  10.0     20      4       4  end",
                "search, expanded          100 ms  █",
            ],
        ),
        (
            traces.judge()[1:7],
            [
                "judge                     500 ms  ██████  10.0     20      4       3  end",
                "decide                    100 ms  █▎",
            ],
        ),
    ],
    ids=["pairs", "rerank", "verify", "rationale", "judge"],
)
def test_each_kind_of_step_has_its_row(run: list[Event], lines: list[str]):
    assert said(run)[1] == [HEAD, *lines]


def test_calls_of_a_reranker_count():
    run = traces.rerank()
    assert said([run[0], *run[2:5]])[0] == "so far: 0.4 s, 2 LLM calls, 1 search, 120 prompt tokens, 0 written"


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (82, "2.3 s, 3 LLM calls, 2 searches, 1,234 prompt tokens (1,100 reused), 56 written"),
        (81, "2.3 s, 3 LLM calls, 2 searches, 1,234 prompt tokens, 56 written"),
        (67, "2.3 s, 3 LLM calls, 2 searches, 1,234 prompt tokens, 56 written"),
        (66, "2.3 s, 3 LLM calls, 2 searches, 1,234 tokens in, 56 out"),
    ],
)
def test_the_totals_take_one_line(width: int, line: str):
    # 78, 63 and 55 cells; the box takes 4.
    assert said(timed(traces.retrieved()), size=(width, 16))[0] == line


def test_a_run_that_ends_is_shown_from_its_beginning():
    run = traces.retrieved()

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        table = host.panel.query_one(OptionList)
        assert table.scroll_offset.y > 0
        host.panel.show(run[-1:])
        await pilot.pause()
        assert table.scroll_offset.y == 0

    answer = next(i for i, event in enumerate(run) if isinstance(event, PromptBuilt) and event.phase == "answer")
    on(run[: answer + 1], body, size=(59, 8))


def test_a_run_that_ends_before_it_was_drawn_is_shown_from_its_beginning():
    run = traces.retrieved()
    answer = next(i for i, event in enumerate(run) if isinstance(event, PromptBuilt) and event.phase == "answer")

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        host.panel.show(run[: answer + 1])
        host.panel.show(run[answer + 1 :])
        await pilot.pause()
        table = host.panel.query_one(OptionList)
        assert (table.scroll_offset.y, table.max_scroll_y) == (0, 1)

    on([], body, size=(60, 12))


def test_time_that_belongs_to_no_stage_is_shown_where_there_is_any():
    assert said(timed(traces.never(), draft=300.0, decide=1.0, setup=0.4))[1][-1].startswith("decide")
    assert said(timed(traces.never(), draft=300.0, decide=1.0, setup=0.6))[1][-1].startswith("setup")


def test_a_strategy_shows_only_its_own_stages():
    assert [row.split()[0] for row in said(traces.always())[1]] == [
        "stage", "decide", "search", "select", "answer", "judge", "draft", "setup"
    ]  # fmt: skip


def test_a_narrow_box_gives_up_the_bar_and_what_ended_a_call():
    _, lines = said(timed(traces.retrieved(), draft=300.0), size=SMALL)
    assert lines[:2] == [
        "stage               time  tok/s prompt reused written",
        "draft             300 ms   10.0     20      4       2",
    ]
    assert lines[5].startswith("search by pseud…  ")
    assert max(map(len, lines)) <= SMALL[0] - 4


def test_a_large_box_has_longer_bars():
    _, lines = said(timed(traces.never(), draft=400.0, decide=100.0, setup=5.0), size=(200, 60))
    assert [line.count("█") for line in lines] == [0, 40, 10, 0]


def test_what_ended_a_call_is_told():
    run = traces.never()
    at = next(i for i, event in enumerate(run) if isinstance(event, GenerationFinished))
    run[at] = msgspec.structs.replace(run[at], stop_reason="length")
    assert said(run)[1][1].endswith("  length")


def test_a_text_that_was_replayed_has_no_rate():
    run = traces.retrieved()
    first, second, *_ = (i for i, event in enumerate(run) if isinstance(event, TokenGenerated))
    assert said(run)[1][1].endswith("  10.0     20      4       2  end")
    run[second] = msgspec.structs.replace(run[second], elapsed_ms=run[first].elapsed_ms + 0.1)
    assert said(run)[1][1].endswith("            20      4       2  end")


def test_a_text_that_was_handed_in_says_so():
    run = traces.retrieved()
    draft = next(i for i, event in enumerate(run) if isinstance(event, PromptBuilt))
    done = next(i for i, event in enumerate(run) if isinstance(event, GenerationFinished))
    run[draft] = GenerationReused(seq=run[draft].seq, elapsed_ms=run[draft].elapsed_ms, phase="draft", text="10 pm")
    del run[done]
    lines = said(run)[1]
    assert lines[1].startswith("draft") and lines[1].endswith("handed in: not written again")


# --- while it runs


def test_the_stage_in_work_is_marked_and_what_there_is_is_counted():
    run = traces.retrieved()
    answer = next(i for i, event in enumerate(run) if isinstance(event, PromptBuilt) and event.phase == "answer")

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        told = []
        for event in run[: answer + 3]:
            host.panel.show([event])
            told.append([row.split()[0] for row in rows(host) if " ... " in row])
        assert [marks for i, marks in enumerate(told) if i == 0 or marks != told[i - 1]] == [
            [], ["draft"], [], ["pseudo-context"], [], ["answer"]
        ]  # fmt: skip
        # Calls that were begun: prompts of 20, 20 and 60 tokens; 2, 4 and 2 tokens were written.
        assert total(host) == "so far: 2.0 s, 3 LLM calls, 2 searches, 100 prompt tokens, 8 written"
        # Prompt and two tokens, 100 ms each: the prompt's time is not the tokens'.
        assert rows(host)[-2].split() == ["answer", "...", "300", "ms", "██▋", "10.0", "60", "2"]

    on([], body)


def test_batches_do_not_matter():
    run = traces.cited()

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        whole = total(host), rows(host)
        for size in (1, 2, 7):
            host.panel.begin()
            for start in range(0, len(run), size):
                host.panel.show(run[start : start + size])
            assert (total(host), rows(host)) == whole

    on(run, body)


def test_a_run_that_failed_says_after_how_long():
    assert said(traces.failed())[0] == "failed after 0.3 s, 1 LLM call, 0 searches, 20 prompt tokens, 1 written"


def test_a_failure_before_the_run_began_is_nothing_to_time():
    assert said([RunFailed(error="EngineEnded", message="gone", hint="", exit_code=4)])[0] == "no run yet"


def test_what_is_looked_up_beside_the_run_is_not_of_its_time():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        before = total(host), rows(host)
        host.panel.show([traces.started(), *traces.two_paths()], consulted=False)
        assert (total(host), rows(host)) == before

    on(traces.skipped(), body)


def test_begin_forgets_everything():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        host.panel.begin()
        await pilot.pause()
        assert (total(host), rows(host), setup(host)) == ("no run yet", [], [""])

    on(traces.retrieved(), body, size=ROOMY)


def test_four_thousand_tokens_are_one_row():
    tokens = [
        TokenGenerated(phase="draft", step=n, text="a", logprob=-1.0, entropy=1.0, elapsed_ms=1_000.0 + 10.0 * n)
        for n in range(4_000)
    ]

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        for start in range(0, 4_000, 100):
            host.panel.show(tokens[start : start + 100])
        assert rows(host)[0].split()[-3:] == ["100.0", "3", "4,000"]

    on([traces.started(), PromptBuilt(phase="draft", text="p", tokens=3)], body)


# --- prompts


def opened(events: Sequence[Event], *keys: str) -> list[str]:
    found: list[str] = []

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        await pilot.press(*keys)
        await pilot.pause()
        assert all(isinstance(message, PromptOpened) for message in host.asked)
        found.extend(message.prompt.text for message in host.asked)

    on(events, body)
    return found


def test_enter_opens_the_prompt_of_a_call():
    run = traces.retrieved()
    assert opened(run, "enter") == ["prompt of draft"]
    assert opened(run, "down", "down", "enter") == ["prompt of pseudo_context"]
    assert opened(run, *["down"] * 6, "enter") == ["prompt of answer"]


def test_a_stage_without_a_prompt_opens_nothing():
    assert opened(traces.retrieved(), "down", "enter") == []


def test_the_last_prompt_of_a_phase_is_the_one_that_opens():
    again = PromptBuilt(phase="draft", text="another prompt", tokens=5)
    assert opened([traces.started(), *traces.written("draft", "a"), again], "enter") == ["another prompt"]


def test_the_stage_in_work_stays_in_sight_until_somebody_moves():
    run = traces.retrieved()
    answer = next(i for i, event in enumerate(run) if isinstance(event, PromptBuilt) and event.phase == "answer")

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        table = host.panel.query_one(OptionList)
        assert table.scroll_offset.y == table.max_scroll_y > 0
        await pilot.press("down")
        table.scroll_home(animate=False, immediate=True)
        host.panel.show(run[answer + 1 : answer + 2])
        await pilot.pause()
        assert (table.highlighted, table.scroll_offset.y) == (1, 0)

    on(run[: answer + 1], body, size=SMALL)


def test_every_row_can_be_reached_in_a_small_box():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        await pilot.press("end")
        await pilot.pause()
        table = host.panel.query_one(OptionList)
        assert table.highlighted == len(rows(host)) - 1
        assert table.region.bottom <= host.panel.content_region.bottom
        screen = "\n".join("".join(s.text for s in line) for line in host.screen._compositor.render_strips())
        assert "setup" in screen and "draft  " not in screen

    on(traces.retrieved(), body, size=SMALL)


# --- what it was set up with


def test_a_large_box_shows_the_set_up_below_the_stages():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert host.panel.query_one("#timeline-details").display
        assert setup(host) == [
            "strategy    dtr",
            "model       qwen2.5-coder-0.5b-instruct (sha256:0123456789ab)",
            "context     4,096 tokens, 2 threads",
            "GPU layers  auto -> 0: this build of llama.cpp cannot offload",
            "index       handbook (g1:0123456789ab)",
            "entropy     over the whole vocabulary",
            "adaptrag    0.1.0",
            "threshold   0.3  (measured for this model)",
            "style       short  (default of dtr)",
            "paths       both  (default of dtr)",
        ]

    on(traces.retrieved(), body, size=ROOMY)


def test_in_a_small_box_a_key_shows_it_instead_of_the_stages():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        table, details = host.panel.query_one(OptionList), host.panel.query_one("#timeline-details", VerticalScroll)
        assert table.display and not details.display
        await pilot.press("d")
        await pilot.pause()
        assert details.display and not table.display
        assert setup(host)[4:6] == ["GPU layers  auto -> 0: this build of llama.cpp cannot", "            offload"]
        await pilot.press("end")
        await pilot.pause()
        assert details.is_vertical_scroll_end and details.max_scroll_y > 0
        await pilot.press("d", "down", "down", "enter")
        await pilot.pause()
        assert table.display and [message.prompt.phase for message in host.asked] == ["pseudo_context"]

    on(traces.retrieved(), body, size=SMALL)


def test_a_run_without_an_index_says_so():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert "index         none" in setup(host)

    on(traces.never(), body, size=ROOMY)


def test_text_from_elsewhere_is_plain():
    start = msgspec.structs.replace(
        traces.started(),
        settings=(Setting(name="[b]style", value="\x1b[2J", origin="[i]x"),),
        index="[red]i\x1b",
    )
    end = msgspec.structs.replace(
        traces.finished("", "draft"), timings=(StageTime(stage="[b]odd\x1b[2J", ms=5.0),), elapsed_ms=100.0
    )

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert rows(host)[0].startswith("[b]odd\\x1b[2J ")
        assert "index       [red]i\\x1b (g1:0123456789ab)" in setup(host)
        assert "[b]style    \\x1b[2J  ([i]x)" in setup(host)

    on([start, end], body, size=ROOMY)


# --- looks


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_looks(snap_compare, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]):
    monkeypatch.delenv("NO_COLOR", raising=False)
    times = {"draft": 1_800.0, "decide": 0.4, "pseudo_context": 5_200.0, "search_query": 95.0, "answer": 8_400.0}
    run = timed(traces.retrieved(), **times)
    assert snap_compare(PanelHost(TimelinePanel(), run), terminal_size=size)


def test_looks_while_it_runs_in_a_small_box_of_a_light_theme(snap_compare, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    run = traces.retrieved()
    host = PanelHost(TimelinePanel(), run[: next(i for i, e in enumerate(run) if isinstance(e, RunFinished)) - 3])
    host.theme = "textual-light"
    assert snap_compare(host, terminal_size=SMALL)


def test_looks_of_the_set_up_without_colour(snap_compare, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(PanelHost(TimelinePanel(), traces.retrieved()), press=["d"], terminal_size=(80, 16))
