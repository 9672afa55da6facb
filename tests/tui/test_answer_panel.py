"""Panel 5, fed with hand-made runs: the answer as it is written, the verdict, and the sources."""

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
    Candidate,
    ChunksSelected,
    Event,
    GenerationReused,
    PromptBuilt,
    RankedChunk,
    RunFailed,
    SentenceCited,
    TokenGenerated,
    TokensDiscarded,
    WarningRaised,
)
from adaptrag_cli.tui.flowing_text import FlowingText
from adaptrag_cli.tui.messages import ChunkOpened
from adaptrag_cli.tui.panels.answer import AnswerPanel
from panel_host import PanelHost

UNJUDGED = "being written: not judged yet, it may turn out to be a guess"
READING = PromptBuilt(phase="answer", text="prompt", tokens=60, chunk_ids=traces.KEPT)


def on(
    events: Sequence[Event],
    body: Callable[[PanelHost, Pilot[None]], Awaitable[None]],
    *,
    size: tuple[int, int] = (100, 16),
) -> None:
    async def run() -> None:
        host = PanelHost(AnswerPanel(), events)
        async with host.run_test(size=size) as pilot:
            await pilot.pause()
            await body(host, pilot)

    asyncio.run(run())


def state(host: PanelHost) -> str:
    return str(host.panel.query_one("#answer-state", Static).content)


def answer(host: PanelHost) -> str:
    return "".join(host.panel.query_one("#answer-text", FlowingText).lines)


def notes(host: PanelHost) -> list[str]:
    return [line for line in host.panel.query_one("#answer-notes", FlowingText).lines if line]


def sources(host: PanelHost) -> list[str]:
    rows = host.panel.query_one(OptionList)
    return [str(option.prompt).rstrip() for option in rows.options] if rows.display else []


def token(text: str, step: int = 0, phase: str = "answer") -> TokenGenerated:
    return TokenGenerated(phase=phase, step=step, text=text, logprob=-0.5, entropy=1.0)


def upto(run: Sequence[Event], kind: type[Event], phase: str = "") -> list[Event]:
    """The run until its first event of this kind, which is not among them."""
    last = next(i for i, e in enumerate(run) if isinstance(e, kind) and (not phase or e.phase == phase))
    return list(run[:last])


def test_an_answer_that_is_taken_back_is_not_shown_while_another_is_written():
    taken_back = TokensDiscarded(phase="answer", from_step=0, text="Nobody", reason="written anew")
    begun = [*upto(traces.retrieved(), PromptBuilt), READING, token("Nobody")]

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert answer(host) == "Nobody"
        host.panel.show([taken_back])
        await pilot.pause()
        assert answer(host) == ""
        host.panel.show([token("Ottilie", phase="reasoning"), READING, token("Brandt")])
        await pilot.pause()
        assert answer(host) == "Brandt"

    on(begun, body)


# --- what became of it


def test_an_answer_from_memory_says_so():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert (state(host), answer(host)) == ("", "10 pm")
        assert notes(host) == ["answered from the model's memory: u = 0.02 <= 0.30 (dtr) - 0.8 s"]
        assert sources(host) == [
            "not consulted handbook.md:11-19  s1 0.71  Handbook > House rules · Text of chunk 1: quiet time…"
        ]

    on(traces.skipped(), body)


def test_a_strategy_without_documents_shows_no_list():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert (answer(host), sources(host)) == ("10 pm", [])
        assert notes(host) == [
            "answered from the model's memory: this strategy never looks up, u = 0.50 (never) - 0.7 s"
        ]
        assert isinstance(host.focused, VerticalScroll)

    on(traces.never(), body)


def test_an_answer_from_documents_stands_over_its_sources():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert answer(host) == "21:30"
        assert notes(host) == [
            "looked it up: u = 0.57 > 0.30 (dtr, dense, 2 of 3 chunks) - 2.3 s",
            "warning: 1 file changed since indexing",
        ]
        assert [row[:53] for row in sources(host)] == [
            "[1] handbook.md:11-19  s1 0.80, s2 0.96, AIS 0.60  Ha",
            "[2] handbook.md:21-29  s1 0.60, s2 1.00, AIS 0.60  Ha",
        ]
        assert host.focused is host.panel.query_one(OptionList)

    on(traces.retrieved(), body)


