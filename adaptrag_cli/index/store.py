"""What a store of chunks must answer. Scores are higher-is-better; ties go to the smaller row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from adaptrag_cli.documents.base import Chunk
from adaptrag_cli.models.base import EncoderFingerprint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A row of the store and how well it matched."""

    row: int
    score: float


@dataclass(frozen=True, kw_only=True)
class Freshness:
    """How the indexed files differ from what is on disk now."""

    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    deleted_documents: tuple[str, ...] = ()
    """Documents (as `Chunk.document`) that are gone from a corpus that is among `changed`."""
    root_missing: bool = False
    """The folder or file that was indexed is not there, as when its disk is unplugged: nothing could be compared."""

    @property
    def is_fresh(self) -> bool:
        return not (self.changed or self.deleted or self.added or self.root_missing)


class Store(Protocol):
    """An opened index, read-only."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> Path:
        """The file or folder that was indexed."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identity of this generation: changes whenever its content does."""
        ...

    @property
    def encoder(self) -> EncoderFingerprint: ...

    @property
    def chunk_count(self) -> int: ...

    @property
    def body_only(self) -> bool:
        """Whether titles were left out of the embedded text."""
        ...

    def chunk(self, row: int) -> Chunk: ...

    def dense_search(self, vector: NDArray[np.float32], n: int) -> tuple[Hit, ...]:
        """The n rows with the largest inner product with `vector` (dimension,)."""
        ...

    def sparse_search(self, text: str, n: int) -> tuple[Hit, ...]:
        """The n rows with the largest positive BM25 score."""
        ...

    def sparse_scores(self, text: str, rows: Sequence[int]) -> NDArray[np.float64]:
        """BM25 of some rows, by the statistics of all, shape (len(rows),)."""
        ...

    def vectors(self, rows: Sequence[int]) -> NDArray[np.float32]:
        """Stored unit vectors, shape (len(rows), dimension)."""
        ...

    def freshness(self) -> Freshness:
        """Compare file sizes and times with the manifest; reads no content but that of a corpus that has changed."""
        ...
