"""`adaptrag deeprag synthesize | tree`: trees are explored once, survive a stop, and are listed and drawn."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from adapters import write_header
from adaptrag_cli.answers import FINAL_ANSWER_IS
from adaptrag_cli.cli.app import app
from adaptrag_cli.index.store import Freshness
from adaptrag_cli.learning.runs import TRAJECTORIES, TREES, Explored, SynthesisLog, read_run
from adaptrag_cli.learning.trajectories import read_trajectories
from adaptrag_cli.models.adapters import adapter_path
from adaptrag_cli.models.base import LabelScores, Prompt
from adaptrag_cli.models.catalogue import find_entry
from adaptrag_cli.models.files import locate_model
from adaptrag_cli.session.indexes import OpenIndex
from adaptrag_cli.stepwise.narrative import INTERMEDIATE_ANSWER
from fakes import Reply, ScriptedModel, reply
from lamp import lamp_retriever

MODEL, TEACHER = "qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-1.5b-instruct"


@dataclass
class RuleModel(ScriptedModel):
    """Asks one thing. Memory is right about fees 0, 3, 6, documents about 1, 4, 7, and nothing about 2, 5, 8."""

    load: str = ""

    def _reply_to(self, prompt: Prompt) -> Reply:
        request, _, written = prompt.text.partition("<assistant>")
        number = int(request.rpartition("fee number ")[2].partition("?")[0]) % 3
        if written in ("Follow up:", "1."):
            return reply(
                f" What is the mooring fee number {number}?" if written == "1." else " What is the mooring fee?"
            )
        if not written:
            return reply("gold" if number == 1 else "lead")  # read from passages alone
        if written.endswith("Intermediate answer:"):
            return reply(" gold" if number == ("Context:" in written) else " lead")
        return reply(f" {written.split()[-6]}")

    def label_logprobs(self, prompt: Prompt, labels) -> LabelScores:
        return LabelScores(logprobs=(-2.0, -1.0), prompt_tokens=len(prompt), reused_tokens=0)  # it is over


@dataclass
class World:
    """Model files of the right size, questions, and an open index; what is loaded follows the rule."""

    folder: Path
    models: list[RuleModel]

    @property
    def questions(self) -> Path:
        return self.folder / "fees.jsonl"

    @property
    def calls(self) -> dict[str, int]:
        """Calls by the name of the model that was loaded."""
        names = dict.fromkeys(model.load for model in self.models)
        return {name: sum(len(model.calls) for model in self.models if model.load == name) for name in names}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    (tmp_path / "models").mkdir()
    for name in (MODEL, TEACHER):
        with (tmp_path / "models" / find_entry(name).file).open("wb") as file:
            file.truncate(find_entry(name).size_bytes or 0)  # a hole of the right size
    made = World(tmp_path, [])
    lines = ({"id": f"q{n}", "question": f"What is the fee number {n}?", "answers": ["gold"]} for n in range(6))
    made.questions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    opened = OpenIndex(retriever=lamp_retriever(tmp_path), freshness=Freshness(), warnings=())

    def load_models(load, lanes, on_note):
        loaded = tuple(RuleModel(load=load.file.name) for _ in range(lanes))
        made.models.extend(loaded)
        return loaded

    monkeypatch.setenv("ADAPTRAG_MODELS_DIR", str(tmp_path / "models"))
    monkeypatch.setattr("adaptrag_cli.learning.synthesis.load_models", load_models)
    monkeypatch.setattr("adaptrag_cli.evaluation.probing.generation.open_corpus", lambda *_, **__: opened)
    monkeypatch.chdir(tmp_path)
    return made


def deeprag(*words: str) -> Result:
    return CliRunner().invoke(app, ["deeprag", *words])


def synthesize(world: World, *words: str) -> Result:
    return deeprag("synthesize", "--data", str(world.questions), "--model", MODEL, "--out", "run", *words)


def test_passages_are_read_once(world: World):
    """The path from memory is finished between the answer from documents and the end of that path."""
    synthesize(world, "--json")
    read = {INTERMEDIATE_ANSWER: [], FINAL_ANSWER_IS: []}
    for call in (call for model in world.models for call in model.calls):
        if "Context:" in call.prompt.text.partition("<assistant>")[2]:
            ending = next(ending for ending in read if call.prompt.text.endswith(ending))
            read[ending].append(call.generation.prompt_tokens - call.generation.reused_tokens)
    assert [len(each) for each in read.values()] == [6, 4]  # memory is right about two
    assert max(read[FINAL_ANSWER_IS]) < 12 < 20 < min(read[INTERMEDIATE_ANSWER])


def test_each_question_is_solved_by_its_cheapest_path(world: World):
    done = synthesize(world, "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    figures = document["figures"]
    assert (figures["asked"], figures["explored"], figures["solved"]) == (6, 6, 4)
    assert (figures["steps"], figures["retrievals"]) == ({"1": 4}, {"0": 2, "1": 2})
    assert document["manifest"]["teacher"] == document["manifest"]["model"] == MODEL
    assert "look at it with: adaptrag deeprag tree run" in done.stderr
    found = {each.question_id: each for each in read_trajectories(Path("run") / TRAJECTORIES)}
    assert {name: each.path for name, each in found.items()} == {"q0": "D", "q3": "D", "q1": "R", "q4": "R"}
    assert found["q1"].written.startswith("Follow up: What is the mooring fee?\nLet's search")
    assert found["q1"].written.endswith("Intermediate answer: gold\nSo the final answer is: gold")
    assert len(world.models) == 3  # lanes of one model
    assert all(model.is_closed for model in world.models)


def test_a_teacher_asks_and_reads_and_the_model_remembers(world: World):
    """Memory is asked first. Documents are only read where it is wrong, and the list is concluded for each path."""
    done = synthesize(world, "--teacher", TEACHER, "--json")
    assert done.exit_code == 0, done.output
    assert [model.load for model in world.models] == [MODEL, TEACHER, TEACHER]
    target, asking, reading = (model.calls for model in world.models)
    assert (len(target), len(asking), len(reading)) == (6, 6 + 6 + 4, 4)
    assert target[0].prompt.text.endswith("Follow up: What is the mooring fee number 0?\nIntermediate answer:")
    assert asking[0].prompt.text.endswith("<assistant>1.")
    assert reading[0].prompt.text.startswith("<user>What is the mooring fee number 1?\nfees: The mooring fee is")
    manifest = read_run(Path("run"))
    assert (manifest.model, manifest.teacher) == (MODEL, TEACHER)
    figures = json.loads(done.stdout)["figures"]
    assert (figures["solved"], figures["retrievals"]) == (4, {"0": 2, "1": 2})
    alone = synthesize(world, "--resume")
    assert alone.exit_code == 2 and "run was begun with other" in alone.stderr


def test_a_stopped_run_goes_on_and_asks_no_question_again(world: World):
    assert synthesize(world).exit_code == 0
    whole = (Path("run") / TREES).read_bytes()
    refused = synthesize(world)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "run holds a run already (go on with --resume, or give another --out)" in refused.stderr
    lines = whole.split(b"\n")
    (Path("run") / TREES).write_bytes(b"\n".join(lines[:4]) + b"\n" + lines[4][:20])
    before = world.calls[MODEL]
    again = synthesize(world, "--resume")
    assert again.exit_code == 0, again.output
    assert "4 of 6 questions were there already" in again.stderr
    assert (before, world.calls[MODEL] - before) == (4 + 5 + 5 + 4 + 5 + 5, 5 + 5)
    strip = [json.loads(line) | {"seconds": 0} for line in (Path("run") / TREES).read_bytes().splitlines()]
    assert strip == [json.loads(line) | {"seconds": 0} for line in whole.splitlines()]
    assert len(read_trajectories(Path("run") / TRAJECTORIES)) == 4
    loads = len(world.models)
    assert synthesize(world, "--resume").exit_code == 0
    assert len(world.models) == loads  # nothing is left to explore
    for words, what in (
        (("--max-steps", "3"), "--max-steps (it was 6: give that,"),
        (("--top-k", "1"), "--top-k (it was 3: give that,"),
        (("--teacher", TEACHER), f"--teacher (it was {MODEL}: give that,"),
        (("--limit", "3"), "--limit (give what it was begun with,"),
        (("--paths", "most"), "--paths (it was cheapest: give that,"),
    ):
        refused = synthesize(world, "--resume", *words)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert f"run was begun with other {what} or another --out)" in refused.stderr


def test_long_ids_leave_room_for_the_questions(world: World):
    """Ids that differ in their last characters alone, and are wider than a terminal."""
    lines = (
        {"id": f"{'x' * 70}{n}", "question": f"What is the fee number {n}?", "answers": ["gold"]} for n in range(2)
    )
    world.questions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert synthesize(world).exit_code == 0
    listed = deeprag("tree", "run").stdout
    assert listed.count("What is t...") == 2


def test_a_model_that_was_verified_since_goes_on(world: World, monkeypatch: pytest.MonkeyPatch):
    assert synthesize(world, "--teacher", TEACHER).exit_code == 0
    assert read_run(Path("run")).model_fingerprint.startswith("partial:")
    monkeypatch.setattr("adaptrag_cli.models.files.unchanged_hash", lambda *_: "cd" * 32)
    monkeypatch.setattr("adaptrag_cli.models.files.read_stamp", lambda *_: type("S", (), {"published": True}))
    again = synthesize(world, "--teacher", TEACHER, "--resume")
    assert again.exit_code == 0, again.output


def test_an_adapter_explores_as_it_was_trained(world: World):
    """Without worked examples; the paths that stage calibration learns from are those that strategy deeprag writes."""
    file = world.folder / "models" / find_entry(MODEL).file
    file.unlink()
    write_header(file, general__type="model")
    os.truncate(file, find_entry(MODEL).size_bytes or 0)
    base = locate_model(MODEL, file.parent).fingerprint
    told = {"adaptrag__base__name": MODEL, "adaptrag__base__fingerprint": base}
    write_header(adapter_path(world.folder / "models", "mine"), **told)
    done = synthesize(world, "--adapter", "mine", "--limit", "1")
    assert done.exit_code == 0, done.output
    assert read_run(Path("run")).settings["examples"] == 0
    assert world.models[0].calls[0].prompt.text.count("Question:") == 1
    asked = synthesize(world, "--adapter", "mine", "--limit", "1", "--examples", "2", "--resume")
    assert "run was begun with other --examples (it was 0: give that," in asked.stderr


@pytest.mark.parametrize(("paths", "learned"), [("cheapest", "D"), ("most", "R")])
def test_which_right_path_is_learned(world: World, monkeypatch: pytest.MonkeyPatch, paths: str, learned: str):
    monkeypatch.setattr("adaptrag_cli.learning.synthesis.exact_match", lambda answer, golds: True)
    assert synthesize(world, "--limit", "1", "--paths", paths).exit_code == 0
    (found,) = read_trajectories(Path("run") / TRAJECTORIES)
    assert found.path == learned
    assert read_run(Path("run")).whole is (paths != "cheapest")


def test_ctrl_c_keeps_the_trees_that_are_there(world: World, monkeypatch: pytest.MonkeyPatch):
    append = SynthesisLog.append

    def interrupted(log: SynthesisLog, explored: Explored) -> None:
        append(log, explored)
        if len(log.explored) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(SynthesisLog, "append", interrupted)
        stopped = synthesize(world)
    assert stopped.exit_code == 130, stopped.output
    assert "go on with the same command and --resume" in stopped.stderr
    assert all(model.is_closed for model in world.models)
    assert len((Path("run") / TREES).read_bytes().splitlines()) == 2
    assert synthesize(world, "--resume").exit_code == 0
    assert len((Path("run") / TREES).read_bytes().splitlines()) == 6


def test_nothing_solved_is_told_and_fails(world: World):
    world.questions.write_text(json.dumps({"question": "What is the fee number 2?", "answers": ["gold"]}) + "\n")
    done = synthesize(world)
    assert done.exit_code == 1
    assert "0 of 1 solved" in done.stdout
    assert "none of 1 questions was solved, so there is nothing to learn from" in done.stderr
    listed = deeprag("tree", "run")
    assert listed.exit_code == 0 and "0 of 1 solved" in listed.stdout


def test_questions_are_listed_with_path_look_ups_and_nodes(world: World):
    synthesize(world)
    done = deeprag("tree", "run")
    assert done.exit_code == 0, done.output
    rows = {line.split()[0]: line.split()[1:5] for line in done.stdout.splitlines() if line.strip().startswith("q")}
    assert rows["q0"] == ["yes", "D", "0", "3"]
    assert rows["q1"] == ["yes", "R", "1", "3"]
    assert rows["q2"][:2] == ["3", "What"]
    assert "4 of 6 solved (66.7 %)." in done.stdout
    listed = json.loads(deeprag("tree", "run", "--json").stdout)["questions"]
    assert {each["id"]: each["path"] for each in listed}["q2"] is None


def test_a_tree_is_drawn_with_its_chosen_path_marked(world: World):
    synthesize(world)
    done = deeprag("tree", "run", "q1")
    assert done.exit_code == 0, done.output
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert lines[:8] == [
        "* What is the fee number 1?",
        "asks: What is the mooring fee?",
        "├── D from memory: lead",
        "│   = lead  wrong",
        "└── * R from documents: gold",
        "    = gold  right",
        "",
        "* the cheapest right path: R, 1 look-up",
    ]
    nodes = json.loads(deeprag("tree", "run", "q1", "--json").stdout)["tree"]
    assert [(node["path"], node["outcome"], node["chosen"]) for node in nodes] == [
        ("", "asked", True),
        ("D", "wrong", False),
        ("R", "right", True),
    ]
    assert "no path is right; every path was explored" in deeprag("tree", "run", "q2").stdout


def test_what_a_model_wrote_cannot_reach_the_terminal(world: World):
    synthesize(world)
    path = Path("run") / TREES
    path.write_bytes(path.read_bytes().replace(b'"answer":"lead"', rb'"answer":"\u001b[31m[bold]x"'))
    assert "D from memory: \\x1b[31m[bold]x" in deeprag("tree", "run", "q1").stdout


def test_a_screen_opens_at_the_named_question(world: World, monkeypatch: pytest.MonkeyPatch):
    synthesize(world)
    opened = []

    class Kept:
        def __init__(self, manifest, explored, first) -> None:
            opened.append((manifest.model, len(explored), explored[first].question_id))

        def run(self) -> None: ...

    monkeypatch.setattr("adaptrag_cli.tui.trees_app.TreesApp", Kept)
    refused = deeprag("tree", "run", "q4", "--tui")
    assert (refused.exit_code, opened) == (2, [])
    assert "needs a terminal, and this is none (use: adaptrag deeprag tree run ID)" in refused.stderr
    monkeypatch.setattr("adaptrag_cli.cli.tui.require_terminal", lambda remedy: None)
    assert deeprag("tree", "run", "q4", "--tui").exit_code == 0
    assert opened == [(MODEL, 6, "q4")]
    assert "a screen prints no JSON" in deeprag("tree", "run", "--tui", "--json").stderr


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("tree", "nowhere"), 2, "nowhere holds no run of deeprag synthesize"),
        (
            ("synthesize", "--data", "fees.jsonl", "--model", MODEL, "--paths", "best"),
            2,
            "--paths 'best' names no path",
        ),
        (("synthesize", "--data", "fees.jsonl", "--model", MODEL, "--teacher", "none"), 2, "none"),
        (("synthesize", "--data", "gone.jsonl", "--model", MODEL), 2, "gone.jsonl"),
    ],
)
def test_bad_input_is_told_in_a_line(world: World, words: tuple[str, ...], code: int, message: str):
    done = deeprag(*words)
    assert done.exit_code == code, done.output
    assert message in done.stderr and len(done.stderr.strip().splitlines()) == 1
