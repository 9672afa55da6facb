"""Train an adapter on a run of `adaptrag deeprag synthesize`, and hand it back as a file that llama.cpp loads.

RUN/training/<stage>/losses.jsonl             the loss curve: a line a step, and one for each epoch's held-out loss
RUN/training/<stage>/references.jsonl         what the model gave each decision before the training
RUN/training/<stage>/checkpoint.safetensors   where a training stands; deleted once its adapter and report are written
RUN/training/<stage>/report.json              what came of it; also in the adapter's file

The baseline that learns the final answer alone has a folder of its own, `imitation-answer-only`: no stage follows it.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import msgspec

from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.resume import only_writer
from adaptrag_cli.identity import parted
from adaptrag_cli.learning.examples import Example, Preference
from adaptrag_cli.learning.export import AdapterFacts, Layout, Stage, read_layout, read_weights, write_adapter
from adaptrag_cli.learning.fitting import (
    Fitted,
    Fitting,
    LossPoint,
    Recipe,
    forget_checkpoint,
    has_checkpoint,
    require_free_to_train,
)
from adaptrag_cli.learning.grpo import GroupLoss, Task, reward_data
from adaptrag_cli.learning.lora import (
    LoraShape,
    LoraWeights,
    add_lora,
    load_base,
    lora_weights,
    require_training_packages,
    set_lora_weights,
    training_device,
)
from adaptrag_cli.learning.losses import BETA
from adaptrag_cli.learning.pairs import PairsOf
from adaptrag_cli.learning.rollouts import Limits, Search
from adaptrag_cli.learning.runs import TRAJECTORIES, Explored, SynthesisManifest, read_explored, read_run
from adaptrag_cli.learning.stages import (
    Calibrated,
    Objective,
    Parted,
    References,
    calibration_data,
    calibration_loss,
    decision_odds,
    decisions_of,
    imitation_data,
    imitation_loss,
    measured_forks,
)
from adaptrag_cli.learning.training_report import (
    LEARNED_FROM,
    TRAINING,
    TrainingReport,
    read_report,
    run_id,
    training_name,
    write_report,
)
from adaptrag_cli.learning.trajectories import read_trajectories
from adaptrag_cli.models.adapters import AdapterFile, adapter_path, find_adapter, fits, read_adapter, require_fit
from adaptrag_cli.models.files import ModelFile
from adaptrag_cli.models.native import physical_cores
from adaptrag_cli.models.vocabulary import ChatTokens, open_tokens

Data = Parted[Example] | Parted[Preference] | Parted[Task]
_FEW = 10
"""Texts held out, below which a person is warned that figures on them mean little."""
_VERSIONS = ("torch", "transformers", "peft", "gguf")


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """What is to be trained."""

    run: Path
    stage: Stage
    base: ModelFile
    models_dir: Path
    name: str
    """Of the adapter that is made."""
    adapter_from: str
    """Adapter that it begins with; empty for none."""
    recipe: Recipe
    rank: int | None
    """None: that of the adapter it begins with, or else 16."""
    objective: Objective
    pairs: PairsOf
    seed: int
    gpu_layers: str
    threads: int | None = None
    """None: one per physical core."""
    beta: float = BETA
    may_replace: bool = False
    """Whether the adapter may take the place of one that was made of another run."""

    @property
    def told_objective(self) -> str:
        """What the stage learns, of that which it could."""
        return {"imitation": self.objective, "calibration": self.pairs, "grpo": "reward"}[self.stage]

    @property
    def folder(self) -> Path:
        return self.run / TRAINING / training_name(self.stage, self.told_objective)


class TrainingWatcher(Protocol):
    """What a front end is told, and asked."""

    def note(self, text: str) -> None: ...

    def began(self, total: int, done: int) -> None: ...

    def advance(self, what: str) -> None: ...

    def should_stop(self) -> bool: ...


def require_base(base: ModelFile, manifest: SynthesisManifest, run: Path) -> None:
    """Refuse to teach a model what another one has explored.

    Raises:
        ConfigError: naming both.
    """
    if not base.matches(manifest.model_fingerprint.partition("+")[0]):
        raise ConfigError(
            f"{run} was explored with {manifest.model}, and {base.name} is another file",
            f"--model {parted(manifest.model)[0]}; if it is the same file: adaptrag models verify",
        )


def train(plan: TrainingPlan, watcher: TrainingWatcher, *, resume: bool) -> tuple[Path, TrainingReport]:
    """Train a stage, write its adapter, and return the file and what came of it.

    Raises:
        AdaptRAGError: the packages, the data, the model or the adapter to begin with cannot be used.
        RunCancelled: the person stopped it; it goes on with `resume`.
    """
    require_training_packages()
    manifest = read_run(plan.run)
    require_base(plan.base, manifest, plan.run)
    path = adapter_path(plan.models_dir, plan.name)
    _require_own_place(path, plan)
    start = find_adapter(plan.models_dir, plan.adapter_from) if plan.adapter_from else None
    if start is not None:
        require_fit(start, plan.base)
        if start.path == path:
            raise ConfigError(f"adapter {plan.name!r} is what the training begins with", "give another --name")
    shape = _shape(plan, start)
    with only_writer(plan.folder):
        require_free_to_train(plan.folder, resume=resume)
        with open_tokens(plan.base.path, trusted=plan.base.verified) as tokens:
            material = _material(plan, manifest, tokens)
            base = manifest.model_fingerprint.partition("+")[0]  # as it was noted: it may have been verified since
            begun = _digest(base, plan.seed, shape, start.fingerprint if start is not None else "")
            digest = _digest(begun, plan.stage, plan.recipe, plan.beta, material.data, material.decisions)
            report = _finished(path, plan, digest) if resume else None
            if report is not None:
                watcher.note(f"stage {report.training} is done already")
            else:
                _require_untrained(path, plan)
                stage = _StageRun(
                    plan=plan,
                    start=start,
                    shape=shape,
                    tokens=tokens,
                    material=material,
                    begun=begun,
                    digest=digest,
                    watcher=watcher,
                )
                report = stage.run(path, resume=resume)
        forget_checkpoint(plan.folder)
    return path, report


def _require_own_place(path: Path, plan: TrainingPlan) -> None:
    """Refuse to replace an adapter that was made of another run of the same name, or of another model.

    Raises:
        ConfigError: naming the run.
        ModelError: a file of that name is no adapter.
    """
    if plan.may_replace or not path.is_file():
        return
    found = read_adapter(path)
    if found.report.get("run_id") != run_id(plan.run) or not fits(found, plan.base):
        run = found.report.get("run")
        made = f"made of another run {run!r}, for" if run else "not made of this run, and is for"
        raise ConfigError(
            f"adapter {plan.name!r} is there already, {made} {found.base}",
            f"give another --name, or --name {plan.name} to replace it",
        )


def _require_untrained(path: Path, plan: TrainingPlan) -> None:
    """Refuse to train again, unasked, what is done.

    Raises:
        ConfigError: saying how to see it, and how to train it anew.
    """
    if plan.may_replace or not path.is_file() or has_checkpoint(plan.folder):
        return
    try:
        report = read_report(plan.run, plan.folder.name)
    except OSError:
        return
    if report.adapter == plan.name:
        raise ConfigError(
            f"stage {report.training} of {plan.run} was trained already, as adapter {plan.name!r}",
            f"see it with: {shlex.join(['adaptrag', 'deeprag', 'show', str(plan.run)])}; or add --name {plan.name} to "
            "train it anew",
        )


def _finished(path: Path, plan: TrainingPlan, digest: str) -> TrainingReport | None:
    """What came of the very training that is planned, where it is done and its adapter is still there."""
    try:
        report = read_report(plan.run, plan.folder.name)
    except OSError:
        return None
    if (report.digest, report.adapter) != (digest, plan.name) or not path.is_file():
        return None
    return report if read_adapter(path).fingerprint == report.adapter_fingerprint else None


@dataclass(frozen=True, kw_only=True)
class _Material:
    """What a run gives a stage."""

    data: Data
    decisions: tuple[Preference, ...]
    """Of right paths, on questions that are held out."""
    unexplored: int
    """Questions of the run that were not explored yet."""
    search: Search | None = None
    """Among the run's passages, where narratives are to be written."""
    limits: Limits
    """How far they may be written."""


