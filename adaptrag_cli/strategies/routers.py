"""Routers that learn from an evaluation which questions are better answered from memory, and which from documents.

Both read the labels of a run of `adaptrag eval` that asked `never` and `always` (`--labels FOLDER`), and then do as one
of the two would. Labels must never come from the questions that are reported, so a question that is itself labelled is
left out of what is compared with, and a warning says so.

`skr-knn` (SKR, Wang et al., 2023, the nearest-neighbour variant) votes among the most similar labelled questions.
Differs from the paper: vectors come from the index's encoder (the paper: SimCSE).

`popularity` (Mallen et al., 2023, adaptive retrieval) looks up what is asked about unpopular subjects. For each
relation, the limit is the one that would have answered the most labelled questions right.
Differs from the paper: all labels choose the limit (there three quarters of the questions do, and the rest are the
test), and a relation without labels takes the limit over all relations.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from adaptrag_cli.calibration import question_digest
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.events import Candidate, DecisionMade, Event, Scalar, WarningRaised
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.strategies.answering import answer_from_chunks
from adaptrag_cli.strategies.base import Answer, LabelledQuestion, Labels, Options, Resources
from adaptrag_cli.strategies.baselines import Always, Never
from adaptrag_cli.strategies.labels import labels_of_another_model
from adaptrag_cli.strategies.steps import answer_with_draft, draft_answer, measure_draft

_LABELS_HINT = "give --labels RUN, the folder of an adaptrag eval run with --strategies never,always"
_POPULARITY_HINT = "only question sets with popularity (PopQA) can use it"


@dataclass(frozen=True, kw_only=True)
class Route:
    """Whether to look up, and why in words."""

    retrieve: bool
    reason: str


class _Router(ABC):
    """Decide from labels, then do as `never` or `always`."""

    requires: ClassVar[frozenset[str]] = Never.requires | Always.requires
    uses: ClassVar[frozenset[str]] = Never.uses | Always.uses | {"labels"}
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = Options()

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Route the question; draft only when nothing is looked up."""
        labelled = yield from other_questions(query, use)
        route = self._route(query, labelled, use)
        yield DecisionMade(retrieve=route.retrieve, uncertainty=None, threshold=None, reason=route.reason)
        if route.retrieve:
            kept = yield from self.look_up(query, use)
            return (yield from answer_from_chunks(query, kept, use))
        draft = yield from draft_answer(query, use)
        yield from measure_draft(draft)
        return answer_with_draft(draft)

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Search the query and keep the top k, as `always` does."""
        return (yield from Always().look_up(query, use))

    @abstractmethod
    def _route(self, query: str, labelled: Sequence[LabelledQuestion], use: Resources) -> Route: ...


class NearestQuestions(_Router):
    """Let the most similar labelled questions vote."""

    name: ClassVar[str] = "skr-knn"
    paper: ClassVar[str] = "SKR (Wang et al., 2023), nearest neighbours"
    summary: ClassVar[str] = "look up when that served the most similar questions of an earlier evaluation better"
    uses: ClassVar[frozenset[str]] = _Router.uses | {"neighbours"}

    def _route(self, query: str, labelled: Sequence[LabelledQuestion], use: Resources) -> Route:
        decided = [q for q in labelled if q.right_from_memory != q.right_from_documents]
        if not decided:
            raise ConfigError("never and always answered every labelled question alike", "evaluate more questions")
        documents_better = sum(1 for q in decided if q.right_from_documents)
        nearest = nearest_questions(query, decided, use)
        return route_by_neighbours(
            neighbours_documents=sum(1 for q in nearest if q.right_from_documents),
            neighbours_memory=sum(1 for q in nearest if q.right_from_memory),
            all_documents=documents_better,
            all_memory=len(decided) - documents_better,
            labelled=len(labelled),
            k=use.options.neighbours,
        )


class PopularityGate(_Router):
    """Look up what is asked about subjects that are less popular than the relation's limit."""

    name: ClassVar[str] = "popularity"
    paper: ClassVar[str] = "Adaptive Retrieval (Mallen et al., 2023)"
    summary: ClassVar[str] = "look up questions about unpopular subjects (sets with popularity only)"

    def _route(self, query: str, labelled: Sequence[LabelledQuestion], use: Resources) -> Route:
        popularity = log_popularity(use.facts)
        if popularity is None:
            raise ConfigError("the popularity of the question's subject is not known", _POPULARITY_HINT)
        known = [(q, p) for q in labelled if (p := log_popularity(q.facts)) is not None]
        if not known:
            raise ConfigError("no labelled question has a known popularity", _POPULARITY_HINT)
        relation = use.facts.get("prop")
        of_relation = [(q, p) for q, p in known if q.facts.get("prop") == relation] if relation is not None else []
        limit = popularity_limit(of_relation or known)
        about = f"relation {relation!r}" if of_relation else "all relations"
        return _route_by_popularity(popularity, limit, about)


