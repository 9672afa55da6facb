"""Is this machine ready? Every part is opened and tried; one broken part is a row of the result, never a crash."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from adaptrag_cli import __version__
from adaptrag_cli.config import Settings, load_settings
from adaptrag_cli.errors import AdaptRAGError, ExitCode, ModelError
from adaptrag_cli.session.plan import ModelLoad, index_dir_of, model_load_of, models_dir_of
from adaptrag_cli.session.session import load_model

Status = Literal["ok", "warn", "fail"]
DISTRIBUTION = "adaptrag-cli"
LOW_DISK_BYTES = 2 << 30
_PROBE_SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class Check:
    """One row of the result."""

    name: str
    status: Status
    detail: str
    remedy: str = ""
    """What to do; empty when nothing is to be done."""
    exit_code: ExitCode = ExitCode.OK
    """What the process returns if this is the first failed row."""


def run_checks(
    *, flags: Mapping[str, object] | None = None, config_file: Path | None = None, is_thorough: bool = False
) -> Iterator[Check]:
    """Try every part in turn, and yield a row as soon as it is known.

    Args:
        is_thorough: also hash models and indexes, and let the answer model generate a token.
    """
    yield from _contained("machine", ExitCode.RUN_FAILED, _check_machine)
    yield from _contained("packages", ExitCode.RUN_FAILED, check_packages)
    broken = set()
    for library in PROBES:
        for check in _contained(library, ExitCode.RUN_FAILED, check_library, library):
            broken |= {library} if check.status == "fail" else set()
            yield check
    settings = Settings()
    try:
        settings = load_settings(flags=flags, config_file=config_file)
    except AdaptRAGError as error:
        yield _failed("settings", error)
    else:
        yield _check_settings(settings)
    for name, code, check_part, needs in (
        ("GPU", ExitCode.MODEL, _check_gpu, "llama.cpp"),
        ("answer model", ExitCode.MODEL, _check_answer_model, "llama.cpp"),
        ("encoder", ExitCode.MODEL, _check_encoder, "ONNX Runtime"),
        ("other models", ExitCode.MODEL, _check_other_models, ""),
        ("adapters", ExitCode.MODEL, _check_adapters, ""),
        ("indexes", ExitCode.INDEX, _check_indexes, "FAISS"),
        ("disk", ExitCode.RUN_FAILED, _check_disk, ""),
    ):
        if needs in broken:  # in this process it could end the doctor too
            yield Check(name=name, status="warn", detail=f"not tried, because {needs} cannot be used")
        else:
            yield from _contained(name, code, check_part, settings, is_thorough)


def exit_code_of(checks: Iterable[Check]) -> ExitCode:
    """The code of the first failed row; warnings are usable."""
    return next((check.exit_code for check in checks if check.status == "fail"), ExitCode.OK)


def check_packages() -> Iterator[Check]:
    """Compare installed versions with the ranges that this version declares; imports nothing."""
    from packaging.requirements import Requirement

    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        yield Check(
            name="packages",
            status="warn",
            detail=f"{DISTRIBUTION} is not installed here: running from a source tree",
            remedy="pip install .",
        )
        return
    versions = []
    for requirement in map(Requirement, lines):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        found = _version_of(requirement.name)
        if found is None or not requirement.specifier.contains(found, prereleases=True):
            yield Check(
                name=f"package {requirement.name}",
                status="fail",
                detail=f"{found or 'not installed'}; needed is {requirement.specifier}",
                remedy=f"pip install '{requirement}'",
                exit_code=ExitCode.RUN_FAILED,
            )
        else:
            versions.append(f"{requirement.name} {found}")
    yield Check(name="packages", status="ok", detail=f"{DISTRIBUTION} {__version__} with {', '.join(versions)}")


# A native library that was built for another processor ends the process that imports it, so a child tries it.
PROBES = {
    "llama.cpp": """
import json, llama_cpp
info = " ".join(llama_cpp.llama_print_system_info().decode("utf-8", "replace").split())
can = bool(llama_cpp.llama_supports_gpu_offload())
print(json.dumps({
    "detail": f"llama-cpp-python {llama_cpp.__version__}, "
    + ("can offload layers to a GPU" if can else "CPU build, no layer can go to a GPU") + f"; {info}"
}))
""",
    "FAISS": """
