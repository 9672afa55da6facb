"""A model that is right as a rule says, and whose states tell so: what a prober can be trained on in seconds."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from adaptrag_cli.index.store import Freshness
from adaptrag_cli.models.base import Prompt
from adaptrag_cli.models.catalogue import find_entry
from adaptrag_cli.session.indexes import OpenIndex
from fakes import Reply, ScriptedModel, reply
from lamp import lamp_retriever
from probe_rows import half_right

MODEL = "qwen2.5-coder-0.5b-instruct"
_NUMBER = re.compile(r"mooring fee number (\d+)\?")
_WIDTH = 4


@dataclass
class RuleModel(ScriptedModel):
    """Answers `What is the mooring fee number N?` with gold where `half_right` says so, and else with lead."""

    gives_states: bool = True
    world: ProbeWorld | None = None

    def _reply_to(self, prompt: Prompt) -> Reply:
        number, retrieved = _asked(prompt)
        if self.world is not None:
            self.world.interfere(number)
        answer = "gold" if half_right(number, retrieved) else "lead"
        if "single word or phrase" in prompt.text:
            return reply(answer)
        return reply(f" It is known.\nAnswer: {answer}", states=_state(number, retrieved))

    def prompt_states(self, prompt: Prompt, layers):
        return dict.fromkeys(layers, _state(*_asked(prompt)))


def _asked(prompt: Prompt) -> tuple[int, bool]:
    return int(_NUMBER.findall(prompt.text)[-1]), "Passages:" in prompt.text


def _state(number: int, retrieved: bool) -> tuple[float, ...]:
    noise = np.random.default_rng([number, retrieved]).standard_normal(_WIDTH)
    noise[0] += 3 if half_right(number, retrieved) else -3
    return tuple(noise.tolist())


@dataclass
class ProbeWorld:
    """A folder with a model file of the right size, questions, and an open index; nothing is loaded for real."""

    folder: Path
    models: list[RuleModel]
    """All that were loaded."""
    asked: list[tuple[str, str | None]]
    """Each set with the name of the index that was opened for it."""
    needs_index: bool = False
    """Whether a set without a corpus and without the name of an index is refused."""
    cancel_at: int | None = None
    """The call, counted over all models, in which the person stops."""

    fails: Mapping[int, Exception] = field(default_factory=dict)
    """What the model raises instead of writing, by the number in the question."""

    @property
    def questions(self) -> Path:
        return self.folder / "fees.jsonl"

    def interfere(self, number: int) -> None:
        """Do what is to happen when the question of this number is about to be answered."""
        if self.cancel_at is not None and sum(len(model.calls) for model in self.models) >= self.cancel_at:
            os.kill(os.getpid(), signal.SIGINT)
        if number in self.fails:
            raise self.fails[number]


def probe_world(folder: Path, monkeypatch: pytest.MonkeyPatch, *, questions: int = 30) -> ProbeWorld:
    """Set the world up; what is loaded are models that follow the rule."""
    (folder / "models").mkdir()
    with (folder / "models" / find_entry(MODEL).file).open("wb") as file:
        file.truncate(find_entry(MODEL).size_bytes or 0)  # a hole of the right size
    world = ProbeWorld(folder, [], [])
    lines = ({"question": f"What is the mooring fee number {n}?", "answers": ["gold"]} for n in range(questions))
    world.questions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    opened = OpenIndex(retriever=lamp_retriever(folder), freshness=Freshness(), warnings=())

    def load_models(load, lanes, on_note):
        assert load.signals
        on_note(f"loading {load.file.name}")
        made = tuple(RuleModel(world=world) for _ in range(lanes))
        world.models.extend(made)
        return made

    def open_corpus(question_set, settings, *, corpus, **_):
        world.asked.append((question_set.name, settings.index.name))
        return None if settings.index.name is None and corpus is None and world.needs_index else opened

    monkeypatch.setenv("ADAPTRAG_MODELS_DIR", str(folder / "models"))
    monkeypatch.setattr("adaptrag_cli.evaluation.probing.generation.load_models", load_models)
    monkeypatch.setattr("adaptrag_cli.evaluation.probing.generation.open_corpus", open_corpus)
    return world