def test_what_the_documents_do_not_tell_keeps_guess_and_chunks_apart():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert answer(host) == "The documents do not tell."
        assert notes(host) == [
            "looked it up: every question is looked up (always, sparse, 1 of 1 chunks) - 0.9 s",
            "no answer in the documents: the answer is a guess: u = 1.20 > 0.80",
            "the guess was: 21:30",
        ]
        assert [row[:44] for row in sources(host)] == ["looked at [1] handbook.md:11-19  s1 0.80  Ha"]

    on(traces.unanswered(), body)


def test_a_blank_answer_is_told():
    run = traces.never()
    end = msgspec.structs.replace(run[-1], answer="")

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert answer(host) == "(blank)"

    on([*run[:-1], end], body)


def test_a_failure_tells_message_and_remedy():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert (state(host), answer(host)) == ("the run failed", "")
        assert notes(host) == ["the model broke", "adaptrag doctor"]

    on(traces.failed(), body)


def test_a_failure_before_the_run_began_is_shown_too():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        host.panel.show([RunFailed(error="EngineEnded", message="it is gone", hint="", exit_code=4)])
        assert (state(host), notes(host)) == ("the run failed", ["it is gone"])

    on([], body)


def test_what_was_written_before_a_stop_stays():
    stop = RunFailed(error="RunCancelled", message="stopped", hint="", exit_code=130)

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        host.panel.show([token(" 21"), stop])
        assert (state(host), answer(host), notes(host)) == ("stopped", "21", [])

    on([traces.started(), READING], body)


# --- as it is written


def test_says_what_is_being_done():
    run = traces.retrieved()

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        told = []
        for phase in ("draft", "pseudo_context", "answer"):
            host.panel.begin()
            head = upto(run, PromptBuilt, phase)
            host.panel.show([*head, run[len(head)]])
            told.append((state(host), len(sources(host))))
        assert told == [
            ("drafting an answer from memory ...", 0),
            ("imagining a passage to search with ...", 0),
            ("reading the documents ...", 2),
        ]

    on([], body)


def test_a_draft_is_not_shown_as_an_answer():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        host.panel.show([token("10 pm", phase="draft"), token(" or so", phase="draft")])
        assert (state(host), answer(host)) == ("drafting an answer from memory ...", "")

    on([traces.started(), PromptBuilt(phase="draft", text="prompt", tokens=3)], body)


def test_streams_as_something_that_may_turn_out_a_guess():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        host.panel.show([token("\n"), token(" 21")])
        assert (state(host), answer(host)) == (UNJUDGED, "21")
        host.panel.show([token(":", 2), token("30", 3)])
        assert answer(host) == "21:30"
        assert host.panel.query_one("#answer-text", FlowingText).lines_of("unjudged") == (0, 0)

    on([traces.started(), READING], body)


def test_a_second_answer_replaces_the_first():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        host.panel.show([token("first"), READING, token("second")])
        assert answer(host) == "second"
        host.panel.show([GenerationReused(phase="answer", text="third"), token("third")])
        assert answer(host) == "third"

    on([traces.started(), READING], body)


def test_sentences_get_their_markers_as_they_are_traced():
    cited = SentenceCited(text="It is late.", end_step=2, chunk_ids=traces.KEPT, markers=(1, 2))
    plain = SentenceCited(text="Dogs sleep.", end_step=4, chunk_ids=(), markers=())

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        host.panel.show([token(" It is"), token(" late.", 1)])
        assert answer(host) == "It is late."
        # A sentence is traced when the token that begins the next one is known; here that token held its last mark.
        host.panel.show([cited, token(" Dogs", 2)])
        assert answer(host) == "It is late. [1] [2] Dogs"
        host.panel.show([token(" sleep. Cats", 3), plain, token(" do not.", 4)])
        assert answer(host) == "It is late. [1] [2] Dogs sleep. Cats do not."

    on([traces.started(style="cited"), READING], body)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_cited_answer_ends_the_same_however_it_came(size: int):
    run = traces.cited()

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        for start in range(0, len(run), size):
            host.panel.show(run[start : start + size])
            await pilot.pause()
        assert answer(host) == run[-1].answer == "Quiet time is 21:30. [1] It ends at 7."
        assert host.panel.query_one("#answer-text", FlowingText).lines_of("marker") == (0, 0)

    on([], body)


