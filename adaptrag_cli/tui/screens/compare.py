"""The same question under two runs, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Static

from adaptrag_cli.render import peek_line, source_lines, verdict_lines
from adaptrag_cli.run_summary import RunSummary
from adaptrag_cli.tui.screens.dialog import plain

Side = Literal["left", "right"]
_DIFFERENT = "bold underline"
"""How a word is drawn that the other answer lacks: readable without colour."""


class CompareScreen(Screen[None]):
    """Show two runs of one question; either may still be running and be told more by `update`."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,c", "leave", "Close")]

    DEFAULT_CSS = """
    CompareScreen {
        & .question { padding: 0 1; text-style: bold; max-height: 3; }
        & .note { padding: 0 1; color: $text-muted; }
        & .pair { height: auto; }
        & .pair > * { width: 1fr; height: auto; padding: 0 1; }
        & .heads { padding-right: 1; border-bottom: solid $panel-lighten-2; text-style: bold; }
        & VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
        & .section { color: $text-muted; margin-top: 1; padding: 0 1; }
        & .first { margin-top: 0; }
    }
    """

    def __init__(self, left: RunSummary, right: RunSummary) -> None:
        super().__init__()
        self._runs: dict[Side, RunSummary] = {"left": left, "right": right}

    def compose(self) -> ComposeResult:
        yield Static(plain(self._runs["left"].started.query), classes="question")
        yield Horizontal(Static(id="left-head"), Static(id="right-head"), classes="pair heads")
        with VerticalScroll():
            for number, name in enumerate(_SECTIONS):
                yield Static(name, classes="section first" if number == 0 else "section")
                yield Horizontal(Static(id=f"left-{name.lower()}"), Static(id=f"right-{name.lower()}"), classes="pair")
                if name == "Answer":
                    yield Static(id="difference", classes="note")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self._draw()

    def update(self, side: Side, run: RunSummary) -> None:
        """Show the run as it is by now."""
        self._runs[side] = run
        if self.is_mounted:
            self._draw()

    def action_leave(self) -> None:
        self.dismiss(None)

    def _draw(self) -> None:
        left, right = self._runs["left"], self._runs["right"]
        for side, run, other in (("left", left, right), ("right", right, left)):
            self.query_one(f"#{side}-head", Static).update(_heading(run, other))
            for name, section in _SECTIONS.items():
                self.query_one(f"#{side}-{name.lower()}", Static).update(section(run, other))
        difference = self.query_one("#difference", Static)
        difference.display = left.finished is not None and right.finished is not None
        difference.update(_difference(left, right))


def _heading(run: RunSummary, other: RunSummary) -> Content:
    """The strategy; for twice the same one, what was set otherwise."""
    name = run.started.strategy
    if name == other.started.strategy:
        theirs = {setting.name: setting.value for setting in other.started.settings}
        own = [f"{s.name} {s.value}" for s in run.started.settings if theirs.get(s.name) != s.value]
        name = ", ".join([name, *own])
    return plain(name) if _is_over(run) else plain(f"{name} (running...)")


def _is_over(run: RunSummary) -> bool:
    return run.finished is not None or run.failed is not None


def _decision(run: RunSummary, _other: RunSummary) -> Content:
    if run.failed:
        return _lines([plain(f"failed: {run.failed.message}", "bold"), plain(run.failed.hint)])
    if run.finished:
        first, *notes = verdict_lines(run)
        return _lines([plain(first, "bold"), *(plain(note) for note in notes)])
    return plain(run.decision.reason if run.decision else "not made yet")


def _answer(run: RunSummary, other: RunSummary) -> Content:
    if run.failed:
        return plain("none", "dim")
    if run.finished is None:
        writing = run.writings.get("answer") or run.writings.get("draft")
        return plain(writing.text if writing else run.reasoning, keep_newlines=True)
    if other.finished is None:
        return plain(run.finished.answer, keep_newlines=True)
    return _marked(run.finished.answer, other.finished.answer)


def _marked(answer: str, other: str) -> Content:
    """The answer with the words marked that the other lacks."""
    words = answer.split()
    parts: list[Content] = []
    for tag, start, end, _, _ in _matcher(answer, other).get_opcodes():
        if end > start:
            parts.append(plain(" ".join(words[start:end]), "" if tag == "equal" else _DIFFERENT))
    return Content(" ").join(parts)


def _matcher(answer: str, other: str) -> SequenceMatcher[str]:
    """Match the words of two answers; case and the punctuation around a word make no difference."""
    words, others = ([_bare(word) for word in text.split()] for text in (answer, other))
    return SequenceMatcher(None, words, others, autojunk=False)


def _bare(word: str) -> str:
    return word.strip(".,;:!?\"'()").casefold() or word


def _difference(left: RunSummary, right: RunSummary) -> Content:
    """In words how far the answers agree, and how a difference is marked."""
    if left.finished is None or right.finished is None:
        return Content("")
    answers = left.finished.answer, right.finished.answer
    shared = sum(block.size for block in _matcher(*answers).get_matching_blocks())
    words, others = (len(answer.split()) for answer in answers)
    if shared == words == others:
        return plain("Both answers are the same, word by word.")
    counts = f"{words - shared} of {words} words left, {others - shared} of {others} right"
    return Content.assemble("Marked ", ("so", _DIFFERENT), f": what the other answer lacks ({counts}).")


def _sources(run: RunSummary, other: RunSummary) -> Content:
    if run.finished is None:
        return Content("")
    if not run.sources:
        return plain(peek_line(run.peek) if run.peek else "none", "dim")
    theirs = {chunk.chunk_id for chunk in other.sources}
    lines = []
    for line, chunk in zip(source_lines(run), run.sources, strict=True):
        mark = "both" if chunk.chunk_id in theirs else "only here"
        lines.append(plain(f"{mark}  ", "bold") + plain(line) if other.finished else plain(line))
    return _lines(lines)


def _cost(run: RunSummary, _other: RunSummary) -> Content:
    if run.finished is None:
        return Content("")
    counts = run.finished.counts
    rows = {
        "LLM calls": f"{counts.llm_calls:,}",
        "searches": f"{counts.searches:,}",
        "prompt tokens": f"{counts.prompt_tokens:,}",
        "  of them reused": f"{counts.reused_tokens:,}",
        "tokens written": f"{counts.generated_tokens:,}",
        "seconds": f"{run.total_ms / 1000:,.1f}",
    }
    return _lines([plain(f"{name:<16}{value:>9}") for name, value in rows.items()])


def _lines(lines: Sequence[Content]) -> Content:
    return Content("\n").join(line for line in lines if line.plain)


_SECTIONS: Mapping[str, Callable[[RunSummary, RunSummary], Content]] = {
    "Decision": _decision,
    "Answer": _answer,
    "Sources": _sources,
    "Cost": _cost,
}
