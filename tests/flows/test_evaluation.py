"""Evaluations from end to end: a scripted model, a real index, results on disk."""

from __future__ import annotations

import gzip
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from adaptrag_cli.calibration import question_digest
from adaptrag_cli.config import load_settings, with_overrides
from adaptrag_cli.errors import ConfigError, RunCancelled, UnknownName
from adaptrag_cli.evaluation import plan as planning
from adaptrag_cli.evaluation.formats.reading import load_questions
from adaptrag_cli.evaluation.results import Result, RunData, read_results, read_run
from adaptrag_cli.evaluation.resume import joined, only_writer
from adaptrag_cli.evaluation.retrieval_timing import timing_rows
from adaptrag_cli.evaluation.run import evaluate
from adaptrag_cli.evaluation.scoring import score_run
from adaptrag_cli.evaluation.summary import summarise
from adaptrag_cli.index.build import BuildProgress
from adaptrag_cli.models.catalogue import find_entry
from adaptrag_cli.models.files import locate_model
from adaptrag_cli.probing.files import prober_path, write_prober
from adaptrag_cli.strategies.labels import read_labels
from adaptrag_cli.strategies.table import strategy_names
from adaptrag_cli.trace import read_trace
from fakes import ScriptedModel, reply
from laws import check_laws
from plane import PlaneEncoder
from probers import prober, sign_weights

MODEL = "qwen2.5-coder-0.5b-instruct"
CORPUS = {
    "p1": "Ottilie Brandt lit the lamp in 1887.",
    "p2": "The mooring fee is 1,500 crowns.",
    "p3": "The goats of Skarvik are brown.",
    "p4": "The harbour faces east.",
}
QUESTIONS = (
    {"id": "q1", "question": "Who lit it?", "answers": ["Ottilie Brandt"], "gold_passage_ids": ["p1"]},
    {"id": "q2", "question": "What is the fee?", "answers": ["1,500 crowns", "1500"], "gold_passage_ids": ["p2"]},
    {"id": "q3", "question": "What colour are goats?", "answers": ["brown"], "gold_passage_ids": ["p3"]},
    {"id": "q4", "question": "Which way is the sea?", "answers": ["west"], "gold_passage_ids": ["p4"]},
)
ASKS, STOPS = (3.0, 1.0, 2.0, 2.0), (1.0, 3.0, 2.0, 2.0)
"""States that `sign_weights` has looked up, and states that it has not."""
ANGLES = {"lit": 0.0, "fee": 50.0, "goats": 100.0, "harbour": 150.0, "sea": 145.0, "imagined": 20.0}