def test_a_cited_answer_that_is_no_answer_is_not_left_standing():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert answer(host) == "The documents do not tell."
        assert notes(host)[-1] == "the guess was: Quiet time is 21:30. It ends at 7."
        assert [row[:13] for row in sources(host)] == ["looked at [1]", "looked at [2]"]

    on(traces.cited(supported=False), body)


def test_a_long_answer_is_followed_and_then_shown_from_its_beginning():
    tokens = [token(f" word{n}", n) for n in range(400)]
    end = traces.finished("word " * 400, "documents", traces.KEPT)

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        scroll = host.panel.query_one(VerticalScroll)
        for start in range(0, 400, 20):
            host.panel.show(tokens[start : start + 20])
            await pilot.pause()
        assert scroll.max_scroll_y > 20 and scroll.is_vertical_scroll_end
        assert answer(host).endswith("word399")
        scroll.scroll_home(animate=False)
        await pilot.pause()
        host.panel.show([token(" more", 400)])
        await pilot.pause()
        assert scroll.scroll_offset.y == 0, "whoever reads above is left there"
        scroll.scroll_end(animate=False)
        await pilot.pause()
        host.panel.show([end])
        await pilot.pause()
        assert scroll.scroll_offset.y == 0

    on([*upto(traces.retrieved(), PromptBuilt, "answer"), READING], body)


def test_an_answer_that_ends_before_it_was_drawn_is_shown_from_its_beginning():
    end = traces.finished("word " * 400, "documents", traces.KEPT)

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        scroll = host.panel.query_one(VerticalScroll)
        host.panel.show([token(f" word{n}", n) for n in range(400)])
        host.panel.show([end])
        await pilot.pause()
        assert scroll.scroll_offset.y == 0 < scroll.max_scroll_y

    on([*upto(traces.retrieved(), PromptBuilt, "answer"), READING], body)


def test_four_thousand_tokens_leave_earlier_lines_alone():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        text = host.panel.query_one("#answer-text", FlowingText)
        host.panel.show([token(f" word{n}", n) for n in range(100)])
        await pilot.pause()
        first = text._lines[0]
        for start in range(100, 4_000, 100):
            host.panel.show([token(f" word{n}", n) for n in range(start, start + 100)])
        await pilot.pause()
        assert text._lines[0] is first, "what stands is not wrapped again"
        assert answer(host).endswith("word3999")

    on([traces.started(), READING], body)


# --- sources


def opened(events: Sequence[Event], *keys: str) -> list[Candidate | RankedChunk]:
    found: list[Candidate | RankedChunk] = []

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        await pilot.press(*keys)
        await pilot.pause()
        assert all(isinstance(message, ChunkOpened) for message in host.asked)
        found.extend(message.chunk for message in host.asked)

    on(events, body)
    return found


def test_enter_opens_a_source():
    assert [chunk.chunk_id for chunk in opened(traces.retrieved(), "enter")] == [traces.KEPT[0]]
    assert [chunk.chunk_id for chunk in opened(traces.retrieved(), "down", "enter")] == [traces.KEPT[1]]


def test_enter_opens_the_chunk_that_was_not_consulted():
    (chunk,) = opened(traces.skipped(), "enter")
    assert isinstance(chunk, RankedChunk) and chunk.chunk_id == "handbook.md#1"


def test_enter_opens_what_is_being_read():
    reading = upto(traces.retrieved(), TokenGenerated, "answer")
    assert [chunk.chunk_id for chunk in opened(reading, "down", "enter")] == [traces.KEPT[1]]


def test_the_highlighted_source_stays_when_more_is_known():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        await pilot.press("down")
        host.panel.show(run[-2:])
        await pilot.pause()
        assert host.panel.query_one(OptionList).highlighted == 1

    run = traces.retrieved()
    on(run[:-2], body)


def test_what_would_have_been_looked_up_is_labelled():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        host.panel.show([traces.started(), *traces.two_paths()], consulted=False)
        await pilot.pause()
        assert answer(host) == "10 pm" and notes(host)[0].startswith("answered from the model's memory")
        # The chunk that was peeked at is among the two that would have been kept, and stands once.
        assert [row[:35] for row in sources(host)] == [
            "not consulted handbook.md:11-19  s1",
            "not consulted handbook.md:21-29  s1",
        ]

    on(traces.skipped(), body)


