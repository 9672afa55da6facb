"""Every place on disk that the product chooses by itself, in one file."""

from __future__ import annotations

import os
from pathlib import Path

APP_NAME = "adaptrag"
INDEX_MARKER = ".adaptrag-indexes"
"""A `./indexes` folder is ours only when it carries this file."""


def user_data_dir() -> Path:
    """The per-user data folder (`ADAPTRAG_DATA_DIR` overrides it)."""
    override = os.environ.get("ADAPTRAG_DATA_DIR")
    if override:
        return Path(override).expanduser().absolute()
    import platformdirs  # 10 ms, and most commands already know their folder

    return Path(platformdirs.user_data_dir(APP_NAME, appauthor=False))


def user_config_file() -> Path:
    """The per-user `adaptrag.toml`."""
    import platformdirs

    return Path(platformdirs.user_config_dir(APP_NAME, appauthor=False)) / "adaptrag.toml"


def default_models_dir() -> Path:
    """Where model files live unless a flag, `ADAPTRAG_MODELS_DIR` or `adaptrag.toml` says otherwise."""
    return user_data_dir() / "models"


def default_index_dir(cwd: Path) -> tuple[Path, str]:
    """The folder that holds the indexes, and why it was chosen."""
    local = cwd / "indexes"
    if (local / INDEX_MARKER).is_file():
        return local, "./indexes carries our marker file"
    return user_data_dir() / "indexes", "user data folder"
