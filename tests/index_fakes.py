"""An encoder without a model: every text gets a unit vector drawn from its hash. Index, BM25 and FAISS stay real."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adaptrag_cli.models.base import EncoderFingerprint

FINGERPRINT = EncoderFingerprint(
    name="hash",
    file_sha256="0" * 64,
    dimension=16,
    pooling="none",
    normalised=True,
    query_prefix="",
    document_prefix="",
    max_length=64,
    backend="hash/1",
)


def write_tokenizer(path: Path) -> Path:
    """A tokenizer that counts words and punctuation marks."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(path))
    return path


def vector_of(text: str, dimension: int = FINGERPRINT.dimension, salt: str = "") -> NDArray[np.float32]:
    """The vector of a text."""
    seed = int.from_bytes(hashlib.sha256((salt + text).encode()).digest()[:8], "little")
    vector = np.random.default_rng(seed).standard_normal(dimension)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


class HashEncoder:
    """Implements `Encoder` and keeps the texts it was given."""

    def __init__(self, folder: Path, **changes: object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer_path = folder / "tokenizer.json"
        if not self.tokenizer_path.exists():
            write_tokenizer(self.tokenizer_path)
        self.fingerprint = replace(FINGERPRINT, **changes)
        self.texts: list[str] = []

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([vector_of(text, self.fingerprint.dimension, self.fingerprint.name) for text in texts])

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += texts
        return self.encode_queries(texts)
