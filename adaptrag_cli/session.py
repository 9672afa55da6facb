"""Open everything a question needs, once: strategy, index, encoder, model. The command line and the interface share it.

Cheap checks come first, so that a misspelt name is told before a gigabyte is loaded. A front end that goes on with
other settings hands its session in, and only what the change concerns is loaded anew.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from adaptrag_cli import engine
from adaptrag_cli.config import Settings
from adaptrag_cli.errors import ConfigError, IndexNotFound, IndexStale, IndexUnusable, ModelError
from adaptrag_cli.events import Event, Setting, WarningRaised
from adaptrag_cli.evidence import EvidenceRule
from adaptrag_cli.index.home import check_encoder, choose_index, open_index
from adaptrag_cli.index.local import LocalStore
from adaptrag_cli.index.store import Freshness, Store
from adaptrag_cli.locations import default_index_dir, default_models_dir
from adaptrag_cli.models.base import Encoder, LanguageModel, load_language_model
from adaptrag_cli.models.catalogue import DEFAULT_ENCODER, Calibration
from adaptrag_cli.models.files import ModelFile, locate_model
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.strategies.base import Resources, Reuse, Strategy, load_strategy, resolve_options

if TYPE_CHECKING:
    from adaptrag_cli.strategies.base import Options


@dataclass(frozen=True, kw_only=True)
class ModelLoad:
    """All that decides what a loaded model is: two equal ones need only one model."""

    file: ModelFile
    context_length: int
    gpu_layers: str
    threads: int | None


@dataclass(kw_only=True)
class Session:
    """Loaded models and an open index. Ask as often as you like, then close."""

    strategy: Strategy
    resources: Resources
    settings: tuple[Setting, ...]
    warnings: tuple[WarningRaised, ...]
    peek: bool
    load: ModelLoad | None = None
    """None when the model was put together elsewhere: then it is not taken over."""
    freshness: Freshness | None = None
    """How the documents differ from the index; None when none is open."""
    is_closed: bool = False

    @property
    def model(self) -> LanguageModel:
        return self.resources.model

    @property
    def options(self) -> Options:
        return self.resources.options

    @property
    def store(self) -> Store | None:
        """The open index."""
        return self.resources.retriever.store if self.resources.retriever else None

    def ask(self, query: str, *, reuse: Reuse | None = None) -> Generator[Event, None, None]:
        """Yield the events of one run."""
        run = engine.Run(query=query, settings=self.settings, warnings=self.warnings, peek=self.peek)
        return engine.answer(run, self.strategy, self._with(reuse))

    def look_up(self, query: str, *, reuse: Reuse | None = None) -> Generator[Event, None, None]:
        """Yield what would be retrieved and selected, and answer nothing. Warnings are left to the runs."""
        return engine.look_up(
            engine.Run(query=query, settings=self.settings, peek=False), self.strategy, self._with(reuse)
        )

    def close(self) -> None:
        """Free the model's memory. Closing twice is fine."""
        if not self.is_closed:
            self.is_closed = True
            self.model.close()

    def _with(self, reuse: Reuse | None) -> Resources:
        return replace(self.resources, reuse=reuse or Reuse())


def index_dir_of(settings: Settings) -> Path:
    """The folder that holds the indexes."""
    return settings.index.dir or default_index_dir(Path.cwd())[0]


def models_dir_of(settings: Settings) -> Path:
    """The folder that holds the model files."""
    return settings.models.dir or default_models_dir()


def open_session(
    settings: Settings, *, on_note: Callable[[str], None] = lambda _: None, keep: Session | None = None
) -> Session:
    """Load what the settings name.

    `on_note` is told in a line what takes time. Parts of `keep` that the settings name, too, are taken over, and it is
    closed: its model goes before another is loaded, so that two never stand in memory.

    Raises:
        AdaptRAGError: a name is unknown, or the index is missing or stale: then `keep` stays open; or the model cannot
            be used: then `keep.is_closed`.
    """
    strategy = load_strategy(settings.ask.strategy)
    models_dir = models_dir_of(settings)
    model_file = locate_model(settings.models.answer, models_dir)
    calibration = model_file.entry.calibration if model_file.entry is not None else None
    options, rows = resolve_options(
        strategy, settings.ask, settings.origins, model_threshold=calibration.threshold if calibration else None
    )
    warnings = _threshold_warnings(strategy, rows, model_file)
    kept_retriever = keep.resources.retriever if keep else None
    opened: _OpenIndex | None = None
    rule: EvidenceRule | None = None
    if strategy.needs_index:
        opened = _open_index(settings, models_dir, kept_retriever)
        rule = _evidence_rule(calibration, opened.retriever.store)
        rows += _rule_settings(rule)
    elif settings.ask.peek or settings.index.name is not None:
        opened, noticed = _open_for_peek(settings, models_dir, kept_retriever)
        warnings += noticed
    if opened:
        warnings += opened.warnings
    load = ModelLoad(
        file=model_file,
        context_length=settings.models.context_length,
        gpu_layers=settings.models.gpu_layers,
        threads=settings.models.threads,
    )
    model = _take_model(keep, load) or _load_model(load, on_note)
    if model.info.gpu_layers_requested not in {"auto", "0"} and model.info.gpu_layers_used == 0:
        warnings += (WarningRaised(code="gpu_not_used", message=model.info.gpu_reason),)
    warnings += tuple(WarningRaised(code="model_note", message=note) for note in model.info.notes)
    resources = Resources(
        model=model,
        retriever=opened.retriever if opened else None,
        options=options,
        evidence_rule=rule,
        draft_odds=calibration.odds if calibration else (),
    )
    return Session(
        strategy=strategy,
        resources=resources,
        settings=rows,
        warnings=warnings,
        peek=settings.ask.peek,
        load=load,
        freshness=opened.freshness if opened else None,
    )


