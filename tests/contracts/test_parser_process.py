"""The child that runs native parsers: one for many files, replaced when it hangs, dies or eats the memory."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from adaptrag_cli.documents.base import Document, TransientDocumentError
from adaptrag_cli.documents.folder import SourceFile
from adaptrag_cli.documents.isolation import MEMORY_LIMIT, ParserProcess, one_line
from adaptrag_cli.errors import DocumentError

HTML = "adaptrag_cli.documents.web:load_html"
# Stands in for a native parser that misbehaves; the child finds it through PYTHONPATH.
MISCHIEF = """
import os, time
from adaptrag_cli.documents.base import Document

def hang(file): time.sleep(600)
def die(file): os._exit(9)
def fail(file): raise RuntimeError("bad\\nstream")
def eat(file): return bytearray(LIMIT + 1)
def chat(file):
    os.write(1, b"a native library prints")
    return Document(name=file.name, source=file.name, title="", text=str(os.getpid()))
"""


@pytest.fixture
def page(tmp_path: Path) -> SourceFile:
    path = tmp_path / "page.html"
    path.write_text("<p>The ferry leaves at seven.</p>")
    return SourceFile(path=path, name="page.html", size=path.stat().st_size, mtime_ns=0)


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ParserProcess]:
    (tmp_path / "mischief.py").write_text(MISCHIEF.replace("LIMIT", str(MEMORY_LIMIT)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    process = ParserProcess(timeout=30)
    yield process
    process.close()


def test_one_child_serves_many_files(child: ParserProcess, page: SourceFile) -> None:
    pids = {child.load("mischief:chat", page).text for _ in range(20)}
    assert len(pids) == 1
    assert pids != {str(os.getpid())}


@pytest.mark.parametrize(
    ("loader", "reason", "is_transient"),
    [
        ("mischief:die", "its parser crashed", True),
        ("mischief:fail", "cannot be parsed: RuntimeError: bad stream", False),
    ],
)
def test_trouble_is_told_and_the_next_file_is_read(
    child: ParserProcess, page: SourceFile, loader: str, reason: str, is_transient: bool
) -> None:
    with pytest.raises(DocumentError) as error:
        child.load(loader, page)
    assert error.value.message == reason
    assert isinstance(error.value, TransientDocumentError) is is_transient
    assert child.load(HTML, page).text == "The ferry leaves at seven.\n\n"


def test_a_hanging_parser_is_stopped(child: ParserProcess, page: SourceFile) -> None:
    first: Document = child.load("mischief:chat", page)
    child.timeout = 0.5
    started = time.monotonic()
    with pytest.raises(TransientDocumentError, match=r"^timed out after 0\.5 s$"):
        child.load("mischief:hang", page)
    assert time.monotonic() - started < 10
    child.timeout = 30
    assert child.load("mischief:chat", page).text != first.text


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the address space")
def test_a_parser_that_eats_the_memory_is_stopped(child: ParserProcess, page: SourceFile) -> None:
    with pytest.raises(DocumentError, match=r"^needs too much memory$"):
        child.load("mischief:eat", page)
    assert child.load(HTML, page).title == "page"


def test_messages_of_others_fit_a_line() -> None:
    assert one_line("a\n\tb\ud800") == "a b\\ud800"
    assert one_line("x" * 300) == "x" * 200 + " ..."
