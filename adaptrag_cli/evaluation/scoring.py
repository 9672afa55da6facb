"""From the events of one run and its question to one `Result`. A pure function: traces can be scored again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from adaptrag_cli.answers import normalise_answer, tagged_answer
from adaptrag_cli.evaluation.metrics import (
    all_gold_at_k,
    answer_in_text,
    contains_gold,
    exact_match,
    f1,
    f1_first_gold,
    recall_at_k,
)
from adaptrag_cli.evaluation.questions import Question
from adaptrag_cli.evaluation.results import Result, ScoredChunk
from adaptrag_cli.events import (
    ChunksSelected,
    Counts,
    DecisionMade,
    Event,
    EvidenceJudged,
    GenerationFinished,
    PathName,
    PathRetrieved,
    Phase,
    PromptBuilt,
    PseudoContextWritten,
    RunFailed,
    RunFinished,
    UncertaintyMeasured,
    WarningRaised,
)
from adaptrag_cli.run_summary import RunSummary, fold
from adaptrag_cli.stepwise.timing import FirstTrigger

_CLOSED = frozenset({"yes", "no", "maybe"})
_OUT_OF_FORM = frozenset({"not_in_form", "empty_step"})
"""Warnings of steps that did not keep to their form."""
_ASKED_FOR: frozenset[Phase] = frozenset({"answer", "draft"})
"""Phases that come after steps which did not come to an answer: they were used up, asked again, or asked nothing."""
_Kind = TypeVar("_Kind", bound=Event)


def score_run(
    events: Sequence[Event], question: Question, *, cell: str, set_name: str, label: str, trace: str
) -> Result:
    """Score a finished run against its question's gold answers and passages."""
    end = events[-1]
    finished = end if isinstance(end, RunFinished) else None
    answer = finished.answer if finished is not None and finished.answer_source != "none" else ""
    counts = finished.counts if finished is not None else Counts()
    draft = _draft(events)
    selected = _last(events, ChunksSelected)
    # Methods that look up while they write decide again and again, at last for nothing more.
    retrieved = any(isinstance(event, DecisionMade) and event.retrieve for event in events)
    kept = [c for c in selected.candidates if c.kept] if selected is not None else []
    documents = tuple(c.document for c in kept)
    judged = _last(events, EvidenceJudged)
    run = fold(events)
    asked = _asked(run)
    measured = next((e for e in events if isinstance(e, UncertaintyMeasured)), None)
    pseudo_context = _last(events, PseudoContextWritten)
    return Result(
        cell=cell,
        set=set_name,
        strategy=label,
        question_id=question.id,
        query=question.text,
        golds=question.answers,
        meta=dict(question.meta),
        prediction=answer,
        source=finished.answer_source if finished is not None else "none",
        failure=end.message if isinstance(end, RunFailed) else "",
        em=float(exact_match(answer, question.answers)),
        f1=f1(answer, question.answers),
        f1_first_gold=f1_first_gold(answer, question.answers),
        acc=float(contains_gold(answer, question.answers)),
        retrieved=retrieved,
        uncertainty=measured.value if measured is not None else None,
        draft=draft,
        draft_em=None if draft is None else float(exact_match(draft, question.answers)),
        draft_f1=None if draft is None else f1(draft, question.answers),
        answer_uncertainty=judged.answer_uncertainty if judged is not None else None,
        documents=documents,
        recall=_recall(question, documents, [c.text for c in kept]) if retrieved else None,
        all_gold=all_gold_at_k(documents, question.gold_ids, question.gold_sets) if retrieved else None,
        candidates=_candidates(events, selected, question),
        query_pseudo_similarity=selected.query_pseudo_similarity if selected is not None else None,
        query_weight=selected.query_weight if selected is not None else None,
        pseudo_context=pseudo_context.text if pseudo_context is not None else None,
        look_ups=len(run.rounds),
        sub_queries=None if asked is None else len(asked),
        asked=asked or (),
        well_formed=None if asked is None else _is_well_formed(events),
        triggers=sum(each.decision.threshold is not None for each in run.rounds),
        first_trigger=_first_trigger(run),
        entropies=_first_entropies(run),
        llm_calls=counts.llm_calls,
        searches=counts.searches,
        prompt_tokens=counts.prompt_tokens,
        reused_tokens=counts.reused_tokens,
        generated_tokens=counts.generated_tokens,
        seconds=round(sum(stage.ms for stage in finished.timings) / 1000.0, 4) if finished is not None else 0.0,
        trace=trace,
    )


