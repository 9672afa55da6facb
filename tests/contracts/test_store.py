"""What a `Store` promises, on a real local index of a small folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rank_bm25 import BM25Okapi

from adaptrag_cli.errors import ConfigError, IndexBusy, IndexCorrupt, IndexNotFound, IndexStale, RunCancelled
from adaptrag_cli.index import home
from adaptrag_cli.index.build import BuildOptions, build_index
from adaptrag_cli.index.dense import DenseIndex, write_vectors
from adaptrag_cli.index.durable import DurableFile
from adaptrag_cli.index.generation import DATA_FILES, VECTORS
from adaptrag_cli.index.local import LocalStore
from adaptrag_cli.index.lock import writer_lock
from adaptrag_cli.index.store import Freshness, Store
from adaptrag_cli.index.tokeniser import tokenise
from index_fakes import FINGERPRINT, HashEncoder, vector_of

DOCUMENTS = {
    "a.md": "# Lighthouse\n\nThe keeper of the lighthouse is Maren Tolke.\n",
    "b.txt": "The ferry leaves at seven. The ferry is called Solveig.\n",
    "c.txt": "Quiet time starts at nine in the evening.\n",
    "sub/d.txt": "Use pre-commit v2.1.3 before you push foo_bar.\n",
    "e.jsonl": '{"id": "one", "title": "Bakery", "text": "Rye bread on Fridays."}\n'
    '{"id": "two", "text": "The mill stands still."}\n',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    for name, text in DOCUMENTS.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


@pytest.fixture
def encoder(tmp_path: Path) -> HashEncoder:
    return HashEncoder(tmp_path / "encoder")


@pytest.fixture
def store(tmp_path: Path, folder: Path, encoder: HashEncoder) -> LocalStore:
    build_index(folder, name="docs", index_dir=tmp_path / "ix", encoder=encoder, options=BuildOptions())
    return home.open_index(tmp_path / "ix", "docs")


def test_it_is_a_store_that_knows_what_it_was_made_of(store: LocalStore, folder: Path) -> None:
    checked: Store = store
    assert (checked.name, checked.path, checked.chunk_count, checked.body_only) == ("docs", folder, 6, False)
    assert checked.encoder == FINGERPRINT
    assert re.fullmatch("[0-9a-f]{64}", checked.fingerprint)


def test_rows_stand_in_order_and_can_be_cited(store: LocalStore) -> None:
    chunks = [store.chunk(row) for row in range(store.chunk_count)]
    assert [chunk.chunk_id for chunk in chunks] == [
        "a.md#0", "b.txt#0", "c.txt#0", "e.jsonl#one#0", "e.jsonl#two#0", "sub/d.txt#0",
    ]  # fmt: skip
    assert [chunk.location for chunk in chunks][3:] == ["e.jsonl:1", "e.jsonl:2", "sub/d.txt:1"]
    assert chunks[3].title == "Bakery"
    with pytest.raises(IndexError):
        store.chunk(6)
    with pytest.raises(IndexError):
        store.chunk(-1)


def test_dense_search_finds_a_text_by_its_own_vector(store: LocalStore) -> None:
    for row in range(store.chunk_count):
        vector = vector_of(store.chunk(row).text_to_embed(body_only=False), salt="hash")
        hits = store.dense_search(vector, 3)
        assert hits[0].row == row
        assert hits[0].score == pytest.approx(1.0, abs=1e-6)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert store.vectors([row])[0].tolist() == vector.tolist()


def test_dense_scores_are_inner_products_in_float64(store: LocalStore) -> None:
    query = vector_of("any question")
    hits = store.dense_search(query, 100)
    assert len(hits) == store.chunk_count
    for hit in hits:
        expected = np.dot(store.vectors([hit.row])[0].astype(np.float64), query.astype(np.float64))
        assert hit.score == pytest.approx(expected, abs=1e-12)


def test_sparse_search_is_bm25_of_title_and_text(store: LocalStore) -> None:
    texts = [store.chunk(row).text_to_embed(body_only=False) for row in range(store.chunk_count)]
    oracle = BM25Okapi([tokenise(text) for text in texts])
    for question in ("When does the ferry leave?", "pre-commit", "v2.1.3", "foo_bar", "bakery", "at at at"):
        scores = oracle.get_scores(tokenise(question))
        expected = sorted((r for r in range(len(texts)) if scores[r] > 0), key=lambda r: (-scores[r], r))
        hits = store.sparse_search(question, 100)
        assert [(hit.row, hit.score) for hit in hits] == [(row, scores[row]) for row in expected]


@pytest.mark.parametrize("question", ["", "   ", "?!", "zebra"])
def test_a_query_that_matches_nothing_finds_nothing(store: LocalStore, question: str) -> None:
    assert store.sparse_search(question, 5) == ()


@pytest.mark.parametrize("n", [0, -1])
def test_no_hits_are_asked_for(store: LocalStore, n: int) -> None:
    assert store.dense_search(vector_of("x"), n) == ()
    assert store.sparse_search("ferry", n) == ()


def test_an_empty_index_answers_with_nothing(tmp_path: Path, encoder: HashEncoder) -> None:
    (tmp_path / "empty").mkdir()
    report = build_index(
        tmp_path / "empty", name="empty", index_dir=tmp_path / "ix", encoder=encoder, options=BuildOptions()
    )
    store = home.open_index(tmp_path / "ix", "empty")
    assert (report.chunks, store.chunk_count) == (0, 0)
    assert store.dense_search(vector_of("x"), 5) == store.sparse_search("x", 5) == ()
    assert store.vectors([]).shape == (0, 16)
    assert store.freshness() == Freshness()
    store.verify()


def test_equal_vectors_tie_by_row_wherever_they_stand(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((700, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    twins = [3, 17, 18, 64, 255, 256, 511, 698]
    vectors[twins] = vectors[3]
    with DurableFile(tmp_path / "v.faiss") as file:
        assert write_vectors(file, 16, [vectors[:300], vectors[300:]]) == 700
    index = DenseIndex((tmp_path / "v.faiss").read_bytes(), dimension=16, row_count=700)
    for n in range(1, 12):
        rows, scores = index.search(vectors[3], n)
        assert rows.tolist()[: len(twins)] == twins[:n]
        assert len(set(scores[: len(twins)].tolist())) == 1
    exact = vectors.astype(np.float64) @ vectors[100].astype(np.float64)
    expected = sorted(range(700), key=lambda row: (-exact[row], row))
    assert index.search(vectors[100], 50)[0].tolist() == expected[:50]


def test_stored_vectors_are_a_read_only_view_of_what_faiss_searches(store: LocalStore) -> None:
    import faiss

    view = store._dense.vectors
    assert view.ctypes.data == int(faiss.rev_swig_ptr(store._dense._index.get_xb(), 1).ctypes.data)
    with pytest.raises(ValueError, match="read-only"):
        view[0, 0] = 1.0


def test_freshness_names_what_differs(store: LocalStore, folder: Path) -> None:
    assert store.freshness() == Freshness()
    (folder / "b.txt").write_text("The ferry is gone.", encoding="utf-8")
    (folder / "c.txt").unlink()
    (folder / "new.md").write_text("# New\n\ntext", encoding="utf-8")
    os.utime(folder / "e.jsonl", ns=(1, 1))
    assert store.freshness() == Freshness(changed=("b.txt", "e.jsonl"), deleted=("c.txt",), added=("new.md",))


def test_a_folder_that_is_gone_is_told_apart_from_deleted_files(store: LocalStore, folder: Path) -> None:
    shutil.rmtree(folder)
    assert store.freshness() == Freshness(root_missing=True)
    assert not store.freshness().is_fresh


def test_a_line_that_left_its_corpus_is_a_deleted_document(store: LocalStore, folder: Path) -> None:
    lines = DOCUMENTS["e.jsonl"].splitlines(keepends=True)
    (folder / "e.jsonl").write_text(lines[1], encoding="utf-8")
    assert store.freshness() == Freshness(changed=("e.jsonl",), deleted_documents=("e.jsonl#one",))
    (folder / "e.jsonl").write_text("not a corpus any more", encoding="utf-8")
    assert store.freshness().deleted_documents == ("e.jsonl#one", "e.jsonl#two")
    (folder / "e.jsonl").write_text(lines[1] + lines[0] + '{"id": "three", "text": "New."}\n', encoding="utf-8")
    assert store.freshness() == Freshness(changed=("e.jsonl",))


def test_a_line_without_an_id_is_known_by_its_text(tmp_path: Path, encoder: HashEncoder) -> None:
    corpus = tmp_path / "corpus.jsonl"
    lines = [f'{{"text": "Secret number {number}."}}\n' for number in range(4)]
    corpus.write_text("".join(lines), encoding="utf-8")
    build_index(corpus, name="corpus", index_dir=tmp_path / "ix", encoder=encoder, options=BuildOptions())
    corpus.write_text("".join(lines[:1] + lines[2:]), encoding="utf-8")
    assert home.open_index(tmp_path / "ix", "corpus").freshness() == Freshness(
        changed=("corpus.jsonl",), deleted_documents=("line-2",)
    )


def test_a_reader_goes_on_when_its_generation_is_replaced_and_removed(
    store: LocalStore, tmp_path: Path, folder: Path, encoder: HashEncoder
) -> None:
    (folder / "b.txt").unlink()
    build_index(folder, name="docs", index_dir=tmp_path / "ix", encoder=encoder, options=BuildOptions())
    home.remove_index(tmp_path / "ix", "docs")
    assert store.chunk(1).text.startswith("The ferry")
    assert store.sparse_search("ferry", 1)[0].row == 1
    assert store.dense_search(store.vectors([1])[0], 1)[0].row == 1


def test_opening_imports_neither_faiss_nor_a_model_library(store: LocalStore, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from adaptrag_cli.index.home import open_index;"
        f"open_index(Path({str(tmp_path / 'ix')!r}), 'docs').sparse_search('ferry', 3);"
        "print(sorted({'faiss', 'torch', 'onnxruntime', 'tokenizers', 'rank_bm25'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("name", DATA_FILES)
def test_verify_names_the_file_in_which_a_bit_is_flipped(store: LocalStore, tmp_path: Path, name: str) -> None:
    path = tmp_path / "ix/docs/generations/g000001" / name
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(IndexCorrupt, match=re.escape(name)) as caught:
        home.verify_index(tmp_path / "ix", "docs")
    assert "adaptrag index" in caught.value.hint


@pytest.mark.parametrize("name", DATA_FILES)
@pytest.mark.parametrize("damage", ["shorter", "missing", "other header"])
def test_a_damaged_file_is_an_error_of_ours_and_never_a_crash(
    store: LocalStore, tmp_path: Path, name: str, damage: str
) -> None:
    path = tmp_path / "ix/docs/generations/g000001" / name
    data = path.read_bytes()
    if damage == "shorter":
        path.write_bytes(data[:-1])
    elif damage == "missing":
        path.unlink()
    else:
        path.write_bytes(b"\xff" * min(80, len(data)) + data[80:])
    with pytest.raises(IndexCorrupt, match=re.escape(name)):  # noqa: PT012 - sizes at open, headers at first use
        opened = home.open_index(tmp_path / "ix", "docs")
        opened.dense_search(vector_of("x"), 3)
        opened.chunk(0)
        opened.verify()


def test_every_flipped_header_byte_of_the_vectors_is_found(store: LocalStore, tmp_path: Path) -> None:
    path = tmp_path / "ix/docs/generations/g000001" / VECTORS
    data = path.read_bytes()
    for position in range(45):
        path.write_bytes(data[:position] + bytes([data[position] ^ 0x41]) + data[position + 1 :])
        with pytest.raises(IndexCorrupt, match=re.escape(VECTORS)):
            home.verify_index(tmp_path / "ix", "docs")


@pytest.mark.parametrize("content", [b"", b"g000001\n", b"../../x manifest-1.json " + b"0" * 64 + b"\n", b"\xff\xfe\n"])
def test_a_damaged_current_file_is_told(store: LocalStore, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ix/docs/CURRENT").write_bytes(content)
    with pytest.raises(IndexCorrupt, match="CURRENT is damaged"):
        home.open_index(tmp_path / "ix", "docs")


def test_a_manifest_that_was_edited_is_told(store: LocalStore, tmp_path: Path) -> None:
    path = tmp_path / "ix/docs/generations/g000001/manifest-1.json"
    path.write_bytes(path.read_bytes().replace(b'"dimension": 16', b'"dimension": 17'))
    with pytest.raises(IndexCorrupt, match="fails its checksum"):
        home.open_index(tmp_path / "ix", "docs")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"file_sha256": "1" * 64}, "file sha256 is '000000000000...', not '111111111111...'"),
        ({"max_length": 128}, "max length is '64', not '128'"),
        ({"document_prefix": "passage: "}, "document prefix is '', not 'passage: '"),
        ({"backend": "sentence-transformers/6.2"}, "backend is 'hash/1', not 'sentence-tra...'"),
    ],
)
def test_another_encoder_is_refused_in_one_line_with_the_command(
    store: LocalStore, folder: Path, changes: dict[str, object], said: str
) -> None:
    home.check_encoder(store, FINGERPRINT)
    with pytest.raises(IndexStale) as caught:
        home.check_encoder(store, replace(FINGERPRINT, **changes))
    assert caught.value.message == f"index 'docs' was made with encoder hash, whose {said}"
    command = f"adaptrag index {folder} --name docs --index-dir {store.folder.parent} --encoder hash"
    assert caught.value.hint == f"bring it up to date with: {command}"


@pytest.mark.parametrize(
    ("owner", "constant", "said"),
    [
        ("tokeniser", "TOKENISER_VERSION", "with version 1 of the tokeniser, this adaptrag has version 77"),
        ("chunker", "CHUNKER_VERSION", "with version 1 of the chunker, this adaptrag has version 77"),
    ],
)
def test_an_index_of_another_version_of_our_code_is_refused(
    store: LocalStore, folder: Path, monkeypatch: pytest.MonkeyPatch, owner: str, constant: str, said: str
) -> None:
    monkeypatch.setattr(home, constant, 77 if owner == "tokeniser" else "77")
    with pytest.raises(IndexStale) as caught:
        home.check_encoder(store, FINGERPRINT)
    assert caught.value.message == f"index 'docs' was made {said}"
    assert caught.value.hint == f"bring it up to date with: {store.index_command()}"
    assert f"adaptrag index {folder} --name docs" in caught.value.hint


def test_other_chunk_options_are_the_indexes_own(tmp_path: Path, folder: Path, encoder: HashEncoder) -> None:
    options = BuildOptions(chunk_tokens=32, overlap=3, body_only=True)
    build_index(folder, name="small", index_dir=tmp_path / "ix", encoder=encoder, options=options)
    home.check_encoder(home.open_index(tmp_path / "ix", "small"), FINGERPRINT)


def test_the_command_says_what_differs_from_what_it_does_by_itself(
    tmp_path: Path, folder: Path, encoder: HashEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(index_dir: Path, **options: object) -> str:
        build_index(folder, name="docs", index_dir=index_dir, encoder=encoder, options=BuildOptions(**options))
        return home.open_index(index_dir, "docs").index_command().removeprefix(f"adaptrag index {folder} --name docs")

    usual, other = tmp_path / "indexes", tmp_path / "other indexes"
    assert command(usual, overlap=8) == " --encoder hash --overlap 8"
    assert command(usual, chunk_tokens=40) == " --encoder hash --chunk-tokens 40"
    assert command(other) == f" --index-dir '{other}' --encoder hash"
    monkeypatch.setenv("ADAPTRAG_INDEX_DIR", str(other))
    assert command(other) == " --encoder hash"
    assert command(usual) == f" --index-dir {usual} --encoder hash"
    encoder.fingerprint = replace(encoder.fingerprint, document_prefix="passage: ")
    assert command(other) == " --encoder hash --prefixes"


def test_the_command_for_a_broken_index_names_its_folder(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "ix/docs/CURRENT").write_text("?")
    with pytest.raises(IndexCorrupt) as caught:
        home.open_index(tmp_path / "ix", "docs")
    assert caught.value.hint == (
        f"make it anew with: adaptrag index PATH --name docs --index-dir {tmp_path / 'ix'} --rebuild"
    )


def test_choosing_an_index(store: LocalStore, tmp_path: Path, folder: Path, encoder: HashEncoder) -> None:
    index_dir = tmp_path / "ix"
    assert home.choose_index(index_dir, None) == home.choose_index(index_dir, "docs") == "docs"
    with pytest.raises(IndexNotFound, match="there is no index 'dcos'") as caught:
        home.choose_index(index_dir, "dcos")
    assert caught.value.hint == "there is: docs"
    with pytest.raises(IndexNotFound) as caught:
        home.choose_index(tmp_path / "nothing", None)
    assert caught.value.hint == "make one with: adaptrag index PATH"
    build_index(folder, name="again", index_dir=index_dir, encoder=encoder, options=BuildOptions())
    with pytest.raises(ConfigError, match="there are several indexes: again, docs"):
        home.choose_index(index_dir, None)


def test_summaries_and_removal(store: LocalStore, tmp_path: Path, folder: Path) -> None:
    index_dir = tmp_path / "ix"
    (summary,) = home.list_indexes(index_dir)
    assert (summary.name, summary.path, summary.documents, summary.chunks) == ("docs", str(folder), 6, 6)
    (index_dir / "docs/CURRENT").write_text("?")
    assert "damaged" in home.list_indexes(index_dir)[0].problem
    home.remove_index(index_dir, "docs")
    assert home.list_indexes(index_dir) == ()
    assert not (index_dir / "docs").exists()
    with pytest.raises(IndexNotFound):
        home.remove_index(index_dir, "docs")


def test_what_an_interrupted_first_run_left_is_listed_and_removed(
    store: LocalStore, tmp_path: Path, folder: Path, encoder: HashEncoder
) -> None:
    index_dir = tmp_path / "ix"
    encoder.texts.clear()
    with pytest.raises(RunCancelled):
        build_index(
            folder,
            name="cut",
            index_dir=index_dir,
            encoder=encoder,
            options=BuildOptions(body_only=True),
            should_stop=lambda: bool(encoder.texts),
        )
    (index_dir / "thesis").mkdir()
    assert home.index_names(index_dir) == ("docs",)
    assert home.unfinished_names(index_dir) == ("cut",)
    cut, docs = home.list_indexes(index_dir)
    assert (cut.name, docs.name, docs.problem) == ("cut", "docs", "")
    assert cut.problem == "not finished: index the same folder again to continue, or: adaptrag indexes remove cut"
    assert cut.bytes > 0
    with writer_lock(index_dir, "cut"), pytest.raises(IndexBusy):
        home.remove_index(index_dir, "cut")
    home.remove_index(index_dir, "cut")
    assert not (index_dir / "cut").exists()
    with pytest.raises(IndexNotFound):
        home.remove_index(index_dir, "thesis")


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\\b", ".hidden", "-x", "x" * 65, "a\nb"])
def test_a_name_cannot_leave_the_folder(tmp_path: Path, name: str) -> None:
    for use in (home.open_index, home.remove_index):
        with pytest.raises(ConfigError, match="cannot name an index"):
            use(tmp_path, name)


def test_the_default_name_is_the_folders_unless_another_folder_has_it(store: LocalStore, tmp_path: Path) -> None:
    index_dir = tmp_path / "ix"
    assert home.default_name(index_dir, tmp_path / "docs") == "docs"
    for name, expected in {"My Notes (2024)": "my-notes-2024", "...": "index", "Übung": "übung"}.items():
        (tmp_path / "x" / name).mkdir(parents=True)
        assert home.default_name(index_dir, tmp_path / "x" / name) == expected
    (tmp_path / "x/corpus.jsonl").write_text("{}")
    assert home.default_name(index_dir, tmp_path / "x/corpus.jsonl") == "corpus"
    (tmp_path / "x/docs").mkdir()
    with pytest.raises(ConfigError, match="already holds"):
        home.default_name(index_dir, tmp_path / "x/docs")
