"""What a GGUF file says of itself: the metadata in its header, read without llama.cpp and without trusting the file.

Lengths and counts come from the file, so each is compared with what may still be read before anything is read or
skipped: a lying header costs at most `MAX_BYTES` of reading.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from adaptrag_cli.errors import ModelError
from adaptrag_cli.models.reading import GET_ANOTHER, reading

MAGIC = b"GGUF"
MAX_BYTES = 64 << 20
"""Of metadata; the largest vocabularies take some ten mebibytes."""
_VERSIONS = (2, 3)
_MAX_KEYS = 4096
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""`struct` codes by type of a value."""
_STRING, _ARRAY = 8, 9

Value = str | int | float | bool | None
"""None stands for a list, whose members are not read."""


def read_metadata(path: Path) -> dict[str, Value]:
    """All keys of a file's header with their values.

    Raises:
        ModelNotFound: there is no such file.
        ModelError: it is no GGUF file, or its header is damaged.
    """
    return dict(_pairs(path))


def read_value(path: Path, key: str) -> Value:
    """The value of one key, None where the header lacks it; what follows it is not read.

    Raises:
        ModelNotFound: there is no such file.
        ModelError: it is no GGUF file, or its header is damaged.
    """
    return next((value for name, value in _pairs(path) if name == key), None)


def _pairs(path: Path) -> Iterator[tuple[str, Value]]:
    with reading(path), path.open("rb") as file:
        header = _Header(file)
        try:
            yield from header.pairs()
        except (ValueError, struct.error) as error:
            raise ModelError(f"{path} is not a GGUF file that can be read: {error}", GET_ANOTHER) from error


class _Header:
    """A header that is being read from its start."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._left = MAX_BYTES

    def pairs(self) -> Iterator[tuple[str, Value]]:
        """Keys and values in the file's order.

        Raises:
            ValueError: what does not fit; in words.
        """
        if self._file.read(len(MAGIC)) != MAGIC:
            raise ValueError("it does not begin with GGUF")
        version = self._number("I")
        if version not in _VERSIONS:
            raise ValueError(f"its version is {version}")
        self._number("Q")  # number of tensors
        count = int(self._number("Q"))
        if count > _MAX_KEYS:
            raise ValueError(f"its header has {count:,} keys")
        for _ in range(count):
            key = self._text()
            yield key, self._value(int(self._number("I")))

    def _value(self, kind: int) -> Value:
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            self._skip_list(int(self._number("I")), int(self._number("Q")))
            return None
        return self._number(_code(kind))

    def _skip_list(self, kind: int, count: int) -> None:
        if kind != _STRING:
            self._take(count * struct.calcsize(_code(kind)))
            return
        for _ in range(count):  # each takes eight bytes at least, so a false count ends soon
            self._take(int(self._number("Q")))

    def _number(self, code: str) -> int | float | bool:
        (number,) = struct.unpack(f"<{code}", self._take(struct.calcsize(code)))
        assert isinstance(number, int | float)
        return number

    def _text(self) -> str:
        return self._take(int(self._number("Q"))).decode("utf-8", "replace")

    def _take(self, size: int) -> bytes:
        if size > self._left:
            raise ValueError("its header is longer than a header is")
        self._left -= size
        data = self._file.read(size)
        if len(data) < size:
            raise ValueError("it ends within its header")
        return data


def _code(kind: int) -> str:
    if kind not in _NUMBERS:
        raise ValueError(f"a value is of the unknown type {kind}")
    return _NUMBERS[kind]
