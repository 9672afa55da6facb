"""The sample corpus: everything in it is indexed, and it holds what the tour says it holds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from adaptrag_cli.config import IndexSettings, ModelSettings, Settings
from adaptrag_cli.demo.corpus import DEMO_INDEX, corpus_folder, fetch_models, index_corpus
from adaptrag_cli.demo.tour import CASES
from adaptrag_cli.documents.base import Chunk
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.index.build import BuildOptions, IndexReport, build_index
from adaptrag_cli.index.home import open_index
from index_fakes import HashEncoder


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings with an index folder of their own, and an encoder that is a hash function."""
    encoder = HashEncoder(tmp_path / "encoder", max_length=256)
    monkeypatch.setattr("adaptrag_cli.models.encoder.load_encoder", lambda name, models_dir, **_: encoder)
    return Settings(index=IndexSettings(dir=tmp_path / "indexes"))


@pytest.fixture
def report(settings: Settings) -> IndexReport:
    return index_corpus(settings)


@pytest.fixture
def chunks(settings: Settings, report: IndexReport) -> tuple[Chunk, ...]:
    assert settings.index.dir is not None
    store = open_index(settings.index.dir, DEMO_INDEX)
    return tuple(store.chunk(row) for row in range(store.chunk_count))


def text_of(chunks: tuple[Chunk, ...], document: str = "") -> str:
    """The text of one document, or of all, with white space folded."""
    return " ".join(" ".join(c.text for c in chunks if not document or c.document == document).split())


def files() -> Iterator[Path]:
    return (path for path in corpus_folder().iterdir() if path.is_file())


def test_models_are_fetched_by_name_in_any_case_and_a_path_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    monkeypatch.setattr("adaptrag_cli.models.download.ensure_models", lambda names, *_: fetched.extend(names))
    for encoder in ("All-MiniLM-L6-v2", str(tmp_path / "encoder"), "owner/encoder"):
        models = ModelSettings(encoder=encoder, answer="SmolLM2-135M-Instruct")
        fetch_models(Settings(models=models), lambda _: None)
    assert fetched == ["All-MiniLM-L6-v2", "SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct"]


def test_every_document_is_indexed_and_none_is_skipped(report: IndexReport) -> None:
    assert (report.name, report.documents_indexed, report.documents_skipped) == ("demo", 23, ())
    assert report.chunks == report.chunks_embedded


def test_five_formats_are_shown() -> None:
    suffixes = Counter(path.suffix for path in files())
    assert suffixes == {".md": 9, ".txt": 7, ".html": 3, ".pdf": 2, ".docx": 2}


def test_a_second_run_embeds_nothing(settings: Settings, report: IndexReport) -> None:
    again = index_corpus(settings)
    assert (again.documents_unchanged, again.chunks_embedded, again.chunks) == (23, 0, report.chunks)


def test_documents_are_short(chunks: tuple[Chunk, ...]) -> None:
    words = {path.name: len(text_of(chunks, path.name).split()) for path in files()}
    assert {name: count for name, count in words.items() if not 100 <= count <= 600} == {}


def test_an_index_of_that_name_with_documents_of_the_users_own_is_left_alone(
    settings: Settings, tmp_path: Path
) -> None:
    assert settings.index.dir is not None
    own = tmp_path / "own"
    own.mkdir()
    (own / "note.txt").write_text("The spare key hangs behind the clock.")
    build_index(
        own,
        name=DEMO_INDEX,
        index_dir=settings.index.dir,
        encoder=HashEncoder(tmp_path / "encoder", max_length=256),
        options=BuildOptions(),
    )
    with pytest.raises(ConfigError, match="own") as caught:
        index_corpus(settings)
    assert caught.value.hint == "keep the demo elsewhere: adaptrag demo --index-dir DIR"
    assert open_index(settings.index.dir, DEMO_INDEX).path == own


def test_pages_of_a_pdf_are_cited(chunks: tuple[Chunk, ...]) -> None:
    places = [chunk.location for chunk in chunks if "six-cylinder Hallam" in " ".join(chunk.text.split())]
    assert places == ["annual_report_2023.pdf p. 2"]
    manual = {chunk.page for chunk in chunks if chunk.document == "long_bess_manual.pdf"}
    assert manual == {"p. 1", "p. 2"}


def test_exactly_two_local_rules_contradict_common_knowledge(chunks: tuple[Chunk, ...]) -> None:
    texts = [path.read_text("utf-8") for path in files() if path.suffix in {".md", ".txt", ".html"}]
    lines = [line for text in texts for line in text.splitlines()]
    assert sorted(line for line in lines if "local rule" in line) == [
        "## How many rolls are in a dozen: a local rule",
        "## The first month of the year: a local rule",
    ]
    assert "Here, by long custom, a dozen rolls means thirteen." in text_of(chunks, "bakehouse.md")
    assert "On Pellwether the first month of the year is March." in text_of(chunks, "handbook.md")


def test_the_two_halves_of_the_two_document_question_lie_apart(chunks: tuple[Chunk, ...]) -> None:
    query = next(case.query for case in CASES if case.title == "Two documents are needed")
    assert query == "Where did the man who ground the mirror of Long Bess learn his trade?"
    manual, history = text_of(chunks, "long_bess_manual.pdf"), text_of(chunks, "history.md")
    assert "ground by Emmerich Vantongel" in manual
    assert "Emmerich Vantongel" in history
    assert "learned his trade in the bottle works of Sallowgate" in history
    assert "Sallowgate" not in manual
    assert "Long Bess" not in history


def test_what_only_the_documents_know_is_there_and_what_nobody_knows_is_not(chunks: tuple[Chunk, ...]) -> None:
    everything = text_of(chunks)
    by_title = {case.title: case.query for case in CASES}
    assert by_title["Only the documents know"] == "At how many knots of wind must the East Dome be closed?"
    assert "Close the East Dome at 38 knots" in everything
    assert by_title["Nobody knows"] == "Which football team does the mayor of Corrowby support?"
    assert re.search(r"football|mayor", everything, re.IGNORECASE) is None


def test_the_tour_shows_each_case_once() -> None:
    assert [case.expected for case in CASES] == ["draft", "documents", "documents", "none", "draft"]
