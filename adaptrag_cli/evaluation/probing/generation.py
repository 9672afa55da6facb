"""Make the rows: let the model write for each question without and with passages, and keep states and label.

Texts are written by the very steps that answer a question later (`strategies/rationales.py`), several at a time, each
in a lane of its own. A row goes to the disk when it is complete, in whatever order, and is read back in the plan's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

import msgspec

from adaptrag_cli import __version__
from adaptrag_cli.calibration import question_digest
from adaptrag_cli.config import Settings
from adaptrag_cli.errors import ConfigError, LogitsUndefined, MissingCapability, QueryTooLong, RunCancelled
from adaptrag_cli.evaluation.corpora import corpus_file, open_corpus
from adaptrag_cli.evaluation.metrics import contains_gold
from adaptrag_cli.evaluation.own_passages import only_own, rows_by_document
from adaptrag_cli.evaluation.probing.memory import peak_memory
from adaptrag_cli.evaluation.probing.rows import (
    Row,
    RowData,
    RowLog,
    RowManifest,
    read_row_manifest,
    read_rows,
    write_row_manifest,
)
from adaptrag_cli.evaluation.questions import Question, QuestionSet
from adaptrag_cli.evaluation.results import MANIFEST as EVALUATION
from adaptrag_cli.evaluation.results import SetInfo
from adaptrag_cli.evaluation.resume import only_writer
from adaptrag_cli.events import Event
from adaptrag_cli.index.build import BuildProgress
from adaptrag_cli.models.base import LanguageModel
from adaptrag_cli.models.files import ModelFile
from adaptrag_cli.models.lanes import MAX_EQUAL_LANES
from adaptrag_cli.probing.layers import default_layers
from adaptrag_cli.probing.prober import ProberKind
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.session.indexes import OpenIndex
from adaptrag_cli.session.plan import ModelLoad, model_load_of
from adaptrag_cli.session.session import load_models
from adaptrag_cli.strategies.base import Options, Resources, Strategy, load_strategy, resolve_options
from adaptrag_cli.strategies.rationales import question_states, write_rationale, written_with
from adaptrag_cli.strategies.steps import draft_answer
from adaptrag_cli.uncertainty import mean_nll

STRATEGY: Mapping[ProberKind, str] = {"answer": "probing", "question": "uar"}
"""What the prober is for: its defaults say how rows are made."""
_VERSIONS = ("llama-cpp-python", "rank-bm25", "numpy")
_STOPPED = "stopped; go on with the same command and --resume"
_GROWING = frozenset({"sets", "limit", "indexes"})
_Made = tuple[Row, Mapping[int, Sequence[float]]]


class RowWatcher(Protocol):
    """What a front end is told, and asked."""

    def note(self, text: str) -> None: ...

    def indexing(self, progress: BuildProgress) -> None: ...

    def began(self, total: int, done: int) -> None:
        """So many texts are wanted, and so many were there already."""
        ...

    def advance(self, what: str) -> None:
        """One more text is there."""
        ...

    def should_stop(self) -> bool: ...

    def cancels(self, cancel: Callable[[], None]) -> None:
        """Call this, from any thread, when the person stops."""
        ...


@dataclass(frozen=True, kw_only=True)
class AskedSet:
    """Questions, already sampled, and the index that they are asked over."""

    questions: QuestionSet
    index: str | None = None
    """Name of an index; None: that of the set's own corpus, as in an evaluation."""


@dataclass(frozen=True, kw_only=True)
class RowPlan:
    """The rows that are wanted."""

    settings: Settings
    kind: ProberKind
    sets: tuple[AskedSet, ...]
    layers: tuple[int, ...] | None
    """None: the default ones of the model."""
    out: Path
    seed: int
    limit: int | None
    source: str
    labelled: bool
    lanes: int = MAX_EQUAL_LANES


def require_free_for_rows(out: Path, *, resume: bool) -> RowManifest | None:
    """What rows a folder holds already; None for none.

    Raises:
        ConfigError: they are not to be gone on with, or it holds a run of another command.
    """
    if (out / EVALUATION).exists():
        raise ConfigError(f"{out} holds a run of another command", "give another --out")
    before = read_row_manifest(out)
    if before is not None and not resume:
        raise ConfigError(f"{out} holds rows for a prober already", "go on with --resume, or give another --out")
    return before


