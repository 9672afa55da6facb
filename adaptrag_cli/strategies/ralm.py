"""In-Context RALM: look up every so many tokens, and let what was found stand before what is written next.

Algorithm (Ram et al., 2023, section 3; METHODS 6.3), with stride s and query length l:
    at the tokens 0, s, 2s, ...: D = top 1 for the last l tokens of the question and the text, in place of the D before;
    the next s tokens = LLM(examples, D, question, text).
A question whose text has T tokens costs ceil(T / s) calls and as many searches.

Differs from the paper:
- s = 16 (the paper: 4): after each look-up the passage and all that follows it is evaluated anew, which a CPU feels.
  `--stride 4` is the paper's.
- The passage stands behind the worked examples, so that the KV cache keeps them; there it is written over the beginning
  of the window. It is a chunk of the index, not cut at 256 tokens.
- The text is a chain of thought that ends with "the answer is", as in ETC's tables. In the paper's own form for
  questions, a reader writes ten tokens after one look-up, which is `always`.
- l counts the tokens of the text and, before it, the words of the question. The first look-up is for the question as a
  whole.
- Passages are not reranked by how likely they make the last 16 tokens: each would be one more call.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import ClassVar

from adaptrag_cli.events import Candidate, DecisionMade, Event, QueryBuilt, WarningRaised
from adaptrag_cli.models.base import Generation
from adaptrag_cli.strategies.base import Answer, Options, Resources
from adaptrag_cli.strategies.reasoning import (
    REASONING_USES,
    RETRIEVING_USES,
    Thought,
    look_up_question,
    look_ups_used_up,
)

QUERY_TOKENS = 32
"""l: how much of the end of the text is searched for (the paper's best for its retrievers is 32 to 64)."""
_SENTENCE_ENDS = (".", "!", "?")


class InContextRALM:
    """Look up at regular steps, whatever is being written."""

    name: ClassVar[str] = "ralm"
    paper: ClassVar[str] = "In-Context RALM (Ram et al., 2023)"
    summary: ClassVar[str] = "think step by step, and look up what was just written every 16 tokens"
    requires: ClassVar[frozenset[str]] = frozenset({"logprobs"})
    uses: ClassVar[frozenset[str]] = REASONING_USES | RETRIEVING_USES | {"stride"}
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = Options(retriever="sparse", top_k=1, context_policy="replace", max_retrievals=32)

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Write stride by stride, and conclude."""
        thought = Thought(query=query, use=use)
        stride = use.options.stride
        written: list[str] = []
        while thought.tokens_left:
            if not thought.may_look_up:
                yield look_ups_used_up(use.options)
                yield from thought.keep((yield from thought.think(thought.tokens_left)))
                break
            yield DecisionMade(retrieve=True, uncertainty=None, threshold=None, reason=f"every {stride} tokens")
            built = yield from _next_query(query, written)
            yield from thought.look_up(built, path="reasoning" if written else "query")
            part = yield from thought.think(min(stride, thought.tokens_left))
            yield from thought.keep(part)
            thought.forget_chunks()
            written += [token.text for token in part.tokens]
            if (yield from _has_ended(thought, part)):
                break
        return (yield from thought.conclude())

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Search for the question: what is looked up before anything is written."""
        return (yield from look_up_question(query, use))


def tail(query: str, written: Sequence[str], length: int = QUERY_TOKENS) -> str:
    """The end of a question and the tokens that were written after it: so many tokens, and words of the question."""
    tokens = written[-length:]
    room = length - len(tokens)
    head = query.split()[-room:] if room else []
    return " ".join([*head, "".join(tokens).strip()]).strip()


def _next_query(query: str, written: Sequence[str]) -> Generator[Event, None, QueryBuilt]:
    if not written:
        return QueryBuilt(method="question", text=query)
    text = tail(query, written)
    if any(character.isalnum() for character in text):
        return QueryBuilt(method="tail", text=text)
    yield WarningRaised(
        code="empty_query",
        message="the last tokens hold no word to search for: the question is searched for instead",
    )
    return QueryBuilt(method="question", text=query)


def _has_ended(thought: Thought, part: Generation) -> Generator[Event, None, bool]:
    """Whether the text ends with what was just written."""
    if part.stop_reason != "length":
        return True
    if not part.text.strip():
        yield WarningRaised(
            code="no_progress",
            message=f"the model wrote {len(part.tokens)} tokens without a character: the chain of thought ends here",
        )
        return True
    return thought.is_concluded and thought.text.rstrip().endswith(_SENTENCE_ENDS)
