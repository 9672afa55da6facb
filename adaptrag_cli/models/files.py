"""Model files on this machine: where they are, whether they are the right ones, and how to remove them.

Nothing in this module touches the network, and only `verify` reads a whole file.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from adaptrag_cli.errors import ModelError, ModelNotFound
from adaptrag_cli.models.catalogue import (
    ENTRIES,
    WEIGHTS_FILE,
    CatalogueEntry,
    HubSource,
    ModelKind,
    encoder_from_hub,
    find_entry,
    is_hub_name,
)
from adaptrag_cli.models.stamps import (
    BY_HAND,
    FileHash,
    Stamp,
    partial_fingerprint,
    pull_lock,
    read_stamp,
    staging_folder,
    stamp_of,
    stamp_path,
    unchanged_hash,
    write_stamp,
)

if TYPE_CHECKING:
    from adaptrag_cli.models.adapters import AdapterFile


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """A model that is there."""

    path: Path
    """The GGUF file, or the folder of an encoder or reranker."""
    name: str
    fingerprint: str
    """`sha256:<hex>` of the file (of the weights in a folder) when known, else `partial:<hex>`."""
    entry: CatalogueEntry | None
    verified: bool
    """Whether its hash equals the published one and the file is unchanged since."""
    adapter: AdapterFile | None = None
    """What is put on it: then name and fingerprint are those of both together."""

    def matches(self, fingerprint: str) -> bool:
        """Whether a fingerprint that was noted earlier is this GGUF file's.

        A model that was verified since then had another kind of fingerprint, so both kinds are compared.
        """
        if fingerprint == self.fingerprint:
            return True
        noted, _, noted_adapter = fingerprint.partition("+")
        adapter = self.fingerprint.partition("+")[2]
        return noted_adapter == adapter and noted.startswith("partial:") and noted == partial_fingerprint(self.path)

    def as_noted(self, fingerprint: str) -> str:
        """A fingerprint that was noted earlier, where it is this file's; else its own."""
        return fingerprint if self.matches(fingerprint) else self.fingerprint


@dataclass(frozen=True, kw_only=True)
class EncoderFiles:
    """A sentence-transformers folder that is there."""

    folder: Path
    name: str
    fingerprint: str
    """Of the weights, as in `ModelFile`."""
    entry: CatalogueEntry | None
    verified: bool


def locate_model(name_or_path: str, models_dir: Path) -> ModelFile:
    """Find the GGUF file of a catalogue name or a path.

    Raises:
        ModelNotFound: no such file; says where it was looked for and how to get it.
        ModelError: it is a folder, or shorter or longer than the model is.
        UnknownName: neither a path nor a catalogue name.
    """
    path = Path(name_or_path).expanduser()
    if _looks_like_path(name_or_path) or path.suffix.lower() == ".gguf":
        return _locate_given(path, models_dir)
    entry = find_entry(name_or_path)
    if entry.kind != "answer":
        raise ModelError(f"{entry.name} is of kind {entry.kind}, it cannot write answers", "adaptrag models list")
    return describe_installed(entry, models_dir)


def locate_encoder(name_or_path: str, models_dir: Path) -> EncoderFiles:
    """Find the folder of a catalogue name, a sentence-transformers folder, or a hub name that is already cached.

    Raises:
        ModelNotFound: no such folder, or it has no weights.
        ModelError: it is another kind of model, or its weights cannot be read, or are too short or too long.
        UnknownName: neither a path, a hub name nor a catalogue name.
    """
    return _locate_folder(name_or_path, models_dir, "encoder")


def locate_reranker(name_or_path: str, models_dir: Path) -> EncoderFiles:
    """Find the folder of a cross-encoder, as `locate_encoder` does that of an encoder."""
    return _locate_folder(name_or_path, models_dir, "reranker")