def make_rows(plan: RowPlan, watcher: RowWatcher, *, resume: bool) -> RowData:
    """Make what is not made yet, and return all rows.

    Raises:
        ConfigError: the folder holds other rows, or these without `resume`; or a set has no corpus.
        RunCancelled: the person stopped it; what was made is kept.
        AdaptRAGError: the model or an index cannot be used.
    """
    strategy = load_strategy(STRATEGY[plan.kind])
    options, _ = resolve_options(strategy, plan.settings.ask, plan.settings.origins)
    load = replace(model_load_of(plan.settings), signals=True)
    with only_writer(plan.out):
        before = require_free_for_rows(plan.out, resume=resume)
        if before is not None:
            now = _manifest(plan, options, load, before.layer_count, before.indexes)
            _require_same(plan.out, before, now, load.file)
            if now.sets == before.sets and (rows := read_rows(plan.out)).is_whole:
                return rows
        models = load_models(load, plan.lanes, watcher.note)
        try:
            watcher.cancels(models[0].cancel)
            info = models[0].info
            if "states" not in info.capabilities:
                raise MissingCapability(
                    f"{info.name} gives no states to train on{_why(info.notes)}", "choose another --model"
                )
            indexes = {asked.questions.name: _index_of(plan, asked, watcher) for asked in plan.sets}
            fingerprints = {
                name: opened.retriever.store.fingerprint if opened else "" for name, opened in indexes.items()
            }
            manifest = _manifest(plan, options, load, info.layer_count, fingerprints)
            if before is not None:
                _require_same(plan.out, before, manifest, load.file)
            if before is None or before.sets != manifest.sets:
                write_row_manifest(plan.out, manifest)
            writers = {
                asked.questions.name: _Writer(strategy, options, plan.kind, manifest.layers, asked.questions, opened)
                for asked, opened in zip(plan.sets, indexes.values(), strict=True)
            }
            with closing(RowLog(plan.out, manifest.layers)) as log:
                _write_all(manifest, writers, models, log, watcher)
        finally:
            for model in models:
                model.close()
        return read_rows(plan.out)


def layers_of(wanted: Sequence[int] | None, layer_count: int) -> tuple[int, ...]:
    """The layers that are probed, ascending.

    Raises:
        ConfigError: the model has no such layer.
    """
    if wanted is None:
        return default_layers(layer_count)
    beyond = next((layer for layer in wanted if not 0 <= layer < layer_count), None)
    if beyond is not None:
        raise ConfigError(f"--layers: the model has no layer {beyond}", f"its layers are 0 to {layer_count - 1}")
    return tuple(sorted(set(wanted)))


class _Writer:
    """Writes the rows of one set."""

    def __init__(
        self,
        strategy: Strategy,
        options: Options,
        kind: ProberKind,
        layers: Sequence[int],
        question_set: QuestionSet,
        opened: OpenIndex | None,
    ) -> None:
        self.questions = {question.id: question for question in question_set.questions}
        self._set = question_set.name
        self._strategy = strategy
        self._options = options
        self._kind = kind
        self._layers = tuple(layers)
        self._retriever: Retriever | None = opened.retriever if opened else None
        has_own = any(question.own_passages for question in question_set.questions)
        self._own = rows_by_document(opened.retriever.store) if opened and has_own else {}

    def write(self, question: Question, retrieved: bool, model: LanguageModel) -> Generator[Event, None, _Made]:
        """Write one row; where the question is too long, or the model's numbers are none, one that says so."""
        use = Resources(model=model, retriever=only_own(self._retriever, question, self._own), options=self._options)
        writing = self._draft if self._kind == "question" else self._rationale
        try:
            return (yield from writing(question, retrieved, use))
        except (QueryTooLong, LogitsUndefined) as error:
            return self._row(question, retrieved, failure=error.message), {}

    def _rationale(self, question: Question, retrieved: bool, use: Resources) -> Generator[Event, None, _Made]:
        chunks = (yield from self._strategy.look_up(question.text, use)) if retrieved else []
        rationale = yield from write_rationale(question.text, chunks, use, self._layers)
        row = self._row(
            question,
            retrieved,
            written=rationale.text,
            answer=rationale.answer,
            logprobs=[token.logprob for token in rationale.tokens],
            seconds=rationale.seconds,
        )
        return row, rationale.states

    def _draft(self, question: Question, retrieved: bool, use: Resources) -> Generator[Event, None, _Made]:
        started = time.perf_counter()
        states = question_states(question.text, use.model, self._layers)
        seconds = time.perf_counter() - started
        draft = yield from draft_answer(question.text, use)
        row = self._row(
            question,
            retrieved,
            written=draft.text,
            answer=draft.text.strip(),
            logprobs=[token.logprob for token in draft.tokens],
            seconds=seconds + draft.seconds,
        )
        return row, states

    def _row(
        self,
        question: Question,
        retrieved: bool,
        *,
        written: str = "",
        answer: str = "",
        logprobs: Sequence[float] = (),
        seconds: float = 0.0,
        failure: str = "",
    ) -> Row:
        return Row(
            set=self._set,
            question_id=question.id,
            retrieved=retrieved,
            right=contains_gold(written, question.answers),
            uncertainty=mean_nll(logprobs).value,
            written=written,
            answer=answer,
            tokens=len(logprobs),
            seconds=seconds,
            peak_memory=peak_memory(),
            failure=failure,
        )


