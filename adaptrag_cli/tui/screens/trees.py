"""The trees of a run of `adaptrag deeprag synthesize`: its questions, the tree of one, and what a node was told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, OptionList, Static
from textual.widgets.option_list import Option

from adaptrag_cli.learning.branches import Branch, branches_of, path_told
from adaptrag_cli.learning.runs import Explored, SynthesisManifest
from adaptrag_cli.learning.tree import choose_path
from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.panels.explored_tree import ExploredTree

_QUIET = "$foreground-muted"


class TreesScreen(Screen[None]):
    """Walk through explored trees.

    Args:
        first: number of the question whose tree is shown first.
    """

    AUTO_FOCUS = "ExploredTree"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "app.quit", "Close", key_display="esc"),
        Binding("tab", "app.focus_next", "Next part"),
        Binding("n", "step(1)", "Next question"),
        Binding("p", "step(-1)", "Question before"),
        Binding("c", "chosen", "Fold others"),
    ]

    DEFAULT_CSS = """
    TreesScreen {
        & #questions {
            width: 34%; max-width: 60; height: 100%; padding: 0; border: none; border-right: vkey $panel;
            background: transparent;
            &:focus { background-tint: transparent; }
        }
        & #told { height: auto; padding: 0 1; background: $panel; }
        & #node { height: 30%; padding: 0 1; border-top: hkey $panel; }
        &.-narrow #questions { display: none; }
    }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (90, "-broad")]  # noqa: RUF012 (the base declares it for instances)

    def __init__(self, manifest: SynthesisManifest, explored: Sequence[Explored], first: int = 0) -> None:
        super().__init__()
        self._manifest = manifest
        self._explored = tuple(explored)
        self._at = first

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield OptionList(*(Option(self._line(each)) for each in self._explored), id="questions", markup=False)
            with Vertical():
                yield Static(id="told", markup=False)
                yield ExploredTree()
                with VerticalScroll(id="node"):
                    yield Static(id="words", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._show(self._at)

    def action_step(self, by: int) -> None:
        """Go to another question."""
        self._show((self._at + by) % len(self._explored))

    def action_chosen(self) -> None:
        """Show the chosen path alone, or all."""
        self.query_one(ExploredTree).show_chosen()

    @on(OptionList.OptionHighlighted, "#questions")
    def _reached(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_index == event.option_list.highlighted != self._at:  # a list first reaches its first line
            self._show(event.option_index)

    @on(OptionList.OptionSelected, "#questions")
    def _entered(self) -> None:
        self.query_one(ExploredTree).focus()

    @on(ExploredTree.NodeReached)
    def _told(self, event: ExploredTree.NodeReached) -> None:
        self.query_one("#words", Static).update(_words(event.branch))
        self.query_one("#node", VerticalScroll).scroll_home(animate=False)

    def _show(self, number: int) -> None:
        self._at = number
        explored = self._explored[number]
        chosen = choose_path(explored.tree, self._manifest.paths, seed=self._manifest.seed)
        questions = self.query_one("#questions", OptionList)
        questions.highlighted = number
        found = path_told(chosen, self._manifest.paths) if chosen else "no path is right"
        golds = printable(" | ".join(explored.golds))
        question = printable(" ".join(explored.tree.question.split()))
        told = f"{number + 1} of {len(self._explored)}  {found}; {len(explored.tree.nodes)} nodes; gold: {golds}"
        self.query_one("#told", Static).update(Content.assemble((question, "bold"), f"\n{told}"))
        self.query_one(ExploredTree).show(explored.tree.question, branches_of(explored.tree, chosen))

    def _line(self, explored: Explored) -> Content:
        chosen = choose_path(explored.tree, self._manifest.paths, seed=self._manifest.seed)
        question = printable(" ".join(explored.tree.question.split()))
        if chosen is None:
            return Content.assemble(("unsolved ", _QUIET), question)
        return Content.assemble((f"{chosen.path or 'no step'} ", "bold $text-success"), question)


def _words(branch: Branch) -> Content:
    """What the last step of a node was answered from, and what follows."""
    node = branch.node
    if not node.steps:
        return Content.styled("The question itself. D is answered from memory, R from documents.", _QUIET)
    lines = [Content.assemble(("asked: ", _QUIET), printable(node.steps[-1].sub_query))]
    lines.append(Content.assemble((f"answer from {branch.source}: ", _QUIET), printable(branch.answer) or "(none)"))
    lines += [
        Content.assemble((f"[{number}] ", _QUIET), printable(passage))
        for number, passage in enumerate(branch.passages, start=1)
    ]
    return Content("\n").join(lines)
