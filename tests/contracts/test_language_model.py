"""What every language model must do, run over the scripted one and a real small one."""

from __future__ import annotations

import math
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from adaptrag_cli.errors import ModelError, QueryTooLong, RunCancelled
from adaptrag_cli.models.base import Generation, LanguageModel, Token, load_lanes
from fakes import ScriptedModel, reply

QUESTION = "Name the planets of the solar system, one per line, in their order from the sun."
SHORT_QUESTION = "Is water wet?"


@pytest.fixture(scope="module")
def real_model(small_llm_path: Path) -> Iterator[LanguageModel]:
    (model,) = load_lanes(
        small_llm_path, lanes=1, name="small", fingerprint="sha256:test", trusted=True, context_length=512, threads=1
    )
    yield model
    model.close()


@pytest.fixture(params=["scripted", pytest.param("real", marks=pytest.mark.small_model)])
def model(request: pytest.FixtureRequest) -> LanguageModel:
    if request.param == "real":
        return request.getfixturevalue("real_model")
    planets = reply("Mercury\nVenus\nEarth\nMars\nJupiter\nSaturn\nUranus\nNeptune\n" * 10)
    scripted = ScriptedModel(context_length=512).when(QUESTION, planets).when(SHORT_QUESTION, reply(" It is."))
    return scripted.labels(SHORT_QUESTION, {"Yes": -0.2, "No": -1.9})


def collect(run: Generator[Token, None, Generation]) -> tuple[list[Token], Generation]:
    tokens: list[Token] = []
    while True:
        try:
            tokens.append(next(run))
        except StopIteration as finished:
            return tokens, finished.value


def answer(
    model: LanguageModel, question: str = QUESTION, *, max_tokens: int = 8, stop: tuple[str, ...] = ()
) -> Generation:
    tokens, generation = collect(model.generate(model.build_prompt(question), max_tokens=max_tokens, stop=stop))
    assert tuple(tokens) == generation.tokens, "what was streamed is what is returned"
    assert "".join(token.text for token in tokens) == generation.text
    return generation


def test_numbers_are_those_of_a_greedy_choice(model: LanguageModel):
    generation = answer(model)
    for token in generation.tokens:
        assert 0 <= token.entropy <= math.log(model.info.vocabulary_size)
        assert token.logprob <= 0
        assert len(token.alternatives) == 5
        logprobs = [alternative.logprob for alternative in token.alternatives]
        assert logprobs == sorted(logprobs, reverse=True)
        assert logprobs[0] == token.logprob, "the best alternative is the token itself"
        assert sum(math.exp(p) for p in logprobs) <= 1 + 1e-9


def test_the_same_prompt_gives_the_same_numbers(model: LanguageModel):
    first = answer(model)
    answer(model, SHORT_QUESTION)
    again = answer(model)
    assert again.tokens == first.tokens
    assert again.prompt_tokens == first.prompt_tokens == len(model.build_prompt(QUESTION))


def test_a_repeated_prompt_reuses_its_prefix(model: LanguageModel):
    answer(model)
    again = answer(model)
    assert 0 < again.reused_tokens <= again.prompt_tokens


def test_an_answer_ends_by_itself_or_by_its_length(model: LanguageModel):
    long = answer(model, max_tokens=3)
    assert (len(long.tokens), long.stop_reason) == (3, "length")
    assert answer(model, SHORT_QUESTION, max_tokens=100).stop_reason == "end"


