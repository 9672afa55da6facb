"""Part the rows by question into what is trained on, what stops the training, and what is held out; balance each.

The two texts of a question never stand on both sides, nor do equal questions of two files. What stops the training is
no part of what is held out: figures on rows that weights were chosen by would flatter (the paper does not say which it
chose by).
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.probing.rows import Row, RowData
from adaptrag_cli.probing.prober import ProberKind

MIN_OF_EACH = 20
"""Rows with a right answer, and rows with a wrong one, that a prober needs at least."""
_MIN_IN_PART = 2
_PATTERN = "tthtsttthtsttthtsthh"
"""Train, stop, held out: 60, 15 and 25 % of the questions of each kind, dealt out in this order."""
_CURVE = (8, 4, 2, 1)
"""The training-size curve trains on a part of this number of the rows."""
_MIN_ON_CURVE = 16


@dataclass(frozen=True, kw_only=True)
class Part:
    """Numbers of rows, ascending."""

    rows: tuple[int, ...]
    """As many right as wrong."""
    all_rows: tuple[int, ...]
    """Those that were left out for that, too."""
    questions: int


@dataclass(frozen=True, kw_only=True)
class Split:
    """The rows with states, in three parts of different questions."""

    train: Part
    stop: Part
    held_out: Part
    without_states: int
    """Rows that the model gave no state for, as where it wrote a single token."""
    not_finite: int
    """Rows whose states are no numbers."""


def require_questions(count: int, kind: ProberKind) -> None:
    """Refuse before anything is written what cannot give enough texts.

    Raises:
        ConfigError: saying how many questions are needed.
    """
    needed = 2 * MIN_OF_EACH // (2 if kind == "answer" else 1)
    if count < needed:
        raise ConfigError(
            f"{count} question{'' if count == 1 else 's'} cannot train a prober: at least {needed} are needed",
            "give more --data or a larger --limit; some hundreds make a prober worth having",
        )


def question_of(data: RowData) -> tuple[str, ...]:
    """What each row's question is known by: the digest of its text."""
    digests = {
        (info.name, question): digest
        for info in data.manifest.sets
        for question, digest in zip(info.questions, info.digests, strict=True)
    }
    return tuple(digests[row.set, row.question_id] for row in data.rows)


def split_rows(data: RowData, *, seed: int) -> Split:
    """Split and balance; the same for the same rows and seed.

    Raises:
        ConfigError: there are too few rows of a kind.
    """
    has_states = [row.record is not None for row in data.rows]
    finite = [bool(np.isfinite(states).all()) for states in data.states]
    usable = [number for number in range(len(data.rows)) if has_states[number] and finite[number]]
    _require_enough(data.rows, usable)
    questions = question_of(data)
    kinds = _parts_of(data.rows, usable, questions, seed)
    generator = random.Random(f"{seed}:balance")
    parts = {}
    for kind in "tsh":
        rows = [number for number in usable if kinds[questions[number]] == kind]
        parts[kind] = Part(
            rows=_balanced(data.rows, rows, generator),
            all_rows=tuple(rows),
            questions=len({questions[number] for number in rows}),
        )
    least = min(len(part.rows) // 2 for part in parts.values())
    if least < _MIN_IN_PART:
        raise ConfigError(
            f"{len(usable)} rows cannot be parted so that each part has right and wrong ones", _more(data.rows, usable)
        )
    return Split(
        train=parts["t"],
        stop=parts["s"],
        held_out=parts["h"],
        without_states=has_states.count(False),
        not_finite=sum(has_states) - len(usable),
    )


def curve_subsets(data: RowData, train: Sequence[int], *, seed: int) -> tuple[tuple[int, ...], ...]:
    """Ever larger parts of the training rows, each within the next, as many right as wrong; the last one is all."""
    generator = random.Random(f"{seed}:curve")
    by_label = [[number for number in train if data.rows[number].right == label] for label in (False, True)]
    for numbers in by_label:
        generator.shuffle(numbers)
    half = len(train) // 2
    sizes = [half // part for part in _CURVE if 2 * (half // part) >= _MIN_ON_CURVE or part == 1]
    return tuple(tuple(sorted(by_label[0][:size] + by_label[1][:size])) for size in sizes)


def _parts_of(rows: Sequence[Row], usable: Sequence[int], questions: Sequence[str], seed: int) -> dict[str, str]:
    """The part of each question: shuffled, sorted by which of its texts are right, and dealt out in turn."""
    rights: dict[str, list[bool]] = defaultdict(list)
    for number in usable:
        rights[questions[number]].append(rows[number].right)
    order = sorted(rights)
    random.Random(f"{seed}:split").shuffle(order)
    order.sort(key=lambda question: rights[question])
    return {question: _PATTERN[number % len(_PATTERN)] for number, question in enumerate(order)}


def _balanced(rows: Sequence[Row], numbers: Sequence[int], generator: random.Random) -> tuple[int, ...]:
    """Leave out as many of the more frequent label as there are too many."""
    by_label = {label: [number for number in numbers if rows[number].right == label] for label in (False, True)}
    size = min(map(len, by_label.values()))
    return tuple(sorted(n for found in by_label.values() for n in generator.sample(found, size)))


def _require_enough(rows: Sequence[Row], usable: Sequence[int]) -> None:
    counts = Counter(rows[number].right for number in usable)
    if not usable:
        raise ConfigError(
            "no row has states that are numbers",
            "adaptrag doctor says whether this model can be looked into; else choose another --model",
        )
    if not counts[True] or not counts[False]:
        what, other = ("right", "harder") if counts[True] else ("wrong", "easier")
        raise ConfigError(
            f"all {len(usable)} texts that the model wrote are {what}, and a prober learns from both kinds",
            f"go on with --resume and more questions, {other} ones, or begin anew with an index that tells the answers",
        )
    if min(counts.values()) < MIN_OF_EACH:
        raise ConfigError(
            f"{counts[True]} right and {counts[False]} wrong texts are too few: {MIN_OF_EACH} of each are needed",
            _more(rows, usable),
        )


def _more(rows: Sequence[Row], usable: Sequence[int]) -> str:
    right = sum(rows[number].right for number in usable)
    kind = "easier ones among them" if right * 2 < len(usable) else "harder ones among them"
    return f"go on with --resume and more --data or a larger --limit, with {kind}; some hundreds of questions are good"