@dataclass(frozen=True, kw_only=True)
class _StageRun:
    """One stage that is to be trained."""

    plan: TrainingPlan
    start: AdapterFile | None
    shape: LoraShape
    tokens: ChatTokens
    material: _Material
    begun: str
    """Digest of the model with the adapter that it begins with."""
    digest: str
    """Of that, and of all that is learned and how."""
    watcher: TrainingWatcher

    def run(self, path: Path, *, resume: bool) -> TrainingReport:
        """Load the model, train it, write its adapter, and then what came of it."""
        import torch

        plan = self.plan
        torch.set_num_threads(plan.threads or physical_cores())
        self.watcher.note(f"loading the weights of {plan.base.name}")
        device = training_device(plan.gpu_layers)
        model = add_lora(load_base(plan.base.path, device=device), self.shape, seed=plan.seed).to(device)
        layout = read_layout(plan.base.path, model)
        if self.start is not None:
            set_lora_weights(model, read_weights(self.start.path, layout))
        report = self._train(model, device=device, resume=resume)
        if path.exists():
            self.watcher.note(f"the earlier adapter {plan.name!r} is replaced")
        _export(path, layout, lora_weights(model), report)
        report = msgspec.structs.replace(report, adapter_fingerprint=read_adapter(path).fingerprint)
        write_report(plan.run, report)
        return report

    def _train(self, model: Any, *, device: str, resume: bool) -> TrainingReport:
        plan, data, decisions = self.plan, self.material.data, self.material.decisions
        self._tell(resume)
        references = References(plan.folder, self.begun, model)
        before = decision_odds(decisions, self._referred(references, decisions, "decisions that were held out"))
        fitted = self._fit(model, references, resume)
        self.watcher.note("measuring the decisions again")
        after = decision_odds(decisions, measured_forks(model, decisions, should_stop=self.watcher.should_stop))
        return TrainingReport(
            stage=plan.stage,
            adapter=plan.name,
            run=plan.run.absolute().name,
            run_id=run_id(plan.run),
            base=plan.base.name,
            base_fingerprint=plan.base.fingerprint,
            adapter_from=plan.adapter_from,
            adapter_from_fingerprint=self.start.fingerprint if self.start is not None else "",
            digest=self.digest,
            seed=plan.seed,
            shape=self.shape,
            recipe=plan.recipe,
            objective=plan.told_objective,
            beta=plan.beta if plan.stage == "calibration" else None,
            train=len(data.train),
            held_out=len(data.held_out),
            too_long=data.too_long,
            steps=fitted.steps,
            epochs=fitted.epochs,
            best_epoch=fitted.best_epoch,
            loss_before=fitted.held_out_before,
            loss_after=fitted.held_out_after,
            odds_before=before,
            odds_after=after,
            seconds=round(fitted.seconds, 1),
            device=device,
            versions={name: version(name) for name in _VERSIONS},
        )

    def _tell(self, resume: bool) -> None:
        data, what = self.material.data, LEARNED_FROM[self.plan.stage]
        if resume and not has_checkpoint(self.plan.folder):
            self.watcher.note("there is no training to go on with: it begins anew")
        left_out = f", {data.too_long} too long and left out" if data.too_long else ""
        self.watcher.note(
            f"{len(data.train)} {what} to learn from, {len(data.held_out)} held out{left_out}; "
            f"{len(self.material.decisions)} held-out decisions"
        )
        if self.material.unexplored:
            self.watcher.note(
                f"warning: {self.material.unexplored} questions of {self.plan.run} are not explored yet; "
                "synthesize goes on with --resume"
            )
        if len(data.held_out) < _FEW:
            self.watcher.note(f"warning: with {len(data.held_out)} {what} held out, hardly anything can be told")

    def _referred(
        self, references: References, preferences: Sequence[Preference], what: str
    ) -> list[tuple[float, float]]:
        if preferences:
            self.watcher.note(f"measuring {len(preferences)} {what} before the training")
        return references.compute(preferences, should_stop=self.watcher.should_stop)

    def _fit(self, model: Any, references: References, resume: bool) -> Fitted:
        """Train on trajectories, on pairs with what the reference gives them, or on what the model itself writes."""
        data, search = self.material.data, self.material.search
        if search is not None:
            drawn = GroupLoss(model, self.tokens, search, seed=self.plan.seed, limits=self.material.limits)
            return self._fitted(model, data.train, data.held_out, drawn, resume, before_item=drawn.before_item)
        if self.plan.stage == "imitation":
            return self._fitted(model, data.train, data.held_out, partial(imitation_loss, model), resume)

        def referred(items: Sequence[Any], what: str) -> list[Calibrated]:
            values = self._referred(references, items, what)
            return [Calibrated(preference=item, reference=each) for item, each in zip(items, values, strict=True)]

        train, held_out = referred(data.train, "pairs to learn from"), referred(data.held_out, "pairs held out")
        return self._fitted(model, train, held_out, partial(calibration_loss, model, beta=self.plan.beta), resume)

    def _fitted(
        self,
        model: Any,
        train: Sequence[Any],
        held_out: Sequence[Any],
        loss: Callable[[Any], Any],
        resume: bool,
        before_item: Callable[[int], None] = lambda _: None,
    ) -> Fitted:
        plan = self.plan
        told = _Told(self.watcher)
        fitting = Fitting(
            model=model,
            train=train,
            held_out=held_out,
            loss=loss,
            recipe=plan.recipe,
            seed=plan.seed,
            folder=plan.folder,
            digest=self.digest,
            before_item=before_item,
            on_item=told.item,
            on_point=told.point,
            should_stop=self.watcher.should_stop,
        )
        return fitting.run(resume=resume)


