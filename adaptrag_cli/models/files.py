"""Model files on this machine: where they are, whether they are the right ones, and how to remove them.

Hashing a gigabyte takes seconds, so a file is hashed once, when it is installed or verified, and a stamp remembers its
size and modification time. Nothing in this module touches the network.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from adaptrag_cli.errors import DownloadError, ModelError, ModelNotFound
from adaptrag_cli.models.catalogue import (
    ENTRIES,
    WEIGHTS_FILE,
    CatalogueEntry,
    PackageSource,
    encoder_from_hub,
    find_entry,
    is_hub_name,
)

_MIB = 1 << 20
_STATE_FOLDER = ".state"
_STAGING_FOLDER = ".partial"

BY_HAND = "placed by hand"
"""Origin of a file that no source of ours brought."""


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


@dataclass(frozen=True, kw_only=True)
class EncoderFiles:
    """A sentence-transformers folder that is there."""

    folder: Path
    name: str
    weights: Path
    fingerprint: str
    """Of the weights, as in `ModelFile`."""
    entry: CatalogueEntry | None
    verified: bool


class FileStamp(msgspec.Struct, frozen=True, kw_only=True):
    """What one file was when it was hashed."""

    size: int
    mtime_ns: int
    sha256: str


class Stamp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is remembered of an installed model."""

    files: dict[str, FileStamp]
    """By path inside the model's folder; the key of a single file is its name."""
    origin: str
    """Where it came from, for example `package index` or `model hub, commit 1a2b3c`."""
    published: bool
    """Whether the weights' hash was compared with a published one."""


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
    target = models_dir / entry.file
    if not target.exists():
        raise not_found(entry, models_dir)
    _refuse_folder(target)
    return describe_installed(entry, models_dir)


def locate_encoder(name_or_path: str, models_dir: Path) -> EncoderFiles:
    """Find the folder of a catalogue name, a sentence-transformers folder, or a hub name that is already cached.

    Raises:
        ModelNotFound: no such folder, or it has no weights.
        ModelError: its weights are shorter or longer than the model's.
        UnknownName: neither a path, a hub name nor a catalogue name.
    """
    given = Path(name_or_path).expanduser()
    if _looks_like_path(name_or_path) or given.is_dir():
        folder = given.absolute()
        own = _entry_at(folder, models_dir)
        return _installed_encoder(own, models_dir) if own else _foreign_encoder(folder.name, folder)
    if not is_hub_name(name_or_path):
        return _installed_encoder(find_entry(name_or_path), models_dir)
    named = encoder_from_hub(name_or_path)
    if not is_installed(named, models_dir):
        cached = _folder_in_hub_cache(name_or_path)
        if cached is not None:
            return _foreign_encoder(name_or_path, cached)
    return _installed_encoder(named, models_dir)


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
    known = None if stamp is None else _unchanged_hash(stamp, weights)
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
    found: dict[str, FileStamp] = {}
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


def staging_folder(entry: CatalogueEntry, models_dir: Path) -> Path:
    """Where an unfinished download of the entry waits to be continued."""
    return models_dir / _STAGING_FOLDER / _state_name(entry)


def stamp_path(entry: CatalogueEntry, models_dir: Path) -> Path:
    """Where the entry's stamp lies."""
    return models_dir / _STATE_FOLDER / f"{_state_name(entry)}.json"


def read_stamp(entry: CatalogueEntry, models_dir: Path) -> Stamp | None:
    """Read the entry's stamp; None when there is none or it is not readable."""
    try:
        return msgspec.json.decode(stamp_path(entry, models_dir).read_bytes(), type=Stamp)
    except (OSError, msgspec.DecodeError):  # a lost stamp only costs hashing once more
        return None


def write_stamp(entry: CatalogueEntry, models_dir: Path, stamp: Stamp) -> None:
    """Remember the hashes of an installed model, atomically."""
    path = stamp_path(entry, models_dir)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".tmp")
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(stamp)))
    beside.replace(path)


def stamp_of(path: Path) -> FileStamp:
    """Hash one file and note its size and time; renaming it later changes none of them."""
    before = path.stat()
    return FileStamp(size=before.st_size, mtime_ns=before.st_mtime_ns, sha256=sha256_of(path))


