"""What dtr+verify weighs with: features by hand, fits on toys with known chances, both decisions, the simulator."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from adaptrag_cli.calibration import FittedVerifier, Logistic
from adaptrag_cli.evaluation.verifier import (
    Documents,
    Example,
    fit_logistic,
    fit_verifier,
    held_out_outcomes,
    verify_outcomes,
)
from adaptrag_cli.strategies.weighing import (
    Seen,
    after_features,
    agreement,
    before_features,
    fits,
    held_by,
    is_worth_looking_up,
    likelier,
)

LAMP = Seen(text="The lamp\nOttilie Brandt lit it in 1887.", query_score=0.7, ais_score=0.2)
FEES = Seen(text="Fees\nThe mooring fee is 1,500 crowns.", query_score=0.3, ais_score=0.5)


def constant(chance: float) -> Logistic:
    """The same chance for everything."""
    return Logistic(features=(), weights=(), means=(), scales=(), intercept=math.log(chance / (1 - chance)))


def verifier(
    draft: float = 0.5, before: float = 0.5, after: float = 0.5, draft_after: float = 0.5, **changes: object
) -> FittedVerifier:
    values: dict[str, object] = {"encoder": "e", "look_up": "query", "skip_margin": 0.1, "keep_margin": 0.1}
    return FittedVerifier(
        draft=constant(draft),
        before=constant(before),
        after=constant(after),
        draft_after=constant(draft_after),
        **(values | changes),  # type: ignore[arg-type]
    )


# --- features


def test_what_is_known_before_a_decision():
    features = before_features("Who lit it?", "Ottilie Edison", 0.48, [FEES, LAMP])
    assert features == {
        "draft_uncertainty": pytest.approx(math.log(0.5)),
        "draft_is_closed": 0.0,
        "draft_fits": 1.0,
        "query_similarity": 0.7,
        "draft_in_chunks": 0.5,  # one of two words
    }


def test_what_is_known_after_it():
    features = after_features(
        "Did Edison light it?",
        "Ottilie Edison",
        None,
        [LAMP],
        answer="Ottilie Brandt",
        answer_uncertainty=0.0,
        kept=[LAMP, FEES],
    )
    assert features == {
        "draft_uncertainty": pytest.approx(math.log(3.02)),  # undefined: as unsure as 3 nats
        "draft_is_closed": 0.0,
        "draft_fits": 0.0,  # it asks for yes or no
        "query_similarity": 0.7,
        "draft_in_chunks": 0.5,
        "answer_uncertainty": pytest.approx(math.log(0.02)),
        "answer_is_closed": 0.0,
        "answer_fits": 0.0,
        "answer_in_chunks": 1.0,
        "agreement": 0.5,  # one of two words each: 2 * 1 / 4
        "ais_score": 0.5,
    }


def test_without_two_paths_there_is_no_ais_score():
    features = after_features(
        "Who?", "a", 0.1, [], answer="b", answer_uncertainty=0.1, kept=[replace(LAMP, ais_score=None)]
    )
    assert "ais_score" not in features


@pytest.mark.parametrize(
    ("answer", "share"),
    [
        ("Ottilie Brandt", 1.0),
        ("Brandt, 1887", 1.0),
        ("1500", 1.0),  # normalised as "1,500"
        ("Ottilie crowns", 0.5),  # in two chunks, and half in each
        ("Yes", 0.0),
        ("", 0.0),
        ("the", 0.0),
    ],
)
def test_how_much_of_an_answer_one_chunk_holds(answer, share):
    assert held_by(answer, [LAMP, FEES]) == share


@pytest.mark.parametrize(
    ("query", "answer", "is_fit"),
    [
        ("Would George Fox support stoning?", "Yes", True),
        ("Would George Fox support stoning?", "Hound", False),
        (" is it brown? ", "no.", True),
        ("Is it brown or white?", "brown", True),
        ("Is it brown or white?", "Yes", False),
        ("Isabella was who?", "a queen", True),
        ("Who lit it?", "No", False),
        ("Who lit it?", "...", False),
    ],
)
def test_whether_an_answer_has_the_form_that_is_asked_for(query, answer, is_fit):
    assert fits(query, answer) is is_fit


@pytest.mark.parametrize(
    ("draft", "answer", "value"),
    [
        ("The Beatles", "beatles!", 1.0),
        ("Houston", "Houston, Texas", 1.0),
        ("New York City", "York Minster", 0.4),  # 2 * 1 / 5
        ("Edison", "Swan", 0.0),
        ("", "", 0.0),
    ],
)
def test_how_much_answers_agree(draft, answer, value):
    assert agreement(draft, answer) == pytest.approx(value)


# --- decisions


@pytest.mark.parametrize(
    ("draft", "documents", "floor", "retrieve"),
    [
        (0.5, 0.5, 0.0, True),
        (0.59, 0.5, 0.0, True),  # likelier, but within the margin
        (0.61, 0.5, 0.0, False),
        (0.61, 0.5, 0.7, True),  # below the floor: documents may be surer
        (0.71, 0.5, 0.7, False),
    ],
)
def test_a_look_up_is_left_out_only_where_the_draft_is_clearly_likelier(draft, documents, floor, retrieve):
    assert is_worth_looking_up(draft, documents, margin=0.1, floor=floor) is retrieve


@pytest.mark.parametrize(
    ("draft", "documents", "floor", "chosen"),
    [
        (0.5, 0.5, 0.0, "documents"),
        (0.59, 0.5, 0.0, "documents"),
        (0.61, 0.5, 0.0, "draft"),
        (0.61, 0.5, 0.65, "none"),
        (0.2, 0.5, 0.6, "none"),
        (0.2, None, 0.0, "draft"),  # documents gave no answer
        (0.2, None, 0.3, "none"),
    ],
)
def test_the_draft_is_given_only_where_it_is_clearly_likelier(draft, documents, floor, chosen):
    assert likelier(draft, documents, margin=0.1, floor=floor) == chosen


# --- fitting


def test_a_logistic_model_finds_the_chances_of_a_toy():
    # x = 0: 100 of 400 right; x = 1: 300 of 400. With this many the penalty hardly matters.
    rows = [{"x": float(x)} for x in (0, 1) for _ in range(400)]
    right = [i < count for count in (100, 300) for i in range(400)]
    fitted = fit_logistic(rows, right, ["x"])
    assert fitted.chance({"x": 0.0}) == pytest.approx(0.25, abs=0.01)
    assert fitted.chance({"x": 1.0}) == pytest.approx(0.75, abs=0.01)
    assert (fitted.means, fitted.scales) == ((0.5,), (0.5,))


def test_a_separable_toy_keeps_finite_weights():
    rows = [{"x": float(x)} for x in range(20)]
    fitted = fit_logistic(rows, [row["x"] >= 10 for row in rows], ["x"])
    assert 0.5 < fitted.chance({"x": 12.0}) < 0.95
    assert fitted.chance({"x": 9.5}) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(("count", "chance"), [(0, 0.5 / 41), (4, 4.5 / 41), (40, 40.5 / 41), (36, 36.5 / 41)])
def test_with_too_few_of_a_kind_all_have_one_chance(count, chance):
    rows = [{"x": float(i)} for i in range(40)]
    fitted = fit_logistic(rows, [i < count for i in range(40)], ["x"])
    assert fitted.features == ()
    assert fitted.chance({"x": 7.0}) == pytest.approx(chance)


def test_what_never_varies_gets_no_weight_and_what_is_missing_counts_as_the_mean():
    rows = [{"x": float(i), "same": 1.0} | ({"y": float(i % 2)} if i < 30 else {}) for i in range(40)]
    fitted = fit_logistic(rows, [i % 4 < 2 for i in range(40)], ["x", "same", "y"])
    assert fitted.features == ("x", "y")
    assert fitted.means == (pytest.approx(19.5), pytest.approx(0.5))


# --- examples from a rule


def example(
    number: int, *, u: float, draft_right: bool, query_right: bool, both_right: bool | None = None, tells: bool = True
) -> Example:
    """A question; without `tells` right and wrong answers from documents look alike."""

    def documents(right: bool, calls: int, searches: int) -> Documents:
        answer = "Ottilie Brandt" if right or not tells else "goats"
        return Documents(
            answer=answer,
            em=float(right),
            f1=float(right),
            features=after_features("Who?", "Edison", u, [LAMP], answer=answer, answer_uncertainty=0.1, kept=[LAMP]),
            llm_calls=calls,
            searches=searches,
        )

    return Example(
        set="toy",
        question_id=str(number),
        query=f"Question {number}?",
        uncertainty=u,
        draft="Edison",
        draft_em=float(draft_right),
        draft_f1=float(draft_right),
        before=before_features("Who?", "Edison", u, [LAMP]),
        documents={
            "query": documents(query_right, 1, 1),
            "both": documents(query_right if both_right is None else both_right, 2, 2),
        },
    )


def test_what_it_would_answer_and_what_that_would_cost():
    one = example(1, u=0.1, draft_right=True, query_right=False)
    skipped = verify_outcomes([one], verifier(draft=0.9, before=0.1))[0]
    assert (skipped.retrieved, skipped.source, skipped.prediction, skipped.em) == (False, "draft", "Edison", 1.0)
    assert (skipped.llm_calls, skipped.searches) == (1, 1)
    looked_up = verify_outcomes([one], verifier(draft=0.1, before=0.9, after=0.9, draft_after=0.1))[0]
    assert (looked_up.retrieved, looked_up.source, looked_up.prediction, looked_up.em) == (
        True,
        "documents",
        "goats",
        0.0,
    )
    assert (looked_up.llm_calls, looked_up.searches) == (2, 1)  # the peek was the search
    kept = verify_outcomes([one], verifier(before=0.9, after=0.1, draft_after=0.9, look_up="both"))[0]
    assert (kept.retrieved, kept.source, kept.em) == (True, "draft", 1.0)
    assert (kept.llm_calls, kept.searches) == (3, 3)
    none = verify_outcomes([one], verifier(before=0.9, after=0.4, draft_after=0.2), floor=0.5)[0]
    assert (none.source, none.prediction, none.em, none.f1) == ("none", "", 0.0, 0.0)


def _world(seed: int, n: int = 120) -> list[Example]:
    """Sure drafts are right and documents spoil them; unsure drafts are wrong and documents help."""
    generator = np.random.default_rng(seed)
    examples = []
    for i in range(n):
        u = float(generator.choice([0.02, 1.5]))
        is_sure = u < 1
        examples.append(
            example(
                i,
                u=u * float(generator.uniform(0.8, 1.2)),
                draft_right=generator.random() < (0.95 if is_sure else 0.05),
                query_right=generator.random() < (0.3 if is_sure else 0.7),
                tells=False,
            )
        )
    return examples


def test_where_uncertainty_tells_it_beats_never_and_always_on_questions_it_has_not_seen():
    seen, fresh = _world(1), _world(2)
    outcomes = verify_outcomes(fresh, fit_verifier(seen, encoder="e"))
    never = sum(e.draft_em for e in fresh)
    always = sum(e.documents["query"].em for e in fresh)
    assert sum(o.em for o in outcomes) > max(never, always) + 0.1 * len(fresh)


def test_where_nothing_tells_it_falls_back_on_always():
    generator = np.random.default_rng(3)
    examples = [
        example(
            i,
            u=float(generator.random()),
            draft_right=generator.random() < 0.2,
            query_right=generator.random() < 0.4,
            tells=False,
        )
        for i in range(80)
    ]
    fitted = fit_verifier(examples, encoder="e")
    assert all(o.source == "documents" for o in verify_outcomes(examples, fitted))


def test_both_paths_are_searched_only_where_they_are_clearly_better():
    worse = [example(i, u=0.5, draft_right=i % 3 == 0, query_right=i % 2 == 0, both_right=False) for i in range(40)]
    alike = [example(i, u=0.5, draft_right=i % 3 == 0, query_right=i % 2 == 0) for i in range(40)]
    better = [example(i, u=0.5, draft_right=i % 3 == 0, query_right=i % 2 == 0, both_right=True) for i in range(40)]
    assert [fit_verifier(e, encoder="e").look_up for e in (worse, alike, better)] == ["query", "query", "both"]


def test_folds_answer_every_question_once_in_order():
    examples = _world(4, 50)
    outcomes = held_out_outcomes(examples)
    assert [o.question_id for o in outcomes] == [e.question_id for e in examples]
    assert outcomes == held_out_outcomes(examples)


@pytest.mark.parametrize("right", [True, False])
def test_a_constant_outcome_can_be_fitted(right):
    examples = [example(i, u=0.1 * i, draft_right=right, query_right=not right) for i in range(40)]
    outcomes = verify_outcomes(examples, fit_verifier(examples, encoder="e"))
    assert {o.source for o in outcomes} == {"draft" if right else "documents"}
    assert all(o.em for o in outcomes)
