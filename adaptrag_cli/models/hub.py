"""Model files from the model hub, with the hash that the hub's own metadata gives for each file.

Downloads are plain ranged requests into files named by their content hash, so an interrupted one continues in any later
process and never mixes two versions. `HF_ENDPOINT` and `HF_TOKEN` are respected.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from adaptrag_cli.disk import flush_to_disk, sha256_of
from adaptrag_cli.errors import DownloadError
from adaptrag_cli.models.catalogue import WEIGHTS_FILE, CatalogueEntry, HubSource
from adaptrag_cli.models.files import disk_use
from adaptrag_cli.models.sources import Fetched, OnProgress, Progress, check_disk_space, is_wanted, safe_relative

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

_TIMEOUT_SECONDS = 30


@dataclass(frozen=True, kw_only=True)
class _HubFile:
    name: str
    size: int
    sha256: str | None
    """From the LFS metadata; small files have none."""
    blob_id: str
    """SHA-1 of the git blob."""

    @property
    def key(self) -> str:
        return self.sha256 or self.blob_id


def fetch_from_hub(entry: CatalogueEntry, source: HubSource, staging: Path, on_progress: OnProgress) -> Fetched:
    """Fetch an entry's file or folder, continuing where an earlier try stopped, and compare every hash.

    Raises:
        DownloadError: the hub is out of reach, lacks the file, wants a token, or sent other bytes than it announced.
    """
    whole, parts = staging / "hub-whole", staging / "hub-parts"
    with _hub_errors(source.repo):
        commit, files = _list_files(entry, source)
        total = sum(file.size for file in files)
        check_disk_space(staging, max(0, total - disk_use(whole) - disk_use(parts)), entry.name)
        parts.mkdir(exist_ok=True)
        done = 0
        for file in files:

            def report(arrived: int, done: int = done, note: str = file.name) -> None:
                on_progress(Progress(name=entry.name, done_bytes=done + arrived, total_bytes=total, note=note))

            _download(source.repo, commit, file, parts / file.key, whole / file.name, report)
            done += file.size
    _drop_others(whole, {file.name for file in files})
    origin = f"model hub, commit {commit}"
    if source.file is not None:
        return Fetched(path=whole / source.file, origin=origin, checked={entry.file: files[0].key})
    return Fetched(path=whole, origin=origin, checked={file.name: file.sha256 for file in files if file.sha256})


def _list_files(entry: CatalogueEntry, source: HubSource) -> tuple[str, list[_HubFile]]:
    from huggingface_hub import HfApi

    api = HfApi(endpoint=_endpoint())
    info = api.model_info(source.repo, revision=source.revision, files_metadata=True, timeout=_TIMEOUT_SECONDS)
    files = [file for file in _described(info, source.repo) if _belongs(file.name, source)]
    weights = source.file or WEIGHTS_FILE
    main = next((file for file in files if file.name == weights), None)
    if main is None or not info.sha:
        raise DownloadError(f"{source.repo} on the hub has no {weights}")
    if main.sha256 is None:
        raise DownloadError(f"the hub gives no hash for {weights} of {source.repo}")
    if entry.sha256 not in (None, main.sha256):
        raise DownloadError(f"{weights} of {source.repo} has SHA-256 {main.sha256}, the catalogue says {entry.sha256}")
    return info.sha, files


def _described(info: ModelInfo, repo: str) -> Iterator[_HubFile]:
    for sibling in info.siblings or ():
        name = str(safe_relative(sibling.rfilename, where=f"{repo} on the hub"))
        if sibling.size is None or sibling.blob_id is None:
            continue
        sha256 = sibling.lfs.sha256 if sibling.lfs else None
        for digest in (sha256, sibling.blob_id):  # they become file names
            if digest is not None and not all(c in "0123456789abcdef" for c in digest):
                raise DownloadError(f"the hub gives a malformed hash for {name!r} of {repo}")
        yield _HubFile(name=name, size=sibling.size, sha256=sha256, blob_id=sibling.blob_id)


def _belongs(name: str, source: HubSource) -> bool:
    return name == source.file if source.file else is_wanted(name)


def _download(
    repo: str, commit: str, file: _HubFile, part: Path, target: Path, on_bytes: Callable[[int], None]
) -> None:
    """Make `target` the announced file; `part` grows until it is whole."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # exported, but not in __all__

    if target.is_file() and _key_of(target, file) == file.key:
        on_bytes(file.size)
        return
    have = part.stat().st_size if part.exists() else 0
    if have != file.size:
        url = hf_hub_url(repo, file.name, revision=commit, endpoint=_endpoint())
        with _quiet_hub(), _Reported(part, on_bytes, restart=have > file.size) as out:
            http_get(url, out, resume_size=out.tell(), headers=build_hf_headers(), expected_size=file.size)
            flush_to_disk(out)
    found = _key_of(part, file)
    if found != file.key:
        part.unlink()
        raise DownloadError(f"{file.name} of {repo} arrived with hash {found}, the hub announced {file.key}")
    target.parent.mkdir(parents=True, exist_ok=True)
    part.replace(target)


