"""One line: what is loaded, on what, and how fresh the index is."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from adaptrag_cli.events import RunStarted
from adaptrag_cli.service.protocol import Ready
from adaptrag_cli.terminal import printable

_GAP = "  "


class StatusBar(Widget):
    """Shows as many parts as the width holds, the most needed first."""

    DEFAULT_CSS = """
    StatusBar { height: 1; padding: 0 1; background: $panel; color: $text; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._parts: tuple[str, ...] = ()
        self._note = ""

    def show_ready(self, ready: Ready) -> None:
        """Say what the engine has loaded."""
        self._note = ""
        self._parts = (
            ready.strategy,
            ready.model,
            _index_words(ready),
            _place_words(ready.gpu_layers_used, ready.threads),
            f"context {ready.context_length:,}",
        )
        self.tooltip = Content(f"GPU layers {ready.gpu_layers_requested}: {printable(ready.gpu_reason)}")
        self.refresh()

    def show_recorded(self, start: RunStarted) -> None:
        """Say what a recorded run was made with."""
        self._note = "recorded"
        self._parts = (
            start.strategy,
            start.model,
            f"index {start.index}" if start.index else "no index",
            _place_words(start.gpu_layers_used, start.threads),
            f"context {start.context_length:,}",
        )
        self.refresh()

    def note(self, text: str) -> None:
        """Say what is being done now; empty when it is done."""
        self._note = text
        self.refresh()

    def render(self) -> Content:
        width = self.content_size.width
        shown = [Content.styled("AdaptRAG", "bold $text-accent")]
        used = len("AdaptRAG")
        parts = [(self._note, "bold $text-warning")] if self._note else []
        parts += [(part, "$text") for part in self._parts]
        for part, style in parts:
            text = printable(part)
            if used + len(_GAP) + len(text) > width:
                break
            shown += [Content(_GAP), Content.styled(text, style)]
            used += len(_GAP) + len(text)
        return Content("").join(shown)


def _place_words(gpu_layers: int, threads: int) -> str:
    if gpu_layers:
        return f"{gpu_layers} layers on the GPU"
    return f"CPU, {threads} thread{'s' if threads != 1 else ''}"


def _index_words(ready: Ready) -> str:
    if not ready.index:
        return "no index"
    chunks = f"{ready.chunks:,} chunk{'s' if ready.chunks != 1 else ''}"
    return f"index {ready.index}: {chunks}, {'fresh' if ready.is_fresh else 'NOT fresh'}"
