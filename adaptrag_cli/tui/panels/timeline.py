"""Panel 6: what was done, how long it took, and what it cost; the prompt of each call can be read.

Each call that writes a part of a chain of thought is a row of its own, and so is each look-up in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from adaptrag_cli.events import (
    AgreementMeasured,
    AnswersWeighed,
    ChunksReranked,
    Counts,
    Event,
    GenerationFinished,
    GenerationReused,
    PathRetrieved,
    PromptBuilt,
    QueryBuilt,
    RunFailed,
    RunFinished,
    RunStarted,
    TokenGenerated,
    stage_of,
)
from adaptrag_cli.render import chances, seconds
from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.fitting import filled
from adaptrag_cli.tui.messages import PromptOpened
from adaptrag_cli.tui.panels.base import Panel
from adaptrag_cli.tui.panels.line import Line
from adaptrag_cli.tui.panels.set_up import SetUp

_EMPTY = "no run yet"
_NAMES = {
    "pseudo_context": "pseudo-context",
    "search_query": "search by query",
    "sub_query": "sub-query",
    "intermediate_answer": "intermediate answer",
    "search_pseudo_context": "search by pseudo-context",
    "search_expanded": "search, expanded",
    "search_reasoning": "search by reasoning",
    "second_draft": "second draft",
    "agree": "agreement",
    "rerank": "reranking",
    "weigh": "weighing",
}
_HIDDEN = "setup"
"""The stage that holds what belongs to no other; shown only where it took time."""
_LEAST_MS = 0.5
_LEAST_TOKEN_MS = 0.2
"""No model writes a token in less."""
_NAME, _SHORT_NAME = 24, 16
_TIME = 10
_CALL = 27
_ENDED = 8
_SHORTEST_BAR, _LONGEST_BAR = 6, 40
_EIGHTHS = " ▏▎▍▌▋▊▉"
_ROOMY = 16
"""Rows of the panel from which on the set-up is shown below the stages."""


class _Columns(NamedTuple):
    """What a row has room for."""

    name: int
    bar: int
    """0 for none."""
    has_ending: bool

    @classmethod
    def for_width(cls, width: int) -> _Columns:
        bar = width - (_NAME + _TIME + 1 + _CALL + _ENDED)
        if bar >= _SHORTEST_BAR:
            return cls(_NAME, min(bar, _LONGEST_BAR), True)
        return cls(_SHORT_NAME, 0, width >= _SHORT_NAME + _TIME + _CALL + _ENDED)


@dataclass(kw_only=True)
class _Stage:
    """One row."""

    ms: float = 0.0
    prompt: PromptBuilt | None = None
    done: GenerationFinished | None = None
    is_reused: bool = False
    fact: str = ""
    """What came of it, where no model was called."""
    pairs: int = 0
    """That a reranker read."""
    written: int = 0
    first_token_ms: float = 0.0
    last_token_ms: float = 0.0

    @property
    def tokens_per_second(self) -> float | None:
        """Of the tokens after the first, whose time is the prompt's; None for fewer than two, or replayed ones.

        In traces of `eval`, texts of a batch or of its cache follow each other at once.
        """
        lasted = self.last_token_ms - self.first_token_ms
        is_replayed = lasted < _LEAST_TOKEN_MS * (self.written - 1)
        return 1000.0 * (self.written - 1) / lasted if self.written > 1 and not is_replayed else None


@dataclass(kw_only=True)
class _Run:
    """What the events have told so far."""

    started: RunStarted | None = None
    stages: dict[str, _Stage] = field(default_factory=dict)
    calls: int = 0
    """That wrote the chain of thought."""
    look_ups: int = 0
    """That were made for a query built while writing."""
    is_query_written: bool = False
    """Whether the model has begun to write the query of a look-up that is not built yet."""
    now: str = ""
    """The stage in work."""
    elapsed_ms: float = 0.0
    counts: Counts = field(default_factory=Counts)
    is_over: bool = False
    has_failed: bool = False

    def row_of(self, event: Event) -> str:
        """The row to which an event belongs, begun with it where it begins a call or a look-up."""
        name = stage_of(event)
        if isinstance(event, PromptBuilt) and event.phase == "reasoning":
            self.calls += 1
        writes_query = isinstance(event, PromptBuilt) and event.phase == "search_query"
        if writes_query or (isinstance(event, QueryBuilt) and not self.is_query_written):
            self.look_ups += 1
        self.is_query_written = (writes_query or self.is_query_written) and not isinstance(event, QueryBuilt)
        if self.calls and name == "reasoning":
            return f"reasoning {self.calls}"
        return f"look-up {self.look_ups}" if self.look_ups and _is_of_look_up(name) else name

    def is_split(self, stage: str) -> bool:
        """Whether several rows share the working time of a stage."""
        return (self.calls > 0 and stage == "reasoning") or (self.look_ups > 0 and _is_of_look_up(stage))


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
            height: auto; max-height: 60%; background: transparent; scrollbar-size: 0 1;
            text-wrap: nowrap; text-overflow: ellipsis;
            & > .option-list--option-highlighted {
                background: $primary 15%; color: $foreground; text-style: none;
            }
            &:focus {
                background-tint: transparent;
                & > .option-list--option-highlighted {
                    background: $primary 40%; color: $foreground; text-style: none;
                }
            }
        }
        #timeline-details { height: 1fr; margin-top: 1; display: none; }
        &.-details #timeline-details { display: block; }
        &.-low #timeline-rows { height: 1fr; max-height: 100%; }
        &.-details.-low #timeline-head { display: none; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._run = _Run()
        self._prompts: list[PromptBuilt | None] = []
        """Of the rows, in their order."""
        self._told: list[Content] = []
        """The rows as they stand in the list."""
        self._wants_details: bool | None = None
        """None until the person has said."""

    def compose(self) -> ComposeResult:
        yield Line(id="timeline-total")
        yield Line(id="timeline-head")
        yield OptionList(id="timeline-rows", compact=True, markup=False)
        yield SetUp(id="timeline-details")

    def on_mount(self) -> None:
        super().on_mount()
        self.border_subtitle = Content("enter prompt, d set-up")

    def begin(self) -> None:
        self._run = _Run()
        self._draw()
        self.query_one(SetUp).show(None)

    def show(self, events: Sequence[Event], *, consulted: bool = True) -> None:
        if not consulted:  # a look-up beside the run is not of its time
            return
        for event in events:
            self._take(event)
        self._draw()
        if any(isinstance(event, RunStarted) for event in events):
            self.query_one(SetUp).show(self._run.started)

    def on_resize(self) -> None:
        self._show_details()

    # --- the run

    def _take(self, event: Event) -> None:
        run = self._run
        name = run.row_of(event)
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
                self._count(llm_calls=1, prompt_tokens=event.tokens)
            case TokenGenerated():
                stage.written += 1
                stage.last_token_ms = event.elapsed_ms
                if stage.written == 1:
                    stage.first_token_ms = event.elapsed_ms
                if not stage.is_reused:
                    run.now = name
                    self._count(generated_tokens=1)
            case GenerationFinished():
                stage.done = event
                self._count(reused_tokens=event.reused_tokens)
            case GenerationReused():
                stage.is_reused, stage.written = True, 0
            case PathRetrieved():
                self._count(searches=1)
                if run.look_ups:
                    stage.fact = f"{_plural(len(event.chunks), 'chunk')} found"
            case AgreementMeasured():
                stage.fact = f"{'they agree' if event.agree else 'they differ'} ({event.rule} {event.value:.2f})"
            case ChunksReranked():
                stage.pairs += len(event.chunk_ids)
                stage.fact = f"{_plural(stage.pairs, 'chunk')} read"
                self._count(
                    llm_calls=event.llm_calls,
                    prompt_tokens=event.prompt_tokens,
                    reused_tokens=event.reused_tokens,
                )
            case AnswersWeighed():
                stage.fact = ", ".join(chances(event))
            case RunFinished():
                run.is_over, run.counts = True, event.counts
                for timing in (timing for timing in event.timings if not run.is_split(timing.stage)):
                    run.stages.setdefault(timing.stage, _Stage()).ms = timing.ms
            case RunFailed():
                run.is_over = run.has_failed = True

    def _count(self, **more: int) -> None:
        """Count what was begun, until the run tells its counts itself."""
        counts = self._run.counts
        self._run.counts = msgspec.structs.replace(counts, **{n: getattr(counts, n) + more[n] for n in more})

    # --- drawing

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        run = self._run
        rows = [(name, stage) for name, stage in run.stages.items() if name != _HIDDEN]
        rest = run.stages.get(_HIDDEN)
        if rest is not None and rest.ms >= _LEAST_MS:
            rows.append((_HIDDEN, rest))
        table = self.query_one("#timeline-rows", OptionList)
        at = table.highlighted
        self._prompts = [stage.prompt for _, stage in rows]
        columns = _Columns.for_width(self.content_size.width)
        longest = max((stage.ms for _, stage in rows), default=0.0)
        self._tell_rows(table, [self._row(name, stage, longest, columns) for name, stage in rows])
        if rows:
            table.highlighted = min(at or 0, len(rows) - 1)
        self.call_after_refresh(self._keep_in_sight)
        table.display = bool(rows) and not (self.has_class("-low") and self.has_class("-details"))
        self.query_one("#timeline-head", Line).tell(Content(_heading(columns) if rows else ""))
        self.query_one("#timeline-total", Line).tell(Content(self._total()))

    def _tell_rows(self, table: OptionList, rows: list[Content]) -> None:
        """Change what has changed: the screen is laid out anew only for another number of rows."""
        if len(rows) != len(self._told):
            table.set_options(Option(row) for row in rows)
        else:
            for index, (row, told) in enumerate(zip(rows, self._told, strict=True)):
                if not row.is_same(told):
                    table.replace_option_prompt_at_index(index, row)
        self._told = rows

    def _keep_in_sight(self) -> None:
        """Show the stage in work, and a run that is over from its beginning, unless somebody has moved in the list."""
        table = self.query_one("#timeline-rows", OptionList)
        if table.highlighted:
            return
        if self._run.now:
            table.scroll_end(animate=False, immediate=True)
        elif self._run.is_over:
            table.scroll_home(animate=False, immediate=True)

    def _row(self, name: str, stage: _Stage, longest: float, columns: _Columns) -> Content:
        is_now = name == self._run.now
        shown = "reasoning" if self._run.calls == 1 and name == "reasoning 1" else _NAMES.get(name, printable(name))
        label = f"{shown}{' ...' if is_now else ''}"
        share = stage.ms / longest if longest else 0.0
        return Content.assemble(
            (filled(label, columns.name), "bold" if is_now else ""),
            f"{_time(stage.ms):>8}  ",
            (_bar(share, columns.bar), "$text-accent"),
            _call_cells(stage, has_ending=columns.has_ending),
        )

    def _total(self) -> str:
        """Everything in one line, in as many words as fit into it."""
        run, counts = self._run, self._run.counts
        if run.started is None:
            return _EMPTY
        state = "failed after " if run.has_failed else "" if run.is_over else "so far: "
        done = (
            f"{seconds(run.elapsed_ms)}, {_plural(counts.llm_calls, 'LLM call')}, "
            f"{_plural(counts.searches, 'search', 'searches')}"
        )
        read, written = f"{counts.prompt_tokens:,}", f"{counts.generated_tokens:,}"
        reused = f" ({counts.reused_tokens:,} reused)" if counts.reused_tokens else ""
        told = (
            f"{state}{done}, {read} prompt tokens{reused}, {written} written",
            f"{state}{done}, {read} prompt tokens, {written} written",
            f"{done}, {read} tokens in, {written} out",
        )
        return next((line for line in told if len(line) <= self.content_size.width), told[-1])

    # --- keys

    def action_details(self) -> None:
        """Show or hide what the run was set up with."""
        self._wants_details = not self.has_class("-details")
        self._show_details()

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


def _is_of_look_up(stage: str) -> bool:
    return stage in {"write_query", "build_query", "select"} or stage.startswith("search_")


def _heading(columns: _Columns) -> str:
    bar = " " * (columns.bar + 1) if columns.bar else ""
    ended = "  ended" if columns.has_ending else ""
    return f"{'stage':{columns.name}}{'time':>8}  {bar}{'tok/s':>5} {'prompt':>6} {'reused':>6} {'written':>7}{ended}"


def _bar(share: float, cells: int) -> str:
    """A bar to an eighth of a cell, and a space; a share above none leaves a mark."""
    if not cells:
        return ""
    eighths = min(8 * cells, max(round(8 * cells * share), 1 if share > 0 else 0))
    return f"{'█' * (eighths // 8)}{_EIGHTHS[eighths % 8].strip()}".ljust(cells + 1)


def _call_cells(stage: _Stage, *, has_ending: bool) -> str:
    """Tokens a second; tokens of prompt, cache and text; what ended it. Blank where no model was called."""
    if stage.is_reused:
        return "handed in: not written again".rjust(_CALL)
    if stage.prompt is None:
        return stage.fact.rjust(_CALL)
    rate, done = stage.tokens_per_second, stage.done
    cells = (
        f"{'' if rate is None else f'{rate:.1f}':>5} {stage.prompt.tokens:>6,} "
        f"{'' if done is None else f'{done.reused_tokens:,}':>6} {stage.written:>7,}"
    )
    return f"{cells}  {done.stop_reason}" if done is not None and has_ending else cells


def _time(ms: float) -> str:
    return seconds(ms) if ms >= 1000 else f"{ms:.0f} ms"


def _plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
