"""DOCX through python-docx (MIT): its package and styles; the text is walked here.

`Paragraph.text` leaves out content controls, tracked insertions and text boxes, and tables inside of controls, so the
body is walked element by element. A DOCX has no pages of its own; its places are its paragraphs, counted as they come.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from adaptrag_cli.documents.archive import DAMAGE, open_archive
from adaptrag_cli.documents.base import Document
from adaptrag_cli.documents.builder import TextBuilder
from adaptrag_cli.documents.folder import SourceFile
from adaptrag_cli.errors import DocumentError

if TYPE_CHECKING:
    from docx.document import Document as DocxDocument
    from lxml.etree import _Element

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_SKIPPED = frozenset({f"{_W}del", f"{_W}moveFrom", f"{_W}instrText", f"{_W}pPr", f"{_W}rPr", _FALLBACK})
_BREAKS = {f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}tab": "\t", f"{_W}noBreakHyphen": "-"}
_HEADING_STYLE = re.compile(r"heading (\d)$", re.IGNORECASE)
_MAX_TABLE_DEPTH = 20


def load_docx(file: SourceFile) -> Document:
    """Read a DOCX with headings, tables, text boxes and notes.

    Raises:
        DocumentError: encrypted or not valid.
    """
    import docx
    from docx.opc.exceptions import PackageNotFoundError
    from lxml.etree import LxmlError

    open_archive(file.path, "DOCX").close()
    try:
        document = docx.Document(str(file.path))
    except (PackageNotFoundError, KeyError, AttributeError, LxmlError, *DAMAGE) as error:
        raise DocumentError(f"not valid DOCX: {error}") from error
    writer = _Writer(_heading_levels(document))
    writer.blocks(document.element.body, 0)
    for kind in ("footnote", "endnote"):
        writer.notes(document, kind)
    title = document.core_properties.title or writer.title
    return writer.builder.build(file, title, lines_label="par.")


class _Writer:
    def __init__(self, levels: dict[str, int]) -> None:
        self.builder = TextBuilder()
        self.title = ""
        self._levels = levels
        self._paragraph = 0

    def blocks(self, parent: _Element, depth: int) -> None:
        for element in parent:
            if element.tag == f"{_W}p":
                self._write_paragraph(element)
            elif element.tag == f"{_W}tbl" and depth < _MAX_TABLE_DEPTH:
                self._write_table(element)
            elif element.tag not in _SKIPPED and depth < _MAX_TABLE_DEPTH:
                self.blocks(element, depth + 1)  # content controls and the like

    def notes(self, document: DocxDocument, kind: str) -> None:
        """Append footnotes or endnotes, which live in a part of their own."""
        from lxml import etree

        parser = etree.XMLParser(resolve_entities=False, no_network=True)
        for relation in document.part.rels.values():
            if relation.is_external or not relation.reltype.endswith(f"/{kind}s"):
                continue
            for note in etree.fromstring(relation.target_part.blob, parser).iter(f"{_W}{kind}"):
                if note.get(f"{_W}type") in {None, "normal"}:
                    self.blocks(note, 0)

    def _write_paragraph(self, element: _Element) -> None:
        self._paragraph += 1
        text = "".join(_text_of(element)).strip()
        if not text:
            return
        style, listed = _style_of(element)
        level = _outline_level(element) or self._levels.get(style, 0)
        if level:
            self.builder.heading(level, text, self._paragraph)
            self.title = self.title or (text if level == 1 else "")
            return
        if style == "Title" and not self.title:
            self.title = " ".join(text.split())
        if not listed:
            self.builder.blank()
        self.builder.add_at(f"- {text}" if listed else text, self._paragraph)

    def _write_table(self, table: _Element) -> None:
        self._paragraph += 1
        self.builder.blank()
        for row in table.iter(f"{_W}tr"):
            cells = (" ".join("".join(_text_of(cell)).split()) for cell in row.iter(f"{_W}tc"))
            if line := " | ".join(cell for cell in cells if cell):
                self.builder.add_at(line, self._paragraph)
        self.builder.blank()


def _text_of(element: _Element) -> Iterator[str]:
    """The visible text below an element: no deleted text, no field codes, each text box once."""
    for child in element:
        if child.tag in _SKIPPED:
            continue
        if child.tag == f"{_W}t":
            yield child.text or ""
        elif child.tag in _BREAKS:
            yield _BREAKS[child.tag]
        else:
            yield from _text_of(child)
            if child.tag == f"{_W}p":
                yield "\n"


def _style_of(paragraph: _Element) -> tuple[str, bool]:
    """Style id, and whether the paragraph is an item of a list."""
    properties = paragraph.find(f"{_W}pPr")
    if properties is None:
        return "", False
    style = properties.find(f"{_W}pStyle")
    name = style.get(f"{_W}val", "") if style is not None else ""
    return name, properties.find(f"{_W}numPr") is not None or name.startswith("List")


def _outline_level(paragraph: _Element) -> int:
    return _level(paragraph.find(f"{_W}pPr/{_W}outlineLvl"))


def _level(outline: _Element | None) -> int:
    value = outline.get(f"{_W}val", "") if outline is not None else ""
    return int(value) + 1 if value.isdecimal() and int(value) < 9 else 0  # 9 is body text


def _heading_levels(document: DocxDocument) -> dict[str, int]:
    """Style id to heading level, by the style's (never translated) name or its outline level."""
    levels: dict[str, int] = {}
    for style in document.styles.element.iter(f"{_W}style"):
        name = style.find(f"{_W}name")
        match = _HEADING_STYLE.match(name.get(f"{_W}val", "")) if name is not None else None
        if level := int(match[1]) if match else _level(style.find(f"{_W}pPr/{_W}outlineLvl")):
            levels[style.get(f"{_W}styleId", "")] = level
    return levels
