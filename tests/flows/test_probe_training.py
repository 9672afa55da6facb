"""Training of probers: what they learn, that it is the same however often it was stopped, and what is told of it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from adaptrag_cli.calibration import question_digest
from adaptrag_cli.errors import ConfigError, ModelError, RunCancelled
from adaptrag_cli.evaluation.probing.assess import assess
from adaptrag_cli.evaluation.probing.outcome import Outcome, outcome_of
from adaptrag_cli.evaluation.probing.rows import ROWS, STATES, RowLog, read_rows
from adaptrag_cli.evaluation.probing.train import NETWORKS, train_prober
from adaptrag_cli.probing.files import read_prober, write_prober
from adaptrag_cli.probing.prober import Prober, forward
from adaptrag_cli.probing.training import RECIPES, LabelledStates, Recipe, _logits, train_layer
from probe_rows import LAYERS, QUICK, WIDTH, manifest_of, write_rows
from probers import random_weights


def labelled(count: int, shift: float, seed: int, width: int = 8) -> LabelledStates:
    """Every second row is right; the first number tells them apart by twice the shift."""
    generator = np.random.default_rng(seed)
    labels = np.arange(count, dtype=np.int64) % 2
    states = generator.standard_normal((count, width)).astype(np.float32)
    states[:, 0] += shift * (2 * labels - 1)
    return LabelledStates(states=states, labels=labels)


def accuracy_of(weights, rows: LabelledStates) -> float:
    logits = forward(weights, rows.states)
    return float(((logits[:, 1] >= logits[:, 0]) == rows.labels).mean())


def test_it_learns_what_can_be_told_and_nothing_from_noise():
    for shift, low, high in ((3.0, 0.95, 1.0), (0.0, 0.4, 0.6)):
        trained = train_layer(labelled(128, shift, 0), labelled(40, shift, 1), recipe=QUICK, seed=0, layer=2)
        assert low <= accuracy_of(trained.weights, labelled(400, shift, 2)) <= high
        assert 1 <= trained.best_epoch <= trained.epochs == 3


def test_the_weights_follow_from_rows_seed_and_layer_alone():
    recipe = Recipe(learning_rate=1e-3, batch=16, epochs=1)
    rows, stop = labelled(48, 1.0, 0), labelled(16, 1.0, 1)
    first = train_layer(rows, stop, recipe=recipe, seed=0, layer=2)
    others = [train_layer(rows, stop, recipe=recipe, seed=s, layer=y) for s, y in ((0, 3), (1, 2))]
    again = train_layer(rows, stop, recipe=recipe, seed=0, layer=2)
    for name, weights in first.weights.items():
        assert weights.tobytes() == again.weights[name].tobytes()
        assert weights.dtype == np.float32
    for other in others:
        assert other.weights["linear0.weight"].tobytes() != first.weights["linear0.weight"].tobytes()


def test_a_step_is_torchs_own_on_logits():
    """AdamW, cross-entropy of the logits and a rate that shrinks with every batch, against torch's own layers."""
    rows, stop = labelled(16, 1.0, 0), labelled(16, 1.0, 1)
    recipe = Recipe(learning_rate=1e-2, batch=16, epochs=3, decay=0.5, weight_decay=0.05, dropout=0.0, warm_up_epochs=2)
    began = train_layer(rows, stop, recipe=msgspec.structs.replace(recipe, learning_rate=0.0), seed=0, layer=2)
    norm, linear, silu = torch.nn.LayerNorm, torch.nn.Linear, torch.nn.SiLU
    network = torch.nn.Sequential(
        *(norm(8), linear(8, 512), silu(), norm(512), linear(512, 512), silu(), norm(512), linear(512, 2))
    )
    layers = [layer for layer in network if list(layer.parameters())]
    names = [f"{kind}{number}" for number in range(3) for kind in ("norm", "linear")]
    with torch.no_grad():
        for name, layer in zip(names, layers, strict=True):
            layer.weight.copy_(torch.from_numpy(began.weights[f"{name}.weight"]))
            layer.bias.copy_(torch.from_numpy(began.weights[f"{name}.bias"]))
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-2, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, gamma=0.5)
    for _ in range(3):  # an epoch is one batch of all rows
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(
            network(torch.from_numpy(rows.states)), torch.from_numpy(rows.labels)
        ).backward()
        optimiser.step()
        schedule.step()
    trained = train_layer(rows, stop, recipe=recipe, seed=0, layer=2)
    assert (trained.best_epoch, trained.epochs) == (3, 3), "the weights of the warm-up are not kept"
    for name, layer in zip(names, layers, strict=True):
        np.testing.assert_allclose(trained.weights[f"{name}.weight"], layer.weight.detach().numpy(), atol=2e-5, rtol=0)
        assert not np.allclose(trained.weights[f"{name}.bias"], began.weights[f"{name}.bias"], atol=1e-4)


