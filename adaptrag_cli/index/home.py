"""A folder of indexes: which there are, open one, remove one."""

from __future__ import annotations

import re
import shutil
import unicodedata
from dataclasses import asdict, dataclass
from pathlib import Path

from adaptrag_cli.documents.chunking import CHUNKER_VERSION
from adaptrag_cli.errors import ConfigError, IndexNotFound, IndexStale, IndexUnusable
from adaptrag_cli.index.durable import writing_to
from adaptrag_cli.index.local import LocalStore, open_current
from adaptrag_cli.index.lock import writer_lock
from adaptrag_cli.index.manifest import CURRENT, GENERATIONS
from adaptrag_cli.index.tokeniser import TOKENISER_VERSION
from adaptrag_cli.locations import INDEX_MARKER
from adaptrag_cli.models.base import EncoderFingerprint

_NAME = re.compile(r"\w[\w.-]{0,63}")
_OUR_FILES = re.compile(rf"\.?{CURRENT}(\.new)?|{GENERATIONS}|embedded-[0-9a-f]+\.log")
_MARKER_TEXT = "This folder holds indexes of AdaptRAG CLI, which knows it by this file.\n"


@dataclass(frozen=True, kw_only=True)
class IndexSummary:
    """One index as `adaptrag indexes list` shows it."""

    name: str
    path: str
    documents: int
    chunks: int
    encoder: str
    bytes: int
    problem: str = ""
    """Why it cannot be used; empty when it can."""