class Watcher:
    """Stops after so many answers."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.stop_after = stop_after
        self.results: list[Result] = []
        self.counts: tuple[int, int] | None = None
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def indexing(self, progress: BuildProgress) -> None:
        pass

    def began(self, total: int, done: int) -> None:
        self.counts = (total, done)

    def answered(self, result: Result) -> None:
        self.results.append(result)

    def should_stop(self) -> bool:
        return self.stop_after is not None and len(self.results) >= self.stop_after

    def cancels(self, cancel: Callable[[], None]) -> None:
        pass


def scripted() -> ScriptedModel:
    """Sure and right about the goats, sure and wrong about the sea, unsure about the rest; reads what it is given."""
    model = ScriptedModel(gives_states=True)
    model.when("Passages:", reply(" It says so.\nAnswer: Ottilie Brandt", states=STOPS))
    for words, draft, logprob in (
        ("Who lit it?", "Edison", -0.9),
        ("What is the fee?", "nothing", -0.7),
        ("What colour are goats?", "brown", -0.01),
        ("Which way is the sea?", "east", -0.02),
    ):
        model.when(f"{words}\nAnswer the question using", reply(draft, logprob=logprob))
        model.when(f"{words}\nWrite a passage", reply("An imagined passage.", logprob=-1.0))
    for words, answer, states in (
        ("Who lit it?", "Ottilie Brandt", ASKS),
        ("What is the fee?", "1,500 crowns", ASKS),
        ("What colour are goats?", "white", STOPS),
        ("Which way is the sea?", "east", STOPS),
    ):
        model.when(f"{words}</user>\n<assistant>Rationale:", reply(" I guess.\nAnswer: brown", states=states))
        model.reads(words, states)
        model.when(f"{words}\n", reply(answer))
        model.when(f"{words}</user>", reply(answer))
    return model


class World:
    """One question set with its corpus, and the models that were loaded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "lamp.questions.jsonl"
        self.data.write_text("".join(json.dumps(q) + "\n" for q in QUESTIONS), encoding="utf-8")
        lines = (json.dumps({"id": key, "title": "", "text": text}) + "\n" for key, text in CORPUS.items())
        (folder / "lamp.corpus.jsonl").write_text("".join(lines), encoding="utf-8")
        self.models: list[ScriptedModel] = []

    def load(self, *_: object, lanes: int, **__: object) -> tuple[ScriptedModel, ...]:
        self.models = [scripted() for _ in range(lanes)]
        return tuple(self.models)

    @property
    def calls(self) -> int:
        return sum(len(model.calls) for model in self.models)

    def plan(self, strategies: str = "never,always,dtr", out: str = "run", **changes: object) -> planning.Plan:
        settings = load_settings(
            flags={
                "models.answer": MODEL,
                "models.dir": self.folder / "models",
                "index.dir": self.folder / "indexes",
                "ask.top_n": 2,
                "ask.top_k": 1,
            }
        )
        given = {"lanes": 3, "limit": None, "seed": 0, "cells": planning.parse_grid([])} | changes
        return planning.Plan(
            settings=settings,
            sets=(load_questions(self.data),),
            strategies=planning.parse_strategies(strategies),
            out=self.folder / out,
            cache=self.folder / out / "cache.sqlite",
            **given,  # type: ignore[arg-type]
        )

    def evaluate(self, *args: str, resume: bool = False, watcher: Watcher | None = None, **changes: object) -> RunData:
        return evaluate(self.plan(*args, **changes), watcher or Watcher(), resume=resume)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    (tmp_path / "models").mkdir()
    with (tmp_path / "models" / find_entry(MODEL).file).open("wb") as file:
        file.truncate(find_entry(MODEL).size_bytes or 0)  # a hole of the right size
    made = World(tmp_path)
    encoder = PlaneEncoder(tmp_path / "encoder", ANGLES)
    monkeypatch.setattr("adaptrag_cli.models.llama.load_llama_lanes", made.load)
    monkeypatch.setattr("adaptrag_cli.models.encoder.load_encoder", lambda *_, **__: encoder)
    monkeypatch.setattr("adaptrag_cli.evaluation.corpora.load_encoder", lambda *_, **__: encoder)
    return made


def timeless(results: Sequence[Result]) -> list[Result]:
    return sorted((msgspec.structs.replace(r, seconds=0.0) for r in results), key=lambda r: r.key)


def test_every_strategy_answers_every_question_and_is_scored(world: World):
    run = world.evaluate()
    table = run.by_strategy(cell="base", set="lamp")
    em = {label: [int(table[label][q["id"]].em) for q in QUESTIONS] for label in ("never", "always", "dtr")}
    assert em == {"never": [0, 0, 1, 0], "always": [1, 1, 0, 0], "dtr": [1, 1, 1, 0]}
    assert [table["dtr"][q["id"]].retrieved for q in QUESTIONS] == [True, True, False, False]
    fee = table["always"]["q2"]
    assert (fee.documents, fee.recall, fee.all_gold) == (("p2",), 1.0, True)
    assert (fee.llm_calls, fee.searches) == (1, 1)
    lamp = table["dtr"]["q1"]
    assert (lamp.llm_calls, lamp.searches, lamp.uncertainty, lamp.draft) == (3, 2, pytest.approx(0.9), "Edison")
    assert {c.document for c in lamp.candidates if c.gold} == {"p1"}


def test_the_table_compares_with_standard_rag(world: World):
    never, always, dtr = summarise(world.evaluate(), cell="base", set="lamp")
    assert (never.em.mean, always.em.mean, dtr.em.mean) == (0.25, 0.5, 0.75)
    assert dtr.trigger_ratio.mean == 0.5
    assert (dtr.llm_calls, dtr.searches) == (2.0, 1.0)
    assert (dtr.em_difference.wins, dtr.em_difference.losses, dtr.em_difference.ties) == (1, 0, 3)
    assert dtr.em_difference.verdict == "inconclusive"
    assert always.em_difference is None
    assert always.consistency == 0.0, "retrieval spoils the one draft that was right"
    assert dtr.decision.f1 == pytest.approx(2 / 3)
    assert dtr.decision.auroc == 1.0
    assert never.chunks_differ == 1.0


