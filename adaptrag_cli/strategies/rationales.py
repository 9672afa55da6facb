"""Write a rationale and an answer in one call, with the states of their tokens: what probers decide from and learn of.

A text that is trained on and one that is answered with are written by the same steps, so their states compare.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from adaptrag_cli import prompts
from adaptrag_cli.answers import ANSWER_MARKER, before_answer, marked_answer
from adaptrag_cli.events import Candidate, Event
from adaptrag_cli.models.base import Generation, LanguageModel, Prompt
from adaptrag_cli.prompts import RATIONALE_MARKER
from adaptrag_cli.strategies.answering import fit_prompt
from adaptrag_cli.strategies.base import Resources
from adaptrag_cli.strategies.steps import generate

RATIONALE_USES = frozenset({"examples", "rationale_tokens", "conclusion_tokens"})
"""Options that decide how it is written."""
STOP = ("\n\n", "Question:")
"""It ends with a blank line, or where the model asks itself the next question (METHODS 8)."""
_MARKED = f"\n{ANSWER_MARKER}"


@dataclass(frozen=True, kw_only=True)
class Rationale:
    """A rationale and its answer, as one call wrote them."""

    generation: Generation
    shown: tuple[Candidate, ...]
    """The chunks that its prompt holds."""

    @property
    def text(self) -> str:
        return self.generation.text

    @property
    def reasoning(self) -> str:
        """What stands before the answer."""
        return before_answer(self.text)

    @property
    def answer(self) -> str:
        """What stands behind the marker; empty where nothing does."""
        return marked_answer(self.text)

    @property
    def states(self) -> Mapping[int, tuple[float, ...]]:
        """Mean state after each layer over its tokens, the prompt's left out; empty where none was fed."""
        return self.generation.states


def write_rationale(
    query: str, chunks: Sequence[Candidate], use: Resources, layers: Sequence[int]
) -> Generator[Event, None, Rationale]:
    """Let the model reason and answer over as many of the chunks as fit, and take the states after some layers."""
    options = use.options
    # A rationale without an answer is completed, and the completion reads the same chunks.
    reserved = options.rationale_tokens + options.conclusion_tokens + len(use.model.tokenize(_MARKED))
    prompt, shown = yield from fit_prompt(chunks, use, reserved, lambda passages: _prompt(query, passages, use))
    generation = yield from generate(
        use,
        "reasoning",
        prompt,
        max_tokens=options.rationale_tokens,
        chunk_ids=_ids(shown),
        stop=STOP,
        states=layers,
    )
    return Rationale(generation=generation, shown=tuple(shown))


def complete_answer(query: str, rationale: Rationale, use: Resources) -> Generator[Event, None, str]:
    """End a rationale that has no answer with `ANSWER_MARKER`, and let the model say which."""
    written = rationale.text.rstrip()
    if not written.lower().endswith(ANSWER_MARKER.lower()):
        written += _MARKED
    max_tokens = use.options.conclusion_tokens
    prompt, shown = yield from fit_prompt(
        rationale.shown, use, max_tokens, lambda passages: _prompt(query, passages, use, written)
    )
    generation = yield from generate(use, "answer", prompt, max_tokens=max_tokens, chunk_ids=_ids(shown), stop=("\n",))
    return generation.text


def question_states(query: str, model: LanguageModel, layers: Sequence[int]) -> Mapping[int, tuple[float, ...]]:
    """The states of the question: after each layer, of the last token of the prompt that asks for a draft."""
    return model.prompt_states(model.build_prompt(prompts.direct(query)), layers)


def _prompt(query: str, passages: Sequence[prompts.Passage], use: Resources, written: str = "") -> Prompt:
    return use.model.build_prompt(
        prompts.rationale(query, passages, use.options.examples), written=RATIONALE_MARKER + written
    )


def _ids(chunks: Sequence[Candidate]) -> tuple[str, ...]:
    return tuple(chunk.chunk_id for chunk in chunks)
