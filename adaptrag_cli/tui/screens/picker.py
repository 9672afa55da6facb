"""Choose one of several by arrows or by typing a part of its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.console import Group
from rich.padding import Padding
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.screens.dialog import Dialog


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Something that can be chosen."""

    value: str
    """What the picker returns."""
    label: str
    detail: str = ""
    """One sentence about it."""


class Picker(Dialog[str | None]):
    """Return the value that was chosen, or None when the person left.

    Args:
        title: what is chosen, such as "Strategy".
        choices: all there is, in the order to show.
        current: value of the choice that is in force; it is marked, and highlighted first.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Choose", priority=True),
        Binding("up", "move('cursor_up')", "Up", show=False),
        Binding("down", "move('cursor_down')", "Down", show=False),
        Binding("pageup", "move('page_up')", "Page up", show=False),
        Binding("pagedown", "move('page_down')", "Page down", show=False),
    ]

    DEFAULT_CSS = """
    Picker {
        & OptionList {
            border: none;
            padding: 0;
            background: $surface;
            & > .option-list--option-highlighted {
                color: $block-cursor-foreground;
                background: $block-cursor-background;
            }
        }
        & .nothing { display: none; padding: 0 1; color: $text-muted; }
        &.-nothing .nothing { display: block; }
    }
    """

    def __init__(self, title: str, choices: Sequence[Choice], current: str) -> None:
        super().__init__(title)
        self._choices = tuple(choices)
        self._current = current
        self._shown: tuple[Choice, ...] = ()

    def compose_body(self) -> ComposeResult:
        yield Input(placeholder="type to filter", compact=True, classes="head")
        yield Static("nothing of that name", classes="nothing")
        options = OptionList(classes="body")
        options.can_focus = False  # typing always filters; the arrows reach the list through the screen
        yield options

    def on_mount(self) -> None:
        self._filter("")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._filter(event.value)

    def _filter(self, text: str) -> None:
        words = text.casefold().split()
        self._shown = tuple(choice for choice in self._choices if _holds(choice, words))
        options = self.query_one(OptionList)
        options.set_options([Option(self._prompt(choice)) for choice in self._shown])
        values = [choice.value for choice in self._shown]
        if values:
            options.highlighted = values.index(self._current) if self._current in values else 0
        self.set_class(not values, "-nothing")

    def _prompt(self, choice: Choice) -> Group:
        label = Text(printable(choice.label), style="bold")
        if choice.value == self._current:
            label.append("  (current)", style="not bold")
        details = [Padding(Text(printable(choice.detail)), (0, 0, 0, 2))] if choice.detail else []
        return Group(label, *details)

    async def action_move(self, where: str) -> None:
        await self.query_one(OptionList).run_action(where)

    def action_choose(self) -> None:
        highlighted = self.query_one(OptionList).highlighted
        if highlighted is not None:
            self.dismiss(self._shown[highlighted].value)

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._shown[event.option_index].value)


def _holds(choice: Choice, words: Sequence[str]) -> bool:
    text = f"{choice.value} {choice.label} {choice.detail}".casefold()
    return all(word in text for word in words)
