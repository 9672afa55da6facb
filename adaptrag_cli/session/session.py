"""Load what a plan names, take over what is loaded already, and ask."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from adaptrag_cli import engine
from adaptrag_cli.config import Settings
from adaptrag_cli.errors import ModelError
from adaptrag_cli.events import Event, Setting, WarningRaised
from adaptrag_cli.evidence import EvidenceRule
from adaptrag_cli.identity import flags_of
from adaptrag_cli.index.store import Freshness, Store
from adaptrag_cli.models.base import LanguageModel, Reranker, load_lanes
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.session.indexes import OpenIndex, open_for_peek, open_index_for
from adaptrag_cli.session.measured import encoder_warnings, measured_rule, rule_settings
from adaptrag_cli.session.plan import ModelLoad, Plan, models_dir_of, plan_session
from adaptrag_cli.strategies.base import Options, Resources, Reuse, Strategy

if TYPE_CHECKING:
    from adaptrag_cli.probing.files import ProberFile
    from adaptrag_cli.probing.prober import Prober


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
        rule = measured_rule(plan.shipped, opened.retriever.store)
        rows += rule_settings(rule)
    elif settings.ask.peek or settings.index.name is not None:
        opened, noticed = open_for_peek(settings, models_dir, kept_retriever)
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
