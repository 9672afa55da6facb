"""Who writes the narratives of Algorithm 1: local models over an index (DeepRAG, sections 3.3 and 4.3).

The teacher asks the sub-queries, answers them from documents, and says when it is over; the target answers from memory.
The paper's teacher is a far stronger model, with prompts of its own (`TaughtNarrator`). Where none is named, the target
is its own (`OwnNarrator`), and is prompted as strategy `deeprag` does it: what a trained model writes is its narrative.
What was found stays in the history of the target's answers.

Both answers to a sub-query are decoded together where one model without an adapter writes both: two of its lanes take
each step as one batch. Elsewhere that from documents, which costs most, is put off until it is needed.

Differs from the paper:
- The wording of the teacher's prompts is ours. It takes a question apart in a list of simple ones, which it also ends;
  within a narrative small models copy the whole question, and conclude with whatever they have read.
- Whether it is over is read off the likelier of the two beginnings of the next line, and the first step always is one.
- That passages do not tell is known by common words (`_TELLS_NOTHING`); the code prunes a phrase that it has asked for.
  The teacher is offered none here, and so it guesses.
- A sub-query of one word ends the path.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from adaptrag_cli import prompts
from adaptrag_cli.answers import FINAL_ANSWER_IS, final_answer
from adaptrag_cli.learning.tree import Answers, Steps
from adaptrag_cli.models.base import Generation, LabelScores, ModelInfo, Prompt, Token
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.stepwise.narrative import (
    CONTEXT,
    FOLLOW_UP,
    INTERMEDIATE_ANSWER,
    SEARCH,
    Narrative,
    listed,
    listed_examples,
    numbered,
    on_one_line,
    passage,
    render,
    worked_examples,
)
from adaptrag_cli.strategies.base import Options
from adaptrag_cli.strategies.telling import STEP_ANSWER_TOKENS, SUB_QUERY_TOKENS
from adaptrag_cli.words import words

_LINE_END = ("\n",)
_TELLS_NOTHING = re.compile(
    r"\W*(there is )?no (\w+ )?info(rmation)?\b"
    r"|\W*((it|this|that|the answer) is )?not (\w+ )?(mentioned|stated|specified|provided|given|known)"
    r"(\W*$|[.,;]| (in|by|here)\b)"
    r"|\W*((it|this|that|the answer) is )?(unknown|unclear)\W*$|\W*(none|n/a)\W*$"
    r"|\W*i (do not|don't|cannot|can't) \w+"
    r"|\W*the (\w+ )?(passages?|context|text|documents?) (do|does) not\b",
    re.IGNORECASE,
)
"""How models say that passages do not tell; the released code prunes its own such phrase (METHODS 9.3)."""


class Writer(Protocol):
    """What a narrator needs of a `LanguageModel`."""

    @property
    def info(self) -> ModelInfo: ...

    def build_prompt(self, user_text: str, *, written: str = "") -> Prompt: ...

    def generate(
        self, prompt: Prompt, *, max_tokens: int, stop: Sequence[str]
    ) -> Generator[Token, None, Generation]: ...

    def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelScores: ...


@dataclass(frozen=True, kw_only=True)
class _Line:
    """A line that a model is to write, and at most how long."""

    model: Writer
    prompt: Prompt
    max_tokens: int

    @property
    def fits(self) -> bool:
        return len(self.prompt) + self.max_tokens <= self.model.info.context_length


class OwnNarrator:
    """A `Narrator` that writes all lines within the narrative. What no longer fits the context counts as empty."""

    def __init__(
        self, *, target: Writer, teacher: Writer, retriever: Retriever, options: Options, together: bool = True
    ) -> None:
        """`target` and `teacher` may be lanes of one model, but not one lane.

        Args:
            together: write both answers to a sub-query at once; else each when it is asked for.
        """
        self._target = target
        self._teacher = teacher
        self._retriever = retriever
        self._options = options
        self._together = together
        self._examples = worked_examples(options.examples)

    def sub_query(self, question: str, steps: Steps) -> str:
        """Ask the first thing in any case, and go on where that is likelier than to end.

        Untrained models do not keep to the form by themselves: small ones begin with the search.
        """
        written = _told(steps)
        if steps and _ends(self._line(self._teacher, question, written, 1), FOLLOW_UP):
            return ""
        return _unless_it_asks_nothing(
            _write(self._line(self._teacher, question, f"{written}{FOLLOW_UP}", SUB_QUERY_TOKENS))
        )

    def answers(self, question: str, steps: Steps, sub_query: str) -> Answers:
        """Both answers, decoded together, or that from memory alone."""
        asked = _asked(steps, sub_query)
        direct = self._line(self._target, question, f"{asked}{INTERMEDIATE_ANSWER}", STEP_ANSWER_TOKENS)
        if not self._together:
            return Answers(direct=_write(direct), retrieved=None)
        passages = self._found(question, asked, sub_query)
        if not passages:
            return Answers(direct=_write(direct), retrieved="")
        told, retrieved = write_together([direct, self._reading(question, asked, sub_query, passages)])
        return Answers(direct=told, passages=passages, retrieved=_unless_it_tells_nothing(retrieved))

    def look_up(self, question: str, steps: Steps, sub_query: str) -> tuple[tuple[str, ...], str]:
        """The passages, and the answer from them; those that do not fit are left out, the last ranked first."""
        asked = _asked(steps, sub_query)
        passages = self._found(question, asked, sub_query)
        if not passages:
            return (), ""
        return passages, _unless_it_tells_nothing(_write(self._reading(question, asked, sub_query, passages)))

    def final(self, question: str, steps: Steps) -> str:
        """The final answer."""
        written = f"{_told(steps)}{FINAL_ANSWER_IS}"
        line = self._line(self._teacher, question, written, self._options.conclusion_tokens)
        return final_answer("", _write(line))

    def _found(self, question: str, asked: str, sub_query: str) -> tuple[str, ...]:
        """What a search finds, as far as it fits with room for the rest of its step and for the answer."""
        options = self._options
        found = self._retriever.search(sub_query, retriever=options.retriever, n=options.top_k)
        passages = [on_one_line(passage(each.chunk.title, each.chunk.text)) for each in found]
        needed = STEP_ANSWER_TOKENS + SUB_QUERY_TOKENS + options.conclusion_tokens
        while passages:
            written = _looked_up(asked, passages)
            if all(self._line(m, question, written, needed).fits for m in (self._teacher, self._target)):
                break
            passages.pop()
        return tuple(passages)

    def _reading(self, question: str, asked: str, sub_query: str, passages: Sequence[str]) -> _Line:
        """The line that answers a sub-query from passages."""
        return self._line(self._teacher, question, _looked_up(asked, passages), STEP_ANSWER_TOKENS)

    def _line(self, model: Writer, question: str, written: str, max_tokens: int) -> _Line:
        return _line(model, prompts.follow_ups(question, self._examples), written, max_tokens)


class TaughtNarrator(OwnNarrator):
    """A `Narrator` whose teacher takes questions apart, reads and concludes by prompts of its own (section 4.3)."""

    def __init__(
        self, *, target: Writer, asking: Writer, reading: Writer, retriever: Retriever, options: Options
    ) -> None:
        """`asking` and `reading` are two lanes of the teacher, so that neither drives out what the other has read."""
        super().__init__(target=target, teacher=asking, retriever=retriever, options=options, together=False)
        self._reader = reading
        self._lists = listed_examples()

    def sub_query(self, question: str, steps: Steps) -> str:
        """The next item of the list of simple questions."""
        written, number = listed(steps), f"{len(steps) + 1}."
        if steps and _ends(self._item(question, written, 1), number):
            return ""
        return _unless_it_asks_nothing(_write(self._item(question, f"{written}{number}", SUB_QUERY_TOKENS)))

    def final(self, question: str, steps: Steps) -> str:
        """The final answer, from the answers in the list."""
        line = self._item(question, f"{listed(steps)}{FINAL_ANSWER_IS}", self._options.conclusion_tokens)
        return final_answer("", _write(line))

    def _item(self, question: str, written: str, max_tokens: int) -> _Line:
        return _line(self._teacher, prompts.simple_questions(question, self._lists), written, max_tokens)

    def _reading(self, question: str, asked: str, sub_query: str, passages: Sequence[str]) -> _Line:
        request = prompts.with_passages(sub_query, [prompts.Passage(title="", text=text) for text in passages])
        return _line(self._reader, request, "", STEP_ANSWER_TOKENS)


def _line(model: Writer, request: str, written: str, max_tokens: int) -> _Line:
    return _Line(model=model, prompt=model.build_prompt(request, written=written), max_tokens=max_tokens)


def _ends(line: _Line, marker: str) -> bool:
    """Whether the final answer is likelier to come next than the marker of a further sub-query."""
    if not line.fits:
        return True
    on, end = line.model.label_logprobs(line.prompt, (marker, FINAL_ANSWER_IS)).logprobs
    return end > on


def write_together(lines: Sequence[_Line]) -> list[str]:
    """Let each line be written, a token of each in turn, so that lanes of one model decode them as one batch.

    Raises:
        RunCancelled: the person stopped it.
        ModelError: a backend refuses.
    """
    texts = [""] * len(lines)
    going: dict[int, Generator[Token, None, Generation]] = {
        number: line.model.generate(line.prompt, max_tokens=line.max_tokens, stop=_LINE_END)
        for number, line in enumerate(lines)
        if line.fits
    }
    try:
        while going:
            for number, writing in list(going.items()):
                try:
                    next(writing)
                except StopIteration as done:
                    generation: Generation = done.value
                    texts[number] = on_one_line(generation.text)
                    del going[number]
    finally:
        for writing in going.values():
            writing.close()
    return texts


def _told(steps: Steps) -> str:
    """The model's turn so far, ending at the beginning of a line."""
    return f"{render(Narrative(steps=steps))}\n" if steps else ""


def _asked(steps: Steps, sub_query: str) -> str:
    """The model's turn up to the line of a sub-query."""
    return f"{_told(steps)}{FOLLOW_UP} {sub_query}\n"


def _write(line: _Line) -> str:
    return write_together([line])[0]


def _unless_it_asks_nothing(asked: str) -> str:
    return asked if len(words(asked)) > 1 else ""  # such as "No"


def _unless_it_tells_nothing(answer: str) -> str:
    return "" if _TELLS_NOTHING.match(answer) else answer


def _looked_up(asked: str, passages: Sequence[str]) -> str:
    return f"{asked}{SEARCH}\n{CONTEXT}\n{numbered(passages)}\n{INTERMEDIATE_ANSWER}"
