"""A run of `adaptrag deeprag synthesize` on disk: what it explores, the trees, and the trajectories taken from them.

    RUN/manifest.json        what is explored, with what: trees of two set-ups never lie in one folder
    RUN/trees.jsonl          one explored tree a line; appended durably, never rewritten
    RUN/trajectories.jsonl   one trajectory for each question that was solved (`learning/trajectories.py`)

A question is done when its tree's line is whole. Trajectories follow from the trees, so those that a kill has cost are
put back when the folder is opened to go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from adaptrag_cli import prompts
from adaptrag_cli.disk import replace_durably
from adaptrag_cli.errors import ConfigError, UnknownName
from adaptrag_cli.evaluation.results import MANIFEST, SetInfo
from adaptrag_cli.events import Record, Scalar
from adaptrag_cli.json_lines import RecordLog, read_records
from adaptrag_cli.learning.trajectories import Trajectory, make_trajectory, write_trajectories
from adaptrag_cli.learning.tree import Calls, Ending, Node, Outcome, Paths, Tree, choose_path
from adaptrag_cli.stepwise.narrative import Narrative, NarrativeStep

FORMAT = 1
TREES = "trees.jsonl"
TRAJECTORIES = "trajectories.jsonl"
_TAKE_OUT = "take the line out: synthesize --resume explores its question again"
_DEEPEST = 200
"""Steps of a path: far more than anyone asks for."""
_MAKE_ONE = "make one with: adaptrag deeprag synthesize --data FILE --out RUN"
RunKey = tuple[str, str]
"""Set and question."""


class SynthesisManifest(Record, frozen=True, kw_only=True):
    """What the trees of a folder are of."""

    format: int = FORMAT
    created: str
    adaptrag_version: str
    versions: dict[str, str]
    """Of the libraries that decide texts."""
    model: str
    """Gives the answers from memory."""
    model_fingerprint: str
    adapter: str = ""
    teacher: str
    """Writes sub-queries and answers from documents; the model itself where no other was named."""
    teacher_fingerprint: str
    seed: int
    limit: int | None
    paths: Paths
    """Which of the right paths became trajectories."""
    whole: bool
    """Whether trees were explored beyond their first right path."""
    max_steps: int
    max_expansions: int
    sets: tuple[SetInfo, ...]
    indexes: dict[str, str]
    """Index fingerprint by question set."""
    settings: dict[str, Scalar]
    """What else decides a text: prompt, lengths, and how passages are searched."""

    @property
    def keys(self) -> tuple[RunKey, ...]:
        """Every question that is asked, in order."""
        return tuple((info.name, question) for info in self.sets for question in info.questions)


@dataclass(frozen=True, kw_only=True)
class Explored:
    """A question's tree, and what it took."""

    set: str
    question_id: str
    golds: tuple[str, ...]
    tree: Tree
    seconds: float

    @property
    def key(self) -> RunKey:
        return (self.set, self.question_id)


class _StoredNode(Record, frozen=True, kw_only=True):
    """A node with the last of its steps; its sub-query is the parent's, and whether it looks up its path's end."""

    path: str
    passages: tuple[str, ...] = ()
    answer: str = ""
    outcome: Outcome
    sub_query: str = ""
    final: str = ""
    ending: Ending = ""
    popped: int = 0


class _StoredTree(Record, frozen=True, kw_only=True):
    """A line of the file of trees."""

    set: str
    question_id: str
    question: str
    golds: tuple[str, ...]
    nodes: tuple[_StoredNode, ...]
    calls: dict[str, int]
    is_cut: bool
    seconds: float


