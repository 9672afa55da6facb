"""Train an adapter on a run of `adaptrag deeprag synthesize`, and hand it back as a file that llama.cpp loads.

RUN/training/<stage>/losses.jsonl             the loss curve: a line a step, and one for each epoch's held-out loss
RUN/training/<stage>/references.jsonl         what the model gave each decision before the training
RUN/training/<stage>/checkpoint.safetensors   where a training stands that was stopped
RUN/training/<stage>/report.json              what came of it; also in the adapter's file
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import msgspec

from adaptrag_cli.disk import replace_durably
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.resume import only_writer
from adaptrag_cli.identity import parted
from adaptrag_cli.learning.examples import Example, Preference
from adaptrag_cli.learning.export import AdapterFacts, Layout, Stage, read_layout, read_weights, write_adapter
from adaptrag_cli.learning.fitting import Fitted, Fitting, LossPoint, Recipe
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
from adaptrag_cli.learning.runs import TRAJECTORIES, SynthesisManifest, read_explored, read_run, read_trees
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
    measured_fork,
)
from adaptrag_cli.learning.training_report import LEARNED_FROM, REPORT, TRAINING, TrainingReport
from adaptrag_cli.learning.trajectories import read_trajectories
from adaptrag_cli.models.adapters import AdapterFile, adapter_path, find_adapter, require_fit
from adaptrag_cli.models.files import ModelFile
from adaptrag_cli.models.native import physical_cores
from adaptrag_cli.models.stamps import partial_fingerprint
from adaptrag_cli.models.vocabulary import ChatTokens, open_tokens

Data = Parted[Example] | Parted[Preference] | Parted[Task]
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
    beta: float = BETA

    @property
    def folder(self) -> Path:
        return self.run / TRAINING / self.stage


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
    explored = manifest.model_fingerprint.partition("+")[0]
    same = explored == base.fingerprint
    if not same and explored.startswith("partial:"):
        same = explored == partial_fingerprint(base.path)
    if not same:
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
    require_base(plan.base, read_run(plan.run), plan.run)
    path = adapter_path(plan.models_dir, plan.name)
    start = find_adapter(plan.models_dir, plan.adapter_from) if plan.adapter_from else None
    if start is not None:
        require_fit(start, plan.base)
    import torch

    with only_writer(plan.folder), open_tokens(plan.base.path, trusted=plan.base.verified) as tokens:
        data = _data(plan, tokens)
        decisions = decisions_of(read_trees(plan.run), {item.question for item in data.held_out}, tokens)

        torch.set_num_threads(physical_cores())
        watcher.note(f"loading the weights of {plan.base.name}")
        device = training_device(plan.gpu_layers)
        shape = _shape(plan, start)
        model = add_lora(load_base(plan.base.path, device=device), shape, seed=plan.seed).to(device)
        layout = read_layout(plan.base.path, model)
        if start is not None:
            set_lora_weights(model, read_weights(start.path, layout))
        stage = _StageRun(plan=plan, model=model, tokens=tokens, watcher=watcher, shape=shape)
        report = stage.run(data, decisions, device=device, resume=resume)
        if path.exists():
            watcher.note(f"the earlier adapter {plan.name!r} is replaced")
        _export(path, layout, lora_weights(model), report)
    return path, report


@dataclass(frozen=True, kw_only=True)
class _StageRun:
    """One stage on a loaded model."""

    plan: TrainingPlan
    model: Any
    tokens: ChatTokens
    watcher: TrainingWatcher
    shape: LoraShape

    def run(self, data: Data, decisions: Sequence[Preference], *, device: str, resume: bool) -> TrainingReport:
        plan = self.plan
        self._tell(data, decisions)
        begun = _digest(plan.base.fingerprint, plan.seed, self.shape, lora_weights(self.model))
        references = References(plan.folder, begun, self.model)
        before = decision_odds(decisions, self._referred(references, decisions, "decisions that were held out"))
        fitted = self._fit(data, references, begun, resume)
        self.watcher.note("measuring the decisions again")
        after = decision_odds(decisions, [measured_fork(self.model, each) for each in decisions])
        report = TrainingReport(
            stage=plan.stage,
            adapter=plan.name,
            run=plan.run.absolute().name,
            base=plan.base.name,
            base_fingerprint=plan.base.fingerprint,
            adapter_from=plan.adapter_from,
            seed=plan.seed,
            shape=self.shape,
            recipe=plan.recipe,
            objective={"imitation": plan.objective, "calibration": plan.pairs, "grpo": "reward"}[plan.stage],
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
        replace_durably(plan.folder / REPORT, msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
        return report

    def _tell(self, data: Data, decisions: Sequence[Preference]) -> None:
        what = LEARNED_FROM[self.plan.stage]
        left_out = f", {data.too_long} too long and left out" if data.too_long else ""
        self.watcher.note(
            f"{len(data.train)} {what} to learn from, {len(data.held_out)} held out{left_out}; "
            f"{len(decisions)} held-out decisions"
        )

    def _referred(
        self, references: References, preferences: Sequence[Preference], what: str
    ) -> list[tuple[float, float]]:
        if preferences:
            self.watcher.note(f"measuring {len(preferences)} {what} before the training")
        return references.compute(preferences, should_stop=self.watcher.should_stop)

    def _fit(self, data: Data, references: References, begun: str, resume: bool) -> Fitted:
        """Train on trajectories, on pairs with what the reference gives them, or on what the model itself writes."""
        if self.plan.stage == "imitation":
            return self._fitted(data.train, data.held_out, partial(imitation_loss, self.model), begun, resume)
        if self.plan.stage == "grpo":
            _, search = reward_data(read_explored(self.plan.run), seed=self.plan.seed)
            drawn = GroupLoss(self.model, self.tokens, search, seed=self.plan.seed)
            return self._fitted(data.train, data.held_out, drawn, begun, resume, before_item=drawn.before_item)

        def referred(items: Sequence[Any], what: str) -> list[Calibrated]:
            values = self._referred(references, items, what)
            return [Calibrated(preference=item, reference=each) for item, each in zip(items, values, strict=True)]

        train, held_out = referred(data.train, "pairs to learn from"), referred(data.held_out, "pairs held out")
        loss = partial(calibration_loss, self.model, beta=self.plan.beta)
        return self._fitted(train, held_out, loss, begun, resume)

    def _fitted(
        self,
        train: Sequence[Any],
        held_out: Sequence[Any],
        loss: Callable[[Any], Any],
        begun: str,
        resume: bool,
        before_item: Callable[[int], None] = lambda _: None,
    ) -> Fitted:
        plan = self.plan
        told = _Told(self.watcher)
        fitting = Fitting(
            model=self.model,
            train=train,
            held_out=held_out,
            loss=loss,
            recipe=plan.recipe,
            seed=plan.seed,
            folder=plan.folder,
            digest=_digest(begun, plan.stage, plan.recipe, plan.beta, train, held_out),
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


def _data(plan: TrainingPlan, tokens: ChatTokens) -> Data:
    """What the stage learns from.

    Raises:
        ConfigError: the run has not what the stage needs.
    """
    if plan.stage == "grpo":
        return reward_data(read_explored(plan.run), seed=plan.seed)[0]
    trajectories = read_trajectories(plan.run / TRAJECTORIES)
    if plan.stage == "imitation":
        return imitation_data(trajectories, tokens, seed=plan.seed, objective=plan.objective)
    if plan.pairs != "path" and not read_run(plan.run).whole:
        raise ConfigError(
            f"--pairs {plan.pairs} needs whole trees, and those of {plan.run} end at their first right path",
            "synthesize with --whole, or take --pairs path",
        )
    return calibration_data(read_trees(plan.run), trajectories, tokens, seed=plan.seed, pairs=plan.pairs)


def _shape(plan: TrainingPlan, start: AdapterFile | None) -> LoraShape:
    """How large the adapter is: as large as the one that it begins with.

    Raises:
        ConfigError: another rank was asked.
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
        if isinstance(part, dict):
            for name, pair in part.items():
                digest.update(name.encode() + pair.a.tobytes() + pair.b.tobytes())
        else:
            digest.update(repr(part).encode() + b"\0")
    return digest.hexdigest()[:32]