def test_work_that_strategies_share_is_done_once(world: World):
    world.evaluate()
    # Four drafts, four answers of `always`, two pseudo-contexts, and of two dual-path answers one reads other chunks.
    assert world.calls == 4 + 4 + 2
    before = world.calls
    world.evaluate("never,always,dtr,dtr:gate=false", resume=True)
    assert world.calls == 2 + 2, "the new strategy needs the passages of two more questions, and their answers"
    assert before == 10


def test_a_trace_is_kept_for_each_answer_and_scores_the_same(world: World):
    run = world.evaluate()
    questions = {q.id: q for q in load_questions(world.data).questions}
    for result in run.results:
        events = list(read_trace(world.folder / "run" / result.trace))
        check_laws(events)
        again = score_run(
            events,
            questions[result.question_id],
            cell=result.cell,
            set_name=result.set,
            label=result.strategy,
            trace=result.trace,
        )
        assert msgspec.structs.replace(again, gold_chunks=result.gold_chunks) == result


@pytest.mark.parametrize("stop_after", [1, 4, 7])
def test_a_run_that_was_stopped_goes_on_without_loss_or_repeat(world: World, stop_after: int):
    whole = world.evaluate(out="whole")
    with pytest.raises(RunCancelled):
        world.evaluate(out="cut", watcher=Watcher(stop_after))
    assert len(read_results(world.folder / "cut")) >= stop_after
    watcher = Watcher()
    resumed = world.evaluate(out="cut", resume=True, watcher=watcher)
    assert watcher.counts == (12, 12 - len(watcher.results))
    assert timeless(resumed.results) == timeless(whole.results)


def test_a_stop_inside_a_run_changes_no_number(world: World):
    whole = world.evaluate("dtr", out="whole")
    for polls in (3, 9, 17, 30):
        watcher = Watcher()
        countdown = iter(range(polls))
        watcher.should_stop = lambda left=countdown: next(left, None) is None  # type: ignore[method-assign]
        with pytest.raises(RunCancelled):
            world.evaluate("dtr", out=f"cut{polls}", watcher=watcher)
        assert timeless(world.evaluate("dtr", out=f"cut{polls}", resume=True).results) == timeless(whole.results)


def test_no_number_depends_on_who_went_first(world: World):
    alone = world.evaluate("dtr", out="alone").results
    behind = [r for r in world.evaluate("never,always,dtr", out="behind").results if r.strategy == "dtr"]
    assert timeless(behind) == timeless(alone)


def test_what_others_computed_is_charged(world: World, monkeypatch: pytest.MonkeyPatch):
    encode = PlaneEncoder.encode_queries

    def slowly(self: PlaneEncoder, texts: Sequence[str]) -> object:
        time.sleep(0.05)
        return encode(self, texts)

    monkeypatch.setattr(PlaneEncoder, "encode_queries", slowly)
    first = world.evaluate("always").results
    again = [r for r in world.evaluate("always,dtr:gate=false", resume=True).results if r.strategy != "always"]
    assert all(result.seconds >= 0.05 for result in (*first, *again))


def test_new_strategies_join_and_the_settings_of_the_others_stay(world: World):
    world.evaluate("never,always")
    manifest = world.evaluate("dtr", resume=True).manifest
    assert set(manifest.cells[0].settings) == {"never", "always", "dtr"}
    plan = world.plan("always")
    changed = replace(plan, settings=with_overrides(plan.settings, {"ask.top_k": (2, "--top-k")}))
    with pytest.raises(ConfigError, match="asked always with other settings"):
        evaluate(changed, Watcher(), resume=True)


def test_two_runs_of_one_file_with_its_own_passages(world: World):
    context = [["Lamp", ["Ottilie Brandt lit the lamp in 1887."]], ["Fee", ["The mooring fee is 1,500 crowns."]]]
    record = {
        "_id": "h1", "question": "Who lit it?", "answer": "Ottilie Brandt", "type": "bridge", "level": "easy",
        "supporting_facts": [["Lamp", 0]], "context": context,
    }  # fmt: skip
    world.data = world.folder / "hot.json"
    world.data.write_text(json.dumps([record]), encoding="utf-8")
    runs = [world.evaluate("always", out=name) for name in ("first", "second")]
    assert [r.recall for run in runs for r in run.results] == [1.0, 1.0]
    assert not (world.folder / "indexes").exists(), "the user's own indexes are left alone"


