"""What the models folder remembers besides the models: hashes of installed files, unfinished downloads, locks.

Hashing a gigabyte takes seconds, so a file is hashed once, when it is installed or verified, and a stamp keeps the hash
with the file's size and modification time. A file that still has both still has the hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from adaptrag_cli.disk import only_process, replace_durably, sha256_of
from adaptrag_cli.errors import DownloadError
from adaptrag_cli.models.catalogue import CatalogueEntry
from adaptrag_cli.models.reading import reading

_MIB = 1 << 20
_STATE_FOLDER = ".state"
_STAGING_FOLDER = ".partial"

BY_HAND = "placed by hand"
"""Origin of a file that no source of ours brought."""


class FileHash(msgspec.Struct, frozen=True, kw_only=True):
    """What one file was when it was hashed."""

    size: int
    mtime_ns: int
    sha256: str


class Stamp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is remembered of an installed model."""

    files: dict[str, FileHash]
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
    replace_durably(path, msgspec.json.format(msgspec.json.encode(stamp)))


def stamp_of(path: Path) -> FileHash:
    """Hash one file and note its size and time; renaming it later changes none of them.

    Raises:
        ModelError: it is not a file that can be read.
    """
    with reading(path):
        before = path.stat()
        return FileHash(size=before.st_size, mtime_ns=before.st_mtime_ns, sha256=sha256_of(path))


def unchanged_hash(stamp: Stamp, path: Path) -> str | None:
    """The remembered SHA-256 of a file whose size and time are still those of its stamp."""
    known = stamp.files.get(path.name)
    now = path.stat()
    if known is None or (known.size, known.mtime_ns) != (now.st_size, now.st_mtime_ns):
        return None
    return known.sha256


def partial_fingerprint(path: Path) -> str:
    """Fingerprint a file by its size and its first and last mebibyte, in milliseconds.

    Raises:
        ModelError: it is not a file that can be read.
    """
    with reading(path), path.open("rb") as stream:
        size = path.stat().st_size
        digest = hashlib.sha256(size.to_bytes(8, "little"))
        digest.update(stream.read(_MIB))
        stream.seek(max(0, size - _MIB))
        digest.update(stream.read(_MIB))
    return f"partial:{digest.hexdigest()}"


@contextmanager
def pull_lock(entry: CatalogueEntry, models_dir: Path) -> Iterator[None]:
    """Keep two processes from writing the same model.

    Raises:
        DownloadError: another process holds the lock; names its process id.
    """

    def busy(pid: str) -> DownloadError:
        return DownloadError(
            f"{entry.name} is being pulled or removed by another process (pid {pid})", "wait for it, or stop it"
        )

    with only_process(models_dir / _STATE_FOLDER, _state_name(entry), busy):
        yield


def _state_name(entry: CatalogueEntry) -> str:
    return entry.name.replace("/", "--")
