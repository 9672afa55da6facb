"""Figures of methods that look up while they write: every trigger, and where they first fire. Counted by hand."""

from __future__ import annotations

import io
import json
from pathlib import Path

import msgspec
import pytest

import report_runs
import writing_runs
from adaptrag_cli.evaluation.results import RunData, read_run
from adaptrag_cli.evaluation.statistics import mean_interval
from adaptrag_cli.report.build import Report, build_report, document
from adaptrag_cli.report.drawing import drawn
from adaptrag_cli.report.figure import Figure
from adaptrag_cli.report.first_triggers import first_firings, mean_entropies
from adaptrag_cli.report.lines import lines_of
from adaptrag_cli.report.page import report_page
from adaptrag_cli.report.terminal_form import print_report
from adaptrag_cli.report.trigger_sweep import SweepPoint, trigger_sweeps

STRATEGIES = ("cot", "etc:trigger=4", "etc", "etc:trigger=0", "etc:trigger=2", "dragin", "ralm")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    """Twelve questions, numbered from 0, by the rules of `writing_runs`."""
    folder = tmp_path_factory.mktemp("runs") / "writing"
    return read_run(report_runs.write_run(folder, sets=(("popqa", 12),), strategies=STRATEGIES))


@pytest.fixture(scope="module")
def report(run: RunData) -> Report:
    return build_report([run])


def figure(report: Report, name: str) -> Figure:
    return next(figure for figure in report.figures if figure.name == name)


def swept(run: RunData) -> tuple[SweepPoint, ...]:
    return trigger_sweeps(lines_of([run]))


def test_a_sweep_holds_the_numbers_of_every_trigger(run: RunData) -> None:
    points = swept(run)
    assert [(p.method, p.panel, p.trigger, p.questions) for p in points] == [
        ("etc", "popqa", float(trigger), 12) for trigger in (0, 1, 2, 4)
    ]
    # Looked up, a question is right that 3 does not divide, and else an even one. Trigger 1 leaves 0, 4 and 8 alone.
    right = {0: 8, 1: 6 + 3, 2: 4 + 3, 4: 6}
    fired = {0: 12, 1: 9, 2: 6, 4: 0}
    look_ups = {0: 13, 1: 10, 2: 7, 4: 0}  # question 11 is looked up twice wherever it is at all
    for point in points:
        trigger = int(point.trigger)
        assert point.em == mean_interval([1.0] * right[trigger] + [0.0] * (12 - right[trigger]))
        assert point.fired == mean_interval([1.0] * fired[trigger] + [0.0] * (12 - fired[trigger]))
        assert point.look_ups is not None
        assert point.look_ups.mean == pytest.approx(look_ups[trigger] / 12)
        # A wrong answer, "keeper 1" for "answer 1", shares one of two words.
        assert point.f1 is not None
        assert point.f1.mean == pytest.approx((right[trigger] + 0.5 * (12 - right[trigger])) / 12)
    assert [p.degenerate for p in points] == ["almost always", "", "", "almost never"]


def as_grid(run: RunData) -> RunData:
    """The same run as `--vary trigger=...` would have made it: a cell for each trigger, one strategy in each."""
    base = run.manifest.cells[0]
    labels = {"etc:trigger=0": "trigger=0", "etc": "trigger=1", "etc:trigger=2": "trigger=2"}
    cells = tuple(
        msgspec.structs.replace(
            base,
            name=name,
            overrides={"ask.trigger": name.removeprefix("trigger=")},
            settings={"etc": writing_runs.settings_of(label)},
        )
        for label, name in labels.items()
    )
    specs = tuple(spec for spec in run.manifest.strategies if spec.label == "etc")
    results = tuple(
        msgspec.structs.replace(r, strategy="etc", cell=labels[r.strategy]) for r in run.results if r.strategy in labels
    )
    manifest = msgspec.structs.replace(run.manifest, cells=cells, strategies=specs)
    return msgspec.structs.replace(run, manifest=manifest, results=results)


def test_a_grid_of_triggers_gives_the_same_sweep(run: RunData) -> None:
    assert lines_of([as_grid(run)])[0].name == "small-0.5b, trigger=0"
    assert swept(as_grid(run)) == swept(run)[:3]


def test_what_differs_in_more_than_the_trigger_is_another_sweep(run: RunData) -> None:
    grid = as_grid(run)
    first, *others = grid.manifest.cells
    other = msgspec.structs.replace(first, overrides=first.overrides | {"ask.top_k": "5"})
    changed = msgspec.structs.replace(grid, manifest=msgspec.structs.replace(grid.manifest, cells=(other, *others)))
    assert [p.trigger for p in swept(changed)] == [1.0, 2.0]


def test_sweeps_of_two_runs_are_told_apart(run: RunData) -> None:
    other = msgspec.structs.replace(run, folder="elsewhere")
    methods = list(dict.fromkeys(p.method for p in trigger_sweeps(lines_of([run, other]))))
    assert methods == [f"etc, {line.name}" for line in lines_of([run, other])]


def test_one_trigger_is_no_sweep(run: RunData) -> None:
    kept = tuple(r for r in run.results if r.strategy in {"cot", "etc", "dragin"})
    report = build_report([msgspec.structs.replace(run, results=kept)])
    for name in ("sweep", "sweep-look-ups"):
        assert figure(report, name).missing.startswith("needs a method at several triggers")
    assert figure(report, "first-trigger").missing == ""


