"""Panel 3: what each search path looked for and found, side by side where there is room.

Which paths there are follows from the run: two where the method has a setting for them, the expanded one where the
model widens the question, else the question alone. The look-ups of a method that writes and searches in turn are shown
one at a time, the newest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events as screen_events
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.content import Content

from adaptrag_cli.events import (
    ChunkPeeked,
    ChunksSelected,
    Event,
    GenerationReused,
    PathName,
    PathRetrieved,
    Phase,
    PromptBuilt,
    PseudoContextWritten,
    QueryBuilt,
    RankedChunk,
    RunStarted,
    TokenGenerated,
)
from adaptrag_cli.tables import PATH_NAMES
from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.panels.base import Panel
from adaptrag_cli.tui.panels.chunk_list import ChunkList, Found
from adaptrag_cli.tui.panels.line import Line
from adaptrag_cli.tui.panels.look_up_state import LookUpState
from adaptrag_cli.tui.panels.look_ups import LookUps
from adaptrag_cli.tui.panels.streamed_text import StreamedText

NOT_CONSULTED = "not consulted"
_SOUGHT: dict[PathName, str] = {
    "query": "the question",
    "pseudo_context": "imagined, never evidence",
    "expanded": "the question, widened by the model",
    "reasoning": "made of the chain of thought",
}
_WRITING: dict[Phase, str] = {
    "pseudo_context": "the model imagines a passage to search with",
    "rationale": "the model thinks aloud to widen the question",
}
"""What the model writes to search with."""
_ALL_PATHS: tuple[PathName, ...] = ("query", "pseudo_context", "expanded", "reasoning")
_WIDE = 90
_TALL = 24
_ROOMY = 20


class PathHead(Line):
    """Name, retriever and size of a path; a click shows the path."""

    def __init__(self, path: PathName) -> None:
        super().__init__(classes="head")
        self.path = path


class PathColumn(Vertical):
    """One path: its search text above, its chunks below."""

    def __init__(self, path: PathName) -> None:
        super().__init__()
        self.path = path
        self.text = StreamedText()
        self.chunks = ChunkList()
        self._label = Line(classes="label")
        self._note = Line(classes="note")

    def compose(self) -> ComposeResult:
        yield PathHead(self.path)
        yield self._label
        yield self.text
        yield self._note
        yield self.chunks

    def show(self, found: Found, note: str, label: str) -> None:
        """Show chunks, or in one line why there are none."""
        self._label.tell(Content(label))
        self._label.display = self.text.display = not self.text.is_empty
        self._note.tell(Content(printable(note)))
        self._note.display = bool(note)
        self.chunks.show(found)
        self.chunks.display = bool(found.chunks)


class PathsPanel(Panel):
    """One column a path."""

    number = 3
    title = "Paths"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "other_path", "The other path", show=False),
        Binding("left", "go(0)", "First path", show=False),
        Binding("right", "go(-1)", "Last path", show=False),
    ]

    DEFAULT_CSS = """
    PathsPanel {
        #paths-note { height: auto; text-style: bold; display: none; }
        #paths-tabs { height: 1; display: none; }
        #paths-tabs .head { width: auto; margin: 0 2 0 0; }
        #paths-body { height: 1fr; layout: vertical; }
        PathColumn { height: 1fr; }
        .head { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
        .label { height: 1; color: $text-muted; }
        .note { height: auto; color: $text-muted; }
        StreamedText { max-height: 3; padding: 0 0 0 2; }
        ChunkList { height: 1fr; }

        &.-roomy {
            StreamedText { max-height: 8; }
            .label { margin: 1 0 0 0; }
            .note, ChunkList { margin: 1 0 0 0; }
        }
        &.-wide #paths-body { layout: horizontal; }
        &.-wide PathColumn { width: 1fr; height: 100%; padding: 0 1 0 0; }
        &.-switch {
            #paths-tabs { display: block; }
            PathColumn > .head { display: none; }
            PathColumn { display: none; }
            PathColumn.-chosen { display: block; }
        }
        .-absent { display: none; }
        &.-rounds {
            PathColumn, PathColumn.-chosen, #paths-tabs { display: none; }
            LookUps { display: block; }
        }
        &.-single {
            #paths-tabs { display: none; }
            PathColumn > .head { display: block; }
        }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._chosen: PathName = "query"
        self._pseudo_context: str | None = None
        self._writing: Phase | None = None
        """What the model writes to search with."""
        self._columns = {path: PathColumn(path) for path in _ALL_PATHS}
        self._look_ups = LookUps()
        self._forget()

    def compose(self) -> ComposeResult:
        yield Line(id="paths-note")
        with Horizontal(id="paths-tabs"):
            for path in _ALL_PATHS:
                yield PathHead(path)
        with Container(id="paths-body"):
            yield from self._columns.values()
            yield self._look_ups

    def on_mount(self) -> None:
        self._draw()

    def begin(self) -> None:
        self._forget()
        self._chosen = "query"
        for column in self._columns.values():
            column.text.replace("")
        self._draw()

    def show(self, events: Sequence[Event], *, consulted: bool = True) -> None:
        fresh = ""
        was_empty = self._written.is_empty
        for event in events:
            self._state.take(event, consulted=consulted)
            match event:
                case TokenGenerated() if event.phase in _WRITING:
                    fresh += event.text
                case PromptBuilt() if event.phase in _WRITING:
                    fresh = ""
                    self._writing = event.phase
                    self._written.replace("")
                case GenerationReused() if event.phase in _WRITING:
                    fresh = ""  # its tokens follow
                    self._written.replace("")
                case PseudoContextWritten():
                    fresh = ""
                    self._writing = None
                    self._pseudo_context = event.text.strip()
                    self._written.replace(self._pseudo_context)
                case QueryBuilt():
                    self._look_ups.begin(event)
                case PathRetrieved() if self._look_ups.count and consulted:
                    self._look_ups.find(event)
                case PathRetrieved():
                    fresh = "" if event.path == self._widened else fresh  # its search text holds it
                    self._take(event)
                case _:
                    self._take(event)
        self._written.append(fresh)
        if was_empty != self._written.is_empty or not all(isinstance(event, TokenGenerated) for event in events):
            self._draw()

    def enter(self) -> None:
        """Focus the list of the path that is shown, or the other where this one is empty."""
        if self._look_ups.count:
            self._look_ups.enter()
            return
        paths = sorted(self._shown, key=lambda path: path != self._chosen)
        column = next((self._columns[path] for path in paths if self._found(path).chunks), None)
        if column is None:
            self._columns[self._chosen].text.focus()
        else:
            self._choose(column.path)
            column.chunks.focus()

    # --- what comes

    def _forget(self) -> None:
        self._state = LookUpState()
        self._peek: RankedChunk | None = None
        self._forget_paths()

    def _forget_paths(self) -> None:
        self._writing = None
        self._pseudo_context = None
        self._look_ups.clear()
        self._retrieved: dict[PathName, PathRetrieved] = {}
        self._is_selected = False

    def _take(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._forget_paths()
                for path, column in self._columns.items():
                    column.text.replace(event.query if path == "query" else "")
            case PathRetrieved():
                self._retrieved[event.path] = event
                self._writing = None
                self._columns[event.path].text.replace(event.query_text)
            case ChunksSelected():
                self._is_selected = True
            case ChunkPeeked():
                self._peek = event.chunk

    @property
    def _widened(self) -> PathName:
        """The path that is searched with what the model writes."""
        return "pseudo_context" if self._state.has_two_paths else "expanded"

    @property
    def _written(self) -> StreamedText:
        return self._columns[self._widened].text

    @property
    def _shown(self) -> list[PathName]:
        """The paths of this run."""
        wanted = set(self._retrieved)
        if self._state.has_two_paths:
            wanted |= {"query", "pseudo_context"}
        elif (self._writing or self._pseudo_context) and "pseudo_context" not in wanted:  # a blank one widens nothing
            wanted.add("expanded")
        return [path for path in _ALL_PATHS if path in (wanted or {self._first_path})]

    @property
    def _first_path(self) -> PathName:
        """What is shown before anything was searched for."""
        return "reasoning" if self._state.makes_queries and self._peek is None else "query"

    # --- keys and mouse

    def action_other_path(self) -> None:
        """Show the other path, or the next look-up."""
        if self._look_ups.count:
            self._step(1)
            return
        shown = self._shown
        self._go(shown[(shown.index(self._chosen) + 1) % len(shown)])

    def action_go(self, end: int) -> None:
        """Show the first (0) or the last (-1) path, or the look-up before or after."""
        if self._look_ups.count:
            self._step(1 if end else -1)
        else:
            self._go(self._shown[end])

    @on(screen_events.Click, ".head")
    def _click_head(self, event: screen_events.Click) -> None:
        if isinstance(event.widget, PathHead):
            self._go(event.widget.path)

    @on(screen_events.DescendantFocus)
    def _note_focus(self, event: screen_events.DescendantFocus) -> None:
        column = next((node for node in event.widget.ancestors if isinstance(node, PathColumn)), None)
        if column is not None and column.path != self._chosen:
            self._choose(column.path)

    def _step(self, direction: int) -> None:
        self._look_ups.step(direction)
        self._look_ups.enter()

    def _go(self, path: PathName) -> None:
        self._choose(path)
        column = self._columns[path]
        (column.chunks if self._found(path).chunks else column.text).focus()

    def _choose(self, path: PathName) -> None:
        self._chosen = path
        self._draw_heads()

    # --- drawing

    def on_resize(self, event: screen_events.Resize) -> None:
        is_wide, is_tall = event.size.width >= _WIDE, event.size.height >= _TALL
        self.set_class(is_wide, "-wide")
        self.set_class(not is_wide and not is_tall, "-switch")
        self.set_class(event.size.height >= (_ROOMY if is_wide else 2 * _ROOMY), "-roomy")
        self._draw_heads()
        self._draw_subtitle()

    def _draw(self) -> None:
        self.set_class(self._look_ups.count > 0, "-rounds")
        self._look_ups.draw()
        shown = self._shown
        if self._chosen not in shown:
            self._chosen = shown[0]
        self.set_class(len(shown) == 1, "-single")
        for path in shown:
            self._columns[path].show(self._found(path), self._note(path), f"searched for ({_SOUGHT[path]}):")
        for column in self._columns.values():
            column.set_class(column.path not in shown, "-absent")
        for head in self.query("#paths-tabs > .head").results(PathHead):
            head.set_class(head.path not in shown, "-absent")
        self._draw_heads()
        self._draw_note()
        self._draw_subtitle()

    def _found(self, path: PathName) -> Found:
        retrieved = self._retrieved.get(path)
        if retrieved is None:
            is_peek = path == "query" and self._peek is not None and not self._retrieved
            query = self._state.start.query if self._state.start else ""
            return Found(chunks=(self._peek,), query_text=query) if is_peek and self._peek else Found()
        others = {c.chunk_id for name, other in self._retrieved.items() if name != path for c in other.chunks}
        both = frozenset(chunk.chunk_id for chunk in retrieved.chunks if chunk.chunk_id in others)
        return Found(chunks=retrieved.chunks, query_text=retrieved.query_text, in_both=both)

    def _note(self, path: PathName) -> str:
        """Why the path has no chunks, or what its one chunk is; empty where the chunks speak."""
        retrieved = self._retrieved.get(path)
        if retrieved is not None:
            if retrieved.chunks:
                return ""
            shares = "no chunk shares a word with this text" if retrieved.retriever == "sparse" else "no chunk"
            return f"nothing was found: {shares}"
        if path == "query" and self._peek is not None and not self._retrieved:
            return "best chunk, not consulted; w shows all"
        if path == self._widened and self._writing:
            return _WRITING[self._writing]
        if path == "pseudo_context" and self._pseudo_context == "":
            return "the pseudo-context is blank, so there was nothing to search with"
        if self._is_selected:
            return "not searched: the settings leave this path out"
        if path == "query" or self._state.is_skipped or not (self._retrieved or self._pseudo_context is not None):
            return self._state.reason
        return "not searched yet"

    def _draw_heads(self) -> None:
        for column in self._columns.values():
            column.set_class(column.path == self._chosen, "-chosen")
        is_switch = self.has_class("-switch") and not self.has_class("-single")
        for head in self.query(PathHead):
            retrieved = self._retrieved.get(head.path)
            count = len(retrieved.chunks) if retrieved else None
            parts = [] if count is None else [f"{count} chunk{'' if count == 1 else 's'}"]
            if retrieved is not None and not is_switch:
                parts.insert(0, printable(retrieved.retriever))
            style = "bold" if not is_switch else "bold reverse" if head.path == self._chosen else "dim"
            name = f"{PATH_NAMES[head.path]} path"
            name = f" {name} " if is_switch else name
            head.tell(Content.assemble((name, style), (f"  {', '.join(parts)}" if parts else "", "dim")))

    @property
    def _is_unconsulted(self) -> bool:
        return bool(self._retrieved) and not self._state.is_consulted

    def _draw_note(self) -> None:
        changes = printable(self._state.changes_in_words) if self._retrieved else ""
        parts = [f"{NOT_CONSULTED}: this would have been looked up"] if self._is_unconsulted else []
        if self._retrieved and all(path.before_decision for path in self._retrieved.values()):
            seen = f"{NOT_CONSULTED}: " if self._state.is_skipped else ""
            parts.append(f"{seen}searched before the decision")
        parts += [f"what if: {changes}"] if changes else []
        note = self.query_one("#paths-note", Line)
        note.tell(Content("; ".join(parts)))
        note.display = bool(parts)

    def _draw_subtitle(self) -> None:
        if self._look_ups.count:
            self.border_subtitle = "p the next look-up" if self._look_ups.count > 1 else None
            return
        is_peek = self._peek is not None and not self._retrieved
        is_switch = self.has_class("-switch") and not self.has_class("-single")
        parts = [(NOT_CONSULTED, "bold")] if self._is_unconsulted or is_peek else []
        parts += [("  " if parts else "", ""), ("p the other path", "")] if is_switch else []
        self.border_subtitle = Content.assemble(*parts) if parts else None
