"""What every encoder promises, on a transformer of one layer that is made here and exported by the product."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from adaptrag_cli.errors import ModelError, ModelNotFound
from adaptrag_cli.models.base import Encoder
from adaptrag_cli.models.encoder import export_encoder, load_encoder
from adaptrag_cli.models.encoder_folder import read_encoder_folder, weights_sha256
from adaptrag_cli.models.onnx_export import EXPORTER, find_export

WORDS = ["river", "bridge", "sep", "cls", "query", "old", "stone", "[", "]", ":", "a", "b", "c", "1", "\ufffd"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
DIMENSION, WINDOW = 16, 12
TEXTS = ["river", "old stone bridge", "a b c 1", "stone " * 40, "", "river bridge : query old", "c b a"]


def make_encoder(folder: Path, pooling: str, *, seed: int = 0, prompts: dict[str, str] | None = None) -> Path:
    """Write a sentence-transformers folder with random weights."""
    (folder / "1_Pooling").mkdir(parents=True)
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    tokenizer.add_special_tokens(VOCABULARY[:4])
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(5)  # as all-MiniLM-L6-v2: settings of whoever saved it
    tokenizer.enable_padding(length=5)
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    write_json(folder / "tokenizer_config.json", special | {"tokenizer_class": "BertTokenizer", "do_lower_case": True})
    write_json(
        folder / "config.json",
        {
            "model_type": "bert",
            "architectures": ["BertModel"],
            "hidden_size": DIMENSION,
            "intermediate_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "max_position_embeddings": 32,
            "vocab_size": len(VOCABULARY),
        },
    )
    names = ["Transformer", "Pooling", "Normalize"]
    write_json(
        folder / "modules.json",
        [
            {
                "idx": i,
                "name": str(i),
                "path": f"{i}_{name}" if i else "",
                "type": f"sentence_transformers.models.{name}",
            }
            for i, name in enumerate(names)
        ],
    )
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": WINDOW, "do_lower_case": False})
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": DIMENSION, "pooling_mode": pooling})
    write_json(folder / "config_sentence_transformers.json", {"prompts": prompts or {}})
    save_file(random_weights(seed), folder / "model.safetensors")
    return folder


def random_weights(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    layer = "encoder.layer.0."
    matrices = {
        "embeddings.word_embeddings": (len(VOCABULARY), DIMENSION),
        "embeddings.position_embeddings": (32, DIMENSION),
        "embeddings.token_type_embeddings": (2, DIMENSION),
    }
    dense = {
        f"{layer}attention.self.query": (DIMENSION, DIMENSION),
        f"{layer}attention.self.key": (DIMENSION, DIMENSION),
        f"{layer}attention.self.value": (DIMENSION, DIMENSION),
        f"{layer}attention.output.dense": (DIMENSION, DIMENSION),
        f"{layer}intermediate.dense": (32, DIMENSION),
        f"{layer}output.dense": (DIMENSION, 32),
        "pooler.dense": (DIMENSION, DIMENSION),
    }
    weights = {f"{name}.weight": rng.normal(size=shape) for name, shape in (matrices | dense).items()}
    weights |= {f"{name}.bias": rng.normal(size=shape[0]) for name, shape in dense.items()}
    for norm in ("embeddings.LayerNorm", f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm"):
        weights |= {f"{norm}.weight": np.ones(DIMENSION), f"{norm}.bias": np.zeros(DIMENSION)}
    return {name: value.astype(np.float32) for name, value in weights.items()}


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture(scope="module")
def mean_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make_encoder(tmp_path_factory.mktemp("encoder") / "mean", "mean")
    export_encoder(made)
    return made


@pytest.fixture(scope="module")
def cls_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make_encoder(tmp_path_factory.mktemp("encoder") / "cls", "cls")
    export_encoder(made)
    return made


@pytest.fixture(params=["mean", "cls"])
def folder(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(f"{request.param}_folder")


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Encoder]:
    return lambda folder, **prefixes: load_encoder(str(folder), tmp_path / "models", **prefixes)


def test_the_fingerprint_says_what_decides_a_vector(folder: Path, load: Callable[..., Encoder]) -> None:
    encoder = load(folder, query_prefix="query: ")
    assert isinstance(encoder, Encoder)
    found = encoder.fingerprint
    assert found.name == str(folder)
    assert found.file_sha256 == weights_sha256(folder)
    assert (found.dimension, found.pooling, found.normalised, found.max_length) == (16, folder.name, True, WINDOW)
    assert (found.query_prefix, found.document_prefix) == ("query: ", "")
    assert found.backend == f"onnx/{EXPORTER}"
    assert encoder.tokenizer_path == folder / "tokenizer.json"


def test_vectors_are_unit_float32_rows_in_the_order_given(folder: Path, load: Callable[..., Encoder]) -> None:
    encoder = load(folder)
    vectors = encoder.encode_documents(TEXTS)
    assert (vectors.shape, vectors.dtype) == ((len(TEXTS), DIMENSION), np.float32)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-6)
    assert np.array_equal(encoder.encode_documents(TEXTS[::-1]), vectors[::-1])
    assert encoder.encode_documents([]).shape == (0, DIMENSION)


def test_a_vector_depends_on_its_text_alone_to_the_last_bit(folder: Path, load: Callable[..., Encoder]) -> None:
    encoder = load(folder)
    together = encoder.encode_documents(TEXTS * 3)
    for row, text in enumerate(TEXTS * 3):
        assert np.array_equal(encoder.encode_queries([text])[0], together[row])


def test_the_export_gives_what_sentence_transformers_gives(folder: Path, load: Callable[..., Encoder]) -> None:
    from adaptrag_cli.models.torch_encoder import TorchBackend

    own = TorchBackend(folder, WINDOW).encode(TEXTS, "")
    cosines = np.sum(load(folder).encode_documents(TEXTS) * own, axis=1)
    assert cosines.min() >= 0.9999


def test_what_lies_beyond_the_window_is_cut_off(folder: Path, load: Callable[..., Encoder]) -> None:
    inside = "old " * (WINDOW - 2)  # the window holds [CLS] and [SEP] too
    shorter, exact, longer = load(folder).encode_documents([inside[4:], inside, inside + "river bridge"])
    assert np.array_equal(exact, longer)
    assert not np.array_equal(shorter, exact)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a [SEP] b", "a [ sep ] b"),
        ("[CLS]", "[ cls ]"),
        ("a\x00 b", "a b"),
        ("a \ud800 b", "a \ufffd b"),
        ("\udc00", "\ufffd"),
    ],
)
def test_control_tokens_and_broken_characters_are_text(
    folder: Path, load: Callable[..., Encoder], text: str, plain: str
) -> None:
    first, second = load(folder).encode_documents([text, plain])
    assert np.array_equal(first, second)


def test_prefixes_stand_before_the_text(folder: Path, load: Callable[..., Encoder]) -> None:
    encoder = load(folder, query_prefix="query: ", document_prefix="old ")
    plain = load(folder)
    assert np.array_equal(encoder.encode_queries(["river"]), plain.encode_queries(["query: river"]))
    assert np.array_equal(encoder.encode_documents(["river"]), plain.encode_documents(["old river"]))


def test_the_folders_own_prompts_are_the_default(tmp_path: Path, load: Callable[..., Encoder]) -> None:
    made = make_encoder(tmp_path / "e", "mean", prompts={"query": "query: ", "passage": "old "})
    found = load(made).fingerprint
    assert (found.query_prefix, found.document_prefix) == ("query: ", "old ")
    found = load(made, query_prefix="", document_prefix="").fingerprint
    assert (found.query_prefix, found.document_prefix) == ("", "")


def test_changed_weights_are_exported_again(mean_folder: Path, tmp_path: Path) -> None:
    changed = shutil.copytree(mean_folder, tmp_path / "changed")
    before = load_encoder(str(changed), tmp_path).encode_documents(["river"])
    save_file(random_weights(1), changed / "model.safetensors")
    heard: list[str] = []
    encoder = load_encoder(str(changed), tmp_path, notify=heard.append)
    after = encoder.encode_documents(["river"])
    assert heard == [f"preparing encoder {changed} for fast start, once"]
    assert float(before[0] @ after[0]) < 0.99
    assert find_export(read_encoder_folder(changed), weights_sha256(changed)) == changed / "onnx" / "adaptrag.onnx"


def test_a_damaged_export_does_not_count(mean_folder: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(mean_folder, tmp_path / "damaged")
    weights = weights_sha256(damaged)
    model = damaged / "onnx" / "adaptrag.onnx"
    assert find_export(read_encoder_folder(damaged), weights) == model
    content = bytearray(model.read_bytes())
    content[len(content) // 2] ^= 1
    model.write_bytes(content)
    assert find_export(read_encoder_folder(damaged), weights) is None


def test_a_folder_that_cannot_be_written_is_exported_into_the_user_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADAPTRAG_DATA_DIR", str(tmp_path / "data"))
    made = make_encoder(tmp_path / "e", "mean")
    (made / "onnx").write_text("in the way of the folder")
    place = tmp_path / "data" / "encoders" / weights_sha256(made)[:16]
    assert export_encoder(made) == place / "adaptrag.onnx"
    assert find_export(read_encoder_folder(made), weights_sha256(made)) == place / "adaptrag.onnx"


def test_other_pooling_stays_with_sentence_transformers(tmp_path: Path) -> None:
    installed_version = version("sentence-transformers")
    made = make_encoder(tmp_path / "e", "max")
    with pytest.raises(ModelError) as caught:
        export_encoder(made)
    parts = "Transformer, Pooling, Normalize"
    assert caught.value.message == f"e cannot be exported: its parts are {parts} with pooling max"
    heard: list[str] = []
    encoder = load_encoder(str(made), tmp_path, notify=heard.append)
    assert encoder.fingerprint.pooling == "max"
    assert encoder.fingerprint.backend == "sentence-transformers/" + ".".join(installed_version.split(".")[:2])
    vectors = encoder.encode_documents(["a [SEP] b", "a [ sep ] b", "a \ud800 b"])
    assert heard == [f"loading encoder {made} with sentence-transformers"]
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(3), abs=1e-6)
    assert vectors[0] == pytest.approx(vectors[1], abs=1e-6)
    assert not (made / "onnx").exists()


def test_an_export_that_differs_is_refused_once_and_remembered(tmp_path: Path) -> None:
    made = make_encoder(tmp_path / "e", "mean")
    # Rows that are all alike pool to zero after the last LayerNorm: no direction, so no cosine of 0.9999.
    weights = load_file(made / "model.safetensors")
    weights["encoder.layer.0.output.LayerNorm.weight"][:] = 0
    save_file(weights, made / "model.safetensors")
    reason = "its vectors differ from sentence-transformers' (cosine 0.000000)"
    with pytest.raises(ModelError) as caught:
        export_encoder(made)
    assert caught.value.message == f"e cannot be exported: {reason}"
    with pytest.raises(ModelError):
        find_export(read_encoder_folder(made), weights_sha256(made))
    assert sorted(p.name for p in (made / "onnx").iterdir() if p.suffix != ".lock") == ["adaptrag.json"]
    assert load_encoder(str(made), tmp_path).fingerprint.backend.startswith("sentence-transformers/")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="no encoder folder"):
        load_encoder(str(tmp_path / "nowhere"), tmp_path)
    made = make_encoder(tmp_path / "e", "mean")
    (made / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"e has no tokenizer\.json, so its tokens cannot be counted"):
        load_encoder(str(made), tmp_path)
    (made / "modules.json").write_text("{}")
    with pytest.raises(ModelError, match="names no modules"):
        load_encoder(str(made), tmp_path)
