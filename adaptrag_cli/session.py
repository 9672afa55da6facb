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
from adaptrag_cli.calibration import (
    Calibrated,
    FittedVerifier,
    MeasuredWith,
    calibration_path,
    read_calibration,
)
from adaptrag_cli.config import Settings
from adaptrag_cli.errors import ConfigError, IndexNotFound, IndexStale, IndexUnusable, ModelError
from adaptrag_cli.events import DraftOdds, Event, Setting, WarningRaised
from adaptrag_cli.evidence import EvidenceRule
from adaptrag_cli.identity import flags_of, shortened
from adaptrag_cli.index.home import check_encoder, choose_index, open_index
from adaptrag_cli.index.local import LocalStore
from adaptrag_cli.index.store import Freshness, Store
from adaptrag_cli.locations import default_index_dir, default_models_dir
from adaptrag_cli.models.adapters import locate_adapted
from adaptrag_cli.models.base import SIGNALS, Encoder, LanguageModel, Reranker, load_lanes
from adaptrag_cli.models.catalogue import DEFAULT_ENCODER, Calibration
from adaptrag_cli.models.files import ModelFile, locate_model
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.strategies.base import (
    Options,
    Resources,
    Reuse,
    Strategy,
    load_strategy,
    probed_states,
    resolve_options,
    unused_flags,
    wanted_capabilities,
)

if TYPE_CHECKING:
    from adaptrag_cli.probing.files import ProberFile
    from adaptrag_cli.probing.prober import Prober, ProberKind

_CALIBRATED = "calibrated on"
"""How the origin of a value begins that the user's own calibration gave."""


@dataclass(frozen=True, kw_only=True)
class ModelLoad:
    """All that decides what a loaded model is: two equal ones need only one model."""

    file: ModelFile
    context_length: int
    gpu_layers: str
    threads: int | None
    signals: bool = False
    """Whether it is to give attention and states; others need not pay for that."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A strategy with its options, resolved for one answer model before anything is loaded."""

    strategy: Strategy
    options: Options
    rows: tuple[Setting, ...]
    warnings: tuple[WarningRaised, ...]
    load: ModelLoad
    calibrated: Calibrated | None
    """What `adaptrag calibrate` fitted for the model on this machine."""
    shipped: Calibration | None
    """What was measured for the model and stands in the catalogue."""
    judge: ModelLoad | None = None
    """A second model that judges."""
    reranker: str | None = None
    """Cross-encoder to open; empty means the answer model itself, None that nothing is reranked."""
    prober: ProberFile | None = None
    """What reads the model's states; None where nothing does."""

    @property
    def draft_odds(self) -> tuple[DraftOdds, ...]:
        """The user's own measurement before the shipped one."""
        if self.calibrated is not None and self.calibrated.odds:
            return self.calibrated.odds
        return self.shipped.odds if self.shipped else ()

    @property
    def verifier(self) -> FittedVerifier | None:
        """What dtr+verify weighs with: the user's own before the shipped one, and one for these settings before both.

        Where none is for these settings, what there is no longer decides: it looks up and gives the documents' answer.
        """
        known = _verifiers(self.calibrated, self.shipped)
        now = _measured_with(self.options)
        matching = next((verifier for verifier in known if not verifier.differences(now)), None)
        return matching or (known[0].without_trust() if known else None)

    @property
    def uncalibrated_threshold(self) -> float:
        """The threshold that holds without a calibration of the user's own."""
        return self.shipped.threshold if self.shipped is not None else self.strategy.defaults.threshold


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
    judge_load: ModelLoad | None = None
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

    def cancel(self) -> None:
        """Stop what the models compute. Safe from any thread."""
        self.model.cancel()
        if self.resources.judge is not None:
            self.resources.judge.cancel()

    def close(self) -> None:
        """Free the models' memory. Closing twice is fine."""
        if not self.is_closed:
            self.is_closed = True
            self.model.close()
            if self.resources.judge is not None:
                self.resources.judge.close()

    def _with(self, reuse: Reuse | None) -> Resources:
        return replace(self.resources, reuse=reuse or Reuse())


def index_dir_of(settings: Settings) -> Path:
    """The folder that holds the indexes."""
    return settings.index.dir or default_index_dir(Path.cwd())[0]


def models_dir_of(settings: Settings) -> Path:
    """The folder that holds the model files."""
    return settings.models.dir or default_models_dir()


