"""Every key of the main screen, over a stub engine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.widgets import Tabs

from adaptrag_cli.errors import ConfigError, IndexNotFound
from adaptrag_cli.pages import write_page
from adaptrag_cli.service.protocol import Ask, LookUp, Prepare
from adaptrag_cli.trace import read_trace
from adaptrag_cli.tui.launch import Launch
from adaptrag_cli.tui.panels.base import Panel
from adaptrag_cli.tui.screens.compare import CompareScreen
from adaptrag_cli.tui.screens.document import DocumentScreen
from adaptrag_cli.tui.screens.error import ErrorDialog
from adaptrag_cli.tui.screens.help import HelpScreen
from adaptrag_cli.tui.screens.history import HistoryScreen
from adaptrag_cli.tui.screens.picker import Picker
from adaptrag_cli.tui.screens.save import SaveDialog
from driving import QUERY, drive, driving
from fakes import reply
from lamp import DRAFTING
from stub_engine import StubEngine
from traces import retrieved


def sure(engine: StubEngine) -> None:
    """Make the draft certain, so that nothing is looked up."""
    engine.model._rules.insert(0, (DRAFTING, reply("Edison", logprob=-0.02)))


def words_of_prompts(engine: StubEngine) -> list[str]:
    return [call.prompt.text for call in engine.model.calls]


def test_a_question_is_answered_and_the_numbers_stand_in_the_panels(tmp_path: Path):
    async def body():
        async with driving(tmp_path) as it:
            await it.ask()
            assert it.records[0].summary.finished.answer == "Ottilie Brandt"
            text = it.text()
            assert "u = 0.50 > 0.30: looked it up" in text
            assert "Ottilie Brandt" in text
            assert QUERY in text

    drive(body())


def test_the_model_is_loaded_at_the_start_and_a_question_given_is_asked_at_once(tmp_path: Path):
    async def body():
        async with driving(tmp_path, launch=Launch(question=QUERY, flags={"ask.strategy": "always"})) as it:
            await it.until(lambda: it.records and it.records[0].is_over)
            prepare, ask = it.engine.requests
            assert isinstance(prepare, Prepare)
            assert (ask.query, ask.flags) == (QUERY, {"ask.strategy": "always"})

    drive(body())


def test_escape_stops_a_run_and_the_next_question_is_answered(tmp_path: Path):
    async def body():
        async with driving(tmp_path, prepare=lambda engine: engine.gate.clear()) as it:
            it.main.query_one("Input").value = QUERY
            await it.pilot.press("enter")
            await it.until(lambda: it.records and len(it.records[0].events) >= 3)
            await it.pilot.press("escape")
            await it.until(lambda: it.records[0].is_over)
            assert it.records[0].verdict == "stopped"
            assert it.app.screen is it.main  # no dialog: the person wanted it
            await it.ask()
            assert it.records[1].summary.finished is not None

    drive(body())


def test_quitting_in_the_middle_of_a_run_closes_the_engine(tmp_path: Path):
    async def body():
        async with driving(tmp_path, prepare=lambda engine: engine.gate.clear()) as it:
            it.main.query_one("Input").value = QUERY
            await it.pilot.press("enter")
            await it.until(lambda: it.records and it.records[0].events)
            await it.pilot.press("q")
            await it.until(lambda: not it.app.is_running)
            assert it.engine.is_closed

    drive(body())


def test_what_would_have_been_looked_up_is_shown_as_not_consulted(tmp_path: Path):
    async def body():
        async with driving(tmp_path, prepare=sure) as it:
            await it.ask()
            assert it.records[0].summary.decision.retrieve is False
            assert "lamp.md" not in _panel_text(it, 4)
            await it.pilot.press("w")
            await it.until(lambda: it.records[0].unconsulted)
            assert isinstance(it.engine.requests[-1], LookUp)
            await it.pilot.pause()
            assert "not consulted" in it.text()
            assert "lamp.md" in _panel_text(it, 4)
            assert it.records[0].summary.selection is None  # the run is as it was
            calls = len(it.engine.model.calls)
            await it.pilot.press("w")
            await it.pilot.pause()
            assert len(it.engine.model.calls) == calls

    drive(body())


def _panel_text(it, number: int) -> str:
    panel = it.main._deck.panel(number)
    region = panel.region
    lines = it.text().split("\n")[region.y : region.bottom]
    return "\n".join(line[region.x : region.right] for line in lines)


def test_a_moved_threshold_is_judged_at_once_and_the_other_branch_reuses_the_draft(tmp_path: Path):
    async def body():
        async with driving(tmp_path) as it:
            await it.ask()
            calls = len(it.engine.model.calls)
            for _ in range(4):  # 0.30 -> 0.50, and u = 0.50 is not above it
                await it.pilot.press("right_square_bracket")
            await it.pilot.pause()
            assert "0.50" in _panel_text(it, 2)
            assert len(it.engine.model.calls) == calls
            await it.pilot.press("f")
            await it.until(lambda: len(it.records) == 2 and it.records[1].is_over and it.is_idle)
            assert len(it.engine.model.calls) == calls  # the draft was there already
            assert it.records[1].summary.finished.answer == "Edison perhaps"
            assert it.records[1].flags == {"ask.threshold": 0.5}
            await it.pilot.press("left_square_bracket")
            await it.pilot.press("f")
            await it.until(lambda: len(it.records) == 3 and it.records[2].is_over and it.is_idle)
            assert it.records[2].summary.finished.answer == "Ottilie Brandt"

    drive(body())


def test_after_each_run_keys_go_to_the_screen_and_not_into_the_question(tmp_path: Path):
    async def body():
        async with driving(tmp_path, prepare=sure) as it:
            await it.ask()
            for key in ("w", "c"):
                assert it.app.focused is not it.main.query_one("Input")
                await it.pilot.press(key)
                await it.until(lambda: it.is_idle)
            await it.until(lambda: isinstance(it.app.screen, Picker))
            await it.pilot.press("enter")
            await it.until(lambda: len(it.records) == 2 and it.records[1].is_over and it.is_idle)
            await it.pilot.press("escape")
            await it.until(lambda: it.app.screen is it.main)
            assert it.app.focused is not it.main.query_one("Input")
            assert it.main.query_one("Input").value == QUERY

    drive(body())


def test_after_a_dialog_keys_go_on_to_the_screen(tmp_path: Path):
    async def body():
        async with driving(tmp_path) as it:
            await it.ask()
            await it.pilot.press("2", "question_mark")  # the second panel has nothing to focus
            await it.until(lambda: isinstance(it.app.screen, HelpScreen))
            await it.pilot.press("escape", "3")
            await it.until(lambda: it.main._deck.front.number == 3)
            assert it.main.query_one("Input").value == QUERY

    drive(body())


def test_a_threshold_that_changes_nothing_runs_nothing(tmp_path: Path):
    async def body():
        async with driving(tmp_path) as it:
            await it.ask()
            await it.pilot.press("right_square_bracket", "f")
            await it.pilot.pause()
            assert len(it.records) == 1
            await it.pilot.press("escape")
            await it.pilot.press("f")
            await it.pilot.pause()
            assert len(it.records) == 1

    drive(body())


def test_another_k_selects_again_without_the_model(tmp_path: Path):
    async def body():
        async with driving(tmp_path) as it:
            await it.ask()
            calls = len(it.engine.model.calls)
            await it.pilot.press("4")
            await it.pilot.pause()
            await it.pilot.press("K")
            await it.until(lambda: isinstance(it.engine.requests[-1], LookUp) and it.is_idle)
            assert it.engine.requests[-1].flags == {"ask.top_k": 4}
            assert len(it.engine.model.calls) == calls
            await it.pilot.press("f")
            await it.until(lambda: len(it.records) == 2 and it.records[1].is_over and it.is_idle)
            assert [call.prompt.text for call in it.engine.model.calls[calls:]] == [words_of_prompts(it.engine)[-1]]
            assert len(it.records[1].summary.selected) == 4

    drive(body())


def test_what_if_settings_can_be_kept(tmp_path: Path):
    async def body():
        async with driving(tmp_path) as it:
            await it.ask()
            await it.pilot.press("right_square_bracket", "ctrl+k")
            await it.until(lambda: isinstance(it.engine.requests[-1], Prepare))
            assert it.main.desk.choices == {"ask.threshold": 0.35}

    drive(body())


def test_two_strategies_side_by_side(tmp_path: Path):
    async def body():
        async with driving(tmp_path) as it:
            await it.ask()
            await it.pilot.press("c")
            await it.until(lambda: isinstance(it.app.screen, Picker))
            await it.pilot.press("enter")
            await it.until(lambda: isinstance(it.app.screen, CompareScreen) and it.is_idle)
            assert it.records[1].strategy in it.text()
            assert {record.strategy for record in it.records} == {"dtr", "always"}
            assert it.records[1].query == QUERY
            await it.pilot.press("escape")
            await it.until(lambda: it.app.screen is it.main)

    drive(body())


def test_history_reopens_a_run(tmp_path: Path):
    async def body():
        async with driving(tmp_path) as it:
            await it.ask()
            await it.ask("Who lit the lamp again?")
            await it.pilot.press("h")
            await it.until(lambda: isinstance(it.app.screen, HistoryScreen))
            await it.pilot.press("down", "enter")
            await it.until(lambda: it.app.screen is it.main)
            assert it.main.desk.current is it.records[0]
            assert "#1" in it.text()

    drive(body())


def test_a_run_is_saved_exported_and_copied(tmp_path: Path):
    async def body():
        async with driving(tmp_path) as it:
            await it.ask()
            await it.pilot.press("s")
            await it.until(lambda: isinstance(it.app.screen, SaveDialog))
            await it.pilot.press("enter")
            await it.until(lambda: it.app.screen is it.main)
            assert list(read_trace(Path("run-1.jsonl"))) == it.records[0].events
            for downs, name, start in ((0, "run-1.html", "<!doctype html>"), (1, "run-1.svg", "<svg")):
                await it.pilot.press("e")
                await it.until(lambda: isinstance(it.app.screen, Picker))
                await it.pilot.press(*["down"] * downs, "enter")
                await it.until(lambda: isinstance(it.app.screen, SaveDialog))
                await it.pilot.press("enter")
                await it.until(lambda: it.app.screen is it.main)
                text = Path(name).read_text()
                assert text.lower().startswith(start)
                assert "@font-face" not in text
                assert set(re.findall("https?://[^\"' )]*", text)) <= {
                    "http://www.w3.org/2000/svg",
                    "https://www.textualize.io",
                }
                write_page(Path(name), text)  # its like is replaced
                Path(name).write_text("mine")
                with pytest.raises(ConfigError, match=f"{name} exists and is not a (page|picture) of AdaptRAG"):
                    write_page(Path(name), text)
            await it.pilot.press("y")
            assert it.app.clipboard.startswith(f"{QUERY}\n\nOttilie Brandt\n\nlooked it up: u = 0.50 > 0.30")
            assert "[1] lamp.md" in it.app.clipboard

    drive(body())


def test_a_source_opens_in_its_document_or_says_why_not(tmp_path: Path):
    async def body():
        async with driving(tmp_path) as it:
            await it.ask()
            await it.pilot.press("5")
            await it.pilot.pause()
            await it.pilot.press("enter")
            await it.until(lambda: isinstance(it.app.screen, DocumentScreen))
            assert "only the chunk is shown" in it.text()  # this world's index is not where indexes are kept
            assert "Ottilie Brandt lit it in 1887." in it.text()
            await it.pilot.press("escape")
            await it.until(lambda: it.app.screen is it.main)

    drive(body())


def test_what_is_missing_is_told_in_a_dialog_and_the_application_lives_on(tmp_path: Path):
    def broken(engine: StubEngine) -> None:
        engine.failure = IndexNotFound("no index named 'notes'", "adaptrag index FOLDER --name notes")

    async def body():
        async with driving(tmp_path, prepare=broken) as it:
            await it.until(lambda: isinstance(it.app.screen, ErrorDialog))
            assert "no index named 'notes'" in it.text()
            assert "adaptrag index FOLDER --name notes" in it.text()
            await it.pilot.press("escape")
            it.engine.failure = None
            await it.ask()
            assert it.records[0].summary.finished is not None

    drive(body())


def test_a_dead_engine_is_a_dialog_and_the_next_question_starts_another(tmp_path: Path):
    async def body():
        async with driving(tmp_path) as it:
            it.engine.dies = True
            it.main.query_one("Input").value = QUERY
            await it.pilot.press("enter")
            await it.until(lambda: isinstance(it.app.screen, ErrorDialog))
            assert "SIGABRT" in it.text()
            assert it.records[0].verdict == "failed: the model's process ended"
            await it.pilot.press("escape")
            await it.ask()
            assert len(it.engines) == 2
            assert it.records[1].summary.finished is not None

    drive(body())


def test_keys_behind_the_last_one_open_nothing(tmp_path: Path):
    async def body():
        async with driving(tmp_path) as it:
            await it.ask()
            main = it.main
            await it.pilot.press("q", "question_mark", "h", "e")
            await it.until(lambda: not it.app.is_running)
            assert main.is_leaving

    drive(body())


def test_a_threshold_waits_for_the_end_of_the_run_and_one_message_stands_at_a_time(tmp_path: Path):
    async def body():
        async with driving(tmp_path, prepare=lambda engine: engine.gate.clear()) as it:
            it.main.query_one("Input").value = QUERY
            await it.pilot.press("enter")
            await it.until(lambda: it.records and len(it.records[0].events) >= 3)
            await it.pilot.press("left_square_bracket", "right_square_bracket", "f")
            await it.until(lambda: len(it.app._notifications) == 1)
            assert "wait until the run is over" in next(iter(it.app._notifications)).message
            it.engine.gate.set()
            await it.until(lambda: it.records[0].is_over and it.is_idle)

    drive(body())


def test_another_strategy_is_chosen_for_the_next_questions(tmp_path: Path):
    async def body():
        async with driving(tmp_path) as it:
            await it.ask()
            await it.pilot.press("m")
            await it.until(lambda: isinstance(it.app.screen, Picker))
            first = it.app.screen
            await it.pilot.press("enter")  # strategy
            await it.until(lambda: isinstance(it.app.screen, Picker) and it.app.screen is not first)
            await it.pilot.press(*"always", "enter")
            await it.until(lambda: it.main.desk.choices == {"ask.strategy": "always"})
            await it.until(lambda: it.main.desk.ready.strategy == "always")
            await it.ask()
            assert it.records[1].strategy == "always"

    drive(body())


def test_a_panel_fills_the_screen_and_gives_the_room_back(tmp_path: Path):
    async def body():
        async with driving(tmp_path) as it:
            await it.ask()
            await it.pilot.press("4")
            await it.until(lambda: it.app.focused is not None)
            await it.pilot.press("z")
            await it.until(lambda: it.main.maximized is it.main._deck.panel(4))
            await it.pilot.press("z")
            await it.until(lambda: it.main.maximized is None)

    drive(body())


def test_a_live_run_is_played_again_until_escape_shows_all_of_it(tmp_path: Path):
    async def body():
        async with driving(tmp_path) as it:
            await it.ask()
            whole = _panel_text(it, 5)
            await it.pilot.press("v")
            await it.until(lambda: it.main.transport.player is not None)
            assert {"Step", "Slower"} <= {command.title for command in it.app.get_system_commands(it.main)}
            await it.pilot.press("escape")
            await it.until(lambda: it.main.transport.player is None and _panel_text(it, 5) == whole)

    drive(body())


def test_a_second_question_waits_for_the_first(tmp_path: Path):
    async def body():
        async with driving(tmp_path, prepare=lambda engine: engine.gate.clear()) as it:
            it.main.query_one("Input").value = QUERY
            await it.pilot.press("enter")
            await it.until(lambda: it.records and it.records[0].events)
            it.main.query_one("Input").focus()
            await it.pilot.press("enter")
            await it.pilot.pause()
            assert sum(isinstance(request, Ask) for request in it.engine.requests) == 1
            it.engine.gate.set()
            await it.until(lambda: it.records[0].is_over)

    drive(body())


def test_every_key_is_in_the_help_and_in_the_palette(tmp_path: Path):
    async def body():
        async with driving(tmp_path) as it:
            offered = {command.title for command in it.app.get_system_commands(it.main)}
            assert {"Ask", "Compare", "History", "Save trace", "Export", "Copy answer", "Theme"} <= offered
            assert "Step" not in offered  # nothing is played
            it.main.query_one(Panel)
            await it.pilot.press("escape", "question_mark")
            await it.until(lambda: isinstance(it.app.screen, HelpScreen))
            await it.pilot.press("escape")
            await it.until(lambda: it.app.screen is it.main)

    drive(body())


def test_a_small_screen_has_tabs_that_follow_the_run(tmp_path: Path):
    async def body():
        async with driving(tmp_path, size=(80, 24), prepare=sure) as it:
            assert [panel.display for panel in it.main.query(Panel)] == [True, *[False] * 5]
            await it.ask()
            assert it.main.query_one(Tabs).active == "tab-5"
            await it.pilot.press("2")
            await it.pilot.pause()
            assert [panel.display for panel in it.main.query(Panel)] == [False, True, *[False] * 4]
            assert it.main.query_one(Tabs).active == "tab-2"

    drive(body())


def test_a_trace_is_played_without_an_engine(tmp_path: Path):
    trace = tuple(retrieved())

    async def body():
        async with driving(tmp_path, launch=Launch(trace=trace)) as it:
            assert it.engines == []
            await it.pilot.press("G")
            await it.pilot.pause()
            assert "21:30" in _panel_text(it, 5)
            assert it.main.transport.player.is_at_end
            await it.pilot.press("space", "space")
            position = it.main.transport.player.position
            await it.pilot.press("full_stop")
            assert it.main.transport.player.position == position + 1
            await it.pilot.press("greater_than_sign")
            assert it.main.transport.player.speed == 2.0
            await it.pilot.press("less_than_sign", "less_than_sign")
            assert it.main.transport.player.speed == 0.5
            await it.pilot.press("G", "w", "c", "f")
            await it.pilot.pause()
            assert it.engines == []
            assert it.app.screen is it.main

    drive(body())


def test_a_live_run_and_its_replay_end_with_the_same_screen(tmp_path: Path):
    def panels(it) -> list[str]:
        return [_panel_text(it, number) for number in range(1, 7)]

    async def body():
        async with driving(tmp_path) as it:
            await it.ask()
            await it.pilot.press("1")
            trace = tuple(it.records[0].events)
            async with driving(tmp_path / "again", launch=Launch(trace=trace)) as again:
                # The player has the line of the question, so the panels are of one size.
                await again.pilot.press("G", "1")
                await again.until(lambda: panels(again) == panels(it))

    drive(body())
