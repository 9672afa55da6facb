"""Routers that learn from an evaluation: SKR's vote of similar questions, and the limit of popularity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import pytest

from adaptrag_cli import engine
from adaptrag_cli.errors import ExitCode
from adaptrag_cli.events import (
    DecisionMade,
    Event,
    PathRetrieved,
    PromptBuilt,
    RunFailed,
    RunFinished,
    Scalar,
    UncertaintyMeasured,
    WarningRaised,
)
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.strategies.base import LabelledQuestion, Labels, Options, Resources, load_strategy
from adaptrag_cli.strategies.routers import embed_labelled, log_popularity, popularity_limit, route_by_neighbours
from fakes import ScriptedModel
from lamp import ANGLES, DOCUMENTS, QUERY, unsure_model
from laws import check_laws
from plane import PlaneEncoder, plane_index

# Questions of a past evaluation, by their angle from the query at 0 degrees.
ASKED = {"first question": 5.0, "second question": -10.0, "third question": 15.0, "fourth question": 80.0}


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    folder = tmp_path_factory.mktemp("routers")
    encoder = PlaneEncoder(folder / "encoder", ANGLES | ASKED)
    return Retriever(plane_index(folder, DOCUMENTS, encoder), encoder)


def labelled(query: str, better: str, **facts: Scalar) -> LabelledQuestion:
    """A question that `documents`, `memory`, `both` or `neither` answered right."""
    return LabelledQuestion(
        id=query,
        query=query,
        right_from_memory=better in ("memory", "both"),
        right_from_documents=better in ("documents", "both"),
        facts=facts,
    )


def run(
    strategy: str,
    retriever: Retriever | None,
    questions: Sequence[LabelledQuestion] | None,
    *,
    facts: dict[str, Scalar] | None = None,
    query: str = QUERY,
    model: ScriptedModel | None = None,
    **options: object,
) -> list[Event]:
    labels = None if questions is None else Labels(source="runs/past", questions=tuple(questions))
    use = Resources(
        model=model or unsure_model(),
        retriever=retriever,
        options=Options(top_k=2, **options),
        labels=labels,
        facts=facts or {},
    )
    ticks = count()
    asked = engine.Run(query=query, peek=False)
    events = list(engine.answer(asked, load_strategy(strategy), use, clock=lambda: next(ticks) / 1000))
    check_laws(events)
    return events


def only(events: Sequence[Event], kind: type) -> Event:
    found = [event for event in events if isinstance(event, kind)]
    assert len(found) == 1, f"{len(found)} of {kind.__name__}"
    return found[0]


def cost(events: Sequence[Event]) -> tuple[int, int]:
    counts = only(events, RunFinished).counts
    return counts.llm_calls, counts.searches


def decided(events: Sequence[Event]) -> tuple[bool, str]:
    decision = only(events, DecisionMade)
    assert (decision.uncertainty, decision.threshold) == (None, None)
    return decision.retrieve, decision.reason


# --- SKR


@pytest.mark.parametrize(
    ("documents", "memory", "retrieve", "reason"),
    [
        (2, 3, False, "3 of 5 similar questions were answered better from memory"),
        (3, 2, True, "3 of 5 similar questions were answered better from documents"),
    ],
)
def test_the_worked_vote(documents, memory, retrieve, reason):
    # METHODS 12: P = 47, N = 62, 740 labelled questions, so the lead needed is int(15 * 5 / 740) = 0.
    route = route_by_neighbours(
        neighbours_documents=documents, neighbours_memory=memory, all_documents=47, all_memory=62, labelled=740, k=5
    )
    assert (route.retrieve, route.reason) == (retrieve, reason)


@pytest.mark.parametrize(
    ("documents", "memory", "all_documents", "all_memory", "retrieve", "reason"),
    [
        # N - P = 60, int(60 * 5 / 100) = 3: memory leads by 3, and that is enough; by 1 it is not.
        (1, 4, 20, 80, False, "4 of 5 similar questions were answered better from memory"),
        (2, 3, 20, 80, True, "3 of 5 similar questions were answered better from memory, a lead smaller than 3"),
        (3, 2, 20, 80, True, "3 of 5 similar questions were answered better from documents"),
        # The other way round, documents have to lead by 3.
        (4, 1, 80, 20, True, "4 of 5 similar questions were answered better from documents"),
        (3, 2, 80, 20, False, "3 of 5 similar questions were answered better from documents, a lead smaller than 3"),
        (2, 3, 80, 20, False, "3 of 5 similar questions were answered better from memory"),
        # Evenly split: what is rarer overall.
        (2, 2, 47, 62, True, "the 4 similar questions are evenly split"),
        (2, 2, 62, 47, False, "the 4 similar questions are evenly split"),
        # P = N belongs to the second case: documents have to win.
        (3, 2, 50, 50, True, "3 of 5 similar questions were answered better from documents"),
        (0, 0, 50, 50, False, "the 0 similar questions are evenly split"),
    ],
)
def test_what_is_more_common_must_win(documents, memory, all_documents, all_memory, retrieve, reason):
    route = route_by_neighbours(
        neighbours_documents=documents,
        neighbours_memory=memory,
        all_documents=all_documents,
        all_memory=all_memory,
        labelled=100,
        k=5,
    )
    assert (route.retrieve, route.reason) == (retrieve, reason)


def test_the_bound_is_rounded_down():
    # 19 * 5 / 100 = .95: a lead of 1 would be needed at 1, and int gives 0.
    route = route_by_neighbours(
        neighbours_documents=2, neighbours_memory=3, all_documents=40, all_memory=59, labelled=100, k=5
    )
    assert not route.retrieve


def test_questions_answered_alike_have_no_vote_and_lower_the_bound(retriever):
    decided_ones = [
        labelled("first question", "memory"),
        labelled("second question", "memory"),
        labelled("third question", "documents"),
        *(labelled(f"fourth question, {n}", "memory") for n in range(3)),
    ]
    # P = 1, N = 5: int(4 * 3 / 6) = 2, and memory leads by 1 among the three nearest.
    events = run("skr-knn", retriever, decided_ones, neighbours=3)
    reason = "2 of 3 similar questions were answered better from memory"
    assert decided(events) == (True, f"{reason}, a lead smaller than 2")
    # Six more that both ways answered alike, nearer than any: int(4 * 3 / 12) = 1.
    alike = [labelled(f"first question, {n}", "both" if n % 2 else "neither") for n in range(6)]
    events = run("skr-knn", retriever, [*alike, *decided_ones], neighbours=3)
    assert decided(events) == (False, reason)


def test_similar_questions_from_memory_mean_a_draft(retriever):
    questions = [
        labelled("first question", "memory"),
        labelled("second question", "memory"),
        labelled("third question", "documents"),
        labelled("fourth question", "documents"),
    ]
    # P = N = 2, so documents have to win; of the three nearest (5, 10 and 15 degrees) one is theirs.
    events = run("skr-knn", retriever, questions, neighbours=3)
    assert decided(events) == (False, "2 of 3 similar questions were answered better from memory")
    assert [e.phase for e in events if isinstance(e, PromptBuilt)] == ["draft"]
    assert only(events, UncertaintyMeasured).value == 0.5  # for comparison
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction) == ("Edison perhaps", "draft", "draft")
    assert cost(events) == (1, 0)


def test_similar_questions_from_documents_mean_a_look_up(retriever):
    questions = [
        labelled("first question", "documents"),
        labelled("second question", "documents"),
        labelled("third question", "memory"),
        labelled("fourth question", "memory"),
    ]
    events = run("skr-knn", retriever, questions, neighbours=3)
    assert decided(events) == (True, "2 of 3 similar questions were answered better from documents")
    assert only(events, PathRetrieved).path == "query"
    assert [e.phase for e in events if isinstance(e, PromptBuilt)] == ["answer"]
    assert only(events, RunFinished).answer == "Ottilie Brandt"
    assert cost(events) == (1, 1)


def test_the_number_of_neighbours_decides(retriever):
    questions = [
        labelled("first question", "documents"),
        labelled("second question", "memory"),
        labelled("third question", "memory"),
    ]
    # P = 1 < N = 2: memory has to win. One neighbour is the documents'; of three, two are memory's.
    assert decided(run("skr-knn", retriever, questions, neighbours=1))[0]
    assert not decided(run("skr-knn", retriever, questions, neighbours=3))[0]
    # Of two, one each: int(1 * 2 / 3) = 0, and a tie is no win.
    assert decided(run("skr-knn", retriever, questions, neighbours=2)) == (
        True,
        "the 2 similar questions are evenly split",
    )


def test_the_question_itself_is_left_out_with_a_warning(retriever):
    questions = [
        labelled(f"  {QUERY.upper()} ", "documents"),  # the same whatever its spacing and case
        labelled("first question", "memory"),
        labelled("fourth question", "documents"),
    ]
    events = run("skr-knn", retriever, questions, neighbours=1)
    warning = only(events, WarningRaised)
    assert warning.code == "labelled_question"
    assert warning.message == "the question is one of the labelled ones of runs/past and is left out of them"
    assert decided(events) == (False, "1 of 1 similar questions were answered better from memory")


def test_labels_without_a_difference_are_refused(retriever):
    questions = [labelled("first question", "both"), labelled("second question", "neither")]
    failed = run("skr-knn", retriever, questions)[-1]
    assert isinstance(failed, RunFailed)
    assert failed.message == "never and always answered every labelled question alike"


@pytest.mark.parametrize("strategy", ["skr-knn", "popularity"])
def test_without_labels_the_flag_is_named(retriever, strategy):
    failed = run(strategy, retriever, None, facts={"s_pop": 10})[-1]
    assert isinstance(failed, RunFailed)
    assert (failed.error, failed.exit_code) == ("ConfigError", ExitCode.USAGE)
    assert failed.hint == "give --labels RUN, the folder of an adaptrag eval run with --strategies never,always"


@pytest.mark.parametrize("strategy", ["skr-knn", "popularity"])
def test_a_look_up_finds_what_always_finds(retriever, strategy):
    def found(name: str) -> list[tuple[str, ...]]:
        use = Resources(model=ScriptedModel(), retriever=retriever, options=Options(top_k=2))
        events = engine.look_up(engine.Run(query=QUERY), load_strategy(name), use)
        return [tuple(c.chunk_id for c in e.chunks) for e in events if isinstance(e, PathRetrieved)]

    assert found(strategy) == found("always") == [("lamp.md#0", "harbour.txt#0")]


def test_options_that_change_something_are_named():
    assert load_strategy("skr-knn").uses - load_strategy("popularity").uses == {"neighbours"}
    always, never = load_strategy("always").uses, load_strategy("never").uses
    assert load_strategy("popularity").uses == always | never | {"labels"}


# --- popularity


@pytest.mark.parametrize(
    ("facts", "value"),
    [
        ({"s_pop": 1000}, 3.0),
        ({"s_pop": 1}, 0.0),
        ({"s_pop": 0}, 0.0),
        ({"s_pop": 162.0}, 2.209515),
        ({}, None),
        ({"s_pop": None}, None),
        ({"s_pop": "many"}, None),
        ({"s_pop": True}, None),
        ({"s_pop": -1}, None),
        ({"s_pop": math.nan}, None),
        ({"s_pop": math.inf}, None),
    ],
)
def test_popularity_as_a_logarithm(facts, value):
    assert log_popularity(facts) == (None if value is None else pytest.approx(value, abs=1e-6))


def limit_of(*rows: tuple[float, str]) -> float:
    return popularity_limit([(labelled(f"q{i}", better), popularity) for i, (popularity, better) in enumerate(rows)])


@pytest.mark.parametrize(
    ("rows", "limit"),
    [
        # Right answers by limit: none 2, 1.5 -> 3, 2.5 -> 4, 3.5 -> 3, all 2.
        (((1, "documents"), (2, "documents"), (3, "memory"), (4, "memory")), 2.5),
        # 1.5 and 3.5 are equally good: the smaller, since a look-up has to earn its cost.
        (((1, "documents"), (2, "memory"), (3, "documents"), (4, "memory")), 1.5),
        (((1, "documents"), (2, "documents")), math.inf),
        (((1, "memory"), (2, "memory")), -math.inf),
        (((1, "both"), (2, "neither")), -math.inf),  # nothing is won by looking up
        (((1, "memory"), (2, "documents")), -math.inf),  # all or none: 1 right either way
        # Equal popularities are on one side: 1.5 is the only limit between.
        (((1, "documents"), (1, "documents"), (1, "memory"), (2, "memory")), 1.5),
        # A limit inside the equal ones would be best, and does not exist.
        (((2, "documents"), (2, "memory"), (2, "memory")), -math.inf),
        (((4, "memory"), (2, "documents"), (3, "memory"), (1, "documents")), 2.5),  # in any order
    ],
)
def test_the_limit_that_answers_most_questions_right(rows, limit):
    assert limit_of(*rows) == limit


KNOWN = [
    labelled("first question", "documents", prop="occupation", s_pop=100),
    labelled("second question", "memory", prop="occupation", s_pop=10_000),
    labelled("third question", "documents", prop="capital", s_pop=100_000),
    labelled("fourth question", "memory", prop="author", s_pop=10),
]


@pytest.mark.parametrize(
    ("facts", "retrieve", "reason"),
    [
        # occupation: 2 and 4, limit 3
        (
            {"prop": "occupation", "s_pop": 162},
            True,
            "log10 popularity 2.21 is below 3.00, the limit of relation 'occupation'",
        ),
        (
            {"prop": "occupation", "s_pop": 5856},
            False,
            "log10 popularity 3.77 is not below 3.00, the limit of relation 'occupation'",
        ),
        (
            {"prop": "occupation", "s_pop": 1000},
            False,
            "log10 popularity 3.00 is not below 3.00, the limit of relation 'occupation'",
        ),
        (
            {"prop": "capital", "s_pop": 9_000_000},
            True,
            "log10 popularity 6.95; for relation 'capital', always looking up was right most often",
        ),
        (
            {"prop": "author", "s_pop": 1},
            False,
            "log10 popularity 0.00; for relation 'author', never looking up was right most often",
        ),
    ],
)
def test_each_relation_has_its_limit(retriever, facts, retrieve, reason):
    events = run("popularity", retriever, KNOWN, facts=facts)
    assert decided(events) == (retrieve, reason)
    assert cost(events) == ((1, 1) if retrieve else (1, 0))
    assert only(events, RunFinished).answer == ("Ottilie Brandt" if retrieve else "Edison perhaps")


@pytest.mark.parametrize("relation", [{"prop": "religion"}, {}])
def test_a_relation_without_labels_takes_the_limit_of_all(retriever, relation):
    # 1 memory, 2 documents, 4 memory, 5 documents. Right by limit: none 2, 1.5 -> 1, 3 -> 2, 4.5 -> 1, all 2.
    events = run("popularity", retriever, KNOWN, facts={"s_pop": 10, **relation})
    assert decided(events) == (
        False,
        "log10 popularity 1.00; for all relations, never looking up was right most often",
    )
    # Without the first: 2 documents, 4 memory, 5 documents. Right: none 1, 3 -> 2, 4.5 -> 1, all 2.
    events = run("popularity", retriever, KNOWN[:3], facts={"s_pop": 10, **relation})
    assert decided(events) == (True, "log10 popularity 1.00 is below 3.00, the limit of all relations")


def test_the_question_itself_sets_no_limit(retriever):
    own = labelled(QUERY, "memory", prop="capital", s_pop=100)
    facts: dict[str, Scalar] = {"prop": "capital", "s_pop": 100}
    events = run("popularity", retriever, [*KNOWN, own], facts=facts)
    assert only(events, WarningRaised).code == "labelled_question"
    assert decided(events)[0]  # with it, 2 memory and 5 documents would look nothing up


@pytest.mark.parametrize("facts", [{}, {"prop": "occupation"}, {"s_pop": "?"}])
def test_a_question_without_popularity_is_refused(retriever, facts):
    failed = run("popularity", retriever, KNOWN, facts=facts)[-1]
    assert isinstance(failed, RunFailed)
    assert failed.message == "the popularity of the question's subject is not known"
    assert failed.hint == "only question sets with popularity (PopQA) can use it"


def test_labels_without_popularity_are_refused(retriever):
    failed = run("popularity", retriever, [labelled("first question", "memory")], facts={"s_pop": 10})[-1]
    assert isinstance(failed, RunFailed)
    assert failed.message == "no labelled question has a known popularity"


# --- what labels come from


def test_labels_of_another_model_are_told(retriever):
    labels = Labels(source="runs/past", questions=(labelled("Who lit it?", "memory", s_pop=10),), model="big")
    for fingerprint, told in ((unsure_model().info.fingerprint, 0), ("", 0), ("sha256:big", 1)):
        use = Resources(
            model=unsure_model(),
            retriever=retriever,
            labels=replace(labels, model_fingerprint=fingerprint),
            facts={"s_pop": 5},
        )
        events = list(engine.answer(engine.Run(query=QUERY, peek=False), load_strategy("popularity"), use))
        messages = [e.message for e in events if isinstance(e, WarningRaised)]
        assert messages == ["the labels of runs/past were made with big, and scripted answers"] * told


def test_labelled_questions_are_embedded_before_any_is_asked(retriever, monkeypatch):
    fresh = Retriever(retriever.store, retriever.encoder)
    asked: list[str] = []
    real = retriever.encoder.encode_queries

    def counted(texts: Sequence[str]) -> object:
        asked.extend(texts)
        return real(texts)

    monkeypatch.setattr(retriever.encoder, "encode_queries", counted)
    questions = (labelled("first question", "memory"), labelled("second question", "documents"))
    notes: list[str] = []
    embed_labelled(Labels(source="runs/past", questions=questions), fresh, notes.append)
    assert notes == ["embedding 2 labelled questions"]
    assert asked == ["first question", "second question"]
    run("skr-knn", fresh, questions)
    assert asked == ["first question", "second question", QUERY]
