"""Two search paths and what is kept of them: the scores of AIS and the papers' ablations, in whole runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from adaptrag_cli import engine
from adaptrag_cli.calibration import Calibrated
from adaptrag_cli.errors import ExitCode
from adaptrag_cli.events import (
    ChunksSelected,
    DecisionMade,
    Event,
    PathRetrieved,
    PromptBuilt,
    RunFailed,
    RunFinished,
    UncertaintyMeasured,
)
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.strategies.base import Options, Resources, load_strategy
from fakes import ScriptedModel, reply
from index_fakes import FINGERPRINT, write_tokenizer
from lamp import QUERY, lamp_retriever, run, unsure_model
from laws import check_laws
from plane import plane_index

IMAGINED = "An imagined passage."


class SpaceEncoder:
    """Implements `Encoder`: the first word of the table that a text holds gives its unit vector in three dimensions."""

    fingerprint = replace(FINGERPRINT, name="space", dimension=3)

    def __init__(self, folder: Path, vectors: Mapping[str, tuple[float, float, float]]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer_path = write_tokenizer(folder / "tokenizer.json")
        self._vectors = vectors

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        found = [next(v for word, v in self._vectors.items() if word in text) for text in texts]
        return np.array(found, dtype=np.float32).reshape(-1, 3)

    encode_documents = encode_queries


def at(s1: float, s2: float) -> tuple[float, float, float]:
    """The unit vector with these products with the query (1, 0, 0) and the pseudo-context (.6, .8, 0)."""
    y = (s2 - 0.6 * s1) / 0.8
    return s1, y, (1.0 - s1**2 - y**2) ** 0.5


# METHODS 2, "overlap": D_q = A B C, D_p = B C D.
WORKED = {"Alder": at(0.90, 0.40), "Birch": at(0.85, 0.80), "Cedar": at(0.80, 0.55), "Dogwood": at(0.50, 0.95)}


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    folder = tmp_path_factory.mktemp("worked")
    encoder = SpaceEncoder(
        folder / "encoder", {QUERY.rstrip("?"): (1.0, 0.0, 0.0), "imagined": (0.6, 0.8, 0.0), **WORKED}
    )
    documents = {f"{name[0]}.txt": f"{name} is a tree." for name in WORKED}
    return Retriever(plane_index(folder, documents, encoder), encoder)


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    return lamp_retriever(tmp_path_factory.mktemp("lamp"))


def only(events: Sequence[Event], kind: type) -> Event:
    found = [event for event in events if isinstance(event, kind)]
    assert len(found) == 1, f"{len(found)} of {kind.__name__}"
    return found[0]


def model_of_pairs() -> ScriptedModel:
    model = ScriptedModel().when("detailed passage", reply(IMAGINED))
    return model.when("based on the Context", reply("<answer>a tree</answer>"))


def selected(events: Sequence[Event]) -> list[tuple[str, bool]]:
    return [(c.document.split(".")[0], c.kept) for c in only(events, ChunksSelected).candidates]


def kept(events: Sequence[Event]) -> list[str]:
    return [document for document, is_kept in selected(events) if is_kept]


def paths(events: Sequence[Event]) -> dict[str, list[str]]:
    return {e.path: [c.document.split(".")[0] for c in e.chunks] for e in events if isinstance(e, PathRetrieved)}


def cost(events: Sequence[Event]) -> tuple[int, int]:
    counts = only(events, RunFinished).counts
    return counts.llm_calls, counts.searches


def run_with_line(retriever: Retriever, line: tuple[float, float] | None) -> ChunksSelected:
    """Run dpr-ais with a fitted alpha line."""
    calibrated = Calibrated(
        model="scripted",
        model_fingerprint="",
        encoder="space",
        source="trees (4 questions)",
        labelled=True,
        questions=4,
        question_digests=(),
        alpha_line=line,
        created="2026-01-01",
        adaptrag_version="0",
    )
    use = Resources(
        model=model_of_pairs(), retriever=retriever, options=Options(ais="dynamic", top_n=3), calibrated=calibrated
    )
    ticks = count()
    events = list(
        engine.answer(engine.Run(query=QUERY), load_strategy("dpr-ais"), use, clock=lambda: next(ticks) / 1000)
    )
    check_laws(events)
    return only(events, ChunksSelected)


def test_a_union_of_four_not_six(worked):
    events = run(model_of_pairs(), worked, "dpr-ais", top_n=3, top_k=3)
    assert paths(events) == {"query": ["A", "B", "C"], "pseudo_context": ["D", "B", "C"]}
    assert selected(events) == [("B", True), ("D", True), ("A", True), ("C", False)]
    assert [c.ais_score for c in only(events, ChunksSelected).candidates] == pytest.approx(
        [0.363930, 0.204584, -0.039500, -0.061099], abs=1e-5
    )
    assert [c.paths for c in only(events, ChunksSelected).candidates] == [
        ("query", "pseudo_context"),
        ("pseudo_context",),
        ("query",),
        ("query", "pseudo_context"),
    ]


def test_the_sum_keeps_another_chunk(worked):
    events = run(model_of_pairs(), worked, "dpr-ais", top_n=3, top_k=3, ais="sum")
    assert selected(events) == [("B", True), ("D", True), ("C", True), ("A", False)]
    assert [c.ais_score for c in only(events, ChunksSelected).candidates] == pytest.approx(
        [1.65, 1.45, 1.35, 1.30], abs=1e-6
    )


def test_the_papers_line_weighs_the_angles(worked):
    # theta0 = arccos .6 = .927295, alpha = .058 * .927295 + .455 = .508783
    # B: .508783 * .554811 + .491217 * .643501 = .598377;  D: .508783 * 1.047198 + .491217 * .317560 = .688787
    # A: .508783 * .451027 + .491217 * 1.159279 = .798933; C: .508783 * .643501 + .491217 * .988432 = .812937
    chosen = run_with_line(worked, None)
    assert chosen.query_weight == pytest.approx(0.508783, abs=1e-5)
    assert [c.document[0] for c in chosen.candidates] == ["B", "D", "A", "C"]
    assert [c.ais_score for c in chosen.candidates] == pytest.approx(
        [-0.598377, -0.688787, -0.798933, -0.812937], abs=1e-5
    )


@pytest.mark.parametrize(
    ("line", "alpha", "order"),
    [
        ((0.0, 1.0), 1.0, "ABCD"),  # the query alone
        ((0.0, 0.0), 0.0, "DBCA"),  # the pseudo-context alone
        ((5.0, 0.0), 1.0, "ABCD"),  # 4.6, clipped
    ],
)
def test_a_fitted_line_takes_the_papers_place(worked, line, alpha, order):
    chosen = run_with_line(worked, line)
    assert chosen.query_weight == alpha
    assert "".join(c.document[0] for c in chosen.candidates) == order


def test_dtr_without_its_gate_drafts_nothing(retriever):
    model = unsure_model()
    events = run(model, retriever, gate=False)
    assert [e.phase for e in events if isinstance(e, PromptBuilt)] == ["pseudo_context", "answer"]
    assert not [e for e in events if isinstance(e, UncertaintyMeasured)]
    decision = only(events, DecisionMade)
    assert (decision.retrieve, decision.uncertainty, decision.threshold) == (True, None, None)
    assert decision.reason == "there is no gate"
    assert only(events, ChunksSelected).candidates == only(run(unsure_model(), retriever), ChunksSelected).candidates
    assert cost(events) == (2, 2)


# The query at 0 degrees finds lamp 20, harbour 50, fees 70; the pseudo-context at 60 finds fees 10, lamp 40, goats 90.
@pytest.mark.parametrize(
    ("selection", "expected"),
    [("1q+2p", ["lamp", "fees", "goats"]), ("2q+1p", ["lamp", "harbour", "fees"])],
)
@pytest.mark.parametrize("strategy", ["dtr", "dpr-ais"])
def test_a_fixed_number_of_each_path(retriever, strategy, selection, expected):
    model = unsure_model(model_of_pairs())
    events = run(model, retriever, strategy, selection=selection, top_n=3, top_k=1)
    assert paths(events) == {"query": ["lamp", "harbour", "fees"], "pseudo_context": ["fees", "lamp", "goats"]}
    assert kept(events) == expected  # the lamp, found by both, is taken once; top_k has no say
    chosen = only(events, ChunksSelected)
    assert chosen.score_name == "split"
    assert all(c.ais_score is None for c in chosen.candidates)
    assert only(events, RunFinished).chunk_ids == tuple(c.chunk_id for c in chosen.candidates[:3])


def test_the_pseudo_context_gives_its_next_when_its_first_is_taken(tmp_path):
    # The pseudo-context at 15 degrees finds lamp 5, fees 55, harbour 65.
    near = lamp_retriever(tmp_path, {"imagined": 15.0})
    events = run(unsure_model(), near, selection="2q+1p", top_n=3)
    assert paths(events)["pseudo_context"] == ["lamp", "fees", "harbour"]
    assert kept(events) == ["lamp", "harbour", "fees"]


def test_a_path_without_anything_new_gives_fewer(tmp_path):
    near = lamp_retriever(tmp_path, {"imagined": 15.0})
    events = run(unsure_model(), near, selection="1q+2p", top_n=1)
    assert paths(events) == {"query": ["lamp"], "pseudo_context": ["lamp"]}
    assert kept(events) == ["lamp"]


@pytest.mark.parametrize("strategy", ["dtr", "dpr-ais"])
@pytest.mark.parametrize(("path", "found"), [("query", ["lamp", "harbour"]), ("pseudo_context", ["fees", "lamp"])])
def test_one_path_is_searched_as_deep_as_both(retriever, strategy, path, found):
    model = unsure_model(model_of_pairs())
    events = run(model, retriever, strategy, paths=path, top_n=1, top_k=1)
    assert paths(events) == {path: found}  # 2 n
    # AIS still scores with the pseudo-context. Angle sums: lamp 60, fees 80, harbour 160.
    assert selected(events) == [("lamp", True), (next(d for d in found if d != "lamp"), False)]
    assert only(events, ChunksSelected).score_name == "cos"
    assert cost(events) == ((3, 1) if strategy == "dtr" else (2, 1))


def test_the_papers_depth_is_ten():
    defaults = load_strategy("dpr-ais").defaults
    assert 2 * defaults.top_n == 10
    assert (defaults.paths, defaults.selection) == ("both", "ais")


@pytest.mark.parametrize("path", ["query", "pseudo_context"])
@pytest.mark.parametrize("selection", ["1q+2p", "2q+1p"])
def test_a_split_of_one_path_is_refused(retriever, path, selection):
    failed = run(unsure_model(), retriever, selection=selection, paths=path)[-1]
    assert isinstance(failed, RunFailed)
    assert (failed.error, failed.exit_code) == ("ConfigError", ExitCode.USAGE)
    assert failed.message == f"selection {selection!r} takes chunks of two paths, and only {path!r} is searched"
