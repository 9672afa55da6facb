"""Panel 4: all candidates, why some were kept, and what other settings would keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual import events as screen_events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.widgets import DataTable, Static

from adaptrag_cli.config import AIS_SCORES, RETRIEVERS
from adaptrag_cli.events import ChunksReranked, ChunksSelected, Event, TokenGenerated
from adaptrag_cli.render import score_label
from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.messages import ChunkOpened, SelectionChanged
from adaptrag_cli.tui.panels.base import Panel
from adaptrag_cli.tui.panels.candidate_table import CandidateTable
from adaptrag_cli.tui.panels.look_up_state import LookUpState
from adaptrag_cli.tui.panels.paths import NOT_CONSULTED
from adaptrag_cli.tui.panels.plane import PlanePicture

FEWEST, MOST = 1, 50
"""Limits of k and n here; the command line takes more."""
_CHOICES: Mapping[str, Sequence[str]] = {"ais": AIS_SCORES, "retriever": RETRIEVERS}
_KEYS = {"top_k": "k K", "top_n": "n N", "ais": "a", "retriever": "r"}
_WIDE = 100
_TALL = 24
_SCORES = {
    "cos": "AIS cos(θ1 + θ2)",
    "sum": "AIS sum s1 + s2",
    "dynamic": "AIS dynamic -(α θ1 + (1 - α) θ2)",
    "rerank": "AIS rerank K(d, q) + K(d, p)",
    "split": "without AIS: the first of each path",
    "query": "without AIS: by the question alone, s1",
    "expanded": "without AIS: by the expanded question alone",
    "reasoning": "without AIS: by the query that was made of the text",
}
_RERANKED = "without AIS: reranked, K(d, q)"
"""What `rerank` means where there is no pseudo-context."""
_WITHOUT_AIS = frozenset({"split", "query", "expanded", "reasoning"})


class SelectionPanel(Panel):
    """The table of candidates and their picture."""

    number = 4
    title = "Selection (AIS)"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "step('top_k', -1)", "k - 1", show=False),
        Binding("K", "step('top_k', 1)", "k + 1", show=False),
        Binding("n", "step('top_n', -1)", "n - 1", show=False),
        Binding("N", "step('top_n', 1)", "n + 1", show=False),
        Binding("a", "next('ais')", "Next AIS score", show=False),
        Binding("r", "next('retriever')", "Next retriever", show=False),
        Binding("o", "sort", "Sort by the next column", show=False),
        Binding("x", "reverse", "Reverse the order", show=False),
        Binding("p", "picture", "Picture or table", show=False),
    ]

    DEFAULT_CSS = """
    SelectionPanel {
        #selection-line { height: auto; max-height: 2; }
        #selection-what-if { height: auto; text-style: bold; }
        #selection-note { height: auto; color: $text-muted; }
        #selection-body { height: 1fr; layout: vertical; }
        CandidateTable { height: 1fr; }
        PlanePicture { height: 1fr; }

        &.-wide #selection-body { layout: horizontal; }
        &.-wide CandidateTable { width: 1fr; min-width: 66; max-width: 90; height: 100%; margin: 0 2 0 0; }
        &.-wide PlanePicture { width: 1fr; height: 100%; }
        &.-tall.-narrow CandidateTable { height: auto; max-height: 40%; margin: 0 0 1 0; }
        &.-switch {
            PlanePicture { display: none; }
            &.-picture CandidateTable { display: none; }
            &.-picture PlanePicture { display: block; }
        }
        &.-flat {
            PlanePicture { display: none; }
            CandidateTable { display: block; height: 1fr; max-width: 100%; max-height: 100%; margin: 0; }
        }
        &.-empty {
            #selection-line, PlanePicture { display: none; }
            CandidateTable { display: block; }
        }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._recorded: ChunksSelected | None = None
        self._shown: ChunksSelected | None = None
        self._forget()

    def compose(self) -> ComposeResult:
        yield Static(id="selection-line", markup=False)
        yield Static(id="selection-what-if", markup=False)
        yield Static(id="selection-note", markup=False)
        with Container(id="selection-body"):
            yield CandidateTable()
            yield PlanePicture()

    def on_mount(self) -> None:
        self._draw()

    def begin(self) -> None:
        self._forget()
        self.remove_class("-picture")
        self._draw()

    def show(self, events: Sequence[Event], *, consulted: bool = True) -> None:
        told = [event for event in events if not isinstance(event, TokenGenerated)]
        for event in told:
            self._state.take(event, consulted=consulted)
            if isinstance(event, ChunksReranked):
                self._reranker = event.reranker
            if isinstance(event, ChunksSelected):
                self._shown = event
                self._recorded = self._recorded if self._state.changes else event
        if told:
            self._draw()

    def enter(self) -> None:
        """Focus the table, or the picture that stands in its place."""
        (self._picture if self._is_picture_alone else self._table).focus()

    def _forget(self) -> None:
        self._state = LookUpState()
        self._recorded = self._shown = None
        self._reranker = ""
        self._drawn: tuple[ChunksSelected | None, ChunksSelected | None] | None = None
        """None says that what the table shows is another run's."""

    # --- keys and mouse

    def action_step(self, name: str, step: int) -> None:
        """Ask for one more or less."""
        value = self._state.settings.get(name)
        if isinstance(value, int):
            wanted = min(max(value + step, FEWEST), MOST)
            if wanted != value:
                self.post_message(SelectionChanged({f"ask.{name}": wanted}))

    def action_next(self, name: str) -> None:
        """Ask for the next choice."""
        value = self._state.settings.get(name)
        choices = _CHOICES[name]
        if value in choices:
            wanted = choices[(choices.index(str(value)) + 1) % len(choices)]
            self.post_message(SelectionChanged({f"ask.{name}": wanted}))

    def action_sort(self) -> None:
        """Sort by the next column."""
        self._table.sort_next()

    def action_reverse(self) -> None:
        """Reverse the order."""
        self._table.reverse()

    def action_picture(self) -> None:
        """Turn between table and picture, where there is room for one of them."""
        if not self.has_class("-flat"):
            self.toggle_class("-picture")
        self.enter()

    def on_data_table_row_highlighted(self, message: DataTable.RowHighlighted) -> None:
        message.stop()
        self._picture.point(self._table.pointed)

    def on_data_table_row_selected(self, message: DataTable.RowSelected) -> None:
        message.stop()
        self._open(self._table.pointed)

    def on_plane_picture_pointed(self, message: PlanePicture.Pointed) -> None:
        message.stop()
        self._table.point(message.index)

    def on_plane_picture_opened(self, message: PlanePicture.Opened) -> None:
        message.stop()
        self._open(message.index)

    def _open(self, index: int | None) -> None:
        if self._shown is not None and index is not None:
            self.post_message(ChunkOpened(self._shown.candidates[index]))

    # --- drawing

    @property
    def _table(self) -> CandidateTable:
        return self.query_one(CandidateTable)

    @property
    def _picture(self) -> PlanePicture:
        return self.query_one(PlanePicture)

    @property
    def _is_picture_alone(self) -> bool:
        return self.has_class("-switch") and self.has_class("-picture") and not self.has_class("-flat")

    def on_resize(self, event: screen_events.Resize) -> None:
        is_wide, is_tall = event.size.width >= _WIDE, event.size.height >= _TALL
        self.set_class(is_wide, "-wide")
        self.set_class(not is_wide, "-narrow")
        self.set_class(is_tall, "-tall")
        self.set_class(not is_wide and not is_tall, "-switch")
        self._draw_subtitle()

    def _draw(self) -> None:
        shown = self._shown
        self.set_class(not (shown and shown.candidates), "-empty")
        self.set_class(not self._has_plane, "-flat")
        self.query_one("#selection-line", Static).update(Content(self._line()))
        self._tell("#selection-what-if", self._what_if())
        self._tell("#selection-note", self._note())
        self._draw_subtitle()
        self.border_title = f"{self.number} {self.title if self._has_ais else 'Selection'}"
        if (shown, self._recorded) != self._drawn:  # a batch of tokens changes nothing here
            self._drawn = (shown, self._recorded)
            selection = shown or ChunksSelected(score_name="query", candidates=())
            self._picture.show(selection if self._has_plane else ChunksSelected(score_name="query", candidates=()))
            self._table.show(selection.candidates, self._kept_before, score_label(selection.score_name))

    @property
    def _has_ais(self) -> bool:
        """Whether angles of two paths were added up, or will be."""
        shown = self._shown
        if shown is None:
            return not self._state.makes_queries
        return shown.score_name not in _WITHOUT_AIS and (shown.score_name != "rerank" or self._has_plane)

    @property
    def _has_plane(self) -> bool:
        """Whether there are two directions: the picture is drawn in the plane of question and pseudo-context."""
        shown = self._shown
        if shown is None or not shown.candidates or shown.query_pseudo_similarity is None:
            return False
        return all(candidate.pseudo_context_score is not None for candidate in shown.candidates)

    def _tell(self, selector: str, text: str) -> None:
        widget = self.query_one(selector, Static)
        widget.update(Content(printable(text)))
        widget.display = bool(text)

    @property
    def _kept_before(self) -> frozenset[str] | None:
        """Ids of what the recorded selection kept; None where that is what is shown."""
        if self._recorded is None or self._shown is self._recorded:
            return None
        return frozenset(candidate.chunk_id for candidate in self._recorded.candidates if candidate.kept)

    def _note(self) -> str:
        shown = self._shown
        if shown is None:
            reason = self._state.reason
            return reason.replace("looked up yet", "selected yet")
        if not shown.candidates:
            return "nothing was selected: no path found a chunk"
        gone = (self._kept_before or frozenset()) - {candidate.chunk_id for candidate in shown.candidates}
        parts = [f"{len(gone)} kept before {_be(len(gone))} no candidate now"] if gone else []
        k = self._state.settings.get("top_k")
        if isinstance(k, int) and shown.score_name != "split" and k > len(shown.candidates):
            parts.append(f"k = {k} is more than there are: all {len(shown.candidates)} candidates are kept")
        return "; ".join(parts)

    def _line(self) -> str:
        shown = self._shown
        if shown is None:
            return ""
        parts = [self._score_in_words(shown)]
        if shown.query_weight is not None:
            parts.append(f"α = {shown.query_weight:.3f}")
        if shown.query_pseudo_similarity is not None:
            angle = math.degrees(math.acos(min(max(shown.query_pseudo_similarity, -1.0), 1.0)))
            parts.append(f"θ0 = {angle:.1f}°")
        settings = self._state.settings
        kept = sum(candidate.kept for candidate in shown.candidates)
        if shown.score_name == "split":  # as many of each path as the split says, whatever k is
            parts.append(f"{kept} of {len(shown.candidates)} kept")
        else:
            parts.append(f"k = {settings.get('top_k', kept)} of {len(shown.candidates)}")
        if "top_n" in settings:
            parts.append(f"n = {settings['top_n']}")
        if "retriever" in settings:
            parts.append(printable(str(settings["retriever"])))
        return "   ".join(parts)

    def _score_in_words(self, shown: ChunksSelected) -> str:
        words = _SCORES.get(shown.score_name, f"AIS {shown.score_name}")
        if shown.score_name != "rerank":
            return printable(words)
        words = words if self._has_plane else _RERANKED
        return printable(f"{words} by {self._reranker}" if self._reranker else words)

    def _what_if(self) -> str:
        if self._shown is None:
            return ""
        parts = [] if self._state.is_consulted else [f"{NOT_CONSULTED}: this would have been selected"]
        if self._state.changes:
            marks = " (+ newly kept, - no longer kept)" if self._kept_before is not None else ""
            parts.append(f"what if: {self._state.changes_in_words}{marks}; f runs it, Esc goes back")
        return "; ".join(parts)

    def _draw_subtitle(self) -> None:
        is_unconsulted = self._shown is not None and not self._state.is_consulted
        keys = " ".join(key for name, key in _KEYS.items() if name in self._state.settings)
        has_picture = self.has_class("-switch") and not self.has_class("-flat")
        hint = (f"{keys} what if, " if keys else "") + "o x sort" + (", p picture" if has_picture else "")
        parts = [(NOT_CONSULTED, "bold"), ("  ", "")] if is_unconsulted else []
        self.border_subtitle = Content.assemble(*parts, (hint, "")) if self._shown else None


def _be(count: int) -> str:
    return "is" if count == 1 else "are"
