"""The session without a screen: jobs, history, and what the panels are fed."""

from __future__ import annotations

from adaptrag_cli.events import RunFailed
from adaptrag_cli.service.protocol import Ask, Cancel, Ended, Failed, LookUp, Prepare, Told
from adaptrag_cli.tui.desk import Desk
from traces import always, retrieved, skipped

LOST = RunFailed(error="EngineEnded", message="gone", hint="ask again", exit_code=4)


def told(job: int, events):
    return [Told(job=job, event=event) for event in events]


def failed(job: int) -> Failed:
    return Failed(job=job, error="IndexNotFound", message="no index", hint="adaptrag index FOLDER", exit_code=3)


def test_requests_carry_the_choices_and_rising_numbers():
    desk = Desk({"ask.strategy": "dtr"}, "here.toml")
    assert desk.prepare() == Prepare(job=1, flags={"ask.strategy": "dtr"}, config_file="here.toml")
    asked = desk.ask("Why?")
    assert asked == Ask(job=2, query="Why?", flags={"ask.strategy": "dtr"}, config_file="here.toml")
    again = desk.ask("Why?", flags={"ask.threshold": 0.1}, reuse=skipped())
    assert (again.flags, again.reuse) == ({"ask.threshold": 0.1}, tuple(skipped()))
    assert desk.current is desk.records[1]
    assert desk.choices == {"ask.strategy": "dtr"}


def test_events_reach_the_record_and_the_feed():
    desk = Desk({})
    job = desk.ask("When is quiet time?").job
    events = retrieved()
    (feed,) = desk.take(told(job, events[:4]))
    assert (feed.purpose, feed.events, feed.is_over) == ("run", tuple(events[:4]), False)
    assert desk.records[0].verdict == "running"
    (feed,) = desk.take([*told(job, events[4:]), Ended(job=job)])
    assert feed.is_over
    assert desk.records[0].events == events
    assert desk.running is None
    assert desk.records[0].verdict.startswith("looked it up: u = 0.57 > 0.30")


def test_a_run_that_could_not_begin_leaves_the_history_as_it_was():
    desk = Desk({})
    first = desk.ask("One?").job
    desk.take([*told(first, skipped()), Ended(job=first)])
    second = desk.ask("Two?").job
    assert desk.current is desk.records[1]
    (feed,) = desk.take([failed(second)])
    assert feed.is_over
    assert [record.query for record in desk.records] == ["One?"]
    assert desk.current is desk.records[0]


def test_what_would_have_been_looked_up_is_kept_apart_from_the_run():
    desk = Desk({})
    job = desk.ask("One?").job
    run = skipped()
    desk.take([*told(job, run), Ended(job=job)])
    record = desk.records[0]
    request = desk.look_up(record, "unconsulted")
    assert request == LookUp(job=2, query="One?", flags={}, reuse=tuple(run))
    found = retrieved()[6:14]
    desk.take(told(2, found[:3]))
    assert record.unconsulted == []
    (feed,) = desk.take([*told(2, found[3:]), Ended(job=2)])
    assert (feed.purpose, feed.is_over) == ("unconsulted", True)
    assert record.events == run
    assert record.unconsulted == found
    assert record.reusable == (*run, *found)


def test_a_what_if_changes_nothing_that_is_kept():
    desk = Desk({})
    job = desk.ask("One?").job
    run = retrieved()
    desk.take([*told(job, run), Ended(job=job)])
    record = desk.records[0]
    request = desk.look_up(record, "what_if", {"ask.top_k": 1})
    assert request.flags == {"ask.top_k": 1}
    (feed,) = desk.take([*told(request.job, run[9:10]), Ended(job=request.job)])
    assert (feed.purpose, feed.events) == ("what_if", tuple(run[9:10]))
    assert (record.events, record.unconsulted) == (run, [])


def test_cancel_names_every_job():
    desk = Desk({})
    desk.ask("One?")
    assert desk.cancel() == (Cancel(job=1),)
    desk.take([Ended(job=1)])
    assert desk.cancel() == ()


def test_a_lost_engine_ends_the_run_with_an_event_and_forgets_what_had_not_begun():
    desk = Desk({})
    job = desk.ask("One?").job
    events = retrieved()
    desk.take(told(job, events[:4]))
    (feed,) = desk.fail_all(LOST)
    last = desk.records[0].events[-1]
    assert feed.events == (last,)
    assert (last.seq, last.elapsed_ms, last.message) == (4, 300.0, "gone")
    assert desk.records[0].verdict == "failed: gone"
    desk.ask("Two?")
    (feed,) = desk.fail_all(LOST)
    assert feed.events == ()
    assert [record.query for record in desk.records] == ["One?"]
    assert not desk.is_busy


def test_replies_of_no_job_are_ignored():
    desk = Desk({})
    assert desk.take([*told(7, skipped()[:2]), Ended(job=7)]) == []


def test_a_look_up_that_failed_can_be_tried_again():
    desk = Desk({})
    job = desk.ask("One?").job
    desk.take([*told(job, skipped()), Ended(job=job)])
    record = desk.records[0]
    again = desk.look_up(record, "unconsulted").job
    desk.take([*told(again, [*retrieved()[6:9], LOST]), Ended(job=again)])
    assert record.unconsulted == []


def test_a_run_is_compared_only_with_one_that_differs_in_nothing_but_the_strategy():
    desk = Desk({})
    for query, flags, run in (
        ("One?", {"ask.top_k": 2}, retrieved()),
        ("One?", {"ask.strategy": "always"}, always()),
        ("Two?", {"ask.strategy": "always", "ask.top_k": 2}, always()),
        ("One?", {"ask.strategy": "always", "ask.top_k": 2}, always()),
    ):
        job = desk.ask(query, flags=flags).job
        desk.take([*told(job, run), Ended(job=job)])
    assert desk.answered(desk.records[0], "always") is desk.records[3]
    assert desk.answered(desk.records[0], "never") is None
