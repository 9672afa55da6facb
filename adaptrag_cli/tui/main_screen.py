"""The main screen: the question, the panels, and what the keys do.

It is the only place that sends requests to the engine. What was asked, chosen and answered is kept by the `Desk`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Footer, Input, Label

from adaptrag_cli.events import AnyEvent, Candidate, RankedChunk, RunFailed, RunStarted
from adaptrag_cli.service.protocol import AnyReply, AnyRequest, Failed, Noted, Ready
from adaptrag_cli.terminal import printable, valid_unicode
from adaptrag_cli.tui import copying, errands
from adaptrag_cli.tui.comparison import Comparison
from adaptrag_cli.tui.deck import Deck
from adaptrag_cli.tui.desk import Desk, Feed
from adaptrag_cli.tui.launch import Launch
from adaptrag_cli.tui.messages import ChunkOpened, PromptOpened, SelectionChanged, ThresholdMoved
from adaptrag_cli.tui.opening import read_in_index
from adaptrag_cli.tui.panels.base import Panel
from adaptrag_cli.tui.question_line import QuestionLine
from adaptrag_cli.tui.record import Flags, Record
from adaptrag_cli.tui.screens.document import DocumentScreen
from adaptrag_cli.tui.screens.error import ErrorDialog
from adaptrag_cli.tui.screens.help import HelpScreen
from adaptrag_cli.tui.screens.prompt import PromptScreen
from adaptrag_cli.tui.status_bar import StatusBar
from adaptrag_cli.tui.transport_bar import TransportBar
from adaptrag_cli.tui.what_if import THRESHOLD, WhatIf, next_threshold

_NO_ENGINE = "this is a recorded trace, and no model is loaded: start `adaptrag tui` to run questions"


class MainScreen(Screen[None]):
    """Everything a person sees of a run."""

    # After a dialog, keys must not fall into the question where a panel has nothing to focus.
    AUTO_FOCUS = ""
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
        self.what_if = WhatIf()
        self._comparison: Comparison | None = None
        self.is_leaving = False
        """Keys that were typed behind `q` mean nothing any more."""
        self._asked_at = 0.0
        self._is_stopping = False
        self._deck = Deck()
        self._status = StatusBar()
        self._question = QuestionLine()
        self._input = Input(placeholder="a question about your documents, then Enter", compact=True)
        self.transport = TransportBar()

    def compose(self) -> ComposeResult:
        yield self._status
        with Horizontal(id="ask"):
            yield Label("Ask", id="ask-label")
            yield self._input
        yield self._question
        yield self._deck
        yield self.transport
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        if self._launch.is_replay:
            self._open_trace()
            return
        self.set_interval(1.0, self._tell_time)
        self._send(self.desk.prepare())
        self._status.note("starting")
        if self._launch.question:
            self._ask(self._launch.question)
        else:
            self._input.focus()

    # --- a run on the screen

    def _show_record(self, record: Record, events: Sequence[AnyEvent] | None = None) -> None:
        """Put a run on the screen: all of it, or only these events."""
        self.desk.current = record
        self.what_if = WhatIf(record)
        self.set_focus(None)  # a panel may hide what has the focus, which would then fall to the question
        self._deck.begin(record.events if events is None else events)
        if events is None and record.unconsulted:
            self._deck.show_look_up(record.unconsulted, consulted=False)
        self._question.show(record)
        self.refresh_bindings()
        self.call_after_refresh(self._deck.enter)

    # --- the engine's replies

    def receive(self, replies: Sequence[AnyReply]) -> None:
        """Take a batch from the engine."""
        for reply in replies:
            match reply:
                case Noted():
                    self._status.note(reply.text)
                case Ready():
                    self._tell_ready(reply)
                case Failed(error="RunCancelled"):
                    self._status.note("")  # the person stopped it before it began
                case Failed():
                    self._status.note("")
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
        self._status.note("model not loaded")
        self.app.push_screen(ErrorDialog("The engine stopped", failure.message, failure.hint, last_words))

    def _tell_ready(self, ready: Ready) -> None:
        self._status.show_ready(ready)
        if not self.desk.is_busy:  # a run's own warnings stand in its trace
            for warning in ready.warnings:
                self.notify(printable(warning.message), severity="warning", markup=False)

    def _feed(self, feed: Feed) -> None:
        if feed.record is self.desk.current and self.transport.player is None and feed.events:
            if feed.purpose == "run":
                self._deck.show(feed.events)
            else:
                self._deck.show_look_up(feed.events, consulted=feed.record.was_looked_up)
            self._question.show(feed.record)
        if self._comparison and self._comparison.concerns(feed.record):
            self._compare(feed.record)
        if feed.is_over:
            self._end(feed)

    def _end(self, feed: Feed) -> None:
        self._is_stopping = False
        self._asked_at = 0.0
        self._status.note("")
        failure = feed.events[-1] if feed.events else None
        if isinstance(failure, RunFailed) and failure.error not in {"RunCancelled", "EngineEnded"}:
            self._tell_error("The run failed", failure.message, failure.hint)
        if feed.purpose == "run" and not feed.record.events and self.desk.current is not None:
            self._show_record(self.desk.current)
        if self.focused is None and self.is_current:
            self._deck.enter()
        self._question.show(self.desk.current)
        self.refresh_bindings()

    def _tell_time(self) -> None:
        """Say that something goes on: while a model reads, no event comes for many seconds."""
        if self.desk.running is None:
            self._asked_at = 0.0
        elif not self._asked_at:
            self._asked_at = monotonic()
        elif not self._is_stopping:
            self._status.note(f"working, {monotonic() - self._asked_at:.0f} s")

    def _tell_error(self, title: str, message: str, remedy: str) -> None:
        self.app.push_screen(ErrorDialog(title, message, remedy))

    def _say(self, text: str, *, is_warning: bool = False) -> None:
        self.app.clear_notifications()  # one at a time: at 80x24 several would bury the screen
        self.notify(printable(text), severity="warning" if is_warning else "information", markup=False)

    # --- asking

    @on(Input.Submitted)
    def _submit(self, message: Input.Submitted) -> None:
        query = valid_unicode(message.value).strip()
        if query:
            self._ask(query)

    def _ask(self, query: str, *, flags: Flags | None = None, reuse: Sequence[AnyEvent] = ()) -> Record | None:
        if self.desk.running:
            self._say("a question is being answered: Esc stops it", is_warning=True)
            return None
        self.transport.close()
        request = self.desk.ask(query, flags=flags, reuse=reuse)
        record = self.desk.records[-1]
        self._deck.bring_forward(1)
        self._show_record(record)
        self._send(request)
        return record

    def action_question(self) -> None:
        """Type a question and press Enter."""
        self._input.focus()

    def action_stop(self) -> None:
        """Stop what runs; when nothing runs, undo the what-if, or leave the question."""
        if self.desk.is_busy:
            for request in self.desk.cancel():
                self._send(request)
            self._is_stopping = True
            self._status.note("stopping")
        elif self.what_if.changes and self.desk.current:
            self._show_record(self.desk.current)
        elif self.transport.player and self.desk.current and not self._launch.is_replay:
            self.transport.close()
            self._show_record(self.desk.current)
        elif self.focused is self._input:
            self._deck.enter()

    # --- what if

    def _finished_record(self) -> Record | None:
        """The current run, if it is over and the engine can do something with it."""
        record = self.desk.current
        if self._launch.is_replay:  # a panel asked, not a key
            self._say(_NO_ENGINE, is_warning=True)
        elif record is None:
            self._say("ask a question first")
        elif self.desk.is_busy or not record.is_over:
            self._say("wait until the run is over, or stop it with Esc")
        else:
            return record
        return None

    def action_look_up(self) -> None:
        """Show what would have been looked up, without consulting it."""
        record = self._finished_record()
        if record is None:
            return
        if record.was_looked_up:
            self._say("this question was looked up: see panels 3 and 4")
            return
        self._turn_to(3)
        if record.unconsulted:
            self._deck.show_look_up(record.unconsulted, consulted=False)
        else:
            self._status.note("looking up")
            self._send(self.desk.look_up(record, "unconsulted"))

    def action_threshold(self, direction: int) -> None:
        """Move the threshold; the verdict is judged anew at once."""
        now = self.what_if.threshold
        record = self.desk.current
        if record is not None and not record.is_over:
            self._say("wait until the run is over, or stop it with Esc")
        elif now is None:
            self._say_unmoved()
        else:
            self._judge_at(next_threshold(now, direction))

    @on(ThresholdMoved)
    def _move_threshold(self, message: ThresholdMoved) -> None:
        if self.what_if.has_trigger:
            self._say_unmoved()
        else:
            self._judge_at(message.threshold)

    def _say_unmoved(self) -> None:
        if self.what_if.has_trigger:
            self._say(
                "a trigger cannot be moved afterwards: what was written after it depends on it; ask with --trigger"
            )
        else:
            self._say("this run compares with no threshold")

    def _judge_at(self, threshold: float) -> None:
        record = self.desk.current
        if record is not None and record.is_over and self.what_if.threshold is not None:
            self.what_if.move_threshold(threshold)
            self._deck.judge_at(threshold)

    @on(SelectionChanged)
    def _change_selection(self, message: SelectionChanged) -> None:
        record = self._finished_record()
        if record is None:
            return
        self.what_if.change(message.changes)
        is_first = not record.was_looked_up and not record.unconsulted
        request = self.desk.look_up(record, "unconsulted" if is_first else "what_if", self.what_if.selection)
        self._send(request)

    def action_other_branch(self) -> None:
        """Run with the what-if settings; draft and pseudo-context are not written again."""
        record, what_if = self._finished_record(), self.what_if
        if record is None:
            return
        if not what_if.changes:
            self._say("move the threshold with [ ] or change the selection first")
        elif not what_if.selection and not what_if.flips:
            self._say(f"at {what_if.changes[THRESHOLD]} the verdict stays the same")
        else:
            self._ask(record.query, flags={**record.flags, **what_if.changes}, reuse=record.reusable)

    def action_keep(self) -> None:
        """Use the what-if settings for the questions to come."""
        changes = self.what_if.changes
        if not changes:
            self._say("nothing was changed")
            return
        self.desk.choices |= changes
        kept = ", ".join(f"{name.removeprefix('ask.')} = {value}" for name, value in changes.items())
        self._say(f"kept for the next questions: {kept}")
        self._send(self.desk.prepare())

    @work
    async def action_compare(self) -> None:
        """Run the same question under another strategy and see both."""
        record = self._finished_record()
        name = await errands.choose_other_strategy(self.app, record) if record else None
        if record is None or name is None:
            return
        other = self.desk.answered(record, name) or self._ask(
            record.query, flags={**record.flags, "ask.strategy": name}, reuse=record.reusable
        )
        if other is not None:
            self._comparison = Comparison(record, other)
            self._compare(other)

    def _compare(self, changed: Record) -> None:
        screen = self._comparison.news(changed) if self._comparison else None
        if screen is not None:
            self.app.push_screen(screen, self._end_comparison)

    def _end_comparison(self, _: None) -> None:
        self._comparison = None

    # --- history, choices, files

    @work
    async def action_history(self) -> None:
        """Reopen a question of this session."""
        record = await errands.choose_record(self.app, self.desk.records)
        if record is not None:
            self.transport.close()
            self._show_record(record)

    @work
    async def action_choose(self) -> None:
        """Choose strategy, model, adapter or index for the questions to come."""
        if await errands.choose(self.app, self.desk, self._launch.config_file):
            self._send(self.desk.prepare())

    @work
    async def action_save(self) -> None:
        """Save the run as a trace."""
        if record := self._record_to("save"):
            await errands.save(self.app, record)

    @work
    async def action_export(self) -> None:
        """Export the run as a page, or the screen as a picture."""
        if record := self._record_to("export"):
            await errands.export(self.app, record)

    def action_copy(self) -> None:
        """Copy the answer with its sources."""
        record = self._record_to("copy")
        if record and record.summary:
            self.app.copy_to_clipboard(copying.answer_with_sources(record.summary))
            self._say("copied: the answer with its sources")

    def _record_to(self, what: str) -> Record | None:
        record = self.desk.current
        if record is None or not record.is_over:
            self._say(f"there is no finished run to {what}")
            return None
        return record

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

    def action_panel(self, number: int) -> None:
        """Go to a panel."""
        self._turn_to(number)

    def _turn_to(self, number: int) -> None:
        if self.maximized is not None:
            self.minimize()
        self._deck.turn_to(number)

    def action_maximise(self) -> None:
        """Let the focused panel fill the screen, or give the room back."""
        if self.maximized is not None:
            self.minimize()
            return
        chain = self.focused.ancestors_with_self if self.focused else ()
        self.maximize(next((node for node in chain if isinstance(node, Panel)), self._deck.front), container=False)

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
        if self.is_leaving:
            return False
        if self._launch.is_replay:
            return action not in self._ENGINE_ACTIONS
        return action not in self._PLAYER_ACTIONS or self.transport.player is not None

    # --- replay

    def _open_trace(self) -> None:
        start, *_ = events = self._launch.trace
        assert isinstance(start, RunStarted)
        self.query_one("#ask").display = False  # nobody would answer
        record = self.desk.add(Record(number=1, query=start.query, flags=self._launch.flags, events=list(events)))
        self._status.show_recorded(start)
        self._play(record)

    def action_play_again(self) -> None:
        """Play the current run from its beginning."""
        if record := self._record_to("play"):
            self._play(record)

    def _play(self, record: Record) -> None:
        self.desk.current = record
        self.transport.open(record.events)

    def action_play(self) -> None:
        """Play or pause."""
        self.transport.toggle()

    def action_step(self) -> None:
        """Show one event more."""
        self.transport.step()

    def action_play_to_end(self) -> None:
        """Show all that is left."""
        self.transport.finish()

    def action_speed(self, step: int) -> None:
        """Play faster or slower."""
        self.transport.change_speed(step)

    @on(TransportBar.Rewound)
    def _rewind(self) -> None:
        if self.desk.current is not None:
            self._show_record(self.desk.current, ())

    @on(TransportBar.Played)
    def _show_played(self, message: TransportBar.Played) -> None:
        if self.transport.player is not None:  # else another run is on the screen by now
            self._deck.show(message.events)


def _runner(screen: MainScreen, action: str) -> Callable[[], object]:
    async def run() -> None:
        await screen.run_action(action)

    return run
