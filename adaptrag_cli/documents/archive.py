"""Zip-based documents (DOCX, PPTX, EPUB): checked before anything is unpacked."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

from adaptrag_cli.errors import DocumentError

DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, ValueError)
"""What reading a damaged member raises."""
MAX_UNPACKED = 512 * 1024 * 1024
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def open_archive(path: Path, kind: str) -> zipfile.ZipFile:
    """Open a zip whose unpacked size is sane.

    Raises:
        DocumentError: encrypted, not a zip, or a zip bomb.
    """
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        with path.open("rb") as stream:
            if stream.read(8) == _OLE:  # Office wraps an encrypted file, and the formats before 2007, in OLE
                raise DocumentError(f"encrypted {kind} (or an old binary format)") from error
        raise DocumentError(f"not valid {kind}: {error}") from error
    entries = archive.infolist()
    if sum(entry.file_size for entry in entries) > MAX_UNPACKED:
        archive.close()
        raise DocumentError(f"unpacks to more than {MAX_UNPACKED >> 20} MiB")
    if any(entry.flag_bits & 1 for entry in entries):
        archive.close()
        raise DocumentError(f"encrypted {kind}")
    return archive