def _write_all(
    manifest: RowManifest,
    writers: Mapping[str, _Writer],
    models: Sequence[LanguageModel],
    log: RowLog,
    watcher: RowWatcher,
) -> None:
    """Give each lane the next row as soon as it has none, and take an event of each in turn."""
    keys = manifest.keys
    watcher.began(len(keys), len(log.done))
    missing: Iterator[tuple[str, str, bool]] = (key for key in keys if key not in log.done)
    going: dict[int, Generator[Event, None, _Made]] = {}

    def begin(lane: int) -> None:
        key = next(missing, None)
        if key is not None:
            set_name, question_id, retrieved = key
            writer = writers[set_name]
            going[lane] = writer.write(writer.questions[question_id], retrieved, models[lane])

    for lane in range(len(models)):
        begin(lane)
    try:
        while going:
            for lane, writing in list(going.items()):
                if watcher.should_stop():
                    raise RunCancelled(_STOPPED)
                try:
                    next(writing)
                except StopIteration as done:
                    row, states = done.value
                    log.append(row, states)
                    watcher.advance(f"{row.set} {'with' if row.retrieved else 'without'} passages")
                    del going[lane]
                    begin(lane)
    except RunCancelled as error:
        raise RunCancelled(_STOPPED) from error
    finally:
        for writing in going.values():
            writing.close()


def _index_of(plan: RowPlan, asked: AskedSet, watcher: RowWatcher) -> OpenIndex | None:
    """The set's index; None where nothing is looked up."""
    return None if plan.kind == "question" else open_asked(asked, plan.settings, plan.out, watcher)


def open_asked(asked: AskedSet, settings: Settings, out: Path, watcher: RowWatcher) -> OpenIndex:
    """The index that a set is asked over; what is built for it lies in the run's folder.

    Raises:
        ConfigError: there is none.
    """
    if asked.index is not None:
        settings = replace(settings, index=replace(settings.index, name=asked.index))
    opened = open_corpus(
        asked.questions,
        settings,
        corpus=corpus_file(asked.questions, None, out),
        shared=out / "indexes",
        on_note=watcher.note,
        on_progress=watcher.indexing,
        should_stop=watcher.should_stop,
    )
    if opened is None:
        raise ConfigError(
            f"{asked.questions.source} brings no corpus to look up in",
            f"name an index: --data {asked.questions.source}:INDEX",
        )
    return opened


def _manifest(
    plan: RowPlan, options: Options, load: ModelLoad, layer_count: int, indexes: Mapping[str, str]
) -> RowManifest:
    return RowManifest(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        adaptrag_version=__version__,
        versions={name: version(name) for name in _VERSIONS},
        kind=plan.kind,
        model=load.file.name,
        model_fingerprint=load.file.fingerprint,
        layer_count=layer_count,
        layers=layers_of(plan.layers, layer_count),
        seed=plan.seed,
        limit=plan.limit,
        source=plan.source,
        labelled=plan.labelled,
        sets=tuple(set_info(asked.questions) for asked in plan.sets),
        indexes=dict(indexes),
        settings=written_with(plan.kind, options) | {"context_length": load.context_length},
    )


def set_info(question_set: QuestionSet) -> SetInfo:
    """What a manifest says of the questions that are asked."""
    return SetInfo(
        name=question_set.name,
        format=question_set.format,
        fingerprint=question_set.fingerprint,
        questions=tuple(question.id for question in question_set.questions),
        digests=tuple(question_digest(question.text) for question in question_set.questions),
    )


def _require_same(out: Path, before: RowManifest, now: RowManifest, file: ModelFile) -> None:
    """Refuse to mix rows of two set-ups; more questions of the same sets, or more sets, are none.

    Raises:
        ConfigError: naming what differs.
    """
    told = {"model_fingerprint": "model", "sets": "questions", "layers": "--layers", "indexes": "index"}
    compared = [name for name in msgspec.structs.asdict(now) if name not in {"created", "adaptrag_version", "source"}]
    if file.matches(before.model_fingerprint):
        compared.remove("model_fingerprint")
    for name in compared:
        if getattr(before, name) != getattr(now, name) and not (name in _GROWING and _is_more(before, now)):
            what = told.get(name, name)
            if name == "settings":
                what = next((k for k in now.settings if before.settings.get(k) != now.settings[k]), name)
            raise ConfigError(f"{out} was begun with other {what}", "restore it, or give another --out")


def _is_more(before: RowManifest, now: RowManifest) -> bool:
    """Whether all that was asked is asked still, over the same indexes."""
    sets = {info.name: info for info in now.sets}
    return all(
        (found := sets.get(info.name)) is not None
        and found.fingerprint == info.fingerprint
        and found.questions[: len(info.questions)] == info.questions
        and now.indexes[info.name] == before.indexes[info.name]
        for info in before.sets
    )


def _why(notes: Sequence[str]) -> str:
    return f": {notes[0]}" if notes else ""