def route_by_neighbours(
    *,
    neighbours_documents: int,
    neighbours_memory: int,
    all_documents: int,
    all_memory: int,
    labelled: int,
    k: int,
) -> Route:
    """Route by SKR's rule.

    P questions were answered better from documents and N from memory. What was better more often must also win among
    the neighbours, by at least int(|P - N| k / labelled), or the other way is taken: where P < N, memory has to win;
    else documents have to. Questions that both ways answered alike count in `labelled` alone, which mostly makes the
    bound 0 (as in the authors' code).
    """
    lead_needed = int(abs(all_documents - all_memory) * k / labelled)
    lead = neighbours_memory - neighbours_documents
    if all_documents < all_memory:
        retrieve = not (lead > 0 and lead >= lead_needed)
    else:
        retrieve = lead < 0 and -lead >= lead_needed
    votes = neighbours_documents + neighbours_memory
    if lead == 0:
        return Route(retrieve=retrieve, reason=f"the {votes} similar questions are evenly split")
    winner = "memory" if lead > 0 else "documents"
    reason = f"{max(neighbours_documents, neighbours_memory)} of {votes} similar questions were answered better from"
    is_too_small = retrieve != (lead < 0)
    return Route(
        retrieve=retrieve,
        reason=f"{reason} {winner}" + (f", a lead smaller than {lead_needed}" if is_too_small else ""),
    )


def popularity_limit(questions: Sequence[tuple[LabelledQuestion, float]]) -> float:
    """The limit of log10 popularity below which looking up answers the most questions right; there is at least one.

    It lies halfway between two neighbouring popularities, or is minus infinity (nothing is looked up) or infinity
    (everything is). Of limits that are equally good the smallest is taken: a look-up has to earn its cost.
    """
    ordered = sorted(questions, key=lambda item: item[1])
    following = [popularity for _, popularity in ordered[1:]] + [math.inf]
    best, best_gain, gain = -math.inf, 0, 0
    for (question, popularity), next_popularity in zip(ordered, following, strict=True):
        gain += question.right_from_documents - question.right_from_memory
        if gain > best_gain and next_popularity > popularity:
            best, best_gain = (popularity + next_popularity) / 2, gain
    return best


def log_popularity(facts: Mapping[str, Scalar]) -> float | None:
    """log10 of the popularity of a question's subject (0 counts as 1); None where it is not known."""
    popularity = facts.get("s_pop")
    if isinstance(popularity, bool) or not isinstance(popularity, int | float) or not 0 <= popularity < math.inf:
        return None
    return math.log10(max(popularity, 1))


def _route_by_popularity(popularity: float, limit: float, about: str) -> Route:
    retrieve = popularity < limit
    if math.isinf(limit):
        way = "always" if limit > 0 else "never"
        return Route(
            retrieve=retrieve,
            reason=f"log10 popularity {popularity:.2f}; for {about}, {way} looking up was right most often",
        )
    side = "below" if retrieve else "not below"
    return Route(
        retrieve=retrieve, reason=f"log10 popularity {popularity:.2f} is {side} {limit:.2f}, the limit of {about}"
    )


def other_questions(
    query: str, use: Resources, hint: str = _LABELS_HINT
) -> Generator[Event, None, tuple[LabelledQuestion, ...]]:
    """Give the labelled questions without the one that is asked.

    Raises:
        ConfigError: there are no labels; the hint says how to make them.
    """
    if use.labels is None:
        raise ConfigError("this strategy learns from labelled questions, and there are none", hint)
    digest = question_digest(query)
    others = tuple(q for q in use.labels.questions if question_digest(q.query) != digest)
    if len(others) < len(use.labels.questions):
        yield WarningRaised(
            code="labelled_question",
            message=f"the question is one of the labelled ones of {use.labels.source} and is left out of them",
        )
    if use.labels.model_fingerprint not in {"", use.model.info.fingerprint}:
        yield WarningRaised(
            code="labels_of_another_model", message=labels_of_another_model(use.labels, use.model.info.name)
        )
    return others


def embed_labelled(labels: Labels, retriever: Retriever, on_note: Callable[[str], None]) -> None:
    """Compute the vectors of all labelled questions, once, so that no question that is asked pays for them."""
    on_note(f"embedding {len(labels.questions):,} labelled questions")
    for question in labels.questions:
        retriever.embed(question.query)


def nearest_questions(query: str, labelled: Sequence[LabelledQuestion], use: Resources) -> list[LabelledQuestion]:
    """The k labelled questions with the largest cosine, best first; ties by id."""
    retriever = use.require_retriever()
    vector = retriever.embed(query)
    assert vector is not None  # the engine refuses a blank question
    similarities = [
        (float(vector @ other), question)
        for question in labelled
        if (other := retriever.embed(question.query)) is not None
    ]
    similarities.sort(key=lambda item: (-item[0], item[1].id))
    return [question for _, question in similarities[: use.options.neighbours]]
