"""Every loader keeps one contract: text, places, headings, encodings, and a reason for whatever cannot be read."""

from __future__ import annotations

import csv
import io
import json
import random
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from adaptrag_cli.documents.base import Document
from adaptrag_cli.documents.folder import Skipped, SourceFile, scan
from adaptrag_cli.documents.formats import SUPPORTED_SUFFIXES, format_of
from adaptrag_cli.documents.loaders import load

SENTENCE = "The ferry to Vellmoor leaves at seven."


def source(path: Path) -> SourceFile:
    status = path.stat()
    return SourceFile(path=path, name=path.name, size=status.st_size, mtime_ns=status.st_mtime_ns)


def load_bytes(tmp_path: Path, name: str, data: bytes) -> list[Document | Skipped]:
    path = tmp_path / name
    path.write_bytes(data)
    return list(load(source(path)))


def load_one(tmp_path: Path, name: str, data: bytes) -> Document:
    (document,) = load_bytes(tmp_path, name, data)
    assert isinstance(document, Document), document
    return document


def reason(tmp_path: Path, name: str, data: bytes) -> str:
    (skipped,) = load_bytes(tmp_path, name, data)
    assert isinstance(skipped, Skipped), skipped
    assert skipped.document == name
    return skipped.reason


def text_at(document: Document, label: str) -> str:
    (page,) = [p for p in document.pages if p.label == label]
    return document.text[page.start : page.end]


def headings(document: Document) -> list[tuple[int, str]]:
    for heading in document.headings:
        first_line = document.text[heading.start :].split("\n")[0]
        assert heading.title.split()[0] in first_line
    return [(h.level, h.title) for h in document.headings]


# --- small real files, made here ---------------------------------------------------------------------------------


def make_pdf(*pages: str, title: str = "", password: str = "", outline: str = "") -> bytes:
    from reportlab.pdfgen.canvas import Canvas

    stream = io.BytesIO()
    canvas = Canvas(stream, encrypt=password or None)
    canvas.setTitle(title)
    for number, page in enumerate(pages):
        if outline and number == 0:
            canvas.bookmarkPage("first")
            canvas.addOutlineEntry(outline, "first")
        for row, line in enumerate(page.split("\n")):
            canvas.drawString(72, 720 - 14 * row, line)
        canvas.showPage()
    canvas.save()
    return stream.getvalue()


def make_docx() -> bytes:
    import docx

    document = docx.Document()
    document.core_properties.title = "Ferry rules"
    document.add_heading("Timetable", level=1)
    document.add_paragraph(SENTENCE)
    document.add_heading("Fares", level=2)
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip(
        [c for row in table.rows for c in row.cells], ["Who", "Price", "Child", "3 marks"], strict=True
    ):
        cell.text = text
    document.add_paragraph("Dogs ride free.", style="List Bullet")
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def make_pptx() -> bytes:
    import pptx
    from pptx.util import Inches

    presentation = pptx.Presentation()
    first = presentation.slides.add_slide(presentation.slide_layouts[1])
    first.shapes.title.text = "Ferry plan"
    first.placeholders[1].text = SENTENCE
    first.notes_slide.notes_text_frame.text = "Mention the fog."
    second = presentation.slides.add_slide(presentation.slide_layouts[6])
    table = second.shapes.add_table(1, 2, Inches(1), Inches(1), Inches(4), Inches(1)).table
    table.cell(0, 0).text, table.cell(0, 1).text = "Child", "3 marks"
    group = second.shapes.add_group_shape()
    group.shapes.add_textbox(Inches(1), Inches(3), Inches(4), Inches(1)).text_frame.text = "Inside a group"
    stream = io.BytesIO()
    presentation.save(stream)
    return stream.getvalue()


CONTAINER = '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>'
PACKAGE = """<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">
<metadata><dc:title>Ferry book</dc:title></metadata>
<manifest>
<item id="b" href="two.xhtml" media-type="application/xhtml+xml"/>
<item id="a" href="one%20a.xhtml" media-type="application/xhtml+xml"/>
<item id="n" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>
</manifest>
<spine><itemref idref="n"/><itemref idref="a"/><itemref idref="b"/></spine></package>"""


