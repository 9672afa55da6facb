"""A run of deeprag synthesize on disk: it is read back as it was, survives a kill, and refuses other settings."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from adaptrag_cli import prompts
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.results import SetInfo
from adaptrag_cli.learning.runs import (
    TRAJECTORIES,
    TREES,
    Explored,
    SynthesisLog,
    SynthesisManifest,
    find_explored,
    read_explored,
    read_run,
    require_same,
    write_run,
)
from adaptrag_cli.learning.trajectories import read_trajectories
from adaptrag_cli.learning.tree import Limits, Tree, explore
from explored_trees import Scripted, explored, manifest


def write(folder: Path, run: SynthesisManifest, *trees: Explored) -> None:
    folder.mkdir(exist_ok=True)
    write_run(folder, run)
    with closing(SynthesisLog(folder, run)) as log:
        for tree in trees:
            log.append(tree)


def test_a_tree_is_read_back_as_it_was(tmp_path: Path):
    run = manifest("a", "lost", "b")
    trees = [explored("a"), explored("lost", "never"), explored("b", "DD")]
    write(tmp_path, run, trees[1], trees[2], trees[0])
    assert read_run(tmp_path) == run
    assert read_explored(tmp_path) == tuple(trees)  # in the order of the manifest
    assert find_explored(tmp_path, "b") == find_explored(tmp_path, "set/b") == trees[2]


def test_each_solved_question_gives_a_trajectory_of_the_cheapest_path(tmp_path: Path):
    write(tmp_path, manifest("a", "lost"), explored("a"), explored("lost", "never"))
    (trajectory,) = read_trajectories(tmp_path / TRAJECTORIES)
    assert (trajectory.question_id, trajectory.path, trajectory.retrievals) == ("a", "DR", 1)
    assert trajectory.user_text == prompts.follow_ups("a")
    assert trajectory.written == (
        "Follow up: Who?\nIntermediate answer: memory\nFollow up: Where?\nLet's search the question in Wikipedia.\n"
        "Context:\n[1] found for Where?\nIntermediate answer: documents\nSo the final answer is: DR"
    )


def test_why_a_node_was_finished_is_kept():
    asked_again = Scripted()
    asked_again.sub_query = lambda question, steps: "Who?"
    tree = explore("q", asked_again, "no".__eq__, limits=Limits(max_steps=2, max_expansions=20))
    assert {path: node.ending for path, node in tree.nodes.items()} == {"": "", "D": "repeated", "R": "repeated"}
    endings = {node.ending for node in explored("a", "never").tree.nodes.values()}
    assert endings == {"", "steps_used_up"}


@pytest.mark.parametrize("cut", [1, 40])
def test_a_kill_costs_the_question_in_progress_alone(tmp_path: Path, cut: int):
    run = manifest("a", "b", "c")
    write(tmp_path, run, explored("a"), explored("b"))
    trees, trajectories = (tmp_path / TREES).read_bytes(), (tmp_path / TRAJECTORIES).read_bytes()
    second = trees.index(b"\n") + 1
    (tmp_path / TREES).write_bytes(trees[: second + cut])  # killed in the middle of b's tree
    assert [each.question_id for each in read_explored(tmp_path)] == ["a"]
    with closing(SynthesisLog(tmp_path, run)) as log:
        assert log.done == {("set", "a")}
        log.append(explored("b"))
    assert (tmp_path / TREES).read_bytes() == trees
    (tmp_path / TRAJECTORIES).write_bytes(trajectories[: len(trajectories) - cut])  # killed before its trajectory
    SynthesisLog(tmp_path, run).close()
    assert (tmp_path / TRAJECTORIES).read_bytes() == trajectories


def go_on(folder: Path) -> None:
    """Explore what is not there yet, as `synthesize` does."""
    run = manifest("a", "lost", "b")
    folder.mkdir(exist_ok=True)
    if not (folder / "manifest.json").exists():
        write_run(folder, run)
    with closing(SynthesisLog(folder, run)) as log:
        for question, right in (("a", "DR"), ("lost", "never"), ("b", "DD")):
            if ("set", question) not in log.done:
                log.append(explored(question, right))


def killed_at(step: int, folder: Path) -> bool:
    """Go on in a fork of this process that dies by SIGKILL before its n-th flush or rename; whether it came so far."""
    child = os.fork()
    if not child:
        done = 0

        def counted(original):
            def call(*arguments, **keywords):
                nonlocal done
                done += 1
                if done == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return original(*arguments, **keywords)

            return call

        try:
            os.fsync, os.replace = counted(os.fsync), counted(os.replace)
            go_on(folder)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked process")
def test_killed_at_any_step_it_goes_on_to_the_same_files(tmp_path: Path):
    go_on(tmp_path / "whole")
    kills = 0
    while killed_at(kills + 1, folder := tmp_path / f"killed{kills}"):
        kills += 1
        go_on(folder)
        for name in ("manifest.json", TREES, TRAJECTORIES):
            assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), f"{name} after {kills}"
    assert kills >= 5 + 3  # a flush of each tree and of two trajectories, and the two files that are replaced whole


def test_other_settings_are_refused_and_named(tmp_path: Path):
    run = manifest("a")
    require_same(tmp_path, run, msgspec.structs.replace(run, created="later", adaptrag_version="1"))
    for told, was, other in [
        ("--teacher", "large", msgspec.structs.replace(run, teacher="else")),
        ("--teacher", "large", msgspec.structs.replace(run, teacher_fingerprint="sha256:2")),
        ("--max-steps", "2", msgspec.structs.replace(run, max_steps=3)),
        ("--paths", "cheapest", msgspec.structs.replace(run, paths="most")),
        ("--top-k", "3", msgspec.structs.replace(run, settings={"top_k": 5, "prompt": "p"})),
        ("prompt", "p", msgspec.structs.replace(run, settings={"top_k": 3, "prompt": "q"})),
        ("llama-cpp-python", "1", msgspec.structs.replace(run, versions={"llama-cpp-python": "2"})),
        ("questions (--data, --limit or --seed)", "", manifest("b")),
    ]:
        with pytest.raises(ConfigError) as refused:
            require_same(tmp_path, run, other)
        assert refused.value.message == f"{tmp_path} was begun with other {told}"
        give = f"it was {was}: give that" if was else "give what it was begun with"
        assert refused.value.hint == f"{give}, or another --out"


def test_what_is_no_run_is_told(tmp_path: Path):
    with pytest.raises(ConfigError, match="holds no run of deeprag synthesize"):
        read_run(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": 1}')
    with pytest.raises(ConfigError, match="is no manifest of deeprag synthesize"):
        read_run(tmp_path)
    write(tmp_path, manifest("a"), explored("a"))
    line = (tmp_path / TREES).read_bytes()
    for broken in (
        b"{}\n",
        line.replace(b'"sub_query":"Who?"', b'"sub_query":""'),
        line.replace(b'"path":"D"', b'"path":"X"'),
    ):
        (tmp_path / TREES).write_bytes(broken)
        with pytest.raises(ConfigError, match="line 1 is no tree"):
            read_explored(tmp_path)


def test_an_unknown_question_is_told_with_its_nearest(tmp_path: Path):
    write(tmp_path, manifest("alpha"), explored("alpha"))
    with pytest.raises(ConfigError, match="did you mean 'alpha'"):
        find_explored(tmp_path, "alpa")


def test_a_beginning_of_several_ids_names_none(tmp_path: Path):
    write(tmp_path, manifest("a1", "a2", "b1"), *map(explored, ("a1", "a2", "b1")))
    assert find_explored(tmp_path, "b").question_id == "b1"
    with pytest.raises(ConfigError, match="2 questions have an id that begins with 'a'"):
        find_explored(tmp_path, "a")


def test_a_question_of_two_sets_is_named_with_its_set(tmp_path: Path):
    sets = tuple(
        SetInfo(name=name, format="ours", fingerprint="f", questions=("a",), digests=("a",)) for name in ("one", "two")
    )
    write(tmp_path, manifest(sets=sets), explored("a", name="one"), explored("a", "DD", name="two"))
    with pytest.raises(ConfigError, match="several sets") as refused:
        find_explored(tmp_path, "a")
    assert refused.value.hint == "name it one/a or two/a"
    found = find_explored(tmp_path, "two/a").tree
    assert isinstance(found, Tree) and found.cheapest is not None and found.cheapest.path == "DD"