def test_dropout_leaves_the_mean_as_it_is():
    network = {name: torch.from_numpy(array) for name, array in random_weights(8).items()}
    network["linear1.weight"] = torch.zeros(512, 512)
    network["linear1.bias"], network["linear2.bias"] = torch.arange(512.0), torch.zeros(2)
    network["linear2.weight"] = torch.ones(2, 512)
    network["norm2.weight"], network["norm2.bias"] = torch.zeros(512), torch.ones(512)  # the last Linear sees ones
    logits = _logits(network, torch.ones(200, 8), 0.25, torch.Generator().manual_seed(0))
    # the sum of 512 numbers that are 0, or 4/3 three times in four: 512, give or take sqrt(512 / 3) = 13
    assert logits.mean().item() == pytest.approx(512, abs=4)
    assert logits[:, 0].std().item() == pytest.approx(13.06, rel=0.2)


def test_of_equal_accuracies_the_lower_loss_wins():
    rows, stop = labelled(64, 6.0, 0), labelled(20, 6.0, 1)
    recipe = Recipe(learning_rate=1e-3, batch=16, epochs=4)
    trained = train_layer(rows, stop, recipe=recipe, seed=0, layer=0)
    assert trained.accuracy == 1.0
    assert trained.best_epoch == 4, "each epoch is right everywhere, and surer than the last"


def test_patience_ends_it_and_the_best_weights_are_kept():
    recipe = Recipe(learning_rate=0.0, batch=64, epochs=30, patience=2)  # nothing changes, so the first is the best
    trained = train_layer(labelled(64, 3.0, 0), labelled(20, 3.0, 1), recipe=recipe, seed=0, layer=0)
    assert (trained.best_epoch, trained.epochs) == (1, 3)
    assert trained.accuracy == accuracy_of(trained.weights, labelled(20, 3.0, 1))


def test_a_training_without_bounds_is_told_in_a_line():
    recipe = Recipe(learning_rate=1e25, batch=16, epochs=2)
    with pytest.raises(ConfigError, match="layer 5: its training left all bounds"):
        train_layer(labelled(32, 1.0, 0), labelled(16, 1.0, 1), recipe=recipe, seed=0, layer=5)


def test_the_papers_recipes_are_those_of_its_table_and_code():
    paper, code = RECIPES["paper"], RECIPES["code"]
    assert (paper.learning_rate, paper.batch, paper.epochs, paper.decay, paper.dropout) == (1e-3, 12, 2, 0.995, 0.1)
    assert (code.learning_rate, code.batch, code.epochs, code.decay, code.dropout) == (1e-4, 8, 2, 0.995, 0.1)
    assert (paper.warm_up_epochs, code.warm_up_epochs) == (1, 0)
    assert RECIPES["small"] == Recipe(
        learning_rate=3e-4, batch=16, epochs=30, weight_decay=0.05, warm_up_epochs=2, patience=6
    )


# --- rows on the disk


