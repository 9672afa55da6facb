"""How often questions were looked up, counted by hand over the rules of `writing_runs`, and what is asked in steps."""

from __future__ import annotations

import io
import json

import msgspec
import pytest

import report_runs
import traces
from adaptrag_cli.evaluation.questions import Question
from adaptrag_cli.evaluation.results import Result, RunData, read_run
from adaptrag_cli.evaluation.retrieval_steps import RetrievalSteps, retrieval_steps
from adaptrag_cli.evaluation.scoring import score_run
from adaptrag_cli.evaluation.statistics import Interval, mean_interval
from adaptrag_cli.evaluation.summary import as_document, summarise
from adaptrag_cli.events import RunStarted, Setting
from adaptrag_cli.report.build import build_report, document
from adaptrag_cli.report.page import report_page
from adaptrag_cli.report.step_rows import step_rows
from adaptrag_cli.report.terminal_form import print_tables

STRATEGIES = ("never", "always", "cot", "etc", "dragin")
QUESTION = Question(id="q1", text="When is quiet time?", answers=("8 hours",))


def scored(*, steps: int | None = 6) -> Result:
    start, *rest = traces.asked_in_steps()
    assert isinstance(start, RunStarted)
    settings = () if steps is None else (Setting(name="max_steps", value=steps, origin="default"),)
    events = [msgspec.structs.replace(start, settings=settings), *rest]
    return score_run(events, QUESTION, cell="base", set_name="s", label="deeprag", trace="t")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    """Twelve questions, numbered from 0."""
    folder = tmp_path_factory.mktemp("runs") / "steps"
    return read_run(report_runs.write_run(folder, sets=(("popqa", 12),), strategies=STRATEGIES))


@pytest.fixture(scope="module")
def steps(run: RunData) -> dict[str, RetrievalSteps | None]:
    return {row.strategy: row.retrieval for row in summarise(run, cell="base", set="popqa")}


def share(count: int, of: int) -> Interval | None:
    return mean_interval([1.0] * count + [0.0] * (of - count))


def test_questions_are_counted_by_how_often_they_were_looked_up(steps: dict[str, RetrievalSteps | None]) -> None:
    etc = steps["etc"]
    assert etc is not None
    # 0, 4 and 8 are not looked up, 11 twice, the other eight once.
    assert (etc.n, etc.none, etc.once, etc.several, etc.total) == (12, share(3, 12), share(8, 12), share(1, 12), 10)
    assert etc.mean is not None
    assert etc.mean.mean == pytest.approx(10 / 12)
    # Right from memory are 0, 4 and 8; from documents 1, 2, 5, 7, 10 and 11: 7 look-ups of 9. Wrong are 3, 6 and 9.
    assert etc.mean_right == pytest.approx(7 / 9)
    assert etc.mean_wrong == 1.0
    assert etc.sub_queries is None
    assert etc.may_repeat


def test_a_strategy_that_never_or_always_looks_up(steps: dict[str, RetrievalSteps | None]) -> None:
    never, always = steps["never"], steps["always"]
    assert never is not None and always is not None
    assert (never.none, never.total, never.may_repeat) == (share(12, 12), 0, False)
    assert (always.once, always.several, always.total) == (share(12, 12), share(0, 12), 12)


def test_sub_queries_are_counted_without_repeats() -> None:
    result = scored()
    assert (result.sub_queries, result.look_ups, result.em) == (2, 1, 1.0)  # the third step asks the first again
    assert scored(steps=None).sub_queries is None
    counted = retrieval_steps([result, msgspec.structs.replace(result, sub_queries=0, look_ups=0)], may_repeat=True)
    assert counted is not None and counted.sub_queries is not None
    assert counted.sub_queries.mean == 1.0
    assert counted.mean_right == 0.5
    assert counted.mean_wrong is None


def test_failed_and_older_results_do_not_count() -> None:
    result = scored()
    older, failed = msgspec.structs.replace(result, look_ups=None), msgspec.structs.replace(result, failure="no")
    counted = retrieval_steps([result, older, failed], may_repeat=True)
    assert counted is not None
    assert counted.n == 1
    assert retrieval_steps([older, failed], may_repeat=True) is None


def test_results_are_read_back_as_written_and_older_ones_open() -> None:
    encoded = msgspec.json.encode(scored())
    assert msgspec.json.decode(encoded, type=Result) == scored()
    line = msgspec.json.decode(encoded)
    del line["sub_queries"]
    assert msgspec.convert(line, Result).sub_queries is None


def test_the_terminal_tells_it_in_80_columns(run: RunData) -> None:
    out = io.StringIO()
    print_tables(run, out)
    lines = out.getvalue().splitlines()
    at = lines.index("  Look-ups of a question (right, wrong: mean of those answered so, by EM):")
    table = {line.split()[0]: line.split()[1:] for line in lines[at + 1 : at + 8] if line.split()}
    assert table["strategy"] == ["never", "once", "several", "total", "mean", "right", "wrong"]
    assert table["etc"] == ["25.0", "66.7", "8.3", "10", "0.83", "0.78", "1.00"]
    assert max(map(len, lines)) <= 80


def test_page_and_json_tell_it_too(run: RunData) -> None:
    report = build_report([run])
    assert ">Look-ups of a question</caption>" in report_page(report)
    (table,) = document(report)["tables"]
    told = {row["strategy"]: row["retrieval"]["total"] for row in table["strategies"]}
    assert (told["never"], told["always"], told["etc"], told["dragin"]) == (0, 12, 10, 12)
    assert json.loads(json.dumps(as_document(run)))["rows"] == json.loads(json.dumps(table["strategies"]))


def test_strategies_that_look_up_once_at_most_have_no_such_table(run: RunData) -> None:
    rows = summarise(run, cell="base", set="popqa")
    assert step_rows(rows).rows
    assert step_rows([row for row in rows if row.strategy in {"never", "always"}]).rows == ()
