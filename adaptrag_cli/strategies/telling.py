"""Answer a question by steps that the model writes itself: what methods have in common that ask before they look up.

A `Telling` holds the model's turn, of texts and found chunks, and what was asked in it. Its steps yield the events; the
strategies decide what is asked, whether it is looked up, and when the steps end (METHODS 9.2, 12b).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from adaptrag_cli.answers import FINAL_ANSWER_IS, final_answer
from adaptrag_cli.errors import QueryTooLong
from adaptrag_cli.events import (
    AnswerSource,
    Candidate,
    DecisionMade,
    Event,
    Extraction,
    PathName,
    Phase,
    QueryBuilt,
    StepAnswered,
    StepDecided,
    SubQueryAsked,
    WarningRaised,
)
from adaptrag_cli.models.base import Generation, LabelScores, Prompt
from adaptrag_cli.stepwise.narrative import asked_as, numbered, passage
from adaptrag_cli.strategies.base import Answer, Resources
from adaptrag_cli.strategies.steps import generate, search_path, select_by_query

STEP_USES = frozenset({"max_steps", "retriever", "top_k", "conclusion_tokens"})
"""Options of every method that asks in steps."""
SUB_QUERY_TOKENS = 64
"""Longest sub-query: what is searched for (METHODS 9.2)."""
STEP_ANSWER_TOKENS = 64
_LINE_END = ("\n",)
_SHOWN_CHARACTERS = 50


@dataclass(kw_only=True)
class Found:
    """What a step has found, as it stands in the model's turn."""

    chunks: list[Candidate]

    def __str__(self) -> str:
        return numbered([passage(chunk.title, chunk.text) for chunk in self.chunks]) or "(nothing was found)"