def test_a_kill_costs_the_row_in_progress_and_nothing_else(tmp_path: Path):
    whole = write_rows(tmp_path, 10, shift=1.0)
    lines, states = (tmp_path / ROWS).read_bytes(), (tmp_path / STATES).read_bytes()
    record = len(LAYERS) * WIDTH * 4
    assert len(states) == 20 * record
    # the record of the 18th row is there and its line is half written; the rest was never begun
    rows = lines.split(b"\n")
    (tmp_path / ROWS).write_bytes(b"\n".join(rows[:17]) + b"\n" + rows[17][:20])
    (tmp_path / STATES).write_bytes(states[: 18 * record + 7])
    with closing(RowLog(tmp_path, LAYERS)) as log:
        assert len(log.done) == 17
        for number in (19, 17, 18):  # in another order
            row = msgspec.structs.replace(whole.rows[number], record=None, width=0)
            log.append(row, dict(zip(LAYERS, whole.states[number].tolist(), strict=True)))
    again = read_rows(tmp_path)
    assert again.is_whole
    assert [row.key for row in again.rows] == [row.key for row in whole.rows]
    np.testing.assert_array_equal(again.states, whole.states)


def test_a_row_without_states_has_no_record(tmp_path: Path):
    whole = write_rows(tmp_path, 2, shift=1.0)
    (tmp_path / ROWS).unlink()
    (tmp_path / STATES).unlink()
    with closing(RowLog(tmp_path, LAYERS)) as log:
        for number, row in enumerate(whole.rows):
            bare = msgspec.structs.replace(row, record=None, width=0)
            log.append(bare, {} if number == 1 else dict(zip(LAYERS, whole.states[number].tolist(), strict=True)))
        with pytest.raises(ValueError, match="there already"):
            log.append(whole.rows[0], {})
    data = read_rows(tmp_path)
    assert [row.record for row in data.rows] == [0, None, 1, 2]
    assert np.isnan(data.states[1]).all()
    assert np.isfinite(data.states[[0, 2, 3]]).all()


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path):
    write_rows(tmp_path, 4, shift=1.0)
    (tmp_path / STATES).write_bytes(b"\0" * 10)
    with pytest.raises(ConfigError, match=r"lacks states of its rows"):
        RowLog(tmp_path, LAYERS)
    with pytest.raises(ConfigError, match=r"lacks states of its rows"):
        read_rows(tmp_path)
    (tmp_path / ROWS).write_bytes(b"{}\n")
    with pytest.raises(ConfigError, match=r"rows.jsonl, line 1 is no row"):
        read_rows(tmp_path)
    with pytest.raises(ConfigError, match="holds no rows for a prober"):
        read_rows(tmp_path / "elsewhere")


# --- from rows to a prober


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Prober, Outcome]:
    made = train_prober(write_rows(tmp_path_factory.mktemp("rows"), 80, shift=3.0), recipe=QUICK, seed=0)
    return made, outcome_of(made.report, "made")


def test_what_is_said_of_held_out_texts_is_rounded_from_double_precision(tmp_path: Path):
    data = write_rows(tmp_path, 40, shift=1.0)
    made = train_prober(data, recipe=QUICK, seed=0)
    states = {
        (question_digest(row.question_id), row.retrieved): s for row, s in zip(data.rows, data.states, strict=True)
    }
    for text in outcome_of(made.report, "made").texts:
        for at, (weights, logits) in enumerate(zip(made.layers.values(), text.logits, strict=True)):
            said = forward(weights, states[text.question, text.retrieved][at].astype(np.float64)).astype(np.float32)
            assert logits == tuple(round(float(value), 5) for value in said)


def test_a_prober_is_made_with_all_that_is_to_be_told_of_it(trained: tuple[Prober, Outcome], tmp_path: Path):
    made, outcome = trained
    assert (made.kind, made.model, made.width, made.layer_count, tuple(made.layers)) == ("answer", "tiny", 4, 4, LAYERS)
    assert [layer.layer for layer in outcome.layers] == [1, 3]
    assert (outcome.train.questions, outcome.stop.questions, outcome.held_out.questions) == (48, 12, 20)
    share = outcome.sets[0]
    assert (share.questions, share.written, share.right, share.written_with_passages) == (80, 80, 40, 80)
    assert share.right_with_passages == 40 + 14  # the odd ones, and the even multiples of 3 under 80
    assert len(outcome.texts) == 40
    assert sum(text.balanced for text in outcome.texts) == outcome.held_out.rows
    assert [point.rows for point in outcome.curve][-1] == outcome.train.rows
    assert len(outcome.curve) == 3
    assert outcome.costs.generation_seconds == 80.0
    assert outcome.costs.generation_peak_memory == 1000
    assert outcome.costs.training_seconds > 0
    write_prober(tmp_path / "p.safetensors", made)
    assert outcome_of(read_prober(tmp_path / "p.safetensors").report, "p") == outcome