import json, faiss, numpy as np
index = faiss.IndexFlatIP(2)
index.add(np.eye(2, dtype=np.float32))
assert index.search(np.array([[0, 1]], dtype=np.float32), 1)[1][0, 0] == 1
print(json.dumps({"detail": f"faiss {faiss.__version__}, finds the nearer of two vectors"}))
""",
    "ONNX Runtime": """
import json, onnxruntime, tokenizers
print(json.dumps({"detail": f"onnxruntime {onnxruntime.__version__}, tokenizers {tokenizers.__version__}"}))
""",
}
_PROBE_REMEDIES = {
    "llama.cpp": "build it for this processor: pip install --force-reinstall --no-binary llama-cpp-python "
    "llama-cpp-python",
    "FAISS": "pip install --force-reinstall faiss-cpu",
    "ONNX Runtime": "pip install --force-reinstall onnxruntime tokenizers",
}


def check_library(library: str) -> Iterator[Check]:
    """Import and try a native library in a child process."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROBES[library]],  # -P: never a module from the working folder
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_PROBE_SECONDS,
        check=False,
    )
    if done.returncode == 0:
        yield Check(name=library, status="ok", detail=json.loads(done.stdout.splitlines()[-1])["detail"])
        return
    last = done.stderr.strip().splitlines()[-1:] or ["no message"]
    how = f"killed by signal {-done.returncode}" if done.returncode < 0 else last[0]
    yield Check(
        name=library,
        status="fail",
        detail=f"cannot be used: {how}",
        remedy=_PROBE_REMEDIES[library],
        exit_code=ExitCode.MODEL if library != "FAISS" else ExitCode.INDEX,
    )


def _check_machine() -> Iterator[Check]:
    from adaptrag_cli.models.native import physical_cores

    is_new_enough = sys.version_info >= (3, 11)
    yield Check(
        name="Python",
        status="ok" if is_new_enough else "fail",
        detail=f"{platform.python_version()} at {sys.executable}",
        remedy="" if is_new_enough else "use Python 3.11 or newer",
        exit_code=ExitCode.OK if is_new_enough else ExitCode.RUN_FAILED,
    )
    yield Check(
        name="machine",
        status="ok",
        detail=f"{platform.platform()}, {platform.machine()}, {physical_cores()} physical cores",
    )


def _check_settings(settings: Settings) -> Check:
    files = ", ".join(map(str, settings.files)) or "no adaptrag.toml"
    changed = [row.name for row in settings.as_rows() if row.origin != "default"]
    return Check(name="settings", status="ok", detail=f"{files}; set: {', '.join(changed) or 'nothing'}")


def _check_gpu(settings: Settings, is_thorough: bool) -> Iterator[Check]:
    from adaptrag_cli.models.gpu import plan_gpu
    from adaptrag_cli.models.native import llama_library

    requested = settings.models.gpu_layers
    can_offload = bool(llama_library().llama_supports_gpu_offload())
    plan = plan_gpu(requested, can_offload=can_offload)
    layers = "all layers" if plan.layers < 0 else f"{plan.layers} layers"
    is_refused = not can_offload and requested not in {"auto", "0"}
    yield Check(
        name="GPU",
        status="warn" if is_refused else "ok",
        detail=f"layers asked: {requested}; {layers} would go to the GPU ({plan.reason})",
        remedy="--gpu-layers auto, or a llama-cpp-python that is built for the GPU" if is_refused else "",
    )


def _check_answer_model(settings: Settings, is_thorough: bool) -> Iterator[Check]:
    from adaptrag_cli.models.files import locate_model, verify

    models_dir = models_dir_of(settings)
    found = locate_model(settings.models.answer, models_dir)
    if is_thorough and found.entry is not None:
        found = verify(found.entry, models_dir)
    yield _model_row("answer model", found.name, found.path, found.verified, is_known=found.entry is not None)
    adapted = model_load_of(settings)
    if adapted.file.adapter is not None:
        yield Check(name="adapter", status="ok", detail=f"{adapted.file.adapter.name} goes with {found.name}")
    if is_thorough:
        yield _try_answer_model(adapted)


