"""Build or update an index: incremental, atomic, resumable.

Unchanged files are recognised by the hash of their bytes, unchanged documents by the hash of their content, texts that
have a vector by the hash of the text; each saves the work of the step it stands for. A generation that is built from
old and new rows equals, file for file, one that is built from nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from adaptrag_cli import __version__
from adaptrag_cli.documents.chunking import Chunker
from adaptrag_cli.documents.folder import Scan, Skipped, scan
from adaptrag_cli.documents.loaders import LOADER_VERSION
from adaptrag_cli.errors import ConfigError, IndexCorrupt, IndexNotFound, IndexStale, ModelError, RunCancelled
from adaptrag_cli.index.durable import writing_to
from adaptrag_cli.index.embedding_log import EmbeddingLog
from adaptrag_cli.index.generation import (
    GenerationWriter,
    next_generation,
    publish,
    remove_leftovers,
    republish,
)
from adaptrag_cli.index.home import index_folder, prepare_folder
from adaptrag_cli.index.local import LocalStore, open_current
from adaptrag_cli.index.lock import writer_lock
from adaptrag_cli.index.manifest import (
    GENERATIONS,
    FileStamp,
    Manifest,
    Recipe,
    Selection,
    content_fingerprint,
    read_current,
)
from adaptrag_cli.index.previous import Previous
from adaptrag_cli.index.reading import HashedFile, MissingText, Repaired, RowReader, Tally, hash_files, is_unchanged
from adaptrag_cli.index.sparse import StatisticsBuilder
from adaptrag_cli.index.tokeniser import TOKENISER_VERSION
from adaptrag_cli.models.base import Encoder, EncoderFingerprint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Stage = Literal["checking", "reading", "embedding", "writing"]

EMBED_BLOCK = 64
"""Texts per append to the log: what an interrupted run loses at most."""


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """How documents are chosen and cut."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    use_gitignore: bool = True
    chunk_tokens: int | None = None
    """None means as much as the encoder's window holds."""
    overlap: int = 32
    body_only: bool = False
    rebuild: bool = False
    """Take nothing over from the index that answers."""


@dataclass(frozen=True, kw_only=True)
class BuildProgress:
    """How far a build is."""

    stage: Stage
    files_done: int = 0
    files_total: int = 0
    documents: int = 0
    chunks: int = 0
    """Rows so far."""
    chunks_embedded: int = 0
    chunks_to_embed: int = 0
    characters_embedded: int = 0
    """Of the texts; a better measure of the time to come than their number."""
    characters_to_embed: int = 0


@dataclass(frozen=True, kw_only=True)
class IndexReport:
    """What a build did. Every field but `notes` stands in the JSON."""

    name: str
    path: str
    files_seen: int
    documents_seen: int
    """Indexed, unchanged and skipped ones. A JSONL line is a document, a skipped file or folder counts as one."""
    documents_indexed: int
    documents_unchanged: int
    documents_removed: int
    documents_skipped: tuple[Skipped, ...]
    chunks: int
    chunks_embedded: int
    seconds: float
    documents_repaired: tuple[Repaired, ...] = ()
    """Indexed all the same; a document may be told more than once."""
    notes: tuple[str, ...] = ()
    """Why more was done than the documents ask for."""

    def as_json(self) -> dict[str, Any]:
        """The report as `--json` prints it."""
        return {
            "name": self.name,
            "path": self.path,
            "files_seen": self.files_seen,
            "documents_seen": self.documents_seen,
            "documents_indexed": self.documents_indexed,
            "documents_unchanged": self.documents_unchanged,
            "documents_removed": self.documents_removed,
            "documents_skipped": [{"document": s.document, "reason": s.reason} for s in self.documents_skipped],
            "documents_repaired": [{"document": r.document, "reason": r.reason} for r in self.documents_repaired],
            "chunks": self.chunks,
            "chunks_embedded": self.chunks_embedded,
            "seconds": round(self.seconds, 3),
        }


