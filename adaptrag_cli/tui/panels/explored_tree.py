"""An explored tree of answers from memory and from documents, with the path that is learned marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from adaptrag_cli.learning.branches import Branch, LineKind, lines_of
from adaptrag_cli.terminal import printable

_QUIET = "$foreground-muted"
_CHOSEN = "bold $text-success"
_STYLES: Mapping[LineKind, str] = {
    "question": "bold",
    "chosen": _CHOSEN,
    "answer": "",
    "asks": "$text-accent",
    "right": "$text-success",
    "wrong": "$text-error",
    "unfinished": _QUIET,
}


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A node as it is drawn: its guides on the first line and on the others, and its text."""

    branch: Branch
    first: str
    others: str
    text: Content

    def drawn(self, width: int) -> Content:
        lines = self.text.wrap(max(width - len(self.others), 1))  # the longer guide, a level deeper
        guides = [self.first, *[self.others] * (len(lines) - 1)]
        style = _CHOSEN if self.branch.is_chosen else _QUIET
        return Content("\n").join(
            Content.assemble((guide, style), line) for guide, line in zip(guides, lines, strict=True)
        )


class ExploredTree(OptionList):
    """Enter folds what lies below a node away, and shows it again."""

    DEFAULT_CSS = """
    ExploredTree {
        height: 1fr;
        background: transparent;
        border: none;
        padding: 0 1;
        scrollbar-gutter: stable;  /* lines are wrapped before it is known whether there is a bar */
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

    class NodeReached(Message):
        """The highlight stands on a node."""

        def __init__(self, branch: Branch) -> None:
            super().__init__()
            self.branch = branch

    def __init__(self) -> None:
        super().__init__(compact=True, markup=False)
        self._root: Branch | None = None
        self._question = ""
        self._folded: set[str] = set()
        self._rows: list[_Row] = []

    def show(self, question: str, root: Branch) -> None:
        """Draw another tree, with the highlight on the end of its chosen path, else on its root."""
        self._question, self._root, self._folded = question, root, set()
        self._draw(_last_chosen(root))

    def show_chosen(self) -> None:
        """Fold away what lies below nodes beside the chosen path; or show all again where that is so."""
        if self._root is None:
            return
        if not self._root.is_chosen:
            self.notify("no path of this question is right", markup=False, timeout=2)
            return
        aside = {branch.node.path for branch in _all(self._root) if branch.children and not branch.is_chosen}
        self._folded = set() if aside and aside <= self._folded else aside
        self._draw(_last_chosen(self._root))

    def _draw(self, path: str) -> None:
        """Draw what is not folded away, with the highlight on the node of a path."""
        width = self.scrollable_content_region.width
        if self._root is None or width < 1:
            return
        self._rows = list(self._rows_of(self._root, "", ""))
        self.set_options(Option(row.drawn(width)) for row in self._rows)
        paths = [row.branch.node.path for row in self._rows]
        self.highlighted = paths.index(path) if path in paths else 0

    def _rows_of(self, branch: Branch, first: str, before: str) -> Iterator[_Row]:
        shown = () if branch.node.path in self._folded else branch.children
        yield _Row(
            branch=branch,
            first=first,
            others=before + ("│ " if shown else "  "),
            text=_text(branch, self._question, is_folded=bool(branch.children) and not shown),
        )
        for child in shown:
            is_last = child is shown[-1]
            yield from self._rows_of(child, before + ("└ " if is_last else "├ "), before + ("  " if is_last else "│ "))

    @property
    def _path(self) -> str:
        return self._rows[self.highlighted].branch.node.path if self.highlighted is not None and self._rows else ""

    def on_resize(self, event: events.Resize) -> None:
        self._draw(self._path if self._rows or self._root is None else _last_chosen(self._root))

    def on_option_list_option_highlighted(self, message: OptionList.OptionHighlighted) -> None:
        message.stop()
        if message.option_index < len(self._rows):
            self.post_message(self.NodeReached(self._rows[message.option_index].branch))

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        message.stop()
        branch = self._rows[message.option_index].branch
        if branch.children:
            self._folded ^= {branch.node.path}
            self._draw(branch.node.path)


def _text(branch: Branch, question: str, *, is_folded: bool) -> Content:
    """The lines of a node, and how many nodes are folded away below it."""
    lines = [Content.styled(printable(line), _STYLES[kind]) for kind, line in lines_of(branch, question)]
    if is_folded:
        below = sum(1 for _ in _all(branch)) - 1
        lines.append(Content.styled(f"... {below} nodes below", _QUIET))
    return Content("\n").join(lines)


def _all(branch: Branch) -> Iterator[Branch]:
    yield branch
    for child in branch.children:
        yield from _all(child)


def _last_chosen(root: Branch) -> str:
    """Path of the last node of the chosen path; the root's where there is none."""
    return max((branch.node.path for branch in _all(root) if branch.is_chosen), key=len, default="")
