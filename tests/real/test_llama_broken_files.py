"""Files that are not usable models: one clear line each, and never the end of this process."""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path

import msgspec
import pytest

from adaptrag_cli import locations
from adaptrag_cli.errors import ModelError, ModelNotFound
from adaptrag_cli.models import gguf_check
from adaptrag_cli.models.gguf_check import check_gguf
from adaptrag_cli.models.llama import load_llama

HEADER_BYTES = 8 << 20
"""More than the metadata and tensor table of the small model."""


@pytest.fixture
def hollow_model(small_llm_path: Path, tmp_path: Path) -> Path:
    """The small model with all its weights zero: a sparse file that takes 8 MiB of disk."""
    path = tmp_path / "hollow.gguf"
    with small_llm_path.open("rb") as source:
        path.write_bytes(source.read(HEADER_BYTES))
    os.truncate(path, small_llm_path.stat().st_size)
    return path


def overwrite(path: Path, old: bytes, new: bytes) -> None:
    """Replace the first place where the header holds `old`."""
    assert len(old) == len(new)
    with path.open("r+b") as file:
        at = file.read(HEADER_BYTES).index(old)
        file.seek(at)
        file.write(new)


def test_a_missing_file(tmp_path: Path):
    with pytest.raises(ModelNotFound, match="no model file .*none.gguf"):
        check_gguf(tmp_path / "none.gguf", trusted=False)


def test_a_folder(tmp_path: Path):
    with pytest.raises(ModelError, match="is a folder, not a file"):
        check_gguf(tmp_path, trusted=True)


def test_a_pipe_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(ModelError, match="not a regular file"):
        check_gguf(tmp_path / "pipe.gguf", trusted=False)


@pytest.mark.parametrize("content", [b"", b"GGU", b"just some text\n"])
def test_a_file_that_only_has_the_name(tmp_path: Path, content: bytes):
    path = tmp_path / "text.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="text.gguf is not a GGUF file") as caught:
        load_llama(path, name="text", fingerprint="", trusted=False)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("rest", [b"", b"\x03\x00\x00\x00", b"\xff" * 64])
@pytest.mark.parametrize("trusted", [True, False])
def test_a_file_that_ends_in_its_header(tmp_path: Path, rest: bytes, trusted: bool):
    path = tmp_path / "stump.gguf"
    path.write_bytes(b"GGUF" + rest)
    with pytest.raises(ModelError, match="stump.gguf cannot be loaded: .+") as caught:
        load_llama(path, name="stump", fingerprint="", trusted=trusted)
    assert "\n" not in caught.value.message


@pytest.mark.small_model
def test_a_truncated_model(hollow_model: Path):
    os.truncate(hollow_model, hollow_model.stat().st_size // 2)
    with pytest.raises(ModelError, match="hollow.gguf cannot be loaded: .*(corrupted|incomplete|bounds)"):
        load_llama(hollow_model, name="hollow", fingerprint="", trusted=False)


@pytest.mark.small_model
def test_an_architecture_that_the_runtime_does_not_know(hollow_model: Path):
    overwrite(hollow_model, struct.pack("<Q", 5) + b"qwen2", struct.pack("<Q", 5) + b"qwexx")
    with pytest.raises(ModelError, match="unknown model architecture: 'qwexx'"):
        load_llama(hollow_model, name="hollow", fingerprint="", trusted=False)


@pytest.mark.small_model
@pytest.mark.parametrize("blocks", [0, 3, 99_999])
def test_an_impossible_number_of_blocks_ends_a_child_process_at_most(hollow_model: Path, blocks: int):
    key = b"qwen2.block_count" + struct.pack("<I", 4)
    overwrite(hollow_model, key + struct.pack("<I", 24), key + struct.pack("<I", blocks))
    with pytest.raises(ModelError, match="hollow.gguf cannot be loaded: ") as caught:
        load_llama(hollow_model, name="hollow", fingerprint="", trusted=False)
    assert "\n" not in caught.value.message
    assert not list(Path.cwd().glob("core*"))


@pytest.mark.small_model
def test_a_file_that_loads_is_probed_once(hollow_model: Path, monkeypatch: pytest.MonkeyPatch):
    probed = []
    probe = gguf_check.probe_gguf
    monkeypatch.setattr(gguf_check, "probe_gguf", lambda path, adapter: (probed.append(path), probe(path)))
    model = load_llama(hollow_model, name="hollow", fingerprint="", trusted=False, context_length=64, threads=1)
    try:
        # All weights are zero, so all logits are equal: H = ln V and the smallest id wins.
        token = next(model.generate(model.build_prompt("x"), max_tokens=1))
        assert token.id == 0
        assert token.entropy == pytest.approx(math.log(151_936), rel=1e-6)
    finally:
        model.close()
    link = hollow_model.with_name("link.gguf")
    link.symlink_to(hollow_model)
    check_gguf(link, trusted=False)
    assert probed == [hollow_model]
    os.utime(hollow_model, ns=(0, 0))
    monkeypatch.setattr(gguf_check, "probe_gguf", _refuse)
    with pytest.raises(ModelError, match="changed"):
        check_gguf(hollow_model, trusted=False)
    memory = msgspec.json.decode((locations.user_data_dir() / "gguf-checks.json").read_bytes())
    assert list(memory) == [str(hollow_model.resolve())]


def _refuse(path: Path, adapter: Path | None) -> None:
    raise ModelError(f"{path} changed")
