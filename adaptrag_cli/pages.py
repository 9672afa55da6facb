"""Pages and pictures that a person keeps where they like: each says who made it, and no other file is overwritten."""

from __future__ import annotations

from pathlib import Path

from adaptrag_cli.errors import ConfigError

GENERATOR = "adaptrag-cli"
"""What a page's `<meta name="generator">` names."""
PICTURE_MARK = f"<!-- made by {GENERATOR} -->"
_MARKS = (f'<meta name="generator" content="{GENERATOR}">', PICTURE_MARK)
_START = 1024
"""Characters of a file in which a mark stands."""


def write_page(path: Path, text: str) -> None:
    """Write a page or a picture; an earlier one of ours is replaced, and nothing else.

    Raises:
        ConfigError: the file cannot be written, or is something else.
    """
    require_replaceable(path)
    try:
        path.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}", "name a file in a folder that exists") from error


def require_replaceable(path: Path) -> None:
    """Refuse a file that holds something which this product did not make.

    Raises:
        ConfigError: naming it.
    """
    if not path.is_file():  # nothing yet, or a device or a pipe, such as /dev/stdout
        return
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            start = file.read(_START)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", "name another file") from error
    if start and not any(mark in start for mark in _MARKS):
        what = "picture" if path.suffix.casefold() == ".svg" else "page"
        raise ConfigError(
            f"{path} exists and is not a {what} of AdaptRAG, so it is not overwritten", "name another file"
        )
