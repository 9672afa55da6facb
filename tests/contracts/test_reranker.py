"""What every reranker promises: a random cross-encoder of one layer that is made here, and the answer model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from adaptrag_cli.errors import ModelError, ModelNotFound, QueryTooLong
from adaptrag_cli.models.answer_reranker import AnswerModelReranker
from adaptrag_cli.models.base import Reranker, RerankScores
from adaptrag_cli.models.reranker import load_reranker
from adaptrag_cli.models.torch_encoder import quiet_libraries
from fakes import ScriptedModel

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = ["river", "bridge", "old", "stone", "sep", "[", "]", "a", "b", "\ufffd"]
WINDOW = 24
QUERY = "old bridge"
TEXTS = ["river", "stone bridge", "", "a b " * 4, "old river"]


def make_cross_encoder(folder: Path, *, labels: int = 1, architecture: str = "BertForSequenceClassification") -> Path:
    """Write a cross-encoder with random weights."""
    folder.mkdir(parents=True)
    tokenizer = Tokenizer(models.WordPiece({w: i for i, w in enumerate([*SPECIAL, *WORDS])}, unk_token="[UNK]"))
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    named = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    (folder / "tokenizer_config.json").write_text(
        json.dumps(named | {"tokenizer_class": "BertTokenizer", "do_lower_case": True})
    )
    with quiet_libraries():
        import torch
        import transformers

        config = transformers.BertConfig(
            vocab_size=len(SPECIAL + WORDS),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=WINDOW,
            initializer_range=0.5,
            num_labels=labels,
        )
        torch.manual_seed(0)
        getattr(transformers, architecture)(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_cross_encoder(tmp_path_factory.mktemp("reranker") / "tiny")


@pytest.fixture(scope="module")
def reranker(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Reranker:
    return load_reranker(str(folder), tmp_path_factory.mktemp("models"))


def pairs_with(query: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    return [(query, text) for text in texts]


def test_scores_are_the_raw_logits_in_the_order_given(reranker: Reranker, folder: Path) -> None:
    assert isinstance(reranker, Reranker)
    assert reranker.name == "tiny"
    pairs = [*pairs_with(QUERY, TEXTS), ("river", "old river")]
    read = reranker.score(pairs)
    assert (read.prompt_tokens, read.reused_tokens) == ((), ())
    with quiet_libraries():
        import torch
        import transformers

        model = transformers.BertForSequenceClassification.from_pretrained(folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        with torch.no_grad():
            logits = [float(model(**tokenizer([pair], return_tensors="pt")).logits) for pair in pairs]
    assert read.scores == pytest.approx(logits, abs=1e-5)
    assert reranker.score(pairs[::-1]).scores == pytest.approx(logits[::-1], abs=1e-5)
    assert min(logits) < 0 or max(logits) > 1, "else they could be probabilities"
    assert len({round(logit, 3) for logit in logits}) == len(pairs), "else their order could not be seen"


def test_no_pair_has_no_score(reranker: Reranker) -> None:
    assert reranker.score([]) == RerankScores(scores=())


def test_what_lies_beyond_the_window_is_cut_off(reranker: Reranker) -> None:
    inside = "old " * (WINDOW - 5)  # [CLS], two words of the query, two [SEP]
    shorter, exact, longer = reranker.score(pairs_with(QUERY, [inside[4:], inside, inside + "river"])).scores
    assert exact == pytest.approx(longer, abs=1e-6)
    assert shorter != pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize(("text", "plain"), [("a [SEP] b", "a [ sep ] b"), ("a \ud800 b", "a \ufffd b")])
def test_control_tokens_and_broken_characters_are_text(reranker: Reranker, text: str, plain: str) -> None:
    first, second = reranker.score(pairs_with(QUERY, [text, plain])).scores
    assert first == pytest.approx(second, abs=1e-6)


def test_nothing_is_printed(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    load_reranker(str(folder), tmp_path).score(pairs_with(QUERY, TEXTS))
    assert capfd.readouterr() == ("", "")


def test_weights_that_give_no_number_are_told(folder: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(folder, tmp_path / "broken")
    with quiet_libraries():
        import torch
        from safetensors.torch import load_file, save_file

        weights = load_file(broken / "model.safetensors")
        weights["classifier.bias"] = torch.full_like(weights["classifier.bias"], float("nan"))
        save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="reranker 'broken' gives no finite score"):
        load_reranker(str(broken), tmp_path).score(pairs_with(QUERY, TEXTS))


def test_another_kind_of_model_is_refused(tmp_path: Path) -> None:
    encoder = make_cross_encoder(tmp_path / "encoder", architecture="BertModel")
    with pytest.raises(ModelError, match="encoder is not a cross-encoder, its architecture is BertModel"):
        load_reranker(str(encoder), tmp_path)
    classifier = make_cross_encoder(tmp_path / "classifier", labels=3)
    with pytest.raises(ModelError, match="classifier gives 3 numbers for a pair"):
        load_reranker(str(classifier), tmp_path)


def test_pickled_weights_are_not_loaded(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    with pytest.raises(ModelNotFound, match=r"has no model\.safetensors"):
        load_reranker(str(tmp_path), tmp_path)


def test_damaged_weights_are_told_in_one_line(tmp_path: Path) -> None:
    damaged = make_cross_encoder(tmp_path / "damaged")
    (damaged / "model.safetensors").write_bytes(b"weights")
    with pytest.raises(ModelError, match="sentence-transformers cannot load .*damaged: ") as caught:
        load_reranker(str(damaged), tmp_path)
    assert "\n" not in caught.value.message


def test_a_missing_reranker_is_told_how_to_pull(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound) as caught:
        load_reranker("bge-reranker-base", tmp_path)
    assert "adaptrag models pull bge-reranker-base;" in caught.value.hint


def reading_model(**words: tuple[float, float]) -> ScriptedModel:
    """A model that says Yes and No with these log-probabilities after a prompt with the word."""
    model = ScriptedModel()
    for word, (yes, no) in words.items():
        model.labels(word, {"Yes": yes, "No": no})
    return model


def test_the_answer_model_scores_by_the_log_odds_of_yes() -> None:
    model = reading_model(river=(-0.25, -2.0), stone=(-3.0, -0.125))
    reranker = AnswerModelReranker(model)
    assert isinstance(reranker, Reranker)
    assert reranker.name == "scripted"
    read = reranker.score([(QUERY, "stone bridge"), (QUERY, "river"), ("old river", "a b")])
    assert read.scores == (-2.875, 1.75, 1.75)
    # Words of chunk, question after it (9), query and instruction (9 with both ends of the turn).
    assert read.prompt_tokens == (2 + 9 + 2 + 9, 1 + 9 + 2 + 9, 2 + 9 + 2 + 9)
    assert read.reused_tokens == (0, 1, 1)  # the turn begins alike
    assert reranker.score([]) == RerankScores(scores=())


def test_the_answer_model_reads_a_chunk_once_for_texts_in_a_row() -> None:
    reranker = AnswerModelReranker(reading_model(river=(-1.0, -1.0)))
    pairs = [("old", "river a"), ("stone", "river a"), ("old", "river b")]
    assert reranker.score(pairs).reused_tokens == (0, 1 + 2 + 9, 1 + 1)


def test_the_answer_model_is_asked_about_the_head_of_a_chunk_that_does_not_fit() -> None:
    model = reading_model(old=(-1.0, -1.5))
    model.context_length = 40
    (length,) = AnswerModelReranker(model).score([(QUERY, "river " * 400)]).prompt_tokens
    assert 35 <= length < 40  # one token of room for the label
    (fits,) = AnswerModelReranker(model).score([(QUERY, "river " * 18)]).prompt_tokens
    assert fits == 18 + 9 + 2 + 9


def test_a_query_that_does_not_fit_alone_is_refused() -> None:
    model = reading_model(old=(-1.0, -1.5))
    model.context_length = 40
    with pytest.raises(QueryTooLong):
        AnswerModelReranker(model).score([("old " * 40, "river")])
