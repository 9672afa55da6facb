"""Probers on disk: one safetensors file each, which holds numbers and text and nothing that could be run.

Everything but the weights stands in its header as one JSON value, so a list of probers reads no weights, and the same
prober always gives the same bytes. Files come from anywhere: names, shapes and numbers are checked when one is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec
import numpy as np

from adaptrag_cli.disk import replace_durably
from adaptrag_cli.errors import ConfigError, ModelError, UnknownName
from adaptrag_cli.identity import flags_of, shortened
from adaptrag_cli.probing.prober import Prober, ProberInfo, ProberKind, tensor_shapes

FORMAT = 1
_KEY = "adaptrag"
_SUFFIX = ".safetensors"
_TRAIN = "adaptrag probe train"


class AnswerModel(Protocol):
    """The model whose states are to be read."""

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    def matches(self, fingerprint: str) -> bool:
        """Whether a fingerprint that was noted earlier is its own."""
        ...


class _Header(msgspec.Struct, kw_only=True, frozen=True):
    format: int
    kind: ProberKind
    model: str
    model_fingerprint: str
    width: Annotated[int, msgspec.Meta(ge=1)]
    layer_count: Annotated[int, msgspec.Meta(ge=1)]
    layers: Annotated[tuple[int, ...], msgspec.Meta(min_length=1)]
    seed: int
    report: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ProberFile:
    """A prober's file, its weights not read."""

    name: str
    path: Path
    info: ProberInfo
    layers: tuple[int, ...]
    """Those that are probed, ascending."""
    size: int
    """Bytes."""


@dataclass(frozen=True, kw_only=True)
class ProberFolder:
    """What lies in a folder of probers."""

    files: tuple[ProberFile, ...]
    """The newest first; of the same age, by name."""
    problems: tuple[str, ...]
    """A line for each file that cannot be used."""


def probers_dir(models_dir: Path) -> Path:
    """The folder of all probers."""
    return models_dir / "probers"


def prober_path(models_dir: Path, name: str) -> Path:
    """The file of a prober.

    Raises:
        ConfigError: the name is no file name.
    """
    if not name or Path(name).name != name or name.startswith(".") or "\\" in name:
        raise ConfigError(f"{name!r} cannot be the name of a prober", "a name like a file's, without folders")
    return probers_dir(models_dir) / f"{name}{_SUFFIX}"


