"""What a generation is made of: settings, fingerprints, files with their checksums, and the files it was read from.

`CURRENT` names the generation that answers, its manifest, and the manifest's SHA-256. Replacing this one small file is
the swap. JSON is ASCII with escapes, so that any file name survives.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from adaptrag_cli.config import IndexSettings, ModelSettings, load_settings
from adaptrag_cli.errors import ConfigError, IndexCorrupt, IndexStale
from adaptrag_cli.locations import default_index_dir
from adaptrag_cli.models.base import EncoderFingerprint

FORMAT_VERSION = 1
"""Raise it whenever the layout or the meaning of a file changes."""
CURRENT = "CURRENT"
GENERATIONS = "generations"


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """Size and hash of one file of a generation."""

    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class FileStamp:
    """What the freshness check compares."""

    size: int
    mtime_ns: int


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides rows and vectors, apart from the documents. Another recipe means a rebuild."""

    encoder: EncoderFingerprint
    chunker: str
    """Fingerprint of the chunker: version, tokenizer, window, size, overlap."""
    chunk_tokens: int | None
    overlap: int
    body_only: bool
    tokeniser_version: int
    loader_version: int = 0
    """0: written before loaders had a version."""

    @property
    def settings(self) -> tuple[int | None, int, bool]:
        """How the user wants documents cut."""
        return self.chunk_tokens, self.overlap, self.body_only

    @property
    def chunker_version(self) -> str:
        """The version of the chunker's code."""
        return self.chunker.partition(":")[0]


@dataclass(frozen=True, kw_only=True)
class UnreadFile:
    """A file that gave no document; while its bytes are the same, it is not parsed again."""

    sha256: str
    skipped: tuple[tuple[str, str], ...]
    """Its parts, each with its reason."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which files of the folder are read."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    use_gitignore: bool = True


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The description of one generation."""

    format_version: int = FORMAT_VERSION
    adaptrag_version: str
    name: str
    path: str
    """The folder or file that was indexed, absolute."""
    root: str
    """The folder that file names are relative to."""
    recipe: Recipe
    selection: Selection
    documents: int
    chunks: int
    fingerprint: str
    """SHA-256 over recipe and data files: equal content has an equal fingerprint."""
    stored: Mapping[str, StoredFile]
    files: Mapping[str, FileStamp]
    """Every file that was looked at, by its name."""
    unread: Mapping[str, UnreadFile] = field(default_factory=dict)

    def index_command(self, *, encoder: str | None = None, index_dir: Path | None = None) -> str:
        """The command that brings this index up to date with the settings it was made with, or another encoder.

        `index_dir` is the folder that holds the index; without it, the one where the command looks by itself.
        """
        words = ["adaptrag", "index", self.path, "--name", self.name]
        if index_dir is not None:
            words += index_dir_flag(index_dir)
        encoder = encoder or self.recipe.encoder.name
        if encoder != ModelSettings().encoder:
            words += ["--encoder", encoder]
        if self.recipe.encoder.query_prefix or self.recipe.encoder.document_prefix:
            words.append("--prefixes")
        for pattern in self.selection.include:
            words += ["--include", pattern]
        for pattern in self.selection.exclude:
            words += ["--exclude", pattern]
        if self.recipe.chunk_tokens is not None:
            words += ["--chunk-tokens", str(self.recipe.chunk_tokens)]
        if self.recipe.overlap != IndexSettings().chunk_overlap:
            words += ["--overlap", str(self.recipe.overlap)]
        if self.recipe.body_only:
            words.append("--body-only")
        if not self.selection.use_gitignore:
            words.append("--no-gitignore")
        return shlex.join(words)


@dataclass(frozen=True, kw_only=True)
class Current:
    """The content of `CURRENT`."""

    generation: str
    manifest: str
    sha256: str

    def encode(self) -> bytes:
        """One line of ASCII."""
        return f"{self.generation} {self.manifest} {self.sha256}\n".encode("ascii")


def content_fingerprint(recipe: Recipe, stored: Mapping[str, StoredFile]) -> str:
    """Identity of what can be retrieved."""
    content = [msgspec.to_builtins(recipe), sorted((name, file.sha256) for name, file in stored.items())]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode("ascii")).hexdigest()


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest as it is written."""
    return json.dumps(msgspec.to_builtins(manifest), indent=1).encode("ascii") + b"\n"


def read_current(folder: Path) -> Current | None:
    """Which generation answers; None when there is none yet.

    Raises:
        IndexCorrupt: the file is not what we write.
    """
    try:
        line = (folder / CURRENT).read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return None
    found = re.fullmatch(r"(g[0-9]{6,}) (manifest-[0-9]+\.json) ([0-9a-f]{64})\n", line)
    if found is None:
        raise IndexCorrupt(f"{folder / CURRENT} is damaged", rebuild_hint(folder))
    return Current(generation=found[1], manifest=found[2], sha256=found[3])


def read_manifest(folder: Path, current: Current) -> Manifest:
    """Read and check the manifest that `CURRENT` names.

    Raises:
        FileNotFoundError: it is gone; a writer may have swapped in between.
        IndexCorrupt: its hash is wrong.
        IndexStale: another format version wrote it.
    """
    path = folder / GENERATIONS / current.generation / current.manifest
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != current.sha256:
        raise IndexCorrupt(f"{path} fails its checksum", rebuild_hint(folder))
    content: dict[str, Any] = json.loads(data)
    version = content.get("format_version")
    if version != FORMAT_VERSION:
        raise IndexStale(
            f"index {folder.name!r} has format {version}, this version of adaptrag reads {FORMAT_VERSION}",
            rebuild_hint(folder, str(content.get("path", "PATH"))),
        )
    return msgspec.convert(content, Manifest)


def rebuild_hint(folder: Path, path: str = "PATH") -> str:
    """The command that makes the index in `folder` anew."""
    words = ["adaptrag", "index", path, "--name", folder.name, *index_dir_flag(folder.parent), "--rebuild"]
    return f"make it anew with: {shlex.join(words)}"


def index_dir_flag(index_dir: Path) -> list[str]:
    """`--index-dir` and its value, where a command without it would look for indexes elsewhere."""
    try:
        usual = load_settings().index.dir or default_index_dir(Path.cwd())[0]
    except ConfigError:  # what is wrong there is not what this command is told for
        return ["--index-dir", str(index_dir.absolute())]
    return [] if usual.resolve() == index_dir.resolve() else ["--index-dir", str(index_dir.absolute())]