def _locate_folder(name_or_path: str, models_dir: Path, kind: ModelKind) -> EncoderFiles:
    given = Path(name_or_path).expanduser()
    if _looks_like_path(name_or_path) or given.is_dir():
        folder = given.absolute()
        own = _entry_at(folder, models_dir)
        return _installed_folder(own, models_dir, kind) if own else _foreign_folder(folder.name, folder, kind)
    if not is_hub_name(name_or_path):
        return _installed_folder(find_entry(name_or_path), models_dir, kind)
    named = encoder_from_hub(name_or_path)
    if not is_installed(named, models_dir):
        cached = _folder_in_hub_cache(name_or_path)
        if cached is not None:
            return _foreign_folder(name_or_path, cached, kind)
    return _installed_folder(named, models_dir, kind)


def describe_installed(entry: CatalogueEntry, models_dir: Path) -> ModelFile:
    """Describe an entry's installed file or folder without hashing it.

    Raises:
        ModelNotFound: it is not installed.
        ModelError: its size is not the model's.
    """
    target = models_dir / entry.file
    weights = weights_path(entry, models_dir)
    if not weights.is_file():
        raise not_found(entry, models_dir)
    size = weights.stat().st_size
    if entry.size_bytes is not None and size != entry.size_bytes:
        raise ModelError(
            f"{weights} has {size:,} bytes, {entry.name} has {entry.size_bytes:,}: it is cut short or another file",
            f"adaptrag models pull {entry.name}",
        )
    stamp = read_stamp(entry, models_dir)
    known = None if stamp is None else unchanged_hash(stamp, weights)
    return ModelFile(
        path=target,
        name=entry.name,
        fingerprint=f"sha256:{known}" if known else partial_fingerprint(weights),
        entry=entry,
        verified=bool(stamp and stamp.published and known and entry.sha256 in (None, known)),
    )


def is_installed(entry: CatalogueEntry, models_dir: Path) -> bool:
    """Whether the entry's file, or its folder's weights, are in the models folder."""
    return weights_path(entry, models_dir).is_file()


def installed_hub_encoders(models_dir: Path) -> tuple[CatalogueEntry, ...]:
    """The encoders that were pulled by a hub name of the user's, in order of name."""
    folders = sorted(path.name for path in models_dir.glob("*--*") if (path / WEIGHTS_FILE).is_file())
    return tuple(encoder_from_hub(name.replace("--", "/", 1)) for name in folders)


def weights_path(entry: CatalogueEntry, models_dir: Path) -> Path:
    """Where the file that carries the model's hash lies, or would lie."""
    target = models_dir / entry.file
    return target / WEIGHTS_FILE if entry.is_folder else target


def verify(entry: CatalogueEntry, models_dir: Path) -> ModelFile:
    """Hash an installed model again and compare with the published and the remembered hashes.

    Without a published hash the result has `verified` False.

    Raises:
        ModelNotFound: it is not installed.
        ModelError: a hash is not the expected one; names both.
    """
    describe_installed(entry, models_dir)
    stamp = read_stamp(entry, models_dir)
    weights = weights_path(entry, models_dir)
    expected = {} if stamp is None else {name: file.sha256 for name, file in stamp.files.items()}
    if entry.sha256:
        expected[weights.name] = entry.sha256
    found: dict[str, FileHash] = {}
    for name in sorted(expected.keys() | {weights.name}):
        path = weights.parent / name
        if not path.is_file():
            raise ModelError(f"{path} is missing", _fetch_again(entry))
        found[name] = stamp_of(path)
        if found[name].sha256 != expected.get(name, found[name].sha256):
            stamp_path(entry, models_dir).unlink(missing_ok=True)
            raise ModelError(f"{path} has SHA-256 {found[name].sha256}, expected {expected[name]}", _fetch_again(entry))
    published = entry.sha256 is not None or (stamp is not None and stamp.published)
    write_stamp(entry, models_dir, Stamp(files=found, origin=stamp.origin if stamp else BY_HAND, published=published))
    return describe_installed(entry, models_dir)


