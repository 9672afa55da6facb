"""Decisions of methods that ask in steps against what is right without documents (METHODS 9.7), and their form."""

from __future__ import annotations

import io

import msgspec
import pytest

import report_runs
import traces
from adaptrag_cli.evaluation.questions import Question
from adaptrag_cli.evaluation.results import Result, RunData, StrategySpec, read_run
from adaptrag_cli.evaluation.scoring import score_run
from adaptrag_cli.evaluation.summary import StrategyRow, summarise
from adaptrag_cli.events import Event, GenerationFinished, RunStarted, Setting, WarningRaised
from adaptrag_cli.report.build import build_report
from adaptrag_cli.report.page import report_page
from adaptrag_cli.report.rows import brief_decision_rows, decision_rows
from adaptrag_cli.report.step_rows import sub_query_rows
from adaptrag_cli.report.terminal_form import print_tables

QUESTION = Question(id="q1", text="When is quiet time?", answers=("8 hours",))
MEMORY = "deeprag:sources=memory"
REASONED = (1, 1, 1, 0, 0, 0, 0, 0)
"""Whether each of eight questions is right without documents."""
LOOKED_UP = (0, 0, 1, 0, 1, 1, 1, 1)


def told(*, without: tuple[type[Event], ...] = ()) -> list[Event]:
    """A trace of three steps, the third of which asks the first again."""
    start, *rest = (event for event in traces.asked_in_steps() if not isinstance(event, without))
    assert isinstance(start, RunStarted)
    return [msgspec.structs.replace(start, settings=(Setting(name="max_steps", value=6, origin="default"),)), *rest]


def scored(events: list[Event]) -> Result:
    return score_run(events, QUESTION, cell="base", set_name="popqa", label="deeprag", trace="t")


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    folder = tmp_path_factory.mktemp("runs") / "steps"
    return read_run(report_runs.write_run(folder, sets=(("popqa", 12),), strategies=("never", "always")))


def run_of(before: RunData, *labels: str, drafts: bool = False) -> RunData:
    """A run of strategies over eight questions: `never` drafts wrongly, others are right where they reason so."""
    step = scored(told())
    results = []
    for label in labels:
        for number, (right, looked_up) in enumerate(zip(REASONED, LOOKED_UP, strict=True)):
            changed = {"strategy": label, "question_id": f"q{number}", "em": float(right)}
            if label == "deeprag":
                changed |= {"retrieved": bool(looked_up), "look_ups": looked_up, "em": 1.0}
            elif label == MEMORY:
                changed |= {"retrieved": False, "look_ups": 0, "em": float(not right)}
            else:
                changed |= {"sub_queries": None, "asked": (), "well_formed": None, "retrieved": False}
                changed |= {"draft_em": 0.0} if label == "never" else {}
            results.append(msgspec.structs.replace(step, **changed))
    specs = tuple(
        StrategySpec(
            label=label,
            strategy=label.partition(":")[0],
            overrides={"ask.sources": "memory"} if label == MEMORY else {},
        )
        for label in labels
    )
    manifest = msgspec.structs.replace(before.manifest, strategies=specs)
    return RunData(folder=before.folder, manifest=manifest, results=tuple(results))


def rows(run: RunData) -> dict[str, StrategyRow]:
    return {row.strategy: row for row in summarise(run, cell="base", set="popqa")}


def test_decisions_are_held_against_the_chain_of_thought(before: RunData):
    found = rows(run_of(before, "cot", "deeprag", MEMORY))["deeprag"]
    assert found.judged_by == "cot"
    decision = found.decision
    assert decision is not None
    # 0, 1: right and not looked up; 2: right and looked up; 3: wrong and not looked up; 4 to 7: wrong and looked up
    assert decision.answerable == 3 / 8
    assert decision.f1 == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert decision.accuracy == 6 / 8
    assert decision.balanced_accuracy == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert decision.mcc == pytest.approx((2 * 4 - 1 * 1) / (3 * 3 * 5 * 5) ** 0.5)
    assert decision.auroc is None


