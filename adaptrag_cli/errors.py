"""The exception tree and the one exit-code table.

    AdaptRAGError               1  the run failed
    ├── ConfigError             2  a setting, flag or file the user wrote is wrong
    │   ├── UnknownName         2  a name that no table holds (lists the right ones)
    │   └── QueryTooLong        2  the question leaves no room for an answer
    ├── DocumentError           1  one document could not be read (a line in the report, never a lost run)
    ├── IndexUnusable           3  the index cannot be used
    │   ├── IndexNotFound       3
    │   ├── IndexStale          3  made with another encoder, chunker or format
    │   ├── IndexCorrupt        3  a checksum or a size is wrong
    │   └── IndexBusy           3  another process is writing it
    ├── ModelError              4  the model cannot be used
    │   ├── ModelNotFound       4
    │   ├── DownloadError       4
    │   ├── LogitsUndefined     4  it computed what is no number
    │   └── MissingCapability   4  the strategy needs what the model cannot give
    └── RunCancelled          130  the person stopped it

A message says what and where; a hint says which command mends it. Both are one line of plain text.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from enum import IntEnum


class ExitCode(IntEnum):
    """What the process returns. Documented in `adaptrag --help` and the README."""

    OK = 0
    RUN_FAILED = 1
    USAGE = 2
    INDEX = 3
    MODEL = 4
    INTERRUPTED = 130


class AdaptRAGError(Exception):
    """An expected failure, told to the user in one line."""

    exit_code: ExitCode = ExitCode.RUN_FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigError(AdaptRAGError):
    """A setting, flag or file that the user wrote is wrong."""

    exit_code = ExitCode.USAGE


class UnknownName(ConfigError):
    """A name that no table holds."""

    def __init__(self, what: str, name: str, known: Iterable[str], hint: str = "") -> None:
        names = sorted(known)
        # Somebody who writes `k` means `top_k`.
        near = get_close_matches(name, names, n=1) or [known for known in names if name in known.split("_")]
        guess = f"; did you mean {near[0]!r}?" if near else ""
        super().__init__(f"unknown {what} {name!r}{guess}", hint or f"known: {', '.join(names) or 'none yet'}")


class QueryTooLong(ConfigError):
    """The question leaves no room in the context window for an answer."""


class DocumentError(AdaptRAGError):
    """One document could not be read. The message is the reason that stands in the index report."""


class IndexUnusable(AdaptRAGError):
    """The index cannot be used."""

    exit_code = ExitCode.INDEX


class IndexNotFound(IndexUnusable):
    """No index of that name, or none at all."""


class IndexStale(IndexUnusable):
    """The index was made with another encoder, chunker or format."""


class IndexCorrupt(IndexUnusable):
    """A file of the index is missing or fails its checksum."""


class IndexBusy(IndexUnusable):
    """Another process is writing the index."""


class ModelError(AdaptRAGError):
    """The model cannot be used."""

    exit_code = ExitCode.MODEL


class LogitsUndefined(ModelError):
    """The model computed logits that are no numbers, so there is no next token."""


class ModelNotFound(ModelError):
    """The model's file is not on this machine."""


class DownloadError(ModelError):
    """No source delivered the model's file."""


class MissingCapability(ModelError):
    """A strategy needs what the model cannot give."""


class RunCancelled(AdaptRAGError):
    """The person stopped the run."""

    exit_code = ExitCode.INTERRUPTED
