"""Query expansion: the model writes first, and what it wrote widens the one search of the question.

Algorithm (baselines of DTR and PAIRS; METHODS 10). Every question is looked up: two LLM calls, one search.
- `hyde` (Gao et al., 2023): p = LLM(passage prompt); search the mean of f(q) and f(p).
- `query2doc` (Wang et al., 2023): p = LLM(passage prompt with four examples); search the text "q q q q q p".
- `cot-expansion` (Jagerman et al., 2023): r = LLM(rationale prompt); search the text "q q q q q r".
Then answer = LLM(prompt with the top k, best first), as standard RAG does.

Differs from the papers:
- HyDE takes one greedy passage (the paper: eight samples of temperature 0.7 and 512 tokens), as DTR does: runs repeat,
  and a CPU writes one text instead of eight. The mean is not normalised again, which changes no order.
- HyDE searches a vector, which only the dense index can do: `--retriever` has no say in it.
- Query2doc joins a dense query and its passage by [SEP]; DTR and PAIRS describe "multiple queries" with a dense
  retriever, so five queries and the passage are searched with whichever retriever is chosen.
- Passage and rationale end after 128 tokens. The encoder cuts what is beyond its window: of a long question's five
  copies and their passage it reads the head.
- A blank text widens nothing: the question alone is searched.
- Candidates are kept in the order of the widened search; the similarity that is shown is the one with the question.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import ClassVar

from adaptrag_cli import prompts
from adaptrag_cli.events import (
    Candidate,
    DecisionMade,
    Event,
    PathName,
    PathRetrieved,
    PseudoContextWritten,
)
from adaptrag_cli.retrieval import FoundChunk
from adaptrag_cli.strategies.answering import ANSWER_USES, answer_from_chunks
from adaptrag_cli.strategies.base import Answer, Options, Resources
from adaptrag_cli.strategies.steps import generate_once, search_path, select_by_query, write_pseudo_context

QUERY_COPIES = 5
"""So that the question outweighs the text that was written for it (n of Query2doc)."""


class _Expansion(ABC):
    """Write, search once with what was written, keep the top k, answer from them."""

    requires: ClassVar[frozenset[str]] = frozenset({"logprobs"})
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = Options()

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Look the widened question up and answer."""
        yield DecisionMade(retrieve=True, uncertainty=None, threshold=None, reason="always looks up")
        kept = yield from self.look_up(query, use)
        return (yield from answer_from_chunks(query, kept, use))

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Write the text that widens the question, search, and keep the top k."""
        use.require_retriever()  # before anything is written for a search that cannot be
        text = yield from self._write(query, use)
        path: PathName = "expanded" if text else "query"
        found = yield from self._search(query, text, path, use)
        return (yield from select_by_query(query, found, use, path))

    @abstractmethod
    def _write(self, query: str, use: Resources) -> Generator[Event, None, str]: ...

    def _search(
        self, query: str, text: str, path: PathName, use: Resources
    ) -> Generator[Event, None, tuple[FoundChunk, ...]]:
        return (yield from search_path(use, path, repeat_query(query, text), use.options.top_k))


class HyDE(_Expansion):
    """Search between the question and a passage that was imagined for it."""

    name: ClassVar[str] = "hyde"
    paper: ClassVar[str] = "HyDE (Gao et al., 2023)"
    summary: ClassVar[str] = "imagine a passage; search the mean of its vector and the question's"
    uses: ClassVar[frozenset[str]] = frozenset({"pseudo_context_tokens", "top_k"} | ANSWER_USES)

    def _write(self, query: str, use: Resources) -> Generator[Event, None, str]:
        pseudo_context = (yield from write_pseudo_context(query, use, prompts.hyde)).text.strip()
        yield PseudoContextWritten(text=pseudo_context)
        return pseudo_context

    def _search(
        self, query: str, text: str, path: PathName, use: Resources
    ) -> Generator[Event, None, tuple[FoundChunk, ...]]:
        import numpy as np

        retriever = use.require_retriever()
        vectors = [vector for vector in (retriever.embed(query), retriever.embed(text)) if vector is not None]
        found = retriever.search_vector(np.mean(vectors, axis=0), n=use.options.top_k)
        yield PathRetrieved(
            path=path,
            retriever="dense",
            query_text=f"{query} {text}".strip(),
            chunks=tuple(chunk.as_record() for chunk in found),
        )
        return found


class Query2doc(_Expansion):
    """Search the question and a passage that was imagined for it as one text."""

    name: ClassVar[str] = "query2doc"
    paper: ClassVar[str] = "Query2doc (Wang et al., 2023)"
    summary: ClassVar[str] = "imagine a passage after four examples; search it with five copies of the question"
    uses: ClassVar[frozenset[str]] = frozenset({"retriever", "pseudo_context_tokens", "top_k"} | ANSWER_USES)

    def _write(self, query: str, use: Resources) -> Generator[Event, None, str]:
        pseudo_context = (yield from write_pseudo_context(query, use, prompts.query2doc)).text.strip()
        yield PseudoContextWritten(text=pseudo_context)
        return pseudo_context


class ChainOfThoughtExpansion(_Expansion):
    """Search the question and a rationale of its answer as one text."""

    name: ClassVar[str] = "cot-expansion"
    paper: ClassVar[str] = "Query Expansion by Prompting (Jagerman et al., 2023)"
    summary: ClassVar[str] = "think aloud; search the thoughts with five copies of the question"
    uses: ClassVar[frozenset[str]] = frozenset({"retriever", "rationale_tokens", "top_k"} | ANSWER_USES)

    def _write(self, query: str, use: Resources) -> Generator[Event, None, str]:
        rationale = yield from generate_once(
            use, "rationale", prompts.chain_of_thought(query), max_tokens=use.options.rationale_tokens
        )
        return rationale.text.strip()


def repeat_query(query: str, text: str) -> str:
    """Five copies of the question, then the text, a space between them; the question once where there is no text."""
    return " ".join([query] * QUERY_COPIES + [text]) if text else query