def index_folder(index_dir: Path, name: str) -> Path:
    """The folder of an index.

    Raises:
        ConfigError: the name is not a plain word.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} cannot name an index", "use letters, digits, '-', '_' and '.', 64 at most")
    return index_dir / name


def prepare_folder(folder: Path) -> None:
    """Make the folder of an index and mark the folder of indexes as ours.

    Raises:
        ConfigError: the folder exists and holds something else.
    """
    index_dir = folder.parent
    index_dir.mkdir(parents=True, exist_ok=True)
    marker = index_dir / INDEX_MARKER
    if not marker.exists():
        marker.write_text(_MARKER_TEXT, encoding="utf-8")
    folder.mkdir(exist_ok=True)
    if not all(_OUR_FILES.fullmatch(path.name) for path in folder.iterdir()):
        raise ConfigError(f"{folder} exists and is not an index", "choose another name with --name")
    (folder / GENERATIONS).mkdir(exist_ok=True)


def default_name(index_dir: Path, path: Path) -> str:
    """Name an index after the folder or file that it holds.

    Raises:
        ConfigError: that name is taken by another folder.
    """
    stem = path.resolve().stem if path.is_file() else path.resolve().name
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", stem).casefold())
    name = "-".join(words)[:64].strip("-") or "index"
    try:
        held = open_index(index_dir, name).manifest.path
    except IndexUnusable:  # there is none, or it has to be made anew
        return name
    if held != str(path.resolve()):
        raise ConfigError(f"index {name!r} already holds {held}", "give this one another name with --name NAME")
    return name


def open_index(index_dir: Path, name: str) -> LocalStore:
    """Open an index for reading; takes milliseconds.

    Raises:
        IndexNotFound: there is none of that name.
        IndexStale, IndexCorrupt: it cannot be used.
    """
    folder = index_folder(index_dir, name)
    if not _is_index(folder):
        raise _not_found(index_dir, name)
    return open_current(folder)


def choose_index(index_dir: Path, name: str | None) -> str:
    """The index that was named, or the only one there is; an empty one does not count beside others.

    Raises:
        IndexNotFound: there is none, or none of that name.
        ConfigError: there are several and none was named.
    """
    names = index_names(index_dir)
    if name is not None:
        if name not in names:
            raise _not_found(index_dir, name)
        return name
    if not names:
        raise IndexNotFound(f"there is no index in {index_dir}", "make one with: adaptrag index PATH")
    if len(names) > 1:
        names = tuple(name for name in names if not _is_empty(index_dir, name)) or names
    if len(names) > 1:
        raise ConfigError(f"there are several indexes: {', '.join(names)}", "choose one with --index NAME")
    return names[0]


def check_encoder(store: LocalStore, encoder_fingerprint: EncoderFingerprint) -> None:
    """Refuse an index that this version cuts or searches otherwise, or whose vectors the encoder's do not compare with.

    Raises:
        IndexStale: naming what differs and the command that brings it up to date.
    """
    check_versions(store)
    stored, wanted = asdict(store.encoder), asdict(encoder_fingerprint)
    different = [key for key in stored if stored[key] != wanted[key]]
    if not different:
        return
    key = different[0]
    raise IndexStale(
        f"index {store.name!r} was made with encoder {store.encoder.name}, whose {key.replace('_', ' ')} is"
        f" {_short(stored[key])}, not {_short(wanted[key])}",
        f"bring it up to date with: {store.index_command(encoder=encoder_fingerprint.name)}",
    )


def check_versions(store: LocalStore) -> None:
    """Refuse an index whose chunks or words were made by other code than this version's.

    Raises:
        IndexStale: naming what differs and the command that brings it up to date.
    """
    recipe = store.manifest.recipe
    for what, stored, ours in (
        ("chunker", recipe.chunker_version, CHUNKER_VERSION),
        ("tokeniser", str(recipe.tokeniser_version), str(TOKENISER_VERSION)),
    ):
        if stored != ours:
            raise IndexStale(
                f"index {store.name!r} was made with version {stored} of the {what}, this adaptrag has version {ours}",
                f"bring it up to date with: {store.index_command()}",
            )


def index_names(index_dir: Path) -> tuple[str, ...]:
    """Names of all indexes, sorted."""
    if not index_dir.is_dir():
        return ()
    return tuple(sorted(path.name for path in index_dir.iterdir() if _is_index(path)))


def unfinished_names(index_dir: Path) -> tuple[str, ...]:
    """Names of what first runs that were interrupted, or are not done, have left; sorted."""
    if not index_dir.is_dir():
        return ()
    return tuple(sorted(path.name for path in index_dir.iterdir() if _is_unfinished(path)))


def list_indexes(index_dir: Path) -> tuple[IndexSummary, ...]:
    """Describe every index; a broken or unfinished one tells its problem."""
    names = sorted((*index_names(index_dir), *unfinished_names(index_dir)))
    return tuple(_summary(index_dir, name) for name in names)


def verify_index(index_dir: Path, name: str) -> LocalStore:
    """Hash every file of an index and search it.

    Raises:
        IndexUnusable: naming what is wrong and the command that mends it.
    """
    store = open_index(index_dir, name)
    store.verify()
    return store


def removable_index(index_dir: Path, name: str) -> Path:
    """The folder of an index, or of what an interrupted first run has left of one.

    Raises:
        IndexNotFound: there is none of that name.
    """
    folder = index_folder(index_dir, name)
    if not (_is_index(folder) or _is_unfinished(folder)):
        raise _not_found(index_dir, name)
    return folder


def remove_index(index_dir: Path, name: str) -> None:
    """Remove an index, finished or not; a process that has it open keeps answering.

    Raises:
        IndexNotFound: there is none of that name.
        IndexBusy: another process is writing it.
    """
    folder = removable_index(index_dir, name)
    with writer_lock(index_dir, name), writing_to(folder):
        (folder / CURRENT).unlink(missing_ok=True)  # first, so that a half-removed index is none
        shutil.rmtree(folder)


def _summary(index_dir: Path, name: str) -> IndexSummary:
    folder = index_dir / name
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if not _is_index(folder):
        problem = f"not finished: index the same folder again to continue, or: adaptrag indexes remove {name}"
        return IndexSummary(name=name, path="", documents=0, chunks=0, encoder="", bytes=size, problem=problem)
    try:
        manifest = open_index(index_dir, name).manifest
    except IndexUnusable as error:
        return IndexSummary(name=name, path="", documents=0, chunks=0, encoder="", bytes=size, problem=error.message)
    return IndexSummary(
        name=name,
        path=manifest.path,
        documents=manifest.documents,
        chunks=manifest.chunks,
        encoder=manifest.recipe.encoder.name,
        bytes=size,
    )


def _is_index(folder: Path) -> bool:
    return _NAME.fullmatch(folder.name) is not None and (folder / CURRENT).is_file()


def _is_empty(index_dir: Path, name: str) -> bool:
    try:
        return open_index(index_dir, name).manifest.chunks == 0
    except IndexUnusable:  # what is wrong with it is told to who chooses it
        return False


def _is_unfinished(folder: Path) -> bool:
    """No generation answers yet, and nothing else is in it but what a build writes."""
    return (
        _NAME.fullmatch(folder.name) is not None
        and (folder / GENERATIONS).is_dir()
        and not (folder / CURRENT).is_file()
        and all(_OUR_FILES.fullmatch(path.name) for path in folder.iterdir())
    )


def _not_found(index_dir: Path, name: str) -> IndexNotFound:
    names = index_names(index_dir)
    known = f"there is: {', '.join(names)}" if names else f"make it with: adaptrag index PATH --name {name}"
    return IndexNotFound(f"there is no index {name!r} in {index_dir}", known)


def _short(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= 20 else f"{text[:12]}...")
