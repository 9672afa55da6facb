"""The answer as it is written, what became of it, and its sources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len, set_cell_size
from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from adaptrag_cli.events import (
    Candidate,
    ChunksSelected,
    Event,
    GenerationReused,
    PromptBuilt,
    QueryBuilt,
    RankedChunk,
    RunFailed,
    RunFinished,
    RunStarted,
    SentenceCited,
    TokenGenerated,
    TokensDiscarded,
    WarningRaised,
    WordMeasured,
)
from adaptrag_cli.render import doing, looking_up, scores, source_label, verdict_lines, warning_line
from adaptrag_cli.run_summary import RunSummary, fold
from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.fitting import cut_end, cut_middle
from adaptrag_cli.tui.flowing_text import FlowingText
from adaptrag_cli.tui.messages import ChunkOpened
from adaptrag_cli.tui.panels.base import Panel

_EMPTY = "no answer yet"
_UNJUDGED = "being written: not judged yet, it may turn out to be a guess"
_HINT = "enter opens a source"
_CANCELLED = 130
_AIRY = 10
"""Rows of the panel from which on a line parts the answer, what is said of it, and the sources."""
_ROOMY = 16
"""And from which on a source takes two lines."""
_LONGEST_PLACE = 48


class Source(NamedTuple):
    """A row of the list."""

    label: str
    chunk: Candidate | RankedChunk


class AnswerPanel(Panel):
    """Streams the answer; Enter on a source opens it."""

    number: ClassVar[int] = 5
    title: ClassVar[str] = "Answer"
    DEFAULT_CSS = """
    AnswerPanel {
        #answer-state {
            height: auto; max-height: 2; color: $text-muted;
            &.warning { color: $text-warning; }
            &.error { color: $text-error; text-style: bold; }
        }
        #answer-scroll { scrollbar-gutter: stable; scrollbar-size: 0 1; }
        #answer-sources {
            background: transparent; scrollbar-gutter: stable; scrollbar-size: 0 1;
            text-wrap: nowrap; text-overflow: ellipsis;
            & > .option-list--option-highlighted {
                background: $primary 15%; color: $foreground; text-style: none;
            }
            &:focus {
                background-tint: transparent;
                & > .option-list--option-highlighted {
                    background: $primary 40%; color: $foreground; text-style: none;
                }
            }
        }
        &.-airy #answer-scroll { margin-bottom: 1; }
        &.-parted #answer-notes { margin-top: 1; }
        &.-roomy #answer-state { margin-bottom: 1; }
    }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._forget()

    def _forget(self) -> None:
        self._events: list[Event] = []
        """Of the run that is shown, but for its tokens."""
        self._is_over = False
        """Whether it has ended with an answer."""
        self._state: tuple[str, str] = (_EMPTY, "")
        """What is being done, and the class of its colour; nothing when it is done."""
        self._fresh: list[str] = []
        """Tokens of this batch."""
        self._tail = ""
        """What was written behind the last sentence that is traced."""
        self._is_blank = True
        """Whether nothing but white space was written."""
        self._sentences: list[SentenceCited] = []
        self._selected: Sequence[Candidate] = ()
        self._score_name = ""
        """Of the selection they are from."""
        self._sources: list[Source] = []
        self._unconsulted: Sequence[Candidate] = ()

    def compose(self) -> ComposeResult:
        yield Static(id="answer-state", markup=False)
        with VerticalScroll(id="answer-scroll"):
            yield FlowingText(id="answer-text")
            yield FlowingText(id="answer-notes")
        yield OptionList(id="answer-sources", compact=True, markup=False)

    def begin(self) -> None:
        self._forget()
        self._text.clear()
        self._notes.clear()
        self._tell_state()
        self._list_sources()

    def enter(self) -> None:
        (self._list if self._list.display else self._scroll).focus()

    def show(self, events: Sequence[Event], *, consulted: bool = True) -> None:
        follows, was_over = self._scroll.is_vertical_scroll_end, self._is_over
        state, sources, unconsulted = self._state, self._sources, self._unconsulted
        for event in events:
            if consulted:
                self._take(event)
            elif isinstance(event, ChunksSelected):  # of what would have been looked up, only that concerns an answer
                self._unconsulted = [c for c in event.candidates if c.kept]
                self._score_name = event.score_name
        self._write_fresh()
        if state is not self._state:
            self._tell_state()
        if sources is not self._sources or unconsulted is not self._unconsulted:
            self._list_sources()
        self._fit()
        if not was_over and (follows or self._is_over):
            self.call_after_refresh(self._keep_in_sight)

    def _keep_in_sight(self) -> None:
        """Show the end of what is being written, and the beginning of what stands."""
        if self._is_over:
            self._scroll.scroll_home(animate=False, immediate=True)
        else:
            self._scroll.scroll_end(animate=False, immediate=True)

    # --- the answer

    def _take(self, event: Event) -> None:
        if isinstance(event, TokenGenerated):
            if event.phase == "answer":
                self._take_token(event.text)
            return
        if not isinstance(event, WordMeasured) or event.fires:
            self._events.append(event)
        match event:
            case RunStarted():
                self._state = ("begun", "")
            case PromptBuilt() | GenerationReused():
                self._state = (f"{doing(event)} ...", "")
                if event.phase == "answer":
                    self._rewrite()
                    if isinstance(event, PromptBuilt):
                        self._sources = self._read_sources(event.chunk_ids)
            case TokensDiscarded(phase="answer"):
                self._rewrite()
            case QueryBuilt():
                self._state = (f"{looking_up(event)} ...", "")
            case ChunksSelected():
                self._selected, self._score_name = event.candidates, event.score_name
            case SentenceCited():
                self._take_sentence(event)
            case WarningRaised():
                self._note(warning_line(event))
            case RunFinished():
                self._finish(event)
            case RunFailed():
                self._fail(event)

    def _rewrite(self) -> None:
        """Forget what was written: of several answers the last one stands."""
        self._text.clear()
        self._fresh.clear()
        self._sentences.clear()
        self._tail, self._is_blank = "", True

    def _take_token(self, text: str) -> None:
        if self._is_blank:
            text = text.lstrip()
            if not text:
                return
            self._is_blank = False
            self._state = (_UNJUDGED, "warning")
        self._fresh.append(text)

    def _take_sentence(self, sentence: SentenceCited) -> None:
        """Put the sentence with its markers where its tokens stand; what follows it stays."""
        written = self._tail + "".join(self._fresh)
        self._fresh.clear()
        self._text.rewind()
        _append_sentence(self._text, sentence, "unjudged", is_first=not self._sentences)
        self._text.keep()
        self._sentences.append(sentence)
        _, found, rest = written.partition(sentence.text.strip())
        self._tail = rest if found else ""
        self._text.append(self._tail, "unjudged")

    def _write_fresh(self) -> None:
        text = "".join(self._fresh)
        self._fresh.clear()
        self._tail += text
        self._text.append(text, "unjudged")

    def _finish(self, end: RunFinished) -> None:
        run = fold(self._events)
        self._is_over = True
        self._state = ("", "")
        self._fresh.clear()
        self._text.clear()
        if end.extraction == "cited":
            for number, sentence in enumerate(run.sentences):
                _append_sentence(self._text, sentence, "", is_first=not number)
        elif end.answer_source == "none":
            self._text.append(end.answer, "strong")
        else:
            self._text.append(end.answer or "(blank)", "" if end.answer else "dim")
        self._notes.clear()
        for line in (*verdict_lines(run), *map(warning_line, run.warnings)):
            self._note(line)
        self._sources = _sources(run)

    def _fail(self, failure: RunFailed) -> None:
        """Tell what went wrong; what was written until then stays, as what it is."""
        is_cancelled = failure.exit_code == _CANCELLED
        self._state = ("stopped", "") if is_cancelled else ("the run failed", "error")
        if not is_cancelled:
            self._note(failure.message, "strong")
            self._note(failure.hint)

    def _note(self, line: str, style: str = "dim") -> None:
        if line:
            self._notes.append(f"\n{line}" if self._notes.has_text else line, style)

    def _tell_state(self) -> None:
        text, kind = self._state
        state = self.query_one("#answer-state", Static)
        state.display = bool(text)
        state.update(Content(printable(text)))
        state.set_classes(kind)

    # --- the sources

    def _read_sources(self, chunk_ids: Iterable[str]) -> list[Source]:
        """What is being read, numbered as the markers number it."""
        by_id = {chunk.chunk_id: chunk for chunk in self._selected}
        found = (by_id[chunk_id] for chunk_id in chunk_ids if chunk_id in by_id)
        return [Source(f"[{number}]", chunk) for number, chunk in enumerate(found, start=1)]

    def _rows(self) -> list[Source]:
        shown = {source.chunk.chunk_id for source in self._sources}
        more = [chunk for chunk in self._unconsulted if chunk.chunk_id not in shown]
        return [*self._sources, *(Source("not consulted", chunk) for chunk in more)]

    def _list_sources(self) -> None:
        rows, at = self._rows(), self._list.highlighted
        self._list.display = bool(rows)
        self.border_subtitle = _HINT if rows else None
        width = max(20, self.content_size.width - 1)  # the scrollbar's place
        lines = _source_lines(rows, width, self._score_name, is_roomy=self._is_roomy)
        self._list.set_options(Option(line) for line in lines)
        if rows:
            self._list.highlighted = min(at or 0, len(rows) - 1)

    @property
    def _is_airy(self) -> bool:
        return self.content_size.height >= _AIRY

    @property
    def _is_roomy(self) -> bool:
        return self.content_size.height >= _ROOMY

    def _fit(self) -> None:
        """Give the answer what it needs, and the sources half of the rows or what the answer leaves."""
        self._notes.display = self._notes.has_text
        is_parted = self._is_airy and self._text.has_text and self._notes.has_text
        self.set_class(is_parted, "-parted")
        width, height = self.content_size
        free = max(2, height - self._state_rows(width) - self._is_airy)
        text = self._text.height_for(width - 1) + self._notes.height_for(width - 1) + is_parted
        sources = len(self._rows()) * (2 if self._is_roomy else 1)
        sources = min(sources, max(free // 2, free - text))
        self._list.styles.max_height = sources
        self._scroll.styles.height = max(1, min(text, free - sources))  # `auto` would wrap it for two widths

    def _state_rows(self, width: int) -> int:
        """With the line below it."""
        text, _ = self._state
        return (1 if cell_len(text) <= width else 2) + self._is_roomy if text else 0

    def on_resize(self) -> None:
        self.set_class(self._is_airy, "-airy")
        self.set_class(self._is_roomy, "-roomy")
        self._list_sources()
        self._fit()

    @on(OptionList.OptionSelected, "#answer-sources")
    def _open(self, message: OptionList.OptionSelected) -> None:
        message.stop()
        self.post_message(ChunkOpened(self._rows()[message.option_index].chunk))

    @property
    def _text(self) -> FlowingText:
        return self.query_one("#answer-text", FlowingText)

    @property
    def _notes(self) -> FlowingText:
        return self.query_one("#answer-notes", FlowingText)

    @property
    def _scroll(self) -> VerticalScroll:
        return self.query_one("#answer-scroll", VerticalScroll)

    @property
    def _list(self) -> OptionList:
        return self.query_one("#answer-sources", OptionList)


def _append_sentence(text: FlowingText, sentence: SentenceCited, style: str, *, is_first: bool) -> None:
    """Write what `marked_text` says, its markers in their own style."""
    words = sentence.text.strip()
    text.append(words if is_first else f" {words}", style)
    text.append(sentence.marked_text.removeprefix(words), "marker")


def _sources(run: RunSummary) -> list[Source]:
    label = source_label(run)
    rows = [Source(f"{label}[{number}]", chunk) for number, chunk in enumerate(run.sources, start=1)]
    return [*rows, Source("not consulted", run.peek)] if run.peek else rows


def _source_lines(rows: Sequence[Source], width: int, score_name: str, *, is_roomy: bool) -> list[Content]:
    """One source a line, or two where there is room: marker, place and scores, then heading and first words."""
    measured = [scores(row.chunk, score_name) for row in rows]
    labels = max((cell_len(row.label) for row in rows), default=0)
    measures = max(map(cell_len, measured), default=0)
    longest = max((cell_len(printable(row.chunk.location)) for row in rows), default=0)
    places = min(longest, _LONGEST_PLACE, max(8, width - labels - measures - 3))
    lines = []
    for row, measure in zip(rows, measured, strict=True):
        chunk = row.chunk
        label = set_cell_size(row.label, labels)
        place = set_cell_size(cut_middle(printable(chunk.location), places), places)
        head = Content.assemble((label, "bold"), f" {place}  ", (set_cell_size(measure, measures), "dim"))
        room = width - (labels + 1 if is_roomy else head.cell_length + 2)
        words = cut_end(" · ".join(part for part in (printable(chunk.title), _words(chunk.text)) if part), room)
        if is_roomy:
            lines.append(Content.assemble(head, "\n", " " * (labels + 1), (words, "dim")))
        else:
            lines.append(Content.assemble(head, "  ", (words, "dim")) if room >= 12 else head)
    return lines


def _words(text: str) -> str:
    return printable(" ".join(text[:400].split()))
