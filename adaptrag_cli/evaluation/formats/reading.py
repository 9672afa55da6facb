"""Read a question file, whatever it is called: its content says which format it has."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from adaptrag_cli.documents.encoding import repair
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.formats import ours
from adaptrag_cli.evaluation.formats.base import Collected, Format, Malformed, Parsed, distinct
from adaptrag_cli.evaluation.questions import Question, QuestionSet
from adaptrag_cli.terminal import valid_unicode

FORMATS = (
    "two_wiki",
    "hotpotqa",
    "musique",
    "squad",
    "triviaqa",
    "webquestions",
    "popqa",
    "strategyqa",
    "iirc",
    "pubmedqa",
    "bioasq",
    "cag",
    "ours",
    "nq_open",
)
"""Modules of this package, in the order in which they look at a file: the most particular first."""
_KNOWN = (
    "known are HotpotQA, 2WikiMultihopQA, MuSiQue, SQuAD 1.1, NQ-open, TriviaQA, WebQuestions, PopQA, StrategyQA, "
    'IIRC, PubMedQA, BioASQ, CAG, and JSON lines of {"id", "question", "answers"}'
)
_OUR_LINES = 'write each question as {"question": "...", "answers": ["..."]}'
_SPLITS = frozenset({"train", "dev", "test", "validation"})
"""File names that say nothing about the set."""


def load_questions(path: Path) -> QuestionSet:
    """Read a question file of any known format, packed by gzip or not.

    Questions without text or gold answer are left out and counted in the notes. Of several questions with one id the
    later ones get a number.

    Raises:
        ConfigError: it cannot be read, is of no known format, or holds no question that can be scored.
    """
    data = _bytes_of(path)
    parsed = _parse(path, data)
    format_ = next((f for f in map(_load, FORMATS) if f.sniff(parsed)), None)
    if format_ is None or format_.name == ours.FORMAT.name:
        _require_ours(parsed)
    if format_ is None:
        raise ConfigError(f"{path}: of no known format ({_seen(parsed)})", _KNOWN)
    into = Collected()
    try:
        format_.read(parsed, into)
    # Besides what readers check themselves, a foreign file can be wrong at any depth.
    except (Malformed, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ConfigError(
            f"{path}: looks like {format_.name}, but not at question {into.seen + 1}: {what}",
            "compare it with the official file, or fetch it again",
        ) from error
    questions, notes = _scorable(into)
    if not questions:
        reasons = f" ({'; '.join(notes)})" if notes else ""
        raise ConfigError(
            f"{path}: holds no question that can be scored{reasons}",
            "give a file with gold answers; test files are often published without",
        )
    digest = hashlib.sha256(data)
    for companion in into.companions:
        digest.update(companion)
    return QuestionSet(
        name=_name(path, format_),
        format=format_.name,
        source=path,
        fingerprint=digest.hexdigest(),
        questions=questions,
        passages=into.passages,
        notes=notes,
    )


def _require_ours(parsed: Parsed) -> None:
    """Say where a file that looks like our own lines is not as they are.

    Raises:
        ConfigError: naming line and field.
    """
    for number, record in enumerate(parsed.records, start=1):
        complaint = ours.complaint_of(record)
        if complaint:
            place = f"{parsed.path}:{parsed.lines[number - 1]}" if parsed.lines else f"{parsed.path}: item {number}"
            raise ConfigError(f"{place}: {complaint}", _OUR_LINES)


def _load(name: str) -> Format:
    found: Format = import_module(f"adaptrag_cli.evaluation.formats.{name}").FORMAT
    return found


def _name(path: Path, format_: Format) -> str:
    name = valid_unicode(path.name).removesuffix(".gz")
    for suffix in (".questions.jsonl", ".jsonl", ".json", ".tsv", ".csv"):
        name = name.removesuffix(suffix)
    return f"{format_.name}-{name}" if name.lower() in _SPLITS else name


def _bytes_of(path: Path) -> bytes:
    if not path.exists():
        raise ConfigError(f"there is no file {path}", "check the path")
    if not path.is_file():
        raise ConfigError(f"{path} is a folder, not a file", "give one question file, or several")
    try:
        data = path.read_bytes()
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path}: cannot be read: {error}", "check the file, or fetch it again") from error
    if not data.strip():
        raise ConfigError(f"{path} is empty", "give a file with questions")
    return data


def _parse(path: Path, data: bytes) -> Parsed:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}: not UTF-8", "give JSON, JSON lines, CSV or TSV in UTF-8") from error
    if not text.lstrip().startswith(("{", "[")):
        return Parsed(path=path, document=None, records=_table(path, text))
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        if _is_lines(path, text):
            lines = _lines(path, text)
            return Parsed(path=path, document=None, records=tuple(lines.values()), lines=tuple(lines))
        raise _invalid(path, getattr(error, "lineno", 1), error) from error
    items = document if isinstance(document, list) else [document]
    stray = next((number for number, item in enumerate(items, start=1) if not isinstance(item, dict)), None)
    if stray is not None:
        raise ConfigError(f"{path}: item {stray} of the list is not an object", _KNOWN)
    start = (1,) if isinstance(document, dict) else ()
    return Parsed(path=path, document=document, records=tuple(items), lines=start)


def _is_lines(path: Path, text: str) -> bool:
    """Whether its name says so, or the first line that is not blank is JSON by itself."""
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        return True
    try:
        return isinstance(json.loads(text.lstrip().split("\n", 1)[0]), dict)
    except (ValueError, RecursionError):
        return False


def _lines(path: Path, text: str) -> dict[int, Mapping[str, Any]]:
    """The records by the number of their line."""
    records: dict[int, Mapping[str, Any]] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _invalid(path, number, error) from error
        if not isinstance(record, dict):
            raise ConfigError(f"{path}:{number}: not an object", "each line holds one question")
        records[number] = record
    return records


def _invalid(path: Path, line: int, error: Exception) -> ConfigError:
    reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
    return ConfigError(f"{path}:{line}: not valid JSON: {reason}", "mend the file, or fetch it again")


def _table(path: Path, text: str) -> tuple[Mapping[str, Any], ...]:
    header = text.lstrip().split("\n", 1)[0]
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline=""), delimiter="\t" if "\t" in header else ","))
    except csv.Error as error:
        raise ConfigError(f"{path}: not a table: {error}", "give JSON, JSON lines, CSV or TSV") from error
    # A row of other length than the header has the key None or values None; readers miss a field of theirs in it.
    return tuple({key: value for key, value in row.items() if key is not None and value is not None} for row in rows)


def _scorable(into: Collected) -> tuple[tuple[Question, ...], tuple[str, ...]]:
    """Leave out what cannot be scored, count it, and tell questions of the same id apart."""
    kept: list[Question] = []
    used: set[str] = set()
    repeated = 0
    for found in into.questions:
        question = replace(
            found,
            id=repair(found.id.strip())[0] or str(len(kept) + 1),
            text=repair(found.text.strip())[0],
            answers=distinct(repair(answer)[0] for answer in found.answers),
        )
        if not question.text:
            into.skip("without a question")
        elif not question.answers:
            into.skip("without a gold answer")
        else:
            unique = _unused(question.id, used)
            repeated += unique != question.id
            used.add(unique)
            kept.append(replace(question, id=unique))
    notes = [*into.notes, *(f"{count:,} left out: {reason}" for reason, count in into.skipped.items())]
    if repeated:
        notes.append(f"{repeated:,} with the id of an earlier question got a number")
    return tuple(kept), tuple(notes)


def _unused(identifier: str, used: set[str]) -> str:
    candidate, number = identifier, 1
    while candidate in used:
        number += 1
        candidate = f"{identifier}-{number}"
    return candidate


def _seen(parsed: Parsed) -> str:
    if isinstance(parsed.document, dict):
        return f"an object with {_keys(parsed.document)}"
    return f"records with {_keys(parsed.first)}" if parsed.records else "no records"


def _keys(record: Mapping[str, Any]) -> str:
    names = [repr(str(key)[:30]) for key in list(record)[:8]]
    return ", ".join([*names, *(["..."] if len(record) > 8 else [])]) or "nothing"
