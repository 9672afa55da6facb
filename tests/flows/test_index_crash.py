"""A build that is killed at any step leaves an index that answers, and the next run continues where it died."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from adaptrag_cli.index import home
from adaptrag_cli.index.build import BuildOptions, IndexReport, build_index
from adaptrag_cli.index.embedding_log import EmbeddingLog
from adaptrag_cli.index.generation import DATA_FILES
from index_fakes import HashEncoder, vector_of

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked process")

DRIVER = Path(__file__).with_name("crash_driver.py")
POINTS = 30
OLD, NEW = 10, 23
QUESTIONS = ("ferry", "document 3", "thing 12", "changed")


def drive(base: Path, copies: Path, points: list[int]) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(DRIVER.parent.parent), str(Path.cwd())])}
    command = [sys.executable, str(DRIVER), str(base), str(copies), *map(str, points)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return done.stdout


def build(base: Path, index_dir: Path | None = None) -> IndexReport:
    encoder = HashEncoder(base / "encoder")
    return build_index(
        base / "docs", name="docs", index_dir=index_dir or base / "ix", encoder=encoder, options=BuildOptions()
    )


def answers(index_dir: Path) -> list[object]:
    """Everything that can be asked of an index, in one value."""
    store = home.open_index(index_dir, "docs")
    found: list[object] = [store.fingerprint, [store.chunk(row) for row in range(store.chunk_count)]]
    for question in QUESTIONS:
        found += [store.sparse_search(question, 10), store.dense_search(vector_of(question), 10)]
    return found


def files(index_dir: Path) -> dict[str, bytes]:
    folder = index_dir / "docs/generations" / home.open_index(index_dir, "docs").current.generation
    return {name: (folder / name).read_bytes() for name in DATA_FILES}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """An index of ten documents, and a folder that has since changed: one gone, one changed, fourteen new."""
    base = tmp_path / "base"
    docs = base / "docs"
    docs.mkdir(parents=True)
    for number in range(OLD):
        (docs / f"old{number}.txt").write_text(f"Document {number} tells of the ferry.")
    build(base)
    (docs / "old3.txt").unlink()
    (docs / "old4.txt").write_text("This one was changed.")
    for number in range(14):
        (docs / f"new{number:02}.txt").write_text(f"A new text about thing {number}.")
    return base


def test_killed_at_any_step_the_old_index_answers_and_the_next_run_continues(base: Path, tmp_path: Path) -> None:
    before = answers(base / "ix")
    steps, *blocks = map(int, drive(base, tmp_path / "whole", [10**9]).split())
    assert len(blocks) == 4
    build(base, tmp_path / "afresh")
    expected = files(tmp_path / "afresh")
    points = sorted({1 + i * (steps - 1) // (POINTS - 1) for i in range(POINTS)} | set(blocks))
    assert len(points) >= POINTS
    assert drive(base, tmp_path / "killed", points) == ""
    swapped = 0
    embedded_before = set()
    for point in points:
        copy = tmp_path / "killed" / str(point)
        home.verify_index(copy, "docs")
        is_new = home.open_index(copy, "docs").chunk_count == NEW
        if not is_new:
            assert answers(copy) == before
        with EmbeddingLog(copy / "docs", HashEncoder(base / "encoder").fingerprint) as log:
            kept = len(log)
        report = build(base, copy)
        if is_new:
            swapped += 1
            assert (report.documents_unchanged, report.chunks_embedded) == (NEW, 0)
        else:
            embedded_before.add(kept)
            assert report.chunks_embedded == 15 - kept
        assert files(copy) == expected
        leftovers = {path.name for path in (copy / "docs/generations").iterdir()}
        assert leftovers == {home.open_index(copy, "docs").current.generation}
    assert {0, 4, 8, 12, 15} == embedded_before
    assert 0 < swapped < len(points)


def test_killed_in_the_very_first_run_there_is_no_index_until_the_next(base: Path, tmp_path: Path) -> None:
    home.remove_index(base / "ix", "docs")
    steps = int(drive(base, tmp_path / "whole", [10**9]).split()[0])
    points = [1 + i * (steps - 1) // 9 for i in range(10)]
    assert drive(base, tmp_path / "killed", points) == ""
    for point in points:
        copy = tmp_path / "killed" / str(point)
        for name in home.index_names(copy):
            home.verify_index(copy, name)
        assert build(base, copy).chunks == NEW
        home.verify_index(copy, "docs")
