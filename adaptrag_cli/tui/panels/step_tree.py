"""A narrative as a tree that grows: what each step asks, whether it is looked up, what is found, what it answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from adaptrag_cli.events import (
    ChunksSelected,
    DecisionMade,
    Event,
    PathRetrieved,
    Phase,
    PromptBuilt,
    QueryBuilt,
    RankedChunk,
    RunFailed,
    RunFinished,
    RunStarted,
    StepAnswered,
    StepDecided,
    SubQueryAsked,
    TokenGenerated,
)
from adaptrag_cli.look_ups import chunks_of_step, decision_of_step
from adaptrag_cli.run_summary import RunSummary, Step, advance
from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.messages import ChunkOpened

_QUIET = "$foreground-muted"
_BRANCH, _LAST, _PASSING, _NOTHING = "├ ", "└ ", "│ ", "  "
_TOLD = (
    SubQueryAsked,
    StepDecided,
    StepAnswered,
    DecisionMade,
    QueryBuilt,
    PathRetrieved,
    ChunksSelected,
    RunFinished,
    RunFailed,
)
"""What the tree is made of, beside the text that is being written."""
_WRITTEN: frozenset[Phase] = frozenset({"sub_query", "intermediate_answer"})


@dataclass(frozen=True, kw_only=True)
class _Row:
    """One entry of the tree: its guide on the first line and on the others, its text, the chunk that it stands for."""

    first: str
    others: str
    text: Content
    chunk: RankedChunk | None = None

    def drawn(self, width: int) -> Content:
        lines = self.text.wrap(max(width - len(self.first), 1))
        guides = [self.first, *[self.others] * (len(lines) - 1)]
        return Content("\n").join(
            Content.assemble((guide, _QUIET), line) for guide, line in zip(guides, lines, strict=True)
        )


class StepTree(OptionList):
    """Enter on what a step found asks for it in its document."""

    DEFAULT_CSS = """
    StepTree {
        width: 100%;
        height: 1fr;
        background: transparent;
        scrollbar-size-vertical: 1;
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
    """

    def __init__(self) -> None:
        super().__init__(compact=True, markup=False)
        self._run: RunSummary | None = None
        self._writing = ""
        """What is being written, until it is told as a step or as its answer."""
        self._rows: list[_Row] = []
        self._told: list[Content] = []

    @property
    def has_steps(self) -> bool:
        """Whether anything was asked."""
        return self._run is not None and bool(self._run.steps)

    def clear(self) -> None:
        """Forget the run."""
        self._run, self._writing = None, ""

    def take(self, event: Event) -> None:
        """Take the next event of the run."""
        match event:
            case RunStarted():
                self._run = RunSummary(started=event)
            case PromptBuilt():
                self._writing = ""
            case TokenGenerated() if event.phase in _WRITTEN:
                self._writing += event.text
        if isinstance(event, _TOLD) and self._run is not None:
            self._run = advance(self._run, [event])
            self._writing = ""

    def draw(self) -> None:
        """Show what was told; rows that stand as they were are left alone."""
        width = self.scrollable_content_region.width
        if self._run is None or width < 1:
            return
        self._rows = list(_rows(self._run, self._writing))
        drawn = [row.drawn(width) for row in self._rows]
        at = self.highlighted
        if len(drawn) != len(self._told):
            self.set_options(Option(row) for row in drawn)
        else:
            for index, (row, told) in enumerate(zip(drawn, self._told, strict=True)):
                if not row.is_same(told):
                    self.replace_option_prompt_at_index(index, row)
        self._told = drawn
        self.highlighted = min(at or 0, len(drawn) - 1) if drawn else None
        if not at:  # nobody has moved in the list
            self.call_after_refresh(self._follow)

    def _follow(self) -> None:
        """Show the end of what is being told, and the beginning of what has been told."""
        is_over = self._run is None or self._run.finished is not None
        # At once: a scroll that is put off once more may come behind a later one.
        (self.scroll_home if is_over else self.scroll_end)(animate=False, immediate=True)

    def on_resize(self, event: events.Resize) -> None:
        self.draw()

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        message.stop()
        chunk = self._rows[message.option_index].chunk
        if chunk is not None:
            self.post_message(ChunkOpened(chunk))


def _rows(run: RunSummary, writing: str) -> Iterator[_Row]:
    for number, step in enumerate(run.steps, start=1):
        label = f"{number}. "
        is_last = number == len(run.steps)
        yield _Row(first=label, others=" " * len(label), text=Content.styled(printable(step.asked.text), "bold"))
        leaves = list(_leaves(run, step, writing if is_last and _is_answered_next(step) else ""))
        for leaf, chunk in leaves:
            is_end = leaf is leaves[-1][0]
            yield _Row(
                first=_NOTHING + (_LAST if is_end else _BRANCH),
                others=_NOTHING + (_NOTHING if is_end else _PASSING),
                text=leaf,
                chunk=chunk,
            )
    if writing and not (run.steps and _is_answered_next(run.steps[-1])):
        yield _Row(first="... ", others="    ", text=Content(printable(_on_one_line(writing))))
    if run.finished:
        yield _Row(first="= ", others="  ", text=Content.styled(printable(run.finished.answer), "bold"))


def _leaves(run: RunSummary, step: Step, writing: str) -> Iterator[tuple[Content, RankedChunk | None]]:
    if step.decided or step.asked.is_repeated:
        style = "" if step.decided is None else "$text-warning" if step.decided.retrieve else "$text-success"
        yield Content.styled(printable(decision_of_step(step)), style), None
    for chunk, is_read in chunks_of_step(run, step):
        left_out = " (not read)" if step.answered and not is_read else ""
        title = f"  {printable(_on_one_line(chunk.title))}" if chunk.title else ""
        yield Content.assemble(f"[{chunk.rank}] {printable(chunk.location)}{left_out}", (title, _QUIET)), chunk
    if step.answered:
        answer = printable(_on_one_line(step.answered.text)) or "(no answer)"
        yield Content.assemble("-> ", (answer, "bold")), None
    elif writing:
        yield Content(f"-> {printable(_on_one_line(writing))} ..."), None


def _is_answered_next(step: Step) -> bool:
    return step.decided is not None and step.answered is None


def _on_one_line(text: str) -> str:
    return " ".join(text.split())
