"""Builds of a real folder: only what changed is read and embedded, and the result never depends on the way there."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adaptrag_cli.documents.base import Document
from adaptrag_cli.documents.folder import Skipped, SourceFile
from adaptrag_cli.documents.loaders import load
from adaptrag_cli.errors import AdaptRAGError, ConfigError, IndexBusy, ModelError, RunCancelled
from adaptrag_cli.index import build as build_module
from adaptrag_cli.index import home, reading
from adaptrag_cli.index.build import BuildOptions, BuildProgress, IndexReport, build_index
from adaptrag_cli.index.embedding_log import EmbeddingLog, text_key
from adaptrag_cli.index.generation import DATA_FILES
from adaptrag_cli.index.local import LocalStore
from adaptrag_cli.index.lock import writer_lock
from adaptrag_cli.index.manifest import encode_manifest
from index_fakes import HashEncoder


class Bench:
    """A folder, its index and an encoder that remembers what it embedded."""

    def __init__(self, base: Path) -> None:
        self.docs, self.index_dir = base / "docs", base / "ix"
        self.docs.mkdir(parents=True)
        self.encoder = HashEncoder(base / "encoder")

    def write(self, **texts: str) -> None:
        for name, text in texts.items():
            (self.docs / f"{name}.txt").write_text(text, encoding="utf-8")

    def build(self, path: Path | None = None, name: str = "docs", **options: object) -> IndexReport:
        self.encoder.texts.clear()
        return build_index(
            path or self.docs,
            name=name,
            index_dir=self.index_dir,
            encoder=self.encoder,
            options=BuildOptions(**options),
        )

    def open(self, name: str = "docs") -> LocalStore:
        return home.open_index(self.index_dir, name)

    def files(self, name: str = "docs") -> dict[str, bytes]:
        folder = self.index_dir / name / "generations" / self.open(name).current.generation
        return {file: (folder / file).read_bytes() for file in DATA_FILES}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path / "bench")
    made.write(a="The lighthouse keeper is Maren.", b="The ferry leaves at seven.", c="Quiet time starts at nine.")
    return made


def counts(report: IndexReport) -> tuple[int, int, int, int]:
    return (
        report.documents_indexed,
        report.documents_unchanged,
        report.documents_removed,
        report.chunks_embedded,
    )


def test_the_report_has_the_names_that_were_promised(bench: Bench) -> None:
    (bench.docs / "empty.txt").touch()
    (bench.docs / "picture.png").write_bytes(b"\x89PNG")
    report = bench.build()
    document = json.loads(json.dumps(report.as_json()))
    seconds = document.pop("seconds")
    assert seconds >= 0
    assert document == {
        "name": "docs",
        "path": str(bench.docs),
        "files_seen": 5,
        "documents_seen": 5,
        "documents_indexed": 3,
        "documents_unchanged": 0,
        "documents_removed": 0,
        "documents_skipped": [
            {"document": "empty.txt", "reason": "empty file"},
            {"document": "picture.png", "reason": "unsupported format .png"},
        ],
        "documents_repaired": [],
        "chunks": 3,
        "chunks_embedded": 3,
    }


def test_an_unchanged_folder_embeds_nothing_and_keeps_its_generation(bench: Bench) -> None:
    (bench.docs / "empty.txt").touch()
    bench.build()
    before = bench.open()
    report = bench.build()
    assert counts(report) == (0, 3, 0, 0)
    assert [s.document for s in report.documents_skipped] == ["empty.txt"]
    assert report.documents_seen == report.files_seen == 4
    assert bench.encoder.texts == []
    assert bench.open().current == before.current


def test_changed_and_new_are_embedded_deleted_vanish_everywhere(bench: Bench) -> None:
    bench.build()
    (bench.docs / "b.txt").unlink()
    bench.write(c="Quiet time starts at ten.", d="A new file about otters.")
    assert counts(bench.build()) == (2, 1, 1, 2)
    assert [text.splitlines()[-1] for text in bench.encoder.texts] == [
        "Quiet time starts at ten.",  # the longest first
        "A new file about otters.",
    ]
    store = bench.open()
    assert [store.chunk(row).document for row in range(store.chunk_count)] == ["a.txt", "c.txt", "d.txt"]
    assert store.sparse_search("ferry", 5) == ()
    assert store.sparse_search("nine", 5) == ()
    assert [hit.row for hit in store.sparse_search("otters", 5)] == [2]
    assert len(store.dense_search(store.vectors([0])[0], 10)) == 3


def test_a_text_is_embedded_once_wherever_it_stands(bench: Bench) -> None:
    same = "The same paragraph stands in two files."
    bench.write(x=same, y=same)
    body_only = bench.build(body_only=True)
    assert (body_only.chunks, body_only.chunks_embedded) == (5, 4)
    assert sorted(bench.encoder.texts).count(same) == 1
    bench.write(z=same)
    (bench.docs / "x.txt").unlink()
    assert counts(bench.build(body_only=True)) == (1, 4, 1, 0)


def test_a_moved_file_is_read_but_not_embedded_again(bench: Bench) -> None:
    bench.build(body_only=True)
    (bench.docs / "b.txt").rename(bench.docs / "moved.txt")
    assert counts(bench.build(body_only=True)) == (1, 2, 1, 0)


def test_a_touched_file_is_fresh_again_after_a_build_that_embeds_nothing(bench: Bench) -> None:
    bench.build()
    fingerprint = bench.open().fingerprint
    os.utime(bench.docs / "a.txt", ns=(5, 5))
    assert bench.open().freshness().changed == ("a.txt",)
    assert counts(bench.build()) == (0, 3, 0, 0)
    store = bench.open()
    assert store.freshness().is_fresh
    assert store.fingerprint == fingerprint
    store.verify()


def test_a_change_that_keeps_size_and_time_is_seen(bench: Bench) -> None:
    bench.build()
    stamp = (bench.docs / "b.txt").stat()
    bench.write(b="The ferry leaves at eight."[: stamp.st_size])
    os.utime(bench.docs / "b.txt", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert counts(bench.build()) == (1, 2, 0, 1)


def corpus_line(number: int, text: str) -> str:
    return json.dumps({"id": f"p{number}", "title": f"Title {number}", "text": text}) + "\n"


def test_lines_of_a_corpus_are_documents_that_move_when_a_line_goes(bench: Bench, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    lines = [corpus_line(i, f"Fact number {i} is about thing {i}.") for i in range(50)]
    corpus.write_text("".join(lines))
    report = bench.build(corpus, "corpus")
    assert (report.files_seen, report.documents_seen, report.documents_indexed) == (1, 50, 50)
    corpus.write_text("".join(lines[:7] + lines[8:]))
    assert counts(bench.build(corpus, "corpus")) == (0, 49, 1, 0)
    store = bench.open("corpus")
    assert [store.chunk(7).document, store.chunk(7).location] == ["p8", "corpus.jsonl:8"]
    assert store.chunk(6).location == "corpus.jsonl:7"
    corpus.write_text("".join([*lines[:7], corpus_line(8, "Changed."), *lines[9:]]))
    assert counts(bench.build(corpus, "corpus")) == (1, 48, 0, 1)


def test_bad_lines_of_a_corpus_are_reported_at_every_run(bench: Bench, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(corpus_line(1, "Good text.") + "{not json\n" + corpus_line(2, "More text."))
    first = bench.build(corpus, "corpus")
    assert (first.documents_seen, len(first.documents_skipped)) == (3, 1)
    again = bench.build(corpus, "corpus")
    assert counts(again) == (0, 2, 0, 0)
    assert again.documents_skipped == first.documents_skipped


def test_what_was_repaired_is_told_at_every_run(bench: Bench) -> None:
    (bench.docs / "b.txt").write_bytes("The caf\u00e9 opens at eight.".encode("cp1252"))
    (bench.docs / "c.txt").write_bytes(b"Quiet\0time starts at nine\0and ends at seven in the morning.")
    expected = [("b.txt", "decoded as cp1252"), ("c.txt", "2 NUL characters replaced")]
    for counted in ((3, 0, 0, 3), (0, 3, 0, 0)):
        report = bench.build()
        assert counts(report) == counted
        assert [(r.document, r.reason) for r in report.documents_repaired] == expected
        assert report.documents_seen == 3
    bench.write(a="The lighthouse keeper has changed.")
    assert [(r.document, r.reason) for r in bench.build().documents_repaired] == expected
    assert bench.build().as_json()["documents_repaired"] == [
        {"document": document, "reason": reason} for document, reason in expected
    ]


def count_loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are parsed from now on."""
    loaded: list[str] = []

    def counted(file: SourceFile) -> Iterator[Document | Skipped]:
        loaded.append(file.name)
        return load(file)

    monkeypatch.setattr(reading, "load", counted)
    return loaded


