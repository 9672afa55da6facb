"""Write an encoder's exported form, once, in a child process, so that no question ever has to import torch.

The graph takes the token ids of one text, shape (1, tokens), and gives its unit vector, shape (1, dimension). torch's
TorchScript exporter writes it: its graph is a sixth faster than the newer exporter's, made in a quarter of the time.
Tracing can go wrong without an error, so the child compares the result with sentence-transformers before it counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import adaptrag_cli
from adaptrag_cli.errors import ModelError
from adaptrag_cli.locations import user_data_dir
from adaptrag_cli.models.encoder_folder import (
    EncoderFolder,
    read_encoder_folder,
    remembered_sha256,
    weights_sha256,
    write_quietly,
)

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

EXPORTER = 1
"""Raised when exports of an earlier version must be made again."""
MIN_COSINE = 0.9999

_MODEL = "adaptrag.onnx"
_STAMP = "adaptrag.json"
_TIMEOUT_SECONDS = 900
_WORDS = (
    "The harbour office of Ostrava opened on 3 May 1998; its second café (número 7) sells tea, maps and 漢字 books. "
)
_PARITY_TEXTS = ("", "a", "Who wrote it?", _WORDS, _WORDS.upper() * 3, "x" * 300, _WORDS * 9, _WORDS * 60)


class ExportStamp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an export was made from."""

    exporter: int
    weights_sha256: str
    pooling: str
    model_sha256: str = ""
    refused: str = ""
    """Why there is no export; empty when there is one."""


class _Report(msgspec.Struct, frozen=True, kw_only=True):
    """The child's last line."""

    refused: str = ""


def find_export(folder: EncoderFolder, weights: str) -> Path | None:
    """The exported form made from these weights, whole and unchanged; None when there is none.

    Raises:
        ModelError: it was tried with these weights, and refused.
    """
    for place in _places(folder.folder, weights):
        stamp = _read_stamp(place)
        if stamp is None or not _made_from(stamp, folder, weights):
            continue
        if stamp.refused:
            raise _refusal(folder.folder, stamp.refused)
        model = place / _MODEL
        if model.is_file() and remembered_sha256(model) == stamp.model_sha256:
            return model
    return None


def export_encoder(folder: Path) -> Path:
    """Make the exported form of a sentence-transformers folder, or find the one that is there.

    It lies in the folder's `onnx/`, or in the user data folder when that cannot be written.

    Raises:
        ModelError: the encoder is more than a transformer with mean or cls pooling, or its export failed.
    """
    import filelock

    layout = read_encoder_folder(folder)
    if not layout.is_plain:
        raise _refusal(folder, f"its parts are {', '.join(layout.modules)} with pooling {layout.pooling}")
    weights = weights_sha256(folder)
    found = find_export(layout, weights)
    if found is not None:
        return found
    place = _writable_place(folder, weights)
    try:
        with filelock.FileLock(place / ".adaptrag.lock", timeout=_TIMEOUT_SECONDS):
            return find_export(layout, weights) or _export_into(place, layout, weights)
    except filelock.Timeout as error:
        raise ModelError(
            f"another process has been exporting {folder} for too long", "stop it, then ask again"
        ) from error
    except OSError as error:
        raise ModelError(f"cannot write the exported form to {place}: {error.strerror}", "free some space") from error


def _export_into(place: Path, layout: EncoderFolder, weights: str) -> Path:
    with tempfile.TemporaryDirectory(prefix=".adaptrag-", dir=place) as scratch:
        fresh = Path(scratch) / _MODEL
        refused = _run_child(layout.folder, fresh)
        stamp = ExportStamp(exporter=EXPORTER, weights_sha256=weights, pooling=layout.pooling, refused=refused)
        if refused:
            write_quietly(place / _STAMP, msgspec.json.encode(stamp))
            raise _refusal(layout.folder, refused)
        with fresh.open("rb+") as stream:
            os.fsync(stream.fileno())
        fresh.replace(place / _MODEL)
    stamp = msgspec.structs.replace(stamp, model_sha256=remembered_sha256(place / _MODEL))
    write_quietly(place / _STAMP, msgspec.json.encode(stamp))
    return place / _MODEL


