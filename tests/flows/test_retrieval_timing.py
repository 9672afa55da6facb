"""When methods that look up while they write do so: what is scored of a trace, and what tables and figures say."""

from __future__ import annotations

import io
import json
from pathlib import Path

import msgspec
import pytest

import report_runs
import traces
from adaptrag_cli.evaluation.questions import Question
from adaptrag_cli.evaluation.results import Result, RunData, read_run
from adaptrag_cli.evaluation.retrieval_timing import TimingRow, degenerate, degenerate_in_words, timing_rows
from adaptrag_cli.evaluation.scoring import score_run
from adaptrag_cli.evaluation.statistics import Interval, mean_interval
from adaptrag_cli.evaluation.summary import as_document
from adaptrag_cli.events import DecisionMade, Event
from adaptrag_cli.report.build import build_report, document
from adaptrag_cli.report.page import report_page
from adaptrag_cli.report.terminal_form import print_report, print_tables
from adaptrag_cli.stepwise.timing import FirstTrigger

STRATEGIES = ("never", "cot", "etc", "etc:trigger=0", "etc:trigger=2", "etc:trigger=4", "dragin", "ralm")
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


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    """Twelve questions, numbered from 0, by the rules of `writing_runs`."""
    folder = tmp_path_factory.mktemp("runs") / "writing"
    return read_run(report_runs.write_run(folder, sets=(("popqa", 12),), strategies=STRATEGIES))


@pytest.fixture(scope="module")
def rows(run: RunData) -> dict[str, TimingRow]:
    return {row.strategy: row for row in timing_rows(run, cell="base", set="popqa")}


def share(count: int, of: int) -> Interval | None:
    return mean_interval([1.0] * count + [0.0] * (of - count))


def test_only_what_looks_up_while_it_writes_has_a_row(run: RunData, rows: dict[str, TimingRow]) -> None:
    assert tuple(rows) == STRATEGIES[2:]
    assert {row.n for row in rows.values()} == {12}
    assert {row.without for row in rows.values()} == {"cot"}
    others = tuple(r for r in run.results if r.strategy in {"never", "cot"})
    assert timing_rows(msgspec.structs.replace(run, results=others), cell="base", set="popqa") == ()


def test_look_ups_and_firings_are_counted(rows: dict[str, TimingRow]) -> None:
    # 1, 2, 3, 5, 6, 7, 9, 10 and 11 are looked up, the last one twice.
    assert rows["etc"].fired == share(9, 12)
    assert rows["etc"].look_ups is not None
    assert rows["etc"].look_ups.mean == pytest.approx(10 / 12)
    assert rows["etc:trigger=2"].fired == share(6, 12)
    assert rows["etc:trigger=4"].look_ups == Interval(mean=0.0, low=0.0, high=0.0, n=12)
    assert rows["dragin"].look_ups == Interval(mean=1.0, low=1.0, high=1.0, n=12)
    assert rows["ralm"].fired is None


def test_redundant_is_what_was_right_without_documents(rows: dict[str, TimingRow]) -> None:
    assert rows["etc"].redundant == share(3, 9)  # 2, 6 and 10
    assert rows["etc:trigger=2"].redundant == share(3, 6)
    assert rows["etc:trigger=4"].redundant is None
    assert rows["etc"].redundant_at_first_token is None
    assert rows["dragin"].redundant == share(6, 12)
    assert rows["dragin"].redundant_at_first_token == share(3, 3)  # 0, 4 and 8
    assert rows["ralm"].redundant_at_first_token == share(6, 12)


def test_delayed_is_what_stood_wrong_already_and_missing_what_was_never_looked_up(rows: dict[str, TimingRow]) -> None:
    assert rows["etc"].delayed == share(0, 9)
    assert rows["dragin"].delayed == share(3, 12)  # 1, 5 and 9; 3, 7 and 11 are stopped at "The"
    assert rows["etc"].missing == share(0, 12)
    assert rows["etc:trigger=2"].missing == share(3, 12)  # 1, 5 and 9
    assert rows["etc:trigger=4"].missing == share(6, 12)


def test_delay_is_counted_from_etcs_trigger(rows: dict[str, TimingRow]) -> None:
    assert (rows["etc"].after, rows["etc"].delay) == ("", None)
    # Of the nine that both stop: token 6 against 3 on six, token 1 against 3 on three.
    assert rows["dragin"].after == "etc"
    assert rows["dragin"].delay is not None
    assert (rows["dragin"].delay.mean, rows["dragin"].delay.n) == (pytest.approx((6 * 3 - 3 * 2) / 9), 9)
    assert rows["ralm"].delay == Interval(mean=-3.0, low=-3.0, high=-3.0, n=9)
    assert rows["etc:trigger=4"].delay is None


