"""The exact prompt of a call, template tokens included."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll

from adaptrag_cli.events import PromptBuilt
from adaptrag_cli.render import PHASES
from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.flowing_text import FlowingText
from adaptrag_cli.tui.screens.dialog import Dialog


class PromptScreen(Dialog[None]):
    """Show a prompt as the model saw it, as plain text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave", "Close", show=False),
        Binding("y", "copy", "Copy"),
    ]

    def __init__(self, prompt: PromptBuilt) -> None:
        super().__init__(f"prompt of the {PHASES[prompt.phase]}: {prompt.tokens:,} tokens")
        self._prompt = prompt

    def compose_body(self) -> ComposeResult:
        with VerticalScroll(classes="body"):
            yield FlowingText()

    def on_mount(self) -> None:
        self.query_one(FlowingText).append(self._prompt.text)
        self.query_one(VerticalScroll).focus()

    def action_copy(self) -> None:
        """Copy the prompt."""
        self.app.copy_to_clipboard(printable(self._prompt.text, keep_newlines=True))
        self.notify("copied: the prompt", timeout=2)
