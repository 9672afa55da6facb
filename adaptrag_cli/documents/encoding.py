"""Bytes to text: the encoding is found, damage is repaired, and both are told."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from adaptrag_cli.errors import DocumentError

_BOMS: tuple[tuple[bytes, str], ...] = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MAGIC = (b"%PDF-", b"PK\x03\x04", b"\x7fELF", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"\x1f\x8b", b"\xd0\xcf\x11\xe0")
_CONTROL = bytes(c for c in range(32) if c not in b"\t\n\r\f\b\x1b")
_SAMPLE = 64 * 1024
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """Valid Unicode with `\\n` newlines, and what had to be done for it."""

    text: str
    notes: tuple[str, ...] = ()


def decode(data: bytes) -> Decoded:
    """Decode the bytes of a text file.

    Raises:
        DocumentError: `empty file`, `binary file`.
    """
    if not data:
        raise DocumentError("empty file")
    text, encoding, lossless = _decode(data)
    notes = [] if encoding == "utf-8" else [f"decoded as {encoding}"]
    if not lossless and (bad := text.count("\ufffd")):
        notes.append(f"{bad} undecodable bytes replaced")
    text, repairs = repair(text)
    return Decoded(text=normalise_newlines(text), notes=(*notes, *repairs))


def normalise_newlines(text: str) -> str:
    """Turn `\\r\\n` and `\\r` into `\\n`, as an editor counts lines."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def repair(text: str) -> tuple[str, tuple[str, ...]]:
    """Replace lone surrogates by U+FFFD and NUL by a space, character by character, and say how many."""
    notes: list[str] = []
    if nuls := text.count("\0"):
        text = text.replace("\0", " ")
        notes.append(f"{nuls} NUL characters replaced")
    text, surrogates = _SURROGATE.subn("\ufffd", text)
    if surrogates:
        notes.append(f"{surrogates} lone surrogates replaced")
    return text, tuple(notes)


def _decode(data: bytes) -> tuple[str, str, bool]:
    """Text (surrogates possible), the name of its encoding, and whether every byte made sense."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _decode_wide(data[len(mark) :], encoding), encoding, False
    if wide := _wide_without_mark(data):
        return _decode_wide(data, wide), wide, False
    if _is_binary(data):
        raise DocumentError("binary file")
    try:
        return data.decode("utf-8"), "utf-8", True
    except UnicodeDecodeError:
        pass
    if (text := _damaged_utf8(data)) is not None:
        return text, "utf-8", False
    return (*_decode_legacy(data), False)


def _decode_wide(data: bytes, encoding: str) -> str:
    text = data.decode(encoding, "replace" if encoding.startswith("utf-32") else "surrogatepass_or_replace")
    return _SURROGATE_PAIR.sub(_join_pair, text)


def _pass_or_replace(error: UnicodeError) -> tuple[str | bytes, int]:
    """Keep a lone surrogate so that `repair` can count it; replace what is broken otherwise (a cut last byte)."""
    try:
        return codecs.lookup_error("surrogatepass")(error)
    except UnicodeError:
        return codecs.lookup_error("replace")(error)


codecs.register_error("surrogatepass_or_replace", _pass_or_replace)


def _join_pair(match: re.Match[str]) -> str:
    return match[0].encode("utf-16", "surrogatepass").decode("utf-16")


def _wide_without_mark(data: bytes) -> str:
    """Tell UTF-16 without a mark by its zero bytes: Latin letters leave one half of every pair zero."""
    sample = data[:_SAMPLE]
    half = len(sample) // 2
    if half < 4:
        return ""
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if odd > 0.4 * half and even < 0.05 * half:
        return "utf-16-le"
    if even > 0.4 * half and odd < 0.05 * half:
        return "utf-16-be"
    return ""


def _is_binary(data: bytes) -> bool:
    if data.startswith(_MAGIC):
        return True
    sample = data[:_SAMPLE]
    controls = len(sample) - len(sample.translate(None, _CONTROL))
    return controls > 0.05 * len(sample)


def _damaged_utf8(data: bytes) -> str | None:
    """Decode UTF-8 with a few bad bytes among good multi-byte characters; None when it rather is something else."""
    text = data.decode("utf-8", "surrogatepass_or_replace")
    text = _SURROGATE_PAIR.sub(_join_pair, text)
    bad = text.count("\ufffd")
    good = sum(1 for c in text[:_SAMPLE] if c > "\x7f") - text[:_SAMPLE].count("\ufffd")
    return text if good > 4 * bad else None


def _decode_legacy(data: bytes) -> tuple[str, str]:
    """Decode an 8-bit or East Asian encoding."""
    from charset_normalizer import from_bytes  # 60 ms

    sample = data if len(data) <= _SAMPLE else data[:_SAMPLE].rpartition(b"\n")[0] or data[:_SAMPLE]
    matches = from_bytes(sample, enable_fallback=False)
    best = matches.best()
    western = next((m for m in matches if "cp1252" in (m.encoding, *m.could_be_from_charset)), None)
    # Short Western texts fit a dozen code pages equally well, and cp1252 is by far the most frequent of them.
    is_western = best is None or (western is not None and western.chaos <= best.chaos)
    encoding = "cp1252" if best is None or is_western else best.encoding
    text = data.decode(encoding, "replace")
    if text.count("\ufffd") > 0.02 * len(text):
        raise DocumentError("binary file")
    return text, encoding