def test_a_file_that_gave_nothing_is_not_parsed_again_while_it_is_the_same(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = count_loads(monkeypatch)
    bench.build()
    (bench.docs / "z.pdf").write_bytes(b"%PDF-1.4 nothing")
    told = []
    for expected in (["z.pdf"], [], []):
        loaded.clear()
        report = bench.build()
        assert loaded == expected
        assert report.documents_seen == report.files_seen == 4
        told.append(report.documents_skipped)
    assert told[0] == told[1] == told[2]
    assert told[0][0].document == "z.pdf"
    loaded.clear()
    bench.write(a="Changed.")
    assert len(bench.build().documents_skipped) == 1
    assert loaded == ["a.txt"]
    loaded.clear()
    bench.build(rebuild=True)
    assert loaded == ["a.txt", "b.txt", "c.txt", "z.pdf"]
    loaded.clear()
    (bench.docs / "z.pdf").write_bytes(b"%PDF-1.4 nothing else")
    bench.build()
    assert loaded == ["z.pdf"]


def test_what_may_be_readable_next_time_is_tried_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.build()
    good = load

    def failing(file: SourceFile) -> Iterator[Document | Skipped]:
        if file.name == "d.txt":
            yield Skipped(document=file.name, reason="timed out after 60 s", transient=True)
        else:
            yield from good(file)

    bench.write(d="A slow one.")
    with monkeypatch.context() as patch:
        patch.setattr(reading, "load", failing)
        assert counts(bench.build()) == (0, 3, 0, 0)
    assert counts(bench.build()) == (1, 3, 0, 1)


def test_a_corpus_that_was_cut_short_is_read_again(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(corpus_line(1, "Good text.") + corpus_line(2, "More text."))

    def cut(file: SourceFile) -> Iterator[Document | Skipped]:
        yield next(iter(load(file)))
        yield Skipped(document=file.name, reason="cannot be read: Input/output error", transient=True)

    with monkeypatch.context() as patch:
        patch.setattr(reading, "load", cut)
        assert counts(bench.build(corpus, "corpus")) == (1, 0, 0, 1)
    assert counts(bench.build(corpus, "corpus")) == (1, 1, 0, 1)
    assert counts(bench.build(corpus, "corpus")) == (0, 2, 0, 0)


@pytest.mark.parametrize("constant", ["LOADER_VERSION", "TOKENISER_VERSION"])
def test_another_version_of_our_code_reads_everything_again_and_embeds_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, constant: str
) -> None:
    (bench.docs / "z.pdf").write_bytes(b"%PDF-1.4 nothing")
    bench.build()
    monkeypatch.setattr(build_module, constant, 77)
    loaded = count_loads(monkeypatch)
    report = bench.build()
    assert report.notes == ("made by another version of adaptrag before: everything is read again",)
    assert counts(report) == (3, 0, 0, 0)
    assert loaded == ["a.txt", "b.txt", "c.txt", "z.pdf"]


def test_an_index_from_before_loaders_had_a_version_is_opened_and_read_again(bench: Bench) -> None:
    bench.build()
    before = bench.open()
    old = replace(before.manifest, recipe=replace(before.manifest.recipe, loader_version=0))
    content = json.loads(encode_manifest(old))
    del content["recipe"]["loader_version"], content["unread"]
    data = json.dumps(content).encode("ascii")
    folder = bench.index_dir / "docs"
    (folder / "generations" / before.current.generation / before.current.manifest).write_bytes(data)
    current = replace(before.current, sha256=hashlib.sha256(data).hexdigest())
    (folder / "CURRENT").write_bytes(current.encode())
    home.check_encoder(bench.open(), bench.encoder.fingerprint)
    assert counts(bench.build()) == (3, 0, 0, 0)
    assert counts(bench.build()) == (0, 3, 0, 0)


def test_equal_ids_in_two_corpora_stay_apart(bench: Bench) -> None:
    for name in ("one", "two"):
        (bench.docs / f"{name}.jsonl").write_text(corpus_line(1, f"Text of {name}."))
    bench.build()
    store = bench.open()
    ids = [store.chunk(row).chunk_id for row in range(store.chunk_count)]
    assert len(set(ids)) == len(ids) == 5


@pytest.mark.parametrize(
    ("changed", "note", "embedded"),
    [
        ({"chunk_tokens": 32, "overlap": 0}, "made with other chunk settings before: everything is read again", 0),
        ({"body_only": True}, "made with other chunk settings before: everything is read again", 3),
        ({"rebuild": True}, "--rebuild: everything is read and embedded again", 3),
    ],
)
def test_changed_settings_are_said_and_cost_what_they_must(
    bench: Bench, changed: dict[str, object], note: str, embedded: int
) -> None:
    for name in "abc":  # a heading, so that the title is part of the embedded text
        (bench.docs / f"{name}.txt").rename(bench.docs / f"{name}.md")
        (bench.docs / f"{name}.md").write_text(f"# Heading {name}\n\nSome text about {name}.\n")
    bench.build()
    report = bench.build(**changed)
    assert report.notes == (note,)
    assert counts(report) == (3, 0, 0, embedded)
    assert bench.build(**{**changed, "rebuild": False}).notes == ()


def test_another_encoder_embeds_everything_again(bench: Bench) -> None:
    bench.build()
    bench.encoder = HashEncoder(bench.encoder.tokenizer_path.parent, name="other", file_sha256="1" * 64)
    report = bench.build()
    assert report.notes == ("made with another encoder before (hash): everything is embedded again",)
    assert counts(report) == (3, 0, 0, 3)
    assert bench.open().encoder.name == "other"
    bench.encoder = HashEncoder(
        bench.encoder.tokenizer_path.parent, name="other", file_sha256="1" * 64, query_prefix="query: "
    )
    report = bench.build()
    assert report.notes == ("made with other files or prefixes of other before: everything is embedded again",)


def test_another_path_under_the_same_name_needs_rebuild(bench: Bench, tmp_path: Path) -> None:
    bench.build()
    shutil.copytree(bench.docs, tmp_path / "copy")
    with pytest.raises(ConfigError, match="holds .* not ") as refusal:
        bench.build(tmp_path / "copy")
    assert "--rebuild" in refusal.value.hint
    assert bench.open().path == bench.docs
    report = bench.build(tmp_path / "copy", rebuild=True)
    assert report.notes[-1] == f"this index held {bench.docs} before"
    assert bench.open().path == tmp_path / "copy"


def test_a_pattern_that_fits_nothing_does_not_empty_an_index(bench: Bench) -> None:
    chunks = bench.build().chunks
    with pytest.raises(ConfigError, match="there is nothing to read"):
        bench.build(include=("*.nope",))
    assert bench.open().chunk_count == chunks
    assert bench.build(include=("*.nope",), rebuild=True).chunks == 0


EDITS = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from(["", "one two", "two three three", "# H\n\nfour", "one two"])),
    min_size=1,
    max_size=6,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(EDITS, min_size=1, max_size=4))
