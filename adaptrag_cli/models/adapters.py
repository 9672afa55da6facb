"""LoRA adapters on this machine: what each file says of itself, and which model it may be put on.

An adapter is a GGUF file of llama.cpp's in the folder `adapters` of the models folder. `adaptrag deeprag train` writes
into it which file it was trained on, and it is refused on any other: the same shapes do not make the same model. Made
by another tool, it tells only the architecture. Then it is put on any model of that architecture whose shapes
llama.cpp accepts, and every run is told that nobody checked whether it was made for it.

Files may come from anywhere: all that is read of one here is the metadata of its header, within fixed bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from adaptrag_cli.config import NO_ADAPTER
from adaptrag_cli.disk import sha256_of
from adaptrag_cli.errors import ConfigError, ModelError, UnknownName
from adaptrag_cli.identity import fingerprint_with, name_with, shortened
from adaptrag_cli.models.catalogue import ENTRIES
from adaptrag_cli.models.files import ModelFile, describe_installed, is_installed, locate_model
from adaptrag_cli.models.gguf_header import Value, read_metadata, read_value
from adaptrag_cli.models.reading import reading

SUFFIX = ".gguf"
LIST = "adaptrag models adapters list"
_ARCHITECTURE = "general.architecture"


@dataclass(frozen=True, kw_only=True)
class AdapterFile:
    """An adapter that is there, its weights not read."""

    name: str
    path: Path
    architecture: str
    """Of the models that it can be put on, as llama.cpp names it."""
    base_name: str
    """Name of the model it was trained on; empty when the file does not tell."""
    base_fingerprint: str
    """Fingerprint of that model's file; empty when the file does not tell."""
    stage: str
    """`imitation`, `calibration` or `grpo`; empty for an adapter of another tool."""
    created: str
    """Date and time as ISO 8601; empty for an adapter of another tool."""
    size: int
    """Bytes."""
    fingerprint: str
    """`sha256:...` of the file."""
    report: Mapping[str, Any]
    """What its training was, and what came of it; empty for an adapter of another tool."""

    @property
    def tells_base(self) -> bool:
        """Whether the file says which model it was trained on."""
        return bool(self.base_fingerprint)

    @property
    def base(self) -> str:
        """What it is for, in words."""
        return self.base_name or f"a {self.architecture} model"


@dataclass(frozen=True, kw_only=True)
class AdapterFolder:
    """What lies in a folder of adapters."""

    files: tuple[AdapterFile, ...]
    """The newest first; of the same age, by name."""
    problems: tuple[str, ...]
    """A line for each file that cannot be used."""


def adapters_dir(models_dir: Path) -> Path:
    """The folder of all adapters."""
    return models_dir / "adapters"


def adapter_path(models_dir: Path, name: str) -> Path:
    """The file of an adapter.

    Raises:
        ConfigError: the name is no file name.
    """
    is_file_name = name.isprintable() and name != "" and Path(name).name == name and "\\" not in name
    if not is_file_name or name.startswith((".", "-")) or name.endswith(SUFFIX) or name == NO_ADAPTER:
        raise ConfigError(
            f"{name!r} cannot be the name of an adapter",
            f"a name like a file's, without folders and without {SUFFIX}; not {NO_ADAPTER!r}",
        )
    return adapters_dir(models_dir) / f"{name}{SUFFIX}"


def adapter_names(models_dir: Path) -> tuple[str, ...]:
    """The names of all files in the folder of adapters, in order; none is opened."""
    return tuple(sorted(path.stem for path in adapters_dir(models_dir).glob(f"[!.]*{SUFFIX}")))


def read_adapter(path: Path) -> AdapterFile:
    """Read what a file says of its adapter, and hash it: about a second for the adapter of a large model.

    Raises:
        ModelNotFound: there is no such file.
        ModelError: it is no LoRA adapter.
    """
    told = read_metadata(path)
    architecture = _lora_architecture(path, told)
    report = _text(told, "adaptrag.report")
    with reading(path):
        return AdapterFile(
            name=path.stem,
            path=path,
            architecture=architecture,
            base_name=_text(told, "adaptrag.base.name"),
            base_fingerprint=_text(told, "adaptrag.base.fingerprint"),
            stage=_text(told, "adaptrag.stage"),
            created=_text(told, "adaptrag.created"),
            size=path.stat().st_size,
            fingerprint=f"sha256:{sha256_of(path)}",
            report=_report(path, report) if report else {},
        )


def list_adapters(models_dir: Path) -> AdapterFolder:
    """Read the headers of all adapters."""
    aged: list[tuple[int, AdapterFile]] = []
    problems: list[str] = []
    for name in adapter_names(models_dir):
        path = adapters_dir(models_dir) / f"{name}{SUFFIX}"
        try:
            found = read_adapter(path)
            aged.append((-path.stat().st_mtime_ns, found))
        except (ModelError, OSError) as error:
            problems.append(error.message if isinstance(error, ModelError) else f"{path}: {error.strerror or error}")
    aged.sort(key=lambda pair: (pair[0], pair[1].name))
    return AdapterFolder(files=tuple(file for _, file in aged), problems=tuple(problems))


