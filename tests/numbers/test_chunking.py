"""Chunks: exact spans, nothing lost, nothing longer than the encoder's window."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from adaptrag_cli.documents.base import Chunk, Document, Heading, Page
from adaptrag_cli.documents.chunking import Chunker
from adaptrag_cli.documents.text import markdown_headings
from adaptrag_cli.errors import ConfigError

SENTENCE = "the ferry harbour fare child captain fog lantern eight seven marks Vellmoor timetable lighthouse keeper"
WORDS = SENTENCE.split()


@lru_cache
def chunker(folder: Path, limit: int | None = None, overlap: int = 32, body_only: bool = False) -> Chunker:
    return Chunker(folder / "tokenizer.json", window=256, chunk_tokens=limit, overlap=overlap, body_only=body_only)


@lru_cache
def reference(folder: Path) -> Tokenizer:
    """A second tokenizer, so that the chunker's own counting is not its own judge."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def tokens(folder: Path, text: str) -> int:
    return len(reference(folder).encode(text).ids)


def document(text: str, **fields: object) -> Document:
    values: dict[str, object] = {"name": "d.txt", "source": "d.txt", "title": "Ferry", "text": text, **fields}
    return Document(**values)  # type: ignore[arg-type]


def prose(words: int) -> str:
    """Sentences of eight words, four to a paragraph."""
    parts = []
    for i in range(words):
        parts.append(WORDS[(i * i + i // 3) % len(WORDS)])
        parts.append(".\n\n" if i % 32 == 31 else ". " if i % 8 == 7 else " ")
    return "".join(parts).strip()


def check(folder: Path, doc: Document, chunks: tuple[Chunk, ...], limit: int, *, body_only: bool = False) -> None:
    """The laws that hold for every document."""
    covered = bytearray(len(doc.text))
    for number, chunk in enumerate(chunks):
        assert chunk.chunk_id == f"{doc.name}#{number}"
        assert doc.text[chunk.start : chunk.end] == chunk.text
        assert chunk.text.strip()
        assert tokens(folder, chunk.text_to_embed(body_only=body_only)) <= limit
        assert len(chunk.text) <= 8 * limit
        covered[chunk.start : chunk.end] = b"\1" * (chunk.end - chunk.start)
    assert all(covered[i] or c.isspace() for i, c in enumerate(doc.text))
    assert [c.start for c in chunks] == sorted(c.start for c in chunks)
    assert [c.end for c in chunks] == sorted(c.end for c in chunks)


texts = st.lists(
    st.one_of(
        st.sampled_from(WORDS),
        st.sampled_from(
            [". ", "\n", "\n\n", "  ", "\t", "# Heading\n", "```\n", "- item\n", "| a | b |\n", "漢字かな", "🙂"]
        ),
        st.text(max_size=12).filter(lambda t: not any("\ud800" <= c <= "\udfff" for c in t)),
        st.integers(1, 400).map(lambda n: "x" * n),
    ),
    max_size=150,
).map(" ".join)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data(), text=texts, limit=st.sampled_from([16, 128]), overlap=st.sampled_from([0, 20]))
def test_laws(encoder_dir: Path, data: st.DataObject, text: str, limit: int, overlap: int) -> None:
    body_only = data.draw(st.booleans())
    title = data.draw(st.sampled_from(["", "Ferry", "A very long title " * 30, "y" * 5000]))
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=6).map(sorted))
    marks = tuple(Heading(level=1 + i % 3, title=f"Part {i} " * 9, start=at) for i, at in enumerate(places))
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=4).map(sorted))
    pages = tuple(Page(label=f"p. {i}", start=a, end=b) for i, (a, b) in enumerate(pairwise(cuts)) if a < b)
    form = data.draw(st.sampled_from(["text", "markdown", "code"]))
    doc = document(text, title=title, headings=marks, pages=pages, format=form)
    chunks = chunker(encoder_dir, limit, overlap, body_only).chunk(doc)
    check(encoder_dir, doc, chunks, limit, body_only=body_only)
    for chunk in chunks:
        assert all(chunk.end <= p.start or chunk.start >= p.end or chunk.page == p.label for p in pages)
        assert all(p.start <= chunk.start and chunk.end <= p.end for p in pages if p.label == chunk.page)


def test_a_short_passage_is_one_chunk(encoder_dir: Path) -> None:
    text = prose(100)
    (chunk,) = chunker(encoder_dir).chunk(document(text, name="q7", source="c.jsonl", first_line=12, lines=(12,) * 9))
    assert (chunk.text, chunk.chunk_id, chunk.location) == (text, "q7#0", "c.jsonl:12")
    assert chunk.text_to_embed(body_only=False) == f"Ferry\n{text}"


def test_long_prose_fills_the_window_and_overlaps(encoder_dir: Path) -> None:
    doc = document(prose(2000))
    chunks = chunker(encoder_dir).chunk(doc)
    check(encoder_dir, doc, chunks, 256)
    sizes = [tokens(encoder_dir, c.text_to_embed(body_only=False)) for c in chunks[:-1]]
    assert min(sizes) > 170
    assert all(a.start < b.start < a.end for a, b in pairwise(chunks))
    assert all(c.text.endswith(".") for c in chunks)
    apart = chunker(encoder_dir, overlap=0).chunk(doc)
    assert all(a.end <= b.start for a, b in pairwise(apart))


def test_lines_are_those_of_the_file(encoder_dir: Path) -> None:
    text = "\n\n" + prose(600) + "\n"
    lines = text.split("\n")
    for chunk in chunker(encoder_dir, 64).chunk(document(text)):
        assert chunk.line_start is not None
        assert chunk.line_end is not None
        assert chunk.text.split("\n")[0] in lines[chunk.line_start - 1]
        assert chunk.text.split("\n")[-1] in lines[chunk.line_end - 1]
        assert chunk.line_end - chunk.line_start == chunk.text.count("\n")


