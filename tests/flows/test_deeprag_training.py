"""Training on a run of deeprag synthesize, from its trees to an adapter's file, with a model of random weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gguf
import msgspec
import numpy as np
import pytest
from msgspec.structs import replace as replaced

from adaptrag_cli.errors import ConfigError, RunCancelled, UnknownName
from adaptrag_cli.learning import training
from adaptrag_cli.learning.export import read_weights
from adaptrag_cli.learning.fitting import CHECKPOINT, LOSSES, Recipe
from adaptrag_cli.learning.grpo import GroupLoss, reward_data
from adaptrag_cli.learning.rollouts import Limits
from adaptrag_cli.learning.runs import TRAJECTORIES, read_explored
from adaptrag_cli.learning.stages import REFERENCES, References, decision_odds, imitation_data
from adaptrag_cli.learning.training import TrainingPlan, train
from adaptrag_cli.learning.training_report import (
    REPORT,
    TrainingReport,
    begun_with,
    default_name,
    read_report,
    reports_of,
    trainings_begun,
)
from adaptrag_cli.learning.trajectories import read_trajectories
from adaptrag_cli.models.adapters import find_adapter
from adaptrag_cli.models.files import ModelFile, partial_fingerprint
from explored_trees import explored
from tiny_learner import ByteTokens, tiny_base
from training_runs import a_base, a_run, a_tiny_world, explored_with, tiny_layout

RECIPE = Recipe(learning_rate=0.02, epochs=2)
QUERY = "model.layers.0.self_attn.q_proj"


class Watcher:
    """Hears everything, and stops where it is told to."""

    def __init__(self, stop_after: int = 1000) -> None:
        self.notes: list[str] = []
        self.advanced: list[str] = []
        self._stop_after = stop_after

    def note(self, text: str) -> None:
        self.notes.append(text)

    def began(self, total: int, done: int) -> None:
        self.notes.append(f"{done} of {total}")

    def advance(self, what: str) -> None:
        self.advanced.append(what)

    def should_stop(self) -> bool:
        return len(self.advanced) >= self._stop_after


@pytest.fixture(autouse=True)
def tiny_world(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with a_tiny_world(monkeypatch):
        yield


def timeless(report: TrainingReport) -> TrainingReport:
    """What a second training gives, too: a file holds when it was made."""
    return replaced(report, seconds=0.0, adapter_fingerprint="")


def tensors_of(path: Path) -> dict[str, bytes]:
    return {tensor.name: np.array(tensor.data).tobytes() for tensor in gguf.GGUFReader(path).tensors}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainingReport]:
    """Stage imitation, not cut short."""
    with pytest.MonkeyPatch.context() as patch, a_tiny_world(patch):
        return train(a_plan(tmp_path_factory.mktemp("whole")), Watcher(), resume=False)


def a_plan(tmp_path: Path, stage: str = "imitation", **changes) -> TrainingPlan:
    run = tmp_path / "run"
    if not run.exists():
        a_run(run)
    known = {
        "run": run,
        "stage": stage,
        "base": a_base(tmp_path),
        "models_dir": tmp_path,
        "name": f"run-{stage}",
        "adapter_from": "" if stage == "imitation" else "run-imitation",
        "recipe": RECIPE,
        "rank": 2 if stage == "imitation" else None,
        "objective": "all",
        "pairs": "path",
        "seed": 0,
        "gpu_layers": "0",
    }
    return TrainingPlan(**(known | changes))


def test_both_stages_one_after_the_other(tmp_path: Path):
    watcher = Watcher()
    path, first = train(a_plan(tmp_path), watcher, resume=False)
    assert path == tmp_path / "adapters" / "run-imitation.gguf"
    assert (first.train, first.held_out, first.too_long, first.steps) == (5, 3, 0, 4)
    assert first.loss_after < first.loss_before
    assert first.odds_before is not None and first.odds_before.pairs == 6
    assert watcher.notes[1] == "5 trajectories to learn from, 3 held out; 6 held-out decisions"
    assert watcher.notes[2] == "warning: with 3 trajectories held out, hardly anything can be told"
    assert len(watcher.advanced) == 10

    found = find_adapter(tmp_path, "run-imitation")
    assert (found.base_name, found.base_fingerprint, found.stage) == ("base", "sha256:base", "imitation")
    assert msgspec.convert(found.report, type=TrainingReport) == replaced(first, adapter_fingerprint="")
    assert first.adapter_fingerprint == found.fingerprint

    assert begun_with(tmp_path / "run", "calibration", tmp_path) == "run-imitation"
    _, second = train(a_plan(tmp_path, "calibration"), Watcher(), resume=False)
    assert (second.adapter_from, second.shape, second.beta) == ("run-imitation", first.shape, 0.4)
    assert (second.train, second.held_out) == (10, 6)
    assert second.adapter_from_fingerprint == found.fingerprint
    assert second.loss_before == pytest.approx(np.log(2), abs=1e-4), "the model begins as its own reference"
    assert second.odds_before == first.odds_after, "stage II begins with the weights that stage I has written"
    assert sorted(file.name for file in (tmp_path / "run" / "training" / "calibration").iterdir()) == [
        LOSSES,
        REFERENCES,
        REPORT,
        "run.lock",
    ]


def test_a_stopped_stage_ends_as_one_that_was_not(tmp_path: Path):
    whole, part = tmp_path / "whole", tmp_path / "part"
    for folder in (whole, part):
        folder.mkdir()
    _, expected = train(a_plan(whole), Watcher(), resume=False)
    with pytest.raises(RunCancelled):
        train(a_plan(part), Watcher(stop_after=5), resume=False)
    assert (part / "run" / "training" / "imitation" / CHECKPOINT).exists()
    with pytest.raises(ConfigError, match="holds a training that was stopped"):
        train(a_plan(part), Watcher(), resume=False)
    with pytest.raises(ConfigError, match="begun with other data or options"):
        train(a_plan(part, recipe=Recipe(learning_rate=0.01, epochs=2)), Watcher(), resume=True)
    watcher = Watcher()
    path, resumed = train(a_plan(part), watcher, resume=True)
    assert timeless(resumed) == timeless(expected)
    assert len(watcher.advanced) == 5
    assert tensors_of(path) == tensors_of(whole / "adapters" / path.name)


@pytest.mark.parametrize("step", ["measured_forks", "_export", "read_adapter", "write_report", "forget_checkpoint"])
def test_what_is_cut_short_behind_the_last_step_is_not_trained_again(
    tmp_path: Path, step: str, whole: tuple[Path, TrainingReport], monkeypatch: pytest.MonkeyPatch
):
    def killed(*_args: object, **_how: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training, step, killed)
        with pytest.raises(KeyboardInterrupt):
            train(a_plan(tmp_path), Watcher(), resume=False)
    watcher = Watcher()
    path, report = train(a_plan(tmp_path), watcher, resume=True)
    unbroken, expected = whole
    assert watcher.advanced == []
    assert timeless(report) == timeless(expected)
    assert tensors_of(path) == tensors_of(unbroken)
    assert read_report(tmp_path / "run", "imitation") == report
    assert not (tmp_path / "run" / "training" / "imitation" / CHECKPOINT).exists()


def test_the_last_measurement_may_be_stopped(tmp_path: Path):
    class Impatient(Watcher):
        def should_stop(self) -> bool:
            return self.notes[-1] == "measuring the decisions again"

    with pytest.raises(RunCancelled, match="stopped while decisions were measured"):
        train(a_plan(tmp_path), Impatient(), resume=False)
    assert not (tmp_path / "adapters").exists()
    watcher = Watcher()
    train(a_plan(tmp_path), watcher, resume=True)
    assert watcher.advanced == []


def test_nothing_is_loaded_for_what_is_done_or_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, report = train(a_plan(tmp_path), Watcher(), resume=False)
    with monkeypatch.context() as patch:
        patch.setattr(training, "load_base", None)
        watcher = Watcher()
        assert train(a_plan(tmp_path), watcher, resume=True) == (path, report)
        assert watcher.notes == ["stage imitation is done already"]
        (tmp_path / "run" / "training" / "imitation" / CHECKPOINT).write_bytes(b"")
        with pytest.raises(ConfigError, match="holds a training that was stopped"):
            train(a_plan(tmp_path), Watcher(), resume=False)
        assert train(a_plan(tmp_path), Watcher(), resume=True)[1] == report

    path.unlink()
    _, again = train(a_plan(tmp_path), Watcher(), resume=True)
    assert timeless(again) == timeless(report)
    monkeypatch.setattr(training, "load_base", None)
    other = a_plan(tmp_path, recipe=Recipe(learning_rate=0.01, epochs=2))
    for plan, resume in ((other, True), (other, False), (a_plan(tmp_path), False)):
        with pytest.raises(ConfigError, match="stage imitation of .* was trained already, as adapter 'run-imitation'"):
            train(plan, Watcher(), resume=resume)
    with pytest.raises(TypeError):
        train(replace(other, may_replace=True), Watcher(), resume=True)


def test_the_trees_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    read = []
    monkeypatch.setattr(training, "read_explored", lambda run: read.append(run) or read_explored(run))
    train(a_plan(tmp_path), Watcher(), resume=False)
    train(a_plan(tmp_path, "calibration"), Watcher(), resume=False)
    assert len(read) == 2


def test_all_stages_hold_the_same_questions_out(tmp_path: Path):
    run = a_run(tmp_path / "run", {f"question {number}": ("DR", "never")[number % 2] for number in range(40)})
    imitated = imitation_data(read_trajectories(run / TRAJECTORIES), ByteTokens(), seed=3)
    rewarded, _ = reward_data(read_explored(run), seed=3)
    left, right = ({item.question for item in data.held_out} for data in (imitated, rewarded))
    assert left < right
    assert not right.intersection(item.question for item in imitated.train)
    assert not left.intersection(task.question for task in rewarded.train)


def test_the_last_line_alone_is_learned_beside_the_true_stage(tmp_path: Path):
    path, true = train(a_plan(tmp_path), Watcher(), resume=False)
    plan = a_plan(tmp_path, objective="answer-only", name="run-answer-only")
    other, report = train(plan, Watcher(), resume=False)
    assert (other.stem, report.training) == ("run-answer-only", "imitation-answer-only")
    assert reports_of(tmp_path / "run") == {"imitation": true, "imitation-answer-only": report}
    assert trainings_begun(tmp_path / "run") == ("imitation", "imitation-answer-only")
    assert begun_with(tmp_path / "run", "calibration", tmp_path) == path.stem
    assert [default_name(tmp_path / "run", "imitation", each) for each in ("all", "answer-only")] == [
        "run-imitation",
        "run-answer-only",
    ]


def test_an_adapter_of_another_run_of_that_name_is_not_replaced(tmp_path: Path):
    path, first = train(a_plan(tmp_path), Watcher(), resume=False)
    other = a_run(tmp_path / "b" / "run", {f"other {number}": "DR" for number in range(8)})
    with pytest.raises(ConfigError, match="'run-imitation' is there already, made of another run 'run', for base"):
        train(a_plan(tmp_path, run=other), Watcher(), resume=False)
    assert find_adapter(tmp_path, path.stem).fingerprint == first.adapter_fingerprint
    watcher = Watcher()
    train(a_plan(tmp_path, run=other, may_replace=True), watcher, resume=False)
    assert "the earlier adapter 'run-imitation' is replaced" in watcher.notes
    with pytest.raises(ConfigError, match="'run-imitation' is not the file any more that stage imitation made of"):
        begun_with(tmp_path / "run", "calibration", tmp_path)
    path.unlink()
    with pytest.raises(UnknownName, match="unknown adapter 'run-imitation'"):
        begun_with(other, "calibration", tmp_path)


def test_calibration_goes_on_from_the_adapter_that_has_explored(tmp_path: Path):
    _, first = train(a_plan(tmp_path), Watcher(), resume=False)
    again = a_run(tmp_path / "again", **explored_with(find_adapter(tmp_path, "run-imitation")))
    assert begun_with(again, "imitation", tmp_path) == ""
    assert begun_with(again, "calibration", tmp_path) == "run-imitation"
    plan = a_plan(tmp_path, "calibration", run=again, name="again-calibration")
    _, second = train(plan, Watcher(), resume=False)
    assert (second.adapter_from, second.run) == ("run-imitation", "again")
    assert second.odds_before == first.odds_after

    with pytest.raises(ConfigError, match="--seed 1 holds other questions out than adapter 'run-imitation'"):
        train(a_plan(tmp_path, "calibration", run=again, name="again-calibration", seed=1), Watcher(), resume=False)
    train(a_plan(tmp_path, seed=1, may_replace=True), Watcher(), resume=False)
    with pytest.raises(ConfigError, match="'run-imitation' is not the file any more that has explored"):
        begun_with(again, "calibration", tmp_path)


def test_stored_rows_are_permuted_and_read_back(tmp_path: Path):
    path, report = train(a_plan(tmp_path, recipe=Recipe(learning_rate=0.02, epochs=1)), Watcher(), resume=False)
    model = training.add_lora(tiny_base(), report.shape, seed=0)
    layout = tiny_layout(path, model)
    stored = {tensor.name: np.array(tensor.data) for tensor in gguf.GGUFReader(path).tensors}
    again = read_weights(path, layout)
    order = [0, 2, 1, 3]  # of a head of four rows: the first of both halves, then the second
    assert again[QUERY].b.any()
    assert np.array_equal(stored[f"{layout.tensors[QUERY]}.lora_b"][:4], again[QUERY].b[order])
    assert np.array_equal(stored[f"{layout.tensors[QUERY]}.lora_a"], again[QUERY].a)


@pytest.mark.parametrize(
    ("solved", "reason"),
    [
        (dict.fromkeys("abcd", "never"), "holds no trajectory: nothing was solved"),
        ({"a": "DD", "b": "DR", "c": "RD"}, "3 questions were solved, and 4 are needed"),
    ],
)
def test_a_run_from_which_nothing_can_be_learned_is_told(tmp_path: Path, solved: dict[str, str], reason: str):
    a_run(tmp_path / "run", solved)
    with pytest.raises(ConfigError, match=reason):
        train(a_plan(tmp_path), Watcher(), resume=False)


def test_a_run_without_a_tree_is_told(tmp_path: Path):
    a_run(tmp_path / "run", {})
    with pytest.raises(ConfigError, match="holds no tree yet"):
        train(a_plan(tmp_path), Watcher(), resume=False)


def test_pairs_that_all_prefer_the_same_are_told(tmp_path: Path):
    a_run(tmp_path / "run", dict.fromkeys("abcdef", "DD"))
    train(a_plan(tmp_path), Watcher(), resume=False)
    with pytest.raises(ConfigError, match="all 10 pairs prefer to answer from memory"):
        train(a_plan(tmp_path, "calibration"), Watcher(), resume=False)


def test_trajectories_that_are_too_long_are_left_out(tmp_path: Path):
    solved = {**dict.fromkeys("abcd", "DR"), "long " * 900: "DR"}
    a_run(tmp_path / "run", solved)
    _, report = train(a_plan(tmp_path, seed=1), Watcher(), resume=False)
    assert (report.train, report.held_out, report.too_long) == (3, 1, 1)


def test_what_does_not_fit_together_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="goes on from stage imitation, which was not trained"):
        begun_with(a_run(tmp_path / "run"), "calibration", tmp_path)
    plan = a_plan(tmp_path)
    with pytest.raises(ConfigError, match="needs whole trees"):
        train(a_plan(tmp_path, "calibration", adapter_from="", pairs="all-nodes"), Watcher(), resume=False)
    other = ModelFile(path=plan.base.path, name="other", fingerprint="sha256:other", entry=None, verified=True)
    with pytest.raises(ConfigError, match="was explored with .*, and other is another file"):
        train(a_plan(tmp_path, base=other), Watcher(), resume=False)
    train(plan, Watcher(), resume=False)
    with pytest.raises(ConfigError, match="--rank 3: adapter 'run-imitation', which it begins with, is of rank 2"):
        train(a_plan(tmp_path, "calibration", rank=3), Watcher(), resume=False)
    with pytest.raises(ConfigError, match="adapter 'run-imitation' is what the training begins with"):
        train(a_plan(tmp_path, "calibration", name="run-imitation", may_replace=True), Watcher(), resume=False)


def test_a_training_uses_as_many_threads_as_it_is_given(tmp_path: Path):
    import torch

    train(a_plan(tmp_path, threads=2), Watcher(), resume=False)
    assert torch.get_num_threads() == 2


def test_a_model_that_was_verified_since_is_not_trained_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    base = a_base(tmp_path)
    noted = replace(base, fingerprint=partial_fingerprint(base.path))
    a_run(tmp_path / "run", fingerprint=noted.fingerprint)
    _, first = train(a_plan(tmp_path, base=noted), Watcher(), resume=False)
    watcher = Watcher()
    _, again = train(a_plan(tmp_path, base=base), watcher, resume=True)
    assert watcher.notes == ["stage imitation is done already"]
    assert again == first


def test_what_was_measured_once_is_not_measured_again(tmp_path: Path):
    from adaptrag_cli.learning.examples import preference_of
    from adaptrag_cli.learning.pairs import make_pairs

    items = [preference_of(pair, ByteTokens()) for pair in make_pairs(explored("q").tree, "path")]
    model = training.add_lora(tiny_base(), training.LoraShape(rank=2, alpha=4), seed=0)
    found = References(tmp_path, "d", model).compute(items)
    (tmp_path / REFERENCES).write_bytes((tmp_path / REFERENCES).read_bytes() + b'["torn')
    assert References(tmp_path, "d", None).compute(items) == found
    assert len((tmp_path / REFERENCES).read_bytes().splitlines()) == 1 + len(items)
    odds = decision_odds(items, [(-1.0, -3.0), (-2.0, -1.0)])
    assert odds is not None
    assert (odds.mean, odds.right, odds.answer, odds.search) == (0.5, 0.5, 2.0, -1.0)
    assert decision_odds([], []) is None


def test_rewards_go_on_from_imitation_and_need_no_solved_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    given = []

    def short(*arguments, limits: Limits, **told):
        given.append(limits)
        return GroupLoss(*arguments, group=2, limits=replace(limits, max_tokens=4), **told)

    monkeypatch.setattr(training, "GroupLoss", short)
    a_run(tmp_path / "run", dict.fromkeys("abcde", "never"))
    recipe = Recipe(learning_rate=0.01, epochs=1)
    plan = a_plan(tmp_path, "grpo", adapter_from="", rank=2, recipe=recipe)
    path, report = train(plan, Watcher(), resume=False)
    assert (report.train, report.held_out, report.loss_before, report.odds_before) == (4, 1, 0.0, None)
    assert find_adapter(tmp_path, path.stem).stage == "grpo"
    assert given == [Limits(top_k=3, max_searches=2)]  # as the trees were explored
