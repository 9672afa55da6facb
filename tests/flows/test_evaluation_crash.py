"""An evaluation that is killed at any step goes on with nothing lost and nothing doubled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from adaptrag_cli.evaluation.results import RESULTS, Result, read_run
from adaptrag_cli.evaluation.summary import summarise
from adaptrag_cli.trace import read_trace

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked process")

DRIVER = Path(__file__).with_name("eval_crash_driver.py")
POINTS = 10


def drive(base: Path, points: list[int]) -> list[int]:
    paths = [str(DRIVER.parent), str(DRIVER.parent.parent), str(Path.cwd())]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, str(DRIVER), str(base), *map(str, points)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


def timeless(results: tuple[Result, ...]) -> list[Result]:
    return sorted((msgspec.structs.replace(r, seconds=0.0) for r in results), key=lambda r: r.key)


def test_killed_at_any_step_it_goes_on_to_the_same_figures(tmp_path: Path) -> None:
    (steps,) = drive(tmp_path, [0])
    whole = read_run(tmp_path / "0" / "run")
    assert len(whole.results) == 12
    points = sorted({1 + i * (steps - 1) // (POINTS - 1) for i in range(POINTS)})
    assert len(points) == POINTS
    left = drive(tmp_path, points)
    assert left == sorted(left)
    assert left[0] == 0
    assert len(set(left)) >= 4, "kills fell before, between and after results"
    for point in points:
        folder = tmp_path / str(point) / "run"
        resumed = read_run(folder)
        assert timeless(resumed.results) == timeless(whole.results)
        lines = (folder / RESULTS).read_bytes().splitlines()
        assert len(lines) == len({result.key for result in resumed.results}) == 12
        traces = {str(path.relative_to(folder)) for path in (folder / "traces").rglob("*.jsonl.gz")}
        assert traces == {result.trace for result in resumed.results}
        for result in resumed.results:
            assert list(read_trace(folder / result.trace))[-1].answer == result.prediction
        rows = [
            [
                msgspec.structs.replace(row, seconds_median=0.0, seconds_p95=0.0)
                for row in summarise(run, cell="base", set="lamp")
            ]
            for run in (resumed, whole)
        ]
        assert rows[0] == rows[1]
