"""Open the model files that a user names, whatever lies there."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from adaptrag_cli.errors import ModelError, ModelNotFound

GET_ANOTHER = "choose another file; see them with: adaptrag models list, adaptrag models adapters list"


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Refuse what is not a regular file before it is opened, since a pipe would wait for ever; tell why a read failed.

    Raises:
        ModelNotFound: there is no such file.
        ModelError: it is a folder, a pipe or a device, or cannot be read.
    """
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder, not a file" if stat.S_ISDIR(mode) else "not a regular file"
            raise ModelError(f"{path} is {kind}", GET_ANOTHER)
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelNotFound(f"no model file {path}", GET_ANOTHER) from error
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}", GET_ANOTHER) from error
