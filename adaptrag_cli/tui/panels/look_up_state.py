"""What panels 3 and 4 know of a run besides its chunks: what was decided, with which settings, and what-if changes."""

from __future__ import annotations

from collections.abc import Mapping

from adaptrag_cli.events import (
    ChunksSelected,
    DecisionMade,
    Event,
    PathRetrieved,
    RunFailed,
    RunFinished,
    RunStarted,
    Scalar,
)

LETTERS: Mapping[str, str] = {"top_k": "k", "top_n": "n", "ais": "AIS", "retriever": "retriever"}
"""The settings that a selection depends on, and how they are called on the screen."""
_OF_TWO_PATHS = frozenset({"paths", "top_n"})
"""Settings of methods that can search with a pseudo-context beside the question."""
_OF_OWN_QUERIES = frozenset({"trigger", "max_retrievals", "max_steps"})
"""Settings of methods that make their queries of what they write."""


class LookUpState:
    """Fed with the events of a run, then with those of the look-ups that were made after it.

    A look-up is no run: it begins with a `run_started` of its own, which carries the settings it was made with.
    """

    def __init__(self) -> None:
        self.start: RunStarted | None = None
        """Of the run; None before the first event."""
        self.settings: Mapping[str, Scalar] = {}
        """What was used for the chunks that came last."""
        self.is_consulted = True
        self.has_two_paths = False
        """Whether the method can search with a pseudo-context beside the question; its settings tell."""
        self.makes_queries = False
        """Whether the method searches for what it makes of its own text, and seldom for the question itself."""
        self._decision: DecisionMade | None = None
        self._is_over = False
        self._failure = ""
        self._settings_before: Mapping[str, Scalar] = {}

    def take(self, event: Event, *, consulted: bool) -> None:
        """Take the next event."""
        if isinstance(event, RunStarted | PathRetrieved | ChunksSelected):
            self.is_consulted = consulted
        match event:
            case RunStarted():
                self._begin_look_up(event)
            case DecisionMade():
                self._decision = event
            case RunFinished():
                self._is_over = True
            case RunFailed():
                self._is_over = True
                self._failure = event.message
                self.settings = self._settings_before  # what failed changed no chunk

    def _begin_look_up(self, start: RunStarted) -> None:
        self._settings_before = self.settings if self.start else _of(start)
        self.start = self.start or start
        self.settings = _of(start)
        self.has_two_paths = any(setting.name in _OF_TWO_PATHS for setting in start.settings)
        self.makes_queries = any(setting.name in _OF_OWN_QUERIES for setting in start.settings)
        self._failure = ""

    @property
    def strategy(self) -> str:
        return self.start.strategy if self.start else ""

    @property
    def is_skipped(self) -> bool:
        """Whether the decision was to look nothing up."""
        return self._decision is not None and not self._decision.retrieve

    @property
    def changes(self) -> Mapping[str, Scalar]:
        """Settings that differ from the run's own."""
        recorded = _of(self.start) if self.start else {}
        return {name: value for name, value in self.settings.items() if value != recorded.get(name)}

    @property
    def changes_in_words(self) -> str:
        """The changes as `k = 2, retriever = sparse`; empty where nothing differs."""
        return ", ".join(f"{LETTERS[name]} = {value}" for name, value in self.changes.items())

    @property
    def reason(self) -> str:
        """Why there are no chunks."""
        if self.start is None:
            return "no question yet"
        if self._failure:
            return f"nothing was looked up: {self._failure}"
        if self.is_skipped and not self.start.index:
            return f"nothing was looked up: `{self.strategy}` ran without an index"
        if self.is_skipped and self._is_over:
            return "nothing was looked up: press w to see what would have been"
        if self.is_skipped or self._is_over:
            return "nothing was looked up"
        return "nothing was looked up yet"


def _of(start: RunStarted) -> dict[str, Scalar]:
    return {setting.name: setting.value for setting in start.settings if setting.name in LETTERS}
