"""Panel 1: the draft as it is written, how sure the model was of each token, and what it could have said instead."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.cells import cell_len, chop_cells, set_cell_size
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
    RunFailed,
    RunFinished,
    RunStarted,
    TokenGenerated,
    UncertaintyMeasured,
    WordMeasured,
)
from adaptrag_cli.palette import WEAK_ENTROPY, legend
from adaptrag_cli.tables import probability, quoted
from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.panels.base import Panel
from adaptrag_cli.tui.panels.entropy_chart import EntropyChart
from adaptrag_cli.tui.panels.line import Line
from adaptrag_cli.tui.panels.token_view import TokenView

_PHASES = frozenset({"draft"})
_MEASURES = {"mean_nll": "mean NLL u"}
_NOT_YET = "no draft yet"
_ROOMY_HEIGHT = 20
_LOW_HEIGHT = 13
_TOKEN_CELLS = 16
_BAR_CELLS = 24
_QUIET = "$foreground-muted"


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

        &.-empty {
            #draft-note { display: block; }
            #draft-legend, #draft-summary, #draft-token, #draft-trend, TokenView, EntropyChart { display: none; }
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
        yield Static(id="draft-trend", classes="line", markup=False)
        yield Static(id="draft-summary", classes="line", markup=False)
        yield Line(id="draft-second", classes="line")

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw_legend())
        self._draw_legend()
        self._draw()

    def begin(self) -> None:
        self._forget()
        self._clear_tokens()
        self._draw()

    def show(self, events: Sequence[Event], *, consulted: bool = True) -> None:
        if not consulted:
            return  # what would have been looked up writes no draft
        fresh: list[TokenGenerated | WordMeasured] = []
        for event in events:
            match event:
                case TokenGenerated() | WordMeasured() if event.phase in _PHASES:
                    fresh.append(event)
                case TokenGenerated(phase="second_draft"):
                    self._second = (self._second or "") + event.text
                case PromptBuilt(phase="second_draft") | GenerationReused(phase="second_draft"):
                    self._second = ""
                case PromptBuilt() | GenerationReused() if event.phase in _PHASES:
                    fresh.clear()  # of several calls, the last one stands
                    self._clear_tokens()
                    self._note_beginning(event)
                case _:
                    self._take(event)
        self._add(fresh)
        if self._is_written:
            self.query_one(EntropyChart).settle()
        self._draw()

    def _forget(self) -> None:
        self._strategy = ""
        self._note = _NOT_YET
        self._measured: UncertaintyMeasured | None = None
        self._is_reused = False
        self._is_written = False
        self._second = None
        self._forget_sums()

    def _forget_sums(self) -> None:
        self._nll = self._entropy = 0.0
        self._least_sure: TokenGenerated | None = None
        self._trend_threshold: float | None = None

    def _clear_tokens(self) -> None:
        self._forget_sums()
        self.query_one(TokenView).clear()
        self.query_one(EntropyChart).forget()

    # --- what comes

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
            case GenerationFinished() if event.phase in _PHASES:
                self._end(f"the draft is empty: the model ended at once ({event.stop_reason})")
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

    def _add(self, fresh: Sequence[TokenGenerated | WordMeasured]) -> None:
        tokens = [event for event in fresh if isinstance(event, TokenGenerated)]
        for token in tokens:
            self._nll -= token.logprob
            self._entropy += token.entropy
            if self._least_sure is None or token.entropy > self._least_sure.entropy:
                self._least_sure = token
        trends = [event for event in fresh if isinstance(event, WordMeasured)]
        if trends:
            self._trend_threshold = trends[-1].threshold
        if fresh:
            self.query_one(TokenView).append(tokens)
            self.query_one(EntropyChart).add(fresh)

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
        self.set_class(self._trend_threshold is not None, "-trend")
        self.query_one("#draft-note", Line).tell(Content(printable(self._note, keep_newlines=True)))
        self._say("summary", Content(printable(self._summary())))
        if self._trend_threshold is not None:
            line = f"line: second difference in nats; flat line: its threshold {self._trend_threshold:.2f}"
            self._say("trend", Content(line))
        self.set_class(self._second is not None, "-second")
        if self._second is not None:
            answer = Content(f"from the pseudo-context: {printable(' '.join(self._second.split()))}")
            self.query_one("#draft-second", Line).tell(answer)
        self._draw_token()

    def _say(self, part: str, content: Content) -> None:
        self.query_one(f"#draft-{part}", Static).update(content, layout=False)  # its height is fixed

    def _summary(self) -> str:
        count = len(self.query_one(TokenView).tokens)
        if not count:
            return ""
        parts = ["reused: not generated again"] if self._is_reused else []
        parts.append(f"{count:,} token{'s' if count > 1 else ''}")
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
            self._say("token", _token_table(head, token) if is_roomy else _token_line(head, token, width))


def _others(token: TokenGenerated) -> list[tuple[str, float]]:
    return [(other.text, other.logprob) for other in token.alternatives if other.text != token.text]


def _token_line(head: str, token: TokenGenerated, width: int) -> Content:
    """The token and its alternatives, as many as there is room for: a number is shown whole or not at all."""
    line = Content.assemble(
        (f"{head} ", _QUIET),
        (_shown(token.text), "bold"),
        f"  p {probability(token.logprob)}, {token.entropy:.2f} nats",
    )
    for number, (text, logprob) in enumerate(_others(token)):
        more = f"{_shown(text)} {probability(logprob)}"
        longer = Content.assemble(line, "  ", ("" if number else "or ", _QUIET), more)
        if longer.cell_length > width:
            break
        line = longer
    return line


def _token_table(head: str, token: TokenGenerated) -> Content:
    rows = [(token.text, token.logprob), *_others(token)[:4]]
    lines = [Content.assemble((f"{head}, entropy ", _QUIET), f"{token.entropy:.2f} nats")]
    for number, (text, logprob) in enumerate(rows):
        label = "said" if not number else "instead" if number == 1 else ""
        lines.append(
            Content.assemble(
                (f"{label:<9}", _QUIET),
                (set_cell_size(_shown(text), _TOKEN_CELLS + 1), "" if number else "bold"),
                f"{probability(logprob)} ",
                ("█" * round(_BAR_CELLS * math.exp(min(logprob, 0.0))), _QUIET if number else "bold"),
            )
        )
    return Content("\n").join(lines)


def _shown(text: str) -> str:
    """The token in quotes, cut to the width of its column."""
    shown = printable(quoted(text))
    return shown if cell_len(shown) <= _TOKEN_CELLS else f'{chop_cells(shown, _TOKEN_CELLS - 2)[0]}…"'
