"""Settings that the person has changed to see what they would do, and what follows from them. No screen is needed."""

from __future__ import annotations

from collections.abc import Mapping

from adaptrag_cli.events import DecisionMade
from adaptrag_cli.tui.record import Record
from adaptrag_cli.uncertainty import Uncertainty, decide

Changes = Mapping[str, str | int | float | bool]

THRESHOLD = "ask.threshold"
HIGHEST_THRESHOLD = 10.0


class WhatIf:
    """Changes to one run; the run itself stays as it is."""

    def __init__(self, record: Record | None = None) -> None:
        self._record = record
        self._changes: dict[str, str | int | float | bool] = {}

    @property
    def changes(self) -> Changes:
        """Dotted settings that differ from how the run was made."""
        return self._changes

    @property
    def selection(self) -> Changes:
        """Those of them that choose chunks."""
        return {name: value for name, value in self._changes.items() if name != THRESHOLD}

    @property
    def threshold(self) -> float | None:
        """As it stands now; None where the run compares no draft with one."""
        decision = self._decision
        if decision is None or decision.threshold is None or not self._uses("threshold"):
            return None
        return float(self._changes.get(THRESHOLD, decision.threshold))

    @property
    def has_trigger(self) -> bool:
        """Whether words were held against a trigger: what came after them depends on it, so it cannot be moved."""
        return self._uses("trigger")

    @property
    def flips(self) -> bool:
        """Whether the verdict on the draft is another one at this threshold."""
        decision, threshold = self._decision, self.threshold
        if decision is None or threshold is None:
            return False
        return decide(Uncertainty(value=decision.uncertainty), threshold).retrieve != decision.retrieve

    def change(self, changes: Changes) -> None:
        """Choose other settings for the selection."""
        self._changes |= changes

    def move_threshold(self, threshold: float) -> None:
        """Put the threshold somewhere; where the run had it, nothing is changed."""
        decision = self._decision
        if decision is not None and threshold == decision.threshold:
            self._changes.pop(THRESHOLD, None)
        else:
            self._changes[THRESHOLD] = threshold

    def _uses(self, name: str) -> bool:
        """Whether the strategy uses a setting: words that are watched while they are written have one of their own."""
        run = self._record.summary if self._record else None
        return run is not None and any(setting.name == name for setting in run.started.settings)

    @property
    def _decision(self) -> DecisionMade | None:
        run = self._record.summary if self._record else None
        return run.decision if run else None


def next_threshold(now: float, direction: int) -> float:
    """One step up (+1) or down (-1): hundredths to a tenth, twentieths to one, tenths above."""
    at = now if direction > 0 else now - 1e-9  # at a border the way that is walked decides
    step = 0.01 if at < 0.1 else 0.05 if at < 1.0 else 0.1
    return min(max(round(now + direction * step, 6), 0.0), HIGHEST_THRESHOLD)
