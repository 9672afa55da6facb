"""Chain of thought after worked examples, without and with retrieved chunks: the reasoning baselines of three papers.

Algorithm (METHODS 12b; DeepRAG's "CoT" and "CoT-Retrieve", ETC's "w/o RAG" and "Single RAG", Probing-RAG's "No
Retrieval" and "Single-step"):
- `cot`: reasoning = LLM(examples, question); the answer follows "the answer is".
- `cot-retrieve`: D = top k by f(question); reasoning = LLM(examples, D, question); the answer as above.
Reasoning that comes to no answer is ended with "So the answer is" and completed (METHODS 4.7).

Differs from the papers:
- The examples are ours, and they stand before the passages, so that the KV cache serves every question.
- No "Answer:" ends the prompt, as it does there: after one, small models rather answer than reason.
- The passages come from the open index (the papers: Wikipedia), by BM25 as there unless another retriever is chosen.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import ClassVar

from adaptrag_cli.events import Candidate, DecisionMade, Event
from adaptrag_cli.strategies.base import Answer, Options, Resources
from adaptrag_cli.strategies.reasoning import REASONING_USES, Thought, look_up_question


class ChainOfThought:
    """Reason from memory, then answer."""

    name: ClassVar[str] = "cot"
    paper: ClassVar[str] = "Chain of Thought (Wei et al., 2022), as the papers' baseline"
    summary: ClassVar[str] = "think step by step from memory; no document is read"
    requires: ClassVar[frozenset[str]] = frozenset({"logprobs"})
    uses: ClassVar[frozenset[str]] = REASONING_USES
    needs_index: ClassVar[bool] = False
    defaults: ClassVar[Options] = Options()

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """One call, or two where the first comes to no answer."""
        yield DecisionMade(retrieve=False, uncertainty=None, threshold=None, reason="never looks up")
        return (yield from _reason(Thought(query=query, use=use)))

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Give what `cot-retrieve` would have found: this strategy itself never looks up."""
        return (yield from look_up_question(query, use))


class ChainOfThoughtRetrieve:
    """Look the question up once, reason over what was found, then answer."""

    name: ClassVar[str] = "cot-retrieve"
    paper: ClassVar[str] = "CoT-Retrieve (DeepRAG), Single RAG (ETC), Single-step (Probing-RAG)"
    summary: ClassVar[str] = "look up once, then think step by step over what was found"
    requires: ClassVar[frozenset[str]] = frozenset({"logprobs"})
    uses: ClassVar[frozenset[str]] = REASONING_USES | {"retriever", "top_k"}
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = Options(retriever="sparse")

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """One search, one call, or two where the first comes to no answer."""
        yield DecisionMade(retrieve=True, uncertainty=None, threshold=None, reason="always looks up")
        chunks = yield from self.look_up(query, use)
        return (yield from _reason(Thought(query=query, use=use, chunks=chunks)))

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Search for the question and keep the top k."""
        return (yield from look_up_question(query, use))


def _reason(thought: Thought) -> Generator[Event, None, Answer]:
    generation = yield from thought.think(thought.use.options.reasoning_tokens)
    yield from thought.keep(generation)
    return (yield from thought.conclude())