def _run_child(folder: Path, target: Path) -> str:
    """Export in a process of its own, which gives torch's half gigabyte back; return why it was refused, if it was."""
    package_root = Path(adaptrag_cli.__file__).parent.parent
    search_path = os.pathsep.join(filter(None, (str(package_root), os.environ.get("PYTHONPATH", ""))))
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    # -P: a torch.py in the user's working folder is not ours to run.
    command = [sys.executable, "-P", "-W", "ignore", "-m", __name__, str(folder), str(target)]
    try:
        done = subprocess.run(
            command,
            env=os.environ | offline | {"PYTHONPATH": search_path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ModelError(f"exporting {folder} took more than {_TIMEOUT_SECONDS} s", "adaptrag doctor") from error
    try:
        return msgspec.json.decode(done.stdout.splitlines()[-1], type=_Report).refused
    except (IndexError, msgspec.DecodeError) as error:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        reason = lines[-1] if lines else f"exit status {done.returncode}"
        raise ModelError(f"exporting {folder} failed: {reason}", "adaptrag doctor") from error


def _places(folder: Path, weights: str) -> tuple[Path, Path]:
    return folder / "onnx", user_data_dir() / "encoders" / weights[:16]


def _writable_place(folder: Path, weights: str) -> Path:
    for place in _places(folder, weights):
        try:
            place.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=place):
                return place
        except OSError:
            continue
    raise ModelError(f"cannot write to {folder} nor to {user_data_dir()}", "make one of them writable")


def _read_stamp(place: Path) -> ExportStamp | None:
    try:
        return msgspec.json.decode((place / _STAMP).read_bytes(), type=ExportStamp)
    except (OSError, msgspec.DecodeError):  # none, or one of another version: the export is made again
        return None


def _made_from(stamp: ExportStamp, folder: EncoderFolder, weights: str) -> bool:
    return (stamp.exporter, stamp.weights_sha256, stamp.pooling) == (EXPORTER, weights, folder.pooling)


def _refusal(folder: Path, reason: str) -> ModelError:
    return ModelError(f"{folder.name} cannot be exported: {reason}", "sentence-transformers encodes with it instead")


def _trace(model: SentenceTransformer, pooling: str, target: Path) -> None:
    """Write the graph of transformer, pooling and normalisation."""
    import torch

    class OneText(torch.nn.Module):
        def __init__(self, transformer: Any) -> None:
            super().__init__()
            self.transformer = transformer

        def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
            tokens = self.transformer(input_ids=input_ids).last_hidden_state
            pooled = tokens[:, 0] if pooling == "cls" else tokens.mean(dim=1)
            return torch.nn.functional.normalize(pooled, p=2, dim=1)

    example = model.tokenizer(_WORDS, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        torch.onnx.export(
            OneText(model[0].model.float()).eval(),
            (example,),
            str(target),
            input_names=["input_ids"],
            output_names=["vector"],
            dynamic_axes={"input_ids": {1: "tokens"}},
            opset_version=17,
            dynamo=False,
        )


def _compare(model: SentenceTransformer, target: Path, layout: EncoderFolder) -> float:
    """Smallest cosine between the export's vectors and sentence-transformers' own."""
    import numpy as np

    from adaptrag_cli.models.onnx_encoder import OnnxBackend

    exported = OnnxBackend(target, layout.tokenizer_path, layout.max_length).encode(_PARITY_TEXTS, "")
    model.max_seq_length = layout.max_length
    own = model.encode(list(_PARITY_TEXTS), prompt="", normalize_embeddings=True, show_progress_bar=False)
    return float(np.sum(exported * own, axis=1, dtype=np.float64).min())


def _child(folder: Path, target: Path) -> _Report:
    from adaptrag_cli.models.torch_encoder import load_sentence_transformer

    layout = read_encoder_folder(folder)
    model = load_sentence_transformer(folder, device="cpu")
    try:
        _trace(model, layout.pooling, target)
        cosine = _compare(model, target, layout)
    except Exception as error:  # foreign code of any architecture: whatever it raises, it cannot be exported
        return _Report(refused=f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}")
    if not cosine >= MIN_COSINE:
        return _Report(refused=f"its vectors differ from sentence-transformers' (cosine {cosine:.6f})")
    return _Report()


if __name__ == "__main__":
    report = _child(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.write(f"\n{msgspec.json.encode(report).decode()}\n")