def _drop_others(folder: Path, names: set[str]) -> None:
    for path in [p for p in folder.rglob("*") if p.is_file()]:
        if path.relative_to(folder).as_posix() not in names:
            path.unlink()


class _Reported(io.BufferedRandom):
    """A file, continued at its end, that tells its length after every write."""

    def __init__(self, path: Path, on_bytes: Callable[[int], None], *, restart: bool) -> None:
        path.touch()
        super().__init__(io.FileIO(path, "r+b"))
        if restart:
            self.truncate(0)
        self.seek(0, os.SEEK_END)
        self._on_bytes = on_bytes

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        written = super().write(data)
        self._on_bytes(self.tell())
        return written


def _key_of(path: Path, file: _HubFile) -> str:
    if file.sha256:
        return sha256_of(path)
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None


@contextmanager
def _quiet_hub() -> Iterator[None]:
    """Keep the library's own bars and retry messages off the terminal, which shows ours."""
    from huggingface_hub.utils import (  # type: ignore[attr-defined]  # exported, but not in __all__
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    logger = logging.getLogger("huggingface_hub")
    level, were_disabled = logger.level, are_progress_bars_disabled()
    logger.setLevel(logging.ERROR)
    disable_progress_bars()
    try:
        yield
    finally:
        logger.setLevel(level)
        if not were_disabled:
            enable_progress_bars()


@contextmanager
def _hub_errors(repo: str) -> Iterator[None]:
    """Turn what the hub library and its HTTP client raise into one plain line."""
    from huggingface_hub import constants, errors

    # Else the library asks its default host, whatever HF_ENDPOINT says, how to report who is asking.
    constants.HF_HUB_DISABLE_TELEMETRY = True
    # The base of all errors of the HTTP client, which is another package in each major version of huggingface_hub.
    transport = cast("type[Exception]", errors.HfHubHTTPError.__bases__[0])
    try:
        yield
    except errors.OfflineModeIsEnabled as error:
        raise DownloadError("the hub is switched off by HF_HUB_OFFLINE") from error
    except errors.GatedRepoError as error:
        raise DownloadError(f"{repo} wants its licence accepted on the hub, and HF_TOKEN set") from error
    except errors.RepositoryNotFoundError as error:
        raise DownloadError(f"the hub has no repository {repo}, or it is private") from error
    except (errors.RevisionNotFoundError, errors.EntryNotFoundError) as error:
        raise DownloadError(f"{repo} on the hub has no such revision or file") from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        raise DownloadError(f"the hub answered {status} for {repo}") from error
    except transport as error:
        raise DownloadError(f"the hub cannot be reached ({type(error).__name__})") from error
    except OSError as error:
        cause = error.strerror or "fewer bytes than announced"
        raise DownloadError(f"the download of {repo} broke off: {cause}") from error
