"""Reading a chunk where it stands, and the exact prompt of a call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from textual.app import App
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Static

import traces
from adaptrag_cli.events import PromptBuilt
from adaptrag_cli.index.document_text import DocumentText
from adaptrag_cli.tui.flowing_text import FlowingText
from adaptrag_cli.tui.screens.document import DocumentScreen
from adaptrag_cli.tui.screens.prompt import PromptScreen

PARAGRAPHS = [f"Paragraph {n}: the keeper lights the lamp before the fog comes in.\n\n" for n in range(60)]
TEXT = "Quiet time starts at 21:30.\n\n    - no radio\n    - no [red]\x1b[31mlamp[/red]\n\nIt ends at 7:00."
CHUNK = msgspec.structs.replace(traces.ranked(1, 1, 0.8), text=TEXT)
NOTE = "only the chunk is shown: index 'handbook' has changed since this run"


def document(**changes: object) -> DocumentText:
    before, after = "".join(PARAGRAPHS[:30]), "\n\n" + "".join(PARAGRAPHS[30:])
    values = {
        "document": "handbook.md",
        "source": "handbook.md",
        "location": CHUNK.location,
        "title": CHUNK.title,
        "text": before + TEXT + after,
        "start": 5_000,
        "chunk_start": len(before),
        "chunk_end": len(before) + len(TEXT),
        "is_cut_before": True,
        "is_cut_after": True,
        **changes,
    }
    return DocumentText(**values)


class Host(App[None]):
    """Opens one screen."""

    def __init__(self, screen: Screen[None]) -> None:
        super().__init__()
        self._opened = screen

    def on_mount(self) -> None:
        self.animation_level = "none"
        self.push_screen(self._opened)


def on(
    screen: Screen[None], body: Callable[[Host, Pilot[None]], Awaitable[None]], size: tuple[int, int] = (80, 24)
) -> None:
    async def run() -> None:
        host = Host(screen)
        async with host.run_test(size=size) as pilot:
            await pilot.pause()
            await body(host, pilot)

    asyncio.run(run())


def shown(host: Host) -> list[str]:
    """What stands on the screen, line by line."""
    return ["".join(s.text for s in line).rstrip() for line in host.screen._compositor.render_strips()]


def head(host: Host) -> str:
    return str(host.screen.query_one("#document-head", Static).content)


# --- the document


def test_the_chunk_is_marked_and_brought_into_sight():
    async def body(host: Host, pilot: Pilot[None]) -> None:
        assert head(host) == "handbook.md:11-19   Handbook > House rules"
        assert shown(host)[1:10] == [
            "",
            "   Paragraph 29: the keeper lights the lamp before the fog comes in.",
            "",
            " ▌ Quiet time starts at 21:30.",
            " ▌",
            " ▌     - no radio",
            " ▌     - no [red]\\x1b[31mlamp[/red]",
            " ▌",
            " ▌ It ends at 7:00.",
        ]

    on(DocumentScreen(CHUNK, document()), body)


@pytest.mark.parametrize(
    ("cut", "first", "last"),
    [
        (True, "... the document begins earlier ...", "... the document goes on ..."),
        (False, PARAGRAPHS[0].strip(), PARAGRAPHS[-1].strip()),
    ],
)
def test_what_is_left_out_is_told(cut: bool, first: str, last: str):
    async def body(host: Host, pilot: Pilot[None]) -> None:
        lines = [line.strip() for line in host.screen.query_one(FlowingText).lines if line.strip()]
        assert (lines[0], lines[-1]) == (first, last)

    on(DocumentScreen(CHUNK, document(is_cut_before=cut, is_cut_after=cut)), body)


def test_keys_scroll_and_one_leads_back():
    async def body(host: Host, pilot: Pilot[None]) -> None:
        scroll = host.screen.query_one(VerticalScroll)
        start = scroll.scroll_offset.y
        places = []
        for key in ("down", "pagedown", "end", "home", "x"):
            await pilot.press(key)
            await pilot.pause()
            places.append(scroll.scroll_offset.y)
        page = scroll.size.height
        assert places == [start + 1, start + 1 + page, scroll.max_scroll_y, 0, start]
        assert start > 0

    on(DocumentScreen(CHUNK, document()), body)


def test_without_its_document_the_chunk_stands_alone():
    async def body(host: Host, pilot: Pilot[None]) -> None:
        assert shown(host)[:5] == [
            " handbook.md:11-19   Handbook > House rules",
            f" {NOTE}",
            " ▌ Quiet time starts at 21:30.",
            " ▌",
            " ▌     - no radio",
        ]

    on(DocumentScreen(CHUNK, None, NOTE), body)


def test_a_document_inside_a_file_is_named():
    async def body(host: Host, pilot: Pilot[None]) -> None:
        assert head(host) == "corpus.jsonl:7   corpus.jsonl#q1"

    chunk = msgspec.structs.replace(CHUNK, document="corpus.jsonl#q1", location="corpus.jsonl:7", title="")
    on(DocumentScreen(chunk, document(document="corpus.jsonl#q1", source="corpus.jsonl")), body)


def test_a_candidate_opens_like_a_found_chunk():
    async def body(host: Host, pilot: Pilot[None]) -> None:
        assert head(host).startswith("handbook.md:11-19")

    on(DocumentScreen(traces.scored(1, 1, 0.8, 0.9, kept=True), document()), body)


def test_text_from_elsewhere_is_plain():
    async def body(host: Host, pilot: Pilot[None]) -> None:
        assert shown(host)[:3] == [" [i]p\\x1b   [b]t", " [u]n\\x0a", " ▌ [red]x"]

    chunk = msgspec.structs.replace(CHUNK, text="[red]x", title="[b]t", location="[i]p\x1b")
    on(DocumentScreen(chunk, None, "[u]n\n"), body)


@pytest.mark.parametrize(
    ("key", "copied"),
    [
        ("p", "handbook.md:11-19"),
        ("y", "handbook.md:11-19\n\n" + TEXT.replace("\x1b", "\\x1b")),
    ],
)
def test_copies_place_and_chunk(key: str, copied: str):
    async def body(host: Host, pilot: Pilot[None]) -> None:
        await pilot.press(key)
        assert host.clipboard == copied

    on(DocumentScreen(CHUNK, document()), body)


@pytest.mark.parametrize("key", ["escape", "q"])
def test_closes(key: str):
    async def body(host: Host, pilot: Pilot[None]) -> None:
        for screen in (DocumentScreen(CHUNK, document()), PromptScreen(PROMPT)):
            host.push_screen(screen)
            await pilot.pause()
            await pilot.press(key)
            await pilot.pause()
            assert host.screen is first

    first = DocumentScreen(CHUNK, None)
    on(first, body)


# --- the prompt

PROMPT = PromptBuilt(
    phase="pseudo_context",
    text="<|im_start|>user\n[b]Write[/b] a passage.\x1b[2J<|im_end|>\n<|im_start|>assistant\n",
    tokens=1_234,
)


def test_a_prompt_is_shown_as_the_model_saw_it():
    async def body(host: Host, pilot: Pilot[None]) -> None:
        screen = host.screen
        assert screen.query_one(FlowingText).lines == [
            "<|im_start|>user",
            "[b]Write[/b] a passage.\\x1b[2J<|im_end|>",
            "<|im_start|>assistant",
            "",
        ]
        assert any("prompt of the pseudo-context: 1,234 tokens" in line for line in shown(host))
        await pilot.press("y")
        assert host.clipboard == PROMPT.text.replace("\x1b", "\\x1b")

    on(PromptScreen(PROMPT), body)


def test_a_long_prompt_scrolls():
    async def body(host: Host, pilot: Pilot[None]) -> None:
        await pilot.press("end")
        await pilot.pause()
        assert any("Paragraph 59" in line for line in shown(host))
        await pilot.press("home")
        await pilot.pause()
        assert any("Paragraph 0:" in line for line in shown(host))

    on(PromptScreen(msgspec.structs.replace(PROMPT, text="".join(PARAGRAPHS))), body)


# --- looks


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_looks_of_a_document(snap_compare, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert snap_compare(Host(DocumentScreen(CHUNK, document())), terminal_size=size)


def test_looks_of_a_chunk_alone_in_a_light_theme(snap_compare, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    host = Host(DocumentScreen(CHUNK, None, NOTE))
    host.theme = "textual-light"
    assert snap_compare(host, terminal_size=(80, 24))


def test_looks_of_a_document_without_colour(snap_compare, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(Host(DocumentScreen(CHUNK, document())), terminal_size=(80, 24))


def test_looks_of_a_prompt(snap_compare, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert snap_compare(Host(PromptScreen(PROMPT)), terminal_size=(80, 24))
