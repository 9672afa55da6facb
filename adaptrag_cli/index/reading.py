"""The first half of a build: read what changed, take over the rest, and write the rows in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from adaptrag_cli.disk import sha256_of
from adaptrag_cli.documents.base import Document
from adaptrag_cli.documents.chunking import Chunker
from adaptrag_cli.documents.folder import Scan, Skipped, SourceFile
from adaptrag_cli.documents.loaders import load
from adaptrag_cli.index.embedding_log import text_key
from adaptrag_cli.index.generation import GenerationWriter, StoredDocument, StoredSource, document_digest
from adaptrag_cli.index.manifest import UnreadFile
from adaptrag_cli.index.previous import DocumentKey, Previous, keyed
from adaptrag_cli.index.tokeniser import tokenise


@dataclass(frozen=True, kw_only=True)
class HashedFile:
    """A file and the hash of its bytes, taken first: if it changes while it is read, the next run reads it again."""

    file: SourceFile
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Repaired:
    """A document that is indexed, but not as it stands in its file, and what was done to it."""

    document: str
    reason: str


@dataclass(kw_only=True)
class Tally:
    """What the report counts."""

    indexed: int = 0
    unchanged: int = 0
    removed: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    repaired: list[Repaired] = field(default_factory=list)
    unread: dict[str, UnreadFile] = field(default_factory=dict)
    """Files that gave no document and will give none while they are unchanged."""

    def tell(self, source: StoredSource) -> None:
        """Count what was said of a file when it was read."""
        self.skipped += [Skipped(document=name, reason=reason) for name, reason in source.skipped]
        self.repaired += [Repaired(document=name, reason=reason) for name, reason in source.repaired]


@dataclass(frozen=True, kw_only=True)
class MissingText:
    """A text that has no vector yet."""

    row: int
    characters: int


def hash_files(scan: Scan, tally: Tally, on_file: Callable[[], None]) -> list[HashedFile]:
    """Hash every file; one that cannot be read is skipped."""
    found = []
    for file in scan.files:
        on_file()
        try:
            found.append(HashedFile(file=file, sha256=sha256_of(file.path)))
        except OSError as error:
            reason = f"cannot be read: {error.strerror or type(error).__name__}"
            tally.skipped.append(Skipped(document=file.name, reason=reason))
    return found


def is_unchanged(files: list[HashedFile], previous: Previous, tally: Tally) -> bool:
    """Whether the rows would come out the same. Fills the tally if so.

    A file without documents is tried again if it has changed, or if what kept it from being read may be gone.
    """
    reused = [previous.source(file.file.name, file.sha256) for file in files]
    if sum(source is not None for source in reused) != len(previous.sources):
        return False
    skipped: list[Skipped] = []
    for file, source in zip(files, reused, strict=True):
        if source is not None:
            continue
        found: list[Skipped] = []
        for item in _remembered(file, previous, tally) or load(file.file):
            if isinstance(item, Document):
                return False
            found.append(item)
        _remember(file, found, tally)
        skipped += found
    tally.unchanged = len(previous.documents)
    tally.skipped += skipped
    for source in reused:
        if source is not None:
            tally.tell(source)
    return True


def _remembered(file: HashedFile, previous: Previous | None, tally: Tally) -> list[Skipped]:
    """Why the file gave no document, if that is known and lasting."""
    found = tally.unread.get(file.file.name)  # tried in this very run
    if found is None and previous is not None:
        found = previous.unread(file.file.name, file.sha256)
    return [Skipped(document=name, reason=reason) for name, reason in found.skipped] if found is not None else []


def _remember(file: HashedFile, skipped: list[Skipped], tally: Tally) -> None:
    if not any(item.transient for item in skipped):
        reasons = tuple((item.document, item.reason) for item in skipped)
        tally.unread[file.file.name] = UnreadFile(sha256=file.sha256, skipped=reasons)


class RowReader:
    """Feeds a generation writer, file by file, and notes which texts have no vector yet."""

    def __init__(
        self,
        writer: GenerationWriter,
        *,
        chunker: Chunker,
        body_only: bool,
        previous: Previous | None,
        is_embedded: Callable[[bytes], bool],
        tally: Tally,
    ) -> None:
        self._writer = writer
        self._chunker = chunker
        self._body_only = body_only
        self._previous = previous
        self._is_embedded = is_embedded
        self._tally = tally
        self._names: set[str] = set()
        self._kept: set[DocumentKey] = set()
        self.missing: dict[bytes, MissingText] = {}

    def read(self, hashed: HashedFile, on_document: Callable[[], None]) -> None:
        """Append the rows of one file."""
        name = hashed.file.name
        source = self._previous.source(name, hashed.sha256) if self._previous else None
        if source is not None:
            self._take_over(source, on_document)
            return
        documents: list[StoredDocument] = []
        skipped: list[Skipped] = []
        repaired: list[Repaired] = []
        seen: Counter[str] = Counter()
        for item in _remembered(hashed, self._previous, self._tally) or load(hashed.file):
            on_document()
            if isinstance(item, Skipped):
                skipped.append(item)
                continue
            stored = self._document(item, (name, item.name, seen[item.name]))
            if stored is None:
                skipped.append(Skipped(document=item.name, reason="no text"))
            else:
                documents.append(stored)
                repaired += [Repaired(document=item.name, reason=note) for note in item.notes]
                seen[item.name] += 1
        self._tally.skipped += skipped
        self._tally.repaired += repaired
        if not documents:
            _remember(hashed, skipped, self._tally)
            return
        is_lasting = not any(item.transient for item in skipped)
        self._writer.sources.append(
            StoredSource(
                name=name,
                sha256=hashed.sha256 if is_lasting else "",
                documents=tuple(documents),
                skipped=tuple((s.document, s.reason) for s in skipped),
                repaired=tuple((r.document, r.reason) for r in repaired),
            )
        )

    def finish(self) -> None:
        """Count the documents of the earlier generation that are gone."""
        if self._previous is not None:
            self._tally.removed = len(self._previous.documents.keys() - self._kept)

    def _take_over(self, source: StoredSource, on_document: Callable[[], None]) -> None:
        documents = []
        for key, document in zip(keyed(source.name, (d.id for d in source.documents)), source.documents, strict=True):
            on_document()
            self._kept.add(key)
            documents.append(self._copy(document, document.first_line))
        self._tally.tell(source)
        self._writer.sources.append(replace(source, documents=tuple(documents)))

    def _copy(self, document: StoredDocument, first_line: int) -> StoredDocument:
        assert self._previous is not None, "only a row of an earlier generation is copied"
        name, row = self._unique(document.id), len(self._writer.keys)
        for chunk, key, old_row in self._previous.rows(document, name=name, first_line=first_line):
            self._writer.copy(chunk, key, old_row)
        self._tally.unchanged += 1
        return replace(document, name=name, first_line=first_line, row=row)

    def _document(self, document: Document, key: DocumentKey) -> StoredDocument | None:
        digest = document_digest(document)
        old = self._previous.document(key, digest) if self._previous else None
        if old is not None:
            self._kept.add(key)
            return self._copy(old, document.first_line)
        name, row = self._unique(document.name), len(self._writer.keys)
        for chunk in self._chunker.chunk(replace(document, name=name)):
            text = chunk.text_to_embed(body_only=self._body_only)
            chunk_key = text_key(text)
            if not self._is_embedded(chunk_key):
                self.missing.setdefault(chunk_key, MissingText(row=len(self._writer.keys), characters=len(text)))
            self._writer.add(chunk, chunk_key, tokenise(text))
        if len(self._writer.keys) == row:
            self._names.discard(name)
            return None
        self._kept.add(key)
        self._tally.indexed += 1
        return StoredDocument(
            id=document.name,
            name=name,
            digest=digest,
            first_line=document.first_line,
            row=row,
            rows=len(self._writer.keys) - row,
        )

    def _unique(self, document_id: str) -> str:
        name, number = document_id, 2
        while name in self._names:
            name, number = f"{document_id} ({number})", number + 1
        self._names.add(name)
        return name
