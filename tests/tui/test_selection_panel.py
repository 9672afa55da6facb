"""Panel 4, fed with hand-made runs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import pytest
from textual.coordinate import Coordinate
from textual.pilot import Pilot
from textual_hires_canvas import Canvas

import traces
from adaptrag_cli.events import (
    Candidate,
    ChunksSelected,
    DecisionMade,
    Event,
    RunFailed,
    RunStarted,
    Scalar,
    Setting,
    TokenGenerated,
)
from adaptrag_cli.tui.messages import ChunkOpened, SelectionChanged
from adaptrag_cli.tui.panels.candidate_table import CandidateTable
from adaptrag_cli.tui.panels.plane import PlanePicture
from adaptrag_cli.tui.panels.selection import SelectionPanel
from panel_host import PanelHost

WIDE, TALL, NARROW, SMALLEST = (120, 30), (70, 30), (76, 14), (32, 14)
THETA_0 = math.radians(60)
DIRECTIONS = ((1, 30, 0.9), (2, 50, 0.95), (3, 10, 0.7), (4, -20, 0.6), (5, 80, 0.5), (6, 30, 0.3))
"""Number of a chunk, its direction in the plane in degrees, and how much of it lies in the plane."""


def screen_of(host: PanelHost) -> str:
    lines = host.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in line) for line in lines).replace("\u00a0", " ")


def on(
    events: Sequence[Event],
    body: Callable[[PanelHost, Pilot[None]], Awaitable[None]],
    *,
    size: tuple[int, int] = WIDE,
    consulted: bool = True,
) -> None:
    async def run() -> None:
        host = PanelHost(SelectionPanel(), events, consulted=consulted)
        async with host.run_test(size=size) as pilot:
            await pilot.pause()
            await body(host, pilot)

    asyncio.run(run())


def head(**settings: Scalar) -> RunStarted:
    values = {"top_k": 2, "top_n": 5, "ais": "cos", "retriever": "dense", **settings}
    rows = tuple(Setting(name=name, value=value, origin="default of dtr") for name, value in values.items())
    return msgspec.structs.replace(traces.started(), settings=rows)


def chunk(number: int, rank: int, degrees: float, share: float, *, kept: bool) -> Candidate:
    angle = math.radians(degrees)
    s1, s2 = share * math.cos(angle), share * math.cos(THETA_0 - angle)
    paths = (("query",), ("pseudo_context",), ("query", "pseudo_context"))[number % 3]
    return traces.scored(number, rank, s1, s2, kept=kept, paths=paths)


def selected(*numbers: int, k: int = 2, score: str = "cos") -> ChunksSelected:
    """These chunks in this order; the first k are kept."""
    known = {number: (number, degrees, share) for number, degrees, share in DIRECTIONS}
    rows = [
        chunk(known[number][0], rank, *known[number][1:], kept=rank <= k)
        for rank, number in enumerate(numbers, start=1)
    ]
    return ChunksSelected(
        score_name=score,
        query_pseudo_similarity=math.cos(THETA_0),
        query_weight=0.516 if score == "dynamic" else None,
        candidates=tuple(rows),
    )


YES = DecisionMade(retrieve=True, uncertainty=0.57, threshold=0.3, reason="the draft is uncertain")
ALL = selected(2, 1, 3, 4, 5, 6)
RUN = (head(), YES, ALL)


def column(host: PanelHost, key: str) -> list[str]:
    return [cell.plain.strip() for cell in host.query_one(CandidateTable).get_column(key)]


def ordered(host: PanelHost, key: str) -> list[str]:
    table = host.query_one(CandidateTable)
    at = table.get_column_index(key)
    return [table.get_cell_at(Coordinate(row, at)).plain.strip() for row in range(table.row_count)]


def test_every_number_of_a_candidate_stands_in_its_row():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        # Chunk 1 lies in the middle: s1 = s2 = 0.9 cos 30 = 0.779, 38.8 degrees, cos 77.6 = 0.215.
        (row,) = (line for line in screen_of(host).splitlines() if "handbook.md:11-19" in line)
        assert row.split()[1:10] == ["✓", "2", "0.779", "0.779", "38.8", "38.8", "0.215", "p", "handbook.md:11-19"]
        assert "AIS cos(θ1 + θ2)   θ0 = 60.0°   k = 2 of 6   n = 5   dense" in screen_of(host)
        assert column(host, "mark") == ["✓", "✓", "", "", "", ""]
        assert column(host, "path") == ["both", "p", "q", "p", "both", "q"]

    on(RUN, body)


def test_the_table_sorts_by_each_column_and_back():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert ordered(host, "rank") == ["1", "2", "3", "4", "5", "6"]
        await pilot.press("o")
        assert ordered(host, "s1") == sorted(ordered(host, "s1"), reverse=True)
        assert "s1▼" in screen_of(host)
        await pilot.press("x")
        assert ordered(host, "s1") == sorted(ordered(host, "s1"))
        await pilot.press(*"oo")
        assert ordered(host, "theta1") == sorted(ordered(host, "theta1"), key=float)
        await pilot.press(*"oooo")
        assert ordered(host, "place") == [f"handbook.md:{10 * n + 1}-{10 * n + 9}" for n in range(1, 7)]
        await pilot.press("o")
        assert ordered(host, "rank") == ["1", "2", "3", "4", "5", "6"]

    on(RUN, body)


def test_a_click_on_a_header_sorts_and_a_second_one_reverses():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        await pilot.click(CandidateTable, offset=(11, 0))
        assert "s1▼" in screen_of(host)
        await pilot.click(CandidateTable, offset=(11, 0))
        assert "s1▲" in screen_of(host)

    on(RUN, body)


def test_enter_opens_the_chunk_of_the_row_however_it_is_sorted():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        await pilot.press("down", "enter", "x", "enter", "up", "enter")
        opened = [message.chunk.chunk_id for message in host.asked if isinstance(message, ChunkOpened)]
        assert opened == ["handbook.md#1", "handbook.md#1", "handbook.md#3"]  # the cursor stays on its chunk

    on(RUN, body)


def test_keys_ask_for_another_selection():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        await pilot.press(*"kKnNar")
        assert [message.changes for message in host.asked if isinstance(message, SelectionChanged)] == [
            {"ask.top_k": 1},
            {"ask.top_k": 3},
            {"ask.top_n": 4},
            {"ask.top_n": 6},
            {"ask.ais": "sum"},
            {"ask.retriever": "sparse"},
        ]

    on(RUN, body)


def test_numbers_have_limits_and_choices_begin_anew():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        await pilot.press(*"kN")
        host.panel.begin()
        host.panel.show([head(top_k=50, top_n=1, ais="rerank", retriever="hybrid"), YES, ALL])
        await pilot.press(*"Knar")
        assert [message.changes for message in host.asked] == [{"ask.ais": "cos"}, {"ask.retriever": "dense"}]

    on([head(top_k=1, top_n=50), YES, ALL], body)


def test_keys_work_before_anything_was_looked_up_and_do_nothing_without_a_run():
    async def skipped(host: PanelHost, pilot: Pilot[None]) -> None:
        await pilot.press("k")
        assert [message.changes for message in host.asked] == [{"ask.top_k": 1}]

    async def nothing(host: PanelHost, pilot: Pilot[None]) -> None:
        await pilot.press("k", "a", "o", "x", "p", "enter")
        assert host.asked == []

    on([head(), msgspec.structs.replace(YES, retrieve=False)], skipped)
    on([], nothing)


def test_another_selection_shows_what_changed_until_the_run_is_shown_again():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        host.panel.show([head(top_k=1, ais="sum"), selected(3, 2, 1, 4, 5, k=1, score="sum")])
        await pilot.pause()
        text = screen_of(host)
        assert "what if: k = 1, AIS = sum (+ newly kept, - no longer kept); f runs it, Esc goes back" in text
        assert "AIS sum s1 + s2" in text and "k = 1 of 5" in text
        assert column(host, "mark") == ["+", "-", "-", "", ""]  # chunks 3, 2, 1
        await pilot.press("K")
        assert host.asked[-1].changes == {"ask.top_k": 2}  # counted from what is shown
        host.panel.begin()
        host.panel.show(RUN)
        await pilot.pause()
        assert "what if" not in screen_of(host).replace("r what if", "")
        assert column(host, "mark") == ["✓", "✓", "", "", "", ""]
        await pilot.press("K")
        assert host.asked[-1].changes == {"ask.top_k": 3}

    on(RUN, body)


def test_the_next_run_starts_with_an_empty_table():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        host.panel.begin()
        host.panel.show(traces.skipped())
        await pilot.pause()
        assert host.query_one(CandidateTable).row_count == 0

    on(RUN, body)


def test_chunks_that_were_kept_and_are_no_candidates_any_more_are_counted():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        host.panel.show([head(top_n=1), selected(1, 3)])
        await pilot.pause()
        assert "1 kept before is no candidate now" in screen_of(host)

    on(RUN, body)


def test_the_same_settings_again_are_no_what_if():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        host.panel.show([head(top_k=1), selected(2, 1, k=1)])
        host.panel.show([head(), ALL])
        await pilot.pause()
        assert "newly kept" not in screen_of(host) and column(host, "mark")[:2] == ["✓", "✓"]

    on(RUN, body)


def test_a_failed_look_up_changes_nothing():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        host.panel.show([head(top_k=1), RunFailed(error="X", message="no", hint="", exit_code=1)])
        await pilot.press("K")
        assert host.asked[-1].changes == {"ask.top_k": 3} and "k = 2 of 6" in screen_of(host)

    on(RUN, body)


def test_k_may_exceed_the_candidates():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert "k = 9 is more than there are: all 6 candidates are kept" in screen_of(host)

    on([head(top_k=9), YES, selected(2, 1, 3, 4, 5, 6, k=9)], body)


def test_an_empty_panel_says_why():
    nothing = ChunksSelected(score_name="query", candidates=())
    states = [
        ([], "no question yet"),
        ([head(), YES], "nothing was selected yet"),
        ([head(), YES, nothing], "nothing was selected: no path found a chunk"),
        (traces.skipped(), "nothing was looked up: press w to see what would have been"),
        (traces.never(), "nothing was looked up: `never` ran without an index"),
        (traces.failed(), "nothing was looked up: the model broke"),
    ]

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        for events, text in states:
            host.panel.begin()
            host.panel.show(events)
            await pilot.pause()
            assert text in screen_of(host)
            assert not host.query_one(PlanePicture).display

    on(RUN, body)


def test_what_was_not_consulted_is_labelled():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert "not consulted: this would have been selected" in screen_of(host)
        assert "not consulted" in screen_of(host).splitlines()[-1]

    on(RUN, body, consulted=False)


def test_a_selection_without_ais_shows_the_query_alone():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        text = screen_of(host)
        assert "without AIS: by the question alone, s1" in text and "s2" not in text
        assert not host.query_one(PlanePicture).display

    on(traces.always(), body)


@pytest.mark.parametrize(
    ("run", "line"),
    [
        (traces.rerank(), "without AIS: reranked, K(d, q) by qwen2.5-coder-0.5b-instruct   k = 1 of 2"),
        (traces.hyde(), "without AIS: by the expanded question alone   k = 1 of 2"),
        (
            [head(), YES, selected(2, 1, 3, score="split")],
            "without AIS: the first of each path   θ0 = 60.0°   2 of 3 kept",
        ),
        (
            [head(ais="rerank"), YES, traces.rerank()[3], selected(2, 1, 3, score="rerank")],
            "AIS rerank K(d, q) + K(d, p) by qwen2.5-coder-0.5b-instruct   θ0 = 60.0°   k = 2 of 3",
        ),
    ],
    ids=["rerank", "expanded", "split", "AIS rerank"],
)
def test_the_kind_of_score_is_told_in_words(run: Sequence[Event], line: str):
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert line in screen_of(host)

    on(run, body)


def test_a_reranker_s_scores_have_their_own_column():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        (row,) = (line for line in screen_of(host).splitlines() if "handbook.md:21-29" in line)
        assert row.split()[1:8] == ["✓", "1", "0.600", "53.1", "2.250", "q", "handbook.md:21-29"]
        assert [name for name in screen_of(host).splitlines()[2].split() if name != "│"][-3:] == [
            "rerank",
            "path",
            "place",
        ]
        await pilot.press("o", "o", "o")
        assert "rerank▼" in screen_of(host)

    on(traces.rerank(), body)


@pytest.mark.parametrize("size", [WIDE, TALL, NARROW])
def test_without_a_pseudo_context_there_is_no_picture_to_turn_to(size):
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        table, picture = host.query_one(CandidateTable), host.query_one(PlanePicture)
        await pilot.press("p")
        assert table.display and not picture.display and host.focused is table
        assert table.size.width == host.panel.content_size.width
        assert "p picture" not in screen_of(host)

    on(traces.rerank(), body, size=size)


def test_only_keys_of_the_method_s_settings_are_offered():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert "k K r what if, o x sort" in screen_of(host)
        await pilot.press("n", "a", "r")
        assert [message.changes for message in host.asked] == [{"ask.retriever": "sparse"}]

    settings = tuple(s for s in head().settings if s.name in {"top_k", "retriever"})
    on([msgspec.structs.replace(traces.started("always"), settings=settings), *traces.always()[1:]], body)


# --- the picture


def canvas_text(host: PanelHost) -> str:
    canvas = host.query_one(Canvas)
    size = canvas.size
    return "\n".join("".join(canvas.get_pixel(x, y)[0] for x in range(size.width)) for y in range(size.height))


def place_of(host: PanelHost, text: str) -> tuple[int, int]:
    rows = canvas_text(host).splitlines()
    return next((row.index(text), number) for number, row in enumerate(rows) if text in row)


@pytest.mark.parametrize("size", [WIDE, TALL, NARROW, SMALLEST], ids=["beside", "below", "instead", "smallest"])
def test_the_picture_holds_both_directions_and_every_candidate(size):
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        if not host.query_one(PlanePicture).display:
            await pilot.press("p")
        drawn = canvas_text(host)
        assert (drawn.count("●"), drawn.count("○")) == (2, 4)
        assert "q" in drawn and "p" in drawn
        assert "kept chunks lie" in screen_of(host)

    on(RUN, body, size=size)


def test_angles_in_the_picture_are_true():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        # Chunk 6 lies at 30 degrees and 0.3, chunk 1 at 30 degrees and 0.9: the line between them has that slope in
        # cells that are twice as high as wide.
        (x6, y6), (x1, y1) = place_of(host, "○6"), place_of(host, "●2")
        assert math.degrees(math.atan2(2 * (y6 - y1), x1 - x6)) == pytest.approx(30, abs=4)

    on(RUN, body, size=(200, 60))


def test_table_and_picture_point_at_the_same_candidate():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        table, picture = host.query_one(CandidateTable), host.query_one(PlanePicture)
        await pilot.press("down", "down")
        assert (table.pointed, picture.pointed) == (2, 2)
        assert "● 3 " not in screen_of(host) and "○ 3  θ1" in screen_of(host)
        x, y = place_of(host, "○5")
        await pilot.click(Canvas, offset=(x + 1, y))  # on its number
        assert (table.pointed, picture.pointed) == (4, 4)

    on(RUN, body)


def test_the_picture_alone_can_be_walked_through():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        await pilot.press("p", "end", "up", "enter", "home", "enter")
        assert [message.chunk.chunk_id for message in host.asked] == ["handbook.md#5", "handbook.md#2"]
        assert host.query_one(CandidateTable).pointed == 0
        await pilot.press("p")
        assert host.query_one(CandidateTable).display and host.focused is host.query_one(CandidateTable)

    on(RUN, body, size=NARROW)


def test_the_title_says_what_the_picture_means():
    titles = [
        (selected(1, 2, score="sum"), "kept chunks reach farthest along q + p (θ0 = 60.0°)"),
        (selected(1, 2, score="dynamic"), "kept chunks turn little from q and p, weighed (θ0 = 60.0°)"),
        (msgspec.structs.replace(ALL, query_pseudo_similarity=1.0000001), "q and p lie on one line (θ0 = 0.0°)"),
        (msgspec.structs.replace(ALL, query_pseudo_similarity=-1.0), "q and p lie on one line (θ0 = 180.0°)"),
    ]

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert "kept chunks lie close to the arc between q and p (θ0 = 60.0°)" in screen_of(host)
        for selection, title in titles:
            host.panel.show([selection])
            await pilot.pause()
            assert title in screen_of(host)
            assert canvas_text(host).count("●") == 2

    on(RUN, body, size=TALL)


def test_numbers_out_of_bounds_do_no_harm():
    wild = [msgspec.structs.replace(c, query_score=1e300, pseudo_context_score=-1e300) for c in ALL.candidates]

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert "●" in canvas_text(host)

    on([head(), YES, msgspec.structs.replace(ALL, candidates=tuple(wild))], body)


def test_many_candidates_keep_the_numbers_of_those_that_were_kept():
    rows = [chunk(1 + rank % 6, rank, 30 + rank / 10, 0.5, kept=rank <= 3) for rank in range(1, 101)]

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert host.query_one(CandidateTable).row_count == 100
        assert all(str(number) in canvas_text(host) for number in (1, 2, 3))

    on([head(top_k=3), YES, msgspec.structs.replace(ALL, candidates=tuple(rows))], body)


def test_tokens_redraw_nothing():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        token = TokenGenerated(phase="answer", step=0, text="x", logprob=-0.1, entropy=0.1)
        table = host.query_one(CandidateTable)
        table.clear()
        host.panel.show([token] * 100)
        assert table.row_count == 0

    on(RUN, body)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_looks(snap_compare, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert snap_compare(PanelHost(SelectionPanel(), RUN), terminal_size=size, press=["down"])


def test_looks_of_a_what_if_in_a_light_theme(snap_compare, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    host = PanelHost(SelectionPanel(), [*RUN, head(top_k=1, ais="sum"), selected(3, 2, 1, 4, 5, k=1, score="sum")])
    host.theme = "textual-light"
    assert snap_compare(host, terminal_size=(120, 40))


def test_looks_of_the_picture_in_a_small_tab_without_colour(snap_compare, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(PanelHost(SelectionPanel(), RUN), terminal_size=(76, 14), press=["p"])
