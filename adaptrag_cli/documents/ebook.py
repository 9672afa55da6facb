"""EPUB: a zip of HTML chapters in spine order (EbookLib is AGPL, and the format needs little)."""

from __future__ import annotations

import posixpath
import zipfile
from typing import TYPE_CHECKING
from urllib.parse import unquote

from adaptrag_cli.documents.archive import DAMAGE, open_archive
from adaptrag_cli.documents.base import Document
from adaptrag_cli.documents.builder import TextBuilder
from adaptrag_cli.documents.encoding import decode
from adaptrag_cli.documents.folder import SourceFile
from adaptrag_cli.documents.web import write_html
from adaptrag_cli.errors import DocumentError

if TYPE_CHECKING:
    from lxml.etree import _Element

_CONTAINER = "META-INF/container.xml"
_PAGES = frozenset({"application/xhtml+xml", "text/html", "application/xml", "text/xml"})


def load_epub(file: SourceFile) -> Document:
    """Read an EPUB; each file of the spine with text is a chapter.

    Raises:
        DocumentError: not valid, or protected (DRM).
    """
    with open_archive(file.path, "EPUB") as archive:
        package_name = _package_name(archive)
        package = _parse(archive, package_name)
        protected = _protected(archive)
        builder = TextBuilder()
        number = 0
        for name in _spine(package, posixpath.dirname(package_name)):
            if name in protected:
                raise DocumentError("encrypted EPUB (DRM)")
            html = _chapter(archive, name, builder)
            before = builder.length
            with builder.page(f"chapter {number + 1}"):
                if html:
                    write_html(builder, html)
            number += builder.length > before
        title = next((e.text for e in package.iter("{*}title") if e.text), "")
        return builder.build(file, title)


def _chapter(archive: zipfile.ZipFile, name: str, builder: TextBuilder) -> str:
    try:
        return decode(_read(archive, name)).text
    except DocumentError as error:
        builder.note(f"{name}: {error.message}")
        return ""


def _package_name(archive: zipfile.ZipFile) -> str:
    for element in _parse(archive, _CONTAINER).iter("{*}rootfile"):
        if path := element.get("full-path"):
            return str(path)
    raise DocumentError("not valid EPUB: no package in META-INF/container.xml")


def _spine(package: _Element, folder: str) -> list[str]:
    """Names of the chapter files in reading order, the table of contents left out."""
    manifest = {item.get("id"): item for item in package.iter("{*}item")}
    names = []
    for reference in package.iter("{*}itemref"):
        item = manifest.get(reference.get("idref"))
        if item is None or item.get("media-type") not in _PAGES or "nav" in (item.get("properties") or "").split():
            continue
        names.append(posixpath.normpath(posixpath.join(folder, unquote(item.get("href") or ""))))
    return names


def _protected(archive: zipfile.ZipFile) -> frozenset[str]:
    """Files that cannot be read without a key (obfuscated fonts are listed as well, and do not matter)."""
    if "META-INF/encryption.xml" not in archive.namelist():
        return frozenset()
    references = _parse(archive, "META-INF/encryption.xml").iter("{*}CipherReference")
    return frozenset(unquote(r.get("URI") or "") for r in references)


def _parse(archive: zipfile.ZipFile, name: str) -> _Element:
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
    try:
        root = etree.fromstring(_read(archive, name), parser)
    except (etree.LxmlError, ValueError) as error:
        raise DocumentError(f"not valid EPUB: {name}: {error}") from error
    if root is None:
        raise DocumentError(f"not valid EPUB: {name} is no XML")
    return root


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        return archive.read(name)
    except KeyError as error:
        raise DocumentError(f"not valid EPUB: {name} is missing") from error
    except DAMAGE as error:
        raise DocumentError(f"not valid EPUB: {name}: {error}") from error
