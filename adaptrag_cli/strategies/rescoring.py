"""Let a reranker read chunks against a text: a cross-encoder where one is open, else the answer model itself."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from adaptrag_cli.errors import ConfigError
from adaptrag_cli.events import ChunksReranked, Event, PathName
from adaptrag_cli.retrieval import FoundChunk
from adaptrag_cli.strategies.base import Resources


def rescore(
    use: Resources, path: PathName, text: str, found: Sequence[FoundChunk]
) -> Generator[Event, None, tuple[float, ...]]:
    """K(d, text) for every chunk: raw logits of the cross-encoder, or log-odds of "Yes" (METHODS 3)."""
    if use.reranker is None:
        raise ConfigError("chunks are to be reranked, and no reranker is open", "open the session with --ais rerank")
    body_only = use.require_retriever().store.body_only
    result = use.reranker.score([(text, item.chunk.text_to_embed(body_only=body_only)) for item in found])
    yield ChunksReranked(
        reranker=use.reranker.name,
        path=path,
        chunk_ids=tuple(item.chunk.chunk_id for item in found),
        scores=result.scores,
        llm_calls=result.llm_calls,
        prompt_tokens=result.prompt_tokens,
        reused_tokens=result.reused_tokens,
    )
    return result.scores