def test_two_lines_a_source_where_there_is_room():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        head, words = sources(host)[0].split("\n")
        assert head == "[1] handbook.md:11-19  s1 0.80, s2 0.96, AIS 0.60"
        assert words == "    Handbook > House rules · Text of chunk 1: quiet time starts at 21:30."

    on(traces.retrieved(), body, size=(80, 30))


def test_a_small_box_keeps_half_for_the_sources():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        host.panel.show([token(f" word{n}", n) for n in range(200)])
        await pilot.pause()
        rows, text = host.panel.query_one(OptionList), host.panel.query_one(VerticalScroll)
        assert (rows.size.height, text.size.height) == (2, 4)
        assert rows.region.bottom <= host.panel.content_region.bottom

    on([*upto(traces.retrieved(), PromptBuilt, "answer"), READING], body, size=(60, 10))


def test_of_a_tagged_answer_what_stands_between_the_tags_is_shown():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert answer(host) == "21:30"
        assert notes(host) == [
            "looked it up: the answers differ (pairs, dense, 2 of 3 chunks) - 2.8 s",
            '"10 pm" and "21:00": normalised exact match: they differ',
        ]

    on(traces.pairs(), body)


@pytest.mark.parametrize(
    ("run", "given", "line"),
    [
        (traces.verify(), "21:30", "chance of being right: draft 0.34, documents 0.61 (given)"),
        (traces.verify_keeps_the_draft(), "10 pm", "chance of being right: draft 0.61 (given), documents 0.34"),
    ],
    ids=["documents", "draft"],
)
def test_weighed_answers_are_told_in_one_line(run: list[Event], given: str, line: str):
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert answer(host) == given
        assert notes(host)[-1] == line

    on(run, body)


def test_a_reranked_source_has_its_score_named():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert [row[:46] for row in sources(host)] == ["[1] handbook.md:21-29  s1 0.60, rerank 2.25  H"]

    on(traces.rerank(), body)


def test_a_long_place_is_cut_in_the_middle():
    run = traces.retrieved()
    place = "a/folder/with/a/long/name/and/another/handbook_of_the_house.md:1211-1219"
    at = next(i for i, event in enumerate(run) if isinstance(event, ChunksSelected))
    candidates = tuple(msgspec.structs.replace(chunk, location=place) for chunk in run[at].candidates)
    run[at] = msgspec.structs.replace(run[at], candidates=candidates)

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert sources(host)[0] == "[1] a/folder…e.md:1211-1219  s1 0.80, s2 0.96, AIS 0.60"

    on(run, body, size=(60, 10))


# --- what comes from elsewhere


def test_text_of_models_and_documents_is_plain():
    evil = "[red]a\x1b[2J[/]"
    chunk = msgspec.structs.replace(traces.ranked(1, 1, 0.5), text=evil, title="[b]t", location="[i]p\n")
    run = traces.skipped()
    run[-2] = msgspec.structs.replace(run[-2], chunk=chunk)
    run[-1] = msgspec.structs.replace(run[-1], answer=evil)
    run.insert(1, WarningRaised(code="w", message=evil))

    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        assert answer(host) == "[red]a\\x1b[2J[/]"
        assert notes(host)[1:] == ["warning: [red]a\\x1b[2J[/]"]
        assert sources(host) == ["not consulted [i]p\\x0a  s1 0.50  [b]t · [red]a\\x1b[2J[/]"]

    on(run, body)


def test_begin_forgets_everything():
    async def body(host: PanelHost, pilot: Pilot[None]) -> None:
        host.panel.show([traces.started(), *traces.two_paths()], consulted=False)
        host.panel.begin()
        await pilot.pause()
        assert (state(host), answer(host), notes(host), sources(host)) == ("no answer yet", "", [], [])

    on(traces.retrieved(), body)


# --- looks


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_looks(snap_compare, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert snap_compare(PanelHost(AnswerPanel(), traces.cited()), terminal_size=size)


def test_looks_while_it_is_written_in_a_light_theme(snap_compare, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    run = traces.cited()
    host = PanelHost(AnswerPanel(), [*upto(run, SentenceCited), *run[len(upto(run, SentenceCited)) :][:2]])
    host.theme = "textual-light"
    assert snap_compare(host, terminal_size=(80, 16))


def test_looks_when_the_documents_do_not_tell_in_a_small_box(snap_compare, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(PanelHost(AnswerPanel(), traces.unanswered()), terminal_size=(60, 10))