def plan_session(settings: Settings) -> Plan:
    """Resolve strategy, options and model files without loading anything.

    Raises:
        AdaptRAGError: a name is unknown, a model file or a prober for it is not there, or a calibration is broken.
    """
    strategy = load_strategy(settings.ask.strategy)
    models_dir = models_dir_of(settings)
    file = _answer_model(settings, models_dir)
    shipped = file.entry.calibration if file.entry is not None and file.adapter is None else None
    calibrated, calibration_warnings = _calibrated(models_dir, file)
    options, rows = resolve_options(
        strategy, settings.ask, settings.origins, model_threshold=_threshold(calibrated, shipped)
    )
    reranks = "reranker" in strategy.uses or ("ais" in strategy.uses and options.ais == "rerank")
    if file.adapter is not None:
        rows += (Setting(name="adapter", value=file.adapter.name, origin=settings.origin("models.adapter")),)
    judges = "judge" in strategy.uses and settings.models.judge is not None
    judge = _model_load(settings, locate_model(settings.models.judge or "", models_dir)) if judges else None
    if judge is not None:
        rows += (Setting(name="judge", value=judge.file.name, origin=settings.origin("models.judge")),)
    if reranks:
        shown = settings.models.reranker or "the answer model"
        rows += (Setting(name="reranker", value=shown, origin=settings.origin("models.reranker")),)
    prober = _find_prober(probed_states(strategy), options.prober, models_dir, file)
    if prober is not None:
        rows = tuple(_named(row, prober.name) if row.name == "prober" else row for row in rows)
    if "labels" in strategy.uses and settings.ask.labels is not None:
        rows += (Setting(name="labels", value=str(settings.ask.labels), origin=settings.origin("ask.labels")),)
    warnings = calibration_warnings + _adapter_warnings(file) + _threshold_warnings(strategy, rows, file)
    warnings += _settings_warnings(strategy, options, rows, calibrated, shipped)
    warnings += tuple(
        WarningRaised(code="option_unused", message=f"{flag} changes nothing with strategy {strategy.name!r}")
        for flag in unused_flags(strategy, settings.origins)
    )
    return Plan(
        strategy=strategy,
        options=options,
        rows=rows,
        warnings=warnings,
        load=_model_load(settings, file, signals=bool(wanted_capabilities(strategy) & SIGNALS)),
        calibrated=calibrated,
        shipped=shipped,
        judge=judge,
        reranker=(settings.models.reranker or "") if reranks else None,
        prober=prober,
    )


def resources_of(
    plan: Plan,
    settings: Settings,
    *,
    model: LanguageModel,
    judge: LanguageModel | None,
    retriever: Retriever | None,
    rule: EvidenceRule | None,
    on_note: Callable[[str], None] = lambda _: None,
) -> Resources:
    """Put what is loaded together for the plan's strategy; `on_note` is told what takes time.

    Raises:
        AdaptRAGError: the reranker, the labels or the prober cannot be opened.
    """
    labels = None
    if "labels" in plan.strategy.uses and settings.ask.labels is not None:
        from adaptrag_cli.strategies.labels import read_labels

        labels = read_labels(settings.ask.labels, model_fingerprint=model.info.fingerprint)
        if "neighbours" in plan.strategy.uses and retriever is not None:
            from adaptrag_cli.strategies.routers import embed_labelled

            embed_labelled(labels, retriever, on_note)
    return Resources(
        model=model,
        retriever=retriever,
        options=plan.options,
        evidence_rule=rule,
        draft_odds=plan.draft_odds,
        judge=judge,
        reranker=_open_reranker(plan.reranker, model, models_dir_of(settings)),
        labels=labels,
        calibrated=plan.calibrated,
        verifier=plan.verifier,
        prober=_open_prober(plan.prober, model),
    )


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
    plan = plan_session(settings)
    models_dir = models_dir_of(settings)
    rows, warnings = plan.rows, plan.warnings
    kept_retriever = keep.resources.retriever if keep else None
    opened: OpenIndex | None = None
    rule: EvidenceRule | None = None
    if plan.strategy.needs_index:
        opened = open_index_for(settings, models_dir, kept_retriever)
        rule = _evidence_rule(plan.shipped, opened.retriever.store)
        rows += _rule_settings(rule)
    elif settings.ask.peek or settings.index.name is not None:
        opened, noticed = _open_for_peek(settings, models_dir, kept_retriever)
        warnings += noticed
    if opened:
        warnings += opened.warnings + encoder_warnings(plan, opened.retriever.encoder.fingerprint.name)
    model, judge = _take_models(keep, plan)
    model = model or load_model(plan.load, on_note)
    if model.info.gpu_layers_requested not in {"auto", "0"} and model.info.gpu_layers_used == 0:
        warnings += (WarningRaised(code="gpu_not_used", message=model.info.gpu_reason),)
    warnings += tuple(WarningRaised(code="model_note", message=note) for note in model.info.notes)
    try:
        if plan.judge is not None and judge is None:
            judge = load_model(plan.judge, on_note)
        resources = resources_of(
            plan,
            settings,
            model=model,
            judge=judge,
            retriever=opened.retriever if opened else None,
            rule=rule,
            on_note=on_note,
        )
    except BaseException:
        model.close()
        if judge is not None:
            judge.close()
        raise
    return Session(
        strategy=plan.strategy,
        resources=resources,
        settings=rows,
        warnings=warnings,
        peek=settings.ask.peek,
        load=plan.load,
        judge_load=plan.judge,
        freshness=opened.freshness if opened else None,
    )


