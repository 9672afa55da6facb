"""The main screen: the question, the six panels, and what the keys do.

It owns the state of the session (`Desk`) and is the only place that sends requests; panels are fed and say what the
person asked of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from textual import on, work
from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Input, Label, Static, Tab, Tabs

from adaptrag_cli.errors import AdaptRAGError
from adaptrag_cli.events import (
    AnyEvent,
    Candidate,
    ChunksSelected,
    DecisionMade,
    Event,
    PathRetrieved,
    RankedChunk,
    RunFailed,
    RunFinished,
    RunStarted,
    TokenGenerated,
)
from adaptrag_cli.service.protocol import AnyReply, AnyRequest, Failed, Noted, Ready
from adaptrag_cli.terminal import printable, valid_unicode
from adaptrag_cli.tui import choices, copying
from adaptrag_cli.tui.desk import Desk, Feed
from adaptrag_cli.tui.launch import Launch
from adaptrag_cli.tui.messages import ChunkOpened, PromptOpened, SelectionChanged, ThresholdMoved
from adaptrag_cli.tui.opening import read_in_index
from adaptrag_cli.tui.panels.answer import AnswerPanel
from adaptrag_cli.tui.panels.base import Panel
from adaptrag_cli.tui.panels.decision import DecisionPanel
from adaptrag_cli.tui.panels.draft import DraftPanel
from adaptrag_cli.tui.panels.paths import PathsPanel
from adaptrag_cli.tui.panels.selection import SelectionPanel
from adaptrag_cli.tui.panels.timeline import TimelinePanel
from adaptrag_cli.tui.player import Player
from adaptrag_cli.tui.record import Flags, Record
from adaptrag_cli.tui.screens.compare import CompareScreen
from adaptrag_cli.tui.screens.document import DocumentScreen
from adaptrag_cli.tui.screens.error import ErrorDialog
from adaptrag_cli.tui.screens.help import HelpScreen
from adaptrag_cli.tui.screens.history import HistoryRow, HistoryScreen
from adaptrag_cli.tui.screens.picker import Choice, Picker
from adaptrag_cli.tui.screens.prompt import PromptScreen
from adaptrag_cli.tui.screens.save import SaveDialog
from adaptrag_cli.tui.status_bar import StatusBar
from adaptrag_cli.tui.transport_bar import TransportBar
from adaptrag_cli.uncertainty import Uncertainty, decide

_TICK_S = 0.1
_HIGHEST_THRESHOLD = 10.0
_NO_ENGINE = "this is a recorded trace, and no model is loaded: start `adaptrag tui` to run questions"


class MainScreen(Screen[None]):
    """Everything a person sees of a run."""

    # Not ClassVar, because the base class declares them without.
    HORIZONTAL_BREAKPOINTS = [(0, "-slim"), (110, "-broad"), (180, "-vast")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (34, "-tall")]  # noqa: RUF012

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "question", "Ask", key_display="/"),
        Binding("escape", "stop", "Stop", show=False),
        *(Binding(str(n), f"panel({n})", f"Panel {n}", show=False) for n in range(1, 7)),
        Binding("w", "look_up", "What if"),
        Binding("left_square_bracket", "threshold(-1)", "Lower threshold", key_display="[", show=False),
        Binding("right_square_bracket", "threshold(1)", "Raise threshold", key_display="]", show=False),
        Binding("f", "other_branch", "Run what-if"),
        Binding("ctrl+k", "keep", "Keep what-if", show=False),
        Binding("c", "compare", "Compare"),
        Binding("h", "history", "History"),
        Binding("m", "choose", "Choose"),
        Binding("s", "save", "Save trace", show=False),
        Binding("e", "export", "Export", show=False),
        Binding("y", "copy", "Copy answer", show=False),
        Binding("z", "maximise", "Maximise", show=False),
        Binding("v", "play_again", "Play again", show=False),
        Binding("space", "play", "Play/pause"),
        Binding("full_stop", "step", "Step", key_display="."),
        Binding("less_than_sign", "speed(-1)", "Slower", key_display="<"),
        Binding("greater_than_sign", "speed(1)", "Faster", key_display=">"),
        Binding("G", "play_to_end", "To the end", show=False),
        Binding("ctrl+p", "app.command_palette", "Commands"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
    ]
    _PLAYER_ACTIONS = frozenset({"play", "step", "speed", "play_to_end"})
    _ENGINE_ACTIONS = frozenset({"question", "look_up", "other_branch", "keep", "compare", "choose"})

    def __init__(self, launch: Launch, send: Callable[[AnyRequest], None]) -> None:
        super().__init__()
        self._launch = launch
        self._send = send
        self.desk = Desk(launch.flags, str(launch.config_file) if launch.config_file else None)
        self._player: Player | None = None
        self._changes: dict[str, str | int | float | bool] = {}
        """What-if settings of the current run that differ from how it was run."""
        self._follows = True
        """Whether the tab changes with the stage of the run."""
        self._comparison: tuple[Record, Record] | None = None
        self._compare_screen: CompareScreen | None = None

    # --- what is on the screen

    def compose(self) -> ComposeResult:
        yield StatusBar()
        with Horizontal(id="ask"):
            yield Label("Ask", id="ask-label")
            yield Input(placeholder="a question about your documents, then Enter", compact=True)
        yield Static(id="question-line", markup=False)
        yield Tabs(*(Tab(f"{panel.number} {panel.title}", id=f"tab-{panel.number}") for panel in _PANELS), id="tabs")
        with Container(id="deck"):
            for kind in _PANELS:
                yield kind()
        yield TransportBar()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        for panel in self._panels:
            panel.begin()
        self._activate(1)
        self.set_interval(_TICK_S, self._tick)
        if self._launch.is_replay:
            self._open_trace()
            return
        self._send(self.desk.prepare())
        self.query_one(StatusBar).note("starting")
        if self._launch.question:
            self._ask(self._launch.question)
        else:
            self.query_one(Input).focus()

    @property
    def _panels(self) -> list[Panel]:
        return list(self.query(Panel))

    def _panel(self, number: int) -> Panel:
        return next(panel for panel in self._panels if panel.number == number)

    @property
    def _is_tabbed(self) -> bool:
        return self.has_class("-slim") or self.has_class("-short")

    def _activate(self, number: int) -> None:
        """Make a panel the one that a small screen shows."""
        for panel in self._panels:
            panel.set_class(panel.number == number, "active")
        tabs = self.query_one("#tabs", Tabs)
        if tabs.active != f"tab-{number}":
            with self.prevent(Tabs.TabActivated):
                tabs.active = f"tab-{number}"

    # --- a run on the screen

    def _show_record(self, record: Record, events: Sequence[AnyEvent] | None = None) -> None:
        """Put a run on the screen, from its beginning."""
        self.desk.current = record
        self._changes.clear()
        self._follows = True
        self.set_focus(None)  # a panel may hide what has the focus, which would then fall to the question
        shown = record.events if events is None else events
        for panel in self._panels:
            panel.begin()
            panel.show(shown)
        if events is None and record.unconsulted:
            self._show_unconsulted(record.unconsulted)
        self._tell_question()
        self.refresh_bindings()
        self.call_after_refresh(self._active_panel().enter)

    def _show_unconsulted(self, events: Sequence[Event]) -> None:
        for panel in (self._panel(3), self._panel(4)):
            panel.show(events, consulted=False)

    def _tell_question(self) -> None:
        record = self.desk.current
        line = self.query_one("#question-line", Static)
        if record is None:
            line.update(Content.styled("Type a question above, or press ? for help.", "$text-muted"))
            return
        width = max(20, self.size.width - 2)
        verdict = printable(record.verdict)
        head = f"#{record.number} "
        room = max(10, width - len(head) - len(verdict) - 3)
        question = printable(" ".join(record.query.split()))
        if len(question) > room:
            question = question[: room - 1] + "…"
        line.update(Content.assemble((head, "$text-muted"), (question, "bold"), "   ", (verdict, "$text-muted")))

    def on_resize(self) -> None:
        self._tell_question()

    def _follow(self, events: Sequence[Event]) -> None:
        """On a small screen, turn to the panel where things happen."""
        if not (self._follows and self._is_tabbed):
            return
        number = next((n for event in reversed(events) if (n := _panel_of(event))), 0)
        if number:
            self._activate(number)

    # --- the engine's replies

    def receive(self, replies: Sequence[AnyReply]) -> None:
        """Take a batch from the engine."""
        for reply in replies:
            match reply:
                case Noted():
                    self.query_one(StatusBar).note(reply.text)
                case Ready():
                    self._tell_ready(reply)
                case Failed(error="RunCancelled"):
                    pass  # the person stopped it before it began
                case Failed():
                    self.query_one(StatusBar).note("")
                    self._tell_error("This did not work", reply.message, reply.hint)
        for feed in self.desk.take(replies):
            self._feed(feed)

    def lose_engine(self, last_words: str) -> None:
        """The engine's process is gone; the session lives on."""
        failure = RunFailed(
            error="EngineEnded",
            message="the model's process ended",
            hint="ask again: it is started anew; see also adaptrag doctor",
            exit_code=4,
        )
        for feed in self.desk.fail_all(failure):
            self._feed(feed)
        self.query_one(StatusBar).note("model not loaded")
        self.app.push_screen(ErrorDialog("The engine stopped", failure.message, failure.hint, last_words))

    def _tell_ready(self, ready: Ready) -> None:
        self.query_one(StatusBar).show_ready(ready)
        if not self.desk.is_busy:  # a run's own warnings stand in its trace
            for warning in ready.warnings:
                self.notify(printable(warning.message), severity="warning", markup=False)

    def _feed(self, feed: Feed) -> None:
        if self._comparison and feed.record in self._comparison:
            self._feed_comparison(feed.record)
        if feed.record is self.desk.current and self._player is None:
            self._feed_panels(feed)
        if feed.is_over:
            self._end(feed)

    def _feed_panels(self, feed: Feed) -> None:
        if not feed.events:
            return
        if feed.purpose == "run":
            for panel in self._panels:
                panel.show(feed.events)
            self._follow(feed.events)
        elif feed.purpose == "unconsulted":
            self._show_unconsulted(feed.events)
        else:
            self._panel(3).show(feed.events, consulted=not feed.record.unconsulted)
            self._panel(4).show(feed.events, consulted=not feed.record.unconsulted)
        self._tell_question()

    def _end(self, feed: Feed) -> None:
        self.query_one(StatusBar).note("")
        failure = feed.events[-1] if feed.events else None
        if isinstance(failure, RunFailed) and failure.error not in {"RunCancelled", "EngineEnded"}:
            self._tell_error("The run failed", failure.message, failure.hint)
        if feed.purpose == "run" and not feed.record.events and self.desk.current is not None:
            self._show_record(self.desk.current)
        if self.focused is None and self.is_current:
            self._active_panel().enter()
        self._tell_question()
        self.refresh_bindings()

    def _tell_error(self, title: str, message: str, remedy: str) -> None:
        self.app.push_screen(ErrorDialog(title, message, remedy))

    def _report(self, error: AdaptRAGError) -> None:
        self._tell_error("This did not work", error.message, error.hint)

    # --- asking

    @on(Input.Submitted)
    def _submit(self, message: Input.Submitted) -> None:
        query = valid_unicode(message.value).strip()
        if self._launch.is_replay:
            self.notify(_NO_ENGINE, severity="warning", markup=False)
        elif query:
            self._ask(query)

    def _ask(self, query: str, *, flags: Flags | None = None, reuse: Sequence[AnyEvent] = ()) -> Record | None:
        if self.desk.running:
            self.notify("a question is being answered: Esc stops it", severity="warning", markup=False)
            return None
        self._stop_playing()
        request = self.desk.ask(query, flags=flags, reuse=reuse)
        record = self.desk.records[-1]
        self._activate(1)
        self._show_record(record)
        self._send(request)
        return record

    def action_question(self) -> None:
        """Type a question and press Enter."""
        self.query_one(Input).focus()

    def action_stop(self) -> None:
        """Stop what runs; when nothing runs, undo the what-if, or leave the question."""
        if self.desk.is_busy:
            for request in self.desk.cancel():
                self._send(request)
            self.query_one(StatusBar).note("stopping")
        elif self._changes and self.desk.current:
            self._show_record(self.desk.current)
        elif self._player and not self._launch.is_replay:
            self._stop_playing()
        elif self.focused is self.query_one(Input):
            self._active_panel().enter()

    def _active_panel(self) -> Panel:
        return next(panel for panel in self._panels if panel.has_class("active"))

    # --- what if

    def _finished_record(self) -> Record | None:
        """The current run, if it is over and the engine can do something with it."""
        record = self.desk.current
        if self._launch.is_replay:  # a panel asked, not a key
            self.notify(_NO_ENGINE, severity="warning", markup=False)
        elif record is None:
            self.notify("ask a question first", markup=False)
        elif self.desk.is_busy or not record.is_over:
            self.notify("wait until the run is over, or stop it with Esc", markup=False)
        else:
            return record
        return None

    def action_look_up(self) -> None:
        """Show what would have been looked up, without consulting it."""
        record = self._finished_record()
        if record is None:
            return
        run = record.summary
        if run is not None and run.paths:
            self.notify("this question was looked up: see panels 3 and 4", markup=False)
        elif record.unconsulted:
            self._show_unconsulted(record.unconsulted)
            self._turn_to(3)
        else:
            self._turn_to(3)
            self.query_one(StatusBar).note("looking up")
            self._send(self.desk.look_up(record, "unconsulted"))

    def action_threshold(self, direction: int) -> None:
        """Move the threshold; the verdict is judged anew at once."""
        record = self.desk.current
        recorded = record.setting("threshold") if record else None
        if not isinstance(recorded, int | float):
            self.notify("this run has no threshold", markup=False)
            return
        now = float(self._changes.get("ask.threshold", recorded))
        self._judge_at(_next_threshold(now, direction))

    @on(ThresholdMoved)
    def _move_threshold(self, message: ThresholdMoved) -> None:
        self._judge_at(message.threshold)

    def _judge_at(self, threshold: float) -> None:
        record = self.desk.current
        if record is None or not record.is_over:
            return
        if threshold == record.setting("threshold"):
            self._changes.pop("ask.threshold", None)
        else:
            self._changes["ask.threshold"] = threshold
        panel = self._panel(2)
        assert isinstance(panel, DecisionPanel)
        panel.judge_at(threshold)
        if self._is_tabbed:
            self._activate(2)
        self.refresh_bindings()

    @on(SelectionChanged)
    def _change_selection(self, message: SelectionChanged) -> None:
        record = self._finished_record()
        if record is None:
            return
        self._changes |= message.changes
        purpose: Literal["what_if", "unconsulted"] = (
            "what_if" if record.unconsulted or (record.summary and record.summary.paths) else "unconsulted"
        )
        self._send(self.desk.look_up(record, purpose, self._selection_changes()))

    def _selection_changes(self) -> dict[str, str | int | float | bool]:
        return {name: value for name, value in self._changes.items() if name != "ask.threshold"}

    def action_other_branch(self) -> None:
        """Run with the what-if settings; draft and pseudo-context are not written again."""
        record = self._finished_record()
        if record is None:
            return
        if not self._changes:
            self.notify("move the threshold with [ ] or change the selection first", markup=False)
            return
        if not self._selection_changes() and not self._flips(record):
            self.notify(f"at {self._changes['ask.threshold']:g} the verdict stays the same", markup=False)
            return
        self._ask(record.query, flags={**record.flags, **self._changes}, reuse=record.reusable)

    def _flips(self, record: Record) -> bool:
        decision = record.summary.decision if record.summary else None
        if decision is None or decision.threshold is None:
            return False
        threshold = float(self._changes["ask.threshold"])
        return decide(Uncertainty(value=decision.uncertainty), threshold).retrieve != decision.retrieve

    def action_keep(self) -> None:
        """Use the what-if settings for the questions to come."""
        if not self._changes:
            self.notify("nothing was changed", markup=False)
            return
        self.desk.choices |= self._changes
        kept = ", ".join(f"{name.removeprefix('ask.')} = {value}" for name, value in self._changes.items())
        self.notify(f"kept for the next questions: {kept}", markup=False)
        self._send(self.desk.prepare())

    # --- compare

    @work
    async def action_compare(self) -> None:
        """Run the same question under another strategy and see both."""
        record = self._finished_record()
        if record is None:
            return
        others = [choice for choice in choices.strategies() if choice.value != record.strategy]
        others.sort(key=lambda choice: choice.value != "always")  # what most tools do is what most want to compare with
        name = await self.app.push_screen_wait(Picker("Compare with strategy", others, ""))
        if name is None:
            return
        known = next(
            (r for r in self.desk.records if r.is_over and r.query == record.query and r.strategy == name), None
        )
        other = known or self._ask(record.query, flags={**record.flags, "ask.strategy": name}, reuse=record.reusable)
        if other is None:
            return
        self._comparison, self._compare_screen = (record, other), None
        self._feed_comparison(other)

    def _feed_comparison(self, changed: Record) -> None:
        assert self._comparison is not None
        left, right = (record.summary for record in self._comparison)
        if left is None or right is None:
            return
        if self._compare_screen is None:
            self._compare_screen = CompareScreen(left, right)
            self.app.push_screen(self._compare_screen, lambda _: self._forget_comparison())
        elif self._compare_screen.is_current:
            is_left = changed is self._comparison[0]
            self._compare_screen.update("left" if is_left else "right", left if is_left else right)

    def _forget_comparison(self) -> None:
        self._comparison = self._compare_screen = None

    # --- history, choices, files

    @work
    async def action_history(self) -> None:
        """Reopen a question of this session."""
        rows = [_history_row(record) for record in reversed(self.desk.records)]
        number = await self.app.push_screen_wait(HistoryScreen(rows))
        if number is not None:
            self._stop_playing()
            self._show_record(next(record for record in self.desk.records if record.number == number))

    @work
    async def action_choose(self) -> None:
        """Choose strategy, model or index for the questions to come."""
        ready = self.desk.ready
        kinds = [
            Choice(value="ask.strategy", label="Strategy", detail=ready.strategy if ready else ""),
            Choice(value="models.answer", label="Model", detail=ready.model if ready else ""),
            Choice(value="index.name", label="Index", detail=ready.index if ready else ""),
        ]
        setting = await self.app.push_screen_wait(Picker("Choose", kinds, "ask.strategy"))
        if setting is None:
            return
        try:
            offered = choices.offered(setting, self.desk.choices, self._launch.config_file)
        except AdaptRAGError as error:
            self._report(error)
            return
        current = next(kind.detail for kind in kinds if kind.value == setting)
        value = await self.app.push_screen_wait(Picker(f"Choose {setting.partition('.')[2]}", offered, current))
        if value is not None and value != current:
            self.desk.choices[setting] = value
            self._send(self.desk.prepare())

    @work
    async def action_save(self) -> None:
        """Save the run as a trace."""
        record = self.desk.current
        if record is None or not record.is_over:
            self.notify("there is no finished run to save", markup=False)
            return
        path = await self.app.push_screen_wait(SaveDialog("Save the trace", Path(f"run-{record.number}.jsonl")))
        if path is not None:
            self._write(partial(copying.save_trace, record, path), path)

    @work
    async def action_export(self) -> None:
        """Export the run as a page, or the screen as a picture."""
        record = self.desk.current
        if record is None or not record.is_over:
            self.notify("there is no finished run to export", markup=False)
            return
        picture = copying.without_remote_fonts(self.app.export_screenshot(title=f"AdaptRAG: {printable(record.query)}"))
        kinds = [
            Choice(value="html", label="HTML page", detail="the whole run on one page, to read or to mail"),
            Choice(value="svg", label="SVG picture", detail="this screen as it is"),
        ]
        kind = await self.app.push_screen_wait(Picker("Export", kinds, "html"))
        if kind is None:
            return
        path = await self.app.push_screen_wait(SaveDialog("Export to", Path(f"run-{record.number}.{kind}")))
        if path is not None and kind == "html":
            self._write(partial(copying.save_page, record, path), path)
        elif path is not None:
            self._write(partial(copying.save_text, picture, path), path)

    def _write(self, save: Callable[[], None], path: Path) -> None:
        try:
            save()
        except AdaptRAGError as error:
            self._report(error)
        else:
            self.notify(f"written: {printable(str(path))}", markup=False)

    def action_copy(self) -> None:
        """Copy the answer with its sources."""
        run = self.desk.current.summary if self.desk.current else None
        if run is None or run.finished is None:
            self.notify("there is no answer to copy", markup=False)
            return
        self.app.copy_to_clipboard(copying.answer_with_sources(run))
        self.notify("copied: the answer with its sources", markup=False)

    @on(ChunkOpened)
    def _open_chunk(self, message: ChunkOpened) -> None:
        record = self.desk.current
        if record is not None and record.started is not None:
            self._read_document(message.chunk, record.started, record.flags)

    @work(thread=True, exclusive=True, group="document")
    def _read_document(self, chunk: Candidate | RankedChunk, start: RunStarted, flags: Flags) -> None:
        document, note = read_in_index(chunk, start, flags, self._launch.config_file)
        self.app.call_from_thread(self.app.push_screen, DocumentScreen(chunk, document, note))

    @on(PromptOpened)
    def _open_prompt(self, message: PromptOpened) -> None:
        self.app.push_screen(PromptScreen(message.prompt))

    # --- moving about

    @on(Tabs.TabActivated, "#tabs")
    def _turn_tab(self, message: Tabs.TabActivated) -> None:
        self._follows = False
        self._activate(int(str(message.tab.id).removeprefix("tab-")))

    def action_panel(self, number: int) -> None:
        """Go to a panel."""
        self._follows = False
        self._turn_to(number)

    def _turn_to(self, number: int) -> None:
        if self.maximized is not None:
            self.minimize()
        self._activate(number)
        self.call_after_refresh(self._panel(number).enter)

    def action_maximise(self) -> None:
        """Let the focused panel fill the screen, or give the room back."""
        if self.maximized is not None:
            self.minimize()
            return
        focused = self.focused
        panel = (
            next((node for node in focused.ancestors_with_self if isinstance(node, Panel)), None) if focused else None
        )
        if panel is not None:
            self.maximize(panel, container=False)

    def action_help(self) -> None:
        """Explain the numbers and the keys."""
        self.app.push_screen(HelpScreen([(key, sentence) for key, _, sentence, _ in self._keys()]))

    async def action_quit(self) -> None:
        """Leave at once, whatever is running."""
        await self.app.action_quit()

    def commands(self) -> Iterable[SystemCommand]:
        """Every action of this screen, for the command palette."""
        for key, name, sentence, action in self._keys():
            if name != "Commands":
                yield SystemCommand(name, f"{sentence} (key {key})", _runner(self, action))

    def _keys(self) -> list[tuple[str, str, str, str]]:
        """Key, name, one sentence, and action of everything that can be done now."""
        found = []
        for binding in self.BINDINGS:
            assert isinstance(binding, Binding)
            name = binding.action.partition("(")[0]
            if not self.check_action(name, ()):
                continue
            method = getattr(self, f"action_{name}", None)
            sentence = (getattr(method, "__doc__", None) or "Find any command by its name.").partition("\n")[0]
            if name in {"threshold", "speed", "panel"}:
                sentence = f"{binding.description}: {sentence[0].lower()}{sentence[1:]}"
            found.append((binding.key_display or binding.key, binding.description, sentence, binding.action))
        return found

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of the player exist while something is played, those of the engine where there is one."""
        if self._launch.is_replay:
            return action not in self._ENGINE_ACTIONS
        return action not in self._PLAYER_ACTIONS or self._player is not None

    # --- replay

    def _open_trace(self) -> None:
        start = self._launch.trace[0]
        record = self.desk.add(Record(number=1, query=getattr(start, "query", ""), flags=self._launch.flags))
        record.events = list(self._launch.trace)
        if record.started is not None:
            self.query_one(StatusBar).show_recorded(record.started)
        self._player = Player(record.events)
        self._show_record(record, ())
        self._player.toggle()
        self._show_transport()

    def action_play_again(self) -> None:
        """Play the current run from its beginning."""
        record = self.desk.current
        if record is None or not record.is_over:
            self.notify("there is no finished run to play", markup=False)
            return
        self._player = Player(record.events)
        self._show_record(record, ())
        self._player.toggle()
        self._show_transport()

    def action_play(self) -> None:
        """Play or pause."""
        if self._player is None:
            return
        if self._player.is_at_end and self.desk.current is not None:
            self._show_record(self.desk.current, ())
        self._player.toggle()
        self._show_transport()

    def action_step(self) -> None:
        """Show one event more."""
        if self._player is not None:
            self._show_played(self._player.step())

    def action_play_to_end(self) -> None:
        """Show all that is left."""
        if self._player is not None:
            self._show_played(self._player.finish())

    def action_speed(self, step: int) -> None:
        """Play faster or slower."""
        if self._player is not None:
            self._player.change_speed(step)
            self._show_transport()

    def _tick(self) -> None:
        if self._player is not None and self._player.is_playing:
            self._show_played(self._player.advance(_TICK_S * 1000))

    def _show_played(self, events: Sequence[AnyEvent]) -> None:
        if events:
            for panel in self._panels:
                panel.show(events)
            self._follow(events)
        self._show_transport()

    def _show_transport(self) -> None:
        self.query_one(TransportBar).show(self._player)
        self.refresh_bindings()

    def _stop_playing(self) -> None:
        """Leave the player; what it played is shown whole."""
        if self._player is None or self._launch.is_replay:
            return
        rest = self._player.finish()
        self._player = None
        for panel in self._panels:
            panel.show(rest)
        self._show_transport()


_PANELS: tuple[type[Panel], ...] = (DraftPanel, DecisionPanel, PathsPanel, SelectionPanel, AnswerPanel, TimelinePanel)


def _panel_of(event: Event) -> int:
    """The panel where this event is best seen."""
    match event:
        case TokenGenerated(phase="draft"):
            return 1
        case DecisionMade():
            return 2
        case PathRetrieved() | TokenGenerated(phase="pseudo_context"):
            return 3
        case ChunksSelected():
            return 4
        case TokenGenerated(phase="answer") | RunFinished() | RunFailed():
            return 5
    return 0


def _next_threshold(now: float, direction: int) -> float:
    """One step: hundredths up to a tenth, twentieths above."""
    step = 0.01 if now < 0.1 or (now <= 0.1 and direction < 0) else 0.05
    return min(max(round(now + direction * step, 6), 0.0), _HIGHEST_THRESHOLD)


def _history_row(record: Record) -> HistoryRow:
    run = record.summary
    end = run.finished if run else None
    return HistoryRow(
        number=record.number,
        question=record.query,
        verdict=record.verdict,
        answer=end.answer if end else "",
        strategy=record.strategy,
        seconds=run.total_ms / 1000 if run else 0.0,
    )


def _runner(screen: MainScreen, action: str) -> Callable[[], object]:
    async def run() -> None:
        await screen.run_action(action)

    return run
