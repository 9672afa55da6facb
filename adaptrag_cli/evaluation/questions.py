"""Question sets: what is asked, what is right, and the passages that come with it."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from adaptrag_cli.disk import replace_durably
from adaptrag_cli.events import Scalar


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question with its gold answers."""

    id: str
    text: str
    answers: tuple[str, ...]
    """At least one; the maximum over them is scored."""
    gold_ids: tuple[str, ...] = ()
    """Passages that tell the answer; empty where the set names none."""
    gold_sets: tuple[tuple[str, ...], ...] = ()
    """Evidence sets of several annotators, each enough (StrategyQA)."""
    own_passages: tuple[str, ...] = ()
    """Passages that are this question's knowledge base; empty means the whole corpus."""
    meta: Mapping[str, Scalar] = field(default_factory=dict)
    """Plain facts, such as type, hops or popularity."""


@dataclass(frozen=True, kw_only=True)
class Passage:
    """One text of a corpus."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, kw_only=True)
class QuestionSet:
    """A question file as it was read."""

    name: str
    format: str
    source: Path
    fingerprint: str
    """SHA-256 of the bytes of the file, unpacked, and of the files read beside it."""
    questions: tuple[Question, ...]
    passages: tuple[Passage, ...] = ()
    """The corpus that stands in the file itself; empty where it holds none."""
    notes: tuple[str, ...] = ()
    """What was left out, in words."""

    def sample(self, limit: int, seed: int) -> QuestionSet:
        """A random part of the questions, the same for the same file and seed; a smaller limit takes its beginning."""
        chosen = list(self.questions)
        random.Random(f"{seed}:{self.fingerprint}").shuffle(chosen)
        return replace(self, questions=tuple(chosen[:limit]))


def passage_id(title: str, text: str) -> str:
    """An id that the same passage has wherever it stands."""
    return hashlib.sha256(f"{title}\n{text}".encode("utf-8", "replace")).hexdigest()[:16]


def write_corpus(question_set: QuestionSet, path: Path) -> None:
    """Write the passages as the JSON lines that `adaptrag index` reads; an equal file stays as it is."""
    lines = [{"id": p.id, "title": p.title, "text": p.text} for p in question_set.passages]
    data = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines).encode("utf-8", "replace")
    if not path.exists() or path.read_bytes() != data:
        replace_durably(path, data)
