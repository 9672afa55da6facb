"""Look at what llama.cpp computes, node by node, through its evaluation callback.

llama.cpp asks the callback about every node of a graph before it computes it, and calls it again with those that it
wanted when their values are there. The layout of no struct is known here: names, sizes and values come from functions
that ggml's library exports, and values are copied from wherever the node lies, a GPU included.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adaptrag_cli.errors import ModelError
from adaptrag_cli.models.native import llama_library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Older builds have all of ggml in one library.
_LIBRARIES = tuple(
    name.format(part)
    for part in ("ggml-base", "ggml")
    for name in ("lib{}.so", "lib{}.dylib", "{}.dll", "lib{}.dll", "lib{}.so.0")
)
_FLOAT_BYTES = 4


@cache
def _ggml() -> ctypes.CDLL:
    """ggml's library, which came with llama.cpp and is loaded already, with the four functions that are needed.

    Raises:
        ModelError: it is not found, or lacks one of them.
    """
    package = Path(llama_library().__file__ or "").parent
    folders = [Path(folder) for folder in (os.environ.get("LLAMA_CPP_LIB_PATH"),) if folder] + [
        package / "lib",
        package,
    ]
    for path in (folder / name for folder in folders for name in _LIBRARIES):
        if not path.exists():
            continue
        library = ctypes.CDLL(str(path))
        try:
            return _with_types(library)
        except AttributeError:  # another one may export them
            continue
    raise ModelError("this build of llama.cpp brings no ggml library that tells the names of what it computes")


def _with_types(library: ctypes.CDLL) -> ctypes.CDLL:
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    library.ggml_get_name.argtypes, library.ggml_get_name.restype = [pointer], ctypes.c_char_p
    library.ggml_nelements.argtypes, library.ggml_nelements.restype = [pointer], ctypes.c_int64
    library.ggml_nbytes.argtypes, library.ggml_nbytes.restype = [pointer], size
    library.ggml_backend_tensor_get.argtypes = [pointer, pointer, size, size]
    library.ggml_backend_tensor_get.restype = None
    return library


class Node:
    """A computed node. Valid only in the call that it was given to."""

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer

    @property
    def size(self) -> int:
        """Numbers in it.

        Raises:
            ModelError: they are no 32-bit floats in a row.
        """
        count = int(_ggml().ggml_nelements(self._pointer))
        if _ggml().ggml_nbytes(self._pointer) != count * _FLOAT_BYTES:
            name = _ggml().ggml_get_name(self._pointer).decode("utf-8", "replace")
            raise ModelError(f"llama.cpp does not compute {name} in single precision")
        return count

    def read(self, start: int, count: int) -> NDArray[np.float32]:
        """Copy `count` numbers from the `start`-th on."""
        import numpy as np

        values = np.empty(count, dtype=np.float32)
        _ggml().ggml_backend_tensor_get(self._pointer, values.ctypes.data, start * _FLOAT_BYTES, count * _FLOAT_BYTES)
        return values


Reader = Callable[[Node], None]


class GraphWatch:
    """An evaluation callback that hands nodes to readers by their names. It must live as long as its context."""

    def __init__(self) -> None:
        """Find ggml's functions.

        Raises:
            ModelError: there are none.
        """
        self._name_of = _ggml().ggml_get_name  # bound once: it is called for hundreds of nodes a token
        self._readers: Mapping[bytes, Reader] = {}
        self._failure: BaseException | None = None
        self._callback = llama_library().ggml_backend_sched_eval_callback(self._on_node)

    def attach(self, params: Any) -> None:
        """Let contexts that are made with these `llama_context_params` call this watch."""
        params.cb_eval = self._callback

    @contextmanager
    def reading(self, readers: Mapping[str, Reader]) -> Iterator[None]:
        """Give each node of these names to its reader, once a graph. Outside of it every node is passed by."""
        self._readers = {name.encode(): reader for name, reader in readers.items()}
        try:
            yield
        finally:
            self._readers = {}

    def raise_failure(self) -> None:
        """Raise what was raised inside the callback, where no exception can pass."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _on_node(self, pointer: int, is_asking: bool, _: object) -> bool:
        try:
            if not self._readers:
                return False
            reader = self._readers.get(self._name_of(pointer))
            if is_asking:
                return reader is not None
            if reader is not None:
                reader(Node(pointer))
        except BaseException as error:
            self._failure = self._failure or error
        return True  # False would leave the rest of the graph as it was, without a word
