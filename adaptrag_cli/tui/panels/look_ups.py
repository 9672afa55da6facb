"""The look-ups of a method that writes and searches in turn, one at a time: its query by weight, and what was found."""

from __future__ import annotations

from dataclasses import dataclass

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from adaptrag_cli.events import PathRetrieved, QueryBuilt
from adaptrag_cli.look_ups import query_method, shares
from adaptrag_cli.palette import ENTROPY_CEILING, shade
from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.panels.chunk_list import ChunkList, Found
from adaptrag_cli.tui.panels.line import Line

_QUIET = "$foreground-muted"
_HEAVY = 0.5
"""Words of at least this share of the greatest weight are bold."""


@dataclass(kw_only=True)
class _LookUp:
    query: QueryBuilt
    found: PathRetrieved | None = None


class LookUps(Vertical, can_focus=True):
    """Shows the newest look-up until the person goes to another one."""

    DEFAULT_CSS = """
    LookUps {
        display: none;
        height: 1fr;
        .query { height: auto; max-height: 40%; padding: 0 0 0 2; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._look_ups: list[_LookUp] = []
        self._chosen: int | None = None
        """None while the newest is shown."""
        self._head = Line(classes="head")
        self._label = Line(classes="label")
        self._query = Line(classes="query")
        self._note = Line(classes="note")
        self.chunks = ChunkList()

    def compose(self) -> ComposeResult:
        yield self._head
        yield self._label
        yield self._query
        yield self._note
        yield self.chunks

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self.draw())

    @property
    def count(self) -> int:
        """How many there were."""
        return len(self._look_ups)

    def clear(self) -> None:
        """Forget them."""
        self._look_ups, self._chosen = [], None

    def begin(self, query: QueryBuilt) -> None:
        """A query is searched for."""
        self._look_ups.append(_LookUp(query=query))

    def find(self, found: PathRetrieved) -> None:
        """Take what the last query found."""
        self._look_ups[-1].found = found

    def step(self, direction: int) -> None:
        """Go to the look-up before (-1) or after (+1), from the last to the first."""
        if self._look_ups:
            number = (self._shown + direction) % self.count
            self._chosen = None if number == self.count - 1 else number
            self.draw()

    def enter(self) -> None:
        """Take the keys."""
        (self.chunks if self.chunks.display else self).focus()

    @property
    def _shown(self) -> int:
        return self.count - 1 if self._chosen is None else self._chosen

    def draw(self) -> None:
        """Show what is known of the chosen one."""
        if not self._look_ups:
            return
        look_up = self._look_ups[self._shown]
        found = look_up.found
        parts = f"  {printable(found.retriever)}, {_plural(len(found.chunks))}" if found else ""
        self._head.tell(Content.assemble((f"look-up {self._shown + 1} of {self.count}", "bold"), (parts, "dim")))
        self._label.tell(Content(printable(f"searched for ({query_method(look_up.query)}):")))
        self._query.tell(_weighed(look_up.query, dark=self.app.current_theme.dark))
        note = "" if found and found.chunks else "nothing was found" if found else "not searched yet"
        self._note.tell(Content(note))
        self._note.display = bool(note)
        text = found.query_text if found else ""
        self.chunks.show(Found(chunks=found.chunks if found else (), query_text=text))
        had_focus = self.chunks.has_focus
        self.chunks.display = bool(found and found.chunks)
        if had_focus:
            self.enter()


def _weighed(query: QueryBuilt, *, dark: bool) -> Content:
    """The words of a query, shaded by weight and with the weights; a query that was not put together of words as it is.

    The heavy ones are bold, too, for terminals without colours.
    """
    if not query.words:
        return Content(printable(query.text))
    parts: list[tuple[str, str]] = []
    for word, share in zip(query.words, shares(query), strict=True):
        colours = shade(share * ENTROPY_CEILING, dark=dark)
        style = "" if colours.background is None else f"{colours.foreground} on {colours.background}"
        parts.append((printable(word.text), f"bold {style}" if share >= _HEAVY else style))
        parts.append(("  " if word.weight is None else f" {word.weight:#.2g}  ", _QUIET))
    return Content.assemble(*parts)


def _plural(count: int) -> str:
    return f"{count} chunk{'' if count == 1 else 's'}"