def make_epub(**extra: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("META-INF/container.xml", CONTAINER)
        archive.writestr("OPS/book.opf", PACKAGE)
        archive.writestr("OPS/nav.xhtml", "<html><body><p>Contents</p></body></html>")
        archive.writestr("OPS/one a.xhtml", f"<html><body><h1>Crossing</h1><p>{SENTENCE}</p></body></html>")
        archive.writestr("OPS/two.xhtml", "<html><body><h1>Fares</h1><p>Dogs ride free.</p></body></html>")
        for name, content in extra.items():
            archive.writestr(name.replace("__", "/").replace("META_INF", "META-INF") + ".xml", content)
    return stream.getvalue()


def make_notebook() -> bytes:
    cells = [
        {"cell_type": "markdown", "source": ["# Ferry log\n", "\n", SENTENCE]},
        {
            "cell_type": "code",
            "source": "passengers = 41 + 1\npassengers",
            "outputs": [
                {"output_type": "execute_result", "data": {"text/plain": ["42"], "image/png": "aGk="}},
                {"output_type": "stream", "text": "boarded\n"},
            ],
        },
    ]
    return json.dumps({"nbformat": 4, "cells": cells}).encode()


HTML = f"""<!DOCTYPE html>
<html><head><title>Ferry page</title>
<style>p {{ color: red }}</style>
<script>alert("secret script")</script></head>
<body><nav><a href="/">Home</a></nav>
<h1>Timetable<a href="#t">¶</a></h1>
<p>{SENTENCE}
It turns round <b>at&nbsp;eight</b>.</p>
<ul><li>Bring a <i>coat</i></li>
<li>No <br> smoking</li></ul>
<pre>07:00  out
  08:00  back</pre>
<h2>Fares<!-- two
lines --></h2>
<table><tr><th>Who</th><th>Price</th></tr>
<tr><td><p>Child</p></td><td>3 marks</td></tr></table>
</body></html>
"""

MAKERS: dict[str, Callable[[], bytes]] = {
    "ferry.txt": lambda: SENTENCE.encode(),
    "ferry.md": lambda: f"# Ferry\n\n{SENTENCE}\n".encode(),
    "ferry.rst": lambda: f"Ferry\n=====\n\n{SENTENCE}\n".encode(),
    "ferry.py": lambda: f'NOTE = "{SENTENCE}"\n'.encode(),
    "ferry.html": lambda: HTML.encode(),
    "ferry.pdf": lambda: make_pdf(SENTENCE),
    "ferry.docx": make_docx,
    "ferry.pptx": make_pptx,
    "ferry.epub": make_epub,
    "ferry.ipynb": make_notebook,
    "ferry.csv": lambda: f"place,note\nVellmoor,{SENTENCE}\n".encode(),
    "ferry.json": lambda: json.dumps({"note": SENTENCE}, indent=1).encode(),
    "ferry.jsonl": lambda: json.dumps({"id": "f", "title": "Ferry", "text": SENTENCE}).encode(),
}


def test_every_loader_has_an_example() -> None:
    assert {format_of(name) for name in MAKERS} == set(SUPPORTED_SUFFIXES.values())


@pytest.mark.parametrize("name", MAKERS)
def test_contract(name: str, tmp_path: Path) -> None:
    document = load_one(tmp_path, name, MAKERS[name]())
    assert SENTENCE in document.text
    assert document.source == name
    assert document.title
    assert "\r" not in document.text
    assert "\0" not in document.text
    document.text.encode("utf-8")
    spans = [(p.start, p.end) for p in document.pages]
    assert spans == sorted(spans)
    assert all(0 <= start < end <= len(document.text) for start, end in spans)
    assert all(a_end <= b_start for (_, a_end), (b_start, _) in pairwise(spans))
    assert len(document.lines) in {0, document.text.count("\n") + 1, document.text.count("\n")}


@pytest.mark.parametrize("name", MAKERS)
def test_damaged_files_cost_a_line_never_the_run(name: str, tmp_path: Path) -> None:
    good = MAKERS[name]()
    chance = random.Random(name)
    variants = [good[: chance.randrange(1, len(good))] for _ in range(6)]
    for _ in range(6):
        bad = bytearray(good)
        for _ in range(chance.choice([1, 10, 100])):
            bad[chance.randrange(len(bad))] = chance.randrange(256)
        variants.append(bytes(bad))
    variants.append(chance.randbytes(3000))
    for data in variants:
        for item in load_bytes(tmp_path, name, data):
            assert isinstance(item, Document) or (item.reason and "\n" not in item.reason)


@pytest.mark.parametrize("name", MAKERS)
def test_empty_files(name: str, tmp_path: Path) -> None:
    assert reason(tmp_path, name, b"") == "empty file"


# --- text, Markdown, rST, code -----------------------------------------------------------------------------------


def test_raw_formats_keep_every_line(tmp_path: Path) -> None:
    for name in ("a.txt", "a.md", "a.rst", "a.py"):
        document = load_one(tmp_path, name, b"one\r\n\r\n  three\x0cstill three\rfour")
        assert document.text.split("\n") == ["one", "", "  three\x0cstill three", "four"]
        assert (document.first_line, document.lines, document.pages) == (1, (), ())


def test_markdown_headings_and_title(tmp_path: Path) -> None:
    text = """---
title: "Harbour guide"
---
# Ferry [times](x.html) #

```sh
# not a heading
```

Fares
-----
    # code
### `Child` fares
"""
    document = load_one(tmp_path, "guide.md", text.encode())
    assert document.title == "Harbour guide"
    assert headings(document) == [(1, "Ferry times"), (2, "Fares"), (3, "Child fares")]
    assert load_one(tmp_path, "plain.md", b"# First\n\ntext").title == "First"
    assert load_one(tmp_path, "plain.md", b"no heading").title == "plain"


def test_rst_headings_take_their_level_from_the_order_of_styles(tmp_path: Path) -> None:
    text = """=======
Harbour
=======

Ferry
-----

Times
~~~~~

=====  =====
A      B
=====  =====
1      2
=====  =====

Fares
-----
"""
    document = load_one(tmp_path, "guide.rst", text.encode())
    assert [(h.level, h.title) for h in document.headings] == [(1, "Harbour"), (2, "Ferry"), (3, "Times"), (2, "Fares")]
    assert document.title == "Harbour"


# --- HTML --------------------------------------------------------------------------------------------------------


def test_html_text_headings_and_source_lines(tmp_path: Path) -> None:
    document = load_one(tmp_path, "page.html", HTML.encode())
    assert document.title == "Ferry page"
    assert headings(document) == [(1, "Timetable"), (2, "Fares")]
    for hidden in ("secret", "color", "Home", "¶"):
        assert hidden not in document.text
    placed = {text: line for text, line in zip(document.text.split("\n"), document.lines, strict=False) if text}
    assert placed == {
        "Timetable": 6,
        f"{SENTENCE} It turns round at eight.": 7,
        "- Bring a coat": 9,
        "- No": 10,
        "smoking": 10,
        "07:00  out": 11,
        "  08:00  back": 12,
        "Fares": 13,
        "Who | Price": 15,
        "Child | 3 marks": 16,
    }


def test_html_declared_encoding_and_pages_of_links(tmp_path: Path) -> None:
    cyrillic = '<meta charset="koi8-r"><p>Паром</p>'.encode("koi8-r")
    assert "Паром" in load_one(tmp_path, "k.html", cyrillic).text
    assert "Start" in load_one(tmp_path, "n.html", b"<nav><a href='/'>Start</a></nav>").text
    assert reason(tmp_path, "s.html", b"<script>let a = 1</script>") == "no text"


def test_html_nested_too_deeply_is_read_or_skipped(tmp_path: Path) -> None:
    deep = b"<div>" * 100_000 + SENTENCE.encode() + b"</div>" * 100_000
    assert len(load_bytes(tmp_path, "deep.html", deep)) == 1


# --- PDF ---------------------------------------------------------------------------------------------------------


def test_pdf_pages_outline_and_title(tmp_path: Path) -> None:
    data = make_pdf("Ferry times\nseven", "", f"{SENTENCE}\nrepeated", title="Harbour", outline="Ferry times")
    document = load_one(tmp_path, "plan.pdf", data)
    assert document.title == "Harbour"
    assert [p.label for p in document.pages] == ["p. 1", "p. 3"]
    assert text_at(document, "p. 3").strip() == f"{SENTENCE}\nrepeated"
    assert headings(document) == [(1, "Ferry times")]
    assert document.notes == ("1 of 3 pages have no text",)


def test_pdf_that_cannot_be_read(tmp_path: Path) -> None:
    assert reason(tmp_path, "scan.pdf", make_pdf("", "")) == "scanned PDF: no text on any page (run OCR first)"
    assert reason(tmp_path, "locked.pdf", make_pdf(SENTENCE, password="sesame")) == "encrypted PDF"
    assert reason(tmp_path, "bad.pdf", b"%PDF-1.7 nothing").startswith("not valid PDF: ")


# --- DOCX, PPTX, EPUB --------------------------------------------------------------------------------------------


def test_docx_headings_tables_lists_and_paragraph_numbers(tmp_path: Path) -> None:
    document = load_one(tmp_path, "rules.docx", make_docx())
    assert document.title == "Ferry rules"
    assert headings(document) == [(1, "Timetable"), (2, "Fares")]
    assert document.lines_label == "par."
    placed = {text: line for text, line in zip(document.text.split("\n"), document.lines, strict=False) if text}
    assert placed == {
        "Timetable": 1,
        SENTENCE: 2,
        "Fares": 3,
        "Who | Price": 4,
        "Child | 3 marks": 4,
        "- Dogs ride free.": 5,
    }


def test_docx_reads_insertions_and_not_deletions(tmp_path: Path) -> None:
    import docx
    from docx.oxml import parse_xml
    from docx.oxml.ns import nsdecls

    document = docx.Document()
    paragraph = document.add_paragraph("The fare is ")
    for tag, element, text in (("del", "delText", "2 marks"), ("ins", "t", "3 marks")):
        xml = f'<w:{tag} {nsdecls("w")} w:id="1"><w:r><w:{element}>{text}</w:{element}></w:r></w:{tag}>'
        paragraph._p.append(parse_xml(xml))
    stream = io.BytesIO()
    document.save(stream)
    assert load_one(tmp_path, "fare.docx", stream.getvalue()).text == "The fare is 3 marks\n"


def test_pptx_slides_notes_tables_and_groups(tmp_path: Path) -> None:
    document = load_one(tmp_path, "plan.pptx", make_pptx())
    assert [p.label for p in document.pages] == ["slide 1", "slide 2"]
    assert text_at(document, "slide 1").split() == f"Ferry plan {SENTENCE} Notes: Mention the fog.".split()
    assert text_at(document, "slide 2").split() == ["Child", "|", "3", "marks", "Inside", "a", "group"]
    assert headings(document) == [(1, "Ferry plan")]


def test_epub_follows_the_spine(tmp_path: Path) -> None:
    document = load_one(tmp_path, "book.epub", make_epub())
    assert document.title == "Ferry book"
    assert [p.label for p in document.pages] == ["chapter 1", "chapter 2"]
    assert SENTENCE in text_at(document, "chapter 1")
    assert headings(document) == [(1, "Crossing"), (1, "Fares")]
    assert "Contents" not in document.text


def test_a_damaged_member_is_told_as_such(tmp_path: Path) -> None:
    good = make_docx()
    at = good.index(b"word/document.xml") + 60
    bad = good[:at] + bytes(50) + good[at + 50 :]
    assert reason(tmp_path, "a.docx", bad).startswith("not valid DOCX: ")


def test_zip_formats_that_cannot_be_read(tmp_path: Path) -> None:
    assert reason(tmp_path, "a.docx", b"PK\x03\x04 cut").startswith("not valid DOCX: ")
    assert reason(tmp_path, "a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512)) == (
        "encrypted DOCX (or an old binary format)"
    )
    assert reason(tmp_path, "b.pptx", make_docx()).startswith("not valid PPTX: ")
    assert reason(tmp_path, "c.epub", make_docx()) == "not valid EPUB: META-INF/container.xml is missing"
    locked = '<encryption><CipherReference URI="OPS/two.xhtml"/></encryption>'
    assert reason(tmp_path, "d.epub", make_epub(META_INF__encryption=locked)) == "encrypted EPUB (DRM)"


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("word/document.xml", "w") as member,
    ):
        for _ in range(513):
            member.write(bytes(1024 * 1024))
    assert reason(tmp_path, "bomb.docx", stream.getvalue()) == "unpacks to more than 512 MiB"


