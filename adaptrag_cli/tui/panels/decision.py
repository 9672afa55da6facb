"""Panel 2: the uncertainty against the threshold, the verdict in words, and what another threshold would have done.

Where words are watched while they are written, each in turn is held against the threshold, and the look-ups are listed.
Where probers read the model's states, their logits are shown round by round. Methods that ask in steps decide in each.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual import events as screen_events
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from adaptrag_cli.events import (
    AgreementMeasured,
    AnswersWeighed,
    DecisionMade,
    Event,
    GenerationReused,
    PathRetrieved,
    Phase,
    ProbeMeasured,
    PromptBuilt,
    RunFailed,
    RunFinished,
    RunStarted,
    StepDecided,
    TokenGenerated,
    UncertaintyMeasured,
    WordMeasured,
)
from adaptrag_cli.look_ups import asked_in_words, named_value, reason_of_step, word_in_numbers
from adaptrag_cli.render import CONCLUDING, DOING, agreement_in_words, numbers_apart, weighing_line
from adaptrag_cli.tables import odds_in_words
from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.panels.base import Panel
from adaptrag_cli.tui.panels.gauge import Gauge
from adaptrag_cli.tui.panels.probe_rounds import ProbeRounds
from adaptrag_cli.uncertainty import Uncertainty, decide

_NOT_YET = "no decision yet"
_ROOMY_HEIGHT = 18
_MOST_STEPS = 8
"""That are listed: the last ones."""
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
        #decision-facts { max-height: 8; }
        #decision-measure { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
        .quiet { color: $foreground-muted; }
        &.-roomy {
            Gauge { height: 6; margin: 1 0; }
            ProbeRounds, #decision-facts, #decision-odds, #decision-measure { margin: 1 0 0 0; }
        }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._forget()

    def _forget(self) -> None:
        self._threshold: float | None = None
        self._measured: UncertaintyMeasured | None = None
        self._decision: DecisionMade | None = None
        self._failure: RunFailed | None = None
        self._moved: float | None = None
        self._doing: Phase | None = None
        """What the model writes, until the decision is made."""
        self._judged = ""
        """What the judge says."""
        self._agreement: AgreementMeasured | None = None
        self._searched: PathRetrieved | None = None
        """Before the decision."""
        self._weighing: AnswersWeighed | None = None
        self._is_reasoning = False
        self._is_over = False
        self._word: WordMeasured | None = None
        """That was measured last in this call; one that fires stands until more is written."""
        self._last_word: WordMeasured | None = None
        """That was measured last of all and has a value."""
        self._look_ups: list[str] = []
        """Why each was made."""
        self._steps: list[StepDecided] = []
        self._forget_tokens()

    def _forget_tokens(self) -> None:
        self._nll = 0.0
        self._tokens = 0

    def compose(self) -> ComposeResult:
        yield Gauge()
        yield Static(id="decision-verdict", markup=False)
        yield Static(id="decision-what-if", markup=False)
        yield Static(id="decision-reason", classes="quiet", markup=False)
        yield ProbeRounds()
        yield Static(id="decision-facts", markup=False)
        yield Static(id="decision-odds", markup=False)
        yield Static(id="decision-measure", classes="quiet", markup=False)

    def on_mount(self) -> None:
        self._draw()

    def begin(self) -> None:
        self._forget()
        self.query_one(ProbeRounds).clear()
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
        if decision is None or decision.threshold is None or self._is_reasoning:
            return
        self._moved = None if threshold == decision.threshold else threshold
        self._draw()

    # --- what comes

    def _take(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._threshold = _threshold_of(event)
            case PromptBuilt() | GenerationReused():
                self._begin_phase(event.phase)
            case TokenGenerated(phase="draft"):
                self._nll -= event.logprob
                self._tokens += 1
            case TokenGenerated(phase="judge"):
                self._judged += event.text
            case AgreementMeasured():
                self._agreement = event
            case PathRetrieved(before_decision=True):
                self._searched = event
            case AnswersWeighed():
                self._weighing = event
            case UncertaintyMeasured():
                self._measured = event
            case WordMeasured(phase="reasoning"):
                self._take_word(event)
            case ProbeMeasured():
                self.query_one(ProbeRounds).take(event)
            case StepDecided():
                self._steps.append(event)
            case DecisionMade():
                self._decide(event)
            case RunFinished():
                self._is_over = True
            case RunFailed():
                self._failure = event

    def _take_word(self, word: WordMeasured) -> None:
        if self._word is None or not self._word.fires:
            self._word = word
        if word.value is not None:
            self._last_word = self._word
        if word.threshold is not None:
            self._threshold = word.threshold

    def _decide(self, decision: DecisionMade) -> None:
        self._decision = decision
        if decision.threshold is not None or not self._is_reasoning:
            self._threshold = decision.threshold
        if decision.retrieve:
            word = self._word if self._word is not None and self._word.fires else None
            self._look_ups.append(f"at {named_value(word)}" if word else decision.reason)

    def _begin_phase(self, phase: Phase) -> None:
        self._doing = phase
        if phase == "reasoning":
            self._is_reasoning, self._word = True, None
        if phase == "draft":
            self._forget_tokens()
        if phase == "judge":
            self._judged = ""

    # --- drawing

    def on_resize(self, event: screen_events.Resize) -> None:
        self.set_class(event.size.height >= _ROOMY_HEIGHT, "-roomy")

    def _draw(self) -> None:
        self._draw_gauge()
        self.query_one(ProbeRounds).draw()
        self._say("verdict", self._verdict())
        self._say("reason", self._reason())
        self._say("facts", *self._facts())
        self._say("odds", self._odds())
        self._say("what-if", self._what_if())
        is_told = self._decision is not None and self._decision.uncertainty is not None
        self._say("measure", _MEASURES.get(self._measured.name, "") if is_told and self._measured else "")
        self.query_one("#decision-odds").set_class(
            self._decision is not None and not self._decision.draft_odds, "quiet"
        )
        self.query_one("#decision-verdict").set_class(self._moved is not None or self._decision is None, "quiet")

    def _say(self, part: str, *lines: str) -> None:
        line = self.query_one(f"#decision-{part}", Static)
        content = Content("\n".join(map(printable, lines)))
        line.display = any(lines)
        if content != line.content:
            line.update(content)

    def _draw_gauge(self) -> None:
        if self._is_reasoning:
            self._draw_word()
            return
        threshold = self._threshold if self._moved is None else self._moved
        u, label = self._shown_uncertainty(threshold)
        named = "" if threshold is None else f"threshold {_apart(u, threshold)[1]}"
        gauge = self.query_one(Gauge)
        gauge.display = u is not None or threshold is not None
        gauge.display_values(u, threshold, labels=(printable(label), named))

    def _draw_word(self) -> None:
        """The word that was measured last, against what makes a method look up."""
        word, gauge = self._shown_word, self.query_one(Gauge)
        value = word.value if word else None
        gauge.display = self._threshold is not None
        if value is not None and word is not None and (word.fires or word.is_absolute):
            value = abs(value)  # a sharp drop may fire, too
        labels = printable(named_value(word)) if word else "", f"threshold {_apart(value, self._threshold)[1]}"
        gauge.display_values(value, self._threshold, labels=labels, unit="")

    @property
    def _shown_word(self) -> WordMeasured | None:
        """The word of this call; in the end, where the last call was not watched, that of an earlier one."""
        is_without = self._word is None or self._word.value is None
        return self._last_word if self._is_over and is_without and self._last_word else self._word

    def _shown_uncertainty(self, threshold: float | None) -> tuple[float | None, str]:
        """What was measured, or the running mean of a draft that is being written, and the words at its mark."""
        is_told = threshold is not None or (self._decision is not None and self._decision.uncertainty is not None)
        if not is_told:  # it decides nothing
            return None, ""
        if self._measured is None:
            u = self._nll / self._tokens if self._tokens else None
            return u, "" if u is None else f"u = {_apart(u, threshold)[0]} so far"
        if self._measured.value is None:
            return None, f"u is undefined: {self._measured.reason}"
        return self._measured.value, f"u = {_apart(self._measured.value, threshold)[0]}"

    def _verdict(self) -> str:
        decision = self._decision
        if self._steps and self._failure is None:
            return self._in_progress(asked_in_words(self._steps))
        if self._is_reasoning and self._failure is None:
            return self._reasoning_verdict()
        if decision is not None:
            return _verdict(decision.retrieve, decision.uncertainty, decision.threshold)
        if self._failure is not None:
            return f"no decision: {self._failure.message}"
        if self._doing == "draft":
            if not self._tokens or self._measured is not None:
                return _NOT_YET
            return f"drafting: {self._tokens:,} token{'s' if self._tokens > 1 else ''} so far"
        return f"{DOING[self._doing]} ..." if self._doing else _NOT_YET

    def _reasoning_verdict(self) -> str:
        count = len(self._look_ups)
        done = f"looked up {'once' if count == 1 else f'{count} times'}" if count else ""
        return self._in_progress(done) or "nothing was looked up"

    def _in_progress(self, done: str) -> str:
        """What is being done and what was done before; in the end that alone."""
        if self._is_over:
            return done
        doing = CONCLUDING if self._doing == "answer" else DOING[self._doing or "reasoning"]
        return f"{doing} ...{f' ({done} so far)' if done else ''}"

    def _reason(self) -> str:
        decision = self._decision
        if decision is None or self._moved is not None or self._steps:
            return ""
        return f"in the end: {decision.reason}" if self._look_ups and not decision.retrieve else decision.reason

    def _facts(self) -> list[str]:
        """What the decision was made from beside the uncertainty, and what was weighed after it, a line each."""
        facts = self._listed()
        if self._is_reasoning and (word := self._shown_word):
            facts.append(f'{"last" if self._is_over else "now"} "{word.text}": {word_in_numbers(word)}')
        judged = " ".join(self._judged.split())
        if judged and judged not in (self._decision.reason if self._decision else ""):
            facts.append(f'the judge says: "{judged}"')
        if agreement := self._agreement:
            facts.append(f'from memory: "{_on_one_line(agreement.first)}"')
            facts.append(f'from the pseudo-context: "{_on_one_line(agreement.second)}"')
            facts.append(agreement_in_words(agreement))
        if searched := self._searched:
            best = f"best chunk {searched.chunks[0].score:.2f}" if searched.chunks else "no chunk"
            facts.append(f"searched before the decision: {best}")
        if self._weighing:
            facts.append(weighing_line(self._weighing))
        return facts

    def _listed(self) -> list[str]:
        """The decisions of a method that makes several; those of probers stand beside their logits."""
        if self._steps:
            decisions = enumerate(map(reason_of_step, self._steps), start=1)
            return [f"step {number}: {why}" for number, why in decisions][-_MOST_STEPS:]
        if not self._is_reasoning or self.query_one(ProbeRounds).count:
            return []
        return [f"look-up {number}: {why}" for number, why in enumerate(self._look_ups, start=1)]

    def _odds(self) -> str:
        decision = self._decision
        if decision is None or decision.uncertainty is None or self._is_reasoning:
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
    """What the draft, or each word, will be held against, where the strategy has such a thing."""
    value = next((setting.value for setting in started.settings if setting.name in {"threshold", "trigger"}), None)
    return float(value) if isinstance(value, int | float) else None


def _on_one_line(text: str) -> str:
    return " ".join(text.split())
