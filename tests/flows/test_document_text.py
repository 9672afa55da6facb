"""A document is put together again from the chunks of its index, with every character in its place."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adaptrag_cli.documents.base import Document
from adaptrag_cli.documents.chunking import Chunker
from adaptrag_cli.errors import IndexCorrupt, IndexNotFound
from adaptrag_cli.index import home
from adaptrag_cli.index.build import BuildOptions, build_index
from adaptrag_cli.index.document_text import join_chunks, read_document
from adaptrag_cli.index.generation import CATALOGUE, CHUNKS
from adaptrag_cli.index.local import LocalStore
from adaptrag_cli.index.manifest import GENERATIONS
from index_fakes import HashEncoder, write_tokenizer


def indexed(base: Path, name: str, text: str, **options: object) -> LocalStore:
    """An index of one file; chunks have at most 16 words and overlap by 4 unless told otherwise."""
    docs = base / "docs"
    docs.mkdir(exist_ok=True)
    (docs / name).write_bytes(text.encode())
    encoder = HashEncoder(base / "encoder")
    sizes = {"chunk_tokens": 16, "overlap": 4, **options}
    build_index(docs, name="docs", index_dir=base / "ix", encoder=encoder, options=BuildOptions(**sizes))
    return home.open_index(base / "ix", "docs")


def numbered(words: int) -> str:
    """Paragraphs of ten numbered words."""
    lines = [" ".join(f"w{n:03}" for n in range(i, min(i + 10, words))) for i in range(0, words, 10)]
    return "\n\n".join(lines)


def test_text_between_chunks_is_as_it_was(tmp_path: Path) -> None:
    text = numbered(200)
    document = read_document(indexed(tmp_path, "a.txt", text), "a.txt#3")
    assert document.text == text
    assert (document.start, document.is_cut_before, document.is_cut_after) == (0, False, False)


def test_the_chunk_is_marked_where_it_stands(tmp_path: Path) -> None:
    store = indexed(tmp_path, "a.txt", numbered(200))
    chunk = store.chunk(3)
    document = read_document(store, "a.txt#3")
    assert document.chunk_text == chunk.text
    assert document.start + document.chunk_start == chunk.start
    assert document.start + document.chunk_end == chunk.end
    assert (document.document, document.source, document.title) == ("a.txt", "a.txt", chunk.title)
    assert document.location == chunk.location


def test_a_window_holds_whole_chunks_and_tells_what_is_left_out(tmp_path: Path) -> None:
    text = numbered(2_000)
    store = indexed(tmp_path, "a.txt", text)
    row = store.chunk_count // 2
    chunk = store.chunk(row)
    document = read_document(store, f"a.txt#{row}", around=400)
    assert document.is_cut_before
    assert document.is_cut_after
    assert document.text == text[document.start : document.start + len(document.text)]
    assert document.chunk_text == chunk.text
    # Half the window on each side, and at most one chunk (16 words of 5 characters) more.
    assert 200 <= document.chunk_start <= 200 + 16 * 6
    assert 200 <= len(document.text) - document.chunk_end <= 200 + 16 * 6


def test_a_window_at_the_edge_is_cut_on_one_side(tmp_path: Path) -> None:
    store = indexed(tmp_path, "a.txt", numbered(2_000))
    first = read_document(store, "a.txt#0", around=400)
    last = read_document(store, f"a.txt#{store.chunk_count - 1}", around=400)
    assert (first.is_cut_before, first.is_cut_after) == (False, True)
    assert (last.is_cut_before, last.is_cut_after) == (True, False)
    assert first.chunk_start == 0
    assert last.text.endswith("w1999")


def test_neighbouring_documents_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("alpha " * 40, encoding="utf-8")
    (tmp_path / "docs" / "c.txt").write_text("gamma " * 40, encoding="utf-8")
    store = indexed(tmp_path, "b.txt", numbered(60))
    assert store.chunk(0).document == "a.txt"
    assert read_document(store, "b.txt#0").text == numbered(60)


def test_documents_of_one_file_are_told_by_their_ids(tmp_path: Path) -> None:
    texts = {"7": "the ferry leaves", "7#0": "the lamp is lit"}
    store = indexed(tmp_path, "c.jsonl", "\n".join(json.dumps({"id": i, "text": text}) for i, text in texts.items()))
    first, second = (read_document(store, f"c.jsonl#{document_id}#0") for document_id in texts)
    assert (first.text, first.document, first.location) == ("the ferry leaves", "c.jsonl#7", "c.jsonl:1")
    assert (second.text, second.document, second.location) == ("the lamp is lit", "c.jsonl#7#0", "c.jsonl:2")


def test_paragraphs_of_a_corpus_line_stay_apart(tmp_path: Path) -> None:
    store = indexed(tmp_path, "c.jsonl", json.dumps({"id": "7", "text": numbered(30)}), overlap=0)
    assert store.chunk_count == 3
    assert read_document(store, "c.jsonl#7#0").text == numbered(30)


def test_white_space_inside_a_line_stays_inside_it(tmp_path: Path) -> None:
    text = " ".join(f"w{n:03}" for n in range(60))
    assert read_document(indexed(tmp_path, "a.txt", text, overlap=0), "a.txt#1").text == text


def test_a_wide_gap_becomes_one_empty_line(tmp_path: Path) -> None:
    text = numbered(8) + "\n" * 9 + numbered(8)
    document = read_document(indexed(tmp_path, "a.txt", text, overlap=0), "a.txt#1")
    assert document.text == numbered(8) + " " * 7 + "\n\n" + numbered(8)
    assert document.chunk_text == numbered(8)


@pytest.mark.parametrize("chunk_id", ["a.txt#99", "a.txt#-1", "a.txt#", "a.txt", "b.txt#0", "", "#0", "a.txt#²"])
def test_a_chunk_that_is_not_there_is_told(tmp_path: Path, chunk_id: str) -> None:
    store = indexed(tmp_path, "a.txt", numbered(60))
    with pytest.raises(IndexNotFound, match="holds no chunk"):
        read_document(store, chunk_id)


@pytest.mark.parametrize("damaged", [CATALOGUE, CHUNKS])
def test_damage_is_told(tmp_path: Path, damaged: str) -> None:
    indexed(tmp_path, "a.txt", numbered(60))
    path = tmp_path / "ix" / "docs" / GENERATIONS / "g000001" / damaged
    path.write_bytes(b"?" * path.stat().st_size)
    with pytest.raises(IndexCorrupt, match=damaged):
        read_document(home.open_index(tmp_path / "ix", "docs"), "a.txt#0")


def test_only_the_rows_of_the_window_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = indexed(tmp_path, "a.txt", numbered(2_000))
    rows: list[int] = []
    read = LocalStore.chunk
    monkeypatch.setattr(LocalStore, "chunk", lambda self, row: (rows.append(row), read(self, row))[1])
    middle = store.chunk_count // 2
    document = read_document(store, f"a.txt#{middle}", around=400)
    assert document.is_cut_before
    assert len(rows) == len(set(rows)) < 20
    assert max(abs(row - middle) for row in rows) < 10


pieces = st.lists(
    st.one_of(
        st.sampled_from(["the ferry ", "harbour. ", "fog\n", "\n\n", "  ", "\t", "    indented\n", "漢字", "# Head\n"]),
        st.integers(1, 90).map(lambda n: "x" * n + " "),
    ),
    max_size=60,
).map("".join)


@lru_cache
def chunker(folder: Path, overlap: int) -> Chunker:
    return Chunker(write_tokenizer(folder / f"{overlap}.json"), window=64, chunk_tokens=16, overlap=overlap)


@given(text=pieces, kind=st.sampled_from(["text", "markdown", "code"]), overlap=st.sampled_from([0, 4, 8]))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_cut_is_put_together_again(tmp_path: Path, text: str, kind: str, overlap: int) -> None:
    document = Document(name="a", source="a", title="", text=f"begin {text} end", format=kind)
    chunks = chunker(tmp_path, overlap).chunk(document)
    joined = join_chunks(chunks)
    assert len(joined) == len(document.text)
    for chunk in chunks:
        assert joined[chunk.start : chunk.end] == chunk.text
    assert "".join(joined.split()) == "".join(document.text.split())