# --- notebooks, tables, JSON -------------------------------------------------------------------------------------


def test_notebook_cells_and_outputs(tmp_path: Path) -> None:
    document = load_one(tmp_path, "log.ipynb", make_notebook())
    assert document.title == "Ferry log"
    assert text_at(document, "cell 1") == f"# Ferry log\n\n{SENTENCE}\n"
    assert text_at(document, "cell 2") == "passengers = 41 + 1\npassengers\n42\nboarded\n"
    assert headings(document) == [(1, "Ferry log")]
    assert reason(tmp_path, "bad.ipynb", b'{"a": 1}') == "not valid notebook: no cells"


def test_table_rows_name_their_columns_and_lines(tmp_path: Path) -> None:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=";", lineterminator="\n")
    writer.writerows([["place", "note"], ["Vellmoor", "two\nlines"], ["Orr; old", ""]])
    document = load_one(tmp_path, "t.csv", stream.getvalue().encode())
    placed = [(t, n) for t, n in zip(document.text.split("\n"), document.lines, strict=False) if t]
    assert placed == [
        ("Columns: place, note", 1),
        ("place: Vellmoor", 2),
        ("note: two lines", 2),
        ("place: Orr; old", 4),
    ]
    numbers = load_one(tmp_path, "n.tsv", b"1\t2\n3\t4\n")
    assert numbers.text.split("\n") == ["column 1: 1", "column 2: 2", "", "column 1: 3", "column 2: 4", "", ""]