class _Told:
    """Tells a watcher how a training goes."""

    def __init__(self, watcher: TrainingWatcher) -> None:
        self._watcher = watcher
        self._is_begun = False
        self._last = "first step"

    def item(self, done: int, total: int) -> None:
        if not self._is_begun:
            self._is_begun = True
            self._watcher.began(total, done - 1)
        self._watcher.advance(self._last)

    def point(self, point: LossPoint) -> None:
        if point.held_out is not None:
            when = f"epoch {point.epoch:.0f}" if point.epoch else "before the training"
            self._watcher.note(f"held-out loss {point.held_out:.4f} ({when})")
        elif point.loss is not None:
            self._last = f"step {point.step}, loss {point.loss:.4f}"


def _material(plan: TrainingPlan, manifest: SynthesisManifest, tokens: ChatTokens) -> _Material:
    """Read what the stage learns from, and measures with.

    Raises:
        ConfigError: the run has not what the stage needs.
    """
    explored = read_explored(plan.run)
    if not explored:
        raise ConfigError(f"{plan.run} holds no tree yet", "go on with the synthesize that began it, and --resume")
    trees = [each.tree for each in explored]
    data, search = _data(plan, manifest, explored, tokens)
    held_out = {item.question for item in data.held_out}
    return _Material(
        data=data,
        decisions=decisions_of(trees, held_out, tokens),
        unexplored=len(manifest.keys) - len(explored),
        search=search,
        limits=Limits(top_k=int(manifest.settings.get("top_k") or Limits.top_k), max_searches=manifest.max_steps),
    )