@dataclass(frozen=True, kw_only=True)
class _OpenIndex:
    retriever: Retriever
    freshness: Freshness
    warnings: tuple[WarningRaised, ...]


def _open_index(settings: Settings, models_dir: Path, kept: Retriever | None) -> _OpenIndex:
    index_dir = index_dir_of(settings)
    store = open_index(index_dir, choose_index(index_dir, settings.index.name))
    freshness = store.freshness()
    if (
        freshness.root_missing
    ):  # an unplugged disk cannot be told from a deleted folder, and what is deleted is not quoted
        raise IndexStale(
            f"index {store.name!r}: {store.path} is not there, so its documents may be deleted",
            f"bring it back, or forget it with: adaptrag indexes remove {store.name}",
        )
    encoder = _open_encoder(store, models_dir)
    if kept is not None and kept.encoder.fingerprint == encoder.fingerprint:
        encoder = kept.encoder
    retriever = Retriever(store, encoder, deleted=(*freshness.deleted, *freshness.deleted_documents))
    if kept is not None and _is_same(kept, retriever):
        retriever = kept  # with the vectors it has computed
    return _OpenIndex(retriever=retriever, freshness=freshness, warnings=_freshness_warnings(freshness, store))


def _is_same(kept: Retriever, other: Retriever) -> bool:
    def identity(store: Store) -> tuple[str, Path, str]:
        return store.name, store.path, store.fingerprint

    return (
        kept.encoder is other.encoder
        and identity(kept.store) == identity(other.store)
        and kept.deleted == other.deleted
    )


def _open_for_peek(
    settings: Settings, models_dir: Path, kept: Retriever | None
) -> tuple[_OpenIndex | None, tuple[WarningRaised, ...]]:
    """Open the index of a strategy that does not need one: no trouble with it stops the answer, unless it was named."""
    try:
        return _open_index(settings, models_dir, kept), ()
    except IndexNotFound:
        if settings.index.name is not None:
            raise
        return None, ()
    except (ConfigError, IndexUnusable, ModelError) as error:
        if settings.index.name is not None:
            raise
        return None, (WarningRaised(code="no_peek", message=f"no chunk is shown beside the answer: {error.message}"),)


def _open_encoder(store: LocalStore, models_dir: Path) -> Encoder:
    from adaptrag_cli.models.encoder import load_encoder

    made_with = store.encoder
    encoder = load_encoder(
        made_with.name,
        models_dir,
        query_prefix=made_with.query_prefix,
        document_prefix=made_with.document_prefix,
    )
    check_encoder(store, encoder.fingerprint)
    return encoder


def _take_model(keep: Session | None, load: ModelLoad) -> LanguageModel | None:
    """Take the model out of an earlier session where it is the one that is wanted; close that session."""
    if keep is None or keep.is_closed:
        return None
    if keep.load == load:
        keep.is_closed = True  # its model lives on in the new session
        return keep.model
    keep.close()
    return None


def _load_model(load: ModelLoad, on_note: Callable[[str], None]) -> LanguageModel:
    on_note(f"loading {load.file.name}")
    return load_language_model(
        load.file.path,
        name=load.file.name,
        fingerprint=load.file.fingerprint,
        trusted=load.file.verified,
        context_length=load.context_length,
        gpu_layers=load.gpu_layers,
        threads=load.threads,
    )


def _evidence_rule(calibration: Calibration | None, store: Store) -> EvidenceRule | None:
    """The measured rule, where model and encoder are the ones it was measured with."""
    if calibration is None or store.encoder.name != DEFAULT_ENCODER:
        return None
    if calibration.abstain_uncertainty is None or calibration.abstain_query_score is None:
        return None
    return EvidenceRule(
        max_answer_uncertainty=calibration.abstain_uncertainty, min_query_score=calibration.abstain_query_score
    )


def _rule_settings(rule: EvidenceRule | None) -> tuple[Setting, ...]:
    if rule is None:
        return ()
    values = (("max_answer_uncertainty", rule.max_answer_uncertainty), ("min_query_score", rule.min_query_score))
    return tuple(Setting(name=name, value=value, origin="measured for this model") for name, value in values)


def _threshold_warnings(strategy: Strategy, rows: tuple[Setting, ...], file: ModelFile) -> tuple[WarningRaised, ...]:
    origin = next(row.origin for row in rows if row.name == "threshold")
    if strategy.name != "dtr" or not origin.startswith("default of"):
        return ()
    return (
        WarningRaised(
            code="threshold_uncalibrated",
            message=f"no threshold was measured for {file.name}: using the paper's, under which small models look "
            "nearly everything up; set one with --threshold",
        ),
    )


def _freshness_warnings(freshness: Freshness, store: LocalStore) -> tuple[WarningRaised, ...]:
    if freshness.is_fresh:
        return ()
    counted = (
        (freshness.changed, "file", "changed"),
        (freshness.deleted, "file", "deleted"),
        (freshness.added, "file", "added"),
        (freshness.deleted_documents, "document", "gone from a corpus"),
    )
    parts = [f"{len(names)} {what}{'s' if len(names) != 1 else ''} {how}" for names, what, how in counted if names]
    return (
        WarningRaised(
            code="index_not_fresh",
            message=f"{', '.join(parts)} since indexing; bring it up to date with: {store.index_command()}",
        ),
    )