def test_without_a_chain_of_thought_steps_from_memory_judge(before: RunData):
    found = rows(run_of(before, "deeprag", MEMORY))["deeprag"]
    assert (found.judged_by, found.decision is not None and found.decision.accuracy) == (MEMORY, 2 / 8)


def test_methods_that_draft_are_held_against_drafts_as_before(before: RunData):
    found = rows(run_of(before, "never", "cot", "deeprag"))
    assert (found["never"].judged_by, found["cot"].judged_by, found["deeprag"].judged_by) == ("", "", "cot")
    assert found["never"].decision is not None and found["never"].decision.answerable == 0
    assert found["deeprag"].consistency is None  # no draft was right
    assert rows(run_of(before, "deeprag"))["deeprag"].decision is None  # nothing tells
    alone = rows(run_of(before, "never", "deeprag"))["deeprag"]
    assert (alone.judged_by, alone.decision is not None and alone.decision.answerable) == ("", 0)


def test_the_table_names_who_judges_where_it_is_not_the_draft(before: RunData):
    table = decision_rows(summarise(run_of(before, "never", "cot", "deeprag"), cell="base", set="popqa"))
    shown = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert shown["deeprag"] | {"balanced": ""} == {
        "strategy": "deeprag",
        "drafts right": "37.5",
        "F1": "66.7",
        "accuracy": "75.0",
        "balanced": "",
        "MCC": "+0.47",
        "AUROC": "",
        "still right": "",
        "right by": "cot",
    }
    assert shown["deeprag"]["balanced"].startswith("73.3 [")
    assert "right by" not in decision_rows(summarise(run_of(before, "never"), cell="base", set="popqa")).columns


def test_the_table_leaves_out_what_decides_nothing_and_in_80_characters_intervals_and_empty_columns(before: RunData):
    summaries = summarise(run_of(before, "never", "cot", "deeprag"), cell="base", set="popqa")
    assert [row[0] for row in decision_rows(summaries).rows] == ["never", "deeprag"]
    brief = brief_decision_rows(summaries)
    assert "AUROC" not in brief.columns
    assert not any("[" in str(value) for row in brief.rows for value in row)


# --- form


def test_a_narrative_that_comes_to_its_answer_is_well_formed():
    answered = [event for event in told() if not (isinstance(event, GenerationFinished) and event.phase == "answer")]
    assert scored(answered).well_formed is True
    assert scored(told()).well_formed is False  # its third step asks again, so the answer was asked for


@pytest.mark.parametrize(("code", "well_formed"), [("not_in_form", False), ("empty_step", False), ("no_peek", True)])
def test_what_is_out_of_form_is_not(code: str, well_formed: bool):
    events = [event for event in told() if not (isinstance(event, GenerationFinished) and event.phase == "answer")]
    events.insert(1, WarningRaised(code=code, message="m"))
    assert scored(events).well_formed is well_formed


def test_what_was_asked_is_kept_without_repeats():
    result = scored(told())
    assert len(result.asked) == result.sub_queries == 2


def test_sub_queries_are_told_by_word_class(before: RunData):
    run = run_of(before, "cot", "deeprag")
    asked = ("Who lit the lamp?", "Why and where?")  # wh 1, 2; nouns 1, 0; verbs 1, 0; conjunctions 0, 1
    results = tuple(
        msgspec.structs.replace(r, asked=asked, sub_queries=2, well_formed=r.question_id != "q0")
        if r.strategy == "deeprag"
        else r
        for r in run.results
    )
    run = msgspec.structs.replace(run, results=results)
    steps = rows(run)["deeprag"].retrieval
    assert steps is not None and steps.well_formed is not None
    assert steps.well_formed.mean == 7 / 8
    assert steps.word_classes == {"wh": 1.5, "noun": 0.5, "verb": 0.5, "conjunction": 0.5}
    table = sub_query_rows(summarise(run, cell="base", set="popqa"), is_wide=False)
    assert table.rows == (("deeprag", "87.5", "2.00", "1.50", "0.50", "0.50", "0.50"),)
    out = io.StringIO()
    print_tables(run, out)
    assert "What was asked step by step:" in out.getvalue()
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert ">What was asked step by step</caption>" in report_page(build_report([run]))