def test_an_index_made_in_steps_equals_one_made_at_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[tuple[str, str]]]
) -> None:
    bench = Bench(tmp_path_factory.mktemp("steps"))
    for edits in steps:
        for name, text in edits:
            path = bench.docs / f"{name}.md"
            path.write_text(text) if text else path.unlink(missing_ok=True)
        report = bench.build(rebuild=not any(bench.docs.iterdir()))  # an index is emptied only when told to
        assert report.documents_seen == report.files_seen == len(list(bench.docs.iterdir()))
    bench.build(name="afresh")
    assert bench.files() == bench.files("afresh")
    assert bench.open().fingerprint == bench.open("afresh").fingerprint


def test_the_index_folder_inside_the_documents_is_not_read(bench: Bench) -> None:
    bench.index_dir = bench.docs / "indexes"
    bench.build()
    report = bench.build()
    assert counts(report) == (0, 3, 0, 0)
    assert (bench.index_dir / ".adaptrag-indexes").is_file()
    assert [(s.document, s.reason) for s in report.documents_skipped] == [("indexes/", "folder of our own indexes")]


def test_a_folder_that_is_no_index_is_left_alone(bench: Bench) -> None:
    (bench.index_dir / "docs").mkdir(parents=True)
    (bench.index_dir / "docs/thesis.txt").write_text("precious")
    with pytest.raises(ConfigError, match="exists and is not an index"):
        bench.build()
    assert (bench.index_dir / "docs/thesis.txt").read_text() == "precious"


