"""PPTX through python-pptx (MIT): slide by slide, with tables and speaker notes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from adaptrag_cli.documents.archive import DAMAGE, open_archive
from adaptrag_cli.documents.base import Document
from adaptrag_cli.documents.builder import TextBuilder
from adaptrag_cli.documents.folder import SourceFile
from adaptrag_cli.errors import DocumentError

if TYPE_CHECKING:
    from pptx.shapes.base import BaseShape
    from pptx.slide import Slide

_MAX_GROUP_DEPTH = 20


def load_pptx(file: SourceFile) -> Document:
    """Read a PPTX; each slide is a page and its title a heading.

    Raises:
        DocumentError: encrypted or not valid.
    """
    import pptx
    from lxml.etree import LxmlError
    from pptx.exc import PackageNotFoundError

    open_archive(file.path, "PPTX").close()
    try:
        presentation = pptx.Presentation(str(file.path))
    except (PackageNotFoundError, KeyError, AttributeError, LxmlError, *DAMAGE) as error:
        raise DocumentError(f"not valid PPTX: {error}") from error
    builder = TextBuilder()
    for number, slide in enumerate(presentation.slides, start=1):
        with builder.page(f"slide {number}"):
            _write_slide(builder, slide)
    first = next((h.title for h in builder.headings), "")
    return builder.build(file, presentation.core_properties.title.replace("PowerPoint Presentation", "") or first)


def _write_slide(builder: TextBuilder, slide: Slide) -> None:
    title = slide.shapes.title
    if title is not None:
        builder.heading(1, title.text_frame.text)
    skipped = title.shape_id if title is not None else None
    _write_shapes(builder, (s for s in slide.shapes if s.shape_id != skipped), 0)
    notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if notes is not None and notes.text.strip():
        builder.blank()
        builder.add(f"Notes: {notes.text.strip()}")


def _write_shapes(builder: TextBuilder, shapes: Iterable[BaseShape], depth: int) -> None:
    from pptx.shapes.autoshape import Shape
    from pptx.shapes.graphfrm import GraphicFrame
    from pptx.shapes.group import GroupShape

    for shape in shapes:
        if isinstance(shape, GroupShape) and depth < _MAX_GROUP_DEPTH:
            _write_shapes(builder, shape.shapes, depth + 1)
        elif isinstance(shape, GraphicFrame) and shape.has_table:
            for row in shape.table.rows:
                builder.add(" | ".join(" ".join(cell.text.split()) for cell in row.cells if not cell.is_spanned))
        elif isinstance(shape, Shape) and (text := shape.text_frame.text.replace("\v", "\n").strip()):
            builder.blank()
            builder.add(text)
