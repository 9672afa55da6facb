"""Figures of methods that ask step by step, alone and with adapters. Counted by hand."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest

import report_runs
from adaptrag_cli.evaluation.results import Result, RunData, StrategySpec, read_run
from adaptrag_cli.evaluation.statistics import mean_difference, mean_interval
from adaptrag_cli.identity import fingerprint_with, name_with
from adaptrag_cli.report.build import Report, build_report
from adaptrag_cli.report.drawing import drawn
from adaptrag_cli.report.figure import Figure
from adaptrag_cli.report.page import report_page
from adaptrag_cli.report.terminal_form import print_report

NAMES = ("sub-query-counts", "step-look-ups", "sub-query-words", "trained-answers", "trained-look-ups")
STEPS = [1, 2, 2, 3, 3, 3, 9, 12]
"""Sub-queries of the eight questions."""
LOOK_UPS = [0, 0, 1, 1, 1, 2, 8, 0]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    """Eight questions, answered from memory alone."""
    folder = tmp_path_factory.mktemp("runs") / "plain"
    return read_run(report_runs.write_run(folder, sets=(("popqa", 8),), strategies=("never",)))


def in_steps(run: RunData, *, adapter: str = "", right: int = 4, fewer: int = 0) -> RunData:
    """The same questions answered step by step, the first ones rightly, each with so many look-ups less."""
    asked = "Who lit the lamp, and when was it lit?"  # who, when: 2; lamp: 1 noun; lit, was, lit: 3; and: 1

    def stepped(number: int, result: Result) -> Result:
        return msgspec.structs.replace(
            result,
            strategy="deeprag",
            sub_queries=STEPS[number],
            asked=(asked,) * STEPS[number],
            look_ups=max(0, LOOK_UPS[number] - fewer),
            well_formed=True,
            em=float(number < right),
            f1=float(number < right),
        )

    cell = run.manifest.cells[0]
    if adapter:
        cell = msgspec.structs.replace(
            cell,
            name=f"adapter={adapter}",
            model=name_with(cell.model, adapter),
            model_fingerprint=fingerprint_with(cell.model_fingerprint, "sha256:adapter"),
        )
    spec = StrategySpec(label="deeprag", strategy="deeprag")
    manifest = msgspec.structs.replace(run.manifest, cells=(cell,), strategies=(spec,))
    results = tuple(
        msgspec.structs.replace(stepped(number, result), cell=cell.name) for number, result in enumerate(run.results)
    )
    return msgspec.structs.replace(run, folder=adapter or run.folder, manifest=manifest, results=results)


@pytest.fixture(scope="module")
def alone(plain: RunData) -> Report:
    return build_report([in_steps(plain)])


@pytest.fixture(scope="module")
def taught(plain: RunData) -> Report:
    return build_report([in_steps(plain), in_steps(plain, adapter="notes-imitation", right=6, fewer=1)])


def figure(report: Report, name: str) -> Figure:
    return next(figure for figure in report.figures if figure.name == name)


def test_what_asks_nothing_has_none_of_these_figures(plain: RunData) -> None:
    report = build_report([plain])
    for name in NAMES:
        assert figure(report, name).missing.startswith("needs a method that asks step by step")


def test_counts_are_shares_of_questions_and_the_long_tail_has_one_bar(alone: Report) -> None:
    made = figure(alone, "sub-query-counts")
    (series,) = made.series
    assert series.x == (*map(str, range(8)), "8 or more")
    assert [8 * y for y in series.y] == [0, 1, 2, 3, 0, 0, 0, 0, 2]
    assert series.words[3] == "3 of 8 questions"
    assert made.brief.rows == (
        ("small-0.5b", "deeprag", 8, "0.0", "12.5", "25.0", "37.5", "0.0", "0.0", "0.0", "0.0", "25.0"),
    )
    (look_ups,) = figure(alone, "step-look-ups").series
    assert [8 * y for y in look_ups.y] == [3, 3, 1, 0, 0, 0, 0, 0, 1]


def test_few_counts_have_no_open_bar(plain: RunData) -> None:
    (series,) = figure(build_report([in_steps(plain, fewer=6)]), "step-look-ups").series
    assert (series.x, [8 * y for y in series.y]) == (("0", "1", "2"), [7, 0, 1])


def test_words_are_means_of_a_sub_query(alone: Report) -> None:
    (series,) = figure(alone, "sub-query-words").series
    assert dict(zip(series.x, series.y, strict=True)) == {
        "WH-words": 2.0,
        "nouns": 1.0,
        "verbs": 3.0,
        "conjunctions": 1.0,
    }


def test_without_a_second_adapter_nothing_is_told_of_training(alone: Report) -> None:
    assert "--vary adapter=none,NAME" in figure(alone, "trained-answers").missing


def test_adapters_of_one_model_are_points_of_one_curve(taught: Report) -> None:
    answers, look_ups = figure(taught, "trained-answers"), figure(taught, "trained-look-ups")
    em, f1 = answers.series
    assert (em.name, f1.name, em.x) == ("deeprag: EM", "deeprag: F1", ("none", "notes-imitation"))
    for at, right in enumerate((4, 6)):
        told = mean_interval([1.0] * right + [0.0] * (8 - right))
        assert told is not None
        assert (em.y[at], em.low[at], em.high[at]) == (told.mean, told.low, told.high)
    (series,) = look_ups.series
    assert series.y == (sum(LOOK_UPS) / 8, (sum(LOOK_UPS) - 5) / 8)
    told = mean_difference([float(each) for each in LOOK_UPS])
    assert told is not None
    assert (series.low[0], series.high[0]) == (told.low, told.high)
    assert [row[:2] for row in answers.brief.rows] == [("deeprag", "none"), ("deeprag", "notes-imitation")]


def test_what_was_varied_beside_the_adapter_is_another_curve(plain: RunData) -> None:
    def wider(run: RunData) -> RunData:
        cell = run.manifest.cells[0]
        other = msgspec.structs.replace(
            cell, name=f"top_k=5,{cell.name}", overrides=cell.overrides | {"ask.top_k": "5"}
        )
        results = tuple(msgspec.structs.replace(result, cell=other.name, em=1.0) for result in run.results)
        manifest = msgspec.structs.replace(run.manifest, cells=(other,))
        return msgspec.structs.replace(run, folder=f"wider {run.folder}", manifest=manifest, results=results)

    few = [in_steps(plain), in_steps(plain, adapter="notes-imitation")]
    made = figure(build_report([*few, *map(wider, few)]), "trained-answers")
    assert [(series.name, series.y) for series in made.series if series.name.endswith("EM")] == [
        ("deeprag: EM", (0.5, 0.5)),
        ("deeprag, top_k=5: EM", (1.0, 1.0)),
    ]


def test_other_models_are_no_adapters(plain: RunData, tmp_path: Path) -> None:
    other = in_steps(plain)
    cell = msgspec.structs.replace(other.manifest.cells[0], model="large-7b", model_fingerprint="sha256:large")
    other = msgspec.structs.replace(
        other, folder=str(tmp_path), manifest=msgspec.structs.replace(other.manifest, cells=(cell,))
    )
    report = build_report([in_steps(plain), other])
    assert figure(report, "trained-answers").missing
    assert figure(report, "sub-query-counts").panels == ("small-0.5b", "large-7b")


def test_they_are_drawn_and_stand_on_the_page(taught: Report) -> None:
    page = report_page(taught)
    for name in NAMES:
        assert "data" in drawn(figure(taught, name))
        assert f'"data-plot-{name}"' in page


def test_what_is_not_there_is_told_once_for_each_reason(alone: Report) -> None:
    out = io.StringIO()
    print_report(alone, out)
    drawn_part, _, not_here = out.getvalue().partition("\nNot here")
    assert "How many sub-queries" in drawn_part
    assert " ".join(not_here.split()).count("--vary adapter=none,NAME") == 1
    page = report_page(alone)
    assert page.count("--vary adapter=none,NAME") == 1
    assert "EM and F1 with each adapter (DeepRAG Fig. 3); Look-ups of a question with each adapter" in page
