"""A tiny real index in a plane: each text has an angle in degrees; a similarity is the cosine of a difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.index.build import BuildOptions, build_index
from adaptrag_cli.index.home import open_index
from adaptrag_cli.index.local import LocalStore
from index_fakes import FINGERPRINT, write_tokenizer


class PlaneEncoder:
    """Implements `Encoder`: a text's vector is (cos, sin) of the angle that stands for a word in it."""

    fingerprint = replace(FINGERPRINT, name="plane", dimension=2)

    def __init__(self, folder: Path, angles: Mapping[str, float]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer_path = write_tokenizer(folder / "tokenizer.json")
        self._angles = angles

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        radians = [math.radians(self._angle(text)) for text in texts]
        return np.array([(math.cos(a), math.sin(a)) for a in radians], dtype=np.float32).reshape(-1, 2)

    encode_documents = encode_queries

    def _angle(self, text: str) -> float:
        return next(angle for word, angle in self._angles.items() if word in text)


def plane_index(folder: Path, documents: Mapping[str, str], encoder: PlaneEncoder) -> LocalStore:
    """Write the documents, index them and open the index."""
    corpus = folder / "corpus"
    corpus.mkdir()
    for name, text in documents.items():
        (corpus / name).write_text(text, encoding="utf-8")
    build_index(corpus, name="plane", index_dir=folder / "indexes", encoder=encoder, options=BuildOptions())
    return open_index(folder / "indexes", "plane")
