"""Cross-encoders: sentence-transformers reads query and text together and gives one score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from adaptrag_cli.errors import ModelError
from adaptrag_cli.models.base import RerankScores
from adaptrag_cli.models.encoder import without_lone_surrogates
from adaptrag_cli.models.encoder_folder import read_cross_encoder
from adaptrag_cli.models.files import locate_reranker
from adaptrag_cli.models.torch_encoder import loading, quiet_libraries

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

_MAX_LENGTH = 512
_BATCH_SIZE = 32


def load_reranker(name_or_path: str, models_dir: Path) -> CrossEncoderReranker:
    """Load a cross-encoder by catalogue name, folder or hub name: on the CPU, without network, code or pickle.

    Raises:
        ModelNotFound: it is not on this machine; names the command that pulls it.
        ModelError: it is not a cross-encoder that gives one score, or cannot be loaded.
        UnknownName: no entry of the catalogue has that name.
    """
    files = locate_reranker(name_or_path, models_dir)
    folder = files.folder
    window = read_cross_encoder(folder)
    with loading(folder):
        from sentence_transformers import CrossEncoder

        model = CrossEncoder(
            str(folder),
            device="cpu",
            local_files_only=True,
            max_length=min(_MAX_LENGTH, window),
            model_kwargs={"use_safetensors": True},
            processor_kwargs={"split_special_tokens": True},  # `[SEP]` written in a document is text
        )
    if model.num_labels != 1:
        raise ModelError(f"{folder} gives {model.num_labels} numbers for a pair, not one score", "give a reranker")
    return CrossEncoderReranker(model, name=files.name)


class CrossEncoderReranker:
    """A `Reranker` on sentence-transformers."""

    def __init__(self, model: CrossEncoder, *, name: str) -> None:
        self._model = model
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def score(self, pairs: Sequence[tuple[str, str]]) -> RerankScores:
        """Raw logits of pairs of query and text; what a pair holds beyond the window is cut off.

        Raises:
            ModelError: the model gives something that is not a number.
        """
        from torch.nn import Identity

        if not pairs:
            return RerankScores(scores=())
        clean = [(without_lone_surrogates(query), without_lone_surrogates(text)) for query, text in pairs]
        with quiet_libraries():
            logits = self._model.predict(
                clean, batch_size=_BATCH_SIZE, show_progress_bar=False, activation_fn=Identity(), convert_to_numpy=True
            )
        scores = tuple(float(logit) for logit in logits)
        if not all(map(math.isfinite, scores)):
            raise ModelError(
                f"reranker {self._name!r} gives no finite score for a text",
                "verify its files with: adaptrag models verify",
            )
        return RerankScores(scores=scores)
