"""Models that are here already: placed by hand, copied with --from, found offline, verified, removed."""

from __future__ import annotations

import os
import socket
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from adaptrag_cli.errors import DownloadError, ModelError, ModelNotFound
from adaptrag_cli.models import catalogue
from adaptrag_cli.models.catalogue import CatalogueEntry, HubSource, PackageSource
from adaptrag_cli.models.download import ensure_models, pull
from adaptrag_cli.models.files import describe_installed, is_installed, locate_model, locate_reranker, remove, verify
from adaptrag_cli.models.sources import Progress
from adaptrag_cli.models.stamps import pull_lock
from model_servers import sha256

GGUF = b"GGUF" + bytes(3_000_000)
ENTRY = CatalogueEntry(
    name="tiny",
    kind="answer",
    licence="Apache-2.0",
    purpose="test",
    file="tiny.gguf",
    size_bytes=len(GGUF),
    sha256=sha256(GGUF),
    sources=(PackageSource(package="tiny", version="1", member="a"), HubSource(repo="someone/tiny", file="a")),
)
RERANKER = CatalogueEntry(
    name="tiny-reranker",
    kind="reranker",
    licence="MIT",
    purpose="test",
    file="Tiny-Reranker",
    sources=(HubSource(repo="someone/tiny-reranker"),),
)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse sockets and child processes (pip is one)."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("tried to leave the process")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(subprocess, "Popen", refuse)


@pytest.fixture
def in_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (catalogue, __import__("adaptrag_cli.models.files", fromlist=["files"])):
        monkeypatch.setattr(module, "ENTRIES", (ENTRY, RERANKER))


def nothing(_: Progress) -> None:
    pass


@pytest.mark.usefixtures("offline", "in_catalogue")
def test_with_everything_present_nothing_leaves_the_process(models: Path, tmp_path: Path) -> None:
    (models / "tiny.gguf").write_bytes(GGUF)
    folder = models / "Tiny-Reranker"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    assert [model.verified for model in ensure_models(["tiny", "tiny-reranker"], models)] == [True, False]
    assert locate_model("tiny", models).verified
    assert locate_reranker("tiny-reranker", models).folder == folder
    assert verify(ENTRY, models).verified
    assert [model.path for model in ensure_models(["tiny", "tiny-reranker"], models)] == [models / "tiny.gguf", folder]


@pytest.mark.usefixtures("offline")
def test_a_file_placed_by_hand_is_used_at_once_and_hashed_only_by_pull(models: Path) -> None:
    (models / "tiny.gguf").write_bytes(GGUF)
    before = describe_installed(ENTRY, models)
    assert not before.verified
    # Size as 8 bytes, first mebibyte, last mebibyte.
    expected = sha256(len(GGUF).to_bytes(8, "little") + GGUF[: 1 << 20] + GGUF[-(1 << 20) :])
    assert before.fingerprint == f"partial:{expected}"
    assert pull(ENTRY, models, nothing).fingerprint == f"sha256:{sha256(GGUF)}"
    assert describe_installed(ENTRY, models).verified


def test_a_stamp_holds_only_as_long_as_size_and_time(models: Path) -> None:
    path = models / "tiny.gguf"
    path.write_bytes(GGUF)
    pull(ENTRY, models, nothing)
    os.utime(path, ns=(1, 1))
    assert not describe_installed(ENTRY, models).verified


@pytest.mark.usefixtures("offline")
def test_a_local_file_is_copied_and_checked(models: Path, tmp_path: Path) -> None:
    given = tmp_path / "Downloads.gguf"
    given.write_bytes(GGUF)
    seen: list[Progress] = []
    model = pull(ENTRY, models, seen.append, given)
    assert model.path.read_bytes() == GGUF
    assert model.verified
    assert given.exists()
    assert Progress(name="tiny", done_bytes=len(GGUF), total_bytes=len(GGUF), note="copying Downloads.gguf") in seen