def model_load_of(settings: Settings) -> ModelLoad:
    """The answer model that the settings name, with its adapter, not loaded yet.

    Raises:
        AdaptRAGError: there is no such model or adapter, its file is not there, or they do not go together.
    """
    return _model_load(settings, _answer_model(settings, models_dir_of(settings)))


def _answer_model(settings: Settings, models_dir: Path) -> ModelFile:
    return locate_adapted(settings.models.answer, settings.models.adapter, models_dir)


def _model_load(settings: Settings, file: ModelFile, *, signals: bool = False) -> ModelLoad:
    return ModelLoad(
        file=file,
        context_length=settings.models.context_length,
        gpu_layers=settings.models.gpu_layers,
        threads=settings.models.threads,
        signals=signals,
    )


def _calibrated(models_dir: Path, file: ModelFile) -> tuple[Calibrated | None, tuple[WarningRaised, ...]]:
    """What was fitted for these very weights; a calibration of another file of the same name does not count."""
    found = read_calibration(calibration_path(models_dir, file.name))
    if found is None or found.model_fingerprint == file.fingerprint:
        return found, ()
    return None, (
        WarningRaised(
            code="calibration_not_used",
            message=f"{file.name} was calibrated as {shortened(found.model_fingerprint)}, and this file is "
            f"{shortened(file.fingerprint)}: calibrate again, or if it is the same file: adaptrag models verify",
        ),
    )


def _threshold(calibrated: Calibrated | None, shipped: Calibration | None) -> Setting | None:
    if calibrated is not None and calibrated.threshold is not None:
        kind = "" if calibrated.labelled else ", which the model wrote itself"
        origin = f"{_CALIBRATED} {calibrated.source}{kind}"
        return Setting(name="threshold", value=calibrated.threshold.threshold, origin=origin)
    if shipped is not None:
        return Setting(name="threshold", value=shipped.threshold, origin="measured for this model")
    return None


def _find_prober(kind: ProberKind | None, name: str, models_dir: Path, file: ModelFile) -> ProberFile | None:
    """The prober that states of the kind are read with, its weights not read."""
    if kind is None:
        return None
    from adaptrag_cli.probing.files import find_prober  # numpy

    return find_prober(models_dir, name, kind=kind, model=file.name, fingerprint=file.fingerprint)


def _named(row: Setting, name: str) -> Setting:
    """The setting with the name of what it stands for."""
    return Setting(name=row.name, value=name, origin=row.origin)


def _open_prober(found: ProberFile | None, model: LanguageModel) -> Prober | None:
    if found is None:
        return None
    from adaptrag_cli.probing.files import read_prober  # numpy

    prober = read_prober(found.path)
    if prober.layer_count != model.info.layer_count:
        raise ModelError(
            f"prober {found.name!r} is for a model of {prober.layer_count} layers, and {model.info.name} has "
            f"{model.info.layer_count}",
            f"adaptrag probe train {flags_of(model.info.name)} ...",
        )
    return prober


def _open_reranker(name: str | None, model: LanguageModel, models_dir: Path) -> Reranker | None:
    if name is None:
        return None
    if name:
        from adaptrag_cli.models.reranker import load_reranker

        return load_reranker(name, models_dir)
    from adaptrag_cli.models.answer_reranker import AnswerModelReranker

    return AnswerModelReranker(model)


@dataclass(frozen=True, kw_only=True)
class OpenIndex:
    """An index with its encoder, ready to be searched."""

    retriever: Retriever
    freshness: Freshness
    warnings: tuple[WarningRaised, ...]


def open_index_for(settings: Settings, models_dir: Path, kept: Retriever | None = None) -> OpenIndex:
    """Open the index that the settings name, and the encoder it was made with.

    Raises:
        AdaptRAGError: there is none, its documents are not there, or the encoder is another one.
    """
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
    return OpenIndex(retriever=retriever, freshness=freshness, warnings=_freshness_warnings(freshness, store))


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
) -> tuple[OpenIndex | None, tuple[WarningRaised, ...]]:
    """Open the index of a strategy that does not need one: no trouble with it stops the answer, unless it was named."""
    try:
        return open_index_for(settings, models_dir, kept), ()
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


