"""Retrieve on two paths and select by AIS: what DTR, PAIRS, DPR-AIS and dtr+verify have in common.

DTR section 4.2 and Algorithm 1, lines 4 to 9; PAIRS section 3.3. The ablations are options: `paths` searches one path
as deep as both together ("w/o DPR"), `selection` takes a fixed number of each path instead of scoring ("w/o AIS").
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from adaptrag_cli.errors import ConfigError
from adaptrag_cli.events import Candidate, ChunksSelected, Event, PathName
from adaptrag_cli.retrieval import FoundChunk
from adaptrag_cli.selection import angles, rank_candidates
from adaptrag_cli.strategies.base import Resources
from adaptrag_cli.strategies.rescoring import rescore
from adaptrag_cli.strategies.steps import candidate, search_path, select_by_query

USES = frozenset({"retriever", "ais", "selection", "paths", "top_n", "top_k"})
"""Options that decide what is kept."""

_SPLITS: dict[str, tuple[int, int]] = {"1q+2p": (1, 2), "2q+1p": (2, 1)}


def look_up_both(query: str, pseudo_context: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
    """Search the paths that the options name and keep the top k; a blank pseudo-context leaves the query path alone.

    Raises:
        ConfigError: a fixed number of each path is wanted, and only one path is to be searched.
    """
    options = use.options
    if options.selection != "ais" and options.paths != "both":
        raise ConfigError(
            f"selection {options.selection!r} takes chunks of two paths, and only {options.paths!r} is searched",
            "leave out --paths, or --selection",
        )
    depth = options.top_n if options.paths == "both" else 2 * options.top_n
    by_query: tuple[FoundChunk, ...] = ()
    by_pseudo_context: tuple[FoundChunk, ...] = ()
    if options.paths != "pseudo_context" or not pseudo_context:
        by_query = yield from search_path(use, "query", query, depth)
    if options.paths != "query" and pseudo_context:
        by_pseudo_context = yield from search_path(use, "pseudo_context", pseudo_context, depth)
    if not pseudo_context:
        return (yield from select_by_query(query, by_query, use))
    if options.selection == "ais":
        return (yield from _select_by_ais(query, pseudo_context, by_query, by_pseudo_context, use))
    return (yield from _select_split(query, pseudo_context, by_query, by_pseudo_context, use))


def _select_by_ais(
    query: str,
    pseudo_context: str,
    by_query: Sequence[FoundChunk],
    by_pseudo_context: Sequence[FoundChunk],
    use: Resources,
) -> Generator[Event, None, list[Candidate]]:
    """Score the union of both paths and keep the top k (Algorithm 1, lines 4 to 9; PAIRS Eq. 4 and `dynamic`)."""
    union = _Union(query, pseudo_context, by_query, by_pseudo_context, use)
    if use.options.ais == "rerank":
        read = yield from rescore(use, {"query": query, "pseudo_context": pseudo_context}, union.found)
        scores = [a + b for a, b in zip(read["query"], read["pseudo_context"], strict=True)]
        order = union.order_by(scores)
        return (yield from union.keep(order, scores, use, "rerank"))
    line = use.calibrated.alpha_line if use.calibrated else None
    ranking = rank_candidates(
        use.options.ais, union.s1, union.s2, union.query_pseudo_similarity, union.chunk_ids, alpha_line=line
    )
    return (yield from union.keep(ranking.order, ranking.scores.tolist(), use, use.options.ais, ranking.query_weight))


def _select_split(
    query: str,
    pseudo_context: str,
    by_query: Sequence[FoundChunk],
    by_pseudo_context: Sequence[FoundChunk],
    use: Resources,
) -> Generator[Event, None, list[Candidate]]:
    """Take a fixed number of each path, best first; a chunk both found is taken once, and the next one follows.

    The papers do not say what a duplicate does to the number (METHODS 2): here each path gives what is still missing.
    The split is stated for three chunks, so `top_k` has no say.
    """
    from_query, from_pseudo_context = _SPLITS[use.options.selection]
    union = _Union(query, pseudo_context, by_query, by_pseudo_context, use)
    taken: list[int] = []
    for path, wanted in ((by_query, from_query), (by_pseudo_context, from_pseudo_context)):
        fresh = [row for row in (f.row for f in path) if row not in taken]
        taken += fresh[:wanted]
    positions = {item.row: i for i, item in enumerate(union.found)}
    kept = [positions[row] for row in taken]
    rest = [i for i in union.order_by(union.s1) if i not in kept]
    return (yield from union.keep((*kept, *rest), [None] * len(union.found), use, "split", kept=len(kept)))


class _Union:
    """The candidates of both paths, query hits first, with both similarities."""

    def __init__(
        self,
        query: str,
        pseudo_context: str,
        by_query: Sequence[FoundChunk],
        by_pseudo_context: Sequence[FoundChunk],
        use: Resources,
    ) -> None:
        retriever = use.require_retriever()
        self.found: list[FoundChunk] = list({f.row: f for f in (*by_query, *by_pseudo_context)}.values())
        self.chunk_ids = [f.chunk.chunk_id for f in self.found]
        in_query = {f.row for f in by_query}
        in_pseudo_context = {f.row for f in by_pseudo_context}
        self._paths = [_path_names(f.row in in_query, f.row in in_pseudo_context) for f in self.found]
        query_vector, pseudo_vector = retriever.embed(query), retriever.embed(pseudo_context)
        assert query_vector is not None and pseudo_vector is not None  # neither text is blank
        rows = [f.row for f in self.found]
        self.s1: list[float] = retriever.similarities(query_vector, rows).tolist() if rows else []
        self.s2: list[float] = retriever.similarities(pseudo_vector, rows).tolist() if rows else []
        self.query_pseudo_similarity = float(query_vector @ pseudo_vector)

    def order_by(self, scores: Sequence[float]) -> tuple[int, ...]:
        """Positions, best first; ties by s1, then by chunk id."""
        return tuple(sorted(range(len(scores)), key=lambda i: (-scores[i], -self.s1[i], self.chunk_ids[i])))

    def keep(
        self,
        order: Sequence[int],
        scores: Sequence[float | None],
        use: Resources,
        score_name: str,
        query_weight: float | None = None,
        *,
        kept: int | None = None,
    ) -> Generator[Event, None, list[Candidate]]:
        limit = use.options.top_k if kept is None else kept
        candidates = [
            candidate(
                self.found[i],
                paths=self._paths[i],
                query_score=self.s1[i],
                pseudo_context_score=self.s2[i],
                query_angle=float(angles(self.s1[i])),
                pseudo_context_angle=float(angles(self.s2[i])),
                ais_score=scores[i],
                rank=rank,
                kept=rank <= limit,
            )
            for rank, i in enumerate(order, start=1)
        ]
        yield ChunksSelected(
            score_name=score_name,
            query_pseudo_similarity=self.query_pseudo_similarity,
            query_weight=query_weight,
            candidates=tuple(candidates),
        )
        return [c for c in candidates if c.kept]


def _path_names(in_query: bool, in_pseudo_context: bool) -> tuple[PathName, ...]:
    names: list[PathName] = []
    if in_query:
        names.append("query")
    if in_pseudo_context:
        names.append("pseudo_context")
    return tuple(names)
