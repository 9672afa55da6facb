"""Rerank: look the question up, let a reranker read what was found, keep what it scores best.

Algorithm (the last baseline of PAIRS, Tab. 2; Glass et al., 2022):
1. D_q = top `rerank_depth` (10) by the question
2. K(d, q) for every d in D_q: the reranker reads question and chunk together
3. keep the k chunks with the largest K; answer = LLM(prompt with them, best first)
One search, one call of the answer model, and `rerank_depth` short calls where the answer model itself reranks.

Differs from the paper:
- Without `--reranker` the answer model stands in for bge-reranker-base: log-odds of "Yes" to a relevance question, so
  that the method runs on a machine that cannot fetch one.
- The reranker reads what was embedded: the title or heading path with the text, unless the index is `--body-only`.
- The search is never less deep than `top_k`. Equal scores are ordered by the similarity with the question.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import ClassVar

from adaptrag_cli.events import Candidate, ChunksSelected, DecisionMade, Event
from adaptrag_cli.retrieval import FoundChunk
from adaptrag_cli.selection import angles
from adaptrag_cli.strategies.answering import ANSWER_USES, answer_from_chunks
from adaptrag_cli.strategies.base import Answer, Options, Resources
from adaptrag_cli.strategies.rescoring import rescore
from adaptrag_cli.strategies.steps import candidate, search_path


class Rerank:
    """Look every question up once and let a reranker choose."""

    name: ClassVar[str] = "rerank"
    paper: ClassVar[str] = "Rerank (Glass et al., 2022), baseline of PAIRS"
    summary: ClassVar[str] = "look every question up; a reranker reads the best ten chunks and chooses"
    requires: ClassVar[frozenset[str]] = frozenset({"logprobs"})
    uses: ClassVar[frozenset[str]] = frozenset({"retriever", "reranker", "rerank_depth", "top_k"} | ANSWER_USES)
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = Options()

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Search, rerank, answer."""
        yield DecisionMade(retrieve=True, uncertainty=None, threshold=None, reason="always looks up")
        kept = yield from self.look_up(query, use)
        return (yield from answer_from_chunks(query, kept, use))

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Search the question, let the reranker read what was found, and keep the top k."""
        depth = max(use.options.rerank_depth, use.options.top_k)
        found = yield from search_path(use, "query", query, depth)
        scores = yield from rescore(use, {"query": query}, found)
        return (yield from _select(query, found, scores["query"], use))


def _select(
    query: str, found: Sequence[FoundChunk], scores: Sequence[float], use: Resources
) -> Generator[Event, None, list[Candidate]]:
    retriever = use.require_retriever()
    vector = retriever.embed(query)
    s1 = [] if vector is None or not found else retriever.similarities(vector, [f.row for f in found]).tolist()
    scored = sorted(zip(found, scores, s1, strict=True), key=lambda item: (-item[1], -item[2], item[0].chunk.chunk_id))
    candidates = [
        candidate(
            item,
            paths=("query",),
            query_score=similarity,
            query_angle=float(angles(similarity)),
            ais_score=score,
            rank=rank,
            kept=rank <= use.options.top_k,
        )
        for rank, (item, score, similarity) in enumerate(scored, start=1)
    ]
    yield ChunksSelected(score_name="rerank", candidates=tuple(candidates))
    return [c for c in candidates if c.kept]