def _take_models(keep: Session | None, plan: Plan) -> tuple[LanguageModel | None, LanguageModel | None]:
    """Take answer model and judge out of an earlier session where they are the ones that are wanted; close the rest."""
    if keep is None or keep.is_closed:
        return None, None
    model, judge = keep.model, keep.resources.judge
    keep.is_closed = True  # what is taken lives on in the new session
    taken = model if keep.load == plan.load else None
    taken_judge = judge if judge is not None and keep.judge_load == plan.judge else None
    if taken is None:
        model.close()
    if judge is not None and taken_judge is None:
        judge.close()
    return taken, taken_judge


def load_model(load: ModelLoad, on_note: Callable[[str], None]) -> LanguageModel:
    """Load a language model; `on_note` is told first."""
    return load_models(load, 1, on_note)[0]


def load_models(load: ModelLoad, lanes: int, on_note: Callable[[str], None]) -> tuple[LanguageModel, ...]:
    """Load a language model that writes so many texts at a time; `on_note` is told first."""
    on_note(f"loading {load.file.name}")
    return load_lanes(
        load.file.path,
        lanes=lanes,
        name=load.file.name,
        fingerprint=load.file.fingerprint,
        trusted=load.file.verified,
        context_length=load.context_length,
        gpu_layers=load.gpu_layers,
        threads=load.threads,
        signals=load.signals,
        adapter=load.file.adapter.path if load.file.adapter is not None else None,
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
    origin = next((row.origin for row in rows if row.name == "threshold"), "")
    if not origin.startswith("default of"):
        return ()
    return (
        WarningRaised(
            code="threshold_uncalibrated",
            message=f"no threshold was measured for {file.name}: using the paper's, under which small models look "
            "nearly everything up; set one with --threshold",
        ),
    )


def _adapter_warnings(file: ModelFile) -> tuple[WarningRaised, ...]:
    if file.adapter is None or file.adapter.tells_base:
        return ()
    return (
        WarningRaised(
            code="adapter_base_unknown",
            message=f"adapter {file.adapter.name!r} does not say which model it was trained on, only that it is for "
            f"{file.adapter.base}: on any but its own, answers mean nothing",
        ),
    )


def _measured_with(options: Options) -> MeasuredWith:
    return MeasuredWith(retriever=options.retriever, top_n=options.top_n, top_k=options.top_k, ais=options.ais)


def _verifiers(calibrated: Calibrated | None, shipped: Calibration | None) -> list[FittedVerifier]:
    """What was fitted for dtr+verify, the user's own first."""
    found = (calibrated.verifier if calibrated else None, shipped.verifier if shipped else None)
    return [verifier for verifier in found if verifier is not None]


def _uses_own_threshold(rows: tuple[Setting, ...]) -> bool:
    return any(row.name == "threshold" and row.origin.startswith(_CALIBRATED) for row in rows)


def _settings_warnings(
    strategy: Strategy,
    options: Options,
    rows: tuple[Setting, ...],
    calibrated: Calibrated | None,
    shipped: Calibration | None,
) -> tuple[WarningRaised, ...]:
    """Tell when what was fitted is used under other settings than it was measured with."""
    now = _measured_with(options)
    if strategy.name == "dtr+verify":
        differences = [verifier.differences(now) for verifier in _verifiers(calibrated, shipped)]
        if not differences or not all(differences):
            return ()
        return (_not_matching(f"the weighing was fitted with {differences[0]}, so everything is looked up"),)
    if calibrated is None or not _uses_own_threshold(rows) or not isinstance(calibrated.measured_with, MeasuredWith):
        return ()
    differences_now = calibrated.measured_with.differences(now)
    return (_not_matching(f"the threshold was calibrated with {differences_now}"),) if differences_now else ()


def encoder_warnings(plan: Plan, encoder: str) -> tuple[WarningRaised, ...]:
    """Tell when what was fitted is used over an index of another encoder; dtr+verify refuses that itself."""
    calibrated = plan.calibrated
    if calibrated is None:
        return ()
    warnings = []
    if calibrated.encoder != encoder and _uses_own_threshold(plan.rows):
        warnings.append(
            _not_matching(f"the threshold was calibrated with encoder {calibrated.encoder} (now {encoder})")
        )
    uses_line = "ais" in plan.strategy.uses and plan.options.ais == "dynamic" and calibrated.alpha_line is not None
    if uses_line and calibrated.alpha_encoder != encoder:
        warnings.append(
            _not_matching(f"the query weight was fitted with encoder {calibrated.alpha_encoder} (now {encoder})")
        )
    return tuple(warnings)


def _not_matching(what: str) -> WarningRaised:
    return WarningRaised(
        code="calibration_not_matching", message=f"{what}; calibrate with these settings: adaptrag calibrate"
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
