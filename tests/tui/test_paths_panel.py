"""Panel 3, fed with hand-made runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import pytest
from textual.pilot import Pilot

import traces
from adaptrag_cli.events import (
    ChunksSelected,
    DecisionMade,
    Event,
    GenerationReused,
    PathRetrieved,
    PseudoContextWritten,
    RunFailed,
    RunStarted,
    Setting,
    TokenGenerated,
)
from adaptrag_cli.tui.messages import ChunkOpened
from adaptrag_cli.tui.panels.chunk_list import ChunkList
from adaptrag_cli.tui.panels.paths import PathColumn, PathHead, PathsPanel
from panel_host import PanelHost

WIDE, NARROW = (120, 30), (76, 14)


def screen_of(host: PanelHost) -> str:
    return "\n".join("".join(segment.text for segment in line) for line in host.screen._compositor.render_strips())


def on(
    events: Sequence[Event],
    body: Callable[[PanelHost, Pilot[None]], Awaitable[None]],
    *,
    size: tuple[int, int] = WIDE,
    consulted: bool = True,
) -> None:
    async def run() -> None:
        host = PanelHost(PathsPanel(), events, consulted=consulted)
        async with host.run_test(size=size) as pilot:
            await pilot.pause()
            await body(host, pilot)

    asyncio.run(run())


def head(*, index: str = "handbook", strategy: str = "dtr", **settings: int | str) -> RunStarted:
    known = {"paths": "both", **settings} if strategy == "dtr" else settings
    rows = tuple(Setting(name=name, value=value, origin="default") for name, value in known.items())
    return msgspec.structs.replace(traces.started(strategy), index=index, settings=rows)


def found(path: str, *numbers: int, text: str = "quiet time", retriever: str = "dense") -> PathRetrieved:
    chunks = tuple(traces.ranked(number, rank, 0.9 - rank / 10) for rank, number in enumerate(numbers, start=1))
    return PathRetrieved(path=path, retriever=retriever, query_text=text, chunks=chunks)


YES = DecisionMade(retrieve=True, uncertainty=0.57, threshold=0.3, reason="the draft is uncertain")
NO = DecisionMade(retrieve=False, uncertainty=0.02, threshold=0.3, reason="the draft is certain enough")
IMAGINED = PseudoContextWritten(text="Quiet time starts late.")
CHOSEN = ChunksSelected(score_name="query", candidates=(traces.scored(1, 1, 0.8, None, kept=True),))
LOOKED_UP = (IMAGINED, found("query", 1, 3), found("pseudo_context", 2, 1, text=IMAGINED.text))


def test_both_paths_show_what_they_searched_for_and_found():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        rows = screen_of(host).splitlines()
        assert "query path  dense, 2 chunks" in rows[1] and "pseudo-context path  dense, 2 chunks" in rows[1]
        both = next(row for row in rows if "1   0.800" in row)
        assert "1   0.800  both  handbook.md:11-19" in both  # rank, score, mark, place
        assert "1   0.800        handbook.md:21-29" in both  # only the pseudo-context found chunk 2
        assert sum("Text of chunk" in row for row in rows) == 2  # two rows, each with a chunk of either path
        assert any("imagined, never evidence" in row and "the question" in row for row in rows)

    on([head(), YES, *LOOKED_UP], body)


def columns(host: PanelHost) -> list[str]:
    return [column.path for column in host.query(PathColumn) if column.display]


@pytest.mark.parametrize(
    ("run", "paths"),
    [
        ([], ["query"]),
        (traces.retrieved(), ["query", "pseudo_context"]),
        (traces.pairs_agree(), ["query", "pseudo_context"]),
        (traces.verify(), ["query", "pseudo_context"]),
        (traces.verify()[:12], ["query", "pseudo_context"]),
        (traces.always(), ["query"]),
        (traces.rerank(), ["query"]),
        (traces.judge_skips(), ["query"]),
        (traces.hyde(), ["expanded"]),
        (traces.thinking_aloud(), ["expanded"]),
        ([traces.started("hyde"), YES, PseudoContextWritten(text=" "), found("query", 1)], ["query"]),
    ],
    ids=[
        "nothing",
        "dtr",
        "pairs",
        "verify",
        "verify, imagining",
        "always",
        "rerank",
        "judge",
        "hyde",
        "cot",
        "hyde, blank",
    ],
)
def test_there_is_a_column_for_each_path_of_the_method(run: list[Event], paths: list[str]):
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert columns(host) == paths

    on(run, body)


def test_a_run_follows_one_with_other_paths():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        for run, paths in ((traces.retrieved(), ["query", "pseudo_context"]), (traces.rerank(), ["query"])):
            host.panel.begin()
            host.panel.show(run)
            await pilot.pause()
            assert columns(host) == paths

    on(traces.hyde(), body)


def test_an_expanded_path_shows_what_the_model_writes_and_then_what_was_searched_for():
    run = traces.thinking_aloud()

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert columns(host) == ["expanded"]
        assert "the model thinks aloud to widen the question" in screen_of(host)
        host.panel.show(run[3:6])
        await pilot.pause()
        assert "  Quiet time is " in screen_of(host)
        host.panel.show(run[6:9])
        await pilot.pause()
        text = screen_of(host)
        assert "expanded path  dense, 1 chunk" in text
        assert "searched for (the question, widened by the model):" in text
        assert "  When is quiet time? When is quiet time? Quiet time is at night. " in text
        assert "thinks aloud" not in text

    on(run[:3], body)


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_one_path_needs_no_tabs_and_its_keys_stay_on_it(size):
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert "expanded path  dense, 2 chunks" in screen_of(host)
        assert "the other path" not in screen_of(host)
        await pilot.press("p", "left", "right", "enter")
        assert [message.chunk.chunk_id for message in host.asked] == ["handbook.md#2"]

    on(traces.hyde(), body, size=size)


def test_chunks_that_were_searched_before_the_decision_are_labelled():
    looked, decided = traces.verify()[:7], msgspec.structs.replace(NO, threshold=None)

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        text = screen_of(host)
        assert "searched before the decision" in text and "not consulted" not in text
        host.panel.show([decided, traces.finished("10 pm", "draft")])
        await pilot.pause()
        text = screen_of(host)
        assert "not consulted: searched before the decision" in text
        assert "nothing was looked up: press w to see what" in text
        host.panel.show([head(), *LOOKED_UP], consulted=False)
        await pilot.pause()
        assert "not consulted: this would have been looked up" in screen_of(host)

    on(looked, body)


def test_words_of_the_search_text_are_marked_in_a_snippet():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        segments = [
            segment
            for line in host.screen._compositor.render_strips()
            for segment in line
            if segment.style and segment.style.bold and segment.style.underline
        ]
        assert [segment.text for segment in segments] == ["quiet", "time"] * 2

    on([head(), YES, found("query", 1, 3)], body)


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_enter_opens_the_highlighted_chunk(size):
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        await pilot.press("enter", "down", "enter", "right", "enter")
        assert [message.chunk.chunk_id for message in host.asked if isinstance(message, ChunkOpened)] == [
            "handbook.md#1",
            "handbook.md#3",
            "handbook.md#2",
        ]

    on([head(), YES, *LOOKED_UP], body, size=size)


def test_a_click_opens_a_chunk():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        other = host.query(ChunkList)[1]
        await pilot.click(other, offset=(10, 1))
        assert [message.chunk.chunk_id for message in host.asked] == ["handbook.md#2"]

    on([head(), YES, *LOOKED_UP], body)


def test_a_small_panel_shows_one_path_and_turns_to_the_other():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        def shown() -> list[str]:
            return [column.path for column in host.query(PathColumn) if column.display]

        assert shown() == ["query"]
        await pilot.press("p")
        assert shown() == ["pseudo_context"] and "handbook.md:21-29" in screen_of(host)
        assert isinstance(host.focused, ChunkList)
        await pilot.press("left")
        assert shown() == ["query"]
        await pilot.click(host.query(PathHead)[1])
        assert shown() == ["pseudo_context"]

    on([head(), YES, *LOOKED_UP], body, size=NARROW)


def test_the_pseudo_context_can_be_read_while_it_is_written():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        prompt, *tokens, _ = traces.written("pseudo_context", "Quiet", " time", " is", " late.")
        host.panel.show([prompt])
        await pilot.pause()
        assert "the model imagines a passage to search with" in screen_of(host)
        host.panel.show(tokens[:2])
        await pilot.pause()
        assert "  Quiet time " in screen_of(host)
        host.panel.show(tokens[2:])
        await pilot.pause()
        assert "Quiet time is late." in screen_of(host) and "imagined, never evidence" in screen_of(host)

    on([head(), YES], body)


def test_a_long_pseudo_context_stays_quick():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        token = TokenGenerated(phase="pseudo_context", step=0, text=" word", logprob=-0.1, entropy=0.1)
        host.panel.show([token] * 20)
        started = time.process_time()
        for _ in range(20):
            host.panel.show([token] * 10)
        early = time.process_time() - started
        host.panel.show([token] * 4000)
        started = time.process_time()
        for _ in range(20):
            host.panel.show([token] * 10)
        assert time.process_time() - started < 3 * early + 0.05  # no batch costs what all tokens cost

    on([head(), YES], body)


def test_an_empty_path_says_why():
    states = [
        ([], "no question yet"),
        ([head()], "nothing was looked up yet"),
        ([head(), YES], "nothing was looked up yet"),
        (traces.failed(), "nothing was looked up: the model broke"),
        (traces.never(), "nothing was looked up: `never` ran without an index"),
        (traces.skipped(), "nothing was looked up: press w to see what would have been"),
        (traces.skipped(), "best chunk, not consulted; w shows all"),
        ([head(paths="query"), YES, IMAGINED, found("query", 1), CHOSEN], "the settings leave this path out"),
        ([head(), YES, PseudoContextWritten(text=" "), found("query", 1)], "the pseudo-context is blank, so"),
        ([head(), YES, found("query")], "nothing was found: no chunk"),
        ([head(), YES, found("query", retriever="sparse")], "nothing was found: no chunk shares a word with this text"),
        ([head(), YES, IMAGINED, found("query", 1)], "not searched yet"),
    ]

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        for events, text in states:
            host.panel.begin()
            host.panel.show(events)
            await pilot.pause()
            assert text in screen_of(host)

    on([], body, size=(160, 30))


def test_a_peeked_chunk_is_shown_until_all_is_looked_up():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert "handbook.md:11-19" in screen_of(host) and "not consulted" in screen_of(host).splitlines()[-1]
        host.panel.show([head(), *LOOKED_UP], consulted=False)
        await pilot.pause()
        text = screen_of(host)
        assert "best chunk" not in text and "query path  dense, 2 chunks" in text
        assert "not consulted: this would have been looked up" in text
        assert "not consulted" in text.splitlines()[-1]

    on(traces.skipped(), body)


def test_another_selection_is_labelled_and_replaces_the_first():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        again = head(retriever="sparse", top_n=1)
        reused = GenerationReused(phase="pseudo_context", text=IMAGINED.text)
        host.panel.show([again, reused, IMAGINED, found("query", 3, retriever="sparse")])
        await pilot.pause()
        text = screen_of(host)
        assert "what if: retriever = sparse, n = 1" in text
        assert "query path  sparse, 1 chunk" in text and "handbook.md:11-19" not in text
        host.panel.show([RunFailed(error="X", message="the index is gone", hint="", exit_code=3)])
        await pilot.pause()
        assert "what if" not in screen_of(host)

    on([head(retriever="dense", top_n=2), YES, *LOOKED_UP], body)


def test_text_of_models_and_documents_is_plain():
    chunk = msgspec.structs.replace(traces.ranked(1, 1, 0.5), text="[red]a\x1b[2J[/]", title="[b]t", location="[i]p")
    events = [head(), PseudoContextWritten(text="[bold]x\x1b[2J"), found("query")]
    events.append(PathRetrieved(path="pseudo_context", retriever="dense", query_text="[bold]x\x1b[2J", chunks=(chunk,)))

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        text = screen_of(host)
        assert all(part in text for part in ("[red]a\\x1b[2J[/]", "[b]t", "[i]p", "[bold]x\\x1b[2J"))

    on(events, body)


def test_begin_forgets_everything():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        host.panel.begin()
        await pilot.pause()
        text = screen_of(host)
        assert text.count("no question yet") == 1 and "handbook" not in text and "consulted" not in text

    on([head(), *LOOKED_UP], body, consulted=False)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_looks_after_two_searches(snap_compare, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert snap_compare(PanelHost(PathsPanel(), traces.retrieved()), terminal_size=size)


def test_looks_after_a_skipped_question_without_colour(snap_compare, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(PanelHost(PathsPanel(), traces.skipped()), terminal_size=(80, 24))


def test_looks_when_not_consulted_in_a_light_theme(snap_compare, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    host = PanelHost(PathsPanel(), [head(), *LOOKED_UP], consulted=False)
    host.theme = "textual-light"
    assert snap_compare(host, terminal_size=(120, 40))
