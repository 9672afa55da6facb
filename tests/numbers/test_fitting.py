"""Training an adapter: what is learned of a text, and that a stop changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from adaptrag_cli.errors import ConfigError, RunCancelled
from adaptrag_cli.learning.examples import Example, example_of, held_out_questions, learned_tokens
from adaptrag_cli.learning.fitting import CHECKPOINT, LOSSES, Fitted, Fitting, LossPoint, Recipe, forget_checkpoint
from adaptrag_cli.learning.lora import LoraShape, lora_weights, trainable
from adaptrag_cli.learning.losses import IGNORED, token_cross_entropy
from adaptrag_cli.learning.stages import imitation_loss
from adaptrag_cli.learning.trajectories import Segment, make_trajectory
from adaptrag_cli.stepwise.narrative import Narrative, NarrativeStep
from tiny_learner import ByteTokens, tiny_model


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """So small a model takes longer with two."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


RECIPE = Recipe(learning_rate=0.02, epochs=3, accumulation=4, patience=0)


def an_example(text: str, learned: str) -> Example:
    tokens = ByteTokens()
    ids, tail = tokens.plain(text), tokens.plain(learned)
    return Example(question=text, token_ids=ids + tail, labels=(IGNORED,) * len(ids) + tail)


TRAIN = tuple(an_example(f"question {number}? ", "yes" if number % 2 else "no") for number in range(6))
HELD_OUT = tuple(an_example(f"question {number}? ", "yes" if number % 2 else "no") for number in (6, 7))


def a_fitting(folder: Path, model=None, recipe: Recipe = RECIPE, **how) -> Fitting[Example]:
    model = model or tiny_model()
    return Fitting(
        model=model,
        train=TRAIN,
        held_out=HELD_OUT,
        loss=lambda item: imitation_loss(model, item),
        recipe=recipe,
        seed=3,
        folder=folder,
        digest="d",
        **how,
    )


def test_a_token_is_learned_where_all_its_bytes_are():
    segments = (Segment(text="ab\n", train=True), Segment(text="cé\n", train=False), Segment(text="d", train=True))
    assert learned_tokens([b"a", b"b\n", "cé".encode(), b"\nd"], segments) == [True, True, False, False]
    assert learned_tokens([b" ab", b"\nc", "é".encode(), b"\n", b"d"], segments) == [True, False, False, False, True]


def test_the_passages_and_the_question_are_read_and_the_end_is_learned():
    step = NarrativeStep(sub_query="w?", retrieve=True, passages=("p",), answer="a")
    made = example_of(make_trajectory("q", Narrative(steps=(step,), final="f")), ByteTokens())
    learned = [token for token in made.labels if token != IGNORED]
    assert learned[-1] == ByteTokens.end_of_turn
    assert b"".join(map(ByteTokens().piece, learned)).decode() == (
        "Follow up: w?\nLet's search the question in Wikipedia.\nIntermediate answer: a\nSo the final answer is: f"
    )
    assert made.labels[:3] == (IGNORED,) * 3
    assert len(made.token_ids) == len(made.labels)


def test_the_loss_is_that_of_all_logits():
    model, example = tiny_model(), TRAIN[0]
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([example.token_ids])).logits
        expected = token_cross_entropy(logits, torch.tensor([example.labels]))
        assert imitation_loss(model, example).item() == pytest.approx(expected.item(), abs=1e-6)


def test_a_question_is_held_out_whatever_the_others_are():
    """599 of 4000 are expected, give or take 23."""
    questions = [f"q{number}" for number in range(4000)]
    held_out = held_out_questions(questions, seed=1)
    assert len(held_out) == pytest.approx(600, abs=70)
    assert held_out != held_out_questions(questions, seed=2)
    assert held_out_questions(reversed(questions[:400]), seed=1) == held_out.intersection(questions[:400])


def test_of_few_questions_one_is_held_out_and_one_is_not():
    questions = [f"q{number}" for number in range(400)]
    chosen = held_out_questions(questions, seed=1)
    inside, outside = [q for q in questions if q in chosen][:3], [q for q in questions if q not in chosen][:3]
    assert len(held_out_questions(inside, seed=1)) == 2
    assert len(held_out_questions(outside, seed=1)) == 1
    assert held_out_questions(["q"], seed=1) == {"q"}


def test_a_change_begins_at_nothing_and_is_drawn_by_its_seed():
    ids = torch.tensor([TRAIN[0].token_ids])
    with torch.no_grad():
        model = tiny_model()
        with model.disable_adapter():
            plain = model(input_ids=ids).logits
        assert torch.equal(model(input_ids=ids).logits, plain)
    first, again = (next(iter(lora_weights(tiny_model(seed=5)).values())) for _ in range(2))
    assert np.array_equal(first.a, again.a)
    assert not np.array_equal(first.a, next(iter(lora_weights(tiny_model(seed=6)).values())).a)
    assert not first.b.any()


