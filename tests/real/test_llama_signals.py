"""Attention and residual states that are read out of llama.cpp, against plain sums over the raw nodes."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import filelock
import numpy as np
import pytest

from adaptrag_cli.errors import MissingCapability, ModelError, QueryTooLong, RunCancelled
from adaptrag_cli.evaluation.cache import EvaluationCache
from adaptrag_cli.evaluation.cached import CachedModel, WorkClock
from adaptrag_cli.models import llama, signal_check
from adaptrag_cli.models.base import SIGNALS, Generation, Prompt, Token, load_lanes
from adaptrag_cli.models.context import NativeContext
from adaptrag_cli.models.llama import LlamaModel
from adaptrag_cli.models.signal_check import CHECK_TEXT, check_signals
from adaptrag_cli.models.signals import NodeReader, state_name

pytestmark = pytest.mark.small_model

TINY_LLM = "smollm2-135m-instruct"
QUESTIONS = ("Name three rivers of France.", "Why does the moon have phases?", "2, 4, 8, 16: what comes next?")
PASSAGE = "The ferry to Saltmarsh leaves at 06:40, except on Mondays, when the harbour master winds the clock. " * 6
WRITTEN = " The ferry leaves at 06:40. Nobody winds the clock on Tuesdays."
NO_PROMPT = Prompt(text="", token_ids=())


@pytest.fixture(scope="session")
def tiny_llm_path(models_dir: Path) -> Path:
    from adaptrag_cli.models.download import ensure_models
    from adaptrag_cli.models.files import locate_model

    with filelock.FileLock(models_dir / ".tests.lock"):
        ensure_models([TINY_LLM], models_dir)
    return locate_model(TINY_LLM, models_dir).path


def load(path: Path, *, lanes: int = 1, signals: bool = True) -> tuple[LlamaModel, ...]:
    return load_lanes(
        path,
        lanes=lanes,
        name="small",
        fingerprint="sha256:test",
        trusted=True,
        context_length=512,
        threads=1,
        signals=signals,
    )


@pytest.fixture(scope="module", params=["tiny", "small"])
def lanes(request: pytest.FixtureRequest) -> Iterator[tuple[LlamaModel, ...]]:
    models = load(request.getfixturevalue(f"{request.param}_llm_path"), lanes=3)
    yield models
    models[0].close()


@pytest.fixture(scope="module")
def tiny(tiny_llm_path: Path) -> Iterator[LlamaModel]:
    (model,) = load(tiny_llm_path)
    yield model
    model.close()


@pytest.fixture(scope="module")
def without(tiny_llm_path: Path) -> Iterator[LlamaModel]:
    (model,) = load(tiny_llm_path, signals=False)
    yield model
    model.close()


def finish(tokens: Generator[Token, None, Generation]) -> Generation:
    while True:
        try:
            next(tokens)
        except StopIteration as done:
            return done.value


def raw_attention(context: NativeContext, token_ids: Sequence[int], layer: int) -> np.ndarray:
    """All heads of a layer over a text, shape (heads, tokens, tokens), read part by part from an empty cache."""
    name, n_keys = f"kq_soft_max-{layer}", len(token_ids)
    heads = context._native.llama_model_n_head(context._model)
    raw = np.zeros((heads, n_keys, n_keys), dtype=np.float32)
    parts: list[tuple[int, int, NodeReader]] = []

    def around_part(start: int, end: int):
        parts.append((start, end, NodeReader([name])))
        return parts[-1][2].read(context._watch)

    context.forget()
    context.prefill(token_ids, around_part=around_part)
    for start, end, reader in parts:
        values = reader.rows(name, heads).reshape(heads, end - start, -1)
        raw[:, start:end, : min(n_keys, values.shape[2])] = values[:, :, :n_keys]
    return raw


@pytest.mark.parametrize("layer", [0, -1])
def test_attention_is_the_mean_over_the_heads_of_what_is_computed(lanes: tuple[LlamaModel, ...], layer: int):
    """The text takes two parts, and the first row stands in the middle of the first."""
    model = lanes[0]
    prompt = model.build_prompt(PASSAGE[:300])
    continuation = model.tokenize(PASSAGE + WRITTEN)
    attention = model.attend(prompt, continuation, layer=layer)
    raw = raw_attention(model._context, (*prompt.token_ids, *continuation), layer % model.info.layer_count)

    first = attention.first_row
    assert (first, attention.rows.shape) == (len(prompt), raw[0, first:].shape)
    assert len(prompt) % 128 and len(prompt) < 128 < raw.shape[1]
    assert np.allclose(attention.rows, raw.mean(axis=0)[first:], atol=1e-6)
    assert np.allclose(attention.rows.sum(axis=1), 1, atol=1e-3)
    assert not np.triu(attention.rows[:, first:], k=1).any(), "nothing is paid to what comes later"
    among = raw[:, first:, first:]
    n = len(continuation)
    received = [among[:, i:, i].max(axis=1).mean() for i in range(n)]
    later = [among[:, i + 1 :, i].max(axis=1).mean() for i in range(n - 1)] + [0.0]
    assert np.allclose(attention.received, received, atol=1e-6)
    assert np.allclose(attention.received_later, later, atol=1e-6)


def test_attention_does_not_depend_on_what_was_in_the_cache(lanes: tuple[LlamaModel, ...]):
    """After the prompt alone, after a generation from it, after the text itself, and beside other lanes' texts."""
    model = lanes[1]
    prompt, continuation = model.build_prompt(PASSAGE), model.tokenize(WRITTEN)
    model.forget()
    expected = model.attend(prompt, continuation)
    other = lanes[0].generate(lanes[0].build_prompt(QUESTIONS[0]), max_tokens=4)
    next(other)
    for before in (prompt, model.build_prompt(PASSAGE + "Who winds it?"), None):
        if before is not None:
            finish(model.generate(before, max_tokens=2))
        again = model.attend(prompt, continuation)
        assert np.array_equal(again.rows, expected.rows)
        assert np.array_equal(again.received, expected.received)
    other.close()


