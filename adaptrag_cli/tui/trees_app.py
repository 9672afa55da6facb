"""The application that shows explored trees; it needs no engine."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import App

from adaptrag_cli.learning.runs import Explored, SynthesisManifest
from adaptrag_cli.tui.screens.trees import TreesScreen


class TreesApp(App[None]):
    """`adaptrag deeprag tree RUN --tui`."""

    TITLE = "AdaptRAG"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, manifest: SynthesisManifest, explored: Sequence[Explored], first: int = 0) -> None:
        super().__init__()
        self._screen_of_trees = TreesScreen(manifest, explored, first)

    def on_mount(self) -> None:
        self.push_screen(self._screen_of_trees)