def test_without_cot_the_answers_of_never_count(run: RunData) -> None:
    rest = tuple(r for r in run.results if r.strategy != "cot")
    right = {r.question_id for r in rest if r.strategy == "never" and r.em > 0}
    row = timing_rows(msgspec.structs.replace(run, results=rest), cell="base", set="popqa")[0]
    looked_up = [r.question_id for r in rest if r.strategy == "etc" and r.retrieved]
    assert (row.without, row.redundant) == ("never", share(sum(q in right for q in looked_up), 9))


def test_without_either_nothing_is_called_redundant(run: RunData) -> None:
    rest = tuple(r for r in run.results if r.strategy not in {"cot", "never"})
    bare = msgspec.structs.replace(run, results=rest)
    row = timing_rows(bare, cell="base", set="popqa")[0]
    assert (row.without, row.redundant, row.delayed) == ("", None, None)
    assert (row.fired, row.missing) == (share(9, 12), share(0, 12))
    out = io.StringIO()
    print_tables(bare, out)
    assert "redundant  " not in out.getvalue()


def test_failed_and_older_results_do_not_count(run: RunData) -> None:
    first, second = [r for r in run.results if r.strategy == "etc"][:2]
    changed = tuple(
        msgspec.structs.replace(r, failure="broken")
        if r is first
        else msgspec.structs.replace(r, look_ups=None)
        if r is second
        else r
        for r in run.results
    )
    row = timing_rows(msgspec.structs.replace(run, results=changed), cell="base", set="popqa")[0]
    assert (row.n, row.fired) == (10, share(8, 10))


@pytest.mark.parametrize(
    ("count", "verdict"), [(0, "almost never"), (4, "almost never"), (5, ""), (95, ""), (96, "almost always")]
)
def test_a_method_that_hardly_decides_is_degenerate(count: int, verdict: str) -> None:
    assert degenerate(share(count, 100)) == verdict


def test_a_method_without_a_threshold_is_not_degenerate() -> None:
    assert (degenerate(None), degenerate_in_words("ralm", None)) == ("", "")
    assert degenerate_in_words("etc", share(50, 100)) == ""


NEVER_FIRES = "etc:trigger=4 is degenerate: it almost never fires, on 0.0 % of 12 questions (under 5 %)"
ALWAYS_FIRES = "dragin is degenerate: it almost always fires, on 100.0 % of 12 questions (over 95 %)"


def test_the_terminal_tells_how_look_ups_were_timed(run: RunData) -> None:
    out = io.StringIO()
    print_tables(run, out)
    lines = out.getvalue().splitlines()
    when = lines.index("  When look-ups came while the answer was being written:")
    many = lines.index("  How many there were:")
    timing = {line.split()[0]: line.split()[1:] for line in lines[when:many] if line.split()[:1] == ["dragin"]}
    assert timing == {"dragin": ["50.0", "[25.4,", "74.6]", "100.0", "25.0", "[8.9,", "53.2]", "+1.3"]}
    counts = next(line.split() for line in lines[many:] if line.split()[:1] == ["etc"])
    assert " ".join(counts) == "etc 0.83 [0.50, 1.17] 75.0 [46.8, 91.1] 0.0 [0.0, 24.2]"
    text = " ".join(out.getvalue().split())
    assert NEVER_FIRES in text and ALWAYS_FIRES in text
    assert "etc is degenerate" not in text
    assert max(map(len, lines)) <= 80


def test_page_and_json_tell_it_too(run: RunData) -> None:
    report = build_report([run])
    page = report_page(report)
    assert ">Look-ups while the answer was being written</caption>" in page
    assert ">When they came</caption>" in page
    assert f'<p class="note">{NEVER_FIRES}</p>' in page
    assert ">almost always</td>" in page
    (table,) = document(report)["tables"]
    assert [row["strategy"] for row in table["timing"]] == list(STRATEGIES[2:])
    assert json.loads(json.dumps(as_document(run)))["timing"] == json.loads(json.dumps(table["timing"]))


def test_a_run_without_such_methods_has_no_word_of_it(tmp_path: Path) -> None:
    run = read_run(report_runs.write_run(tmp_path / "run", sets=(("popqa", 6),), strategies=("never", "always")))
    report = build_report([run])
    out = io.StringIO()
    print_report(report, out)
    assert "while writing" not in out.getvalue() + report_page(report)
    assert not document(report)["tables"][0]["timing"]
