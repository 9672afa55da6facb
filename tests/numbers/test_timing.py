"""Redundant, delayed and missing retrieval, counted by hand (ETC sections 2.2, 6.3, 6.5)."""

from adaptrag_cli.stepwise.timing import (
    FirstTrigger,
    TimedRun,
    delay_of,
    is_delayed,
    is_missing,
    is_redundant,
)

BIRTH = "When was Dyson Parody born?"


def run(kept=None, *, question=BIRTH, golds=("1944",), without="1959", right=False):
    return TimedRun(
        question=question,
        golds=golds,
        answer_without=without,
        right=right,
        right_without=without in golds,
        first_trigger=None if kept is None else FirstTrigger(token=5, kept=kept),
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


def at(token, kept):
    return FirstTrigger(token=token, kept=kept)


def test_delay_is_counted_on_the_same_text():
    text = "Dyson Parody was born on 25 August"
    assert delay_of(at(12, text), at(4, text[:17])) == 8
    assert delay_of(at(7, text[:21]), at(9, text)) == -2
    assert delay_of(at(5, ""), at(3, text)) == 2  # DRAGIN discards its whole sentence
    assert delay_of(at(7, "Gene Watson was"), at(9, text)) is None
    assert delay_of(None, at(3, "")) is None
    assert delay_of(at(3, ""), None) is None
