"""What a reader of a question file is given, and what it gathers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adaptrag_cli.documents.encoding import repair
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.questions import Passage, Question, passage_id
from adaptrag_cli.events import Scalar


class Malformed(Exception):
    """A record lacks what its format promises; the message says what."""


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """A file after its syntax was read."""

    path: Path
    document: Any
    """The whole JSON value; None for lines and tables."""
    records: tuple[Mapping[str, Any], ...]
    """The records of a list, of JSON lines or of a table; a single object stands alone."""

    lines: tuple[int, ...] = ()
    """The line of each record; empty where they are not lines."""

    @property
    def first(self) -> Mapping[str, Any]:
        """The first record; empty where there is none."""
        return self.records[0] if self.records else {}


@dataclass(kw_only=True)
class Collected:
    """Questions and passages as a reader finds them; equal passages are kept once."""

    questions: list[Question] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    """How many questions were left out, by reason."""
    notes: list[str] = field(default_factory=list)
    companions: list[bytes] = field(default_factory=list)
    """Files that were read beside the question file: they belong to the set's fingerprint."""
    _passages: dict[str, Passage] = field(default_factory=dict)

    @property
    def passages(self) -> tuple[Passage, ...]:
        return tuple(self._passages.values())

    @property
    def seen(self) -> int:
        """How many questions were read so far."""
        return len(self.questions) + sum(self.skipped.values())

    def passage(self, title: str, text: str) -> str:
        """Keep a passage and return its id; a blank one is not kept and has none."""
        title, text = repair(title.strip())[0], repair(text.strip())[0]
        if not text:
            return ""
        key = passage_id(title, text)
        self._passages.setdefault(key, Passage(id=key, title=title, text=text))
        return key

    def skip(self, reason: str) -> None:
        """Count a question that is left out."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def companion(self, path: Path) -> str | None:
        """Read a file that belongs to the question file; None where it does not exist.

        Raises:
            ConfigError: it cannot be read or is not UTF-8.
        """
        if not path.is_file():
            return None
        try:
            data = path.read_bytes()
            text = data.decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: cannot be read as UTF-8: {error}", "fetch it again, or move it away") from error
        self.companions.append(data)
        return text


@dataclass(frozen=True, kw_only=True)
class Format:
    """One official format."""

    name: str
    sniff: Callable[[Parsed], bool]
    """Whether the content is of this format."""
    read: Callable[[Parsed, Collected], None]


def text_of(record: Mapping[str, Any], key: str) -> str:
    """A field that must be a text.

    Raises:
        Malformed: it is missing or something else.
    """
    value = record.get(key)
    if not isinstance(value, str):
        raise Malformed(f"{key!r} is not a text")
    return value


def list_of(record: Mapping[str, Any], key: str) -> list[Any]:
    """A field that must be a list.

    Raises:
        Malformed: it is missing or something else.
    """
    value = record.get(key)
    if not isinstance(value, list):
        raise Malformed(f"{key!r} is not a list")
    return value


def texts_of(record: Mapping[str, Any], key: str) -> list[str]:
    """A field that must be a list of texts.

    Raises:
        Malformed: it is missing or something else.
    """
    values = list_of(record, key)
    if not all(isinstance(value, str) for value in values):
        raise Malformed(f"{key!r} holds something that is not a text")
    return values


def optional_texts(record: Mapping[str, Any], key: str) -> list[str]:
    """A field that may be missing or null, one text, or a list of texts.

    Raises:
        Malformed: it is something else.
    """
    value = record.get(key)
    if value is None:
        return []
    return [value] if isinstance(value, str) else texts_of(record, key)


def plain_facts(record: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Scalar]:
    """The named fields that are plain values, without blanks."""
    found = {key: record.get(key) for key in keys}
    return {
        key: repair(value)[0] if isinstance(value, str) else value
        for key, value in found.items()
        if isinstance(value, str | int | float | bool) and value != ""
    }


def distinct(values: Iterable[str]) -> tuple[str, ...]:
    """Stripped, without blanks and repeats, in order."""
    return tuple(dict.fromkeys(value.strip() for value in values if value.strip()))
