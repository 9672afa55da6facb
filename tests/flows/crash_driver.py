"""Run a build that dies by SIGKILL at its n-th step, for each n on the command line. Started by test_index_crash.py.

A step is anything that changes the disk: opening, writing, flushing, renaming or removing a file, making a folder, and
each block that is embedded. Every build runs in a fork of this process: all read the same documents, each has its own
copy of the index.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from adaptrag_cli.index import build
from adaptrag_cli.index.durable import DurableFile
from index_fakes import HashEncoder

_EVENTS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree"}


class Steps:
    """Counts steps inside `watched`; dies at the fatal one."""

    def __init__(self, watched: Path, fatal: int) -> None:
        self._watched = str(watched)
        self._fatal = fatal
        self.count = 0
        self.blocks: list[int] = []
        """Steps at which a block was about to be embedded."""

    def step(self) -> None:
        self.count += 1
        if self.count == self._fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in _EVENTS and arguments and str(arguments[0]).startswith(self._watched):
            self.step()

    def before(self, owner: Any, name: str) -> None:
        """Count a step before each call of a function."""
        original: Callable[..., object] = getattr(owner, name)

        def counted(*arguments: Any, **keywords: Any) -> object:
            self.step()
            if name == "encode_documents":
                self.blocks.append(self.count)
            return original(*arguments, **keywords)

        setattr(owner, name, counted)


def run(base: Path, index_dir: Path, fatal: int) -> Steps:
    """Build once; returns the steps if it survives."""
    build.EMBED_BLOCK = 4
    encoder = HashEncoder(base / "encoder")
    steps = Steps(index_dir, fatal)
    steps.before(os, "fsync")
    steps.before(DurableFile, "write")
    steps.before(encoder, "encode_documents")
    sys.addaudithook(steps.on_audit)
    build.build_index(base / "docs", name="docs", index_dir=index_dir, encoder=encoder, options=build.BuildOptions())
    return steps


def main(base: Path, copies: Path, points: list[int]) -> None:
    """Make one copy for each point and let a build die in it."""
    for fatal in points:
        index_dir = copies / str(fatal)
        if (base / "ix").exists():
            shutil.copytree(base / "ix", index_dir)
        child = os.fork()
        if child == 0:
            try:
                steps = run(base, index_dir, fatal)
                print(steps.count, *steps.blocks, flush=True)
                os._exit(0)
            finally:  # an exception must not run on in the loop above
                os._exit(1)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            sys.exit(f"the build failed at point {fatal}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [int(point) for point in sys.argv[3:]])