def find_adapter(models_dir: Path, name: str) -> AdapterFile:
    """Read the adapter of a name.

    Raises:
        UnknownName: there is none of that name; the message gives the nearest.
        ConfigError: the name is no file name.
        ModelError: the file is no LoRA adapter.
    """
    path = adapter_path(models_dir, name)
    if not path.is_file():
        raise UnknownName("adapter", name, adapter_names(models_dir), f"see them with: {LIST}")
    return read_adapter(path)


def locate_adapted(model: str, adapter: str | None, models_dir: Path) -> ModelFile:
    """Find a model's file, as `locate_model` does, and the adapter that is put on it.

    The result has name and fingerprint of both together, so nothing that was made or measured with the model alone is
    taken for the two, nor the other way round.

    Raises:
        ModelNotFound: the model is not here.
        ModelError: the model or the adapter cannot be used, or the adapter is another model's.
        UnknownName: there is no such model or adapter.
    """
    file = locate_model(model, models_dir)
    if not adapter:
        return file
    found = find_adapter(models_dir, adapter)
    require_fit(found, file)
    return replace(
        file,
        name=name_with(file.name, found.name),
        fingerprint=fingerprint_with(file.fingerprint, found.fingerprint),
        adapter=found,
    )


def require_fit(adapter: AdapterFile, file: ModelFile) -> None:
    """Refuse an adapter on a model that it was not trained on, or on one of another architecture.

    Raises:
        ModelError: naming both models.
    """
    architecture = read_value(file.path, _ARCHITECTURE)
    if architecture != adapter.architecture:
        raise ModelError(
            f"adapter {adapter.name!r} is for {adapter.base}, and {file.name} is a {architecture} model",
            f"see which fits which model: {LIST}",
        )
    if awaits_verification(adapter, file):
        raise ModelError(
            f"adapter {adapter.name!r} was trained on {file.name} as it is published, and this file of it was not "
            "verified yet",
            f"adaptrag models verify {file.name}",
        )
    if not fits(adapter, file):
        raise ModelError(
            f"adapter {adapter.name!r} was trained on {adapter.base_name} ({shortened(adapter.base_fingerprint)}), "
            f"and {file.name} ({shortened(file.fingerprint)}) is another file",
            f"--model {adapter.base_name}; if it is the same file: adaptrag models verify",
        )


def awaits_verification(adapter: AdapterFile, file: ModelFile) -> bool:
    """Whether only a hash of the model's file can tell if an adapter may be put on it."""
    is_same_name = file.entry is not None and file.name == adapter.base_name
    return is_same_name and not file.verified and adapter.base_fingerprint.startswith("sha256:")


def fits(adapter: AdapterFile, file: ModelFile) -> bool:
    """Whether an adapter may be put on a model."""
    if not adapter.tells_base:
        return read_value(file.path, _ARCHITECTURE) == adapter.architecture
    return file.matches(adapter.base_fingerprint)


def fitting_models(adapter: AdapterFile, models_dir: Path) -> tuple[str, ...]:
    """The names of the answer models of the catalogue that are here and that an adapter may be put on."""
    names = []
    for entry in ENTRIES:
        if entry.kind != "answer" or not is_installed(entry, models_dir):
            continue
        try:
            if fits(adapter, describe_installed(entry, models_dir)):
                names.append(entry.name)
        except ModelError:  # a damaged model is told by the doctor, and nothing fits it
            continue
    return tuple(names)


def _lora_architecture(path: Path, told: Mapping[str, Value]) -> str:
    """The architecture that a LoRA adapter is for.

    Raises:
        ModelError: the header is not one of a LoRA adapter that llama.cpp can add to a model.
    """
    kind, way = _text(told, "general.type"), _text(told, "adapter.type")
    if kind != "adapter":
        raise ModelError(f"{path} is no adapter: it says that it is of type {kind or 'model'!r}", LIST)
    if way != "lora":
        raise ModelError(f"{path} is an adapter of type {way or 'unknown'!r}, and only LoRA can be used", LIST)
    if "adapter.alora.invocation_tokens" in told:
        raise ModelError(f"{path} is an activated LoRA, which works only behind words of its own", LIST)
    architecture = _text(told, _ARCHITECTURE)
    if not architecture:
        raise ModelError(f"{path} does not say which architecture it is for", LIST)
    return architecture


def _report(path: Path, text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise ModelError(f"{path} holds a report of its training that cannot be read: {error}", LIST) from error


def _text(told: Mapping[str, Value], key: str) -> str:
    value = told.get(key)
    return value if isinstance(value, str) else ""