def test_minified_json_is_unfolded_and_other_json_is_raw(tmp_path: Path) -> None:
    pretty = json.dumps({"a": {"b": SENTENCE}}, indent=2)
    assert load_one(tmp_path, "p.json", pretty.encode()).text == pretty
    long = "x" * 2000
    document = load_one(tmp_path, "m.json", json.dumps({"a": [{"b": long}, None, True]}).encode())
    assert document.text == f"a.0.b: {long}\na.2: true\n"
    assert document.lines == (1, 1)
    broken = load_one(tmp_path, "b.json", ("[" + long).encode())
    assert broken.notes == ("read as plain text, since it is no JSON: Expecting value at column 2",)


def test_jsonl_lines_are_documents(tmp_path: Path) -> None:
    lines = [
        json.dumps({"id": "a", "title": "Ferry", "text": "one\r\ntwo"}),
        "{broken",
        "",
        json.dumps({"id": "a", "text": "again"}),
        json.dumps({"id": 7, "text": "seven \ud800"}),
        json.dumps({"title": "no text"}),
        json.dumps({"text": "nameless"}),
        json.dumps({"id": "e", "text": "  "}),
    ]
    found = load_bytes(tmp_path, "c.jsonl", "\n".join(lines).encode())
    documents = [d for d in found if isinstance(d, Document)]
    assert [(d.name, d.title, d.text, d.first_line) for d in documents] == [
        ("c.jsonl#a", "Ferry", "one\ntwo", 1),
        ("c.jsonl#7", "", "seven \ufffd", 5),
        ("c.jsonl#line-7", "", "nameless", 7),
    ]
    assert documents[0].lines == (1, 1)
    assert documents[1].notes == ("1 lone surrogates replaced",)
    assert [(s.document, s.reason) for s in found if isinstance(s, Skipped)] == [
        ("c.jsonl:2", "line 2: not valid JSON: Expecting property name enclosed in double quotes at column 2"),
        ("c.jsonl:4", "line 4: same id as line 1"),
        ("c.jsonl:6", "line 6: no `text`"),
        ("c.jsonl:8", "line 8: empty `text`"),
    ]


def test_ids_are_whole_names_when_the_corpus_is_the_path(tmp_path: Path) -> None:
    corpus = tmp_path / "c.jsonl"
    corpus.write_text(json.dumps({"id": "q1", "title": "T", "text": "x"}))
    (file,) = scan(corpus).files
    (document,) = load(file)
    assert isinstance(document, Document)
    assert (document.name, document.source) == ("q1", "c.jsonl")


def test_jsonl_that_is_no_corpus_is_one_document(tmp_path: Path) -> None:
    document = load_one(tmp_path, "log.jsonl", b'{"event": "start"}\n{"event": "stop"}\n')
    assert document.text == '{"event": "start"}\n{"event": "stop"}\n'


def test_a_file_that_vanished(tmp_path: Path) -> None:
    gone = SourceFile(path=tmp_path / "gone.txt", name="gone.txt", size=1, mtime_ns=0)
    (found,) = load(gone)
    assert found == Skipped(document="gone.txt", reason="cannot be read: No such file or directory", transient=True)
