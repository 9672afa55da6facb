"""Redundant, delayed and missing retrieval, counted by hand (ETC sections 2.2, 6.3, 6.5)."""

from adaptrag_cli.stepwise.timing import (
    FirstTrigger,
    Share,
    TimedRun,
    is_delayed,
    is_missing,
    is_redundant,
    mean_delay,
    time_retrievals,
)

BIRTH = "When was Dyson Parody born?"


def run(kept=None, *, token=5, question=BIRTH, golds=("1944",), without="1959", right=False, retrievals=1):
    return TimedRun(
        question=question,
        golds=golds,
        answer_without=without,
        right=right,
        right_without=without in golds,
        retrievals=0 if kept is None else retrievals,
        first_trigger=None if kept is None else FirstTrigger(token=token, kept=kept),
    )


def test_a_retrieval_is_redundant_where_the_model_knew():
    assert is_redundant(run("Dyson Parody was born", without="1944"))
    assert not is_redundant(run("Dyson Parody was born"))
    assert not is_redundant(run(None, without="1944"))


def test_a_retrieval_is_delayed_when_the_wrong_answer_stands_already():
    assert is_delayed(run("Dyson Parody was born on 25 August 1959. Gene"))
    assert not is_delayed(run("Dyson Parody was born on 25 August"))
    assert not is_delayed(run(""))
    # Words, not letters: 1959 is not in 19590.
    assert not is_delayed(run("Dyson Parody has number 19590"))
    assert not is_delayed(run("Dyson Parody was born in 1944.", without="1944"))
    assert not is_delayed(run(None))
    assert not is_delayed(run("Dyson Parody was born", without=""))


def test_an_answer_that_the_question_names_counts_only_as_a_conclusion():
    question = "Who is older, Dyson Parody or Gene Watson?"
    asked = {"question": question, "golds": ("Gene Watson",), "without": "Dyson Parody"}
    assert not is_delayed(run("Dyson Parody was born on", **asked))
    assert is_delayed(run("Dyson Parody came first. So the answer is Dyson Parody.", **asked))
    assert not is_delayed(run("So the answer is Gene Watson.", **asked))


def test_yes_and_no_count_only_as_a_conclusion():
    asked = {"question": "Do cats swim?", "golds": ("yes",), "without": "no"}
    assert not is_delayed(run("Cats like no water", **asked))
    assert is_delayed(run("Cats like no water. So the answer is no.", **asked))


def test_a_retrieval_is_missing_where_a_wrong_answer_was_not_looked_up():
    assert is_missing(run(None))
    assert not is_missing(run(None, right=True))
    assert not is_missing(run("Dyson"))


def test_counts_and_shares():
    timing = time_retrievals(
        [
            run("", token=0, without="1944", right=True, retrievals=3),  # redundant, at the first token
            run("", token=0, right=True),  # needed, at the first token
            run("Parody was born in 1959.", retrievals=2),  # delayed
            run(None),  # missing
            run(None, without="1944", right=True),
        ]
    )
    assert timing.runs == 5
    assert timing.mean_retrievals == 6 / 5
    assert timing.redundant == Share(count=1, of=3)
    assert timing.redundant_at_first_token == Share(count=1, of=2)
    assert timing.delayed == Share(count=1, of=3)
    assert timing.missing == Share(count=1, of=5)
    assert timing.redundant.value == 1 / 3


def test_no_runs_have_no_shares():
    timing = time_retrievals([])
    assert (timing.mean_retrievals, timing.redundant.value, timing.missing.value) == (None, None, None)


def test_delay_against_another_methods_triggers():
    # 12 - 4 and 7 - 9; a text that one of them did not stop does not count.
    assert mean_delay([12, 7, None, 3], [4, 9, 2, None]) == 3.0
    assert mean_delay([None], [3]) is None
    assert mean_delay([], []) is None
