"""Open a chunk in its document: the index is read in a thread, and compared with the one the run was made on."""

from __future__ import annotations

from pathlib import Path

from adaptrag_cli.config import load_settings
from adaptrag_cli.errors import AdaptRAGError, IndexStale
from adaptrag_cli.events import Candidate, RankedChunk, RunStarted
from adaptrag_cli.index.document_text import DocumentText, read_document
from adaptrag_cli.index.home import open_index
from adaptrag_cli.session.plan import index_dir_of
from adaptrag_cli.tui.record import Flags


def read_in_index(
    chunk: Candidate | RankedChunk, start: RunStarted, flags: Flags, config_file: Path | None
) -> tuple[DocumentText | None, str]:
    """The document around a chunk, or why there is only the chunk. Reads files: call it in a thread."""
    try:
        settings = load_settings(flags=flags, config_file=config_file)
        store = open_index(index_dir_of(settings), start.index)
        if store.fingerprint != start.index_fingerprint:
            raise IndexStale(f"index {start.index!r} has changed since this run")
        return read_document(store, chunk.chunk_id), ""
    except AdaptRAGError as error:
        return None, f"only the chunk is shown: {error.message}"
