"""Adaptive-RAG: answer from memory, look up once, or look up between sentences, by what similar questions needed.

Algorithm (Jeong et al., 2024, sections 3.2 and 3.3; METHODS 12):
- A classifier gives each question the class A (no look-up), B (one) or C (several), from its text alone.
- The questions that it learns from are labelled by the simplest way that answered them right. One that no way answered
  right is B, or C in a set that is made of multi-hop questions (HotpotQA, 2WikiMultihopQA, MuSiQue).
- A is answered as `never` does, B as `always`, C as `ircot`, whose options hold there.
Labels come from a run of `adaptrag eval` that asked all three (`--labels RUN`), never from questions that are asked.

Differs from the paper:
- The classifier is a vote of the k nearest labelled questions by the vectors of the index's encoder (the paper trains a
  T5-large for many epochs, and chooses the epoch on labels of test questions). Of classes with equally many votes, that
  of the nearest question wins.
- B and C read as many chunks a look-up as `top_k` says (the paper: 15 for B, 6 for C).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from typing import ClassVar

from adaptrag_cli.errors import ConfigError
from adaptrag_cli.events import Candidate, DecisionMade, Event
from adaptrag_cli.strategies.answering import answer_from_chunks
from adaptrag_cli.strategies.base import Answer, LabelledQuestion, Options, Resources
from adaptrag_cli.strategies.baselines import Always, Never
from adaptrag_cli.strategies.ircot import IRCoT, interleave
from adaptrag_cli.strategies.routers import nearest_questions, other_questions
from adaptrag_cli.strategies.steps import answer_with_draft, draft_answer, measure_draft

LABELS_HINT = "give --labels RUN, the folder of an adaptrag eval run with --strategies never,always,ircot"
_NEEDS = {"never": "no document", "always": "one look-up", "ircot": "several look-ups"}


class AdaptiveRAG:
    """Route each question to the simplest way that served similar ones."""

    name: ClassVar[str] = "adaptive-rag"
    paper: ClassVar[str] = "Adaptive-RAG (Jeong et al., 2024)"
    summary: ClassVar[str] = (
        "look up never, once or step by step, as the most similar questions of an evaluation needed"
    )
    requires: ClassVar[frozenset[str]] = Never.requires | Always.requires | IRCoT.requires
    uses: ClassVar[frozenset[str]] = Never.uses | Always.uses | IRCoT.uses | {"labels", "neighbours"}
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = IRCoT.defaults

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Route the question, and do as the chosen way does."""
        labelled = yield from other_questions(query, use, LABELS_HINT)
        known = [question for question in labelled if question.simplest]
        if not known:
            raise ConfigError("no labelled question was asked never, always and ircot", LABELS_HINT)
        way, reason = choose_way(nearest_questions(query, known, use))
        if way == "ircot":
            return (yield from interleave(query, use, reason))
        yield DecisionMade(retrieve=way == "always", uncertainty=None, threshold=None, reason=reason)
        if way == "always":
            kept = yield from self.look_up(query, use)
            return (yield from answer_from_chunks(query, kept, use))
        draft = yield from draft_answer(query, use)
        yield from measure_draft(draft)
        return answer_with_draft(draft)

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Search the query and keep the top k, as `always` does."""
        return (yield from Always().look_up(query, use))


def choose_way(nearest: Sequence[LabelledQuestion]) -> tuple[str, str]:
    """The way that most of the nearest questions needed, and the reason in words; there is at least one."""
    votes = Counter(question.simplest for question in nearest)  # in the order of the questions, the nearest first
    way, count = votes.most_common(1)[0]
    return way, f"{count} of {len(nearest)} similar questions needed {_NEEDS[way]}"
