"""dtr+verify: weigh the draft against documents before and after looking up, as DTR's Eq. 1 says but never does.

Eq. 1: retrieving pays only if P_ret * P_gen > P_param. Algorithm (ours; every chance is a small logistic model that
`adaptrag calibrate` fitted on questions with known answers):
1. draft a0 and its uncertainty u, as in `dtr`;  P_param = chance(u, form of a0)
2. peek: one search with the query, which counts;  P_ret * P_gen = chance(u, best similarity, words of a0 in the chunks)
3. P_param > P_ret * P_gen + skip margin: a0 is the answer                                1 call, 1 search
4. else answer a1 from documents: from the chunks of step 2 (2 calls, 1 search), or on two paths as in `dtr`
   (3 calls, 3 searches), whichever served the calibration questions better
5. weigh again with what is known now: uncertainty of a1, agreement of a0 and a1, whether the chunks hold their words,
   AIS scores; give a0 if it is likelier right by more than the keep margin, else a1; neither below `--floor`

Differs from the paper:
- DTR decides by u > threshold alone, and takes a1 as it is.
- The margins fall back on looking up and on documents where the chances are close: with few calibration questions a
  small difference means nothing.
- The evidence rule of `ask` (an answer from documents that is too uncertain is not given) has no say here: the weighing
  takes its place, and `--floor` abstains.
- The chances are fitted on short answers; with `--style cited` they are rougher. Under another retriever, number of
  chunks or AIS score than they were fitted with they decide nothing: everything is looked up, documents answer, and a
  warning says so. Over an index of another encoder it is refused.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from adaptrag_cli.calibration import FittedVerifier
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.events import (
    DOCUMENTS_DO_NOT_TELL,
    AnswersWeighed,
    Candidate,
    DecisionMade,
    Event,
    EvidenceJudged,
    PathRetrieved,
    PseudoContextWritten,
)
from adaptrag_cli.retrieval import FoundChunk
from adaptrag_cli.strategies import dual_path
from adaptrag_cli.strategies.answering import ANSWER_USES, answer_from_chunks
from adaptrag_cli.strategies.base import Answer, Options, Resources
from adaptrag_cli.strategies.steps import (
    answer_with_draft,
    draft_answer,
    measure_draft,
    select_by_query,
    write_pseudo_context,
)
from adaptrag_cli.strategies.weighing import Seen, after_features, before_features, is_worth_looking_up, likelier
from adaptrag_cli.uncertainty import odds_of


@dataclass(frozen=True, kw_only=True)
class _Peek:
    """What one search with the query found."""

    found: tuple[FoundChunk, ...]
    seen: tuple[Seen, ...]


class DecideRetrieveVerify:
    """Look up where that is likelier to help, and give the likelier answer."""

    name: ClassVar[str] = "dtr+verify"
    paper: ClassVar[str] = "Decide Then Retrieve (Chen et al., 2026), Eq. 1; the weighing is ours"
    summary: ClassVar[str] = "weigh draft and documents before and after looking up (needs: adaptrag calibrate)"
    requires: ClassVar[frozenset[str]] = frozenset({"logprobs"})
    uses: ClassVar[frozenset[str]] = frozenset(
        {"floor", "retriever", "ais", "top_n", "top_k", "draft_tokens", "pseudo_context_tokens"} | ANSWER_USES
    )
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = Options()

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Draft, peek, decide, and if need be retrieve, answer and weigh."""
        verifier = _verifier(use)
        floor = use.options.floor
        draft = yield from draft_answer(query, use)
        uncertainty = yield from measure_draft(draft)
        first = draft.text.strip()
        peek = yield from _peek(query, use)
        features = before_features(query, first, uncertainty.value, peek.seen)
        draft_chance, documents_chance = verifier.draft.chance(features), verifier.before.chance(features)
        retrieve = is_worth_looking_up(draft_chance, documents_chance, margin=verifier.skip_margin, floor=floor)
        yield DecisionMade(
            retrieve=retrieve,
            uncertainty=uncertainty.value,
            threshold=None,
            reason=_reason(retrieve, draft_chance, documents_chance, floor),
            draft_odds=odds_of(uncertainty.value, use.draft_odds),
        )
        if not retrieve:
            yield AnswersWeighed(
                draft_chance=draft_chance, documents_chance=documents_chance, floor=floor, chosen="draft"
            )
            return answer_with_draft(draft)
        kept = yield from _select(query, peek.found, verifier, use)
        answer, answer_uncertainty = yield from _answer(query, kept, use)
        answered = answer.source == "documents"
        features = after_features(
            query,
            first,
            uncertainty.value,
            peek.seen,
            answer=answer.text if answered else "",
            answer_uncertainty=answer_uncertainty,
            kept=[Seen.of(chunk) for chunk in kept],
        )
        draft_chance = verifier.draft_after.chance(features)
        found = verifier.after.chance(features) if answered else None
        chosen = likelier(draft_chance, found, margin=verifier.keep_margin, floor=floor)
        yield AnswersWeighed(draft_chance=draft_chance, documents_chance=found or 0.0, floor=floor, chosen=chosen)
        if chosen == "none":
            return Answer(text=DOCUMENTS_DO_NOT_TELL, source="none", extraction="none", chunk_ids=answer.chunk_ids)
        return answer_with_draft(draft) if chosen == "draft" else answer

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Search as `run` does after a decision that said yes."""
        verifier = _verifier(use)
        peek = yield from _peek(query, use)
        return (yield from _select(query, peek.found, verifier, use))


def _verifier(use: Resources) -> FittedVerifier:
    if use.verifier is None:
        raise ConfigError(
            f"dtr+verify weighs with what was fitted for {use.model.info.name}, and nothing was",
            "adaptrag calibrate QUESTIONS --index NAME (or --strategy dtr)",
        )
    encoder = use.require_retriever().encoder.fingerprint.name
    if use.verifier.encoder != encoder:
        raise ConfigError(
            f"dtr+verify was fitted with encoder {use.verifier.encoder!r}, and the index has {encoder!r}",
            "adaptrag calibrate QUESTIONS --index NAME (or --strategy dtr)",
        )
    return use.verifier


def _peek(query: str, use: Resources) -> Generator[Event, None, _Peek]:
    retriever = use.require_retriever()
    found = retriever.search(query, retriever=use.options.retriever, n=use.options.top_k)
    yield PathRetrieved(
        path="query",
        retriever=use.options.retriever,
        query_text=query,
        chunks=tuple(chunk.as_record() for chunk in found),
        before_decision=True,
    )
    vector = retriever.embed(query)
    scores = [] if vector is None or not found else retriever.similarities(vector, [f.row for f in found]).tolist()
    seen = tuple(
        Seen(text=f"{item.chunk.title}\n{item.chunk.text}", query_score=score)
        for item, score in zip(found, scores, strict=True)
    )
    return _Peek(found=found, seen=seen)


def _select(
    query: str, found: Sequence[FoundChunk], verifier: FittedVerifier, use: Resources
) -> Generator[Event, None, list[Candidate]]:
    if verifier.look_up == "query":
        return (yield from select_by_query(query, found, use))
    pseudo_context = (yield from write_pseudo_context(query, use)).text.strip()
    yield PseudoContextWritten(text=pseudo_context)
    # What it weighs with was fitted on both paths and AIS, so the ablations of dtr have no say.
    fitted = replace(use, options=replace(use.options, paths="both", selection="ais"))
    return (yield from dual_path.look_up_both(query, pseudo_context, fitted))


def _answer(
    query: str, kept: Sequence[Candidate], use: Resources
) -> Generator[Event, None, tuple[Answer, float | None]]:
    """Answer from the chunks, and keep the uncertainty that goes by."""
    answering = answer_from_chunks(query, kept, replace(use, evidence_rule=None))
    uncertainty: float | None = None
    while True:
        try:
            event = next(answering)
        except StopIteration as done:
            answer: Answer = done.value
            return answer, uncertainty
        if isinstance(event, EvidenceJudged):
            uncertainty = event.answer_uncertainty
        yield event


def _reason(retrieve: bool, draft: float, documents: float, floor: float) -> str:
    chances = f"chance of being right: draft {draft:.2f}, documents {documents:.2f}"
    if not retrieve:
        return f"the draft is likelier right ({chances})"
    if draft < floor:
        return f"the draft is below the floor of {floor:.2f} ({chances})"
    return f"documents may do better ({chances})"