def test_what_was_attended_is_reused_when_the_text_goes_on(tiny: LlamaModel):
    prompt, written = tiny.build_prompt(PASSAGE), tiny.tokenize(WRITTEN)
    tiny.forget()
    tiny.attend(prompt, written)
    whole = Prompt(text="", token_ids=(*prompt.token_ids, *written[:-2]))
    resumed = finish(tiny.generate(whole, max_tokens=4))
    assert resumed.prompt_tokens - resumed.reused_tokens < 12
    tiny.forget()
    assert finish(tiny.generate(whole, max_tokens=4)).tokens == resumed.tokens


def test_a_text_alone_does_not_drive_a_prompt_out_of_the_cache(lanes: tuple[LlamaModel, ...]):
    model = lanes[2]
    prompt, written = model.build_prompt(PASSAGE), model.tokenize(WRITTEN)
    expected = finish(model.generate(prompt, max_tokens=4))
    alone = model.attend(NO_PROMPT, written)
    assert (alone.first_row, alone.rows.shape) == (0, (len(written), len(written)))
    assert alone.received[0] == pytest.approx(1), "the first token has nothing but itself to attend to"
    assert np.allclose(alone.rows, raw_attention(model._context, written, model.info.layer_count - 1).mean(axis=0))
    finish(model.generate(prompt, max_tokens=4))
    model.attend(NO_PROMPT, written)
    again = finish(model.generate(prompt, max_tokens=4))
    assert again.tokens == expected.tokens
    assert again.reused_tokens > len(prompt) - 16


def test_states_are_the_mean_over_the_tokens_that_were_fed(lanes: tuple[LlamaModel, ...]):
    """A prefill of the same tokens gives the same states but for rounding: other kernels compute a single token."""
    model = lanes[0]
    prompt = model.build_prompt(QUESTIONS[1])
    generation = finish(model.generate(prompt, max_tokens=8, states=(0, 5, -1)))
    assert generation.stop_reason == "length"
    written = [token.id for token in generation.tokens]
    layers = {0: 0, 5: 5, -1: model.info.layer_count - 1}
    values = model._context.watch_text((*prompt.token_ids, *written), [state_name(i) for i in layers.values()])
    assert list(generation.states) == list(layers)
    assert generation.state_tokens == 7, "the last token is never fed"
    for asked, layer in layers.items():
        expected = values[state_name(layer)][len(prompt) : -1].mean(axis=0)
        assert np.allclose(generation.states[asked], expected, rtol=0.05, atol=0.02 * np.abs(expected).max()), asked
        assert cosine(generation.states[asked], expected) > 0.999, asked


def test_states_of_several_lanes_are_those_of_one_by_one(lanes: tuple[LlamaModel, ...]):
    """The lanes want other layers each, the second none; two of them leave a gap between the sequences of a batch."""
    wanted = ((3, -1), (), (7,))
    prompts = [lanes[0].build_prompt(question) for question in QUESTIONS]
    alone = []
    for prompt, layers in zip(prompts, wanted, strict=True):
        lanes[0].forget()
        alone.append(finish(lanes[0].generate(prompt, max_tokens=6, states=layers)))
    assert [tuple(generation.states) for generation in alone] == list(wanted)
    for chosen in ((0, 1, 2), (0, 2)):
        runs = {i: lanes[i].generate(prompts[i], max_tokens=6, states=wanted[i]) for i in chosen}
        for _ in range(3):
            for run in runs.values():
                next(run)
        for i, run in runs.items():
            assert finish(run).states == alone[i].states