def test_training_lowers_the_loss_and_keeps_the_best_weights(whole: tuple[Fitting[Example], Fitted]):
    """6 items of 4 and 2 to a step: 2 steps an epoch, of which the first is the warm-up of a tenth of 6."""
    fitting, fitted = whole
    steps = [point for point in fitted.points if point.loss is not None]
    measured = [point.held_out for point in fitted.points if point.held_out is not None]
    assert [point.step for point in steps] == [1, 2, 3, 4, 5, 6]
    assert [point.learning_rate for point in steps] == pytest.approx(
        [0.02 * share for share in (1, 1, 0.904508, 0.654508, 0.345492, 0.095492)], abs=1e-7
    )
    assert len(measured) == 4
    assert fitted.held_out_after == min(measured[1:]) < fitted.held_out_before == measured[0]
    with torch.no_grad():
        left = sum(imitation_loss(fitting.model, item).item() for item in HELD_OUT) / 2
    assert left == pytest.approx(fitted.held_out_after, abs=1e-6)
    lines = (fitting.folder / LOSSES).read_bytes().splitlines()
    assert tuple(msgspec.json.decode(line, type=LossPoint) for line in lines) == fitted.points
    assert (fitting.folder / CHECKPOINT).exists(), "what came of it is written by others, and may fail"


def test_a_training_that_is_done_is_not_done_again(tmp_path: Path, whole: tuple[Fitting[Example], Fitted]):
    a_fitting(tmp_path).run()
    again = a_fitting(tmp_path, should_stop=lambda: True)
    expected, fitted = whole
    assert replace(again.run(resume=True), seconds=0.0) == replace(fitted, seconds=0.0)
    for name, pair in lora_weights(again.model).items():
        assert np.array_equal(pair.b, lora_weights(expected.model)[name].b)
    forget_checkpoint(tmp_path)
    assert not (tmp_path / CHECKPOINT).exists()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Fitting[Example], Fitted]:
    """A training that was not stopped."""
    fitting = a_fitting(tmp_path_factory.mktemp("whole"))
    return fitting, fitting.run()


@pytest.mark.parametrize("stop_at", [0, 3, 6, 7, 17])
def test_a_training_that_was_stopped_ends_as_one_that_was_not(
    tmp_path: Path, stop_at: int, whole: tuple[Fitting[Example], Fitted]
):
    done = 0

    def count(cursor: int, total: int) -> None:
        nonlocal done
        assert total == 18
        done = cursor

    stopped = a_fitting(tmp_path / "part", on_item=count, should_stop=lambda: done >= stop_at)
    with pytest.raises(RunCancelled, match="stopped"):
        stopped.run()
    resumed = a_fitting(tmp_path / "part")
    again = resumed.run(resume=True)
    expected, fitted = whole
    assert replace(again, seconds=0.0) == replace(fitted, seconds=0.0)
    for name, pair in lora_weights(resumed.model).items():
        assert np.array_equal(pair.a, lora_weights(expected.model)[name].a)
        assert np.array_equal(pair.b, lora_weights(expected.model)[name].b)
    assert (tmp_path / "part" / LOSSES).read_bytes() == (expected.folder / LOSSES).read_bytes()


def test_it_ends_early_where_the_held_out_loss_does_not_fall(tmp_path: Path):
    """What is held out is the contrary of what is learned: the first epoch is the best one, and one more is tried."""
    fitting = a_fitting(tmp_path, recipe=Recipe(learning_rate=0.05, epochs=6, patience=1))
    fitting.held_out = (an_example("question 6? ", "xxxx"),)
    fitted = fitting.run()
    assert (fitted.best_epoch, fitted.epochs) == (1, 2)


def test_a_stopped_training_is_neither_overwritten_nor_mixed_with_another(tmp_path: Path):
    stopped = a_fitting(tmp_path, should_stop=lambda: True)
    with pytest.raises(RunCancelled):
        stopped.run()
    with pytest.raises(ConfigError, match="holds a training that was stopped"):
        a_fitting(tmp_path).run()
    with pytest.raises(ConfigError, match="begun with other data or options"):
        replace(a_fitting(tmp_path), digest="other").run(resume=True)
    (tmp_path / CHECKPOINT).write_bytes(b"{}")
    with pytest.raises(ConfigError, match="is no checkpoint"):
        a_fitting(tmp_path).run(resume=True)


def test_numbers_beyond_all_bounds_are_told(tmp_path: Path):
    model = tiny_model()
    with torch.no_grad():
        next(iter(trainable(model).values())).fill_(float("nan"))
    with pytest.raises(ConfigError, match="left all bounds"):
        a_fitting(tmp_path, model).run()


def test_an_adapter_has_the_shape_that_was_asked():
    model = tiny_model(shape=LoraShape(rank=3, alpha=6, targets=("q_proj", "down_proj")))
    shapes = {name.partition("layers.")[2]: pair.b.shape + pair.a.shape for name, pair in lora_weights(model).items()}
    assert shapes == {
        "0.self_attn.q_proj": (16, 3, 3, 16),
        "0.mlp.down_proj": (16, 3, 3, 32),
        "1.self_attn.q_proj": (16, 3, 3, 16),
        "1.mlp.down_proj": (16, 3, 3, 32),
    }
