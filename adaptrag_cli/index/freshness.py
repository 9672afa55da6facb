"""Compare an index with what is on disk now, before a question is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from adaptrag_cli.documents.base import Document
from adaptrag_cli.documents.folder import SourceFile, scan
from adaptrag_cli.documents.formats import format_of
from adaptrag_cli.documents.loaders import load
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.index.generation import StoredDocument, StoredSource, document_digest
from adaptrag_cli.index.manifest import FileStamp, Manifest
from adaptrag_cli.index.store import Freshness


def compare_with_disk(manifest: Manifest, catalogue: Callable[[], Sequence[StoredSource]], *, avoid: Path) -> Freshness:
    """Compare names, sizes and times of files; `avoid` is the folder of indexes. Reads only corpora that have changed.

    Raises:
        IndexCorrupt: a corpus has changed and the catalogue is damaged.
    """
    selection = manifest.selection
    try:
        found = scan(
            Path(manifest.path),
            include=selection.include,
            exclude=selection.exclude,
            use_gitignore=selection.use_gitignore,
            avoid=(avoid,),
        )
    except ConfigError:
        return Freshness(root_missing=True)
    files = {file.name: file for file in found.files}
    then = manifest.files
    changed = {name: files[name] for name in then if name in files and _stamp(files[name]) != then[name]}
    return Freshness(
        changed=tuple(changed),
        deleted=tuple(name for name in then if name not in files),
        added=tuple(name for name in files if name not in then),
        deleted_documents=tuple(_gone_from_corpora(changed, catalogue)),
    )


def _stamp(file: SourceFile) -> FileStamp:
    return FileStamp(size=file.size, mtime_ns=file.mtime_ns)


def _gone_from_corpora(
    changed: Mapping[str, SourceFile], catalogue: Callable[[], Sequence[StoredSource]]
) -> Iterator[str]:
    """Names of documents that no longer stand in their file, of which other documents may still be quoted."""
    corpora = {name for name, file in changed.items() if (form := format_of(file.path.name)) and form.many}
    for source in catalogue() if corpora else ():
        if source.name in corpora:
            yield from _gone_from(changed[source.name], source.documents)


def _gone_from(corpus: SourceFile, then: Sequence[StoredDocument]) -> Iterator[str]:
    has_lines = any(_is_named_by_line(document) for document in then)
    ids: set[str] = set()
    digests: set[str] = set()
    for item in load(corpus):
        if isinstance(item, Document):
            ids.add(item.name)
            if has_lines:
                digests.add(document_digest(item))
        elif item.transient:  # cut short: what was not reached is not gone
            return
    for document in then:
        # A line without an id is named by its number, which another line takes over when one above it is removed.
        is_there = document.digest in digests if _is_named_by_line(document) else document.id in ids
        if not is_there:
            yield document.name


def _is_named_by_line(document: StoredDocument) -> bool:
    name = f"line-{document.first_line}"
    return document.id == name or document.id.endswith(f"#{name}")
