"""The six panels: all at once where there is room, one at a time below tabs where there is not."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widgets import Tab, Tabs

from adaptrag_cli.events import (
    AgreementMeasured,
    AnswersWeighed,
    ChunksReranked,
    ChunksSelected,
    DecisionMade,
    Event,
    PathRetrieved,
    RunFailed,
    RunFinished,
    TokenGenerated,
)
from adaptrag_cli.tui.panels.answer import AnswerPanel
from adaptrag_cli.tui.panels.base import Panel
from adaptrag_cli.tui.panels.decision import DecisionPanel
from adaptrag_cli.tui.panels.draft import DraftPanel
from adaptrag_cli.tui.panels.paths import PathsPanel
from adaptrag_cli.tui.panels.selection import SelectionPanel
from adaptrag_cli.tui.panels.timeline import TimelinePanel

_PANELS: tuple[type[Panel], ...] = (DraftPanel, DecisionPanel, PathsPanel, SelectionPanel, AnswerPanel, TimelinePanel)


class Deck(Vertical):
    """Feeds the panels and knows which one is in front.

    The screen it stands on has the classes `-slim`, `-broad` or `-vast` by width and `-short` or `-tall` by height;
    `app.tcss` says where the panels stand then.
    """

    DEFAULT_CSS = """
    Deck {
        height: 1fr;
        #tabs Underline > .underline--bar { color: $accent; }
        #panels { height: 1fr; layout: vertical; }
        #panels > Panel { display: none; height: 1fr; }
        #panels > Panel.active { display: block; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._panels = {kind.number: kind() for kind in _PANELS}
        self._follows = True
        """Whether the tab turns to where things happen: until the person has chosen one."""

    def compose(self) -> ComposeResult:
        yield Tabs(*(Tab(f"{kind.number} {kind.title}", id=f"tab-{kind.number}") for kind in _PANELS), id="tabs")
        with Container(id="panels"):
            yield from self._panels.values()

    def on_mount(self) -> None:
        for panel in self._panels.values():
            panel.begin()
        self.bring_forward(1)

    @property
    def is_tabbed(self) -> bool:
        """Whether only one panel is seen."""
        return self.screen.has_class("-slim") or self.screen.has_class("-short")

    @property
    def front(self) -> Panel:
        """The panel that a small screen shows."""
        return next(panel for panel in self._panels.values() if panel.has_class("active"))

    def panel(self, number: int) -> Panel:
        """The panel of a number, 1 to 6."""
        return self._panels[number]

    # --- feeding

    def begin(self, events: Sequence[Event] = ()) -> None:
        """Show another run, from its beginning."""
        self._follows = True
        for panel in self._panels.values():
            panel.begin()
            panel.show(events)
        self._name_tabs()

    def show(self, events: Sequence[Event]) -> None:
        """Show more of the run, and on a small screen turn to where things happen."""
        for panel in self._panels.values():
            panel.show(events)
        self._name_tabs()
        if self._follows and self.is_tabbed:
            self.bring_forward(next((n for event in reversed(events) if (n := _panel_of(event))), self.front.number))

    def show_look_up(self, events: Sequence[Event], *, consulted: bool) -> None:
        """Show a search and selection that was made beside the run."""
        for number in (3, 4):
            self._panels[number].show(events, consulted=consulted)
        self._name_tabs()

    def _name_tabs(self) -> None:
        """Name each tab as its panel is named for this run."""
        for number, panel in self._panels.items():
            tab = self.query_one(f"#tab-{number}", Tab)
            if panel.border_title is not None and tab.label_text != panel.border_title:
                tab.label = panel.border_title

    def judge_at(self, threshold: float) -> None:
        """Judge the draft under another threshold."""
        panel = self._panels[2]
        assert isinstance(panel, DecisionPanel)
        panel.judge_at(threshold)
        if self.is_tabbed:
            self.bring_forward(2)

    # --- moving about

    def bring_forward(self, number: int) -> None:
        """Make a panel the one in front; the focus stays where it is."""
        for panel in self._panels.values():
            panel.set_class(panel.number == number, "active")
        tabs = self.query_one(Tabs)
        if tabs.active != f"tab-{number}":
            with self.prevent(Tabs.TabActivated):
                tabs.active = f"tab-{number}"

    def turn_to(self, number: int) -> None:
        """Go to a panel and stay there."""
        self._follows = False
        self.bring_forward(number)
        self.call_after_refresh(self.enter)

    def enter(self) -> None:
        """Focus the panel in front."""
        self.front.enter()

    @on(Tabs.TabActivated)
    def _turn_tab(self, message: Tabs.TabActivated) -> None:
        message.stop()
        self._follows = False
        self.bring_forward(int(str(message.tab.id).removeprefix("tab-")))


def _panel_of(event: Event) -> int:
    """The panel where this event is best seen; 0 for none."""
    match event:
        case TokenGenerated(phase="draft" | "second_draft" | "reasoning" | "sub_query" | "intermediate_answer"):
            return 1
        case DecisionMade() | AgreementMeasured() | TokenGenerated(phase="judge"):
            return 2
        case PathRetrieved() | TokenGenerated(phase="pseudo_context" | "rationale" | "search_query"):
            return 3
        case ChunksSelected() | ChunksReranked():
            return 4
        case TokenGenerated(phase="answer") | AnswersWeighed() | RunFinished() | RunFailed():
            return 5
    return 0
