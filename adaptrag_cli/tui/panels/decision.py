"""Panel 2: the uncertainty against the threshold, the verdict in words, and what another threshold would have done."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events as screen_events
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from adaptrag_cli.events import (
    DecisionMade,
    Event,
    GenerationReused,
    PromptBuilt,
    RunFailed,
    RunStarted,
    TokenGenerated,
    UncertaintyMeasured,
)
from adaptrag_cli.render import numbers_apart
from adaptrag_cli.tables import odds_in_words
from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.panels.base import Panel
from adaptrag_cli.tui.panels.gauge import Gauge
from adaptrag_cli.uncertainty import Uncertainty, decide

_NOT_YET = "no decision yet"
_ROOMY_HEIGHT = 18
_WITHOUT_THRESHOLD = frozenset({"always", "never"})
"""Strategies that hold the draft against nothing, whatever the settings say."""
_MEASURES = {"mean_nll": "u: mean negative log-probability of the draft, in nats"}


class DecisionPanel(Panel):
    """Whether documents were looked up, and how near that was."""

    number = 2
    title = "Decision"

    DEFAULT_CSS = """
    DecisionPanel {
        Static { height: auto; }
        Gauge { margin: 0 0 1 0; }
        #decision-verdict, #decision-what-if { text-style: bold; }
        #decision-measure { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
        .quiet { color: $foreground-muted; }
        &.-roomy {
            Gauge { height: 6; margin: 1 0; }
            #decision-odds, #decision-measure { margin: 1 0 0 0; }
        }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._forget()

    def _forget(self) -> None:
        self._strategy = ""
        self._threshold: float | None = None
        self._measured: UncertaintyMeasured | None = None
        self._decision: DecisionMade | None = None
        self._failure: RunFailed | None = None
        self._moved: float | None = None
        self._forget_tokens()

    def _forget_tokens(self) -> None:
        self._nll = 0.0
        self._tokens = 0

    def compose(self) -> ComposeResult:
        yield Gauge()
        yield Static(id="decision-verdict", markup=False)
        yield Static(id="decision-what-if", markup=False)
        yield Static(id="decision-reason", classes="quiet", markup=False)
        yield Static(id="decision-odds", markup=False)
        yield Static(id="decision-measure", classes="quiet", markup=False)

    def on_mount(self) -> None:
        self._draw()

    def begin(self) -> None:
        self._forget()
        self._draw()

    def show(self, events: Sequence[Event], *, consulted: bool = True) -> None:
        if not consulted:
            return  # what would have been looked up decides nothing
        for event in events:
            self._take(event)
        self._draw()

    def judge_at(self, threshold: float) -> None:
        """Judge the recorded uncertainty anew; the recorded threshold leads back to what was decided."""
        decision = self._decision
        if decision is None or decision.threshold is None:
            return
        self._moved = None if threshold == decision.threshold else threshold
        self._draw()

    # --- what comes

    def _take(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._strategy = event.strategy
                self._threshold = _threshold_of(event)
            case PromptBuilt() | GenerationReused() if event.phase == "draft":
                self._forget_tokens()
            case TokenGenerated() if event.phase == "draft":
                self._nll -= event.logprob
                self._tokens += 1
            case UncertaintyMeasured():
                self._measured = event
            case DecisionMade():
                self._decision, self._threshold = event, event.threshold
            case RunFailed():
                self._failure = event

    # --- drawing

    def on_resize(self, event: screen_events.Resize) -> None:
        self.set_class(event.size.height >= _ROOMY_HEIGHT, "-roomy")

    def _draw(self) -> None:
        self._draw_gauge()
        self._say("verdict", self._verdict())
        self._say("reason", self._reason())
        self._say("odds", self._odds())
        self._say("what-if", self._what_if())
        is_measured = self._measured is not None and self._decision is not None
        self._say("measure", _MEASURES.get(self._measured.name, "") if is_measured and self._measured else "")
        self.query_one("#decision-odds").set_class(
            self._decision is not None and not self._decision.draft_odds, "quiet"
        )
        self.query_one("#decision-verdict").set_class(self._moved is not None or self._decision is None, "quiet")

    def _say(self, part: str, text: str) -> None:
        line = self.query_one(f"#decision-{part}", Static)
        content = Content(printable(text))
        line.display = bool(text)
        if content != line.content:
            line.update(content)

    def _draw_gauge(self) -> None:
        threshold = self._threshold if self._moved is None else self._moved
        u, label = self._shown_uncertainty(threshold)
        named = "" if threshold is None else f"threshold {_apart(u, threshold)[1]}"
        gauge = self.query_one(Gauge)
        gauge.display = u is not None or threshold is not None
        gauge.display_values(u, threshold, labels=(printable(label), named))

    def _shown_uncertainty(self, threshold: float | None) -> tuple[float | None, str]:
        """What was measured, or the running mean of a draft that is being written, and the words at its mark."""
        if self._measured is None:
            u = self._nll / self._tokens if self._tokens else None
            return u, "" if u is None else f"u = {_apart(u, threshold)[0]} so far"
        if self._measured.value is None:
            return None, f"u is undefined: {self._measured.reason}"
        return self._measured.value, f"u = {_apart(self._measured.value, threshold)[0]}"

    def _verdict(self) -> str:
        decision = self._decision
        if decision is not None:
            return _verdict(decision.retrieve, decision.uncertainty, decision.threshold)
        if self._failure is not None:
            return f"no decision: {self._failure.message}"
        if self._tokens and self._measured is None:
            return f"drafting: {self._tokens:,} token{'s' if self._tokens > 1 else ''} so far"
        return _NOT_YET

    def _reason(self) -> str:
        decision = self._decision
        if decision is None or self._moved is not None:
            return ""
        if decision.threshold is not None:
            return decision.reason
        if decision.uncertainty is None:
            return f"`{self._strategy}` measures no uncertainty: {decision.reason}"
        return f"`{self._strategy}` compares u with nothing: {decision.reason}"

    def _odds(self) -> str:
        decision = self._decision
        if decision is None or decision.uncertainty is None:
            return ""
        return odds_in_words(decision.draft_odds)

    def _what_if(self) -> str:
        decision, moved = self._decision, self._moved
        if decision is None or moved is None:
            return ""
        u = Uncertainty(value=decision.uncertainty, reason=self._measured.reason if self._measured else "")
        judged = decide(u, moved)
        at = _apart(u.value, moved)[1]
        done = "looked up" if judged.retrieve else "answered from memory"
        if judged.retrieve != decision.retrieve:
            return f"at {at} it would have been {done}: press f to run that branch"
        return f"at {at} it would still have been {done}"


def _verdict(retrieve: bool, uncertainty: float | None, threshold: float | None) -> str:
    done = "looked it up" if retrieve else "answered from memory"
    if uncertainty is None or threshold is None:
        return done
    shown_u, shown_threshold = _apart(uncertainty, threshold)
    return f"u = {shown_u} {'>' if uncertainty > threshold else '<='} {shown_threshold}: {done}"


def _apart(uncertainty: float | None, threshold: float | None) -> tuple[str, str]:
    """Both numbers with the decimals that tell them apart; of one alone, that one in full."""
    if uncertainty is None or threshold is None:
        return f"{uncertainty or 0.0:.2f}", numbers_apart(0.0, threshold or 0.0)[1]
    return numbers_apart(uncertainty, threshold)


def _threshold_of(started: RunStarted) -> float | None:
    """The threshold that the draft will be held against, where the strategy has one."""
    if started.strategy in _WITHOUT_THRESHOLD:
        return None
    value = next((setting.value for setting in started.settings if setting.name == "threshold"), None)
    return float(value) if isinstance(value, int | float) else None