def test_a_second_writer_is_refused_with_the_process_id(bench: Bench) -> None:
    bench.build()
    code = (
        "import sys; from pathlib import Path; from adaptrag_cli.index.lock import writer_lock\n"
        f"with writer_lock(Path({str(bench.index_dir)!r}), 'docs'):\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(IndexBusy, match=f"index 'docs' is being written by process {holder.pid}"):
        bench.build()
    assert bench.open().chunk_count == 3
    assert bench.build(name="another").chunks == 3
    holder.kill()  # leaves lock file and process id behind
    holder.wait()
    holder.stdin.close()
    holder.stdout.close()
    assert counts(bench.build()) == (0, 3, 0, 0)


def test_the_lock_is_free_again_after_a_failure(bench: Bench) -> None:
    with pytest.raises(KeyError), writer_lock(bench.index_dir, "docs"):
        raise KeyError
    with writer_lock(bench.index_dir, "docs"):
        pass


def many(bench: Bench, count: int = 12) -> None:
    bench.write(**{f"d{i:02}": f"Document {i} tells of thing {i}." for i in range(count)})


def test_a_stopped_run_keeps_what_is_embedded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.build()
    many(bench)
    monkeypatch.setattr(build_module, "EMBED_BLOCK", 4)
    bench.encoder.texts.clear()
    with pytest.raises(RunCancelled, match="8 embedded chunks are kept") as caught:
        build_index(
            bench.docs,
            name="docs",
            index_dir=bench.index_dir,
            encoder=bench.encoder,
            options=BuildOptions(),
            should_stop=lambda: len(bench.encoder.texts) == 8,
        )
    assert caught.value.hint == "run the same command again to continue"
    assert bench.open().chunk_count == 3
    assert counts(bench.build()) == (12, 3, 0, 4)
    assert sorted(p.name for p in (bench.index_dir / "docs").iterdir()) == ["CURRENT", "generations"]


def test_ctrl_c_inside_the_encoder_keeps_the_blocks_before(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    many(bench, 9)
    monkeypatch.setattr(build_module, "EMBED_BLOCK", 4)
    encode = bench.encoder.encode_documents

    def interrupted(texts: list[str]) -> np.ndarray:
        if len(bench.encoder.texts) == 8:
            raise KeyboardInterrupt
        return encode(texts)

    bench.encoder.encode_documents = interrupted  # type: ignore[method-assign]
    with pytest.raises(RunCancelled):
        bench.build()
    assert home.index_names(bench.index_dir) == ()
    bench.encoder.encode_documents = encode  # type: ignore[method-assign]
    assert bench.build().chunks_embedded == 4


@pytest.mark.parametrize("wrong", [np.zeros((1, 16)), np.zeros((3, 8)), np.full((3, 16), np.nan)])
def test_an_encoder_that_misbehaves_spoils_nothing(bench: Bench, wrong: np.ndarray) -> None:
    bench.encoder.encode_documents = lambda texts: wrong.astype(np.float32)  # type: ignore[method-assign]
    with pytest.raises(ModelError, match="encoder hash gave"):
        bench.build()
    assert list((bench.index_dir / "docs/generations").iterdir()) == []


def fail_at(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, number: int, error: OSError) -> None:
    """Let the call with this number raise."""
    original, calls = getattr(owner, name), itertools.count(1)

    def failing(*args: object, **keywords: object) -> object:
        if next(calls) == number:
            raise error
        return original(*args, **keywords)

    monkeypatch.setattr(owner, name, failing)


@pytest.mark.parametrize("number", range(1, 22))
def test_a_full_disk_is_one_line_and_the_old_index_stays(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    bench.build()
    before = bench.files()
    many(bench)
    with monkeypatch.context() as patch:
        fail_at(patch, os, "fsync", number, OSError(errno.ENOSPC, "No space left on device"))
        with pytest.raises(AdaptRAGError) as caught:
            bench.build()
    assert caught.value.message == f"cannot write the index in {bench.index_dir / 'docs'}: No space left on device"
    assert caught.value.hint == "free some space and run the same command again; what was indexed before still answers"
    store = bench.open()
    store.verify()
    if store.chunk_count == 3:
        assert bench.files() == before
    assert bench.build().chunks == 15
    assert bench.open().chunk_count == 15


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_not_writable_is_one_line(bench: Bench) -> None:
    bench.index_dir.mkdir()
    bench.index_dir.chmod(0o500)
    with pytest.raises(AdaptRAGError, match=r"cannot write the index in .*: Permission denied"):
        bench.build()
    bench.index_dir.chmod(0o700)


def test_a_path_that_is_wrong_leaves_nothing_behind(bench: Bench, tmp_path: Path) -> None:
    for path, options in ((tmp_path / "nowhere", {}), (bench.docs, {"chunk_tokens": 65})):
        with pytest.raises(ConfigError):
            bench.build(path, **options)
    assert not bench.index_dir.exists()


def test_an_index_folder_that_is_a_file_is_one_line(bench: Bench) -> None:
    bench.index_dir.write_text("a file")
    with pytest.raises(AdaptRAGError, match=f"cannot write the index in {bench.index_dir}"):
        bench.build()


@pytest.mark.parametrize("name", ["CURRENT", *DATA_FILES])
def test_a_damaged_generation_is_never_taken_over(bench: Bench, name: str) -> None:
    bench.build()
    folder = bench.index_dir / "docs"
    path = folder / name if name == "CURRENT" else folder / "generations/g000001" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    bench.write(d="One more document.")
    report = bench.build()
    assert report.chunks == 4
    assert any("built anew" in note for note in report.notes)
    bench.open().verify()
    bench.build(name="afresh")
    assert bench.files() == bench.files("afresh")


def test_progress_covers_the_stages_and_ends_complete(bench: Bench) -> None:
    seen: list[BuildProgress] = []
    build_index(
        bench.docs,
        name="docs",
        index_dir=bench.index_dir,
        encoder=bench.encoder,
        options=BuildOptions(),
        on_progress=seen.append,
    )
    assert list(dict.fromkeys(p.stage for p in seen)) == ["checking", "reading", "embedding", "writing"]
    last = seen[-1]
    assert (last.chunks, last.chunks_embedded, last.chunks_to_embed) == (3, 3, 3)
    assert last.characters_embedded == last.characters_to_embed == sum(map(len, bench.encoder.texts))


def test_a_log_is_cut_at_the_first_record_that_is_damaged(tmp_path: Path) -> None:
    encoder = HashEncoder(tmp_path)
    texts = [f"text {i}" for i in range(10)]
    keys = [text_key(text) for text in texts]
    vectors = encoder.encode_queries(texts)
    with EmbeddingLog(tmp_path, encoder.fingerprint) as log:
        log.append(keys[:6], vectors[:6])
        log.append(keys[6:], vectors[6:])
    whole = log.path.read_bytes()
    record = (len(whole) - 80) // 10
    for size in (0, 3, 79, 80, 81, 80 + record - 1, 80 + 3 * record + 5, len(whole) - 1, len(whole)):
        log.path.write_bytes(whole[:size])
        with EmbeddingLog(tmp_path, encoder.fingerprint) as reopened:
            kept = max(0, size - 80) // record
            assert len(reopened) == kept
            assert reopened.vectors(keys[:kept]).tolist() == vectors[:kept].tolist()
            reopened.append(keys[kept:], vectors[kept:]) if kept < 10 else None
        assert log.path.read_bytes() == whole
    flipped = bytearray(whole)
    flipped[80 + 4 * record + 20] ^= 1
    log.path.write_bytes(flipped)
    with EmbeddingLog(tmp_path, encoder.fingerprint) as reopened:
        assert [key in reopened for key in keys] == [True] * 4 + [False] * 6
    other = HashEncoder(tmp_path, pooling="cls")
    with EmbeddingLog(tmp_path, other.fingerprint) as empty:
        assert len(empty) == 0
