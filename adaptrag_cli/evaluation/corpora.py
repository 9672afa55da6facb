"""Find, or make, the index that a question set is asked over.

In this order: the index that was named; an index of the given or adjoining corpus file, of the user's or of an earlier
run; one that is built from it. What is built lies beside the cache and not among the user's indexes, under a name that
tells its content, so that runs which share a cache share it. Passages that stand in the question file itself are
written there first.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from adaptrag_cli.config import Settings
from adaptrag_cli.errors import IndexUnusable
from adaptrag_cli.evaluation.questions import QuestionSet, write_corpus
from adaptrag_cli.index.build import BuildOptions, BuildProgress, build_index
from adaptrag_cli.index.home import index_names, open_index
from adaptrag_cli.index.local import LocalStore
from adaptrag_cli.models.base import Encoder
from adaptrag_cli.models.encoder import load_encoder
from adaptrag_cli.session.indexes import OpenIndex, open_index_for
from adaptrag_cli.session.plan import index_dir_of, models_dir_of

OURS = ".questions.jsonl"
CORPUS = ".corpus.jsonl"


def corpus_file(question_set: QuestionSet, given: Path | None, shared: Path) -> Path | None:
    """The file that holds the set's passages, or None where it has none."""
    if given is not None:
        return given
    if question_set.passages:
        path = shared / "corpora" / f"{question_set.fingerprint[:16]}{CORPUS}"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_corpus(question_set, path)
        return path
    if question_set.source.name.endswith(OURS):
        beside = question_set.source.with_name(question_set.source.name.removesuffix(OURS) + CORPUS)
        return beside if beside.is_file() else None
    return None


def open_corpus(
    question_set: QuestionSet,
    settings: Settings,
    *,
    corpus: Path | None,
    shared: Path,
    on_note: Callable[[str], None],
    on_progress: Callable[[BuildProgress], None],
    should_stop: Callable[[], bool],
) -> OpenIndex | None:
    """Open the set's index, building it where there is none; None where the set has no corpus.

    Raises:
        AdaptRAGError: the index or the encoder cannot be used, or the build was stopped.
    """
    if settings.index.name is not None:
        return open_index_for(settings, models_dir_of(settings))
    if corpus is None:
        return None
    encoder = load_encoder(settings.models.encoder, models_dir_of(settings))
    found = _existing((index_dir_of(settings), shared), corpus, settings, encoder)
    if found is None:
        found = shared, _name(question_set, corpus, settings, encoder)
        index_dir, name = found
        on_note(f"indexing {corpus.name} as {name}")
        build_index(
            corpus,
            name=name,
            index_dir=index_dir,
            encoder=encoder,
            options=BuildOptions(
                chunk_tokens=settings.index.chunk_tokens,
                overlap=settings.index.chunk_overlap,
                body_only=settings.index.body_only,
            ),
            on_progress=on_progress,
            should_stop=should_stop,
        )
    index_dir, name = found
    return open_index_for(
        replace(settings, index=replace(settings.index, dir=index_dir, name=name)), models_dir_of(settings)
    )


def _existing(folders: tuple[Path, ...], corpus: Path, settings: Settings, encoder: Encoder) -> tuple[Path, str] | None:
    named = ((folder, name) for folder in folders for name in index_names(folder))
    return next(((f, n) for f, n in named if _fits(f, n, corpus, settings, encoder)), None)


def _fits(index_dir: Path, name: str, corpus: Path, settings: Settings, encoder: Encoder) -> bool:
    try:
        store: LocalStore = open_index(index_dir, name)
    except IndexUnusable:
        return False
    wanted = (settings.index.chunk_tokens, settings.index.chunk_overlap, settings.index.body_only)
    return (
        store.path == corpus.resolve()
        and store.encoder == encoder.fingerprint
        and store.manifest.recipe.settings == wanted
        and store.freshness().is_fresh
    )


def _name(question_set: QuestionSet, corpus: Path, settings: Settings, encoder: Encoder) -> str:
    """Set, encoder, and a digest of all that decides the index but the texts."""
    words = re.findall(r"[a-z0-9]+", f"{question_set.name} {Path(encoder.fingerprint.name).name}".lower())
    recipe = (str(corpus.resolve()), asdict(encoder.fingerprint), asdict(settings.index))
    digest = hashlib.sha256(repr(recipe).encode("utf-8", "replace")).hexdigest()[:12]
    return f"{'-'.join(words)[:48].strip('-') or 'set'}-{digest}"
