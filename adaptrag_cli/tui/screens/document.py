"""A chunk where it stands: the document's text around it, with the chunk marked."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Static

from adaptrag_cli.events import Candidate, RankedChunk
from adaptrag_cli.index.document_text import DocumentText
from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.flowing_text import FlowingText

_ABOVE = 3
"""Lines of context above the chunk when it is brought into sight."""


class DocumentScreen(Screen[None]):
    """Read a chunk in its document.

    Args:
        chunk: what was opened.
        document: the text around it; None when the index cannot tell it any more.
        note: in one line why there is only the chunk.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Close", key_display="esc"),
        Binding("x", "to_chunk", "Back to the chunk"),
        Binding("p", "copy_place", "Copy place"),
        Binding("y", "copy", "Copy place and chunk"),
    ]

    DEFAULT_CSS = """
    DocumentScreen {
        & #document-head { height: auto; padding: 0 1; background: $panel; }
        & #document-note { height: auto; padding: 0 1; color: $text-warning; }
        & VerticalScroll { padding: 0 1; scrollbar-gutter: stable; }
    }
    """

    def __init__(self, chunk: Candidate | RankedChunk, document: DocumentText | None, note: str = "") -> None:
        super().__init__()
        self._chunk = chunk
        self._document = document
        self._note = note

    def compose(self) -> ComposeResult:
        yield Static(self._head(), id="document-head")
        if self._note:
            yield Static(Content(printable(self._note)), id="document-note")
        with VerticalScroll():
            yield FlowingText(has_gutter=True)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        text = self.query_one(FlowingText)
        document = self._document
        if document is None:
            text.append(self._chunk.text, "chunk")
        else:
            if document.is_cut_before:
                text.append("... the document begins earlier ...\n\n", "dim")
            text.append(document.text[: document.chunk_start])
            text.append(document.chunk_text, "chunk")
            text.append(document.text[document.chunk_end :])
            if document.is_cut_after:
                text.append("\n\n... the document goes on ...", "dim")
        self.query_one(VerticalScroll).focus()
        self.call_after_refresh(self.action_to_chunk)

    def _head(self) -> Content:
        """The place, the document where the place does not name it, and the heading."""
        chunk = self._chunk
        source = self._document.source if self._document else chunk.document
        parts = [chunk.title] if source == chunk.document else [chunk.document, chunk.title]
        told = "".join(f"   {printable(part)}" for part in parts if part)
        return Content.assemble((printable(chunk.location), "bold"), (told, "dim"))

    def action_leave(self) -> None:
        self.dismiss()

    def action_to_chunk(self) -> None:
        """Bring the chunk into sight."""
        scroll, text = self.query_one(VerticalScroll), self.query_one(FlowingText)
        lines = text.lines_of("chunk")
        if lines is not None:
            top = max(0, lines[0] - _ABOVE)
            scroll.scroll_to(y=top, animate=False, immediate=True)

    def action_copy_place(self) -> None:
        """Copy file and place."""
        self._copy(self._chunk.location, "the place")

    def action_copy(self) -> None:
        """Copy the place and the text of the chunk."""
        self._copy(f"{self._chunk.location}\n\n{self._chunk.text}", "the place and the chunk")

    def _copy(self, text: str, what: str) -> None:
        self.app.copy_to_clipboard(printable(text, keep_newlines=True))
        self.notify(f"copied: {what}", timeout=2)