def test_chunks_keep_to_their_pages(encoder_dir: Path) -> None:
    first, second = prose(300), prose(40)
    pages = (
        Page(label="p. 1", start=0, end=len(first) + 1),
        Page(label="p. 2", start=len(first) + 1, end=len(first) + len(second) + 1),
    )
    chunks = chunker(encoder_dir).chunk(document(f"{first}\n{second}", source="d.pdf", pages=pages, first_line=0))
    assert [c.page for c in chunks] == ["p. 1", "p. 1", "p. 2"]
    assert chunks[2].text == second
    assert chunks[2].location == "d.pdf p. 2"


def test_paragraph_numbers_are_cited_with_their_label(encoder_dir: Path) -> None:
    doc = document("one\ntwo\nthree", source="d.docx", first_line=0, lines=(4, 5, 6), lines_label="par.")
    (chunk,) = chunker(encoder_dir).chunk(doc)
    assert chunk.location == "d.docx par. 4-6"


def test_heading_paths_become_titles(encoder_dir: Path) -> None:
    text = f"# Ferry\n\n{prose(150)}\n\n## Fares\n\n### Child\n\n{prose(150)}\n\n## Dogs\n\n{prose(150)}\n"
    doc = document(text, headings=tuple(markdown_headings(text)), format="markdown")
    chunks = chunker(encoder_dir).chunk(doc)
    check(encoder_dir, doc, chunks, 256)
    assert [c.title for c in chunks] == ["Ferry", "Ferry > Fares > Child", "Ferry > Dogs"]
    assert chunks[1].text.startswith("## Fares\n\n### Child\n\n")  # a bare heading goes with what it heads


def test_small_sections_are_packed_under_the_heading_they_share(encoder_dir: Path) -> None:
    parts = [f"## Rule {n}\n\n{prose(40)}\n\n" for n in range(8)]
    text = "# Ferry\n\n" + "".join(parts)
    doc = document(text, headings=tuple(markdown_headings(text)), format="markdown")
    chunks = chunker(encoder_dir).chunk(doc)
    check(encoder_dir, doc, chunks, 256)
    assert 2 <= len(chunks) <= 4
    assert [c.title for c in chunks[:-1]] == ["Ferry"] * (len(chunks) - 1)
    assert all(c.text.startswith("#") for c in chunks)


def test_code_is_cut_at_lines_and_keeps_its_indentation(encoder_dir: Path) -> None:
    lines = [f"    total_{n} = fare_of(passenger_{n}) + {n}" for n in range(200)]
    doc = document("\n".join(lines), title="fares.py", format="code")
    for chunk in chunker(encoder_dir, overlap=0).chunk(doc):
        assert all(line in lines for line in chunk.text.split("\n"))


@pytest.mark.parametrize(
    "text",
    ["x" * 50_000, "漢" * 5_000, "=" * 20_000, "a" + "\u0301" * 5_000, "🙂" * 3_000],
    ids=["letters", "ideographs", "signs", "accents", "emoji"],
)
def test_giant_words_are_cut_by_characters(encoder_dir: Path, text: str) -> None:
    doc = document(text)
    check(encoder_dir, doc, chunker(encoder_dir).chunk(doc), 256)


def test_a_title_takes_a_quarter_of_the_window_at_most(encoder_dir: Path) -> None:
    path = tuple(
        Heading(level=n, title=f"Part {n} of the long and winding harbour rules about fog", start=0)
        for n in range(1, 7)
    )
    doc = document(prose(400), title="Harbour " * 300, headings=path)
    for chunk in chunker(encoder_dir).chunk(doc):
        assert chunk.title.startswith("Harbour Harbour")
        assert tokens(encoder_dir, chunk.title) <= 256 // 4 + 3
    doc = document(prose(400), title="Rules", headings=path)
    titles = {c.title for c in chunker(encoder_dir).chunk(doc)}
    assert titles == {"Rules > " + " > ".join(h.title for h in path[1:])}


def test_a_prefix_is_counted(encoder_dir: Path) -> None:
    prefix = "passage: " * 20
    made = Chunker(encoder_dir / "tokenizer.json", window=256, prefix=prefix)
    for chunk in made.chunk(document(prose(1000))):
        assert tokens(encoder_dir, prefix + chunk.text_to_embed(body_only=False)) <= 256


def test_fingerprints_tell_what_changes_the_chunks(encoder_dir: Path) -> None:
    path = encoder_dir / "tokenizer.json"
    base = Chunker(path, window=256).fingerprint
    assert Chunker(path, window=256).fingerprint == base
    others = [
        Chunker(path, window=128),
        Chunker(path, window=256, overlap=0),
        Chunker(path, window=256, body_only=True),
        Chunker(path, window=256, prefix="passage: "),
    ]
    assert len({base, *(c.fingerprint for c in others)}) == 5


def test_sizes_that_cannot_be_met_are_refused(encoder_dir: Path) -> None:
    path = encoder_dir / "tokenizer.json"
    with pytest.raises(ConfigError, match="chunks of 300 tokens exceed the encoder's window of 256"):
        Chunker(path, window=256, chunk_tokens=300)
    with pytest.raises(ConfigError, match="too small"):
        Chunker(path, window=256, chunk_tokens=15)
    with pytest.raises(ConfigError, match="overlap of -1"):
        Chunker(path, window=256, overlap=-1)


def test_empty_and_blank_documents_have_no_chunks(encoder_dir: Path) -> None:
    assert chunker(encoder_dir).chunk(document("")) == ()
    assert chunker(encoder_dir).chunk(document(" \n\t\n")) == ()
