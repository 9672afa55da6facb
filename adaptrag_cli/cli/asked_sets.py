"""Read `--data FILE[:INDEX]`: question files, each with the index that it is asked over."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adaptrag_cli.evaluation.probing.generation import AskedSet


def read_asked(data: list[str], limit: int | None, seed: int) -> tuple[AskedSet, ...]:
    """The sampled questions of each file.

    Raises:
        ConfigError: a file cannot be read, or holds no question.
    """
    from adaptrag_cli.evaluation.formats.reading import load_questions
    from adaptrag_cli.evaluation.plan import sampled, with_unique_names
    from adaptrag_cli.evaluation.probing.generation import AskedSet

    named = [_file_and_index(text) for text in data]
    sets = with_unique_names([sampled(load_questions(path), limit, seed) for path, _ in named])
    return tuple(AskedSet(questions=s, index=index) for s, (_, index) in zip(sets, named, strict=True))


def _file_and_index(text: str) -> tuple[Path, str | None]:
    """Read `FILE:INDEX`; a file whose own name has a colon is taken as it stands."""
    path, colon, index = text.rpartition(":")
    if not colon or not path or Path(text).exists():
        return Path(text), None
    return Path(path), index
