"""Ask every question with every strategy, once; keep what was computed; go on where a run was stopped.

Questions go in groups as large as the batch, and each group through all strategies before the next one: so a run that
is stopped has asked the same questions of every strategy. Inside a group the runs advance in lock-step, which lets the
model decode them together (`models/lanes.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from adaptrag_cli import engine
from adaptrag_cli.calibration import overlap
from adaptrag_cli.errors import ConfigError, RunCancelled
from adaptrag_cli.evaluation.cache import EvaluationCache
from adaptrag_cli.evaluation.cached import CachedEncoder, CachedModel, CachedStore, WorkClock, encoder_identity
from adaptrag_cli.evaluation.cell_checks import (
    require_corpora,
    require_other_labels,
    require_untrained_questions,
    tell_warnings,
)
from adaptrag_cli.evaluation.corpora import corpus_file, open_corpus
from adaptrag_cli.evaluation.own_passages import gold_chunks, only_own, rows_by_document
from adaptrag_cli.evaluation.plan import CellPlan, Plan, require_askable, settings_of
from adaptrag_cli.evaluation.questions import Question, QuestionSet
from adaptrag_cli.evaluation.results import (
    Cell,
    Result,
    RunData,
    StrategySpec,
    read_results,
    read_run,
    result_log,
    trace_path,
    write_events,
    write_manifest,
)
from adaptrag_cli.evaluation.resume import (
    calibration_digest,
    earlier_run,
    joined,
    manifest_of,
    on_the_day,
    only_writer,
    require_same_settings,
)
from adaptrag_cli.evaluation.scoring import score_run
from adaptrag_cli.events import Event, RunFailed, WarningRaised
from adaptrag_cli.index.build import BuildProgress
from adaptrag_cli.json_lines import RecordLog
from adaptrag_cli.models.base import LanguageModel
from adaptrag_cli.models.lanes import MAX_EQUAL_LANES
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.session.indexes import OpenIndex
from adaptrag_cli.session.measured import encoder_warnings
from adaptrag_cli.session.plan import ModelLoad, plan_session
from adaptrag_cli.session.plan import Plan as SessionPlan
from adaptrag_cli.session.session import load_model, load_models, resources_of
from adaptrag_cli.strategies.base import Resources

_SHARED_FAILURES = frozenset({"ConfigError", "UnknownName", "MissingCapability"})
"""What fails for one question with these would fail for all."""


class Watcher(Protocol):
    """What a front end is told, and asked."""

    def note(self, text: str) -> None:
        """Something takes time."""
        ...

    def indexing(self, progress: BuildProgress) -> None: ...

    def began(self, total: int, done: int) -> None:
        """So many answers are wanted, and so many were there already."""
        ...

    def answered(self, result: Result) -> None: ...

    def should_stop(self) -> bool: ...

    def cancels(self, cancel: Callable[[], None]) -> None:
        """Call this, from any thread, when the person stops."""
        ...


def evaluate(plan: Plan, watcher: Watcher, *, resume: bool) -> RunData:
    """Do what is not done yet of a plan, and return the whole run.

    Raises:
        ConfigError: the folder holds another run, or this one without `resume`; or a strategy cannot be asked at all.
        RunCancelled: the person stopped it; what is answered is kept.
        AdaptRAGError: a model or an index cannot be used.
    """
    with only_writer(plan.out), closing(EvaluationCache(plan.cache)) as cache:
        before = earlier_run(plan, resume)
        others = [cell.name for cell in before.cells if cell.name not in {c.name for c in plan.cells}] if before else []
        if others:
            watcher.note(f"{plan.out} also holds answers of {', '.join(others)}, which stay")
        plan = on_the_day(plan, before)
        require_askable(plan)
        require_same_settings(plan, before)
        done = {result.key for result in read_results(plan.out)}
        wanted = {cell.name: set(_keys(plan, cell.name)) for cell in plan.cells}
        watcher.began(sum(map(len, wanted.values())), sum(len(keys & done) for keys in wanted.values()))
        cells = {cell.name: cell for cell in before.cells} if before else {}
        with closing(result_log(plan.out)) as log:
            for cell_plan in plan.cells:
                if wanted[cell_plan.name] <= done:
                    continue
                with closing(_OpenCell(plan, cell_plan, cache, watcher)) as cell:
                    cells[cell_plan.name] = joined(cells.get(cell_plan.name), cell.description, plan.out, cell.file)
                    write_manifest(plan.out, manifest_of(plan, tuple(cells.values()), before))
                    cell.ask_all(log, done)
    return read_run(plan.out)


def _keys(plan: Plan, cell: str) -> Iterator[tuple[str, str, str, str]]:
    for question_set in plan.sets:
        for spec in plan.strategies:
            yield from ((cell, question_set.name, spec.label, question.id) for question in question_set.questions)


@dataclass(frozen=True, kw_only=True)
class _Lane:
    """One of the questions that are decoded together."""

    model: LanguageModel
    clock: WorkClock
    use: Resources


@dataclass(frozen=True, kw_only=True)
class _Ready:
    """A strategy that can be asked."""

    spec: StrategySpec
    plan: SessionPlan
    warnings: tuple[WarningRaised, ...]
    lanes: tuple[_Lane, ...]


class _OpenCell:
    """One cell of the grid with its models and indexes open."""

    def __init__(self, plan: Plan, cell_plan: CellPlan, cache: EvaluationCache, watcher: Watcher) -> None:
        self._plan = plan
        self._name = cell_plan.name
        self._cache = cache
        self._watcher = watcher
        self._settings = cell_plan.settings(plan.settings)
        self._session_plans = {s.label: plan_session(settings_of(s, self._settings)) for s in plan.strategies}
        plans = self._session_plans.values()
        load = replace(next(iter(plans)).load, signals=any(each.load.signals for each in plans))
        self.file = load.file
        self._indexes = {s.name: self._open_index(s) for s in plan.sets}
        require_corpora(self._indexes, self._session_plans)
        require_other_labels(plan.sets, self._session_plans, self._settings.ask.labels, load.file, watcher.note)
        require_untrained_questions(plan.sets, self._session_plans)
        tell_warnings(self._session_plans, self._indexes, self._settings.origins, watcher.note)
        self._lanes = load_models(load, plan.lanes, watcher.note)
        self._judges: dict[ModelLoad, LanguageModel] = {}
        watcher.cancels(self._cancel)
        info = self._lanes[0].info
        calibrated = next(iter(self._session_plans.values())).calibrated
        queries = [question.text for question_set in plan.sets for question in question_set.questions]
        is_bit_equal = plan.lanes == 1 or (plan.lanes <= MAX_EQUAL_LANES and info.gpu_layers_used == 0)
        if not is_bit_equal:
            watcher.note(f"{plan.lanes} questions are decoded together: numbers may differ from one-by-one")
        self._variant = "" if is_bit_equal else f"batch of {plan.lanes}"
        self.description = Cell(
            name=cell_plan.name,
            overrides=dict(cell_plan.overrides),
            model=info.name,
            model_fingerprint=info.fingerprint,
            encoder=next(
                (o.retriever.encoder.fingerprint.name for o in self._indexes.values() if o),
                self._settings.models.encoder,
            ),
            calibration_digest=calibration_digest(calibrated),
            encoder_identity=next(
                (encoder_identity(o.retriever.encoder.fingerprint) for o in self._indexes.values() if o), ""
            ),
            calibration=calibrated.source if calibrated else "",
            calibrated_on=overlap(calibrated, queries) if calibrated else 0,
            indexes={
                name: opened.retriever.store.fingerprint if opened else "" for name, opened in self._indexes.items()
            },
            settings={label: p.rows for label, p in self._session_plans.items()},
            lanes=plan.lanes,
            is_bit_equal=is_bit_equal,
        )

    def ask_all(self, log: RecordLog, done: set[tuple[str, str, str, str]]) -> None:
        """Ask what is not done, set by set."""
        for question_set in self._plan.sets:
            questions = question_set.questions
            ready = [self._ready(spec, question_set) for spec in self._plan.strategies]
            rows = self._rows_by_document(question_set)
            if all(key in done for key in _keys(self._plan, self._name) if key[1] == question_set.name):
                continue
            self._keep_gold_vectors(question_set, rows)
            for start in range(0, len(questions), self._plan.lanes):
                group = questions[start : start + self._plan.lanes]
                for strategy in ready:
                    missing = [q for q in group if self._key(question_set, strategy.spec, q) not in done]
                    if missing:
                        self._ask_group(question_set, strategy, missing, rows, log)

    def _cancel(self) -> None:
        for model in (*self._lanes, *self._judges.values()):
            model.cancel()

    def close(self) -> None:
        """Free the models' memory."""
        for model in (*self._lanes, *self._judges.values()):
            model.close()

    def _ask_group(
        self,
        question_set: QuestionSet,
        strategy: _Ready,
        questions: Sequence[Question],
        rows: Mapping[str, tuple[int, ...]],
        log: RecordLog,
    ) -> None:
        runs: list[Generator[Event, None, None]] = []
        for question, lane in zip(questions, strategy.lanes, strict=False):
            lane.use.model.forget()  # so that a run costs what it costs alone
            if lane.use.judge is not None:
                lane.use.judge.forget()
            use = replace(lane.use, facts=question.meta, retriever=only_own(lane.use.retriever, question, rows))
            run = engine.Run(query=question.text, settings=strategy.plan.rows, warnings=strategy.warnings, peek=False)
            runs.append(engine.answer(run, strategy.plan.strategy, use, clock=lane.clock))
        for question, events in zip(questions, self._in_lock_step(runs), strict=True):
            self._require_possible(strategy, events)
            trace = trace_path(self._name, question_set.name, strategy.spec.label, question.id)
            write_events(self._plan.out / trace, events)
            result = score_run(
                events,
                question,
                cell=self._name,
                set_name=question_set.name,
                label=strategy.spec.label,
                trace=str(trace),
            )
            retriever = strategy.lanes[0].use.retriever
            if retriever is not None:
                result = msgspec.structs.replace(result, gold_chunks=gold_chunks(retriever.store, question, rows))
            log.append(result)
            self._watcher.answered(result)

    def _in_lock_step(self, runs: Sequence[Generator[Event, None, None]]) -> list[list[Event]]:
        """Take an event of each run in turn until all have ended."""
        events: list[list[Event]] = [[] for _ in runs]
        going = dict(enumerate(runs))
        try:
            while going:
                for i, run in list(going.items()):
                    if self._watcher.should_stop():
                        raise RunCancelled("stopped; go on with the same command and --resume")
                    try:
                        events[i].append(next(run))
                    except StopIteration:
                        del going[i]
        finally:
            for run in runs:
                run.close()
        return events

    def _require_possible(self, strategy: _Ready, events: Sequence[Event]) -> None:
        """A failure that every question would share ends the evaluation; another is a wrong answer."""
        end = events[-1]
        if isinstance(end, RunFailed):
            if self._watcher.should_stop() or end.error == RunCancelled.__name__:
                raise RunCancelled("stopped; go on with the same command and --resume")
            if end.error in _SHARED_FAILURES:
                raise ConfigError(f"{strategy.spec.label}: {end.message}", end.hint)

    def _ready(self, spec: StrategySpec, question_set: QuestionSet) -> _Ready:
        plan = self._session_plans[spec.label]
        settings = settings_of(spec, self._settings)
        judge = self._judge(plan.judge)
        opened = self._indexes[question_set.name]
        lanes = []
        for lane in self._lanes:
            clock = WorkClock()
            model = CachedModel(lane, self._cache, clock, variant=self._variant)
            lanes.append(
                _Lane(
                    model=lane,
                    clock=clock,
                    use=resources_of(
                        plan,
                        settings,
                        model=model,
                        judge=CachedModel(judge, self._cache, clock, at_once=True) if judge is not None else None,
                        retriever=self._retriever(opened, clock) if opened is not None else None,
                        rule=None,  # the papers' methods never abstain
                    ),
                )
            )
        warnings = tuple(w for w in plan.warnings if w.code != "option_unused")
        if opened is not None:
            warnings += opened.warnings + encoder_warnings(plan, opened.retriever.encoder.fingerprint.name)
        return _Ready(spec=spec, plan=plan, warnings=warnings, lanes=tuple(lanes))

    def _retriever(self, opened: OpenIndex, clock: WorkClock) -> Retriever:
        real = opened.retriever
        store = CachedStore(real.store, self._cache, clock)
        return Retriever(store, CachedEncoder(real.encoder, self._cache, clock), deleted=real.deleted)

    def _judge(self, load: ModelLoad | None) -> LanguageModel | None:
        if load is None:
            return None
        if load not in self._judges:
            self._judges[load] = load_model(load, self._watcher.note)
        return self._judges[load]

    def _open_index(self, question_set: QuestionSet) -> OpenIndex | None:
        return open_corpus(
            question_set,
            self._settings,
            corpus=corpus_file(question_set, self._plan.corpus, self._plan.cache.parent),
            shared=self._plan.cache.parent / "indexes",
            on_note=self._watcher.note,
            on_progress=self._watcher.indexing,
            should_stop=self._watcher.should_stop,
        )

    def _rows_by_document(self, question_set: QuestionSet) -> Mapping[str, tuple[int, ...]]:
        opened = self._indexes[question_set.name]
        if opened is None or not any(q.gold_ids or q.own_passages for q in question_set.questions):
            return {}  # a large index is not read through for nothing
        return rows_by_document(opened.retriever.store)

    def _keep_gold_vectors(self, question_set: QuestionSet, rows: Mapping[str, tuple[int, ...]]) -> None:
        """Keep what the report draws of passages that no search finds; the index may be gone by then."""
        opened = self._indexes[question_set.name]
        if opened is None:
            return
        store = CachedStore(opened.retriever.store, self._cache, WorkClock())
        gold = {document for question in question_set.questions for document in question.gold_ids}
        found = [row for document in sorted(gold) for row in rows.get(document, ())]
        if found:
            store.vectors(found)

    def _key(self, question_set: QuestionSet, spec: StrategySpec, question: Question) -> tuple[str, str, str, str]:
        return (self._name, question_set.name, spec.label, question.id)
