"""Read one file: suffix to loader, every failure to a reason."""

from __future__ import annotations

import importlib
import stat
from collections.abc import Iterable, Iterator
from typing import cast

from adaptrag_cli.documents.base import Document, TransientDocumentError
from adaptrag_cli.documents.folder import Skipped, SourceFile
from adaptrag_cli.documents.formats import SUPPORTED_SUFFIXES, Format, format_of
from adaptrag_cli.errors import DocumentError

__all__ = ["LOADER_VERSION", "MAX_BYTES", "SUPPORTED_SUFFIXES", "load"]

LOADER_VERSION = 1
"""Raise it whenever a file can give another text, place or reason: unchanged files are then read again."""
MAX_BYTES = 256 * 1024 * 1024
"""Largest file that is read; JSON lines are streamed and may be larger."""


def load(file: SourceFile, *, timeout: float = 60.0) -> Iterator[Document | Skipped]:
    """Read the documents of a file; whatever cannot be read comes as `Skipped` with its reason, never as an error.

    `timeout` is for parsers that run in a child process, in seconds.
    """
    form = format_of(file.path.name)
    try:
        if form is None:
            raise DocumentError("unsupported format")
        _check(file, form)
        for item in _run(form, file, timeout):
            if isinstance(item, Document) and not item.text.strip():
                raise DocumentError("no text")
            yield item
    except DocumentError as error:
        transient = isinstance(error, TransientDocumentError)
        yield Skipped(document=file.name, reason=error.message, transient=transient)
    except OSError as error:
        yield Skipped(document=file.name, reason=f"cannot be read: {error.strerror or error}", transient=True)
    except RecursionError:
        yield Skipped(document=file.name, reason="nested too deeply")
    except MemoryError:
        yield Skipped(document=file.name, reason="needs too much memory", transient=True)


def _check(file: SourceFile, form: Format) -> None:
    status = file.path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise TransientDocumentError("no longer a regular file")
    if status.st_size == 0:
        raise DocumentError("empty file")
    if status.st_size > MAX_BYTES and not form.many:
        raise DocumentError(f"larger than {MAX_BYTES >> 20} MiB")


def _run(form: Format, file: SourceFile, timeout: float) -> Iterable[Document | Skipped]:
    if form.isolated:
        from adaptrag_cli.documents.isolation import shared_process

        return (shared_process(timeout).load(form.loader, file),)
    module, function = form.loader.split(":")
    loaded = getattr(importlib.import_module(module), function)(file)
    return cast("Iterable[Document | Skipped]", loaded) if form.many else (cast("Document", loaded),)
