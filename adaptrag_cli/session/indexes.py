"""Open an index with the encoder that it was made with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from adaptrag_cli.config import Settings
from adaptrag_cli.errors import ConfigError, IndexNotFound, IndexStale, IndexUnusable, ModelError
from adaptrag_cli.events import WarningRaised
from adaptrag_cli.index.home import check_encoder, choose_index, open_index
from adaptrag_cli.index.local import LocalStore
from adaptrag_cli.index.store import Freshness, Store
from adaptrag_cli.models.base import Encoder
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.session.plan import index_dir_of


@dataclass(frozen=True, kw_only=True)
class OpenIndex:
    """An index with its encoder, ready to be searched."""

    retriever: Retriever
    freshness: Freshness
    warnings: tuple[WarningRaised, ...]


def open_index_for(settings: Settings, models_dir: Path, kept: Retriever | None = None) -> OpenIndex:
    """Open the index that the settings name, and the encoder it was made with.

    Raises:
        AdaptRAGError: there is none, it is empty, its documents are not there, or the encoder is another one.
    """
    index_dir = index_dir_of(settings)
    store = open_index(index_dir, choose_index(index_dir, settings.index.name))
    freshness = store.freshness()
    if freshness.root_missing:  # maybe an unplugged disk, maybe a deleted folder, and what is deleted is not quoted
        raise IndexStale(
            f"index {store.name!r}: {store.path} is not there, so its documents may be deleted",
            f"bring it back, or forget it with: adaptrag indexes remove {store.name}",
        )
    if not store.manifest.chunks:
        raise IndexUnusable(
            f"index {store.name!r} is empty: no document with text was found in {store.path}",
            f"put some there and run: {store.index_command()}, or forget it with: adaptrag indexes remove {store.name}",
        )
    encoder = _open_encoder(store, models_dir)
    if kept is not None and kept.encoder.fingerprint == encoder.fingerprint:
        encoder = kept.encoder
    retriever = Retriever(store, encoder, deleted=(*freshness.deleted, *freshness.deleted_documents))
    if kept is not None and _is_same(kept, retriever):
        retriever = kept  # with the vectors it has computed
    return OpenIndex(retriever=retriever, freshness=freshness, warnings=_freshness_warnings(freshness, store))


def open_for_peek(
    settings: Settings, models_dir: Path, kept: Retriever | None
) -> tuple[OpenIndex | None, tuple[WarningRaised, ...]]:
    """Open the index of a strategy that does not need one: no trouble with it stops the answer, unless it was named."""
    try:
        return open_index_for(settings, models_dir, kept), ()
    except IndexNotFound:
        if settings.index.name is not None:
            raise
        return None, ()
    except (ConfigError, IndexUnusable, ModelError) as error:
        if settings.index.name is not None:
            raise
        return None, (WarningRaised(code="no_peek", message=f"no chunk is shown beside the answer: {error.message}"),)


def _is_same(kept: Retriever, other: Retriever) -> bool:
    def identity(store: Store) -> tuple[str, Path, str]:
        return store.name, store.path, store.fingerprint

    return (
        kept.encoder is other.encoder
        and identity(kept.store) == identity(other.store)
        and kept.deleted == other.deleted
    )


def _open_encoder(store: LocalStore, models_dir: Path) -> Encoder:
    from adaptrag_cli.models.encoder import load_encoder

    made_with = store.encoder
    encoder = load_encoder(
        made_with.name,
        models_dir,
        query_prefix=made_with.query_prefix,
        document_prefix=made_with.document_prefix,
    )
    check_encoder(store, encoder.fingerprint)
    return encoder


def _freshness_warnings(freshness: Freshness, store: LocalStore) -> tuple[WarningRaised, ...]:
    if freshness.is_fresh:
        return ()
    counted = (
        (freshness.changed, "file", "changed"),
        (freshness.deleted, "file", "deleted"),
        (freshness.added, "file", "added"),
        (freshness.deleted_documents, "document", "gone from a corpus"),
    )
    parts = [f"{len(names)} {what}{'s' if len(names) != 1 else ''} {how}" for names, what, how in counted if names]
    return (
        WarningRaised(
            code="index_not_fresh",
            message=f"{', '.join(parts)} since indexing; bring it up to date with: {store.index_command()}",
        ),
    )
