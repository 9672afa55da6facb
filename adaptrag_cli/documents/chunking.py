"""Cut documents into chunks that the encoder sees whole.

Sizes are counted in the encoder's own tokens, title line and special tokens included. Sections (by headings) are packed
while they fit and belong together; what is too long is cut by semantic-text-splitter (Rust, MIT), which prefers
paragraphs to lines to sentences to words. A chunk never crosses a page or slide, so that its page is exact.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from adaptrag_cli.documents.base import Chunk, Document
from adaptrag_cli.documents.sections import Places, Section, common_path, is_bare, page_spans, sections, within
from adaptrag_cli.errors import ConfigError

if TYPE_CHECKING:
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

CHUNKER_VERSION = "1"
"""Raised whenever the same document would give other chunks."""

_TITLE_SHARE = 4  # a title may take one part in four of the window
_CHARACTERS_PER_TOKEN = 8  # a longer chunk holds giant words, each one [UNK] to the encoder whatever it says
_MIN_TOKENS = 16
_SEPARATOR = " > "
_BOUNDARIES = (re.compile(r"\n\s*"), re.compile(r"(?<=[.!?…])[)\"'”’]*\s+|(?<=[。！？])"), re.compile(r"\s+"))
"""Where an overlap may begin, best first: a line, a sentence, a word."""
_STEP = 8  # capacities are multiples of this: a splitter takes 90 ms to make, and titles differ in length


@dataclass(frozen=True, kw_only=True)
class _Group:
    """Neighbouring sections that are cut as one text."""

    sections: tuple[Section, ...]
    size: int
    """Tokens, about."""
    bare: bool
    """Nothing but headings."""
    headed: tuple[Section, ...]
    """Those with text under their heading: they decide the path."""

    @property
    def start(self) -> int:
        return self.sections[0].start

    @property
    def end(self) -> int:
        return self.sections[-1].end

    @property
    def path(self) -> tuple[str, ...]:
        return common_path(self.headed or self.sections)


def _merge(groups: Sequence[_Group]) -> _Group:
    return _Group(
        sections=tuple(s for g in groups for s in g.sections),
        size=sum(g.size for g in groups),
        bare=all(g.bare for g in groups),
        headed=tuple(s for g in groups for s in g.headed),
    )


class Chunker:
    """Cuts documents for one encoder."""

    def __init__(
        self,
        tokenizer_path: Path,
        *,
        window: int,
        chunk_tokens: int | None = None,
        overlap: int = 32,
        body_only: bool = False,
        prefix: str = "",
    ) -> None:
        """Load the tokenizer.

        `window` is the encoder's max length, special tokens included; `chunk_tokens` a smaller size of the embedded
        text; `overlap` the tokens that neighbours may share; `prefix` what the encoder puts in front of documents.

        Raises:
            ConfigError: a size that cannot be met.
        """
        from tokenizers import Tokenizer

        limit = window if chunk_tokens is None else chunk_tokens
        if limit > window:
            raise ConfigError(f"chunks of {limit} tokens exceed the encoder's window of {window}", "make them smaller")
        if limit < _MIN_TOKENS:
            raise ConfigError(f"chunks of {limit} tokens are too small", f"use {_MIN_TOKENS} or more")
        if overlap < 0:
            raise ConfigError(f"an overlap of {overlap} tokens makes no sense", "use 0 or more")
        data = tokenizer_path.read_bytes()
        self._tokenizer = Tokenizer.from_buffer(data)
        # MiniLM's file cuts at 128 tokens and pads to 128, which would hide every longer text.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._limit = limit
        self._overlap = overlap
        self._body_only = body_only
        self._prefix = prefix
        settings = (CHUNKER_VERSION, hashlib.sha256(data).hexdigest(), limit, overlap, body_only, prefix)
        self._fingerprint = f"{CHUNKER_VERSION}:{hashlib.sha256(repr(settings).encode()).hexdigest()[:16]}"
        self._splitter = lru_cache(maxsize=64)(self._new_splitter)
        self._title = lru_cache(maxsize=256)(self._new_title)

    @property
    def fingerprint(self) -> str:
        """Equal fingerprints give equal chunks."""
        return self._fingerprint

    def count(self, text: str) -> int:
        """Tokens of an embedded text, with prefix and special tokens."""
        return len(self._tokenizer.encode(self._prefix + text))

    def chunk(self, document: Document) -> tuple[Chunk, ...]:
        """Cut a document; spans are exact, in order, and cover every character that is no space."""
        places = Places(document)
        found = sections(document)
        chunks: list[Chunk] = []
        for page, start, end in page_spans(document):
            for group in self._pack(document, within(found, start, end)):
                title = self._title(document.title, group.path)
                for a, b in self._split(document, title, group.start, group.end):
                    chunks.append(places.chunk(len(chunks), title, a, b, page))
        return tuple(chunks)

    def _pack(self, document: Document, found: Sequence[Section]) -> list[_Group]:
        """Group neighbours: a bare heading with what follows it, and small sections that belong together."""
        if len(found) == 1:  # most documents of a corpus: nothing to pack, so nothing to count here
            return [_Group(sections=tuple(found), size=0, bare=False, headed=tuple(found))]
        singles = [self._group(document, section) for section in found]
        if sum(g.size for g in singles) + self._overhead(document.title) <= self._limit:
            return [_merge(singles)] if singles else []
        groups: list[_Group] = []
        for single in singles:
            if groups and (groups[-1].bare or self._belong(document, groups[-1], single)):
                groups[-1] = _merge([groups[-1], single])
            else:
                groups.append(single)
        if len(groups) > 1 and groups[-1].bare and self._have_room(document, groups[-2:]):
            groups[-2:] = [_merge(groups[-2:])]  # a heading at the end of its page
        return groups

    def _group(self, document: Document, section: Section) -> _Group:
        text = document.text[section.start : section.end]
        bare = section.level > 0 and is_bare(text)
        return _Group(sections=(section,), size=self._rough_size(text), bare=bare, headed=() if bare else (section,))

    def _belong(self, document: Document, group: _Group, single: _Group) -> bool:
        if single.bare:
            return False  # it heads what follows, not what stands before it
        deeper = single.sections[0].level > group.sections[0].level
        return (deeper or 2 * group.size < self._limit) and self._have_room(document, [group, single])

    def _have_room(self, document: Document, groups: Sequence[_Group]) -> bool:
        title = self._title(document.title, _merge(groups).path)
        return sum(g.size for g in groups) + self._overhead(title) <= self._limit

    def _split(self, document: Document, title: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Cut one span into pieces that fit beside the title, each reaching back into the one before."""
        text = document.text[start:end]
        if self._fits(title, text):
            pieces = [(0, len(text))]
        else:
            room = self._limit - self._overhead(title)
            overlap = min(self._overlap, room // 2)
            pieces = list(self._cut(text, title, _rounded(room - overlap), document.format == "markdown"))
            starts = [self._reach_back(document, text, title, p, q, overlap) for p, q in pairwise(pieces)]
            pieces = [pieces[0], *zip(starts, (b for _, b in pieces[1:]), strict=True)]
        for a, b in pieces:
            a, b = _trim(document.text, start + a, start + b)
            if a < b:
                yield a, b

    def _cut(self, text: str, title: str, capacity: int, markdown: bool) -> Iterator[tuple[int, int]]:
        """Tile the text with pieces that fit."""
        for start, piece in self._splitter(capacity, markdown).chunk_indices(text):
            if self._fits(title, piece):
                yield start, start + len(piece)
                continue
            # Giant words, or a tokenizer that counts parts differently from the whole.
            smaller = _rounded(capacity // 2)
            for a, b in _slices(piece, self._longest if len(piece) > self._longest else len(piece) // 2):
                for x, y in self._cut(piece[a:b], title, smaller, markdown):
                    yield start + a + x, start + a + y

    def _reach_back(
        self, document: Document, text: str, title: str, before: tuple[int, int], piece: tuple[int, int], overlap: int
    ) -> int:
        """Where a piece starts that repeats the end of the one before it: at a line, a sentence or (prose) a word."""
        tail_start = max(before[0], before[1] - overlap * _CHARACTERS_PER_TOKEN)
        tail = text[tail_start : before[1]]
        offsets = self._tokenizer.encode(tail, add_special_tokens=False).offsets
        if not overlap or not offsets:
            return piece[0]
        earliest = offsets[-overlap][0] if len(offsets) > overlap else 0
        if tail_start == before[0] and earliest == 0:
            earliest = 1  # never the whole piece again
        for boundary in _BOUNDARIES[: 1 if document.format == "code" else None]:
            for match in boundary.finditer(tail, earliest):
                start = tail_start + match.end()
                if start < piece[0] and self._fits(title, text[start : piece[1]]):
                    return start
        return piece[0]

    @property
    def _longest(self) -> int:
        return self._limit * _CHARACTERS_PER_TOKEN

    def _fits(self, title: str, text: str) -> bool:
        if len(text) > self._longest:
            return False
        embedded = text if self._body_only or not title else f"{title}\n{text}"
        return self.count(embedded) <= self._limit

    def _overhead(self, title: str) -> int:
        """Tokens of an embedded text that are not the chunk's own."""
        return self.count("" if self._body_only or not title else f"{title}\n")

    def _rough_size(self, text: str) -> int:
        """Tokens of a text without special ones; more than fit when it is long."""
        if len(text) > self._longest:
            return self._limit + 1
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def _new_splitter(self, capacity: int, markdown: bool) -> MarkdownSplitter | TextSplitter:
        from semantic_text_splitter import MarkdownSplitter, TextSplitter

        kind = MarkdownSplitter if markdown else TextSplitter
        return kind.from_huggingface_tokenizer(self._tokenizer, capacity, trim=False)

    def _new_title(self, title: str, path: tuple[str, ...]) -> str:
        """Join document title and heading path; drop middle parts, then cut, until it leaves room for the text."""
        parts = [p for p in (title, *path) if p]
        if len(parts) > 1 and parts[0].casefold().startswith(parts[1].casefold()):
            del parts[1]
        room = self._limit // _TITLE_SHARE
        while len(parts) > 2 and self._rough_size(_SEPARATOR.join(parts)) > room:
            del parts[1]
        joined = _SEPARATOR.join(parts)[: room * _CHARACTERS_PER_TOKEN]
        offsets = self._tokenizer.encode(joined, add_special_tokens=False).offsets
        return joined if len(offsets) <= room else joined[: offsets[room - 1][0]].rstrip() + "…"


def _rounded(capacity: int) -> int:
    return max(capacity // _STEP * _STEP, 1)


def _slices(text: str, length: int) -> Iterator[tuple[int, int]]:
    """Tile a text with slices of at most `length` characters, cut at a space where one is near."""
    start, length = 0, max(length, 1)
    while len(text) - start > length:
        space = text.rfind(" ", start + length // 2, start + length)
        end = space + 1 if space > start else start + length
        yield start, end
        start = end
    yield start, len(text)


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Drop spaces around a span, but keep the indentation of its first line."""
    body = text[start:end]
    end = start + len(body.rstrip())
    first = start + len(body) - len(body.lstrip())
    line = text.rfind("\n", 0, first) + 1
    indented = start <= line < first < end and not text[line:first].strip()
    return (line if indented else first), end
