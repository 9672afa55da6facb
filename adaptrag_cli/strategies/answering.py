"""Answer from chunks: fit the prompt, generate in one of two styles, trace sentences to chunks, judge the evidence."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Literal

from adaptrag_cli import prompts
from adaptrag_cli.answers import tagged_answer
from adaptrag_cli.citations import cited_chunks
from adaptrag_cli.errors import QueryTooLong
from adaptrag_cli.events import (
    DOCUMENTS_DO_NOT_TELL,
    Candidate,
    Event,
    EvidenceJudged,
    Extraction,
    SentenceCited,
    TokenGenerated,
    WarningRaised,
)
from adaptrag_cli.evidence import Verdict, judge_chunks, judge_cited_answer, judge_short_answer
from adaptrag_cli.models.base import Generation, Prompt, Token
from adaptrag_cli.strategies.base import Answer, Resources
from adaptrag_cli.strategies.steps import generate
from adaptrag_cli.uncertainty import mean_nll
from adaptrag_cli.words import split_sentences

ANSWER_USES = frozenset({"style", "answer_tokens", "cited_answer_tokens"})
"""Options that decide how the answer is written."""

WritePrompt = Callable[[str, Sequence[prompts.Passage]], str]


@dataclass(frozen=True, kw_only=True)
class ShortForm:
    """How a short answer is asked for, and how it is read from what the model writes."""

    write: WritePrompt
    extraction: Literal["whole", "tagged"]


PHRASE = ShortForm(write=prompts.with_passages, extraction="whole")
"""A word or phrase, and nothing else (DTR)."""
TAGGED = ShortForm(write=prompts.pairs_with_context, extraction="tagged")
"""What stands between `<answer>` tags (PAIRS)."""


def answer_from_chunks(
    query: str, kept: Sequence[Candidate], use: Resources, short: ShortForm = PHRASE
) -> Generator[Event, None, Answer]:
    """Answer from the kept chunks in the style that is asked for, and say so when they do not tell."""
    cited = use.options.style == "cited"
    max_tokens = use.options.cited_answer_tokens if cited else use.options.answer_tokens
    write = prompts.cited if cited else short.write
    prompt, shown = yield from fit_prompt(
        kept, use, max_tokens, lambda passages: use.model.build_prompt(write(query, passages))
    )
    verdict = judge_chunks([chunk.query_score for chunk in shown], use.evidence_rule)
    if kept and not shown:
        verdict = Verdict(supported=False, reason="no chunk fits the context window")
    if not verdict.supported:
        # Nothing is generated from chunks about something else: a guess would only look like an answer.
        return (yield from _conclude("", None, verdict, shown))
    chunk_ids = tuple(chunk.chunk_id for chunk in shown)
    generating = generate(use, "answer", prompt, max_tokens=max_tokens, chunk_ids=chunk_ids)
    if cited:
        generation, sentences = yield from _cite(generating, shown)
        uncertainty = _uncertainty(generation.tokens)
        verdict = judge_cited_answer(sum(1 for sentence in sentences if sentence.markers))
        text = " ".join(sentence.marked_text for sentence in sentences)
        return (yield from _conclude(text, uncertainty, verdict, shown, extraction="cited"))
    generation = yield from generating
    if short.extraction == "tagged":
        text, uncertainty = tagged_answer(generation.text), _uncertainty(between_tags(generation))
    else:
        text, uncertainty = generation.text.strip(), _uncertainty(generation.tokens)
    verdict = judge_short_answer(text, uncertainty, use.evidence_rule)
    return (yield from _conclude(text, uncertainty, verdict, shown, extraction=short.extraction))


def between_tags(generation: Generation) -> tuple[Token, ...]:
    """The tokens that hold a character of the answer between tags; all of them where no tag begins it.

    A model is sure of the tags it was told to write: they would make every answer look sure.
    """
    begin = re.search(r"<answer>\s*", generation.text, flags=re.IGNORECASE)
    if begin is None:
        return generation.tokens
    start = begin.end()
    end = start + len(tagged_answer(generation.text[begin.start() :]))
    inside: list[Token] = []
    group: list[Token] = []
    position = 0
    for token in generation.tokens:
        group.append(token)
        if not token.text:  # a part of a character, which the next token carries
            continue
        if start < end and position < end and position + len(token.text) > start:
            inside += group
        position += len(token.text)
        group = []
    return tuple(inside)


def _uncertainty(tokens: Sequence[Token]) -> float | None:
    return mean_nll([token.logprob for token in tokens]).value


def _conclude(
    text: str,
    uncertainty: float | None,
    verdict: Verdict,
    shown: Sequence[Candidate],
    extraction: Extraction = "whole",
) -> Generator[Event, None, Answer]:
    yield EvidenceJudged(
        supported=verdict.supported,
        answer_uncertainty=uncertainty,
        best_query_score=max((chunk.query_score for chunk in shown), default=None),
        reason=verdict.reason,
    )
    chunk_ids = tuple(chunk.chunk_id for chunk in shown)
    if not verdict.supported:
        return Answer(text=DOCUMENTS_DO_NOT_TELL, source="none", extraction="none", chunk_ids=chunk_ids)
    return Answer(text=text, source="documents", extraction=extraction, chunk_ids=chunk_ids)


def fit_prompt(
    kept: Sequence[Candidate],
    use: Resources,
    max_tokens: int,
    build: Callable[[Sequence[prompts.Passage]], Prompt],
    *,
    remedy: str = "shorten it, or raise --context-length",
) -> Generator[Event, None, tuple[Prompt, Sequence[Candidate]]]:
    """Build the prompt with as many whole chunks as the context window holds; the last ranked is dropped first.

    Raises:
        QueryTooLong: it does not even hold the prompt without a chunk.
    """
    room = use.model.info.context_length - max_tokens
    shown = list(kept)
    while True:
        passages = [prompts.Passage(title=chunk.title, text=chunk.text) for chunk in shown]
        prompt = build(passages)
        if len(prompt) <= room:
            return prompt, shown
        if not shown:
            raise QueryTooLong(
                f"the question takes {len(prompt)} tokens with its instructions and leaves no room for an answer in a "
                f"context of {use.model.info.context_length}",
                remedy,
            )
        dropped = shown.pop()
        yield WarningRaised(
            code="chunk_dropped",
            message=f"{dropped.location} does not fit the context window of {use.model.info.context_length} tokens",
        )


def _cite(
    generating: Generator[Event, None, Generation], shown: Sequence[Candidate]
) -> Generator[Event, None, tuple[Generation, list[SentenceCited]]]:
    """Pass the events on and, before the first token of each new sentence, say which chunks hold the one before."""
    text = ""
    cited_until = 0
    step = 0
    cited: list[SentenceCited] = []
    while True:
        try:
            event = next(generating)
        except StopIteration as done:
            generation: Generation = done.value
            break
        if isinstance(event, TokenGenerated):
            finished = _finished_sentences(text[cited_until:] + event.text, before=len(text) - cited_until)
            for sentence in finished:
                cited_until += len(sentence)
                if sentence.strip():
                    cited.append(_cited_sentence(sentence, step, shown))
                    yield cited[-1]
            text += event.text
            step += 1
        yield event
    for sentence in split_sentences(generation.text[cited_until:]):
        if sentence.strip():
            cited.append(_cited_sentence(sentence, step, shown))
            yield cited[-1]
    return generation, cited


def _finished_sentences(text: str, *, before: int) -> list[str]:
    """Sentences of `text` that end at or before the position where the newest token begins."""
    sentences = split_sentences(text)
    finished: list[str] = []
    position = 0
    for sentence in sentences[:-1]:
        position += len(sentence.rstrip())
        if position > before:
            break
        finished.append(sentence)
        position += len(sentence) - len(sentence.rstrip())
    return finished


def _cited_sentence(sentence: str, end_step: int, shown: Sequence[Candidate]) -> SentenceCited:
    positions = cited_chunks(sentence, [f"{chunk.title}\n{chunk.text}" for chunk in shown])
    return SentenceCited(
        text=sentence.strip(),
        end_step=end_step,
        chunk_ids=tuple(shown[p].chunk_id for p in positions),
        markers=tuple(p + 1 for p in positions),
    )