def test_states_of_a_prompt_are_those_of_its_last_token(lanes: tuple[LlamaModel, ...]):
    model = lanes[-1]
    layers = {0: 0, 5: 5, -1: model.info.layer_count - 1}
    for question in QUESTIONS:
        prompt = model.build_prompt(question)
        states = model.prompt_states(prompt, tuple(layers))
        values = model._context.watch_text(prompt.token_ids, [state_name(i) for i in layers.values()])
        assert list(states) == list(layers)
        for asked, layer in layers.items():
            assert cosine(states[asked], values[state_name(layer)][-1]) > 0.999, asked


def test_a_prompt_whose_states_were_read_is_reused_by_the_text_that_follows(lanes: tuple[LlamaModel, ...]):
    model = lanes[0]
    prompt = model.build_prompt(PASSAGE + "When does it leave?")
    model.forget()
    expected = finish(model.generate(prompt, max_tokens=6))
    model.forget()
    first = model.prompt_states(prompt, (3, 7))
    generation = finish(model.generate(prompt, max_tokens=6))
    assert generation.tokens == expected.tokens
    assert generation.reused_tokens > len(prompt) - 16
    assert model.prompt_states(prompt, (3, 7)) == first, "whatever is in the cache"


def test_an_evaluation_remembers_the_states_of_a_prompt(tiny: LlamaModel, tmp_path: Path):
    model = CachedModel(tiny, EvaluationCache(tmp_path / "cache.sqlite"), WorkClock())
    prompt = model.build_prompt(QUESTIONS[0])
    assert model.prompt_states(prompt, (3,)) == tiny.prompt_states(prompt, (3,)) == model.prompt_states(prompt, (3,))
    assert list(model.prompt_states(prompt, (4,))) == [4]


def test_a_text_of_one_token_has_no_states(tiny: LlamaModel):
    assert finish(tiny.generate(tiny.build_prompt(QUESTIONS[0]), max_tokens=1, states=(3,))).states == {}


def test_an_evaluation_remembers_states_beside_the_text(tiny: LlamaModel, tmp_path: Path):
    model = CachedModel(tiny, EvaluationCache(tmp_path / "cache.sqlite"), WorkClock())
    prompt = model.build_prompt(QUESTIONS[0])
    assert finish(model.generate(prompt, max_tokens=4)).states == {}
    first = finish(model.generate(prompt, max_tokens=4, states=(3, -1)))
    again = finish(model.generate(prompt, max_tokens=4, states=(3, -1)))
    assert again == replace(first, reused_tokens=again.reused_tokens)
    assert [len(state) for state in again.states.values()] == [576, 576]


def test_texts_are_the_same_with_signals_and_without(tiny: LlamaModel, without: LlamaModel):
    assert without.info.capabilities & SIGNALS == frozenset()
    assert tiny.info.capabilities == without.info.capabilities | SIGNALS
    for question in (*QUESTIONS, PASSAGE + "When does it leave?"):
        prompt = tiny.build_prompt(question)
        plain = finish(without.generate(prompt, max_tokens=12))
        assert finish(tiny.generate(prompt, max_tokens=12)).tokens == plain.tokens
        assert finish(tiny.generate(prompt, max_tokens=12, states=(3, 9, -1))).tokens == plain.tokens


def test_a_model_without_signals_refuses_them(without: LlamaModel):
    prompt = without.build_prompt(QUESTIONS[0])
    with pytest.raises(MissingCapability, match="model 'small' gives no attention"):
        without.attend(prompt, (1, 2))
    with pytest.raises(MissingCapability, match="model 'small' gives no states"):
        without.generate(prompt, max_tokens=2, states=(0,))
    with pytest.raises(MissingCapability, match="model 'small' gives no states"):
        without.prompt_states(prompt, (0,))


def test_what_makes_no_sense_is_refused(tiny: LlamaModel):
    prompt = tiny.build_prompt(QUESTIONS[0])
    with pytest.raises(ValueError, match="layer 30 of 30"):
        tiny.attend(prompt, (1,), layer=30)
    with pytest.raises(ValueError, match="layer -31 of 30"):
        tiny.generate(prompt, max_tokens=2, states=(-31,))
    with pytest.raises(ValueError, match="attends to nothing"):
        tiny.attend(prompt, ())
    with pytest.raises(QueryTooLong):
        tiny.attend(prompt, (1,) * 512)
    with pytest.raises(ModelError, match="could not evaluate"):
        tiny.attend(prompt, (-1,))
    assert len(tiny.attend(prompt, (1,)).rows) == 1


