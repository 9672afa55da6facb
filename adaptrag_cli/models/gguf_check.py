"""Look at a model file before llama.cpp does, because a broken one can abort the whole process.

A file whose hash is the catalogue's is trusted. Any other, and every adapter on its model, is loaded once in a child
process, and remembered when that went well: by real path, size, modification time and version of llama.cpp.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from adaptrag_cli import locations
from adaptrag_cli.errors import AdaptRAGError, ModelError, RunCancelled
from adaptrag_cli.models.gguf_header import MAGIC
from adaptrag_cli.models.reading import GET_ANOTHER, reading

_PROBE_SECONDS = 600


class CheckedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was when a child process loaded it."""

    size: int
    mtime_ns: int
    runtime: str
    """Version of llama-cpp-python."""
    base: CheckedFile | None = None
    """The model that an adapter was put on."""


def check_gguf(path: Path, *, trusted: bool, adapter: Path | None = None) -> None:
    """Return when llama.cpp can load the file, and an adapter on it, without harm.

    Raises:
        ModelNotFound: there is no such file.
        ModelError: it is no GGUF file, or llama.cpp cannot load it; the message says why.
    """
    checked = _as_it_is(path)
    if adapter is not None:
        checked = _as_it_is(adapter, base=checked)
    elif trusted:
        return
    memory = locations.user_data_dir() / "gguf-checks.json"
    real_path = str((adapter or path).resolve())
    if _read_memory(memory).get(real_path) == checked:
        return
    probe_gguf(path, adapter)
    _remember(memory, real_path, checked)


def probe_gguf(path: Path, adapter: Path | None = None) -> None:
    """Load the file, and an adapter on it, and evaluate a few tokens in a child process.

    Raises:
        ModelError: that failed or crashed.
        RunCancelled: Ctrl-C ended the child.
    """
    # The package may run from a checkout; -P keeps the working folder's modules out of the child.
    package_root = str(Path(__file__).parents[2])
    search_path = os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-P", "-m", "adaptrag_cli.models.gguf_check"]
    command += [os.path.abspath(each) for each in (path, adapter) if each is not None]  # noqa: PTH100 - keeps links
    try:
        child = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, "PYTHONPATH": search_path, "PYTHONIOENCODING": "utf-8"},
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ModelError(f"{path} did not load within {_PROBE_SECONDS} seconds", GET_ANOTHER) from error
    if child.returncode == 0:
        return
    told = child.stdout.decode("utf-8", "replace").strip()
    if child.returncode == 1 and told:
        raise ModelError(told, GET_ANOTHER)
    if child.returncode == -signal.SIGINT:
        raise RunCancelled("stopped while a model file was checked")
    shown = path if adapter is None else f"{path} with {adapter}"
    raise ModelError(
        f"{shown} cannot be loaded: a trial in a child process ended with {_how_it_ended(child.returncode)}, "
        "so the file is damaged or too large for this machine",
        GET_ANOTHER,
    )


def _as_it_is(path: Path, *, base: CheckedFile | None = None) -> CheckedFile:
    """The facts of a file by which it is known again.

    Raises:
        ModelError: it is no GGUF file.
    """
    with reading(path), path.open("rb") as file:
        status = path.stat()
        start = file.read(len(MAGIC))
    if start != MAGIC:
        raise ModelError(f"{path} is not a GGUF file: it does not begin with GGUF", GET_ANOTHER)
    return CheckedFile(size=status.st_size, mtime_ns=status.st_mtime_ns, runtime=_runtime_version(), base=base)


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _runtime_version() -> str:
    from importlib.metadata import version

    return version("llama-cpp-python")


def _read_memory(memory: Path) -> dict[str, CheckedFile]:
    try:
        return msgspec.json.decode(memory.read_bytes(), type=dict[str, CheckedFile])
    except (OSError, msgspec.DecodeError):  # a lost memory only costs another probe
        return {}


def _remember(memory: Path, real_path: str, checked: CheckedFile) -> None:
    entries = {**_read_memory(memory), real_path: checked}
    beside = memory.with_suffix(f".{os.getpid()}.tmp")
    with contextlib.suppress(OSError):  # a read-only home costs a probe at every start, nothing else
        memory.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(msgspec.json.format(msgspec.json.encode(entries)))
        beside.replace(memory)


def _probe_main(path: str, adapter: str | None = None) -> int:
    """Run in the child: load on the CPU, evaluate a prompt and one more token."""
    from adaptrag_cli.models.context import SHORTEST_PART, NativeContext
    from adaptrag_cli.models.logits import token_statistics
    from adaptrag_cli.models.native import physical_cores

    with contextlib.suppress(ImportError):  # Windows has no such limit
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected here and leaves no core file
    try:
        context = NativeContext(
            Path(path),
            context_length=256,
            gpu_layers=0,
            threads=physical_cores(),
            adapter=Path(adapter) if adapter is not None else None,
        )
        context.prefill([0] * min(SHORTEST_PART, context.context_length - 1))
        context.step({0: token_statistics(context.logits()).token_id})
        token_statistics(context.logits())
        context.close()
    except AdaptRAGError as error:
        print(error.message)  # noqa: T201 - the parent reads it
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_probe_main(*sys.argv[1:]))
