"""Panel 1: the draft or the chain of thought as it is written, how sure the model was, what it could have said instead.

A chain of thought is written by several calls. What was discarded of it is struck through where it stood, and a number
stands where it was looked up. A narrative is a tree of its steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual import events as screen_events
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from adaptrag_cli.events import (
    DecisionMade,
    Event,
    GenerationFinished,
    GenerationReused,
    PromptBuilt,
    QueryBuilt,
    RunFailed,
    RunFinished,
    RunStarted,
    TokenGenerated,
    TokensDiscarded,
    UncertaintyMeasured,
    WordMeasured,
)
from adaptrag_cli.palette import WEAK_ENTROPY, legend
from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.panels.base import Panel
from adaptrag_cli.tui.panels.entropy_chart import FIRST_MARK, SECOND_MARK, EntropyChart
from adaptrag_cli.tui.panels.line import Line
from adaptrag_cli.tui.panels.step_tree import StepTree
from adaptrag_cli.tui.panels.token_numbers import token_line, token_table
from adaptrag_cli.tui.panels.token_view import TokenView

_PHASES = frozenset({"draft", "reasoning"})
_MEASURES = {"mean_nll": "mean NLL u"}
_NOT_YET = "no draft yet"
_ROOMY_HEIGHT = 20
_LOW_HEIGHT = 13


class DraftPanel(Panel):
    """Tokens shaded by entropy, the numbers of one of them, and the entropy over all."""

    number = 1
    title = "Draft"

    DEFAULT_CSS = """
    DraftPanel {
        #draft-note { color: $text-muted; display: none; }
        .line { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
        #draft-legend, #draft-summary, #draft-trend { color: $text-muted; }
        #draft-trend, #draft-second { display: none; }
        TokenView { min-height: 2; max-height: 30%; }
        EntropyChart { height: 1fr; min-height: 4; }
        StepTree { display: none; min-height: 4; }

        &.-empty {
            #draft-note { display: block; }
            #draft-legend, #draft-summary, #draft-token, #draft-trend, TokenView, EntropyChart { display: none; }
        }
        &.-steps {
            StepTree { display: block; }
            #draft-note, EntropyChart, #draft-trend { display: none; }
        }
        &.-second #draft-second { display: block; }
        &.-trend #draft-trend { display: block; }
        &.-low {
            TokenView { max-height: 2; }
            #draft-trend { display: none; }
        }
        &.-roomy {
            #draft-token { height: 6; margin: 1 0; }
            #draft-legend { margin: 0 0 1 0; }
        }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._second: str | None = None
        """The answer that the pseudo-context gives; None where the method asks for none."""
        self._forget()

    def compose(self) -> ComposeResult:
        yield Line(id="draft-note")
        yield Static(id="draft-legend", classes="line", markup=False)
        yield TokenView()
        yield Static(id="draft-token", classes="line", markup=False)
        yield EntropyChart()
        yield StepTree()
        yield Static(id="draft-trend", classes="line", markup=False)
        yield Static(id="draft-summary", classes="line", markup=False)
        yield Line(id="draft-second", classes="line")

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw_legend())
        self._draw_legend()
        self._draw()

    def begin(self) -> None:
        self._forget()
        self.query_one(StepTree).clear()
        self._clear_tokens()
        self._draw()

    def show(self, events: Sequence[Event], *, consulted: bool = True) -> None:
        if not consulted:
            return  # what would have been looked up writes no draft
        steps = self.query_one(StepTree)
        for event in events:
            steps.take(event)
            match event:
                case TokenGenerated() if event.phase in _PHASES:
                    self._tokens.append(event)
                case WordMeasured() if event.phase in _PHASES:
                    self._words.append(event)
                case TokenGenerated(phase="second_draft"):
                    self._second = (self._second or "") + event.text
                case PromptBuilt(phase="second_draft") | GenerationReused(phase="second_draft"):
                    self._second = ""
                case PromptBuilt() | GenerationReused() if event.phase in _PHASES:
                    self._begin_call(event)
                case TokensDiscarded(phase="reasoning"):
                    self._discard(event)
                case _:
                    self._take(event)
        self._add_fresh()
        if self._is_written:
            self.query_one(EntropyChart).settle()
        self._draw()

    def enter(self) -> None:
        """Focus the tokens, or the tree where there are none."""
        if self.has_class("-steps") and self.has_class("-empty"):
            self.query_one(StepTree).focus()
        else:
            super().enter()

    def _forget(self) -> None:
        self._strategy = ""
        self._note = _NOT_YET
        self._measured: UncertaintyMeasured | None = None
        self._is_reused = False
        self._is_written = False
        self._second = None
        self._calls = 0
        """That wrote the chain of thought."""
        self._call_start = 0
        """The token with which the last of them begins."""
        self._look_ups = 0
        self._tokens: list[TokenGenerated] = []
        """Of this batch, like the words."""
        self._words: list[WordMeasured] = []
        self._forget_sums()

    def _forget_sums(self) -> None:
        self._nll = self._entropy = 0.0
        self._least_sure: TokenGenerated | None = None
        self._threshold: float | None = None

    def _clear_tokens(self) -> None:
        self._forget_sums()
        self._tokens.clear()
        self._words.clear()
        self.query_one(TokenView).clear()
        self.query_one(EntropyChart).forget()

    # --- what comes

    def _begin_call(self, event: PromptBuilt | GenerationReused) -> None:
        """Go on with the chain of thought; of several drafts the last one stands."""
        if event.phase == "draft" or (not self._calls and self.query_one(TokenView).tokens):
            self._clear_tokens()
        self._add_fresh()
        self._calls = self._calls + 1 if event.phase == "reasoning" else 0
        self._call_start = len(self.query_one(TokenView).tokens)
        self.query_one(EntropyChart).begin_call()
        self._note_beginning(event)

    def _discard(self, event: TokensDiscarded) -> None:
        self._add_fresh()
        first = self._call_start + event.from_step
        self.query_one(TokenView).discard(first)
        self.query_one(EntropyChart).discard(first)

    def _note_beginning(self, event: PromptBuilt | GenerationReused) -> None:
        self._is_written = False
        self._is_reused = isinstance(event, GenerationReused)
        if isinstance(event, PromptBuilt):
            self._note = f"the model reads the prompt ({event.tokens:,} tokens)"
        else:
            self._note = f"reused: not generated again\n{event.text}"

    def _take(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._strategy = event.strategy
            case UncertaintyMeasured():
                self._measured = event
            case GenerationFinished(phase="draft"):
                self._end(f"the draft is empty: the model ended at once ({event.stop_reason})")
            case QueryBuilt():
                self._note_look_up()
            case DecisionMade() if self._calls:
                return
            case DecisionMade() if event.retrieve or self._is_reused:  # else a draft may come after it
                self._end(f"`{self._strategy}` writes no draft: {event.reason}")
            case RunFailed():
                self._end(f"no draft: {event.message}")
            case RunFinished():
                self._is_written = True

    def _end(self, note: str) -> None:
        """Nothing more will be written; the note tells why, where there is no draft."""
        if not self._is_written and not self._is_reused:
            self._note = note
        self._is_written = True

    def _note_look_up(self) -> None:
        self._add_fresh()
        self._look_ups += 1
        self.query_one(TokenView).mark(f"‹{self._look_ups}›")

    def _add_fresh(self) -> None:
        for token in self._tokens:
            self._nll -= token.logprob
            self._entropy += token.entropy
            if self._least_sure is None or token.entropy > self._least_sure.entropy:
                self._least_sure = token
        if self._words:
            self._threshold = self._words[-1].threshold
        if self._tokens or self._words:
            self.query_one(TokenView).append(self._tokens)
            self.query_one(EntropyChart).add(self._tokens, self._words)
        self._tokens.clear()
        self._words.clear()

    # --- drawing

    def on_resize(self, event: screen_events.Resize) -> None:
        self.set_class(event.size.height >= _ROOMY_HEIGHT, "-roomy")
        self.set_class(event.size.height < _LOW_HEIGHT, "-low")
        self._draw_token()

    def on_token_view_pointed(self, message: TokenView.Pointed) -> None:
        message.stop()
        self.query_one(EntropyChart).mark(message.step)
        self._draw_token()

    def _draw(self) -> None:
        self.set_class(not self.query_one(TokenView).tokens, "-empty")
        self.set_class(self._threshold is not None, "-trend")
        steps = self.query_one(StepTree)
        self.set_class(steps.has_steps, "-steps")
        steps.draw()
        title = "Chain of thought" if self._calls else "Steps" if steps.has_steps else self.title
        self.border_title = f"{self.number} {title}"
        self.query_one("#draft-note", Line).tell(Content(printable(self._note, keep_newlines=True)))
        self._say("summary", Content(printable(self._summary())))
        if self._threshold is not None:
            self._say("trend", Content(self._trend(self._threshold)))
        self.set_class(self._second is not None, "-second")
        if self._second is not None:
            answer = Content(f"from the pseudo-context: {printable(' '.join(self._second.split()))}")
            self.query_one("#draft-second", Line).tell(answer)
        self._draw_token()

    def _say(self, part: str, content: Content) -> None:
        self.query_one(f"#draft-{part}", Static).update(content, layout=False)  # its height is fixed

    def _trend(self, threshold: float) -> str:
        """What the lines and marks of the chart are, the most important first: the end may be cut."""
        chart = self.query_one(EntropyChart)
        parts = [f"line: value, flat: threshold {'±' if chart.has_two_thresholds else ''}{threshold:.2f}"]
        if chart.has_differences:
            parts.append(f"{FIRST_MARK} 1st, {SECOND_MARK} 2nd difference")
        parts += ["│ cut"] if self.query_one(TokenView).discarded else []
        return "; ".join(parts)

    def _summary(self) -> str:
        view = self.query_one(TokenView)
        count = len(view.tokens)
        if not count:
            return ""
        if self._calls:
            parts = [f"{count - view.discarded:,} tokens kept"]
            parts += [f"{view.discarded:,} discarded"] if view.discarded else []
            parts.append(_plural(self._calls, "call"))
            parts += [_plural(self._look_ups, "look-up")] if self._look_ups else []
            return ", ".join([*parts, f"mean entropy {self._entropy / count:.2f}"])
        parts = ["reused: not generated again"] if self._is_reused else []
        parts.append(_plural(count, "token"))
        parts.append(self._uncertainty(count))
        parts.append(f"mean entropy {self._entropy / count:.2f}")
        return ", ".join(parts)

    def _uncertainty(self, count: int) -> str:
        if self._measured is None:
            so_far = "" if self._is_written else " so far"
            return f"mean NLL {self._nll / count:.2f}{so_far} (nats)"
        name = _MEASURES.get(self._measured.name, self._measured.name)
        if self._measured.value is None:
            return f"{name} undefined: {self._measured.reason}"
        return f"{name} = {self._measured.value:.2f} (nats)"

    def _draw_legend(self) -> None:
        samples = legend(self.app.current_theme.dark)
        parts: list[str | Content | tuple[str, str]] = ["nats "]
        for label, shade in samples:
            style = "" if shade.background is None else f"{shade.foreground} on {shade.background}"
            parts.append((f" {label} ", style))
        parts += ["   ", ("underlined", "bold underline"), f": above {WEAK_ENTROPY:.1f}"]
        self._say("legend", Content.assemble(*parts))

    def _draw_token(self) -> None:
        view = self.query_one(TokenView)
        token, head = self._least_sure, "least sure"
        if view.step is not None:
            token, head = view.tokens[view.step], f"token {view.step + 1:,}"
        if token is not None:
            is_roomy = self.has_class("-roomy")
            width = self.content_size.width
            self._say("token", token_table(head, token) if is_roomy else token_line(head, token, width))


def _plural(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"
