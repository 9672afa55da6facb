"""Run evaluations that die by SIGKILL at their n-th step, for each n given, and resume each. Started by
test_evaluation_crash.py as: eval_crash_driver.py FOLDER STEP...

A step is each flush, rename, result and cache entry of the run. Every evaluation runs in a fork of this process, in a
world of its own. For each STEP a line tells how many results the kill left; STEP 0 never dies, and tells the steps.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_evaluation import ANGLES, MODEL, World

from adaptrag_cli.evaluation.cache import EvaluationCache
from adaptrag_cli.evaluation.results import read_results
from adaptrag_cli.json_lines import RecordLog
from adaptrag_cli.models.catalogue import find_entry
from plane import PlaneEncoder


class Steps:
    """Counts calls; dies before the fatal one."""

    def __init__(self, fatal: int) -> None:
        self._fatal = fatal
        self.count = 0

    def before(self, owner: Any, name: str) -> None:
        original: Callable[..., object] = getattr(owner, name)

        def counted(*arguments: Any, **keywords: Any) -> object:
            self.count += 1
            if self.count == self._fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **keywords)

        setattr(owner, name, counted)


def run(folder: Path, fatal: int, *, resume: bool) -> int:
    """Evaluate to the end, or to the fatal step; returns the steps."""
    world = World(folder)
    encoder = PlaneEncoder(folder / "encoder", ANGLES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("adaptrag_cli.models.llama.load_llama_lanes", world.load)
        patch.setattr("adaptrag_cli.models.encoder.load_encoder", lambda *_, **__: encoder)
        patch.setattr("adaptrag_cli.evaluation.corpora.load_encoder", lambda *_, **__: encoder)
        steps = Steps(fatal)
        for owner, name in ((os, "fsync"), (os, "replace"), (RecordLog, "append"), (EvaluationCache, "put")):
            steps.before(owner, name)
        world.evaluate(resume=resume)
    return steps.count


def in_fork(folder: Path, fatal: int, *, resume: bool = False, tells_steps: bool = False) -> int:
    """Run in a fork; returns its status."""
    child = os.fork()
    if child == 0:
        try:
            steps = run(folder, fatal, resume=resume)
            if tells_steps:
                print(steps, flush=True)
            os._exit(0)
        finally:  # an exception must not run on in the loop below
            os._exit(1)
    return os.waitpid(child, 0)[1]


def main(base: Path, points: list[int]) -> None:
    for fatal in points:
        folder = base / str(fatal)
        (folder / "models").mkdir(parents=True)
        with (folder / "models" / find_entry(MODEL).file).open("wb") as file:
            file.truncate(find_entry(MODEL).size_bytes or 0)
        status = in_fork(folder, fatal, tells_steps=fatal == 0)
        if fatal == 0:
            continue
        if not os.WIFSIGNALED(status):
            sys.exit(f"no kill at step {fatal}")
        print(len(read_results(folder / "run")), flush=True)
        begun = (folder / "run" / "manifest.json").exists()
        if in_fork(folder, 0, resume=begun):
            sys.exit(f"the run killed at step {fatal} cannot go on")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(point) for point in sys.argv[2:]])
