"""The one encoder there is: a sentence-transformers folder, run by ONNX Runtime where it has an exported form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from adaptrag_cli.errors import ModelError
from adaptrag_cli.models.base import EncoderFingerprint
from adaptrag_cli.models.catalogue import is_hub_name
from adaptrag_cli.models.encoder_folder import EncoderFolder, read_encoder_folder, weights_sha256
from adaptrag_cli.models.files import EncoderFiles, locate_encoder
from adaptrag_cli.models.onnx_export import EXPORTER, export_encoder, find_export

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from adaptrag_cli.models.onnx_encoder import OnnxBackend
    from adaptrag_cli.models.torch_encoder import TorchBackend

__all__ = ["SentenceEncoder", "export_encoder", "load_encoder"]

Notify = Callable[[str], None]


def load_encoder(
    name_or_path: str,
    models_dir: Path,
    *,
    query_prefix: str | None = None,
    document_prefix: str | None = None,
    notify: Notify | None = None,
) -> SentenceEncoder:
    """Find an encoder by catalogue name, folder or hub name; nothing heavy is loaded before the first text.

    A prefix that is not given is the catalogue's, else the folder's own prompt. `notify` hears one line when the first
    text has to wait for the export or for sentence-transformers.

    Raises:
        ModelNotFound: it is not on this machine.
        ModelError: its folder is not an encoder's.
        UnknownName: no entry of the catalogue has that name.
    """
    files = locate_encoder(name_or_path, models_dir)
    layout = read_encoder_folder(files.folder)
    entry = files.entry
    if query_prefix is None:
        query_prefix = (entry.query_prefix if entry else "") or layout.query_prompt
    if document_prefix is None:
        document_prefix = (entry.document_prefix if entry else "") or layout.document_prompt
    return SentenceEncoder(
        name=_lasting_name(files),
        layout=layout,
        query_prefix=query_prefix,
        document_prefix=document_prefix,
        notify=notify or _say_nothing,
    )


class SentenceEncoder:
    """An encoder that loads itself at the first text."""

    def __init__(
        self, *, name: str, layout: EncoderFolder, query_prefix: str, document_prefix: str, notify: Notify
    ) -> None:
        self._name = name
        self._layout = layout
        self._query_prefix = query_prefix
        self._document_prefix = document_prefix
        self._notify = notify

    @cached_property
    def fingerprint(self) -> EncoderFingerprint:
        """Everything that decides a vector."""
        return EncoderFingerprint(
            name=self._name,
            file_sha256=weights_sha256(self._layout.folder),
            dimension=self._layout.dimension or self._torch.dimension,
            pooling=self._layout.pooling,
            normalised=True,
            query_prefix=self._query_prefix,
            document_prefix=self._document_prefix,
            max_length=self._layout.max_length,
            backend=f"onnx/{EXPORTER}" if self._exported else f"sentence-transformers/{_minor_version()}",
        )

    @property
    def tokenizer_path(self) -> Path:
        """The `tokenizer.json` that the chunker counts with."""
        return self._layout.tokenizer_path

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (len(texts), dimension); what a text holds beyond the window is cut off."""
        return self._encode(texts, self._query_prefix)

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (len(texts), dimension), in the order given."""
        return self._encode(texts, self._document_prefix)

    def _encode(self, texts: Sequence[str], prefix: str) -> NDArray[np.float32]:
        import numpy as np

        if not texts:
            return np.zeros((0, self.fingerprint.dimension), dtype=np.float32)
        return self._backend.encode([without_lone_surrogates(text) for text in texts], prefix)

    @cached_property
    def _backend(self) -> OnnxBackend | TorchBackend:
        if self._exported is None:
            return self._torch
        from adaptrag_cli.models.onnx_encoder import OnnxBackend

        return OnnxBackend(self._exported, self._layout.tokenizer_path, self._layout.max_length)

    @cached_property
    def _torch(self) -> TorchBackend:
        from adaptrag_cli.models.torch_encoder import TorchBackend

        self._notify(f"loading encoder {self._name} with sentence-transformers")
        return TorchBackend(self._layout.folder, self._layout.max_length)

    @cached_property
    def _exported(self) -> Path | None:
        if not self._layout.is_plain:
            return None
        try:
            found = find_export(self._layout, weights_sha256(self._layout.folder))
            if found is None:
                self._notify(f"preparing encoder {self._name} for fast start, once")
                found = export_encoder(self._layout.folder)
        except ModelError as error:
            self._notify(error.message)
            return None
        return found


def _lasting_name(files: EncoderFiles) -> str:
    """A name that `load_encoder` finds again: the catalogue's, the hub's, or the folder's path."""
    return files.name if files.entry or is_hub_name(files.name) else str(files.folder)


def _minor_version() -> str:
    return ".".join(version("sentence-transformers").split(".")[:2])


def without_lone_surrogates(text: str) -> str:
    """Join surrogate pairs and replace lone halves by U+FFFD, which no tokenizer takes."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _say_nothing(message: str) -> None:
    pass
