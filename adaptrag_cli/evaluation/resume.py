"""Whether a folder may be written, and whether what it holds is the run that is to go on."""

from __future__ import annotations

import hashlib
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

from adaptrag_cli import __version__
from adaptrag_cli.calibration import Calibrated, question_digest
from adaptrag_cli.config import with_overrides
from adaptrag_cli.disk import only_process
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.plan import Plan, settings_of
from adaptrag_cli.evaluation.results import MANIFEST, Cell, Manifest, SetInfo, read_manifest
from adaptrag_cli.models.files import ModelFile
from adaptrag_cli.session.plan import plan_session

_VERSIONS = ("llama-cpp-python", "onnxruntime", "faiss-cpu", "rank-bm25", "numpy")


_LEFT = frozenset({MANIFEST, "probe.json", "cache.sqlite", "written.questions.jsonl", "run.lock", "run.pid"})
"""What a run leaves in its folder first, however soon it was stopped."""
_TRACES = frozenset({"run.lock", "cache.sqlite", "cache.sqlite-shm", "cache.sqlite-wal"})
"""What lies there where nothing was asked."""


def require_run_folder(out: Path) -> None:
    """Refuse a folder that holds something else than a run.

    Raises:
        ConfigError: naming it.
    """
    try:
        names = {path.name for path in out.iterdir() if not path.name.startswith(".")}
    except OSError:  # there is none yet, or `only_writer` tells what is wrong with it
        return
    if names and not names & _LEFT:
        raise ConfigError(f"{out} holds other files and no run", "give --out a new or empty folder")


@contextmanager
def only_writer(out: Path) -> Iterator[None]:
    """Make a run's folder and keep others from writing it; one in which nothing came to be is taken away again.

    Raises:
        ConfigError: it cannot be made, or another process writes it.
    """
    is_new = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{out} cannot be a run's folder: {error.strerror}", "give another --out") from error

    def busy(pid: str) -> ConfigError:
        return ConfigError(f"{out} is being written by process {pid}", "wait for it, or give another --out")

    try:
        with only_process(out, "run", busy):
            yield
    except BaseException:
        if is_new and {path.name for path in out.iterdir()} <= _TRACES:
            shutil.rmtree(out, ignore_errors=True)
        raise


def require_free(out: Path, resume: bool) -> None:
    """Refuse a folder that holds a run which is not to go on.

    Raises:
        ConfigError: saying how to go on with it.
    """
    if not resume and (out / MANIFEST).exists():
        raise ConfigError(f"{out} holds an evaluation already", "continue it with --resume, or give another --out")


def earlier_run(plan: Plan, resume: bool) -> Manifest | None:
    """The manifest of a run that is to be continued.

    Raises:
        ConfigError: there is one and it was not asked to be continued, or it measures something else.
    """
    require_free(plan.out, resume)
    if not (plan.out / MANIFEST).exists():
        return None
    before = read_manifest(plan.out)
    changed = [name for name, number in before.versions.items() if number != version(name)]
    if changed:
        raise ConfigError(
            f"{plan.out} was begun with {changed[0]} {before.versions[changed[0]]}, this is {version(changed[0])}",
            "numbers may differ: give another --out",
        )
    if before.sets != _set_infos(plan):
        raise ConfigError(f"{plan.out} asks other questions", "give the DATA, --limit and --seed it was begun with")
    return before


def on_the_day(plan: Plan, before: Manifest | None) -> Plan:
    """Fix the date that time-aware prompts name: a run that goes on tomorrow still asks the same."""
    if plan.settings.ask.today is not None:
        return plan
    day = before.created[:10] if before is not None else datetime.now(UTC).date().isoformat()
    return replace(plan, settings=with_overrides(plan.settings, {"ask.today": (day, "the day the run was begun")}))


def joined(before: Cell | None, now: Cell, out: Path, file: ModelFile) -> Cell:
    """Let new strategies join a cell, and refuse to mix numbers of two set-ups in one folder.

    Args:
        file: of the model, which may have been verified since.

    Raises:
        ConfigError: naming what differs.
    """
    if before is None:
        return now
    if file.matches(before.model_fingerprint):
        now = msgspec.structs.replace(now, model_fingerprint=before.model_fingerprint)
    for what in ("model_fingerprint", "encoder_identity", "indexes", "lanes", "calibration_digest"):
        if getattr(before, what) != getattr(now, what):
            name = what.removesuffix("_fingerprint").removesuffix("_identity").removesuffix("_digest")
            raise ConfigError(f"{out} was begun with other {name}", f"restore the {name}, or give another --out")
    return msgspec.structs.replace(now, settings=before.settings | now.settings)


def require_same_settings(plan: Plan, before: Manifest | None) -> None:
    """Refuse to go on with a strategy under other settings, or to show its old numbers for them.

    Raises:
        ConfigError: naming the strategy.
    """
    earlier = {cell.name: cell.settings for cell in before.cells} if before is not None else {}
    for cell in plan.cells:
        for spec in plan.strategies:
            rows = earlier.get(cell.name, {}).get(spec.label)
            now = plan_session(settings_of(spec, cell.settings(plan.settings))).rows
            if rows is not None and [(r.name, r.value) for r in rows] != [(r.name, r.value) for r in now]:
                raise ConfigError(
                    f"{plan.out} asked {spec.label} with other settings", "give the settings it was begun with"
                )


def calibration_digest(calibrated: Calibrated | None) -> str:
    """What a cell knows the user's calibration by; empty for none."""
    return hashlib.sha256(msgspec.json.encode(calibrated)).hexdigest()[:16] if calibrated is not None else ""


def manifest_of(plan: Plan, cells: tuple[Cell, ...], before: Manifest | None) -> Manifest:
    """What the run measures, with the strategies that it asked before."""
    specs = {spec.label: spec for spec in (*(before.strategies if before else ()), *plan.strategies)}
    return Manifest(
        created=before.created if before else datetime.now(UTC).isoformat(timespec="seconds"),
        adaptrag_version=before.adaptrag_version if before else __version__,
        versions={name: version(name) for name in _VERSIONS},
        machine=before.machine
        if before
        else f"{platform.system()} {platform.machine()}, {platform.processor() or 'unknown processor'}",
        seed=plan.seed,
        limit=plan.limit,
        sets=_set_infos(plan),
        strategies=tuple(specs.values()),
        cells=cells,
        cache=str(plan.cache.relative_to(plan.out))
        if plan.cache.is_relative_to(plan.out)
        else str(plan.cache.absolute()),
    )


def _set_infos(plan: Plan) -> tuple[SetInfo, ...]:
    return tuple(
        SetInfo(
            name=question_set.name,
            format=question_set.format,
            fingerprint=question_set.fingerprint,
            questions=tuple(question.id for question in question_set.questions),
            digests=tuple(question_digest(question.text) for question in question_set.questions),
        )
        for question_set in plan.sets
    )