def _try_answer_model(load: ModelLoad) -> Check:
    model = load_model(load, lambda _: None)
    try:
        text = "".join(token.text for token in model.generate(model.build_prompt("Say yes."), max_tokens=4))
        info = model.info
    finally:
        model.close()
    return Check(
        name="answer model",
        status="ok",
        detail=f"loads and writes {text!r}; GPU layers asked {info.gpu_layers_requested}, "
        f"got {info.gpu_layers_used} ({info.gpu_reason}); {info.threads} threads",
    )


def _check_encoder(settings: Settings, is_thorough: bool) -> Iterator[Check]:
    from adaptrag_cli.models.files import locate_encoder, verify

    models_dir = models_dir_of(settings)
    found = locate_encoder(settings.models.encoder, models_dir)
    if is_thorough and found.entry is not None:
        verify(found.entry, models_dir)
        found = locate_encoder(settings.models.encoder, models_dir)
    yield _model_row("encoder", found.name, found.folder, found.verified, is_known=found.entry is not None)
    yield _try_encoder(settings.models.encoder, models_dir, found.folder)


def _try_encoder(name: str, models_dir: Path, folder: Path) -> Check:
    """Encode a text, unless that would first have to import torch."""
    from adaptrag_cli.models.encoder import load_encoder
    from adaptrag_cli.models.encoder_folder import read_encoder_folder, weights_sha256
    from adaptrag_cli.models.onnx_export import find_export

    layout = read_encoder_folder(folder)
    try:
        export = find_export(layout, weights_sha256(folder)) if layout.is_plain else None
    except ModelError as error:
        return Check(name="encoder", status="warn", detail=f"{error.message}; sentence-transformers encodes instead")
    if export is None:
        is_plain = layout.is_plain
        return Check(
            name="encoder",
            status="warn",
            detail="no exported form yet: the first text waits for it"
            if is_plain
            else "cannot be exported: every run imports sentence-transformers",
            remedy=f"adaptrag models pull {name}" if is_plain else "",
        )
    (vector,) = load_encoder(name, models_dir).encode_queries(["When does the boat leave?"])
    length = float(vector @ vector) ** 0.5
    return Check(
        name="encoder",
        status="ok",
        detail=f"exported form at {export} gives a vector of {len(vector)} numbers and length {length:.3f}",
    )


def _model_row(kind: str, name: str, path: Path, is_verified: bool, *, is_known: bool) -> Check:
    if is_verified:
        return Check(name=kind, status="ok", detail=f"{name} at {path}, SHA-256 verified")
    if not is_known:
        return Check(name=kind, status="ok", detail=f"{name} at {path}, not in the catalogue: no published hash")
    return Check(
        name=kind,
        status="warn",
        detail=f"{name} at {path}, never compared with its published hash",
        remedy=f"adaptrag models verify {name}",
    )


def _check_other_models(settings: Settings, is_thorough: bool) -> Iterator[Check]:
    """Catalogue models that are installed besides the two that are set; a broken one hinders nobody."""
    from adaptrag_cli.models.catalogue import ENTRIES
    from adaptrag_cli.models.files import describe_installed, is_installed, verify

    models_dir = models_dir_of(settings)
    for entry in ENTRIES:
        if entry.name in {settings.models.answer, settings.models.encoder} or not is_installed(entry, models_dir):
            continue
        try:
            found = verify(entry, models_dir) if is_thorough else describe_installed(entry, models_dir)
        except AdaptRAGError as error:
            yield Check(name="other model", status="warn", detail=error.message, remedy=error.hint)
        else:
            yield _model_row("other model", entry.name, found.path, found.verified, is_known=True)


def _check_adapters(settings: Settings, is_thorough: bool) -> Iterator[Check]:
    """Adapters that could be put on none of the models that are here, and files among them that are none."""
    from adaptrag_cli.models.adapters import LIST, adapters_dir, fits, fitting_models, list_adapters
    from adaptrag_cli.models.files import locate_model

    models_dir = models_dir_of(settings)
    folder = list_adapters(models_dir)
    for problem in folder.problems:
        yield Check(name="adapters", status="warn", detail=problem, remedy="delete it")
    useless = [adapter for adapter in folder.files if not fitting_models(adapter, models_dir)]
    if useless:  # the model that is set may be a file of the user's own
        try:
            answering = locate_model(settings.models.answer, models_dir)
            useless = [adapter for adapter in useless if not fits(adapter, answering)]
        except AdaptRAGError:  # told in its own row
            pass
    for adapter in useless:
        yield Check(
            name="adapters",
            status="warn",
            detail=f"{adapter.name} fits no model in {models_dir}: it is for {adapter.base}",
            remedy=f"see them with: {LIST}; or: adaptrag models adapters remove {adapter.name}",
        )
    if folder.files:
        usable = len(folder.files) - len(useless)
        yield Check(
            name="adapters",
            status="ok",
            detail=f"{usable} of {len(folder.files)} in {adapters_dir(models_dir)} fit a model",
        )