class SynthesisLog:
    """The trees and trajectories of a folder, appended durably one question at a time."""

    def __init__(self, folder: Path, manifest: SynthesisManifest) -> None:
        """Go on where the last writer was stopped.

        Raises:
            ConfigError: a line of the trees is broken.
        """
        self._manifest = manifest
        self.explored = list(_read_lines(folder))
        self._done = {explored.key for explored in self.explored}
        found = (trajectory_of(explored, manifest.paths, manifest.seed) for explored in self.explored)
        write_trajectories(folder / TRAJECTORIES, (trajectory for trajectory in found if trajectory is not None))
        self._trees = RecordLog(folder / TREES)
        self._trajectories = RecordLog(folder / TRAJECTORIES)

    @property
    def done(self) -> Set[RunKey]:
        """The questions whose tree is there."""
        return self._done

    def append(self, explored: Explored) -> None:
        """Write a tree, and its trajectory where it was solved, through to the disk."""
        if explored.key in self._done:
            raise ValueError(f"tree {explored.key} is there already")
        self._trees.append(_stored(explored))
        self.explored.append(explored)
        self._done.add(explored.key)
        trajectory = trajectory_of(explored, self._manifest.paths, self._manifest.seed)
        if trajectory is not None:
            self._trajectories.append(trajectory)

    def close(self) -> None:
        self._trees.close()
        self._trajectories.close()


def trajectory_of(explored: Explored, paths: Paths, seed: int) -> Trajectory | None:
    """What a tree gives to learn; None where nothing was right."""
    node = choose_path(explored.tree, paths, seed=seed)
    if node is None:
        return None
    return make_trajectory(
        prompts.follow_ups(explored.tree.question),
        Narrative(steps=node.steps, final=node.final),
        question_id=explored.question_id,
    )