def test_a_stop_string_ends_the_answer_and_is_not_shown(model: LanguageModel):
    full = answer(model, max_tokens=16).text
    stop = full[len(full) // 2 :][:5]
    cut = answer(model, max_tokens=16, stop=("never said", stop))
    assert cut.stop_reason == "stop"
    assert cut.text == full[: full.index(stop)]


def test_a_prompt_that_leaves_no_room_is_refused(model: LanguageModel):
    prompt = model.build_prompt(QUESTION)
    room = model.info.context_length - len(prompt)
    with pytest.raises(QueryTooLong):
        next(model.generate(prompt, max_tokens=room + 1))
    run = model.generate(prompt, max_tokens=room)
    assert next(run).text
    run.close()


def test_cancel_ends_the_call_and_leaves_the_model_usable(model: LanguageModel):
    expected = answer(model)
    run = model.generate(model.build_prompt(QUESTION), max_tokens=16)
    next(run)
    other = threading.Thread(target=model.cancel)
    other.start()
    other.join()
    with pytest.raises(RunCancelled):
        collect(run)
    assert answer(model).tokens == expected.tokens


def test_cancel_before_the_first_token_counts(model: LanguageModel):
    run = model.generate(model.build_prompt(QUESTION), max_tokens=16)
    model.cancel()
    with pytest.raises(RunCancelled):
        next(run)


def test_leaving_a_call_early_leaves_the_model_usable(model: LanguageModel):
    expected = answer(model)
    run = model.generate(model.build_prompt(QUESTION), max_tokens=16)
    next(run)
    run.close()
    assert answer(model).tokens == expected.tokens


def test_a_prompt_shows_the_question_and_counts_its_tokens(model: LanguageModel):
    prompt = model.build_prompt("What is a badger?")
    assert "What is a badger?" in prompt.text
    assert len(prompt) == len(prompt.token_ids) > len(model.build_prompt("")) >= 1


@pytest.mark.parametrize("written", ["", "It is a", " Größe: 日本"])
def test_the_tokens_of_a_prompt_read_as_its_text(model: LanguageModel, written: str):
    prompt = model.build_prompt(QUESTION, written=written)
    texts = model.token_texts(prompt.token_ids)
    assert len(texts) == len(prompt)
    assert "".join(texts).endswith(prompt.text)  # before it there may be a token that begins every text


@pytest.mark.parametrize("text", ["lone \ud83d surrogate", "a\x00b", "", "日本語 😀", "<|im_end|>"])
def test_any_text_can_be_asked(model: LanguageModel, text: str):
    assert len(model.build_prompt(text)) >= 1


def test_a_file_that_no_backend_loads_is_refused(tmp_path: Path):
    with pytest.raises(ModelError) as caught:
        load_lanes(tmp_path / "model.bin", lanes=1, name="model", fingerprint="", trusted=False)
    assert caught.value.message == f"no backend loads {tmp_path / 'model.bin'}"
    assert caught.value.hint == "give a file that ends in .gguf"


def test_a_script_fails_on_a_call_that_it_does_not_hold():
    model = ScriptedModel().then(reply("first"))
    assert answer(model, "anything").text == "first"
    assert model.is_exhausted
    assert [call.max_tokens for call in model.calls] == [8]
    with pytest.raises(AssertionError, match=r"the script holds no reply to: .*anything else"):
        answer(model, "anything else")


def test_a_script_can_be_stopped_by_the_person_at_any_token():
    model = ScriptedModel().then(reply("one two three", cancel_at=2), reply("one", cancel_at=0))
    run = model.generate(model.build_prompt("x"), max_tokens=8)
    assert [next(run).text, next(run).text] == ["one", " two"]
    with pytest.raises(RunCancelled):
        next(run)
    with pytest.raises(RunCancelled):
        next(model.generate(model.build_prompt("x"), max_tokens=8))
    assert [call.generation for call in model.calls] == [None, None]


def test_labels_are_compared_as_what_is_written_next(model: LanguageModel):
    prompt = model.build_prompt(SHORT_QUESTION)
    scores = model.label_logprobs(prompt, ["Yes", "No"])
    assert all(logprob < 0 for logprob in scores.logprobs)
    assert math.fsum(math.exp(logprob) for logprob in scores.logprobs) <= 1
    assert scores.prompt_tokens == len(prompt)
    assert model.label_logprobs(prompt, ["No", "Yes"]).logprobs == scores.logprobs[::-1]


@pytest.mark.small_model
def test_a_label_has_the_logprob_that_generation_gives_it(real_model: LanguageModel):
    first = answer(real_model, max_tokens=1).tokens[0]
    (logprob,) = real_model.label_logprobs(real_model.build_prompt(QUESTION), [first.text]).logprobs
    assert logprob == first.logprob


def test_labels_after_a_prompt_that_fills_the_context_are_refused(model: LanguageModel):
    with pytest.raises(QueryTooLong):
        model.label_logprobs(model.build_prompt(SHORT_QUESTION + " wet" * model.info.context_length), ["Yes"])


def test_labels_end_the_generation_in_progress_or_leave_it_right(model: LanguageModel):
    expected = answer(model)
    run = model.generate(model.build_prompt(QUESTION), max_tokens=8)
    next(run)
    model.label_logprobs(model.build_prompt(SHORT_QUESTION), ["Yes"])
    with suppress(RuntimeError):
        assert tuple(collect(run)[0]) == expected.tokens[1:]
    assert answer(model).tokens == expected.tokens


def test_a_cancellation_is_not_meant_for_the_labels_after_it(model: LanguageModel):
    model.cancel()
    assert len(model.label_logprobs(model.build_prompt(SHORT_QUESTION), ["Yes", "No"]).logprobs) == 2


def test_what_is_forgotten_is_not_reused(model: LanguageModel):
    answer(model)
    model.forget()
    assert answer(model).reused_tokens == 0
