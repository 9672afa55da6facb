"""HTML: the words a reader sees, with headings and source lines.

lxml is used bare because its elements know their source line; Beautiful Soup over lxml drops it, and over
`html.parser` it is five times slower.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from adaptrag_cli.documents.base import Document
from adaptrag_cli.documents.builder import TextBuilder
from adaptrag_cli.documents.encoding import decode
from adaptrag_cli.documents.folder import SourceFile
from adaptrag_cli.errors import DocumentError

if TYPE_CHECKING:
    from lxml.etree import _Element

_DROPPED_NAMES = "script style template noscript svg head iframe object canvas select button"
_BLOCK_NAMES = (
    "address article aside blockquote body caption center dd details dialog div dl dt fieldset figcaption figure "
    "footer form header hgroup hr html legend li main nav ol p pre section summary table tbody tfoot thead tr ul"
)
_DROPPED = frozenset(_DROPPED_NAMES.split())
_BLOCKS = frozenset(_BLOCK_NAMES.split())
_HEADINGS = {f"h{n}": n for n in range(1, 7)}
_CELLS = frozenset({"td", "th"})
_STRUCTURE = frozenset({"table", "ul", "ol", "dl", "pre", *_HEADINGS})
_PARAGRAPHS = frozenset({"p", "table", "ul", "ol", "dl", "pre", "blockquote"})
_SPACE = re.compile(r"\s+")
_PILCROW = re.compile(r"[¶#\uf0c1]+\s*$")
_MAX_DEPTH = 500
_LINE_LIMIT = 65535  # libxml2 keeps the lines of HTML in 16 bits


def load_html(file: SourceFile) -> Document:
    """Read an HTML page; scripts, styles and navigation are left out."""
    decoded = decode(_declare(file.path.read_bytes()))
    builder = TextBuilder()
    for note in decoded.notes:
        builder.note(note)
    title = write_html(builder, decoded.text, lines=decoded.text.count("\n") < _LINE_LIMIT - 1)
    first = next((h.title for h in builder.headings), "")
    return builder.build(file, title or first)


def write_html(builder: TextBuilder, html: str, *, lines: bool = False) -> str:
    """Append the visible text of a page and return its `<title>`.

    Raises:
        DocumentError: nothing in it is HTML.
    """
    from lxml import etree
    from lxml.html import HTMLParser

    html = re.sub(r"^\s*<\?xml[^>]*\?>", lambda m: "\n" * m[0].count("\n"), html)  # lxml refuses it in a str
    try:
        root = etree.fromstring(html, HTMLParser(huge_tree=False, recover=True, remove_pis=True))
    except (etree.LxmlError, ValueError) as error:
        raise DocumentError(f"not valid HTML: {error}") from error
    if root is None:
        raise DocumentError("no text")
    head = root.find(".//title")
    title = "".join(head.itertext("*")) if head is not None else ""
    before = builder.length
    _Writer(builder, lines=lines, navigation=False).write(root)
    if builder.length == before:  # a page that is nothing but navigation, such as a table of contents
        _Writer(builder, lines=lines, navigation=True).write(root)
    return " ".join(title.split())


class _Writer:
    """Walks the tree and flushes one paragraph per block element."""

    def __init__(self, builder: TextBuilder, *, lines: bool, navigation: bool) -> None:
        self._builder = builder
        self._lines = lines
        self._navigation = navigation
        self._words: list[str] = []
        self._line = 1  # where the parser's text stands now
        self._started = 0  # line of the first word of the paragraph, 0 when there is none yet
        self._heading = 0
        self._preformatted = 0
        self._bullet = ""
        self._cells = 0
        """Inside of a table cell without structure: its paragraphs stay in the row's line."""

    def write(self, root: _Element) -> None:
        self._element(root, 0)
        self._flush()

    def _element(self, element: _Element, depth: int) -> None:
        tag = element.tag.lower() if isinstance(element.tag, str) else ""
        self._line = element.sourceline or self._line
        if not tag:  # a comment
            self._line += (element.text or "").count("\n")
            return
        if tag in _DROPPED or self._is_navigation(element, tag):
            self._line += "".join(element.itertext("*")).count("\n")
            return
        block = tag in _BLOCKS or tag in _HEADINGS
        flat = tag in _CELLS and not any(child.tag in _STRUCTURE for child in element.iter())
        if tag in _CELLS and self._words:
            self._words.append(" | ")
        elif self._cells and (block or tag == "br"):
            self._words.append(" ")
        elif block:
            self._open(tag)
        elif tag == "br":
            self._words.append("\n") if self._preformatted else self._flush()
        elif tag == "img" and element.get("alt"):
            self._text(element.get("alt") or "", counts=False)
        self._cells += flat
        self._content(element, depth)
        self._cells -= flat
        if block and not self._cells:
            self._close(tag)

    def _content(self, element: _Element, depth: int) -> None:
        self._text(element.text or "")
        if depth < _MAX_DEPTH:
            for child in element:
                self._element(child, depth + 1)
                self._text(child.tail or "")
        else:
            self._text(" ".join(element.itertext("*")))

    def _open(self, tag: str) -> None:
        self._flush()
        self._heading = _HEADINGS.get(tag, self._heading)
        self._preformatted += tag == "pre"
        self._bullet = "- " if tag == "li" else self._bullet
        if tag in _PARAGRAPHS or tag in {"section", "div", "dt"}:
            self._builder.blank()

    def _close(self, tag: str) -> None:
        self._flush()
        if tag in _HEADINGS:
            self._heading = 0
        self._preformatted -= tag == "pre"
        if tag in _PARAGRAPHS:
            self._builder.blank()

    def _is_navigation(self, element: _Element, tag: str) -> bool:
        return not self._navigation and (tag == "nav" or element.get("role") == "navigation")

    def _text(self, text: str, *, counts: bool = True) -> None:
        if text:
            if not self._started and text.strip():
                leading = text[: len(text) - len(text.lstrip())]
                self._started = self._line + leading.count("\n")
            self._words.append(text)
            self._line += text.count("\n") if counts else 0

    def _flush(self) -> None:
        text = "".join(self._words)
        text = text.strip("\n") if self._preformatted else _SPACE.sub(" ", text).strip()
        line = self._started if self._lines else 0
        self._words, self._started = [], 0
        if not text.strip():
            return
        if self._heading:
            self._builder.heading(self._heading, _PILCROW.sub("", text), line)
        elif self._preformatted:
            self._builder.add(text, line)
        else:
            self._builder.add_at(self._bullet + text, line)
        self._bullet = ""


def _declare(data: bytes) -> bytes:
    """Honour `<meta charset>` where it names an 8-bit or East Asian encoding that the bytes alone would not tell."""
    declared = re.search(rb"""<meta[^>]{0,200}charset=["']?\s*([\w.:-]+)""", data[:4096], re.IGNORECASE)
    if not declared:
        return data
    name = declared[1].decode("ascii", "replace").lower()
    if name.startswith(("utf-16", "utf-32", "utf-8", "utf8")):
        return data
    try:
        data.decode("utf-8")
        return data
    except UnicodeDecodeError:
        pass
    try:
        return data.decode("cp1252" if name in {"iso-8859-1", "latin-1", "latin1"} else name).encode("utf-8")
    except (LookupError, ValueError):
        return data
