"""PDF through pypdfium2: the engine of a browser, page by page, under a permissive licence (PyMuPDF's is AGPL)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from adaptrag_cli.documents.base import Document
from adaptrag_cli.documents.builder import TextBuilder
from adaptrag_cli.documents.encoding import normalise_newlines
from adaptrag_cli.documents.folder import SourceFile
from adaptrag_cli.errors import DocumentError

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

_HYPHEN = re.compile("[\x02\ufffe\u00ad]\n?")  # how pdfium marks a word that is broken at a line's end
_LEADER = re.compile(r"(?:[ \t]?\.){5,}")  # the dots of a table of contents: 50 tokens that say nothing
_TYPESETTER_TITLE = re.compile(r"^(untitled|microsoft \w+ - .*|.*\.(docx?|tex|dvi|indd|pptx?|odt))?$", re.IGNORECASE)


def load_pdf(file: SourceFile) -> Document:
    """Read a PDF; headings are the entries of its outline.

    Raises:
        DocumentError: encrypted, damaged, or without text on any page.
    """
    import pypdfium2

    try:
        pdf = pypdfium2.PdfDocument(file.path)
    except pypdfium2.PdfiumError as error:
        reason = str(error)
        if "password" in reason.lower() or "security" in reason.lower():
            raise DocumentError("encrypted PDF") from error
        raise DocumentError(f"not valid PDF: {reason}") from error
    try:
        return _read(pdf, file)
    finally:
        pdf.close()


def _read(pdf: PdfDocument, file: SourceFile) -> Document:
    builder = TextBuilder()
    starts: list[int] = []
    texts: list[str] = []
    empty = 0
    for number in range(len(pdf)):
        text = _page_text(pdf, number)
        starts.append(builder.length)
        texts.append(text)
        if not text:
            empty += 1
            continue
        with builder.page(f"p. {number + 1}"):
            builder.add(text)
    if not builder.length:
        raise DocumentError("scanned PDF: no text on any page (run OCR first)")
    if empty:
        builder.note(f"{empty} of {len(pdf)} pages have no text")
    _mark_outline(builder, pdf, starts, texts)
    title = (pdf.get_metadata_value("Title") or "").strip(" \0")
    return builder.build(file, "" if _TYPESETTER_TITLE.match(title) else title)


def _page_text(pdf: PdfDocument, number: int) -> str:
    import pypdfium2

    try:
        page = pdf[number]
        try:
            text_page = page.get_textpage()
            try:
                text = text_page.get_text_bounded()
            finally:
                text_page.close()
        finally:
            page.close()
    except pypdfium2.PdfiumError:
        return ""  # one damaged page is counted as a page without text
    return _LEADER.sub(" ...", _HYPHEN.sub("", normalise_newlines(str(text)))).strip()


def _mark_outline(builder: TextBuilder, pdf: PdfDocument, starts: list[int], texts: list[str]) -> None:
    """Put each outline entry where its title stands on its page, or at the top of the page."""
    import pypdfium2

    entries: list[tuple[int, str, int]] = []
    try:
        for bookmark in pdf.get_toc(max_depth=6):
            destination = bookmark.get_dest()
            page = destination.get_index() if destination is not None else None
            title = " ".join(bookmark.get_title().split())
            if title and page is not None and 0 <= page < len(starts) and texts[page]:
                entries.append((bookmark.level + 1, title, page))
    except (pypdfium2.PdfiumError, UnicodeError):
        builder.note("damaged outline")
    for level, title, page in entries:
        found = texts[page].find(title)
        builder.mark_heading(level, title, starts[page] + max(found, 0))
