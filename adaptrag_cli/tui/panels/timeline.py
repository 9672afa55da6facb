"""Panel 6: what was done, how long it took, and what it cost; the prompt of each call can be read."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from adaptrag_cli.events import (
    Counts,
    Event,
    GenerationFinished,
    GenerationReused,
    PathRetrieved,
    PromptBuilt,
    RunFailed,
    RunFinished,
    RunStarted,
    TokenGenerated,
    stage_of,
)
from adaptrag_cli.render import seconds
from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.messages import PromptOpened
from adaptrag_cli.tui.panels.base import Panel

_EMPTY = "no run yet"
_NAMES = {
    "pseudo_context": "pseudo-context",
    "search_query": "search by query",
    "search_pseudo_context": "search by pseudo-context",
}
_HIDDEN = "setup"
"""The stage that holds what belongs to no other; shown only where it took time."""
_LEAST_MS = 0.5
_BAR = 8
_WIDE = 70
_NAME, _SHORT_NAME = 24, 16
_ROOMY = 16
"""Rows of the panel from which on the set-up is shown below the stages."""


@dataclass(kw_only=True)
class _Stage:
    """One row."""

    ms: float = 0.0
    prompt: PromptBuilt | None = None
    done: GenerationFinished | None = None
    is_reused: bool = False
    written: int = 0
    first_token_ms: float = 0.0
    last_token_ms: float = 0.0

    @property
    def tokens_per_second(self) -> float | None:
        """Of the tokens after the first, whose time is the prompt's; None for fewer than two."""
        lasted = self.last_token_ms - self.first_token_ms
        return 1000.0 * (self.written - 1) / lasted if self.written > 1 and lasted > 0 else None


@dataclass(kw_only=True)
class _Run:
    """What the events have told so far."""

    started: RunStarted | None = None
    stages: dict[str, _Stage] = field(default_factory=dict)
    now: str = ""
    """The stage in work."""
    elapsed_ms: float = 0.0
    counts: Counts = field(default_factory=Counts)
    is_over: bool = False
    has_failed: bool = False


