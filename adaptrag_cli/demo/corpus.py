"""The sample corpus: the papers of an invented island, its models and its index."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from adaptrag_cli.config import Settings
from adaptrag_cli.errors import ConfigError, UnknownName
from adaptrag_cli.session.plan import index_dir_of, models_dir_of

if TYPE_CHECKING:
    from adaptrag_cli.index.build import BuildProgress, IndexReport
    from adaptrag_cli.models.sources import OnProgress

DEMO_INDEX = "demo"
_PLACE = ("adaptrag_cli", "demo", "corpus")


def corpus_folder() -> Path:
    """The folder of the sample documents inside the installed package."""
    return Path(str(files("adaptrag_cli.demo").joinpath("corpus")))


def fetch_models(settings: Settings, on_progress: OnProgress) -> None:
    """Bring the answer model and the encoder here, unless they are. Models given by path are taken as they lie.

    Raises:
        DownloadError: no source delivered a model.
    """
    from adaptrag_cli.models.download import ensure_models

    wanted = (settings.models.encoder, settings.models.answer)
    ensure_models([name for name in wanted if _is_in_catalogue(name)], models_dir_of(settings), on_progress)


def index_corpus(settings: Settings, on_progress: Callable[[BuildProgress], None] = lambda _: None) -> IndexReport:
    """Bring the index `demo` up to date with the sample documents; on a second run nothing is embedded.

    Raises:
        ConfigError: an index of that name holds documents of the user's own.
    """
    from adaptrag_cli.index.build import BuildOptions, build_index
    from adaptrag_cli.models.encoder import load_encoder

    index_dir = index_dir_of(settings)
    held = _held_by_demo(index_dir)
    return build_index(
        corpus_folder(),
        name=DEMO_INDEX,
        index_dir=index_dir,
        encoder=load_encoder(settings.models.encoder, models_dir_of(settings), query_prefix="", document_prefix=""),
        # A site-packages folder often lies below a .gitignore that names it.
        options=BuildOptions(use_gitignore=False, rebuild=held not in {"", str(corpus_folder().resolve())}),
        on_progress=on_progress,
    )


def _is_in_catalogue(name: str) -> bool:
    from adaptrag_cli.models.catalogue import find_entry

    try:
        find_entry(name)
    except UnknownName:
        return False
    return True


def _held_by_demo(index_dir: Path) -> str:
    """The folder that the index `demo` holds: this installation's, another's, or none.

    Raises:
        ConfigError: it holds documents of the user's own.
    """
    from adaptrag_cli.index.home import list_indexes

    held = next((summary.path for summary in list_indexes(index_dir) if summary.name == DEMO_INDEX), "")
    if held and Path(held).parts[-len(_PLACE) :] != _PLACE:
        raise ConfigError(
            f"index {DEMO_INDEX!r} in {index_dir} holds {held}",
            "keep the demo elsewhere: adaptrag demo --index-dir DIR",
        )
    return held