def _last(events: Sequence[Event], kind: type[_Kind]) -> _Kind | None:
    return next((event for event in reversed(events) if isinstance(event, kind)), None)


def _written(events: Sequence[Event], phase: Phase) -> str | None:
    texts = [event.text for event in events if isinstance(event, GenerationFinished) and event.phase == phase]
    return texts[-1].strip() if texts else None


def _draft(events: Sequence[Event]) -> str | None:
    """The answer from memory as it would have been given."""
    text = _written(events, "draft")
    asked = next((e.text for e in events if isinstance(e, PromptBuilt) and e.phase == "draft"), "")
    return tagged_answer(text) if text is not None and "<answer>" in asked else text


def _asked(run: RunSummary) -> tuple[str, ...] | None:
    """What was asked step by step, without repeats; None of strategies that do not."""
    asks_in_steps = any(setting.name == "max_steps" for setting in run.started.settings)
    return tuple(step.asked.text for step in run.steps if not step.asked.is_repeated) if asks_in_steps else None


def _is_well_formed(events: Sequence[Event]) -> bool:
    """Whether each line was of the form, each step has an answer, and the last answer was not asked for."""
    if not isinstance(events[-1], RunFinished):
        return False
    broken = any(isinstance(event, WarningRaised) and event.code in _OUT_OF_FORM for event in events)
    was_asked_for = any(isinstance(event, GenerationFinished) and event.phase in _ASKED_FOR for event in events)
    return not broken and not was_asked_for


def _first_trigger(run: RunSummary) -> FirstTrigger | None:
    if not run.rounds:
        return None
    first = run.rounds[0]
    calls = run.reasoning_calls[: first.calls]
    if first.word is None:
        return FirstTrigger(token=sum(len(call.kept_tokens) for call in calls), kept=first.kept)
    before = sum(len(call.kept_tokens) for call in calls[:-1])
    return FirstTrigger(token=before + first.word.first_step, kept=first.kept)


def _first_entropies(run: RunSummary) -> tuple[float, ...]:
    """Those of the first call, whole: what it wrote and what was then discarded."""
    looked_up_first = bool(run.rounds) and run.rounds[0].calls == 0
    if looked_up_first or not run.reasoning_calls:
        return ()
    return tuple(round(token.entropy, 4) for token in run.reasoning_calls[0].writing.tokens)


def _recall(question: Question, documents: Sequence[str], texts: Sequence[str]) -> float | None:
    """Share of gold passages that are consulted; else whether a consulted text holds an answer."""
    if question.gold_ids or question.gold_sets:
        return recall_at_k(documents, question.gold_ids, question.gold_sets)
    if all(normalise_answer(gold) in _CLOSED for gold in question.answers):
        return None  # a "no" in a text tells nothing
    return float(answer_in_text(texts, question.answers))


def _candidates(
    events: Sequence[Event], selected: ChunksSelected | None, question: Question
) -> tuple[ScoredChunk, ...]:
    if selected is None:
        return ()
    gold = {*question.gold_ids, *(passage for evidence in question.gold_sets for passage in evidence)}
    ranks = {name: _ranks(events, name) for name in ("query", "pseudo_context")}
    return tuple(
        ScoredChunk(
            chunk_id=c.chunk_id,
            document=c.document,
            query_score=c.query_score,
            pseudo_context_score=c.pseudo_context_score,
            score=c.ais_score,
            query_rank=ranks["query"].get(c.chunk_id),
            pseudo_context_rank=ranks["pseudo_context"].get(c.chunk_id),
            kept=c.kept,
            gold=c.document in gold,
        )
        for c in selected.candidates
    )


def _ranks(events: Sequence[Event], path: PathName | str) -> dict[str, int]:
    return {c.chunk_id: c.rank for e in events if isinstance(e, PathRetrieved) and e.path == path for c in e.chunks}
