"""Settings, and where each value came from.

Nearest wins: a flag that was typed, then `ADAPTRAG_*`, then `adaptrag.toml` (`--config`, the working folder, the user's
config folder), then the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Which models run, and how."""

    answer: str = "qwen2.5-coder-1.5b-instruct"
    """Catalogue name or path of a GGUF file."""
    encoder: str = "all-minilm-l6-v2"
    """Catalogue name, sentence-transformers folder or hub name."""
    dir: Path | None = None
    """Folder of the model files; None means the user data folder."""
    gpu_layers: str = "auto"
    """`auto`, `all` or a number."""
    context_length: int = 4096
    threads: int | None = None
    """None means one per physical core."""


@dataclass(frozen=True, kw_only=True)
class IndexSettings:
    """Where indexes live and how documents are cut."""

    dir: Path | None = None
    name: str | None = None
    chunk_tokens: int | None = None
    """None means as much as the encoder's window holds."""
    chunk_overlap: int = 32
    body_only: bool = False


@dataclass(frozen=True, kw_only=True)
class AskSettings:
    """How a question is answered. None means the strategy's own default (its paper's)."""

    strategy: str = "dtr"
    threshold: float | None = None
    retriever: str | None = None
    ais: str | None = None
    top_n: int | None = None
    top_k: int | None = None
    style: str = "short"
    peek: bool = True


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All sections, and the origin of each value by its dotted name (`ask.threshold`)."""

    models: ModelSettings = field(default_factory=ModelSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    ask: AskSettings = field(default_factory=AskSettings)
    origins: Mapping[str, str] = field(default_factory=dict)
    """`default`, `/path/adaptrag.toml`, `ADAPTRAG_ASK_THRESHOLD` or `--threshold`."""
