"""Let a reranker read chunks against texts: a cross-encoder where one is open, else the answer model itself."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from adaptrag_cli.errors import ConfigError
from adaptrag_cli.events import ChunksReranked, Event, PathName
from adaptrag_cli.retrieval import FoundChunk
from adaptrag_cli.strategies.base import Resources


def rescore(
    use: Resources, texts: Mapping[PathName, str], found: Sequence[FoundChunk]
) -> Generator[Event, None, dict[PathName, tuple[float, ...]]]:
    """K(d, text) for every chunk and text: raw logits of the cross-encoder, or log-odds of "Yes" (METHODS 3).

    All texts of a chunk are read in a row. The answer model reads the chunk first, so that its KV cache serves the
    second text.

    Raises:
        ConfigError: no reranker is open.
    """
    if use.reranker is None:
        raise ConfigError(
            "chunks are to be reranked, and no reranker is open", "start again with --strategy rerank or --ais rerank"
        )
    body_only = use.require_retriever().store.body_only
    bodies = [item.chunk.text_to_embed(body_only=body_only) for item in found]
    result = use.reranker.score([(text, body) for body in bodies for text in texts.values()])
    scores: dict[PathName, tuple[float, ...]] = {}
    for position, path in enumerate(texts):
        own = slice(position, None, len(texts))
        scores[path] = result.scores[own]
        yield ChunksReranked(
            reranker=use.reranker.name,
            path=path,
            chunk_ids=tuple(item.chunk.chunk_id for item in found),
            scores=scores[path],
            llm_calls=len(result.prompt_tokens[own]),
            prompt_tokens=sum(result.prompt_tokens[own]),
            reused_tokens=sum(result.reused_tokens[own]),
        )
    return scores
