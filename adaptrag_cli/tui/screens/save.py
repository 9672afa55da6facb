"""Ask where to write a file."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from adaptrag_cli.tui.screens.dialog import Dialog, plain


class SaveDialog(Dialog[Path | None]):
    """Return the path to write to, or None when the person left. Nothing is written here.

    Args:
        title: what is saved.
        suggestion: the path that stands in the field at first.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "save", "Save", priority=True)]

    DEFAULT_CSS = """
    SaveDialog .problem { margin-top: 1; padding: 0 1; height: auto; }
    """

    def __init__(self, title: str, suggestion: Path) -> None:
        super().__init__(title)
        self._suggestion = suggestion
        self._to_replace: Path | None = None
        """The existing file that another Enter replaces."""

    def compose_body(self) -> ComposeResult:
        yield Input(str(self._suggestion), placeholder="path of the file", compact=True, select_on_focus=False)
        yield Static(classes="problem")

    @on(Input.Changed)
    def _typed(self) -> None:
        self._to_replace = None
        self._say("")

    def action_save(self) -> None:
        text = self.query_one(Input).value.strip()
        path = Path(text).expanduser()
        if not text:
            self._say("Name a file.")
        elif path.is_dir():
            self._say(f"{path} is a folder: name a file in it.")
        elif not path.parent.is_dir():
            self._say(f"There is no folder {path.parent}.")
        elif path.exists() and path != self._to_replace:
            self._to_replace = path
            self._say(f"{path} exists. Enter once more replaces it.")
        else:
            self.dismiss(path)

    def _say(self, problem: str) -> None:
        self.query_one(".problem", Static).update(plain(problem, "bold"))
