"""A whole evaluation on disk, made from rules: vectors, traces, results, manifest and cache agree with each other.

Questions have a hidden ease from 0 to 1. The easier one is, the surer its draft and the likelier it is right, so every
figure of a report has a shape that can be told beforehand.
"""

from __future__ import annotations

import gzip
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

import writing_runs
from adaptrag_cli.evaluation.cache import EvaluationCache
from adaptrag_cli.evaluation.questions import Question
from adaptrag_cli.evaluation.results import (
    Cell,
    Manifest,
    SetInfo,
    StrategySpec,
    result_log,
    write_manifest,
)
from adaptrag_cli.evaluation.scoring import score_run
from adaptrag_cli.events import (
    Candidate,
    ChunksSelected,
    Counts,
    DecisionMade,
    Event,
    GenerationFinished,
    PathRetrieved,
    PromptBuilt,
    PseudoContextWritten,
    RankedChunk,
    RunFinished,
    RunStarted,
    Setting,
    StageTime,
    TokenGenerated,
    UncertaintyMeasured,
    encode_event,
)
from laws import check_laws

STRATEGIES = ("never", "always", "dtr", "dtr:gate=false", "pairs", "dpr-ais")
THRESHOLD = 0.5
_DIMENSION = 8
_PER_PATH = 5
_KEPT = 3
_CHUNKS = 12
_SECONDS = {"draft": 0.6, "second_draft": 0.7, "pseudo_context": 2.0, "answer": 1.5}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question with everything that decides what happens to it."""

    question: Question
    ease: float
    uncertainty: float
    is_draft_right: bool
    finds_more: bool
    """Whether the answer from documents is right."""
    query: np.ndarray
    pseudo_context: np.ndarray
    chunks: np.ndarray
    gold: int


def write_run(
    folder: Path,
    *,
    model: str = "small-0.5b",
    strategies: Sequence[str] = STRATEGIES,
    sets: Sequence[tuple[str, int]] = (("hotpotqa", 40), ("popqa", 40)),
    skill: float = 0.0,
    hostile: bool = False,
) -> Path:
    """Write a run: `skill` makes drafts surer and righter; `hostile` puts markup and controls into its texts."""
    folder.mkdir(parents=True, exist_ok=True)
    specs = tuple(_spec(label) for label in strategies)
    asked = {name: _questions(name, count, skill, hostile) for name, count in sets}
    manifest = Manifest(
        created="2026-01-02T03:04:05+00:00",
        adaptrag_version="0.3.0",
        versions={"llama-cpp-python": "0.3.36", "numpy": "2.0.0"},
        machine="Linux x86_64",
        seed=0,
        limit=40,
        sets=tuple(
            SetInfo(
                name=name,
                format="adaptrag",
                fingerprint=f"sha256:{name}",
                questions=tuple(a.question.id for a in questions),
                digests=tuple(a.question.id for a in questions),
            )
            for name, questions in asked.items()
        ),
        strategies=specs,
        cells=(_cell(model, specs, tuple(asked)),),
        cache="cache.sqlite",
    )
    write_manifest(folder, manifest)
    _write_cache(folder / "cache.sqlite", manifest.cells[0], asked)
    log = result_log(folder)
    for name, questions in asked.items():
        for number, one in enumerate(questions):
            for spec in specs:
                events = _events(one, spec)
                name_of_folder = spec.label.replace(":", "_")
                trace = Path("traces", "base", name, name_of_folder, f"{number}.jsonl.gz")
                (folder / trace).parent.mkdir(parents=True, exist_ok=True)
                lines = b"".join(encode_event(event) + b"\n" for event in events)
                (folder / trace).write_bytes(gzip.compress(lines, mtime=0))
                scored = score_run(events, one.question, cell="base", set_name=name, label=spec.label, trace=str(trace))
                log.append(msgspec.structs.replace(scored, gold_chunks=(_chunk_id(one, one.gold),)))
    log.close()
    return folder


def _spec(label: str) -> StrategySpec:
    strategy, *options = label.split(":")
    return StrategySpec(
        label=label, strategy=strategy, overrides={f"ask.{o.split('=')[0]}": o.split("=")[1] for o in options}
    )


def _cell(model: str, specs: Sequence[StrategySpec], sets: Sequence[str]) -> Cell:
    def settings(spec: StrategySpec) -> tuple[Setting, ...]:
        if spec.strategy in writing_runs.WRITING:
            return writing_runs.settings_of(spec.label)
        if spec.strategy != "dtr":
            return ()
        return (Setting(name="gate", value="gate=false" not in spec.label, origin="--strategies"),)

    return Cell(
        name="base",
        model=model,
        model_fingerprint=f"sha256:{model}",
        encoder="minilm",
        encoder_identity="minilm of this run",
        indexes={name: f"index-{name}" for name in sets},
        settings={spec.label: settings(spec) for spec in specs},
        lanes=3,
        is_bit_equal=True,
    )


def _questions(set_name: str, count: int, skill: float, hostile: bool) -> list[Asked]:
    random_numbers = random.Random(f"{set_name} {skill}")
    vectors = np.random.default_rng(len(set_name))
    return [_question(set_name, number, random_numbers, vectors, skill, hostile) for number in range(count)]


def _question(
    set_name: str,
    number: int,
    chance: random.Random,
    vectors: np.random.Generator,
    skill: float,
    hostile: bool,
) -> Asked:
    ease = min(1.0, chance.random() + skill)
    query = _unit(vectors.normal(size=_DIMENSION))
    target = _unit(query + 0.9 * _unit(vectors.normal(size=_DIMENSION)))
    pseudo_context = _unit(query + target + 0.5 * _unit(vectors.normal(size=_DIMENSION)))
    noise = vectors.normal(size=(_CHUNKS, _DIMENSION))
    chunks = np.stack([_unit(query + 1.1 * _unit(row)) for row in noise])
    gold = number % _CHUNKS
    chunks[gold] = _unit(target + 0.3 * _unit(vectors.normal(size=_DIMENSION)))
    text = f"Question {number} of {set_name}?"
    if hostile:
        text += "</script><script>alert(1)</script> <b>bold</b> [red]markup[/red] \x1b[31m\u202e"
    return Asked(
        question=Question(
            id=f"{set_name}-{number}",
            text=text,
            answers=(f"answer {number}",),
            gold_ids=(f"{set_name}/{number}/{gold}",),
        ),
        ease=ease,
        uncertainty=round(math.exp(-5.0 * ease) * 3.0, 6),
        is_draft_right=chance.random() < ease**1.5,
        finds_more=chance.random() < 0.35 + 0.3 * ease,
        query=query,
        pseudo_context=pseudo_context,
        chunks=chunks,
        gold=gold,
    )


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def _write_cache(path: Path, cell: Cell, asked: dict[str, list[Asked]]) -> None:
    cache = EvaluationCache(path)
    for name, questions in asked.items():
        for one in questions:
            cache.put_text_vector(cell.encoder_identity, one.question.text, 0.008, one.query)
            for at, vector in enumerate(one.chunks):
                cache.put_chunk_vector(cell.indexes[name], _chunk_id(one, at), vector)
    cache.close()


def _document(one: Asked, at: int) -> str:
    return one.question.gold_ids[0].rsplit("/", 1)[0] + f"/{at}"


def _chunk_id(one: Asked, at: int) -> str:
    return f"{_document(one, at)}#0"


def _events(one: Asked, spec: StrategySpec) -> list[Event]:
    if spec.strategy in writing_runs.WRITING:
        return _reasoned(one, spec)
    events: list[Event] = [_started(one, spec)]
    spent: list[str] = []
    draft = one.question.answers[0] if one.is_draft_right else "answer unknown"
    found = one.question.answers[0] if one.finds_more else "no answer there"
    looks_up = True
    gate = spec.label if spec.strategy != "dtr" else "dtr" if "gate=false" not in spec.label else "ungated"
    if gate in {"never", "dtr", "pairs"}:
        events += _written("draft", draft, -one.uncertainty)
        spent.append("draft")
        events.append(UncertaintyMeasured(name="mean NLL", value=one.uncertainty))
        looks_up = {"never": False, "dtr": one.uncertainty > THRESHOLD, "pairs": one.ease < 0.5}[gate]
    if gate == "pairs":
        events += _written("pseudo_context", "a passage", -0.5)
        events += _written("second_draft", draft if not looks_up else "other", -0.5)
        spent += ["pseudo_context", "second_draft"]
    uncertainty = one.uncertainty if gate in {"never", "dtr", "pairs"} else None
    events.append(DecisionMade(retrieve=looks_up, uncertainty=uncertainty, threshold=None, reason="as the rules say"))
    kept: tuple[str, ...] = ()
    if looks_up:
        two_paths = gate != "always"
        if two_paths:
            if gate != "pairs":
                events += _written("pseudo_context", "a passage", -0.5)
                spent.append("pseudo_context")
            events.append(PseudoContextWritten(text="a passage"))
        searched, kept = _searches(one, two_paths)
        events += searched
        events += _written("answer", found, -0.4)
        spent.append("answer")
    events.append(
        RunFinished(
            answer=found if looks_up else draft,
            answer_source="documents" if looks_up else "draft",
            extraction="whole" if looks_up else "draft",
            chunk_ids=kept,
            counts=Counts(
                llm_calls=len(spent),
                searches=(1 if gate == "always" else 2) if looks_up else 0,
                prompt_tokens=40 * len(spent),
                reused_tokens=10 * len(spent),
                generated_tokens=5 * len(spent),
            ),
            timings=tuple(StageTime(stage=stage, ms=1000.0 * _SECONDS[stage]) for stage in spent),
        )
    )
    return _stamped(events)


def _reasoned(one: Asked, spec: StrategySpec) -> list[Event]:
    number = int(one.question.id.rsplit("-", 1)[1])
    chunk_id, document = _chunk_id(one, one.gold), _document(one, one.gold)
    events, answer, look_ups = writing_runs.reasoned(number, one.question.answers[0], spec.label, chunk_id, document)
    end = RunFinished(
        answer=answer,
        answer_source="documents" if look_ups else "draft",
        extraction="reasoned",
        chunk_ids=(chunk_id,) if look_ups else (),
        counts=Counts(
            llm_calls=1 + look_ups, searches=look_ups, prompt_tokens=40, reused_tokens=10, generated_tokens=8
        ),
        timings=(StageTime(stage="reasoning", ms=1500.0),),
    )
    return _stamped([_started(one, spec), *events, end])


def _stamped(events: Sequence[Event]) -> list[Event]:
    stream = [msgspec.structs.replace(e, seq=n, elapsed_ms=100.0 * n) for n, e in enumerate(events)]
    check_laws(stream)
    return stream


def _started(one: Asked, spec: StrategySpec) -> RunStarted:
    return RunStarted(
        query=one.question.text,
        strategy=spec.strategy,
        settings=(),
        model="small-0.5b",
        model_fingerprint="sha256:0",
        index="corpus",
        index_fingerprint="g1:0",
        gpu_layers_requested="auto",
        gpu_layers_used=0,
        gpu_reason="none",
        threads=2,
        context_length=4096,
        entropy_support="full",
        adaptrag_version="0.3.0",
    )


def _written(phase: str, text: str, logprob: float) -> list[Event]:
    return [
        PromptBuilt(phase=phase, text="a prompt", tokens=40),
        TokenGenerated(phase=phase, step=0, text=text, logprob=logprob, entropy=0.1),
        GenerationFinished(
            phase=phase, text=text, stop_reason="end", prompt_tokens=40, reused_tokens=10, generated_tokens=5
        ),
    ]


def _searches(one: Asked, two_paths: bool) -> tuple[list[Event], tuple[str, ...]]:
    s1, s2 = one.chunks @ one.query, one.chunks @ one.pseudo_context
    depth = _PER_PATH if two_paths else _KEPT
    found = {"query": np.argsort(-s1)[:depth].tolist()}
    scores = {"query": s1, "pseudo_context": s2}
    if two_paths:
        found["pseudo_context"] = np.argsort(-s2)[:depth].tolist()
    events: list[Event] = [
        PathRetrieved(
            path=path,
            retriever="dense",
            query_text="a text",
            chunks=tuple(
                RankedChunk(
                    chunk_id=_chunk_id(one, at),
                    document=_document(one, at),
                    location="a place",
                    title="",
                    text="a text",
                    rank=rank,
                    score=float(scores[path][at]),
                )
                for rank, at in enumerate(order, start=1)
            ),
        )
        for path, order in found.items()
    ]
    union = list(dict.fromkeys(at for order in found.values() for at in order))
    order = sorted(union, key=lambda at: -(s1[at] + s2[at]) if two_paths else -s1[at])
    candidates = tuple(
        Candidate(
            chunk_id=_chunk_id(one, at),
            document=_document(one, at),
            location="a place",
            title="",
            text="a text",
            paths=tuple(path for path in found if at in found[path]),
            query_score=float(s1[at]),
            pseudo_context_score=float(s2[at]) if two_paths else None,
            query_angle=float(np.arccos(s1[at])),
            pseudo_context_angle=float(np.arccos(s2[at])) if two_paths else None,
            ais_score=float(s1[at] + s2[at]) if two_paths else None,
            rank=rank,
            kept=rank <= _KEPT,
        )
        for rank, at in enumerate(order, start=1)
    )
    similarity = float(one.query @ one.pseudo_context) if two_paths else None
    events.append(
        ChunksSelected(
            score_name="sum" if two_paths else "query", query_pseudo_similarity=similarity, candidates=candidates
        )
    )
    return events, tuple(c.chunk_id for c in candidates if c.kept)