def _data(
    plan: TrainingPlan, manifest: SynthesisManifest, explored: Sequence[Explored], tokens: ChatTokens
) -> tuple[Data, Search | None]:
    if plan.stage == "grpo":
        return reward_data(explored, seed=plan.seed)
    trajectories = read_trajectories(plan.run / TRAJECTORIES)
    if plan.stage == "imitation":
        return imitation_data(trajectories, tokens, seed=plan.seed, objective=plan.objective), None
    trees = [each.tree for each in explored]
    parted = calibration_data(trees, trajectories, tokens, seed=plan.seed, whole=manifest.whole, pairs=plan.pairs)
    return parted, None


def _shape(plan: TrainingPlan, start: AdapterFile | None) -> LoraShape:
    """How large the adapter is: as large as the one that it begins with.

    Raises:
        ConfigError: another rank was asked, or that one has learned from questions that are to be held out.
    """
    if start is None:
        rank = plan.rank or LoraShape().rank
        return LoraShape(rank=rank, alpha=2 * rank)
    told = start.report.get("shape")
    try:
        shape = msgspec.convert(told, type=LoraShape)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"adapter {start.name!r} was not made by adaptrag deeprag train", "begin with another --adapter-from"
        ) from error
    if plan.rank is not None and plan.rank != shape.rank:
        raise ConfigError(
            f"--rank {plan.rank}: adapter {start.name!r}, which it begins with, is of rank {shape.rank}",
            "leave --rank out",
        )
    if plan.seed != start.report.get("seed"):
        raise ConfigError(
            f"--seed {plan.seed} holds other questions out than adapter {start.name!r}, which it begins with, has done",
            f"give --seed {start.report.get('seed')}",
        )
    return shape


def _export(path: Path, layout: Layout, weights: LoraWeights, report: TrainingReport) -> None:
    facts = AdapterFacts(
        name=report.adapter,
        base=report.base,
        base_fingerprint=report.base_fingerprint,
        alpha=report.shape.alpha,
        stage=report.stage,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        report=msgspec.to_builtins(report),
    )
    write_adapter(path, layout, weights, facts)


def _digest(*parts: object) -> str:
    """What a training is known by: everything that decides what it learns."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(repr(part).encode() + b"\0")
    return digest.hexdigest()[:32]