def test_labels_of_the_questions_that_are_asked_are_refused(world: World):
    world.evaluate()
    plan = world.plan("skr-knn", out="routed")
    labelled = with_overrides(plan.settings, {"ask.labels": (world.folder / "run", "--labels")})
    with pytest.raises(ConfigError, match="4 of the 4 questions stand in --labels"):
        evaluate(replace(plan, settings=labelled), Watcher(), resume=False)


def test_what_a_strategy_lacks_is_told_before_anything_is_loaded(world: World):
    by_labels = [(name, "--labels RUN") for name in ("skr-knn", "adaptive-rag", "popularity")]
    for name, lack in (*by_labels, ("dtr+verify", "calibrate")):
        with pytest.raises(ConfigError, match=f"{re.escape(name)} cannot be asked: it needs .*{lack}"):
            world.evaluate(name, out=name)
    for name in ("probing", "uar"):
        with pytest.raises(ConfigError, match=f"{name} cannot be asked: no prober was trained .*: adaptrag probe"):
            world.evaluate(name, out=name)
    assert world.models == []
    plan = world.plan()
    specs, missing = planning.all_strategies(plan.settings, plan.sets)
    lacking = [line.split()[0] for line in missing]
    assert lacking == ["probing", "uar", "skr-knn", "adaptive-rag", "popularity", "dtr+verify"]
    assert [spec.label for spec in specs] == [name for name in strategy_names() if name not in lacking]


def test_questions_that_a_prober_was_trained_on_are_refused(world: World):
    models = world.folder / "models"
    digests = [question_digest(question["question"]) for question in QUESTIONS[:3]]
    made = {"model_fingerprint": locate_model(MODEL, models).fingerprint, "report": {"question_digests": digests}}
    write_prober(prober_path(models, "text"), prober(**made))
    with pytest.raises(ConfigError, match="3 of the 4 questions were used to train prober 'text', and probing would"):
        world.evaluate("never,probing")


def test_probers_decide_as_they_do_outside(world: World):
    models = world.folder / "models"
    fingerprint = locate_model(MODEL, models).fingerprint
    made = {"width": 4, "layer_count": 2, "layers": {1: sign_weights(4)}, "model_fingerprint": fingerprint}
    write_prober(prober_path(models, "text"), prober(**made))
    write_prober(prober_path(models, "asked"), prober(kind="question", **made))
    run = world.evaluate("never,probing,uar")
    table = run.by_strategy(cell="base", set="lamp")
    for label, costs in (("probing", (2, 1, 1)), ("uar", (1, 1, 1))):
        results = [table[label][q["id"]] for q in QUESTIONS]
        assert [result.failure for result in results] == [""] * 4
        assert [result.retrieved for result in results] == [True, True, False, False], label
        assert [(r.llm_calls, r.searches, r.look_ups) for r in results] == [costs, costs, (1, 0, 0), (1, 0, 0)]
    assert [table["probing"][q["id"]].prediction for q in QUESTIONS] == [*["Ottilie Brandt"] * 2, "brown", "brown"]
    assert [setting.value for setting in run.manifest.cells[0].settings["uar"] if setting.name == "prober"] == ["asked"]
    assert {row.strategy: row.trigger_ratio.mean for row in summarise(run, cell="base", set="lamp")} == {
        "never": 0.0,
        "probing": 0.5,
        "uar": 0.5,
    }
    (timed,) = timing_rows(run, cell="base", set="lamp")
    assert (timed.strategy, timed.look_ups.mean, timed.degenerate) == ("probing", 0.5, "")
    alone = world.evaluate("never,probing,uar", out="alone", lanes=1)
    assert timeless(alone.results) == timeless(run.results)


def test_a_file_in_place_of_the_folder_is_told(world: World):
    (world.folder / "run").write_text("x")
    with pytest.raises(ConfigError, match="cannot be a run's folder"):
        world.evaluate()


def test_a_line_that_a_kill_cut_off_is_asked_again(world: World):
    whole = world.evaluate()
    path = world.folder / "run" / "results.jsonl"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - 40])
    resumed = world.evaluate(resume=True)
    assert timeless(resumed.results) == timeless(whole.results)
    assert len(path.read_bytes().splitlines()) == 12


def test_a_batch_gives_the_results_of_one_by_one(world: World):
    together = world.evaluate(out="three", lanes=3)
    one_by_one = world.evaluate(out="one", lanes=1)
    assert timeless(together.results) == timeless(one_by_one.results)