def build_index(
    path: Path,
    *,
    name: str,
    index_dir: Path,
    encoder: Encoder,
    options: BuildOptions,
    on_progress: Callable[[BuildProgress], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> IndexReport:
    """Bring the index `name` up to date with `path`. The old generation answers until the new one is complete.

    The encoder computes nothing unless a text without a vector is found.

    Raises:
        ConfigError: the path, the name or a size is wrong.
        IndexBusy: another process is writing this index.
        RunCancelled: `should_stop` said so, or Ctrl-C; what is embedded is kept for the next run.
        AdaptRAGError: the disk is full or the folder is not writable.
    """
    started = time.monotonic()
    folder = index_folder(index_dir, name)
    build = _Build(path.resolve(), folder, encoder, options, on_progress, should_stop)
    with writing_to(index_dir):
        prepare_folder(folder)
    with writer_lock(index_dir, name):
        try:
            report = build.run()
        except KeyboardInterrupt as error:
            raise build.stopped() from error
    return replace(report, seconds=time.monotonic() - started)


class _Build:
    def __init__(
        self,
        path: Path,
        folder: Path,
        encoder: Encoder,
        options: BuildOptions,
        on_progress: Callable[[BuildProgress], None],
        should_stop: Callable[[], bool],
    ) -> None:
        self._path = path
        self._folder = folder
        self._encoder = encoder
        self._options = options
        self._on_progress = on_progress
        self._should_stop = should_stop
        self._progress = BuildProgress(stage="checking")
        self._tally = Tally()
        self._notes: list[str] = []
        fingerprint = encoder.fingerprint
        self._chunker = Chunker(
            encoder.tokenizer_path,
            window=fingerprint.max_length,
            chunk_tokens=options.chunk_tokens,
            overlap=options.overlap,
            body_only=options.body_only,
            prefix=fingerprint.document_prefix,
        )
        self._recipe = Recipe(
            encoder=fingerprint,
            chunker=self._chunker.fingerprint,
            chunk_tokens=options.chunk_tokens,
            overlap=options.overlap,
            body_only=options.body_only,
            tokeniser_version=TOKENISER_VERSION,
            loader_version=LOADER_VERSION,
        )
        self._scan = scan(
            path,
            include=options.include,
            exclude=options.exclude,
            use_gitignore=options.use_gitignore,
            avoid=(folder.parent,),
        )

    def run(self) -> IndexReport:
        """Find out what changed; if anything did, build and swap."""
        found = self._scan
        self._tally.skipped += found.skipped
        self._report(files_total=len(found.files))
        previous = self._open_previous()
        with writing_to(self._folder):
            remove_leftovers(self._folder, keep=previous.store.current.generation if previous else None)
        files = hash_files(found, self._tally, lambda: self._report(files_done=self._progress.files_done + 1))
        if previous is not None and is_unchanged(files, previous, self._tally):
            self._refresh(previous.store, found)
            self._clean_up()
            return self._finished(found, chunks=previous.store.chunk_count, embedded=0)
        if previous is not None:
            previous = self._trusted(previous)
        with writing_to(self._folder):
            log = EmbeddingLog(self._folder, self._recipe.encoder)
        with log:
            chunks, embedded = self._write_generation(found, files, previous, log)
        self._clean_up()
        return self._finished(found, chunks=chunks, embedded=embedded)

    def stopped(self) -> RunCancelled:
        """What a run that was stopped has to say."""
        kept = self._progress.chunks_embedded
        return RunCancelled(f"stopped; {kept} embedded chunks are kept", "run the same command again to continue")

    def _open_previous(self) -> Previous | None:
        try:
            store = open_current(self._folder)
            previous = Previous(store, self._recipe, may_reuse=not self._options.rebuild)
        except IndexNotFound:
            return None
        except (IndexCorrupt, IndexStale) as error:
            self._notes.append(f"{error.message}; built anew")
            return None
        self._refuse_to_lose(store.manifest, self._scan)
        self._note_changes(store.manifest)
        return previous

    def _note_changes(self, before: Manifest) -> None:
        old, new = before.recipe, self._recipe
        if self._options.rebuild:
            self._notes.append("--rebuild: everything is read and embedded again")
        elif old.encoder != new.encoder:
            what = f"another encoder before ({old.encoder.name})"
            if old.encoder.name == new.encoder.name:
                what = f"other files or prefixes of {old.encoder.name} before"
            self._notes.append(f"made with {what}: everything is embedded again")
        elif old != new:
            what = "by another version of adaptrag" if old.settings == new.settings else "with other chunk settings"
            self._notes.append(f"made {what} before: everything is read again")
        if before.path != str(self._path):
            self._notes.append(f"this index held {before.path} before")

    def _refuse_to_lose(self, before: Manifest, found: Scan) -> None:
        """Keep what an index holds when another path, or a pattern that fits nothing, would silently replace it.

        Raises:
            ConfigError: it would, and `rebuild` does not say that this is meant.
        """
        if self._options.rebuild:
            return
        if before.path != str(self._path):
            raise ConfigError(
                f"index {self._folder.name!r} holds {before.path}, not {self._path}",
                "choose another name with --name, or replace it with --rebuild",
            )
        if before.chunks and not found.files:
            raise ConfigError(
                f"there is nothing to read in {self._path} ({len(found.skipped)} left out), and index "
                f"{self._folder.name!r} holds {before.chunks} chunks",
                "check the patterns, or empty the index with --rebuild",
            )

    def _trusted(self, previous: Previous) -> Previous | None:
        """Hash what is about to be taken over: a flipped bit must not pass into files with fresh checksums."""
        if not previous.may_reuse:
            return previous
        try:
            previous.store.verify()
        except IndexCorrupt as error:
            self._notes.append(f"{error.message}; built anew")
            return None
        return previous

    def _write_generation(
        self, found: Scan, files: Sequence[HashedFile], previous: Previous | None, log: EmbeddingLog
    ) -> tuple[int, int]:
        """Build beside the old generation and swap. Returns the numbers of rows and of texts embedded."""
        with writing_to(self._folder):
            writer = GenerationWriter(
                folder=self._folder / GENERATIONS / f"{next_generation(self._folder)}.partial",
                statistics=StatisticsBuilder(previous.store.statistics() if previous else None),
            )
        try:
            with writing_to(self._folder):
                missing = self._read(files, writer, previous, log)
            self._embed(writer, missing, log)
            self._report("writing")
            with writing_to(self._folder):
                writer.finish(self._recipe.encoder.dimension, _vectors_from(previous, log))
                publish(self._folder, writer, self._manifest(found, writer))
        except BaseException:
            writer.abandon()
            raise
        return len(writer.keys), len(missing)

    def _read(
        self, files: Sequence[HashedFile], writer: GenerationWriter, previous: Previous | None, log: EmbeddingLog
    ) -> dict[bytes, MissingText]:
        reader = RowReader(
            writer,
            chunker=self._chunker,
            body_only=self._options.body_only,
            previous=previous,
            is_embedded=lambda key: key in log or (previous is not None and key in previous.row_of_text),
            tally=self._tally,
        )
        for number, file in enumerate(files):
            reader.read(
                file,
                lambda done=number: self._report(  # type: ignore[misc]
                    "reading",
                    files_done=done,
                    documents=self._tally.indexed + self._tally.unchanged,
                    chunks=len(writer.keys),
                ),
            )
        reader.finish()
        writer.close_chunks()
        return reader.missing

    def _embed(self, writer: GenerationWriter, missing: dict[bytes, MissingText], log: EmbeddingLog) -> None:
        """Embed texts of similar length together, the longest first, so that the time left is never understated."""
        order = sorted(missing, key=lambda key: (-missing[key].characters, missing[key].row))
        characters = sum(text.characters for text in missing.values())
        self._report("embedding", chunks_to_embed=len(order), characters_to_embed=characters, chunks=len(writer.keys))
        chunks = writer.read_chunks()
        for start in range(0, len(order), EMBED_BLOCK):
            keys = order[start : start + EMBED_BLOCK]
            texts = [chunks[missing[key].row].text_to_embed(body_only=self._options.body_only) for key in keys]
            vectors = self._encoder.encode_documents(texts)
            _check_vectors(vectors, len(keys), self._recipe.encoder)
            with writing_to(self._folder):
                log.append(keys, vectors)
            self._report(
                "embedding",
                chunks_embedded=start + len(keys),
                characters_embedded=self._progress.characters_embedded + sum(missing[k].characters for k in keys),
            )

    def _manifest(self, found: Scan, writer: GenerationWriter) -> Manifest:
        return Manifest(
            adaptrag_version=__version__,
            name=self._folder.name,
            path=str(self._path),
            root=str(found.root),
            recipe=self._recipe,
            selection=self._selection,
            documents=sum(len(source.documents) for source in writer.sources),
            chunks=len(writer.keys),
            fingerprint=content_fingerprint(self._recipe, writer.stored),
            stored=dict(writer.stored),
            files=_stamps(found),
            unread=self._tally.unread,
        )

    @property
    def _selection(self) -> Selection:
        options = self._options
        return Selection(include=options.include, exclude=options.exclude, use_gitignore=options.use_gitignore)

    def _refresh(self, store: LocalStore, found: Scan) -> None:
        """Write the manifest anew where only it differs, as when a file was touched."""
        manifest = replace(
            store.manifest,
            path=str(self._path),
            root=str(found.root),
            selection=self._selection,
            files=_stamps(found),
            unread=self._tally.unread,
        )
        if manifest != store.manifest:
            with writing_to(self._folder):
                republish(self._folder, store.current, manifest)

    def _clean_up(self) -> None:
        """Remove what only a run that was killed needs."""
        with writing_to(self._folder):
            current = read_current(self._folder)
            remove_leftovers(self._folder, keep=current.generation if current else None)
            for log in self._folder.glob("embedded-*.log"):
                log.unlink(missing_ok=True)

    def _report(self, stage: Stage | None = None, **changes: int) -> None:
        self._progress = replace(self._progress, stage=stage or self._progress.stage, **changes)
        self._on_progress(self._progress)
        if self._should_stop():
            raise self.stopped()

    def _finished(self, found: Scan, *, chunks: int, embedded: int) -> IndexReport:
        tally = self._tally
        return IndexReport(
            name=self._folder.name,
            path=str(self._path),
            files_seen=found.files_seen,
            documents_seen=tally.indexed + tally.unchanged + len(tally.skipped),
            documents_indexed=tally.indexed,
            documents_unchanged=tally.unchanged,
            documents_removed=tally.removed,
            documents_skipped=tuple(sorted(tally.skipped, key=lambda s: (s.document, s.reason))),
            documents_repaired=tuple(sorted(tally.repaired, key=lambda r: (r.document, r.reason))),
            chunks=chunks,
            chunks_embedded=embedded,
            seconds=0.0,
            notes=tuple(self._notes),
        )


def _stamps(found: Scan) -> dict[str, FileStamp]:
    return {file.name: FileStamp(size=file.size, mtime_ns=file.mtime_ns) for file in found.files}


def _vectors_from(previous: Previous | None, log: EmbeddingLog) -> Callable[[Sequence[bytes]], NDArray[np.float32]]:
    """Look texts up in the log of this run and the generation before it."""

    def vectors_of(keys: Sequence[bytes]) -> NDArray[np.float32]:
        import numpy as np

        logged = [key in log for key in keys]
        vectors = np.empty((len(keys), log.dimension), dtype=np.float32)
        vectors[logged] = log.vectors([key for key in keys if key in log])
        if not all(logged):
            assert previous is not None, "every text was embedded in this run or before"
            vectors[~np.array(logged)] = previous.vectors([key for key in keys if key not in log])
        return vectors

    return vectors_of


def _check_vectors(vectors: NDArray[np.float32], count: int, encoder: EncoderFingerprint) -> None:
    import numpy as np

    if vectors.shape != (count, encoder.dimension) or not np.isfinite(vectors).all():
        raise ModelError(
            f"encoder {encoder.name} gave {vectors.shape} numbers, not {count} finite vectors of {encoder.dimension}",
            "check its files with: adaptrag models verify",
        )
