"""Tables, JSON and JSON lines."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from adaptrag_cli.documents.base import Document
from adaptrag_cli.documents.builder import TextBuilder, stem
from adaptrag_cli.documents.encoding import decode, normalise_newlines, repair
from adaptrag_cli.documents.folder import Skipped, SourceFile
from adaptrag_cli.documents.text import load_code, load_plain
from adaptrag_cli.errors import DocumentError

_LONG_LINE = 2000
"""JSON with longer lines is minified: raw, a cited line would be the whole file."""
_NUMBER = re.compile(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?%?$")
_PROBED_LINES = 20


def load_table(file: SourceFile) -> Document:
    """Read CSV or TSV: each row is a paragraph of `column: value` lines, cited by the row's line in the file."""
    decoded = decode(file.path.read_bytes())
    builder = TextBuilder()
    for note in decoded.notes:
        builder.note(note)
    try:
        _write_rows(builder, decoded.text, _delimiter(file.name, decoded.text))
    except csv.Error as error:
        return _with_note(load_plain(file), f"read as plain text, since it is no table: {error}")
    return builder.build(file, stem(file.name))


def load_json(file: SourceFile) -> Document:
    """Read JSON raw, cited by lines; minified JSON becomes one `path.to.key: value` line per value."""
    raw = load_code(file)
    if max(map(len, raw.text.split("\n"))) <= _LONG_LINE:
        return raw
    try:
        content = json.loads(raw.text, strict=False)
    except (ValueError, RecursionError) as error:
        return _with_note(raw, f"read as plain text, since it is no JSON: {_json_reason(error)}")
    builder = TextBuilder()
    line = 1 if "\n" not in raw.text.strip() else 0
    for path, value in _leaves(content):
        builder.add_at(f"{path}: {value}" if path else value, line)
    return _with_note(builder.build(file, file.name), *raw.notes)


def load_jsonl(file: SourceFile) -> Iterator[Document | Skipped]:
    """Read JSON lines: an object with `text` (and `id`, `title`) is a document of its own.

    A file whose first lines hold no such object (a log, say) is one document, read raw.
    """
    if not _is_corpus(file):
        yield load_code(file)
        return
    seen: dict[str, int] = {}
    for number, data in _numbered(file):
        if not data.strip():
            continue
        try:
            document = _line_document(file, number, data)
            first = seen.setdefault(document.name, number)
            if first != number:
                raise DocumentError(f"line {number}: same id as line {first}")
            yield document
        except DocumentError as error:
            yield Skipped(document=f"{file.name}:{number}", reason=error.message)


def _line_document(file: SourceFile, number: int, data: bytes) -> Document:
    try:
        decoded = decode(data)
        content = json.loads(decoded.text, strict=False)
    except DocumentError as error:
        raise DocumentError(f"line {number}: {error.message}") from error
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"line {number}: not valid JSON: {_json_reason(error)}") from error
    if not isinstance(content, dict) or not isinstance(content.get("text"), str):
        raise DocumentError(f"line {number}: no `text`")
    text, repairs = repair(normalise_newlines(content["text"]))
    if not text.strip():
        raise DocumentError(f"line {number}: empty `text`")
    name = _identifier(content) or f"line-{number}"
    title = content.get("title")
    return Document(
        name=name if file.alone else f"{file.name}#{name}",
        source=file.name,
        title=repair(" ".join(title.split()))[0] if isinstance(title, str) else "",
        text=text,
        first_line=number,
        lines=(number,) * (text.count("\n") + 1),
        notes=(*decoded.notes, *repairs),
    )


def _identifier(content: dict[str, Any]) -> str:
    """The `id` (`_id` in BEIR's corpora) as one line of text, or nothing."""
    value = content.get("id", content.get("_id"))
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return repair(" ".join(str(value).split()))[0]


def _is_corpus(file: SourceFile) -> bool:
    for _, data in islice(_numbered(file), _PROBED_LINES):
        try:
            content = json.loads(decode(data).text, strict=False)
        except (DocumentError, ValueError, RecursionError):
            continue
        if isinstance(content, dict) and isinstance(content.get("text"), str):
            return True
    return False


def _numbered(file: SourceFile) -> Iterator[tuple[int, bytes]]:
    """Lines and their numbers, read one by one: a corpus can be larger than memory."""
    with file.path.open("rb") as stream:
        if stream.read(2) in {b"\xff\xfe", b"\xfe\xff"}:  # UTF-16 has to be read whole
            stream.seek(0)
            lines: Iterator[bytes] = iter(decode(stream.read()).text.encode().splitlines(keepends=True))
        else:
            stream.seek(0)
            lines = iter(stream)
        yield from enumerate(lines, start=1)


def _write_rows(builder: TextBuilder, text: str, delimiter: str) -> None:
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=False)
    header: list[str] | None = None
    line = 1
    for row in rows:
        start, line = line, rows.line_num + 1
        cells = [" ".join(cell.split()) for cell in row]
        if not any(cells):
            continue
        if header is None:
            header = cells if _is_header(cells) else []
            if header:
                builder.add_at(f"Columns: {', '.join(cells)}", start)
                builder.blank()
                continue
        for i, cell in enumerate(cells):
            column = header[i] if i < len(header) and header[i] else f"column {i + 1}"
            if cell:
                builder.add_at(f"{column}: {cell}", start)
        builder.blank()


def _is_header(cells: list[str]) -> bool:
    """Names of columns are distinct and no numbers."""
    named = [cell for cell in cells if cell]
    return len(set(named)) == len(named) > 0 and not any(_NUMBER.match(cell) for cell in named)


def _delimiter(name: str, text: str) -> str:
    if name.lower().endswith(".tsv"):
        return "\t"
    try:
        return csv.Sniffer().sniff(text[:8192], delimiters=",;\t|").delimiter
    except csv.Error:
        return ","


def _leaves(content: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Paths and values of a JSON document, in its order."""
    if isinstance(content, dict | list):
        items = content.items() if isinstance(content, dict) else enumerate(content)
        for key, value in items:
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif content is not None:
        yield path, content if isinstance(content, str) else json.dumps(content)


def _json_reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.removesuffix(' at')} at column {error.colno}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _with_note(document: Document, *notes: str) -> Document:
    return replace(document, notes=(*document.notes, *notes))