@pytest.mark.usefixtures("offline")
def test_a_wrong_local_file_is_refused_with_both_hashes_and_leaves_the_good_one(models: Path, tmp_path: Path) -> None:
    (models / "tiny.gguf").write_bytes(GGUF)
    pull(ENTRY, models, nothing)
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"GGUF")
    with pytest.raises(DownloadError) as caught:
        pull(ENTRY, models, nothing, wrong)
    assert sha256(b"GGUF") in caught.value.message
    assert sha256(GGUF) in caught.value.message
    assert describe_installed(ENTRY, models).verified
    assert not (models / ".partial" / "tiny").exists()


@pytest.mark.usefixtures("offline")
def test_a_local_folder_replaces_the_one_that_is_there(models: Path, tmp_path: Path) -> None:
    for version in (b"old", b"new"):
        given = tmp_path / version.decode()
        (given / "1_Pooling").mkdir(parents=True)
        (given / "model.safetensors").write_bytes(version)
        (given / "1_Pooling" / "config.json").write_bytes(b"{}")
        (given / "evil.py").write_bytes(b"")
        model = pull(RERANKER, models, nothing, given)
    assert (model.path / "model.safetensors").read_bytes() == b"new"
    assert not (model.path / "evil.py").exists()
    assert not model.verified  # nobody published a hash to compare with
    assert model.fingerprint == f"sha256:{sha256(b'new')}"
    assert not (models / ".partial" / "tiny-reranker").exists()


def test_a_missing_local_file_is_told(models: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"no file .*nowhere\.gguf"):
        pull(ENTRY, models, nothing, tmp_path / "nowhere.gguf")


def test_verify_finds_a_flipped_bit_and_forgets_the_stamp(models: Path) -> None:
    path = models / "tiny.gguf"
    path.write_bytes(GGUF)
    pull(ENTRY, models, nothing)
    time = path.stat().st_mtime_ns
    flipped = GGUF[:-1] + b"\x01"
    path.write_bytes(flipped)
    os.utime(path, ns=(time, time))  # hidden from the stamp
    assert describe_installed(ENTRY, models).verified
    with pytest.raises(ModelError) as caught:
        verify(ENTRY, models)
    assert sha256(flipped) in caught.value.message
    assert sha256(GGUF) in caught.value.message
    assert not describe_installed(ENTRY, models).verified


def test_verify_compares_every_file_of_a_folder(models: Path, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / "model.safetensors").write_bytes(b"weights")
    (given / "tokenizer.json").write_bytes(b"{}")
    pull(RERANKER, models, nothing, given)
    (models / "Tiny-Reranker" / "tokenizer.json").write_bytes(b"[]")
    with pytest.raises(ModelError, match=r"tokenizer\.json has SHA-256"):
        verify(RERANKER, models)
    (models / "Tiny-Reranker" / "tokenizer.json").unlink()
    pull(RERANKER, models, nothing, given)
    assert verify(RERANKER, models).fingerprint == f"sha256:{sha256(b'weights')}"


def test_remove_deletes_files_stamp_and_unfinished_parts(models: Path) -> None:
    (models / "tiny.gguf").write_bytes(GGUF)
    pull(ENTRY, models, nothing)
    unfinished = models / ".partial" / "tiny"
    unfinished.mkdir(parents=True)
    (unfinished / "joined").write_bytes(bytes(10))
    assert remove(ENTRY, models) == len(GGUF) + 10
    assert not is_installed(ENTRY, models)
    assert not unfinished.exists()
    with pytest.raises(ModelNotFound):
        remove(ENTRY, models)


def test_remove_does_not_disturb_a_pull(models: Path) -> None:
    (models / "tiny.gguf").write_bytes(GGUF)
    with pull_lock(ENTRY, models), pytest.raises(DownloadError, match=rf"pid {os.getpid()}"):
        remove(ENTRY, models)
    assert is_installed(ENTRY, models)


def test_a_folder_in_the_place_of_a_file_is_not_thrown_away(models: Path) -> None:
    (models / "tiny.gguf").mkdir()
    with pytest.raises(ModelError, match="is a folder, and tiny is a file"):
        pull(replace(ENTRY, sources=()), models, nothing)
