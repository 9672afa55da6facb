"""Encoding with sentence-transformers: for encoders without an exported form, and to measure the exported ones by."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from adaptrag_cli.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer

_BATCH_SIZE = 32


def load_sentence_transformer(folder: Path, *, device: str | None = None) -> SentenceTransformer:
    """Load an encoder's folder: no network, no code from the folder, no pickled weights, nothing printed.

    Control tokens such as `[SEP]` inside a text are read as plain text.

    Raises:
        ModelError: sentence-transformers cannot load it, or it reads images or sound as well: such a model would fetch
            what an address in a document points to.
    """
    with loading(folder):
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(
            str(folder),
            device=device,
            local_files_only=True,
            model_kwargs={"use_safetensors": True},
            processor_kwargs={"split_special_tokens": True},
        )
    if not {"text", "message"}.issuperset(model.modalities):
        raise ModelError(f"{folder} reads more than text", "give an encoder for text")
    return model


@contextmanager
def loading(folder: Path) -> Iterator[None]:
    """Load with sentence-transformers quietly; turn what it raises into one line.

    Raises:
        ModelError: it cannot load the folder.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    with quiet_libraries():
        try:
            yield
        except Exception as error:  # on a broken folder it passes on whatever its parts raise; some have no base class
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ModelError(f"sentence-transformers cannot load {folder}: {reason}", "adaptrag doctor") from error


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keep progress bars, advice and warnings of the torch libraries off the terminal."""
    previous = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from transformers.utils import logging as transformers_logging

            transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
            yield
    finally:
        logging.disable(previous)


class TorchBackend:
    """One loaded sentence-transformers model."""

    def __init__(self, folder: Path, max_length: int) -> None:
        self._model = load_sentence_transformer(folder)
        self._model.max_seq_length = max_length

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._model.get_embedding_dimension() or 0)

    def encode(self, texts: Sequence[str], prefix: str) -> NDArray[np.float32]:
        """Unit vectors, shape (len(texts), dimension); `texts` is not empty."""
        import numpy as np

        with quiet_libraries():
            # An empty prompt, unlike None, keeps the folder's default prompt away.
            vectors = self._model.encode(
                list(texts),
                prompt=prefix,
                batch_size=_BATCH_SIZE,
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        return np.asarray(vectors, dtype=np.float32)
