"""Dialogs: what keys do, what they say, and that they fit into a small terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from textual.app import App
from textual.screen import Screen
from textual.widgets import Footer, Input, OptionList, Static

from adaptrag_cli.tui.screens.error import ErrorDialog
from adaptrag_cli.tui.screens.help import NUMBERS, HelpScreen
from adaptrag_cli.tui.screens.history import HistoryRow, HistoryScreen
from adaptrag_cli.tui.screens.picker import Choice, Picker
from adaptrag_cli.tui.screens.save import SaveDialog

SIZES = [(80, 24), (120, 40)]
OPEN = object()
"""What a dialog that was not closed has given."""

CHOICES = [
    Choice(value="dtr", label="dtr", detail="Draft first; look up on two paths when the draft is uncertain."),
    Choice(value="always", label="always", detail="Look up every question."),
    Choice(value="never", label="never [red]", detail="The model's memory alone."),
]
KEYS = [("/", "type a question"), ("q", "quit"), ("[", "move the threshold"), ("]", "move the threshold")]
LAST_WORDS = "\n".join(f"ggml.c:{line}: \x1b[31mGGML_ASSERT failed" for line in range(1, 41))


def rows(count: int) -> list[HistoryRow]:
    return [
        HistoryRow(
            number=number,
            question="When is quiet time" + ", and when is it not" * (number % 4) + "?",
            verdict="looked it up: u = 0.57 > 0.30 (dtr, dense, 2 of 3 chunks) - 2.3 s",
            answer=f"{20 + number % 4}:30",
            strategy="dtr",
            seconds=2.3,
        )
        for number in range(1, count + 1)
    ]


class Host(App[None]):
    """Opens one screen and keeps what it gave."""

    def __init__(self, screen: Screen[object], theme: str = "textual-dark") -> None:
        super().__init__()
        self.opened = screen
        self.given: object = OPEN
        self._look = theme

    def on_mount(self) -> None:
        self.theme = self._look
        self.push_screen(self.opened, self._keep)

    def _keep(self, value: object) -> None:
        self.given = value


def driven(screen: Screen[object], keys: Sequence[str], look: Callable[[Host], None] = lambda host: None) -> object:
    """Press keys; returns what the screen gave. `look` sees the application after the last key."""

    async def drive() -> object:
        host = Host(screen)
        async with host.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            for key in keys:
                await pilot.press(key)
            await pilot.pause()
            look(host)
        return host.given

    return asyncio.run(drive())


def said(screen: Screen[object], selector: str = "Static") -> str:
    return "\n".join(str(widget.render()) for widget in screen.query(selector).results(Static))


# picker


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["enter"], "always"),
        (["down", "enter"], "never"),
        (["up", "enter"], "dtr"),
        (["pagedown", "enter"], "never"),
        (["pagedown", "pageup", "enter"], "dtr"),
        ([*"memory", "enter"], "never"),
        ([*"two", "space", *"draft", "enter"], "dtr"),
        (["d", "backspace", "enter"], "always"),
        (["escape"], None),
    ],
)
def test_a_choice_is_found_by_arrows_or_by_typing(keys, value):
    assert driven(Picker("Strategy", CHOICES, "always"), keys) == value


def test_what_no_choice_is_called_chooses_nothing():
    def look(host: Host) -> None:
        assert host.opened.query_one(".nothing").display
        assert host.opened.query_one(OptionList).option_count == 0

    assert driven(Picker("Strategy", CHOICES, "always"), ["x", "y", "enter"], look) is OPEN


def test_a_click_chooses():
    async def drive() -> object:
        host = Host(Picker("Strategy", CHOICES, "always"))
        async with host.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            await pilot.click(OptionList, offset=(3, 0))
            await pilot.pause()
        return host.given

    assert asyncio.run(drive()) == "dtr"


# history


@pytest.mark.parametrize(("keys", "number"), [(["enter"], 3), (["down", "down", "enter"], 1), (["escape"], None)])
def test_history_gives_the_number_of_the_run_to_reopen(keys, number):
    assert driven(HistoryScreen(rows(3)), keys) == number


def test_history_without_a_question_says_so():
    def look(host: Host) -> None:
        assert "No question was asked yet." in said(host.opened)

    assert driven(HistoryScreen([]), ["enter"], look) is OPEN


# save


def test_a_path_is_given_and_nothing_is_written(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    assert driven(SaveDialog("Save", path), ["enter"]) == path
    assert not path.exists()


def test_a_typed_path_starts_at_the_home_folder(private_home: Path):
    keys = ["end", "ctrl+u", *"~", "slash", *"a.html", "enter"]
    keys = [{".": "full_stop", "~": "tilde"}.get(key, key) for key in keys]
    assert driven(SaveDialog("Save", Path("x")), keys) == private_home / "a.html"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (".", "{0} is a folder: name a file in it."),
        ("none/run.jsonl", "There is no folder {0}/none."),
    ],
)
def test_a_path_that_cannot_be_written_is_refused_inline(tmp_path: Path, name: str, problem: str):
    def look(host: Host) -> None:
        assert said(host.opened, ".problem") == problem.format(tmp_path)

    assert driven(SaveDialog("Save", tmp_path / name), ["enter", "enter"], look) is OPEN


def test_an_empty_path_is_refused():
    def look(host: Host) -> None:
        assert said(host.opened, ".problem") == "Name a file."

    assert driven(SaveDialog("Save", Path("x")), ["end", "backspace", "enter"], look) is OPEN


def test_an_existing_file_needs_a_second_enter(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    path.write_text("kept")

    def look(host: Host) -> None:
        assert said(host.opened, ".problem") == f"{path} exists. Enter once more replaces it."

    assert driven(SaveDialog("Save", path), ["enter"], look) is OPEN
    assert driven(SaveDialog("Save", path), ["enter", "enter"]) == path
    assert driven(SaveDialog("Save", path), ["enter", "x", "backspace", "enter"], look) is OPEN
    assert path.read_text() == "kept"


# error


@pytest.mark.parametrize("key", ["enter", "escape"])
def test_an_error_tells_message_and_remedy_as_plain_text(key):
    def look(host: Host) -> None:
        text = said(host.opened)
        assert "index [bold]x[/bold] is missing" in text
        assert "What to do: adaptrag index docs/" in text

    dialog = ErrorDialog("No index", "index [bold]x[/bold] is missing", "adaptrag index docs/")
    assert driven(dialog, [], look) is OPEN
    dialog = ErrorDialog("No index", "index x is missing", "", LAST_WORDS)
    assert driven(dialog, [key]) is None


def test_an_error_can_be_copied():
    def look(host: Host) -> None:
        assert host.clipboard == "The engine died\nsignal 6\nadaptrag doctor\n\\x1b[31mabort"

    assert driven(ErrorDialog("The engine died", "signal 6", "adaptrag doctor", "\x1b[31mabort\n"), ["y"], look) is OPEN


def test_the_last_words_of_a_process_are_seen_first():
    def look(host: Host) -> None:
        details = host.opened.query_one(".details")
        assert details.max_scroll_y > 0
        assert details.scroll_y == details.max_scroll_y

    driven(ErrorDialog("The engine died", "signal 6", "adaptrag doctor", LAST_WORDS), [], look)


# help


@pytest.mark.parametrize("key", ["escape", "enter", "question_mark"])
def test_help_closes(key):
    assert driven(HelpScreen(KEYS), [key]) is None


def test_help_scrolls_to_its_end_by_keys():
    def look(host: Host) -> None:
        body = host.opened.query_one(".body")
        assert 0 < body.max_scroll_y == body.scroll_y

    driven(HelpScreen(KEYS), ["end"], look)


def test_every_number_is_explained_once_in_one_sentence():
    names = [name for _, numbers in NUMBERS for name, _ in numbers]
    assert len(names) == len(set(names))
    for sentence in [sentence for _, numbers in NUMBERS for _, sentence in numbers]:
        assert sentence.endswith(".")
        assert ". " not in sentence


# looks

SCREENS: dict[str, Callable[[], Screen[object]]] = {
    "help": lambda: HelpScreen(KEYS),
    "error": lambda: ErrorDialog("No index", "there is no index handbook", "adaptrag index docs/ --name handbook"),
    "error_with_details": lambda: ErrorDialog("The engine died", "It ended by itself.", "adaptrag doctor", LAST_WORDS),
    "error_with_a_long_message": lambda: ErrorDialog("Failed", "too much to tell " * 200, "adaptrag doctor"),
    "picker": lambda: Picker("Strategy", CHOICES, "always"),
    "long_picker": lambda: Picker(
        "Model", [Choice(value=f"{n}", label=f"model-{n}", detail="") for n in range(60)], "41"
    ),
    "history": lambda: HistoryScreen(rows(20)),
    "empty_history": lambda: HistoryScreen([]),
    "save": lambda: SaveDialog("Save the trace", Path("folder") / ("long-name" * 20 + ".jsonl")),
}


@pytest.mark.parametrize("name", SCREENS)
def test_a_dialog_lies_within_the_terminal_and_shows_its_keys(name):
    async def drive() -> None:
        host = Host(SCREENS[name]())
        async with host.run_test(size=(80, 24)) as pilot:
            for size in (80, 24), (120, 40), (60, 16):
                await pilot.resize_terminal(*size)
                await pilot.pause()
                box = host.opened.query_one(".dialog")
                assert host.opened.region.contains_region(box.region)
                regions = [child.region for child in box.children if child.display]
                assert all(box.content_region.contains_region(region) for region in regions)
                assert not any(one.overlaps(other) for at, one in enumerate(regions) for other in regions[:at])
                assert host.opened.query_one(Footer).region.height == 2

    asyncio.run(drive())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["help", "error_with_details", "picker", "history"])
def test_looks(name, size, snap_compare, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR")
    assert snap_compare(Host(SCREENS[name]()), terminal_size=size)


def test_looks_of_a_refused_path_in_a_light_theme(snap_compare, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.chdir(tmp_path)
    Path("run.jsonl").write_text("x")
    host = Host(SaveDialog("Save the trace", Path("run.jsonl")), "textual-light")
    assert snap_compare(host, terminal_size=(80, 24), press=["enter"])


def test_looks_of_a_picker_without_colour(snap_compare):
    assert snap_compare(Host(SCREENS["picker"]()), terminal_size=(80, 24))


def test_the_path_field_is_focused():
    def look(host: Host) -> None:
        assert isinstance(host.opened.focused, Input)

    driven(SaveDialog("Save", Path("x")), [], look)
