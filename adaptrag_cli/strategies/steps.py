"""The steps that strategies share: call the model, search a path, keep chunks. Each yields its events."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from adaptrag_cli import prompts
from adaptrag_cli.events import (
    Candidate,
    ChunksSelected,
    Event,
    GenerationFinished,
    GenerationReused,
    PathName,
    PathRetrieved,
    Phase,
    PromptBuilt,
    TokenGenerated,
    UncertaintyMeasured,
)
from adaptrag_cli.models.base import Generation, Prompt, Token
from adaptrag_cli.retrieval import FoundChunk
from adaptrag_cli.selection import angles
from adaptrag_cli.strategies.base import Answer, Resources
from adaptrag_cli.uncertainty import Uncertainty, mean_nll


def generate(
    use: Resources,
    phase: Phase,
    prompt: Prompt,
    *,
    max_tokens: int,
    chunk_ids: tuple[str, ...] = (),
    stop: Sequence[str] = (),
    max_sentences: int = 0,
    states: Sequence[int] = (),
) -> Generator[Event, None, Generation]:
    """Make one LLM call and yield its tokens as they come; `states` are the layers whose mean state is wanted."""
    yield PromptBuilt(phase=phase, text=prompt.text, tokens=len(prompt), chunk_ids=chunk_ids)
    tokens = use.model.generate(prompt, max_tokens=max_tokens, stop=stop, max_sentences=max_sentences, states=states)
    step = 0
    try:
        while True:
            yield _token_event(phase, step, next(tokens))
            step += 1
    except StopIteration as done:
        generation: Generation = done.value
    finally:
        tokens.close()
    yield GenerationFinished(
        phase=phase,
        text=generation.text,
        stop_reason=generation.stop_reason,
        prompt_tokens=generation.prompt_tokens,
        reused_tokens=generation.reused_tokens,
        generated_tokens=len(generation.tokens),
    )
    return generation


def generate_once(
    use: Resources, phase: Phase, user_text: str, *, max_tokens: int
) -> Generator[Event, None, Generation]:
    """Make one LLM call, unless the caller handed in what this prompt gives: then its tokens are yielded again."""
    prompt = use.model.build_prompt(user_text)
    known = use.reuse.text_for(phase, prompt.text)
    if known is None:
        return (yield from generate(use, phase, prompt, max_tokens=max_tokens))
    yield GenerationReused(phase=phase, text=known.text, prompt=prompt.text)
    for step, token in enumerate(known.tokens):
        yield _token_event(phase, step, token)
    return known


def _token_event(phase: Phase, step: int, token: Token) -> TokenGenerated:
    return TokenGenerated(
        phase=phase,
        step=step,
        text=token.text,
        logprob=token.logprob,
        entropy=token.entropy,
        alternatives=token.alternatives,
    )


def draft_answer(
    query: str, use: Resources, write: Callable[[str], str] = prompts.direct
) -> Generator[Event, None, Generation]:
    """Answer without documents (or take the draft the caller has)."""
    return (yield from generate_once(use, "draft", write(query), max_tokens=use.options.draft_tokens))


def measure_draft(draft: Generation) -> Generator[Event, None, Uncertainty]:
    """Measure the draft's uncertainty. A blank draft has none."""
    tokens = draft.tokens if draft.text.strip() else ()
    uncertainty = mean_nll([token.logprob for token in tokens])
    yield UncertaintyMeasured(name="mean_nll", value=uncertainty.value, reason=uncertainty.reason)
    return uncertainty


def answer_with_draft(draft: Generation) -> Answer:
    """The draft is the answer."""
    return Answer(text=draft.text.strip(), source="draft", extraction="draft")


def write_pseudo_context(
    query: str, use: Resources, write: Callable[[str], str] = prompts.pseudo_context
) -> Generator[Event, None, Generation]:
    """Imagine a passage that answers the question (or take the one the caller has)."""
    return (yield from generate_once(use, "pseudo_context", write(query), max_tokens=use.options.pseudo_context_tokens))


def search_path(use: Resources, path: PathName, text: str, n: int) -> Generator[Event, None, tuple[FoundChunk, ...]]:
    """Search one path."""
    found = use.require_retriever().search(text, retriever=use.options.retriever, n=n)
    yield PathRetrieved(
        path=path,
        retriever=use.options.retriever,
        query_text=text,
        chunks=tuple(chunk.as_record() for chunk in found),
    )
    return found


def select_by_query(
    query: str, found: Sequence[FoundChunk], use: Resources, path: PathName = "query"
) -> Generator[Event, None, list[Candidate]]:
    """Keep the top k as the search of a path ranked them (standard RAG); s1 is the similarity with the question."""
    retriever = use.require_retriever()
    vector = retriever.embed(query)
    scores = [] if vector is None or not found else retriever.similarities(vector, [f.row for f in found]).tolist()
    candidates = [
        candidate(
            item,
            paths=(path,),
            query_score=score,
            query_angle=float(angles(score)),
            rank=rank,
            kept=rank <= use.options.top_k,
        )
        for rank, (item, score) in enumerate(zip(found, scores, strict=True), start=1)
    ]
    yield ChunksSelected(score_name=path, candidates=tuple(candidates))
    return [c for c in candidates if c.kept]


def candidate(
    found: FoundChunk,
    *,
    paths: tuple[PathName, ...],
    query_score: float,
    query_angle: float,
    rank: int,
    kept: bool,
    pseudo_context_score: float | None = None,
    pseudo_context_angle: float | None = None,
    ais_score: float | None = None,
) -> Candidate:
    """A scored chunk as an event shows it."""
    return Candidate(
        chunk_id=found.chunk.chunk_id,
        document=found.chunk.document,
        location=found.chunk.location,
        title=found.chunk.title,
        text=found.chunk.text,
        paths=paths,
        query_score=query_score,
        pseudo_context_score=pseudo_context_score,
        query_angle=query_angle,
        pseudo_context_angle=pseudo_context_angle,
        ais_score=ais_score,
        rank=rank,
        kept=kept,
    )