def test_attention_can_be_cancelled(tiny: LlamaModel, monkeypatch: pytest.MonkeyPatch):
    evaluate = tiny._context._evaluate

    def cancelled(token_ids: Sequence[int], sequence: int = 0) -> None:
        tiny.cancel()
        evaluate(token_ids, sequence)

    prompt = tiny.build_prompt(PASSAGE)
    with monkeypatch.context() as patch:
        patch.setattr(tiny._context, "_evaluate", cancelled)
        with pytest.raises(RunCancelled):
            tiny.attend(prompt, tiny.tokenize(WRITTEN))
    assert len(tiny.attend(prompt, tiny.tokenize(WRITTEN)).rows) == len(tiny.tokenize(WRITTEN))


def check(model: LlamaModel) -> tuple[frozenset[str], tuple[str, ...]]:
    return check_signals(model._context, model.tokenize(CHECK_TEXT))


def test_a_model_that_passes_its_check_gives_both_signals(lanes: tuple[LlamaModel, ...]):
    assert check(lanes[0]) == (SIGNALS, ())
    assert lanes[0].info.capabilities >= SIGNALS
    assert lanes[0].info.notes == ()


def test_heads_that_are_counted_wrong_give_no_attention(tiny: LlamaModel, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tiny._context._native, "llama_model_n_head", lambda _: 3)
    found, notes = check(tiny)
    assert found == {"states"}
    assert notes == (
        "the model gives no attention: what llama.cpp computes in layer 29 is not the attention that each token pays "
        "to those before it",
    )


def test_a_model_that_forgets_tokens_gives_no_attention(tiny: LlamaModel, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tiny._context._native, "llama_model_n_swa", lambda _: 1024)
    found, (note,) = check(tiny)
    assert found == {"states"}
    assert note.startswith("the model gives no attention: its layers do not keep every token")


def test_other_nodes_are_not_taken_for_states(tiny: LlamaModel, monkeypatch: pytest.MonkeyPatch):
    """`attn_norm` is as wide as a state, but not what the head reads."""
    monkeypatch.setattr(signal_check, "state_name", lambda layer: f"attn_norm-{layer}")
    found, notes = check(tiny)
    assert (found, notes) == (
        {"attention"},
        ("the model gives no states: its output head reads something else than the state of its last layer",),
    )
    monkeypatch.setattr(signal_check, "state_name", lambda layer: f"unheard_of-{layer}")
    assert check(tiny)[1][0].startswith("the model gives no states: llama.cpp does not compute unheard_of-0")


def test_a_build_that_names_nothing_gives_no_signals(tiny_llm_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse() -> None:
        raise ModelError("this build of llama.cpp brings no ggml library")

    monkeypatch.setattr(llama, "GraphWatch", refuse)
    (model,) = load(tiny_llm_path)
    assert not model.info.capabilities & SIGNALS
    assert model.info.notes == (
        "the model gives neither attention nor states: this build of llama.cpp brings no ggml library",
    )
    assert finish(model.generate(model.build_prompt(QUESTIONS[0]), max_tokens=2)).tokens
    model.close()


@pytest.mark.parametrize("which", ["tiny", "small"])
def test_signals_are_those_of_transformers_on_the_same_weights(which: str, request: pytest.FixtureRequest):
    """Eager attention in single precision on the dequantised weights.

    The last of transformers' own states is normalised, so what the last layer gives is taken from the layer.
    """
    import torch
    from transformers import AutoModelForCausalLM

    path: Path = request.getfixturevalue(f"{which}_llm_path")
    (model,) = load(path)
    other = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, attn_implementation="eager", dtype=torch.float32
    )
    layers = tuple(range(model.info.layer_count))
    last: list[torch.Tensor] = []
    other.model.layers[-1].register_forward_hook(lambda *given: last.append(given[-1]))
    for question in QUESTIONS:
        prompt = model.build_prompt(question)
        generation = finish(model.generate(prompt, max_tokens=12, states=layers))
        written = [token.id for token in generation.tokens]
        with torch.no_grad():
            out = other(
                torch.tensor([[*prompt.token_ids, *written]]), output_attentions=True, output_hidden_states=True
            )
        fed = slice(len(prompt), len(prompt) + len(written) - (generation.stop_reason == "length"))
        states = [*out.hidden_states[1:-1], last.pop()]
        for layer in layers:
            state = states[layer][0, fed].mean(dim=0).numpy()
            assert cosine(generation.states[layer], state) > 0.99, (question, layer)
        for layer in (0, model.info.layer_count // 2, -1):
            rows = out.attentions[layer][0].mean(dim=0).numpy()[len(prompt) :]
            attention = model.attend(prompt, written, layer=layer)
            before = np.tri(*rows.shape, k=len(prompt), dtype=bool)
            assert np.corrcoef(attention.rows[before], rows[before])[0, 1] > 0.99, (question, layer)
    model.close()


def cosine(a: Sequence[float] | np.ndarray, b: np.ndarray) -> float:
    a = np.asarray(a)
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
