"""Think in sentences and look up in between: what the methods that retrieve while they write have in common.

A `Thought` holds what one run has written and found so far. Its steps yield the events; the strategies decide when to
look up, with which query, and what of the text stays (METHODS 4.7, 5, 6, 12b).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

from adaptrag_cli import prompts
from adaptrag_cli.answers import SO_THE_ANSWER_IS, concluded_answer, concludes
from adaptrag_cli.events import (
    Candidate,
    Event,
    PathName,
    Phase,
    QueryBuilt,
    TokensDiscarded,
    WarningRaised,
)
from adaptrag_cli.models.base import Generation, Prompt
from adaptrag_cli.stepwise.interleaving import merge_chunks
from adaptrag_cli.strategies.answering import fit_prompt
from adaptrag_cli.strategies.base import Answer, Options, Resources
from adaptrag_cli.strategies.steps import generate, search_path, select_by_query

REASONING_USES = frozenset({"examples", "reasoning_tokens", "conclusion_tokens"})
"""Options of every method that reasons."""
RETRIEVING_USES = frozenset({"retriever", "top_k", "context_policy", "max_retrievals"})
"""And of those that look up while they do."""
_PARAGRAPH_END = ("\n",)
_BREAKS_OFF = ("the answer is", "the answer is:")


@dataclass(kw_only=True)
class Thought:
    """What a run has written and found so far."""

    query: str
    use: Resources
    text: str = ""
    """The chain of thought that is kept."""
    chunks: list[Candidate] = field(default_factory=list)
    """What the next call reads."""
    consulted: dict[str, Candidate] = field(default_factory=dict)
    """Every chunk that a prompt has shown, in the order in which they were first shown."""
    retrievals: int = 0
    tokens: int = 0
    """How many tokens the text has."""
    prompt: Prompt | None = None
    """What the model went on from in the last call."""

    @property
    def tokens_left(self) -> int:
        """How much longer it may become."""
        return max(self.use.options.reasoning_tokens - self.tokens, 0)

    @property
    def is_concluded(self) -> bool:
        """Whether it has come to its answer."""
        return concludes(self.text)

    @property
    def may_look_up(self) -> bool:
        """Whether the number of look-ups is not used up."""
        return self.retrievals < self.use.options.max_retrievals

    def think(self, max_tokens: int, *, max_sentences: int = 0) -> Generator[Event, None, Generation]:
        """Let the model go on; nothing of it is kept yet.

        Ends with the paragraph, and after `max_sentences` sentences where that is given.
        """
        return (yield from self._call("reasoning", self.text, max_tokens, max_sentences=max_sentences))

    def keep(
        self, generation: Generation, *, until: int | None = None, reason: str = ""
    ) -> Generator[Event, None, None]:
        """Put what a call wrote to the text, up to (not including) the token `until`; say what is discarded and why."""
        end = len(generation.tokens) if until is None else until
        kept = "".join(token.text for token in generation.tokens[:end])
        if end < len(generation.tokens):
            discarded = "".join(token.text for token in generation.tokens[end:])
            yield TokensDiscarded(phase="reasoning", from_step=end, text=discarded, reason=reason)
        self.text += kept
        self.tokens += end

    def look_up(self, built: QueryBuilt, *, path: PathName = "reasoning") -> Generator[Event, None, list[Candidate]]:
        """Search for a query and keep the best chunks for what is written next, as the context policy says."""
        yield built
        self.retrievals += 1
        found = yield from search_path(self.use, path, built.text, self.use.options.top_k)
        chunks = yield from select_by_query(self.query, found, self.use, path)
        if not chunks:
            yield WarningRaised(code="nothing_found", message="the search found no chunk: reasoning goes on without")
        if self.use.options.context_policy == "accumulate":
            self.chunks = list(merge_chunks(self.chunks, chunks))
        else:
            self.chunks = chunks
        return chunks

    def write(self, max_tokens: int, *, max_sentences: int = 0) -> Generator[Event, None, bool]:
        """Keep what the model writes with the chunks that were found; say whether the text goes on after it.

        Nothing written is the end: what was looked up for would be written again, and looked up again.
        """
        generation = yield from self.think(max_tokens, max_sentences=max_sentences)
        yield from self.keep(generation)
        self.forget_chunks()
        if not generation.text.strip():
            yield WarningRaised(
                code="no_progress",
                message="the model wrote nothing with what was found, so the chain of thought ends here",
            )
            return False
        return self.goes_on_after(generation)

    def goes_on_after(self, generation: Generation) -> bool:
        """Whether more is to be written: the model did not end with this call, nor come to its answer in full."""
        return generation.stop_reason == "length" or (generation.stop_reason == "stop" and not self.is_concluded)

    def forget_chunks(self) -> None:
        """Under the policy `discard`, read no chunk any more until the next look-up."""
        if self.use.options.context_policy == "discard":
            self.chunks = []

    def conclude(self) -> Generator[Event, None, Answer]:
        """Give what the reasoning came to; one that came to nothing is ended with "So the answer is" (METHODS 4.7)."""
        completion = ""
        if not self.is_concluded:
            if not self.tokens_left:
                yield WarningRaised(
                    code="reasoning_cut",
                    message=f"the chain of thought reached its {self.tokens} tokens without coming to an answer",
                )
            generation = yield from self._complete(self.text)
            completion = generation.text.strip()
        return Answer(
            text=concluded_answer(self.text, completion),
            source="documents" if self.consulted else "draft",
            extraction="reasoned",
            chunk_ids=tuple(self.consulted),
        )

    def answer_anew(self) -> Generator[Event, None, Answer]:
        """Reason once more, over every chunk that was read, and give what that concludes."""
        self.chunks = list(self.consulted.values())
        generation = yield from self._call("answer", "", self.use.options.reasoning_tokens)
        if not concludes(generation.text):
            generation = yield from self._complete(generation.text)
        written = generation.text.strip()
        return Answer(
            text=concluded_answer(written, written),
            source="documents",
            extraction="concluded",
            chunk_ids=tuple(self.consulted),
        )

    def _complete(self, text: str) -> Generator[Event, None, Generation]:
        """End a chain of thought with "So the answer is", unless it breaks off there, and let the model say what."""
        written = text.rstrip()
        if not written.lower().endswith(_BREAKS_OFF):
            written += SO_THE_ANSWER_IS
        return (yield from self._call("answer", written, self.use.options.conclusion_tokens))

    def _call(
        self, phase: Phase, written: str, max_tokens: int, *, max_sentences: int = 0
    ) -> Generator[Event, None, Generation]:
        """Let the model go on from what is written, with as many of the chunks as fit."""
        use = self.use
        reserved = max_tokens
        if phase == "reasoning":  # a text that comes to no answer is completed
            reserved += use.options.conclusion_tokens + len(use.model.tokenize(SO_THE_ANSWER_IS))
        prompt, shown = yield from fit_prompt(
            self.chunks,
            use,
            reserved,
            lambda passages: use.model.build_prompt(
                prompts.reasoning(self.query, passages, use.options.examples), written=written
            ),
            remedy="shorten it, take fewer --examples, or raise --context-length",
        )
        self.prompt = prompt
        self.consulted.update((chunk.chunk_id, chunk) for chunk in shown if chunk.chunk_id not in self.consulted)
        chunk_ids = tuple(chunk.chunk_id for chunk in shown)
        return (
            yield from generate(
                use,
                phase,
                prompt,
                max_tokens=max_tokens,
                chunk_ids=chunk_ids,
                stop=_PARAGRAPH_END,
                max_sentences=max_sentences,
            )
        )


def look_up_question(query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
    """Search for the question itself: what a method finds that builds its queries from a text not yet written."""
    found = yield from search_path(use, "query", query, use.options.top_k)
    return (yield from select_by_query(query, found, use))


def look_ups_used_up(options: Options) -> WarningRaised:
    """Say that what is still to be written is not looked up."""
    return WarningRaised(
        code="look_ups_used_up",
        message=f"look-ups are used up (--max-retrievals {options.max_retrievals}): what is written now stands",
    )


def cut_before(written: Generation, token: int) -> int:
    """Where to cut so that the model may write anything in place of the word that begins with a token.

    Some vocabularies spell the space before a number as a token of its own; behind it only a number would follow.
    """
    while token and not written.tokens[token - 1].text.strip():
        token -= 1
    return token