def test_a_folder_is_continued_only_when_asked_and_with_the_same_questions(world: World):
    world.evaluate()
    with pytest.raises(ConfigError, match="holds an evaluation already"):
        world.evaluate()
    world.data.write_text(json.dumps(QUESTIONS[0]) + "\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="asks other questions"):
        world.evaluate(resume=True)


def test_other_settings_are_refused_in_the_same_folder(world: World):
    world.evaluate()
    plan = world.plan()
    changed = replace(plan, settings=with_overrides(plan.settings, {"ask.top_k": (2, "--top-k")}))
    with pytest.raises(ConfigError, match="asked always with other settings"):
        evaluate(changed, Watcher(), resume=True)


def test_a_model_that_was_verified_since_is_still_the_same(world: World):
    """Its fingerprint is another one then; that of another file is refused."""
    (cell,) = world.evaluate("never").manifest.cells
    file = locate_model(MODEL, world.folder / "models")
    before = msgspec.structs.replace(cell, model_fingerprint=file.fingerprint)
    assert file.fingerprint.startswith("partial:")
    verified = replace(file, fingerprint="sha256:later")
    now = msgspec.structs.replace(cell, model_fingerprint=verified.fingerprint)
    assert joined(before, now, world.folder, verified) == before
    with pytest.raises(ConfigError, match="was begun with other model"):
        joined(cell, now, world.folder, verified)


def test_a_folder_in_which_nothing_came_to_be_is_taken_away(tmp_path: Path):
    def write(out: Path, *names: str) -> None:
        with only_writer(out):
            for name in names:
                (out / name).write_bytes(b"")
            raise ConfigError("no such thing", "")

    def refused(out: Path, *names: str) -> bool:
        with pytest.raises(ConfigError):
            write(out, *names)
        return out.exists()

    assert not refused(tmp_path / "new", "cache.sqlite")
    assert refused(tmp_path / "begun", "manifest.json")
    (tmp_path / "mine").mkdir()
    assert refused(tmp_path / "mine")


def test_a_grid_runs_every_cell(world: World):
    run = world.evaluate("always", cells=planning.parse_grid(["top_k=1,2"]))
    assert [cell.name for cell in run.manifest.cells] == ["top_k=1", "top_k=2"]
    kept = {r.cell: len(r.documents) for r in run.results if r.question_id == "q1"}
    assert kept == {"top_k=1": 1, "top_k=2": 2}


def test_a_set_without_a_corpus_is_refused_for_strategies_that_need_one(world: World):
    (world.folder / "lamp.corpus.jsonl").unlink()
    with pytest.raises(ConfigError, match="lamp has no corpus, and always, dtr need one"):
        world.evaluate()
    assert len(world.evaluate("never", out="memory").results) == 4


def test_questions_with_passages_of_their_own_find_no_others(world: World):
    lines = [{**q, "own_passage_ids": ["p4", "p3"]} for q in QUESTIONS]
    world.data.write_text("".join(json.dumps(q) + "\n" for q in lines), encoding="utf-8")
    run = world.evaluate("always")
    assert {d for r in run.results for d in r.documents} <= {"p3", "p4"}


def test_labels_come_from_a_run_with_memory_and_documents(world: World):
    world.evaluate()
    labels = read_labels(world.folder / "run").questions
    assert [(q.id, q.right_from_memory, q.right_from_documents) for q in sorted(labels, key=lambda q: q.id)] == [
        ("q1", False, True),
        ("q2", False, True),
        ("q3", True, False),
        ("q4", False, False),
    ]
    world.evaluate("never", out="memory")
    with pytest.raises(ConfigError, match="no question was asked both"):
        read_labels(world.folder / "memory")


def test_labels_for_adaptive_rag_need_all_three_ways(world: World):
    world.evaluate()
    plan = world.plan("adaptive-rag", out="routed")
    labelled = with_overrides(plan.settings, {"ask.labels": (world.folder / "run", "--labels")})
    with pytest.raises(ConfigError, match=r"no question of --labels .* was asked never, always and ircot"):
        evaluate(replace(plan, settings=labelled), Watcher(), resume=False)
    world.evaluate("never,always,ircot:reader=direct", out="three")
    labels = read_labels(world.folder / "three").questions
    # No way is right about q4, which is no multi-hop question by its set.
    assert [q.simplest for q in sorted(labels, key=lambda q: q.id)] == ["always", "always", "never", "always"]


def test_few_labels_with_a_popularity_are_told(world: World):
    known = [{**question, "meta": {"s_pop": 100}} for question in QUESTIONS]
    world.data.write_text("".join(json.dumps(q) + "\n" for q in known), encoding="utf-8")
    world.evaluate("never,always")
    other = {**known[0], "id": "other", "question": "Again: Who lit it?"}
    world.data.write_text(json.dumps(other) + "\n", encoding="utf-8")
    plan = world.plan("popularity,skr-knn", out="routed")
    labelled = with_overrides(plan.settings, {"ask.labels": (world.folder / "run", "--labels")})
    watcher = Watcher()
    evaluate(replace(plan, settings=labelled), watcher, resume=False)
    assert [note for note in watcher.notes if "popularity" in note] == [
        "warning: popularity sets its limits by 4 labelled questions with a known popularity: with fewer than 40 they "
        "are mostly chance"
    ]


def test_a_folder_that_holds_another_grid_is_told(world: World):
    world.evaluate("never", cells=planning.parse_grid(["top_k=1,2"]))
    watcher = Watcher()
    run = world.evaluate("never", cells=planning.parse_grid(["top_k=1,3"]), resume=True, watcher=watcher)
    assert [cell.name for cell in run.manifest.cells] == ["top_k=1", "top_k=2", "top_k=3"]
    assert watcher.notes[0] == f"{world.folder / 'run'} also holds answers of top_k=2, which stay"


def test_labels_come_from_one_cell_and_the_first_line_of_a_question(world: World):
    world.evaluate("never,always", cells=planning.parse_grid(["top_k=1,2"]))
    folder = world.folder / "run"
    of_model = read_run(folder).manifest.cells[0].model_fingerprint
    with pytest.raises(ConfigError, match=r"labels of several models or settings \(top_k=1, top_k=2\), and 2 of them"):
        read_labels(folder, model_fingerprint=of_model)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["cells"][1]["model_fingerprint"] = "sha256:other"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    expected = read_labels(folder, model_fingerprint=of_model)
    assert len(expected.questions) == 4
    assert expected.model_fingerprint == of_model
    assert read_labels(folder, model_fingerprint="sha256:other").model_fingerprint == "sha256:other"
    lines = (folder / "results.jsonl").read_text().splitlines()
    doubled = [{**json.loads(line), "em": 1.0, "query": "Another?"} for line in lines]
    with (folder / "results.jsonl").open("a") as file:
        file.write("\n" + "".join(f"{json.dumps(line)}\n\n" for line in doubled))
    assert read_labels(folder, model_fingerprint=of_model) == expected


def test_the_manifest_says_what_was_measured(world: World):
    manifest = read_run_after(world).manifest
    assert manifest.sets[0].questions == ("q1", "q2", "q3", "q4")
    assert [spec.label for spec in manifest.strategies] == ["never", "always", "dtr"]
    cell = manifest.cells[0]
    assert (cell.lanes, cell.is_bit_equal) == (3, True)
    assert {row.name for row in cell.settings["always"]} >= {"top_k", "retriever"}
    assert "llama-cpp-python" in manifest.versions


def read_run_after(world: World) -> RunData:
    world.evaluate()
    return read_run(world.folder / "run")


def test_traces_are_compressed(world: World):
    run = world.evaluate("never")
    data = (world.folder / "run" / run.results[0].trace).read_bytes()
    assert json.loads(gzip.decompress(data).split(b"\n")[0])["kind"] == "run_started"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nevr", "unknown strategy 'nevr'; did you mean 'never'"),
        ("never,never", "names 'never' twice"),
        ("", "names none"),
        ("dtr:gate", "'gate' has no value"),
        ("dtr:gates=false", "unknown setting of --strategies 'gates'; did you mean 'gate'"),
        ("dtr:model=other", "unknown setting of --strategies 'model'"),
        ("never:top_k=3", "'top_k' changes nothing with never"),
    ],
)
def test_wrong_strategies_are_told(text: str, message: str):
    with pytest.raises((ConfigError, UnknownName), match=message):
        planning.parse_strategies(text)


@pytest.mark.parametrize("texts", [["top_k"], ["top_k="], ["topk=3"], ["top_k=1", "top_k=2"], ["name=a"]])
def test_wrong_grids_are_told(texts: list[str]):
    with pytest.raises(ConfigError):
        planning.parse_grid(texts)
