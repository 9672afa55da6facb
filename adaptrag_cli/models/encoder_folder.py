"""What a sentence-transformers folder says about its encoder, read from its small JSON files alone."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from adaptrag_cli.errors import ModelError
from adaptrag_cli.locations import user_data_dir
from adaptrag_cli.models.stamps import FileHash, stamp_of

_EXPORTABLE = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
_LEGACY_POOLING = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_WINDOW_IF_UNSTATED = 512
_ABSURD_WINDOW = 1_000_000  # tokenizers without a limit carry a number with thirty digits


@dataclass(frozen=True, kw_only=True)
class EncoderFolder:
    """A sentence-transformers folder as its files describe it."""

    folder: Path
    tokenizer_path: Path
    modules: tuple[str, ...]
    """Class names in order, such as `Transformer`, `Pooling`, `Normalize`."""
    pooling: str
    """`mean`, `cls`, ..., several joined by `+`, or `none` where no Pooling module stands."""
    dimension: int | None
    """None when only the loaded model can tell."""
    max_length: int
    query_prompt: str
    document_prompt: str
    is_plain: bool
    """Whether it is a transformer with mean or cls pooling and nothing else: what can be exported."""


def read_encoder_folder(folder: Path) -> EncoderFolder:
    """Read the layout of an encoder.

    Raises:
        ModelError: a file is missing or is not what sentence-transformers writes.
    """
    modules = _modules(folder)
    names = [name for name, _ in modules]
    transformer = folder / modules[0][1]
    own = _read_object(transformer / "sentence_bert_config.json")
    config = _read_object(transformer / "config.json")
    pooling = next((_read_object(folder / path / "config.json") for name, path in modules if name == "Pooling"), {})
    modes = _pooling_modes(pooling) if "Pooling" in names else []
    dimension = _dimension(folder, modules, config, pooling, len(modes))
    prompts = _read_object(folder / "config_sentence_transformers.json").get("prompts") or {}
    return EncoderFolder(
        folder=folder,
        tokenizer_path=_tokenizer(folder, transformer),
        modules=tuple(names),
        pooling="+".join(modes) or "none",
        dimension=dimension,
        max_length=_window(transformer, own, config),
        query_prompt=_prompt(prompts, "query"),
        document_prompt=_prompt(prompts, "document", "passage", "corpus"),
        is_plain=names in _EXPORTABLE
        and dimension is not None
        and modes in (["mean"], ["cls"])
        and pooling.get("include_prompt", True) is True
        and not own.get("do_lower_case", False),
    )


def read_cross_encoder(folder: Path) -> int:
    """Check that a folder's model scores a pair of texts; return its window in tokens.

    Raises:
        ModelError: it is another kind of model: sentence-transformers would give it a scoring layer of random numbers.
    """
    config = _read_object(folder / "config.json")
    architecture = str(next(iter(config.get("architectures") or ()), "none"))
    if not architecture.endswith(("ForSequenceClassification", "ForCausalLM")):
        raise ModelError(f"{folder} is not a cross-encoder, its architecture is {architecture}", "give a reranker")
    return _window(folder, _read_object(folder / "sentence_bert_config.json"), config)


def weights_sha256(folder: Path) -> str:
    """SHA-256 of the weights; of all their hashes and names when they lie in several files.

    Each file is hashed once and remembered by size and time.

    Raises:
        ModelError: there are none in safetensors form.
    """
    files = sorted(p for p in folder.rglob("*.safetensors") if not {"onnx", "openvino"} & set(p.parts))
    if not files:
        raise ModelError(
            f"{folder} has no model.safetensors", "weights in pickle form are not loaded: save them as safetensors"
        )
    if len(files) == 1:
        return remembered_sha256(files[0])
    lines = [f"{remembered_sha256(file)}  {file.relative_to(folder).as_posix()}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def remembered_sha256(path: Path) -> str:
    """SHA-256 of a file, read again only when its size or time changed."""
    real = path.resolve()
    note = user_data_dir() / "hashes" / f"{hashlib.sha256(os.fsencode(real)).hexdigest()[:24]}.json"
    now = real.stat()
    try:
        known = msgspec.json.decode(note.read_bytes(), type=FileHash)
        if (known.size, known.mtime_ns) == (now.st_size, now.st_mtime_ns):
            return known.sha256
    except (OSError, msgspec.DecodeError):  # no note, or a broken one, only costs hashing once more
        pass
    stamp = stamp_of(real)
    write_quietly(note, msgspec.json.encode(stamp))
    return stamp.sha256


def write_quietly(path: Path, content: bytes) -> None:
    """Write a note that is only there to save time, atomically; a read-only place goes without."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(content)
        beside.replace(path)
    except OSError:
        return


def _modules(folder: Path) -> list[tuple[str, str]]:
    path = folder / "modules.json"
    if not path.is_file():
        if not (folder / "config.json").is_file():
            raise ModelError(
                f"{folder} has neither modules.json nor config.json", "give a sentence-transformers folder"
            )
        return [("Transformer", ""), ("Pooling", "1_Pooling")]  # what sentence-transformers makes of a plain model
    listed = _read_json(path)
    try:
        modules = [(str(module["type"]).rpartition(".")[2], str(module["path"])) for module in listed]
    except (TypeError, KeyError) as error:
        raise ModelError(f"{path} is not a list of modules", "give a sentence-transformers folder") from error
    if not modules:
        raise ModelError(f"{path} names no modules", "give a sentence-transformers folder")
    return modules


def _pooling_modes(config: Mapping[str, Any]) -> list[str]:
    stated = config.get("pooling_mode")
    if stated is not None:
        return [stated] if isinstance(stated, str) else [str(mode) for mode in stated]
    return [mode for key, mode in _LEGACY_POOLING.items() if config.get(key)] or ["mean"]


def _dimension(
    folder: Path, modules: list[tuple[str, str]], config: Mapping[str, Any], pooling: Mapping[str, Any], modes: int
) -> int | None:
    size = pooling.get("embedding_dimension") or pooling.get("word_embedding_dimension") or config.get("hidden_size")
    dimension = size * modes if isinstance(size, int) and modes else None
    for name, path in modules:
        if name == "Dense":
            dimension = _read_object(folder / path / "config.json").get("out_features")
        elif name not in {"Transformer", "Pooling", "Normalize", "Dropout", "LayerNorm"}:
            return None
    return dimension


def _window(transformer: Path, own: Mapping[str, Any], config: Mapping[str, Any]) -> int:
    stated = own.get("max_seq_length")
    if isinstance(stated, int):
        return stated
    limits = (
        _read_object(transformer / "tokenizer_config.json").get("model_max_length"),
        config.get("max_position_embeddings"),
    )
    return min((n for n in limits if isinstance(n, int) and n < _ABSURD_WINDOW), default=_WINDOW_IF_UNSTATED)


def _tokenizer(folder: Path, transformer: Path) -> Path:
    for place in (transformer, folder):
        if (place / "tokenizer.json").is_file():
            return place / "tokenizer.json"
    raise ModelError(
        f"{folder} has no tokenizer.json, so its tokens cannot be counted",
        "save the tokenizer once with AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
    )


def _prompt(prompts: Mapping[str, Any], *names: str) -> str:
    return next((prompts[name] for name in names if isinstance(prompts.get(name), str)), "")


def _read_object(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    content = _read_json(path)
    if not isinstance(content, dict):
        raise ModelError(f"{path} is not a JSON object", "fetch or save the encoder again")
    return content


def _read_json(path: Path) -> Any:
    try:
        return msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise ModelError(f"{path} cannot be read: {error}", "fetch or save the encoder again") from error
