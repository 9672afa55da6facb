"""Write a rationale and an answer, with the states of their tokens: what probers decide from and learn of.

A small model often ends its turn behind the rationale. Then the answer's marker is set, and it writes the answer in a
second, short call, whose tokens are pooled with the first one's: the states are of rationale and answer, as METHODS 8
has them. A text that is trained on and one that is answered with are written by the same steps: their states compare.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adaptrag_cli import prompts
from adaptrag_cli.answers import ANSWER_MARKER, before_answer, marked_answer
from adaptrag_cli.events import Candidate, Event, Scalar
from adaptrag_cli.models.base import Generation, LanguageModel, Prompt, Token
from adaptrag_cli.prompts import RATIONALE_MARKER
from adaptrag_cli.strategies.answering import fit_prompt
from adaptrag_cli.strategies.base import Options, Resources
from adaptrag_cli.strategies.steps import generate

if TYPE_CHECKING:
    from adaptrag_cli.probing.prober import ProberKind

RATIONALE_USES = frozenset({"examples", "rationale_tokens", "conclusion_tokens"})
"""Options that decide how it is written."""
STOP = ("\n\n", "Question:")
"""It ends with a blank line, or where the model asks itself the next question (METHODS 8)."""
_MARKED = f"\n{ANSWER_MARKER}"


@dataclass(frozen=True, kw_only=True)
class Rationale:
    """A rationale and its answer, as one call or two wrote them."""

    generation: Generation
    shown: tuple[Candidate, ...]
    """The chunks that its prompt holds."""
    completion: Generation | None = None
    """The answer, where the first call wrote none."""

    @property
    def text(self) -> str:
        """Rationale, marker and answer."""
        return self.generation.text if self.completion is None else _marked(self.generation) + self.completion.text

    @property
    def tokens(self) -> tuple[Token, ...]:
        """What the model wrote: a marker that was set for it is not among them."""
        return tuple(token for call in self._calls for token in call.tokens)

    @property
    def seconds(self) -> float:
        return sum(call.seconds for call in self._calls)

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
        calls = [call for call in self._calls if call.states]
        if len(calls) == 1:
            return calls[0].states
        weights = [call.state_tokens / sum(each.state_tokens for each in calls) for call in calls]
        return {
            layer: tuple(
                sum(weight * number for weight, number in zip(weights, numbers, strict=True))
                for numbers in zip(*(call.states[layer] for call in calls), strict=True)
            )
            for layer in (calls[0].states if calls else ())
        }

    @property
    def _calls(self) -> tuple[Generation, ...]:
        return (self.generation,) if self.completion is None else (self.generation, self.completion)


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
    rationale = Rationale(generation=generation, shown=tuple(shown))
    if rationale.answer:
        return rationale
    return replace(rationale, completion=(yield from _complete(query, rationale, use, layers)))


def _complete(
    query: str, rationale: Rationale, use: Resources, layers: Sequence[int]
) -> Generator[Event, None, Generation]:
    """End a rationale that has no answer with `ANSWER_MARKER`, and let the model say which."""
    max_tokens = use.options.conclusion_tokens
    written = _marked(rationale.generation)
    prompt, shown = yield from fit_prompt(
        rationale.shown, use, max_tokens, lambda passages: _prompt(query, passages, use, written)
    )
    return (
        yield from generate(
            use, "answer", prompt, max_tokens=max_tokens, chunk_ids=_ids(shown), stop=("\n",), states=layers
        )
    )


def _marked(generation: Generation) -> str:
    """A text that ends with the answer's marker."""
    written = generation.text.rstrip()
    return written if written.lower().endswith(ANSWER_MARKER.lower()) else written + _MARKED


def written_with(kind: ProberKind, options: Options) -> dict[str, Scalar]:
    """What decides the texts that a prober of the kind learns from and reads; of all wording a digest."""
    if kind == "question":
        return {"draft_tokens": options.draft_tokens, "prompt": _digest(prompts.direct(""))}
    asked = prompts.rationale("", [prompts.Passage(title="", text="")], options.examples)
    return {
        "retriever": options.retriever,
        "top_k": options.top_k,
        "examples": options.examples,
        "rationale_tokens": options.rationale_tokens,
        "conclusion_tokens": options.conclusion_tokens,
        "prompt": _digest("\0".join((asked, RATIONALE_MARKER, _MARKED, *STOP))),
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def question_states(query: str, model: LanguageModel, layers: Sequence[int]) -> Mapping[int, tuple[float, ...]]:
    """The states of the question: after each layer, of the last token of the prompt that asks for a draft."""
    return model.prompt_states(model.build_prompt(prompts.direct(query)), layers)


def _prompt(query: str, passages: Sequence[prompts.Passage], use: Resources, written: str = "") -> Prompt:
    return use.model.build_prompt(
        prompts.rationale(query, passages, use.options.examples), written=RATIONALE_MARKER + written
    )


def _ids(chunks: Sequence[Candidate]) -> tuple[str, ...]:
    return tuple(chunk.chunk_id for chunk in chunks)