def test_what_was_held_out_is_measured_from_the_file_alone(trained: tuple[Prober, Outcome]):
    _, outcome = trained
    found = assess(outcome)
    assert found.together.accuracy.mean > 0.9
    assert found.together.accuracy.n == outcome.held_out.rows
    assert [quality.name for quality in found.layers] == ["1", "3"]
    assert [quality.name for quality in found.baselines] == ["majority", "has passages", "uncertainty u"]
    assert found.baselines[0].accuracy.mean == 0.5
    assert set(found.comparisons) == {"majority", "has passages", "uncertainty u"}
    assert found.curve[-1].quality.accuracy == found.together.accuracy
    assert found.curve[-1].answers == found.answers["the prober"]
    at_zero = next(point for point in found.thetas if point.theta == 0)
    assert at_zero.accuracy == found.together.accuracy == found.by_layers[-1].accuracy
    assert [point.looked_up for point in found.thetas] == sorted(point.looked_up for point in found.thetas)
    assert at_zero.answers == found.answers["the prober"]
    assert found.answers["the better text"].mean >= found.answers["the prober"].mean
    assert [point.layers for point in found.by_layers] == [(1,), (1, 3)]
    assert found.correlation_points == len(found.thetas) + 2


def test_a_stopped_training_goes_on_to_the_same_bytes(trained: tuple[Prober, Outcome], tmp_path: Path):
    rows = write_rows(tmp_path, 80, shift=3.0)
    notes: list[str] = []
    with pytest.raises(RunCancelled, match="--resume"):
        train_prober(rows, recipe=QUICK, seed=0, on_note=notes.append, should_stop=lambda: len(notes) == 3)
    assert len(notes) == 3
    made = train_prober(rows, recipe=QUICK, seed=0, on_note=notes.append)
    assert len(notes) == 6  # two layers, on all rows and on two parts of them: none was trained twice
    uninterrupted, outcome = trained
    for layer, weights in uninterrupted.layers.items():
        for name, array in weights.items():
            assert made.layers[layer][name].tobytes() == array.tobytes()
    again = outcome_of(made.report, "again")
    assert (again.texts, again.curve, again.threshold) == (outcome.texts, outcome.curve, outcome.threshold)
    # what a kill has torn is trained anew
    torn = next((tmp_path / NETWORKS).glob("layer-3-weights-*"))
    torn.write_bytes(torn.read_bytes()[:100])
    assert train_prober(rows, recipe=QUICK, seed=0, on_note=notes.append).layers[3].keys() == made.layers[3].keys()
    assert notes[6:] == [f"training layer 3 on {outcome.train.rows} rows"]


def test_texts_of_a_question_prober_have_no_passages(tmp_path: Path):
    rows = write_rows(tmp_path, 60, shift=3.0, kind="question", layers=(1,), right=lambda number, _: number % 2 == 0)
    assert rows.is_whole
    assert len(rows.rows) == 60
    made = train_prober(rows, recipe=Recipe(learning_rate=1e-3, batch=16, epochs=1), seed=0)
    found = assess(outcome_of(made.report, "made"))
    assert [quality.name for quality in found.baselines] == ["majority", "uncertainty u"]
    assert (found.answers, found.correlation, found.thetas[0].answers) == ({}, None, None)


def test_a_report_of_another_form_is_told_in_a_line(trained: tuple[Prober, Outcome]):
    with pytest.raises(ModelError, match="prober 'x' does not say how it was trained"):
        outcome_of({"rows": 600}, "x")
    report = dict(trained[0].report)
    with pytest.raises(ModelError, match="in another form"):
        outcome_of({**report, "format": 99}, "x")
    assert manifest_of(3).keys == tuple(("s", f"q{n}", way) for n in range(3) for way in (False, True))