class TimelinePanel(Panel):
    """One row a stage; Enter on a row with a prompt opens it."""

    number: ClassVar[int] = 6
    title: ClassVar[str] = "Timeline"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("d", "details", "Set-up", show=False)]
    DEFAULT_CSS = """
    TimelinePanel {
        #timeline-total { height: auto; max-height: 2; color: $text-muted; }
        #timeline-head { height: 1; color: $text-muted; text-wrap: nowrap; }
        #timeline-rows {
            height: auto; max-height: 12; background: transparent; scrollbar-size: 0 1;
            text-wrap: nowrap; text-overflow: ellipsis;
            &:focus { background-tint: transparent; }
        }
        #timeline-details { height: 1fr; margin-top: 1; display: none; scrollbar-size-vertical: 1; }
        &.-details #timeline-details { display: block; }
        &.-details.-low #timeline-head { display: none; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._run = _Run()
        self._prompts: list[PromptBuilt | None] = []
        """Of the rows, in their order."""
        self._wants_details: bool | None = None
        """None until the person has said."""

    def compose(self) -> ComposeResult:
        yield Static(id="timeline-total", markup=False)
        yield Static(id="timeline-head", markup=False)
        yield OptionList(id="timeline-rows", compact=True, markup=False)
        with VerticalScroll(id="timeline-details"):
            yield Static(id="timeline-setup", markup=False)

    def on_mount(self) -> None:
        super().on_mount()
        self.border_subtitle = Content("enter prompt, d set-up")

    def begin(self) -> None:
        self._run = _Run()
        self._draw()
        self._tell_setup()

    def show(self, events: Sequence[Event], *, consulted: bool = True) -> None:
        if not consulted:  # a look-up beside the run is not of its time
            return
        for event in events:
            self._take(event)
        self._draw()
        if any(isinstance(event, RunStarted) for event in events):
            self._tell_setup()

    def on_resize(self) -> None:
        self._show_details()
        self.call_after_refresh(self._tell_setup)  # it wraps to the room that it then has

    # --- the run

    def _take(self, event: Event) -> None:
        run = self._run
        name = stage_of(event)
        stage = run.stages.setdefault(name, _Stage())
        stage.ms += event.elapsed_ms - run.elapsed_ms
        run.elapsed_ms = event.elapsed_ms
        run.now = ""
        match event:
            case RunStarted():
                run.started = event
            case PromptBuilt():
                stage.prompt, stage.done, stage.written, stage.is_reused = event, None, 0, False
                run.now = name
            case TokenGenerated():
                stage.written += 1
                stage.last_token_ms = event.elapsed_ms
                if stage.written == 1:
                    stage.first_token_ms = event.elapsed_ms
                run.now = "" if stage.is_reused else name
            case GenerationFinished():
                stage.done = event
                self._count(event)
            case GenerationReused():
                stage.is_reused, stage.written = True, 0
            case PathRetrieved():
                self._count(event)
            case RunFinished():
                run.is_over, run.counts = True, event.counts
                for timing in event.timings:
                    run.stages.setdefault(timing.stage, _Stage()).ms = timing.ms
            case RunFailed():
                run.is_over = run.has_failed = True

    def _count(self, event: GenerationFinished | PathRetrieved) -> None:
        counts = self._run.counts
        if isinstance(event, PathRetrieved):
            more = Counts(searches=1)
        else:
            more = Counts(
                llm_calls=1,
                prompt_tokens=event.prompt_tokens,
                reused_tokens=event.reused_tokens,
                generated_tokens=event.generated_tokens,
            )
        sums = {name: getattr(counts, name) + getattr(more, name) for name in Counts.__struct_fields__}
        self._run.counts = Counts(**sums)

    # --- drawing

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        run = self._run
        rows = [(name, stage) for name, stage in run.stages.items() if name != _HIDDEN or stage.ms >= _LEAST_MS]
        table = self.query_one("#timeline-rows", OptionList)
        at = table.highlighted
        self._prompts = [stage.prompt for _, stage in rows]
        is_wide = self.content_size.width >= _WIDE
        longest = max((stage.ms for _, stage in rows), default=0.0)
        table.set_options(Option(self._row(name, stage, longest, is_wide=is_wide)) for name, stage in rows)
        if rows:
            table.highlighted = min(at or 0, len(rows) - 1)
        table.display = bool(rows) and not (self.has_class("-low") and self.has_class("-details"))
        self.query_one("#timeline-head", Static).update(Content(_heading(is_wide) if rows else ""))
        self.query_one("#timeline-total", Static).update(Content(self._total()))

    def _row(self, name: str, stage: _Stage, longest: float, *, is_wide: bool) -> Content:
        is_now = name == self._run.now
        share = round(_BAR * stage.ms / longest) if longest else 0
        parts: list[Content | str | tuple[str, str]] = [
            (
                _cell(f"{_NAMES.get(name, name)}{' ...' if is_now else ''}", _NAME if is_wide else _SHORT_NAME),
                "bold" if is_now else "",
            ),
            f"{_time(stage.ms):>8}  ",
        ]
        if is_wide:
            parts += [("█" * share, "$text-accent"), ("·" * (_BAR - share), "$text-muted"), " "]
        return Content.assemble(*parts, *_call_cells(stage))

    def _total(self) -> str:
        run = self._run
        if run.started is None:
            return _EMPTY
        counts = run.counts
        reused = f" ({counts.reused_tokens:,} reused)" if counts.reused_tokens else ""
        state = "failed after " if run.has_failed else "" if run.is_over else "so far: "
        return (
            f"{state}{seconds(run.elapsed_ms)}, {_plural(counts.llm_calls, 'LLM call')}, "
            f"{_plural(counts.searches, 'search', 'searches')}, {counts.prompt_tokens:,} prompt tokens{reused}, "
            f"{counts.generated_tokens:,} written"
        )

    def _tell_setup(self) -> None:
        start = self._run.started
        width = self.query_one("#timeline-details").scrollable_content_region.width
        self.query_one("#timeline-setup", Static).update(Content("" if start is None else _setup(start, width)))

    # --- keys

    def action_details(self) -> None:
        """Show or hide what the run was set up with."""
        self._wants_details = not self.has_class("-details")
        self._show_details()
        self.call_after_refresh(self._tell_setup)

    def _show_details(self) -> None:
        is_roomy = self.content_size.height >= _ROOMY
        self.set_class(is_roomy if self._wants_details is None else self._wants_details, "-details")
        self.set_class(not is_roomy, "-low")
        self._draw()

    @on(OptionList.OptionSelected, "#timeline-rows")
    def _open(self, message: OptionList.OptionSelected) -> None:
        message.stop()
        prompt = self._prompts[message.option_index]
        if prompt is not None:
            self.post_message(PromptOpened(prompt))
        else:
            self.notify("this stage asks the model nothing", markup=False, timeout=2)


def _heading(is_wide: bool) -> str:
    bar = " " * (_BAR + 1) if is_wide else ""
    name = _cell("stage", _NAME if is_wide else _SHORT_NAME)
    return f"{name}{'time':>8}  {bar}{'tok/s':>5} {'prompt':>6} {'reused':>6} {'written':>7}"


def _call_cells(stage: _Stage) -> list[str | tuple[str, str]]:
    """Tokens a second, and tokens of prompt, cache and text; blank where no model was called."""
    if stage.is_reused:
        return [("   handed in: not written again", "$text-muted")]
    if stage.prompt is None:
        return []
    rate = stage.tokens_per_second
    done = stage.done
    ended = (
        ""
        if done is None or done.stop_reason == "end"
        else f"  ({'cut off' if done.stop_reason == 'length' else 'stop'})"
    )
    return [
        f"{'' if rate is None else f'{rate:.1f}':>5} {stage.prompt.tokens:>6,} "
        f"{'' if done is None else f'{done.reused_tokens:,}':>6} {stage.written:>7,}",
        (ended, "$text-muted"),
    ]


def _setup(start: RunStarted, width: int) -> str:
    """Model, machine, index and settings of the run, each with its name before it."""
    index = f"{start.index} ({start.index_fingerprint[:19]})" if start.index else "none"
    lines = [
        ("strategy", start.strategy),
        ("model", f"{start.model} ({start.model_fingerprint[:19]})"),
        ("context", f"{start.context_length:,} tokens, {_plural(start.threads, 'thread')}"),
        ("GPU layers", f"{start.gpu_layers_requested} -> {start.gpu_layers_used}: {start.gpu_reason}"),
        ("index", index),
        ("entropy", "over the whole vocabulary" if start.entropy_support == "full" else "over the best tokens only"),
        ("adaptrag", start.adaptrag_version),
        *((setting.name, f"{setting.value}  ({setting.origin})") for setting in start.settings),
    ]
    names = max(len(name) for name, _ in lines) + 2
    room = max(16, width - names)
    told = []
    for name, value in lines:
        first, *rest = textwrap.wrap(printable(value), room) or [""]
        told += [f"{printable(name):{names}}{first}", *(" " * names + line for line in rest)]
    return "\n".join(told)


def _time(ms: float) -> str:
    return seconds(ms) if ms >= 1000 else f"{ms:.0f} ms"


def _plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _cell(text: str, width: int) -> str:
    return f"{text[: width - 1]}…" if len(text) > width else f"{text:{width}}"
