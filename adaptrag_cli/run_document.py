"""A run as the JSON document of `--json`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

import msgspec

from adaptrag_cli.events import (
    ChunksReranked,
    DecisionMade,
    PathName,
    PathRetrieved,
    ProbeMeasured,
    Record,
    RunFinished,
)
from adaptrag_cli.run_summary import ReasoningCall, Round, RunSummary, Step, Writing


def to_document(run: RunSummary) -> dict[str, Any]:
    """The document of `--json`, with the names that the README lists. Names are added, never renamed or removed.

    Raises:
        ValueError: the run has no answer.
    """
    if run.finished is None:
        raise ValueError("only a finished run has a document")
    end = run.finished
    return {
        "query": run.started.query,
        "strategy": run.started.strategy,
        "model": run.started.model,
        "index": run.started.index,
        "answer": end.answer,
        "answer_source": end.answer_source,
        "decision": _decision_document(run.decision),
        "draft": _writing_document(run.writings.get("draft")),
        "pseudo_context": _writing_document(run.writings.get("pseudo_context")),
        "reasoning": run.reasoning or None,
        "reasoning_calls": [_reasoning_call_document(call) for call in run.reasoning_calls],
        "steps": [_step_document(step) for step in run.steps],
        "rounds": [_round_document(each) for each in run.rounds],
        "probes": [_probe_document(probe) for probe in run.probes],
        "phases": {phase: _call_document(writing) for phase, writing in run.writings.items()},
        "agreement": _pick(run.agreement, _AGREEMENT_FIELDS) if run.agreement else None,
        "paths": {name: _path_document(run.paths.get(name)) for name in get_args(PathName)},
        "reranking": [_reranking_document(reranked) for reranked in run.reranking.values()],
        "selected": [_pick(chunk, _SELECTED_FIELDS) for chunk in run.selected],
        "candidates": [_pick(chunk, _CANDIDATE_FIELDS) for chunk in run.candidates],
        "peek": _pick(run.peek, _PEEK_FIELDS) if run.peek else None,
        "sentences": [_pick(sentence, ("text", "chunk_ids", "markers")) for sentence in run.sentences],
        "evidence": _pick(run.evidence, _EVIDENCE_FIELDS) if run.evidence else None,
        "weighing": _pick(run.weighing, _WEIGHING_FIELDS) if run.weighing else None,
        "counts": msgspec.to_builtins(end.counts),
        "timings_ms": {**_stage_times(end), "total": end.elapsed_ms},
        "warnings": [_pick(warning, ("code", "message")) for warning in run.warnings],
    }


_DECISION_FIELDS = ("retrieve", "uncertainty", "threshold", "reason")
_ODDS_FIELDS = ("above", "up_to", "right", "drafts")
_AGREEMENT_FIELDS = ("rule", "first", "second", "value", "limit", "agree")
_CALL_FIELDS = ("prompt_tokens", "reused_tokens", "generated_tokens", "stop_reason")
_WEIGHING_FIELDS = ("draft_chance", "documents_chance", "floor", "chosen")
_PEEK_FIELDS = ("chunk_id", "document", "location", "score")
_PATH_FIELDS = ("chunk_id", "document", "location", "rank", "score")
_SCORE_FIELDS = ("query_score", "pseudo_context_score", "ais_score", "rank")
_SELECTED_FIELDS = ("chunk_id", "document", "location", "text", *_SCORE_FIELDS)
_CANDIDATE_FIELDS = (*_SELECTED_FIELDS, "title", "paths", "query_angle", "pseudo_context_angle", "kept")
_WORD_FIELDS = (
    "text",
    "entropy",
    "first_difference",
    "second_difference",
    "attention",
    "value",
    "threshold",
    "fires",
)
_PROBE_FIELDS = ("round", "retrieve_score", "stop_score", "theta", "rule", "retrieve", "is_undefined")
_STEP_FIELDS = ("retrieve", "reason", "answer_logprob", "search_logprob")
_EVIDENCE_FIELDS = ("supported", "answer_uncertainty", "best_query_score", "reason")


def _decision_document(decision: DecisionMade | None) -> dict[str, Any] | None:
    if decision is None:
        return None
    odds = decision.draft_odds
    return {**_pick(decision, _DECISION_FIELDS), "draft_odds": _pick(odds, _ODDS_FIELDS) if odds else None}


def _reasoning_call_document(call: ReasoningCall) -> dict[str, Any]:
    return {
        "kept": call.kept,
        "discarded": call.discarded,
        "reason": call.cut_reason,
        "words": [_pick(word, _WORD_FIELDS) for word in call.words],
    }


def _probe_document(probe: ProbeMeasured) -> dict[str, Any]:
    return {
        **_pick(probe, _PROBE_FIELDS),
        "layers": [_pick(layer, ("layer", "retrieve", "stop")) for layer in probe.layers],
    }


def _step_document(step: Step) -> dict[str, Any]:
    decided, answered = step.decided, step.answered
    return {
        "sub_query": step.asked.text,
        "is_repeated": step.asked.is_repeated,
        "decision": {**_pick(decided, _STEP_FIELDS), "log_odds": decided.log_odds} if decided else None,
        "answer": _pick(answered, ("text", "chunk_ids", "retrieved")) if answered else None,
        "round": step.round,
    }


def _round_document(each: Round) -> dict[str, Any]:
    query = each.query
    return {
        "decision": _pick(each.decision, _DECISION_FIELDS),
        "kept": each.kept,
        "word": _pick(each.word, _WORD_FIELDS) if each.word else None,
        "discarded": each.discarded,
        "probe": _probe_document(each.probe) if each.probe else None,
        "query": {
            "method": query.method,
            "text": query.text,
            "words": [_pick(word, ("text", "weight")) for word in query.words],
        }
        if query
        else None,
        "paths": {name: _path_document(path) for name, path in each.paths.items()},
        "selected": [c.chunk_id for c in each.selection.candidates if c.kept] if each.selection else [],
    }


def _pick(record: Record, names: Iterable[str]) -> dict[str, Any]:
    values = ((name, getattr(record, name)) for name in names)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values}


def _writing_document(writing: Writing | None) -> dict[str, Any] | None:
    if writing is None:
        return None
    return {
        "text": writing.text,
        "tokens": [_pick(token, ("text", "logprob", "entropy")) for token in writing.tokens],
    }


def _call_document(writing: Writing) -> dict[str, Any]:
    """A call of the model; its numbers are null where the text was handed in, or the run ended before the call did."""
    done = writing.finished
    numbers = _pick(done, _CALL_FIELDS) if done else dict.fromkeys(_CALL_FIELDS)
    return {"text": writing.text, "is_reused": writing.is_reused, **numbers}


def _reranking_document(reranked: ChunksReranked) -> dict[str, Any]:
    chunks = zip(reranked.chunk_ids, reranked.scores, strict=False)  # a trace from elsewhere may hold anything
    return {
        **_pick(reranked, ("reranker", "path", "llm_calls")),
        "chunks": [{"chunk_id": chunk_id, "score": score} for chunk_id, score in chunks],
    }


def _path_document(path: PathRetrieved | None) -> list[dict[str, Any]]:
    return [_pick(chunk, _PATH_FIELDS) for chunk in path.chunks] if path else []


def _stage_times(end: RunFinished) -> dict[str, float]:
    times: dict[str, float] = {}
    for timing in end.timings:
        times[timing.stage] = times.get(timing.stage, 0.0) + timing.ms
    return times
