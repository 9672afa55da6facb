"""When methods that look up while they write do so: what is scored of a trace, and what tables and figures say."""

from __future__ import annotations

import msgspec
import pytest

import traces
from adaptrag_cli.evaluation.questions import Question
from adaptrag_cli.evaluation.results import Result
from adaptrag_cli.evaluation.scoring import score_run
from adaptrag_cli.events import DecisionMade, Event
from adaptrag_cli.stepwise.timing import FirstTrigger

QUESTION = Question(id="q1", text="How long does quiet time last?", answers=("9.5 hours",))


def scored(events: list[Event]) -> Result:
    return score_run(events, QUESTION, cell="base", set_name="s", label="etc", trace="t")


def test_a_trace_tells_where_it_was_looked_up_first() -> None:
    result = scored(traces.looked_up_twice())
    assert (result.look_ups, result.triggers) == (2, 2)
    # "Quiet time starts at" are 4 tokens, and the word that fires is the next one.
    assert result.first_trigger == FirstTrigger(token=4, kept="Quiet time starts at")
    assert result.entropies == (0.1, 0.2, 0.4, 0.3, 2.3, 0.1)


def test_a_text_that_stands_was_not_looked_up() -> None:
    result = scored(traces.certain_while_writing())
    assert (result.look_ups, result.triggers, result.first_trigger) == (0, 0, None)
    assert result.entropies == (0.1, 0.1, 0.1, 0.1, 0.4, 0.2, 0.1)


def test_what_is_looked_up_before_anything_is_written_stands_at_the_first_token() -> None:
    result = scored(traces.always())
    assert (result.look_ups, result.triggers) == (1, 0)
    assert result.first_trigger == FirstTrigger(token=0, kept="")
    assert result.entropies == ()


def test_a_look_up_at_every_step_is_no_trigger() -> None:
    events = [
        msgspec.structs.replace(e, threshold=None) if isinstance(e, DecisionMade) else e
        for e in traces.looked_up_twice()
    ]
    assert (scored(events).look_ups, scored(events).triggers) == (2, 0)


@pytest.mark.parametrize("events", [traces.looked_up_twice(), traces.certain_while_writing()], ids=["twice", "never"])
def test_results_are_read_back_as_written(events: list[Event]) -> None:
    result = scored(events)
    assert msgspec.json.decode(msgspec.json.encode(result), type=Result) == result


def test_older_results_open_and_tell_nothing_of_it() -> None:
    line = msgspec.json.decode(msgspec.json.encode(scored(traces.looked_up_twice())))
    for name in ("look_ups", "triggers", "first_trigger", "entropies"):
        del line[name]
    result = msgspec.convert(line, Result)
    assert (result.look_ups, result.triggers, result.first_trigger, result.entropies) == (None, 0, None, ())
