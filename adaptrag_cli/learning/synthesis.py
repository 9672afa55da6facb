"""Explore the trees of many questions with the user's own models: the data of stage I, one question after the other.

A question is on the disk as soon as its tree is explored, so a run that was stopped goes on with the next one.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

import msgspec

from adaptrag_cli import __version__, prompts
from adaptrag_cli.config import Settings
from adaptrag_cli.errors import ConfigError, RunCancelled
from adaptrag_cli.evaluation.metrics import exact_match
from adaptrag_cli.evaluation.own_passages import only_own, rows_by_document
from adaptrag_cli.evaluation.probing.generation import AskedSet, RowWatcher, open_asked, set_info
from adaptrag_cli.evaluation.questions import Question
from adaptrag_cli.evaluation.results import MANIFEST
from adaptrag_cli.evaluation.resume import only_writer
from adaptrag_cli.learning.narrator import OwnNarrator, TaughtNarrator
from adaptrag_cli.learning.runs import Explored, SynthesisLog, SynthesisManifest, read_run, require_same, write_run
from adaptrag_cli.learning.tree import Limits, Narrator, Paths, explore
from adaptrag_cli.models.base import LanguageModel
from adaptrag_cli.models.branching import BranchingModel
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.session.indexes import OpenIndex
from adaptrag_cli.session.measured import taught_examples
from adaptrag_cli.session.plan import ModelLoad, model_load_of
from adaptrag_cli.session.session import load_models
from adaptrag_cli.stepwise.narrative import listed_examples, worked_examples
from adaptrag_cli.strategies.base import Options, load_strategy, resolve_options

_STRATEGY = "deeprag"
"""What is learned for it: its defaults and prompts say how narratives are written."""
_VERSIONS = ("llama-cpp-python", "rank-bm25", "numpy")
_BRANCHES = 2
"""Narratives that a model keeps in its cache; with the lane that remembers these are three (`models/lanes.py`)."""
_STOPPED = "stopped; go on with the same command and --resume"


@dataclass(frozen=True, kw_only=True)
class SynthesisPlan:
    """The trees that are wanted."""

    settings: Settings
    sets: tuple[AskedSet, ...]
    teacher: str | None
    """Name or file of the model that asks and answers from documents; None: the answer model itself."""
    paths: Paths
    whole: bool
    max_expansions: int
    out: Path
    seed: int
    limit: int | None

    @property
    def explores_whole(self) -> bool:
        """Whether a tree is explored beyond its first right path: other paths than the cheapest are found only so."""
        return self.whole or self.paths != "cheapest"


def require_free_for_trees(out: Path, *, resume: bool) -> SynthesisManifest | None:
    """What trees a folder holds already; None for none.

    Raises:
        ConfigError: they are not to be gone on with, or it holds something else.
    """
    if not (out / MANIFEST).exists():
        return None
    before = read_run(out)
    if not resume:
        raise ConfigError(f"{out} holds a run already", "go on with --resume, or give another --out")
    return before


def synthesize(plan: SynthesisPlan, watcher: RowWatcher, *, resume: bool) -> tuple[Explored, ...]:
    """Explore what is not explored yet, and return all trees in the order of the questions.

    Raises:
        ConfigError: the folder holds other trees, or these without `resume`; or a set has no corpus.
        RunCancelled: the person stopped it; what was explored is kept.
        AdaptRAGError: a model or an index cannot be used.
    """
    strategy = load_strategy(_STRATEGY)
    target, teacher = model_load_of(plan.settings), _teacher_load(plan)
    taught = taught_examples(strategy, target.file)
    measured = (taught,) if taught is not None else ()
    options, _ = resolve_options(strategy, plan.settings.ask, plan.settings.origins, measured=measured)
    with only_writer(plan.out):
        before = require_free_for_trees(plan.out, resume=resume)
        indexes = {asked.questions.name: open_asked(asked, plan.settings, plan.out, watcher) for asked in plan.sets}
        manifest = _manifest(plan, options, target, teacher, indexes)
        if before is None:
            write_run(plan.out, manifest)
        else:
            now = msgspec.structs.replace(
                manifest,
                model_fingerprint=target.file.as_noted(before.model_fingerprint),
                teacher_fingerprint=teacher.file.as_noted(before.teacher_fingerprint),
            )
            require_same(plan.out, before, now)
        with closing(SynthesisLog(plan.out, manifest)) as log:
            missing = [key for key in manifest.keys if key not in log.done]
            watcher.began(len(manifest.keys), len(manifest.keys) - len(missing))
            if missing:
                _explore_all(plan, options, (target, teacher), indexes, log, watcher)
            order = {key: number for number, key in enumerate(manifest.keys)}
            return tuple(sorted(log.explored, key=lambda explored: order[explored.key]))


def _teacher_load(plan: SynthesisPlan) -> ModelLoad:
    settings = plan.settings
    if plan.teacher is None:
        return model_load_of(settings)
    return model_load_of(replace(settings, models=replace(settings.models, answer=plan.teacher, adapter=None)))


def _explore_all(
    plan: SynthesisPlan,
    options: Options,
    loads: tuple[ModelLoad, ModelLoad],
    indexes: Mapping[str, OpenIndex],
    log: SynthesisLog,
    watcher: RowWatcher,
) -> None:
    target, teacher = loads
    models: list[LanguageModel] = []
    try:
        narrator_of: Callable[[Question, Retriever], Narrator]
        if plan.teacher is None:
            models += load_models(target, 1 + _BRANCHES, watcher.note)
            together = target.file.adapter is None  # with one, texts are decoded apart
            narrator_of = partial(_own_narrator, models, options, together)
        else:
            models += load_models(target, 1, watcher.note)
            models += load_models(teacher, 2, watcher.note)
            narrator_of = partial(_taught_narrator, models, options)
        watcher.cancels(partial(_cancel, models))
        for asked in plan.sets:
            opened = indexes[asked.questions.name]
            has_own = any(question.own_passages for question in asked.questions.questions)
            own = rows_by_document(opened.retriever.store) if has_own else {}
            for question in asked.questions.questions:
                if (asked.questions.name, question.id) in log.done:
                    continue
                if watcher.should_stop():
                    raise RunCancelled(_STOPPED)
                retriever = only_own(opened.retriever, question, own) or opened.retriever
                narrator = narrator_of(question, retriever)
                explored = _explore(plan, options, asked.questions.name, question, narrator)
                log.append(explored)
                watcher.advance(f"{explored.set}: {_outcome(explored)}")
    except RunCancelled as error:
        raise RunCancelled(_STOPPED) from error
    finally:
        for model in models:
            model.close()


def _cancel(models: Sequence[LanguageModel]) -> None:
    for model in models:
        model.cancel()


def _own_narrator(
    models: Sequence[LanguageModel], options: Options, together: bool, question: Question, retriever: Retriever
) -> Narrator:
    target, *lanes = models
    teaching = BranchingModel(lanes)
    teaching.begin(teaching.build_prompt(prompts.follow_ups(question.text, worked_examples(options.examples))))
    return OwnNarrator(target=target, teacher=teaching, retriever=retriever, options=options, together=together)


def _taught_narrator(
    models: Sequence[LanguageModel], options: Options, _question: Question, retriever: Retriever
) -> Narrator:
    target, asking, reading = models
    return TaughtNarrator(target=target, asking=asking, reading=reading, retriever=retriever, options=options)


def _explore(plan: SynthesisPlan, options: Options, set_name: str, question: Question, narrator: Narrator) -> Explored:
    started = time.perf_counter()
    tree = explore(
        question.text,
        narrator,
        partial(exact_match, golds=question.answers),
        limits=Limits(max_steps=options.max_steps, max_expansions=plan.max_expansions),
        whole=plan.explores_whole,
    )
    return Explored(
        set=set_name,
        question_id=question.id,
        golds=question.answers,
        tree=tree,
        seconds=time.perf_counter() - started,
    )


def _outcome(explored: Explored) -> str:
    best = explored.tree.cheapest
    return "not solved" if best is None else f"solved by {best.path or 'the answer at once'}"


def _manifest(
    plan: SynthesisPlan,
    options: Options,
    target: ModelLoad,
    teacher: ModelLoad,
    indexes: Mapping[str, OpenIndex],
) -> SynthesisManifest:
    return SynthesisManifest(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        adaptrag_version=__version__,
        versions={name: version(name) for name in _VERSIONS},
        model=target.file.name,
        model_fingerprint=target.file.fingerprint,
        adapter=target.file.adapter.name if target.file.adapter is not None else "",
        teacher=teacher.file.name,
        teacher_fingerprint=teacher.file.fingerprint,
        seed=plan.seed,
        limit=plan.limit,
        paths=plan.paths,
        whole=plan.explores_whole,
        max_steps=options.max_steps,
        max_expansions=plan.max_expansions,
        sets=tuple(set_info(asked.questions) for asked in plan.sets),
        indexes={name: opened.retriever.store.fingerprint for name, opened in indexes.items()},
        settings={
            "retriever": options.retriever,
            "top_k": options.top_k,
            "examples": options.examples,
            "conclusion_tokens": options.conclusion_tokens,
            "context_length": target.context_length,
            "prompt": _digest(_prompts(plan, options)),
        },
    )


def _prompts(plan: SynthesisPlan, options: Options) -> str:
    """What decides how anything is asked."""
    narrated = prompts.follow_ups("", worked_examples(options.examples))
    if plan.teacher is None:
        return narrated
    return narrated + prompts.simple_questions("", listed_examples()) + prompts.with_passages("", ())


def _digest(text: str) -> str:
    """Other words are other trees."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
