"""The two strategies every adaptive method is measured against: never look up, always look up."""

from __future__ import annotations

from collections.abc import Generator
from typing import ClassVar

from adaptrag_cli.events import Candidate, DecisionMade, Event
from adaptrag_cli.strategies.answering import ANSWER_USES, answer_from_chunks
from adaptrag_cli.strategies.base import Answer, Options, Resources
from adaptrag_cli.strategies.steps import answer_with_draft, draft_answer, measure_draft, search_path, select_by_query
from adaptrag_cli.uncertainty import odds_of


class Never:
    """Answer from the model's memory (No Retrieval, DTR Tab. 2)."""

    name: ClassVar[str] = "never"
    paper: ClassVar[str] = "No Retrieval, baseline of all five papers"
    summary: ClassVar[str] = "answer from the model's memory; no document is read"
    requires: ClassVar[frozenset[str]] = frozenset({"logprobs"})
    uses: ClassVar[frozenset[str]] = frozenset({"draft_tokens"})
    needs_index: ClassVar[bool] = False
    defaults: ClassVar[Options] = Options()

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Draft once. The uncertainty is measured so that it can be compared, and decides nothing."""
        draft = yield from draft_answer(query, use)
        uncertainty = yield from measure_draft(draft)
        yield DecisionMade(
            retrieve=False,
            uncertainty=uncertainty.value,
            threshold=None,
            reason="never looks up",
            draft_odds=odds_of(uncertainty.value, use.draft_odds),
        )
        return answer_with_draft(draft)

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Give what `always` would have found: this strategy itself never looks up."""
        return (yield from _look_up_query(query, use))


class Always:
    """Look up the query, keep the top k, answer from them (Standard RAG, DTR Tab. 2)."""

    name: ClassVar[str] = "always"
    paper: ClassVar[str] = "Standard RAG, baseline of all five papers"
    summary: ClassVar[str] = "look every question up once (standard RAG)"
    requires: ClassVar[frozenset[str]] = frozenset({"logprobs"})
    uses: ClassVar[frozenset[str]] = frozenset({"retriever", "top_k"} | ANSWER_USES)
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = Options()

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """One search, one call."""
        yield DecisionMade(retrieve=True, uncertainty=None, threshold=None, reason="always looks up")
        kept = yield from self.look_up(query, use)
        return (yield from answer_from_chunks(query, kept, use))

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Search the query and keep the top k."""
        return (yield from _look_up_query(query, use))


def _look_up_query(query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
    """Exactly k chunks are fetched: there is nothing to choose from."""
    found = yield from search_path(use, "query", query, use.options.top_k)
    return (yield from select_by_query(query, found, use))
