"""What panels ask of the screen. A panel never calls the engine and never opens a screen itself."""

from __future__ import annotations

from collections.abc import Mapping

from textual.message import Message

from adaptrag_cli.events import Candidate, PromptBuilt, RankedChunk


class ChunkOpened(Message):
    """The person wants to read a chunk in its document."""

    def __init__(self, chunk: Candidate | RankedChunk) -> None:
        super().__init__()
        self.chunk = chunk


class PromptOpened(Message):
    """The person wants to read the exact prompt of a call."""

    def __init__(self, prompt: PromptBuilt) -> None:
        super().__init__()
        self.prompt = prompt


class ThresholdMoved(Message):
    """The person moved the threshold; nothing has run yet."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold


class SelectionChanged(Message):
    """The person wants another selection. `changes` holds dotted settings (`ask.top_k`) and their new values."""

    def __init__(self, changes: Mapping[str, str | int]) -> None:
        super().__init__()
        self.changes = dict(changes)