@dataclass(kw_only=True)
class Telling:
    """The model's turn so far, and what was asked and read in it."""

    query: str
    use: Resources
    request: str
    """The user's turn."""
    parts: list[str | Found] = field(default_factory=list)
    """The model's turn; chunks stay in it, so that later steps read them (METHODS 9.2)."""
    consulted: dict[str, Candidate] = field(default_factory=dict)
    """Every chunk that a prompt has shown, in the order in which they were first shown."""
    asked: list[str] = field(default_factory=list)
    """What the steps have asked, as `asked_as` gives it."""

    @property
    def written(self) -> str:
        """The model's turn as a text."""
        return "".join(str(part) for part in self.parts)

    @property
    def step(self) -> int:
        """Number of the step that was begun last, from 0."""
        return len(self.asked) - 1

    def begin_step(self, sub_query: str) -> Generator[Event, None, bool]:
        """Ask something; say whether it is new. What was asked before would only be answered as before."""
        key = asked_as(sub_query)
        is_repeated = key in self.asked
        yield SubQueryAsked(step=len(self.asked), text=sub_query, is_repeated=is_repeated)
        if is_repeated:
            yield WarningRaised(
                code="repeated_sub_query",
                message=f"step {len(self.asked) + 1} asks again what step {self.asked.index(key) + 1} asked: "
                "the steps end here",
            )
        else:
            self.asked.append(key)
        return not is_repeated

    def decide(self, retrieve: bool, reason: str, scores: LabelScores | None = None) -> Generator[Event, None, None]:
        """Say whether the step is looked up; `scores` are those of the markers that answer and that search."""
        answer_logprob, search_logprob = scores.logprobs if scores else (None, None)
        yield StepDecided(
            step=self.step,
            retrieve=retrieve,
            reason=reason,
            answer_logprob=answer_logprob,
            search_logprob=search_logprob,
            prompt_tokens=scores.prompt_tokens if scores else 0,
            reused_tokens=scores.reused_tokens if scores else 0,
        )
        yield DecisionMade(retrieve=retrieve, uncertainty=None, threshold=None, reason=reason)

    def search(self, built: QueryBuilt) -> Generator[Event, None, Found]:
        """Search for a query and keep the top k."""
        yield built
        path: PathName = "query" if built.method == "question" else "reasoning"
        found = yield from search_path(self.use, path, built.text, self.use.options.top_k)
        chunks = yield from select_by_query(self.query, found, self.use, path)
        if not chunks:
            yield WarningRaised(code="nothing_found", message=f"step {self.step + 1}: the search found no chunk")
        return Found(chunks=chunks)

    def write(
        self, phase: Phase, max_tokens: int, *, stop: Sequence[str] = _LINE_END
    ) -> Generator[Event, None, Generation]:
        """Let the model go on; nothing of it stands in its turn yet. Ends with the line, where nothing else is said."""
        prompt = yield from self.fitting_prompt(max_tokens)
        shown = {chunk.chunk_id: chunk for part in self.parts if isinstance(part, Found) for chunk in part.chunks}
        for chunk_id, chunk in shown.items():
            self.consulted.setdefault(chunk_id, chunk)
        return (yield from generate(self.use, phase, prompt, max_tokens=max_tokens, chunk_ids=tuple(shown), stop=stop))

    def end_step(self, text: str, found: Found | None) -> Generator[Event, None, None]:
        """Say what the step answers; where it answers nothing, the steps go on without."""
        if not text:
            yield WarningRaised(
                code="empty_step", message=f"step {self.step + 1} has no answer: the steps go on without"
            )
        yield StepAnswered(
            step=self.step,
            text=text,
            chunk_ids=tuple(chunk.chunk_id for chunk in found.chunks) if found else (),
            retrieved=found is not None,
        )

    def used_up(self) -> Generator[Event, None, None]:
        """Say that no further step is made."""
        yield WarningRaised(
            code="steps_used_up",
            message=f"steps are used up (--max-steps {self.use.options.max_steps}): the answer is asked for now",
        )

    def complete(self, marker: str) -> Generator[Event, None, str]:
        """End the steps by a marker behind which the answer stands, and let the model say it."""
        self.parts.append(marker)
        return (yield from self.write("answer", self.use.options.conclusion_tokens)).text

    def finish(self) -> Generator[Event, None, Answer]:
        """End the steps by "So the final answer is:", and give what the model says (METHODS 9.2)."""
        return (yield from self.conclude(final_answer("", (yield from self.complete(FINAL_ANSWER_IS)))))

    def conclude(self, text: str, extraction: Extraction = "final") -> Generator[Event, None, Answer]:
        """Give the answer that the steps came to."""
        if not self.asked:
            yield DecisionMade(retrieve=False, uncertainty=None, threshold=None, reason="nothing was asked")
        source: AnswerSource = "documents" if self.consulted else "draft"
        return Answer(text=text, source=source, extraction=extraction, chunk_ids=tuple(self.consulted))

    def fitting_prompt(self, max_tokens: int) -> Generator[Event, None, Prompt]:
        """Build the prompt; what does not fit is left out of what was found last, the last ranked first.

        What was found before stands in the KV cache, as long as nothing in front of it changes.

        Raises:
            QueryTooLong: it does not even fit without a chunk.
        """
        room = self.use.model.info.context_length - max_tokens
        while True:
            prompt = self.use.model.build_prompt(self.request, written=self.written)
            if len(prompt) <= room:
                return prompt
            last = next((part for part in reversed(self.parts) if isinstance(part, Found) and part.chunks), None)
            if last is None:
                raise QueryTooLong(
                    f"the question and its steps take {len(prompt)} tokens and leave no room for an answer in a "
                    f"context of {self.use.model.info.context_length}",
                    "raise --context-length, or take fewer --examples or --max-steps",
                )
            dropped = last.chunks.pop()
            yield WarningRaised(
                code="chunk_dropped",
                message=f"{dropped.location} does not fit the context window of "
                f"{self.use.model.info.context_length} tokens",
            )


def shortened(text: str) -> str:
    """A text as a warning quotes it: on one line, of a long one its beginning."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}..."