def write_prober(path: Path, prober: Prober) -> None:
    """Write it whole or not at all.

    Raises:
        ValueError: its tensors are not those of its width.
    """
    from safetensors.numpy import save

    shapes = tensor_shapes(prober.width)
    tensors = {
        f"layers.{layer}.{name}": np.ascontiguousarray(array, dtype=np.float32)
        for layer, weights in sorted(prober.layers.items())
        for name, array in weights.items()
    }
    expected = {f"layers.{layer}.{name}": shape for layer in prober.layers for name, shape in shapes.items()}
    if {name: array.shape for name, array in tensors.items()} != expected:
        raise ValueError(f"no prober for states of {prober.width} numbers")
    header = _Header(
        format=FORMAT,
        kind=prober.kind,
        model=prober.model,
        model_fingerprint=prober.model_fingerprint,
        width=prober.width,
        layer_count=prober.layer_count,
        layers=tuple(sorted(prober.layers)),
        seed=prober.seed,
        report=dict(prober.report),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    # One key: the library writes several in no fixed order.
    replace_durably(path, save(tensors, metadata={_KEY: msgspec.json.encode(header).decode()}))


def read_prober(path: Path) -> Prober:
    """Read and check a file, weights and all.

    Raises:
        ModelError: it is no prober of this version.
    """
    with _opened(path) as file:
        header = _header(file)
        shapes = tensor_shapes(header.width)
        _check_tensors(file, header)
        layers = {
            layer: {name: file.get_tensor(f"layers.{layer}.{name}") for name in shapes} for layer in header.layers
        }
        if not all(np.isfinite(array).all() for weights in layers.values() for array in weights.values()):
            raise ValueError("some of its weights are no numbers")
    return Prober(layers=layers, **_facts(header))


def read_prober_file(path: Path) -> ProberFile:
    """Read what a file says of its prober.

    Raises:
        ModelError: it is no prober of this version.
    """
    with _opened(path) as file:
        header = _header(file)
        _check_tensors(file, header)
    return ProberFile(
        name=path.stem,
        path=path,
        info=ProberInfo(**_facts(header)),
        layers=header.layers,
        size=path.stat().st_size,
    )


def list_probers(models_dir: Path) -> ProberFolder:
    """Read the headers of all probers."""
    aged: list[tuple[int, ProberFile]] = []
    problems: list[str] = []
    for path in sorted(probers_dir(models_dir).glob(f"[!.]*{_SUFFIX}")):
        try:
            aged.append((-path.stat().st_mtime_ns, read_prober_file(path)))
        except ModelError as error:
            problems.append(error.message)
    aged.sort(key=lambda pair: (pair[0], pair[1].name))
    return ProberFolder(files=tuple(file for _, file in aged), problems=tuple(problems))


def find_prober(models_dir: Path, name: str, *, kind: ProberKind, model: AnswerModel) -> ProberFile:
    """Find the named prober, or the newest one of the kind for the model where no name is given.

    Raises:
        ConfigError: there is none, or it is of another kind, model or quantisation.
        ModelError: the named one cannot be read.
    """
    folder = probers_dir(models_dir)
    if name:
        path = prober_path(models_dir, name)
        if not path.is_file():
            known = [file.stem for file in folder.glob(f"[!.]*{_SUFFIX}")]
            raise UnknownName("prober", name, known, "" if known else _train_hint(model.name, kind))
        found = read_prober_file(path)
        _require_kind(found, kind, model.name)
        _require_model(found, model)
        return found
    files = [file for file in list_probers(models_dir).files if file.info.kind == kind]
    fitting = next((file for file in files if model.matches(file.info.model_fingerprint)), None)
    if fitting is not None:
        return fitting
    of_this_name = [file for file in files if file.info.model == model.name]
    if of_this_name:
        _require_model(of_this_name[0], model)
    reads = "the states of the question" if kind == "question" else "the states of rationale and answer"
    raise ConfigError(f"no prober was trained that reads {reads} of {model.name}", _train_hint(model.name, kind))


def _require_kind(found: ProberFile, kind: ProberKind, model: str) -> None:
    if found.info.kind != kind:
        raise ConfigError(
            f"prober {found.name!r} is of kind {found.info.kind!r}, and one of kind {kind!r} is asked",
            _train_hint(model, kind),
        )


def _require_model(found: ProberFile, model: AnswerModel) -> None:
    info = found.info
    if not model.matches(info.model_fingerprint):
        raise ConfigError(
            f"prober {found.name!r} was trained on {info.model} ({shortened(info.model_fingerprint)}), and "
            f"{model.name} ({shortened(model.fingerprint)}) answers",
            f"{_train_hint(model.name, info.kind)}; if it is the same file: adaptrag models verify",
        )


def _train_hint(model: str, kind: ProberKind) -> str:
    return f"{_TRAIN} {flags_of(model)}{' --kind question' if kind == 'question' else ''} ..."


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """An open safetensors file; whatever is wrong with it is told in one line."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except (SafetensorError, msgspec.DecodeError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"{path} is no prober: {reason}", f"delete it, and run: {_TRAIN}") from error


def _header(file: Any) -> _Header:
    text = (file.metadata() or {}).get(_KEY)
    if text is None:
        raise ValueError("it does not say which model it is for")
    header = msgspec.json.decode(text, type=_Header)
    if header.format != FORMAT:
        raise ValueError(f"its format is {header.format}, and this version reads {FORMAT}")
    if list(header.layers) != sorted(set(header.layers)) or not _are_within(header.layers, header.layer_count):
        raise ValueError(f"it is for layers that a model of {header.layer_count} does not have")
    return header


def _are_within(layers: Sequence[int], layer_count: int) -> bool:
    return all(0 <= layer < layer_count for layer in layers)


def _check_tensors(file: Any, header: _Header) -> None:
    """Compare names, types and shapes before a weight is read."""
    shapes = tensor_shapes(header.width)
    expected = {f"layers.{layer}.{name}": list(shape) for layer in header.layers for name, shape in shapes.items()}
    found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
    if found.keys() != expected.keys():
        raise ValueError("it has not the tensors of its layers")
    for name, part in found.items():
        if part.get_dtype() != "F32" or part.get_shape() != expected[name]:
            raise ValueError(f"tensor {name} is {part.get_dtype()} {part.get_shape()}, not F32 {expected[name]}")


def _facts(header: _Header) -> dict[str, Any]:
    return {
        "kind": header.kind,
        "model": header.model,
        "model_fingerprint": header.model_fingerprint,
        "width": header.width,
        "layer_count": header.layer_count,
        "seed": header.seed,
        "report": header.report,
    }