def remove(entry: CatalogueEntry, models_dir: Path) -> int:
    """Delete an installed model and what an interrupted download left; return the bytes freed.

    Raises:
        ModelNotFound: there is nothing to delete.
        DownloadError: it is being pulled.
    """
    target, staging = models_dir / entry.file, staging_folder(entry, models_dir)
    if not target.exists() and not staging.exists():
        raise not_found(entry, models_dir)
    with pull_lock(entry, models_dir):
        freed = disk_use(target) + disk_use(staging)
        stamp_path(entry, models_dir).unlink(missing_ok=True)
        for path in (target, staging):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    return freed


def not_found(entry: CatalogueEntry, models_dir: Path) -> ModelNotFound:
    """Say which file is missing, where it was looked for, how to pull it and how to place it by hand."""
    target = models_dir / entry.file
    what = "folder" if entry.is_folder else "file"
    repo = next((source.repo for source in entry.sources if isinstance(source, HubSource)), None)
    upstream = f" (from {repo} on the hub)" if repo else ""
    return ModelNotFound(
        f"model {entry.name} is not here: no {what} {target}",
        f"adaptrag models pull {entry.name}; or fetch the {what} yourself{upstream}, then: {by_hand(entry)}",
    )


def by_hand(entry: CatalogueEntry) -> str:
    """The command that installs a model that the user fetched in another way."""
    return f"adaptrag models pull {entry.name} --from {'FOLDER' if entry.is_folder else 'FILE'}"


def disk_use(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; 0 when there is none."""
    if path.is_file():
        return path.stat().st_size
    return sum(p.lstat().st_size for p in path.rglob("*") if p.is_file()) if path.is_dir() else 0


def _fetch_again(entry: CatalogueEntry) -> str:
    return f"adaptrag models remove {entry.name} && adaptrag models pull {entry.name}"


def _looks_like_path(text: str) -> bool:
    if text.startswith((".", "/", "~", "\\")) or Path(text).is_absolute():
        return True
    return os.sep in text and not is_hub_name(text)


def _locate_given(path: Path, models_dir: Path) -> ModelFile:
    path = path.absolute()
    fingerprint = partial_fingerprint(path)
    own = _entry_at(path, models_dir)
    if own is not None:
        return describe_installed(own, models_dir)
    return ModelFile(path=path, name=path.name, fingerprint=fingerprint, entry=None, verified=False)


def _entry_at(path: Path, models_dir: Path) -> CatalogueEntry | None:
    if path.parent != models_dir.absolute():
        return None
    return next((entry for entry in ENTRIES if entry.file == path.name), None)


def _installed_folder(entry: CatalogueEntry, models_dir: Path, kind: ModelKind) -> EncoderFiles:
    # What a repository of the hub holds is seen when it is loaded.
    if entry.kind != kind and not is_hub_name(entry.name):
        cannot = "encode" if kind == "encoder" else "rerank"
        raise ModelError(f"{entry.name} is of kind {entry.kind}, it cannot {cannot}", "adaptrag models list")
    found = describe_installed(entry, models_dir)
    return EncoderFiles(
        folder=found.path, name=entry.name, fingerprint=found.fingerprint, entry=entry, verified=found.verified
    )


def _foreign_folder(name: str, folder: Path, kind: ModelKind) -> EncoderFiles:
    if not folder.is_dir():
        raise ModelNotFound(f"no {kind} folder {folder}", "give a folder, or a name of: adaptrag models list")
    # Some sentence-transformers folders keep the transformer in a folder of its own.
    places = (folder / WEIGHTS_FILE, folder / "0_Transformer" / WEIGHTS_FILE)
    weights = next((path for path in places if path.exists()), None)
    if weights is None:
        raise ModelNotFound(
            f"{folder} has no {WEIGHTS_FILE}", "give a sentence-transformers folder with safetensors weights"
        )
    fingerprint = partial_fingerprint(weights)
    return EncoderFiles(folder=folder, name=name, fingerprint=fingerprint, entry=None, verified=False)


def _folder_in_hub_cache(repo: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    for marker in ("modules.json", "config.json"):
        found = try_to_load_from_cache(repo, marker)
        if isinstance(found, str):
            return Path(found).parent
    return None