def write_run(folder: Path, manifest: SynthesisManifest) -> None:
    """Write a manifest whole or not at all."""
    replace_durably(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")


def read_run(folder: Path) -> SynthesisManifest:
    """Read what a folder's trees are of.

    Raises:
        ConfigError: it holds none, or they are of another version.
    """
    path = folder / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=SynthesisManifest)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ConfigError(f"{folder} holds no run of deeprag synthesize", _MAKE_ONE) from error
    except (msgspec.DecodeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{path} is no manifest of deeprag synthesize: {reason}", _MAKE_ONE) from error
    if manifest.format != FORMAT:
        raise ConfigError(f"{path} is of format {manifest.format}, and this version reads {FORMAT}", _MAKE_ONE)
    return manifest


def read_explored(folder: Path) -> tuple[Explored, ...]:
    """Read all whole trees, in the order of the manifest.

    Raises:
        ConfigError: the folder holds no run, or a line is broken.
    """
    order = {key: number for number, key in enumerate(read_run(folder).keys)}
    found = (explored for explored in _read_lines(folder) if explored.key in order)
    return tuple(sorted(found, key=lambda explored: order[explored.key]))


def find_explored(folder: Path, question_id: str) -> Explored:
    """The tree of a question, named by its id or the beginning of one, or as `set/id` where several sets have it.

    Raises:
        ConfigError: there is none, or more than one.
    """
    explored = read_explored(folder)
    named = [each for each in explored if question_id in (each.question_id, f"{each.set}/{each.question_id}")]
    if not named:
        named = [each for each in explored if each.question_id.startswith(question_id)]
        if len(named) > 1:
            raise ConfigError(
                f"{len(named)} questions have an id that begins with {question_id!r}",
                f"give more of it; list them with: adaptrag deeprag tree {folder}",
            )
    if len(named) > 1:
        raise ConfigError(
            f"several sets have a question {question_id!r}",
            f"name it {' or '.join(f'{each.set}/{each.question_id}' for each in named)}",
        )
    if not named:
        raise UnknownName(
            "question",
            question_id,
            [each.question_id for each in explored],
            f"list them with: adaptrag deeprag tree {folder}",
        )
    return named[0]


def require_same(out: Path, before: SynthesisManifest, now: SynthesisManifest) -> None:
    """Refuse to put trees of two set-ups into one folder.

    Raises:
        ConfigError: naming what differs.
    """
    for name in SynthesisManifest.__struct_fields__:
        if name in {"created", "adaptrag_version"} or getattr(before, name) == getattr(now, name):
            continue
        key, value = name, getattr(before, _NAMED_BY.get(name, name))
        if name in {"settings", "versions"}:
            later = getattr(now, name)
            key = next((each for each in later if value.get(each) != later[each]), name)
            value = value.get(key)
        is_typed = name != "versions" and key not in _NOT_TYPED
        what = _TOLD.get(key, f"--{key.replace('_', '-')}" if is_typed else key)
        told = f"it was {value}: give that" if isinstance(value, str | int) else "give what it was begun with"
        raise ConfigError(f"{out} was begun with other {what}", f"{told}, or another --out")


_NAMED_BY: Mapping[str, str] = {"model_fingerprint": "model", "teacher_fingerprint": "teacher"}
"""Fields that nobody types, and the ones by which they are told."""
_NOT_TYPED = frozenset({"prompt", "conclusion_tokens", "format", "whole"})


_TOLD: Mapping[str, str] = {
    "model_fingerprint": "--model",
    "teacher_fingerprint": "--teacher",
    "sets": "questions (--data, --limit or --seed)",
    "indexes": "index",
}


def _stored(explored: Explored) -> _StoredTree:
    tree = explored.tree
    return _StoredTree(
        set=explored.set,
        question_id=explored.question_id,
        question=tree.question,
        golds=explored.golds,
        nodes=tuple(_stored_node(node) for node in tree.nodes.values()),
        calls=asdict(tree.calls),
        is_cut=tree.is_cut,
        seconds=explored.seconds,
    )


def _stored_node(node: Node) -> _StoredNode:
    last = node.steps[-1] if node.steps else NarrativeStep(sub_query="")
    return _StoredNode(
        path=node.path,
        passages=last.passages,
        answer=last.answer,
        outcome=node.outcome,
        sub_query=node.sub_query,
        final=node.final,
        ending=node.ending,
        popped=node.popped,
    )


def _explored(stored: _StoredTree) -> Explored:
    """A tree as it was explored.

    Raises:
        ValueError: a node has no path of steps, or no parent that asks for it.
    """
    tree = Tree(question=stored.question, calls=Calls(**stored.calls), is_cut=stored.is_cut)
    for node in stored.nodes:
        if len(node.path) > _DEEPEST or set(node.path) - {"D", "R"}:
            raise ValueError(f"{node.path[:_DEEPEST]!r} is no path")
        parent = tree.nodes.get(node.path[:-1])
        if node.path and (parent is None or not parent.sub_query):
            raise ValueError(f"node {node.path!r} has no parent")
        steps = parent.steps if parent else ()
        if parent is not None and node.path:
            retrieve = node.path.endswith("R")
            last = NarrativeStep(
                sub_query=parent.sub_query, retrieve=retrieve, passages=node.passages, answer=node.answer
            )
            steps = (*steps, last)
        tree.nodes[node.path] = Node(
            path=node.path,
            steps=steps,
            outcome=node.outcome,
            sub_query=node.sub_query,
            final=node.final,
            ending=node.ending,
            popped=node.popped,
        )
    if "" not in tree.nodes:
        raise ValueError("it has no root")
    return Explored(
        set=stored.set, question_id=stored.question_id, golds=stored.golds, tree=tree, seconds=stored.seconds
    )


def _read_lines(folder: Path) -> tuple[Explored, ...]:
    """The trees that have a whole line.

    Raises:
        ConfigError: a line is broken.
    """
    decoder = msgspec.json.Decoder(_StoredTree)
    found: dict[RunKey, Explored] = {}
    trees = read_records(folder / TREES, lambda line: _explored(decoder.decode(line)), what="no tree", hint=_TAKE_OUT)
    for explored in trees:
        found.setdefault(explored.key, explored)
    return tuple(found.values())