@contextmanager
def pull_lock(entry: CatalogueEntry, models_dir: Path) -> Iterator[None]:
    """Keep two processes from writing the same model.

    Raises:
        DownloadError: another process holds the lock; names its process id.
    """
    import filelock

    state = models_dir / _STATE_FOLDER
    state.mkdir(parents=True, exist_ok=True)
    # Beside the lock: some systems let nobody read a locked file.
    owner = state / f"{_state_name(entry)}.pid"
    lock = filelock.FileLock(state / f"{_state_name(entry)}.lock", timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout as error:
        pid = owner.read_text(encoding="ascii").strip() if owner.is_file() else "unknown"
        raise DownloadError(
            f"{entry.name} is being pulled or removed by another process (pid {pid})", "wait for it, or stop it"
        ) from error
    try:
        owner.write_text(f"{os.getpid()}\n", encoding="ascii")
        yield
    finally:
        owner.unlink(missing_ok=True)
        lock.release()


def not_found(entry: CatalogueEntry, models_dir: Path) -> ModelNotFound:
    """Say which file is missing, where it was looked for, how to pull it and how to place it by hand."""
    target = models_dir / entry.file
    what = f"folder {target}" if entry.is_folder else f"file {target}"
    hub = next((s for s in entry.sources if not isinstance(s, PackageSource)), None)
    upstream = f" (upstream: {hub.repo} on the hub)" if hub else ""
    option = "--from FOLDER" if entry.is_folder else "--from FILE"
    return ModelNotFound(
        f"model {entry.name} is not here: no {what}",
        f"adaptrag models pull {entry.name}; or by hand{upstream}: adaptrag models pull {entry.name} {option}",
    )


def partial_fingerprint(path: Path) -> str:
    """Fingerprint a file by its size and its first and last mebibyte, in milliseconds."""
    size = path.stat().st_size
    digest = hashlib.sha256(size.to_bytes(8, "little"))
    with path.open("rb") as stream:
        digest.update(stream.read(_MIB))
        stream.seek(max(0, size - _MIB))
        digest.update(stream.read(_MIB))
    return f"partial:{digest.hexdigest()}"


def sha256_of(path: Path) -> str:
    """Hash a whole file: 1 to 4 s a gigabyte."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def disk_use(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; 0 when there is none."""
    if path.is_file():
        return path.stat().st_size
    return sum(p.lstat().st_size for p in path.rglob("*") if p.is_file()) if path.is_dir() else 0


def _fetch_again(entry: CatalogueEntry) -> str:
    return f"adaptrag models remove {entry.name} && adaptrag models pull {entry.name}"


def _state_name(entry: CatalogueEntry) -> str:
    return entry.name.replace("/", "--")


def _looks_like_path(text: str) -> bool:
    if text.startswith((".", "/", "~", "\\")) or Path(text).is_absolute():
        return True
    return os.sep in text and not is_hub_name(text)


def _locate_given(path: Path, models_dir: Path) -> ModelFile:
    path = path.absolute()
    if not path.exists():
        raise ModelNotFound(f"no model file {path}", "give a .gguf file, or a name of: adaptrag models list")
    _refuse_folder(path)
    own = _entry_at(path, models_dir)
    if own is not None:
        return describe_installed(own, models_dir)
    return ModelFile(path=path, name=path.name, fingerprint=partial_fingerprint(path), entry=None, verified=False)


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise ModelError(f"{path} is a folder, not a GGUF file", "give the path of the .gguf file in it")


def _entry_at(path: Path, models_dir: Path) -> CatalogueEntry | None:
    if path.parent != models_dir.absolute():
        return None
    return next((entry for entry in ENTRIES if entry.file == path.name), None)


def _installed_encoder(entry: CatalogueEntry, models_dir: Path) -> EncoderFiles:
    if not entry.is_folder:
        raise ModelError(f"{entry.name} is an answer model; it cannot encode", "adaptrag models list")
    found = describe_installed(entry, models_dir)
    return EncoderFiles(
        folder=found.path,
        name=entry.name,
        weights=weights_path(entry, models_dir),
        fingerprint=found.fingerprint,
        entry=entry,
        verified=found.verified,
    )


def _foreign_encoder(name: str, folder: Path) -> EncoderFiles:
    if not folder.is_dir():
        raise ModelNotFound(f"no encoder folder {folder}", "give a folder, or a name of: adaptrag models list")
    # Some sentence-transformers folders keep the transformer in a folder of its own.
    places = (folder / WEIGHTS_FILE, folder / "0_Transformer" / WEIGHTS_FILE)
    weights = next((path for path in places if path.is_file()), None)
    if weights is None:
        raise ModelNotFound(
            f"{folder} has no {WEIGHTS_FILE}", "give a sentence-transformers folder with safetensors weights"
        )
    fingerprint = partial_fingerprint(weights)
    return EncoderFiles(folder=folder, name=name, weights=weights, fingerprint=fingerprint, entry=None, verified=False)


def _folder_in_hub_cache(repo: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    for marker in ("modules.json", "config.json"):
        found = try_to_load_from_cache(repo, marker)
        if isinstance(found, str):
            return Path(found).parent
    return None


def _unchanged_hash(stamp: Stamp, weights: Path) -> str | None:
    known = stamp.files.get(weights.name)
    now = weights.stat()
    if known is None or (known.size, known.mtime_ns) != (now.st_size, now.st_mtime_ns):
        return None
    return known.sha256