def test_the_sweep_is_drawn_with_its_intervals(report: Report) -> None:
    answers, look_ups = figure(report, "sweep"), figure(report, "sweep-look-ups")
    assert [series.name for series in answers.series] == ["etc: EM", "etc: F1"]
    assert [series.x for series in (*answers.series, *look_ups.series)] == [(0.0, 1.0, 2.0, 4.0)] * 3
    assert answers.series[0].y == pytest.approx((8 / 12, 9 / 12, 7 / 12, 6 / 12))
    assert look_ups.series[0].y == pytest.approx((13 / 12, 10 / 12, 7 / 12, 0.0))
    assert all(low <= y <= high for s in answers.series for low, y, high in zip(s.low, s.y, s.high, strict=True))


def test_degenerate_triggers_are_named_in_table_page_and_terminal(report: Report) -> None:
    verdict = "etc at 4 on popqa is degenerate: it almost never fires, on 0.0 % of 12 questions (under 5 %)."
    data = figure(report, "sweep").data
    at = data.columns.index("degenerate")
    assert [row[at] for row in data.rows] == ["almost always", "", "", "almost never"]
    assert f'<p class="note">{verdict}</p>' in report_page(report)
    out = io.StringIO()
    print_report(report, out)
    assert verdict in " ".join(out.getvalue().split())
    assert max(map(len, out.getvalue().splitlines())) <= 80


def test_first_firings_stand_at_their_tokens_with_the_entropies_there(run: RunData) -> None:
    firings = {each.strategy: each for each in first_firings(lines_of([run]))}
    assert set(firings) == {"etc", "etc:trigger=0", "etc:trigger=2", "dragin"}  # trigger 4 never fires, ralm has none
    assert firings["etc"].tokens == (3,) * 9
    assert firings["dragin"].tokens == (0, 0, 0, 1, 1, 1, 6, 6, 6, 6, 6, 6)
    # Tokens 0, 1 and 6 have 0.2, 0.4 and 0.1 nats; a text has 4.5 on 8 tokens.
    assert firings["dragin"].entropy_there == pytest.approx((3 * 0.2 + 3 * 0.4 + 6 * 0.1) / 12)
    assert firings["etc"].entropy_there == pytest.approx(0.9)
    assert firings["etc"].entropy_of_texts == pytest.approx(4.5 / 8)


def test_entropies_are_means_over_questions(run: RunData) -> None:
    (line,) = lines_of([run])
    assert mean_entropies(line) == pytest.approx(writing_runs.ENTROPIES)
    first = next(r for r in run.results if r.strategy == "cot")
    changed = tuple(msgspec.structs.replace(r, entropies=(2.6,)) if r is first else r for r in run.results)
    (line,) = lines_of([msgspec.structs.replace(run, results=changed)])
    assert mean_entropies(line)[:2] == pytest.approx(((11 * 0.2 + 2.6) / 12, 0.4))


def test_the_heat_map_has_a_row_for_each_method_above_the_entropies(report: Report) -> None:
    heat_map = figure(report, "first-trigger")
    assert heat_map.y.rows == ("mean entropy", "dragin", "etc:trigger=2", "etc:trigger=0", "etc")
    rows = {series.name: series for series in heat_map.series}
    assert set(rows["dragin"].y) == {1.0}
    assert rows["dragin"].values == (0.25, 0.25, 0.0, 0.0, 0.0, 0.0, 0.5)
    assert rows["etc"].values == (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
    assert rows["mean entropy"].values == pytest.approx(writing_runs.ENTROPIES[:7])
    plot = json.loads(drawn(heat_map))
    for trace, series in zip(plot["data"], heat_map.series, strict=True):
        assert (trace["type"], trace["x"], trace["y"]) == ("heatmap", list(series.x), list(series.y))
        assert trace["z"] == list(series.values)
        assert (trace["zmin"], trace["zmax"]) == (0.0, max(series.values))
    assert plot["layout"]["yaxis"]["ticktext"] == list(heat_map.y.rows)
    assert plot["layout"]["yaxis"]["tickvals"] == [0, 1, 2, 3, 4]


def test_a_method_that_also_looks_up_unasked_has_no_row(run: RunData) -> None:
    changed = tuple(
        msgspec.structs.replace(r, look_ups=(r.look_ups or 0) + 1) if r.strategy == "dragin" else r for r in run.results
    )
    firings = first_firings(lines_of([msgspec.structs.replace(run, results=changed)]))
    assert [each.strategy for each in firings] == ["etc", "etc:trigger=0", "etc:trigger=2"]


def test_json_holds_the_three_figures(report: Report) -> None:
    figures = {each["name"]: each for each in document(report)["figures"]}
    assert len(figures["sweep"]["data"]["rows"]) == len(figures["sweep-look-ups"]["data"]["rows"]) == 4
    row = ("small-0.5b", "dragin", 6, 6, 0.5, pytest.approx(0.1))
    assert row in [tuple(each) for each in figures["first-trigger"]["data"]["rows"]]


def test_labels_with_markup_stay_text(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    report_runs.write_run(folder, model="<b>m</b>", sets=(("<i>", 8),), strategies=("cot", "etc", "etc:trigger=2"))
    report = build_report([read_run(folder)])
    for name in ("sweep", "sweep-look-ups", "first-trigger"):
        assert figure(report, name).missing == ""
        assert "<" not in drawn(figure(report, name))
    page = report_page(report)
    assert "<i>" not in page and "<b>" not in page
