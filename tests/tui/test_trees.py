"""The trees of a synthesis run on a screen: what is drawn, folded, marked and told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList, Static

from adaptrag_cli.learning.tree import Answers, Limits, explore
from adaptrag_cli.tui.panels.explored_tree import ExploredTree
from adaptrag_cli.tui.screens.trees import TreesScreen
from adaptrag_cli.tui.trees_app import TreesApp
from explored_trees import Explored, manifest

BORN = "28 December 1888"


class Film:
    """Memory is wrong about who directed it, and knows when he was born."""

    def sub_query(self, question, steps) -> str:
        return ("Who directed Nosferatu?", "When was F. W. Murnau born?", "")[len(steps)]

    def answers(self, question, steps, sub_query) -> Answers:
        if steps:
            return Answers(direct=BORN, passages=(f"Murnau: born {BORN}",), retrieved=BORN if steps[0].retrieve else "")
        return Answers(direct="Fritz Lang", passages=("Nosferatu: by F. W. Murnau",), retrieved="F. W. Murnau")

    def final(self, question, steps) -> str:
        return BORN if steps[0].retrieve else "5 December 1890"


def explored(question_id: str, question: str, gold: str = BORN) -> Explored:
    tree = explore(question, Film(), gold.__eq__, limits=Limits(max_steps=4), whole=True)
    return Explored(set="set", question_id=question_id, golds=(gold,), tree=tree, seconds=1.0)


def app_of(first: int = 0) -> TreesApp:
    shown = [
        explored("a", "When is the birthday of the director of Nosferatu?"),
        explored("b", "Who [bold]drove\x1b[31m a car?", "nobody"),
    ]
    app = TreesApp(manifest("a", "b"), shown, first)
    app.animation_level = "none"
    return app


def drive(test: Callable[[Pilot[None]], Awaitable[None]], first: int = 0, size: tuple[int, int] = (120, 34)) -> None:
    async def run() -> None:
        async with app_of(first).run_test(size=size) as pilot:
            await pilot.pause()
            await test(pilot)

    asyncio.run(run())


def lines(pilot: Pilot[None]) -> list[str]:
    tree = pilot.app.screen.query_one(ExploredTree)
    return "\n".join(str(option.prompt) for option in tree.options).split("\n")


def said(pilot: Pilot[None], selector: str) -> str:
    return str(pilot.app.screen.query_one(selector, Static).content)


def test_the_tree_is_drawn_with_its_right_path_marked_and_its_end_highlighted():
    async def test(pilot: Pilot[None]) -> None:
        assert lines(pilot) == [
            "* When is the birthday of the director of Nosferatu?",
            "│ asks: Who directed Nosferatu?",
            "├ D from memory: Fritz Lang",
            "│ │ asks: When was F. W. Murnau born?",
            f"│ ├ D from memory: {BORN}",
            "│ │   = 5 December 1890  wrong",
            "│ └ R from documents",
            "│     the documents do not tell",
            "└ * R from documents: F. W. Murnau",
            "  │ asks: When was F. W. Murnau born?",
            f"  ├ * D from memory: {BORN}",
            f"  │   = {BORN}  right",
            f"  └ R from documents: {BORN}",
            f"      = {BORN}  right",
        ]
        assert said(pilot, "#told").split("\n") == [
            "When is the birthday of the director of Nosferatu?",
            f"1 of 2  the cheapest right path: RD, 1 look-up; 7 nodes; gold: {BORN}",
        ]
        assert said(pilot, "#words") == f"asked: When was F. W. Murnau born?\nanswer from memory: {BORN}"

    drive(test)


def test_a_node_tells_what_it_was_answered_from():
    async def test(pilot: Pilot[None]) -> None:
        await pilot.press("down")
        await pilot.pause()
        assert said(pilot, "#words").endswith(f"answer from documents: {BORN}\n[1] Murnau: born {BORN}")
        await pilot.press("home")
        await pilot.pause()
        assert said(pilot, "#words").startswith("The question itself.")

    drive(test)


def test_enter_folds_and_c_leaves_the_right_path():
    async def test(pilot: Pilot[None]) -> None:
        await pilot.press("c")
        folded = lines(pilot)
        assert folded[2:5] == [
            "├ D from memory: Fritz Lang",
            "│   asks: When was F. W. Murnau born?",
            "│   ... 2 nodes below",
        ]
        await pilot.press("c")
        assert len(lines(pilot)) == 14
        await pilot.press("home", "enter")
        assert lines(pilot)[-1] == "  ... 6 nodes below"
        await pilot.press("enter")
        assert len(lines(pilot)) == 14

    drive(test)


def test_n_and_p_and_the_list_lead_to_other_questions():
    async def test(pilot: Pilot[None]) -> None:
        for keys in (["n"], ["n", "p"], ["p"], ["tab", "tab", "up", "enter"]):
            await pilot.press(*keys)
            await pilot.pause()
        screen = pilot.app.screen
        assert isinstance(screen, TreesScreen)
        assert screen.query_one("#questions", OptionList).highlighted == 0
        assert "\n1 of 2  the cheapest right path" in said(pilot, "#told")

    drive(test, first=1)


def test_an_unsolved_tree_says_so_and_shows_no_control_character():
    async def test(pilot: Pilot[None]) -> None:
        question, told = said(pilot, "#told").split("\n")
        assert (question, told) == (lines(pilot)[0], "2 of 2  no path is right; 7 nodes; gold: nobody")
        assert lines(pilot)[0] == "Who [bold]drove\\x1b[31m a car?"
        options = pilot.app.screen.query_one("#questions", OptionList).options
        assert [str(option.prompt).split()[0] for option in options] == ["RD", "unsolved"]

    drive(test, first=1)


@pytest.mark.parametrize("width", range(30, 46, 3))
def test_no_line_is_wider_than_its_room(width: int):
    """Else it would be broken once more, without its guides; a bar takes room as soon as there are too many lines."""

    async def test(pilot: Pilot[None]) -> None:
        tree = pilot.app.screen.query_one(ExploredTree)
        assert tree.show_vertical_scrollbar
        assert max(map(len, lines(pilot))) <= tree.scrollable_content_region.width

    drive(test, size=(width, 16))


def test_nothing_is_folded_away_where_no_path_is_right():
    async def test(pilot: Pilot[None]) -> None:
        before = lines(pilot)
        await pilot.press("c")
        await pilot.pause()
        assert lines(pilot) == before
        assert [told.message for told in pilot.app._notifications] == ["no path of this question is right"]

    drive(test, first=1)


def test_a_narrow_screen_shows_the_tree_alone():
    async def test(pilot: Pilot[None]) -> None:
        assert not pilot.app.screen.query_one("#questions").display
        assert "├ D from memory: Fritz Lang" in lines(pilot)

    drive(test, size=(60, 24))


@pytest.mark.parametrize("size", [(120, 34), (80, 24)])
def test_looks(snap_compare, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]):
    monkeypatch.delenv("NO_COLOR")
    assert snap_compare(app_of(), terminal_size=size)
