"""What every reranker promises, on a random cross-encoder of one layer that is made here."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from adaptrag_cli.errors import ModelError, ModelNotFound
from adaptrag_cli.models.base import Reranker
from adaptrag_cli.models.reranker import load_reranker
from adaptrag_cli.models.torch_encoder import quiet_libraries

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


def test_scores_are_the_raw_logits_in_the_order_given(reranker: Reranker, folder: Path) -> None:
    assert isinstance(reranker, Reranker)
    scores = reranker.score(QUERY, TEXTS)
    assert (scores.shape, scores.dtype) == ((len(TEXTS),), np.float64)
    with quiet_libraries():
        import torch
        import transformers

        model = transformers.BertForSequenceClassification.from_pretrained(folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        with torch.no_grad():
            logits = [float(model(**tokenizer([(QUERY, text)], return_tensors="pt")).logits) for text in TEXTS]
    assert scores == pytest.approx(logits, abs=1e-5)
    assert reranker.score(QUERY, TEXTS[::-1]) == pytest.approx(logits[::-1], abs=1e-5)
    assert min(logits) < 0 or max(logits) > 1, "else they could be probabilities"
    assert len({round(logit, 3) for logit in logits}) == len(TEXTS), "else their order could not be seen"


def test_no_text_has_no_score(reranker: Reranker) -> None:
    assert reranker.score(QUERY, []).shape == (0,)


def test_what_lies_beyond_the_window_is_cut_off(reranker: Reranker) -> None:
    inside = "old " * (WINDOW - 5)  # [CLS], two words of the query, two [SEP]
    shorter, exact, longer = reranker.score(QUERY, [inside[4:], inside, inside + "river"])
    assert exact == pytest.approx(longer, abs=1e-6)
    assert shorter != pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize(("text", "plain"), [("a [SEP] b", "a [ sep ] b"), ("a \ud800 b", "a \ufffd b")])
def test_control_tokens_and_broken_characters_are_text(reranker: Reranker, text: str, plain: str) -> None:
    first, second = reranker.score(QUERY, [text, plain])
    assert first == pytest.approx(second, abs=1e-6)


def test_nothing_is_printed(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    load_reranker(str(folder), tmp_path).score(QUERY, TEXTS)
    assert capfd.readouterr() == ("", "")


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