def _check_indexes(settings: Settings, is_thorough: bool) -> Iterator[Check]:
    from adaptrag_cli.index.home import index_names, unfinished_names

    folder, models_dir = index_dir_of(settings), models_dir_of(settings)
    names = index_names(folder)
    if not names:
        yield Check(name="indexes", status="warn", detail=f"none in {folder}", remedy="adaptrag index PATH")
    for name in unfinished_names(folder):
        remedy = f"index the same folder again to continue, or: adaptrag indexes remove {name}"
        yield Check(name=f"index {name}", status="warn", detail="not finished", remedy=remedy)
    for name in names:
        yield from _contained(
            f"index {name}",
            ExitCode.INDEX,
            _check_index,
            folder,
            name,
            models_dir,
            is_thorough,
        )


def _check_index(folder: Path, name: str, models_dir: Path, is_thorough: bool) -> Iterator[Check]:
    """Open the index, read a chunk, search dense and sparse, and compare it with this version and its encoder."""
    from adaptrag_cli.index.home import check_encoder, open_index, verify_index
    from adaptrag_cli.models.encoder import load_encoder

    store = (verify_index if is_thorough else open_index)(folder, name)
    detail = f"{store.chunk_count:,} chunks of {store.path}, made with {store.encoder.name}"
    if store.chunk_count:
        found = len(store.sparse_search(store.chunk(0).text, 1))
        best = store.dense_search(store.vectors([0])[0], 1)[0]
        detail += f"; dense search finds a stored vector ({best.score:.3f}), sparse search {found} chunk"
    made_with = store.encoder
    encoder = load_encoder(
        made_with.name, models_dir, query_prefix=made_with.query_prefix, document_prefix=made_with.document_prefix
    )
    check_encoder(store, encoder.fingerprint)
    freshness = store.freshness()
    count = len(freshness.changed) + len(freshness.deleted) + len(freshness.added)
    remedy = store.index_command() if count else ""
    if freshness.root_missing:
        detail += f"; {store.path} is not there"
        remedy = "bring it back, or index its documents where they lie now"
    elif count:
        detail += f"; {count} files differ from what was indexed"
    yield Check(name=f"index {name}", status="ok" if freshness.is_fresh else "warn", detail=detail, remedy=remedy)


def _check_disk(settings: Settings, is_thorough: bool) -> Iterator[Check]:
    for what, folder in (("models", models_dir_of(settings)), ("indexes", index_dir_of(settings))):
        existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
        free = shutil.disk_usage(existing).free
        is_low = free < LOW_DISK_BYTES
        yield Check(
            name=f"disk for {what}",
            status="warn" if is_low else "ok",
            detail=f"{free / 1e9:.1f} GB free at {existing}",
            remedy=f"free some space, or choose another folder with --{what.removesuffix('es')}-dir" if is_low else "",
        )


def _contained(name: str, code: ExitCode, check: Callable[..., Iterable[Check]], *arguments: object) -> Iterator[Check]:
    """Yield the rows of one check; whatever breaks it becomes a failed row."""
    try:
        yield from check(*arguments)
    except AdaptRAGError as error:
        yield _failed(name, error)
    except Exception as error:  # foreign code on a broken installation: the point of a doctor is to go on and tell
        yield Check(
            name=name,
            status="fail",
            detail=f"{type(error).__name__}: {error}",
            remedy="reinstall with: pip install --force-reinstall .",
            exit_code=code,
        )


def _failed(name: str, error: AdaptRAGError) -> Check:
    return Check(name=name, status="fail", detail=error.message, remedy=error.hint, exit_code=error.exit_code)


def _version_of(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
