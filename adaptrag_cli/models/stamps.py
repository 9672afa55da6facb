"""What the models folder remembers besides the models: hashes of installed files, unfinished downloads, locks.

Hashing a gigabyte takes seconds, so a file is hashed once, when it is installed or verified, and a stamp keeps the hash
with the file's size and modification time. A file that still has both still has the hash.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from adaptrag_cli.errors import DownloadError
from adaptrag_cli.models.catalogue import CatalogueEntry

_MIB = 1 << 20
_STATE_FOLDER = ".state"
_STAGING_FOLDER = ".partial"

BY_HAND = "placed by hand"
"""Origin of a file that no source of ours brought."""


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


def unchanged_hash(stamp: Stamp, path: Path) -> str | None:
    """The remembered SHA-256 of a file whose size and time are still those of its stamp."""
    known = stamp.files.get(path.name)
    now = path.stat()
    if known is None or (known.size, known.mtime_ns) != (now.st_size, now.st_mtime_ns):
        return None
    return known.sha256


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


def _state_name(entry: CatalogueEntry) -> str:
    return entry.name.replace("/", "--")
