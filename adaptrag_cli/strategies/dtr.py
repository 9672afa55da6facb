"""Decide Then Retrieve (Chen et al.): uncertainty-guided triggering, dual-path retrieval, adaptive selection.

Algorithm (the paper's section 4 and Algorithm 1):
1. draft a0 = LLM(direct prompt);  u = -(1/T) sum ln P(a_t)              Eq. 2, 3
2. u <= threshold: the draft is the answer
3. pseudo-context p = LLM(passage prompt)                               only after the trigger
4. D_q = top n by f(q), D_p = top n by f(p), U = D_q union D_p
5. keep the k chunks of U with the largest cos(theta1 + theta2)         Eq. 7
6. answer = LLM(prompt with the kept chunks, best first)

Differs from the paper:
- Ranked by the angle sum, with the cosine of Eq. 7 shown: the same order wherever s1 + s2 >= 0, and beyond that the
  cosine would prefer chunks that point away from both (`selection.py`). `--ais sum` is the released code's score.
- No repetition penalty (the released code has 1.1): u comes from raw logits, and a penalty would punish copying a name
  out of the question.
- The threshold comes from a measurement on the answer model where there is one: the paper's 0.001 is for 7B and 72B
  models and always triggers on small ones.
- Draft and answer end after 32 tokens and the pseudo-context after 128 (the paper: 1024), for a CPU's sake; the prompts
  ask for a phrase.
- A chunk's title or heading path is embedded with its text unless the index was built with `--body-only`.
- An empty draft has no uncertainty and retrieves (the released code raises).
- A blank pseudo-context leaves the query path alone to choose.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import ClassVar

from adaptrag_cli.events import Candidate, ChunksSelected, DecisionMade, Event, PathName, PseudoContextWritten
from adaptrag_cli.retrieval import FoundChunk
from adaptrag_cli.selection import rank_candidates
from adaptrag_cli.strategies.answering import answer_from_chunks
from adaptrag_cli.strategies.base import Answer, Options, Resources
from adaptrag_cli.strategies.steps import (
    answer_with_draft,
    candidate,
    draft_answer,
    measure_draft,
    search_path,
    select_by_query,
    write_pseudo_context,
)
from adaptrag_cli.uncertainty import decide, odds_of


class DecideThenRetrieve:
    """Look up only what the model is unsure of, on two paths."""

    name: ClassVar[str] = "dtr"
    paper: ClassVar[str] = "Decide Then Retrieve (Chen et al., 2026)"
    summary: ClassVar[str] = "draft first; look up on two paths only when the draft is uncertain"
    requires: ClassVar[frozenset[str]] = frozenset({"logprobs"})
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = Options()

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Draft, decide, and if need be retrieve, select and answer."""
        draft = yield from draft_answer(query, use)
        uncertainty = yield from measure_draft(draft)
        decision = decide(uncertainty, use.options.threshold)
        yield DecisionMade(
            retrieve=decision.retrieve,
            uncertainty=uncertainty.value,
            threshold=use.options.threshold,
            reason=decision.reason,
            draft_odds=odds_of(uncertainty.value, use.draft_odds),
        )
        if not decision.retrieve:
            return answer_with_draft(draft)
        kept = yield from self.look_up(query, use)
        return (yield from answer_from_chunks(query, kept, use))

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Imagine a passage, search both paths, and select (steps 3 to 5)."""
        pseudo_context = (yield from write_pseudo_context(query, use)).text.strip()
        yield PseudoContextWritten(text=pseudo_context)
        by_query = yield from search_path(use, "query", query, use.options.top_n)
        by_pseudo_context: tuple[FoundChunk, ...] = ()
        if pseudo_context:
            by_pseudo_context = yield from search_path(use, "pseudo_context", pseudo_context, use.options.top_n)
        return (yield from select_by_ais(query, pseudo_context, by_query, by_pseudo_context, use))


def select_by_ais(
    query: str,
    pseudo_context: str,
    by_query: Sequence[FoundChunk],
    by_pseudo_context: Sequence[FoundChunk],
    use: Resources,
) -> Generator[Event, None, list[Candidate]]:
    """Score the union of both paths and keep the top k (Algorithm 1, lines 4 to 9)."""
    retriever = use.require_retriever()
    query_vector, pseudo_vector = retriever.embed(query), retriever.embed(pseudo_context)
    union = {item.row: item for item in (*by_pseudo_context, *by_query)}
    if query_vector is None or pseudo_vector is None or not union:
        return (yield from select_by_query(query, by_query, use))
    rows = list(union)
    s1 = retriever.similarities(query_vector, rows).tolist()
    s2 = retriever.similarities(pseudo_vector, rows).tolist()
    query_pseudo_similarity = float(query_vector @ pseudo_vector)
    found = [union[row] for row in rows]
    ranking = rank_candidates(use.options.ais, s1, s2, query_pseudo_similarity, [item.chunk.chunk_id for item in found])
    paths = {
        row: tuple(name for name, path in _paths(by_query, by_pseudo_context) if any(f.row == row for f in path))
        for row in rows
    }
    candidates = [
        candidate(
            found[i],
            paths=paths[found[i].row],
            query_score=s1[i],
            pseudo_context_score=s2[i],
            query_angle=float(ranking.query_angles[i]),
            pseudo_context_angle=float(ranking.pseudo_context_angles[i]),
            ais_score=float(ranking.scores[i]),
            rank=rank,
            kept=rank <= use.options.top_k,
        )
        for rank, i in enumerate(ranking.order, start=1)
    ]
    yield ChunksSelected(
        score_name=use.options.ais,
        query_pseudo_similarity=query_pseudo_similarity,
        query_weight=ranking.query_weight,
        candidates=tuple(candidates),
    )
    return [c for c in candidates if c.kept]


def _paths(
    by_query: Sequence[FoundChunk], by_pseudo_context: Sequence[FoundChunk]
) -> tuple[tuple[PathName, Sequence[FoundChunk]], ...]:
    return (("query", by_query), ("pseudo_context", by_pseudo_context))
