"""An index without questions, and a model that is said to write some from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from adaptrag_cli.evaluation.question_writing import Written
from fakes import ScriptedModel
from lamp import ANGLES, lamp_retriever
from plane import PlaneEncoder


class SelfWritten:
    """Index `plane`, and at most so many questions; each numbered, its answer as given."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, count: int, answer: Callable[[int], str] = str
    ) -> None:
        lamp_retriever(folder)
        self.calls = 0
        self.model = ScriptedModel()
        encoder = PlaneEncoder(folder / "encoder", ANGLES)
        monkeypatch.setattr("adaptrag_cli.models.encoder.load_encoder", lambda *_, **__: encoder)
        monkeypatch.setattr("adaptrag_cli.session.session.load_model", lambda *_: self.model)
        monkeypatch.setattr("adaptrag_cli.evaluation.question_writing.write_questions", self.write)
        monkeypatch.setenv("ADAPTRAG_INDEX_DIR", str(folder / "indexes"))
        self._count = count
        self._answer = answer

    def write(
        self, *_: object, limit: int, on_written: Callable[[Written], None], earlier: Sequence[Written], **__: object
    ) -> None:
        self.calls += 1
        for n in range(len(earlier), min(limit, self._count)):
            question = f"What is the mooring fee number {n}?"
            on_written(Written(question=question, answer=self._answer(n), document="lamp.md", chunk=f"lamp.md#{n}"))
