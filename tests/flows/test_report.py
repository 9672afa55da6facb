"""Every figure of a report is what the traces of its run say, and the page that shows it is safe and whole."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import numpy as np
import pytest

import report_runs
from adaptrag_cli.errors import ConfigError, UnknownName
from adaptrag_cli.evaluation.cache import EvaluationCache
from adaptrag_cli.evaluation.results import RunData, read_run
from adaptrag_cli.evaluation.statistics import Interval
from adaptrag_cli.events import (
    ChunksSelected,
    DecisionMade,
    Event,
    PathRetrieved,
    RunFinished,
    Setting,
    TokenGenerated,
    UncertaintyMeasured,
)
from adaptrag_cli.palette import contrast
from adaptrag_cli.report.build import Report, build_report
from adaptrag_cli.report.cases import cases
from adaptrag_cli.report.costs import CostPoint, cost_points, pareto_front
from adaptrag_cli.report.drawing import SERIES_COLOURS, drawn
from adaptrag_cli.report.figure import interval
from adaptrag_cli.report.gain import gain_by_uncertainty
from adaptrag_cli.report.gold import gold_chunks, rank_shares, similarity_shares
from adaptrag_cli.report.groups import DIRECT, FORCED, NOT_DIRECT, group_scores
from adaptrag_cli.report.lines import Line, lines_of, panels_of
from adaptrag_cli.report.notes import line_notes
from adaptrag_cli.report.page import report_page
from adaptrag_cli.report.projection import principal_axes, project_line
from adaptrag_cli.report.rows import answer_rows
from adaptrag_cli.report.terminal_form import print_cases, print_report, print_tables, sparkline
from adaptrag_cli.report.thresholds import threshold_curves
from adaptrag_cli.report.weights import WeightPoint, weight_lines, weight_points
from adaptrag_cli.trace import read_trace

DARK_PAGE = "#15171a"
OF_STEPS = {
    "sweep",
    "sweep-look-ups",
    "first-trigger",
    "sub-query-counts",
    "step-look-ups",
    "sub-query-words",
    "trained-answers",
    "trained-look-ups",
}
"""What runs of methods that look up once have not."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return read_run(report_runs.write_run(tmp_path_factory.mktemp("runs") / "one"))


@pytest.fixture(scope="module")
def other_run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    folder = tmp_path_factory.mktemp("runs") / "two"
    return read_run(report_runs.write_run(folder, model="large-1.5b", skill=0.2))


@pytest.fixture(scope="module")
def line(run: RunData) -> Line:
    return lines_of([run])[0]


@pytest.fixture(scope="module")
def report(run: RunData) -> Report:
    return build_report([run])


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("runs") / "hostile <i>"
    report_runs.write_run(folder, model="</script><b>m</b>\x1b[31m", sets=(("<img src=x>", 20),), hostile=True)
    return build_report([read_run(folder)])


def traces(run: RunData, strategy: str, set_name: str) -> dict[str, list[Event]]:
    """Events of every question, read from the trace files and nothing else."""
    folder = Path(run.folder) / "traces" / "base" / set_name / strategy.replace(":", "_")
    return {f"{set_name}-{path.name.split('.')[0]}": list(read_trace(path)) for path in sorted(folder.iterdir())}


def only(events: list[Event], kind: type) -> Event:
    found = [event for event in events if isinstance(event, kind)]
    assert len(found) == 1
    return found[0]


def is_right(question_id: str, answer: str) -> bool:
    return answer == f"answer {question_id.rsplit('-', 1)[1]}"


def drafts(run: RunData, set_name: str) -> dict[str, tuple[float, bool]]:
    """Uncertainty of each draft, and whether it is right."""
    return {
        question_id: (
            only(events, UncertaintyMeasured).value,
            is_right(question_id, "".join(e.text for e in events if isinstance(e, TokenGenerated))),
        )
        for question_id, events in traces(run, "never", set_name).items()
    }


def from_documents(run: RunData, strategy: str, set_name: str) -> dict[str, bool]:
    return {q: is_right(q, only(e, RunFinished).answer) for q, e in traces(run, strategy, set_name).items()}


@pytest.mark.parametrize("set_name", ["hotpotqa", "popqa"])
def test_threshold_curves_are_what_the_traces_say(run: RunData, line: Line, set_name: str) -> None:
    curve = next(c for c in threshold_curves([line]) if c.panel == set_name)
    memory, documents = drafts(run, set_name), from_documents(run, "dtr:gate=false", set_name)
    assert (curve.memory, curve.documents, curve.questions) == ("never", "dtr:gate=false", 40)
    assert [p.threshold for p in curve.points] == [0.0, *sorted({u for u, _ in memory.values()})]
    for point in curve.points:
        taken = {q for q, (u, _) in memory.items() if u <= point.threshold}
        right = sum(memory[q][1] for q in taken)
        assert point.answered == len(taken)
        assert point.coverage == pytest.approx(len(taken) / 40)
        assert point.memory_em == (pytest.approx(right / len(taken)) if taken else None)
        found = sum(documents[q] for q in documents if q not in taken)
        assert point.em == pytest.approx((right + found) / 40)
        # A draft takes 0.6 s and one call; a lookup without the gate 2.0 + 1.5 s and two.
        assert point.seconds == pytest.approx(0.6 + 3.5 * point.looked_up)
        assert point.llm_calls == pytest.approx(1 + 2 * point.looked_up)
        assert point.tokens == pytest.approx(35 + 70 * point.looked_up)


def test_all_sets_together_have_a_curve_of_their_own(line: Line) -> None:
    assert panels_of([line]) == ("all sets", "hotpotqa", "popqa")
    whole, *parts = threshold_curves([line])
    assert whole.questions == 80
    assert whole.points[-1].em == pytest.approx(sum(part.points[-1].em for part in parts) / 2)


def test_the_threshold_that_dtr_ran_with_gives_what_dtr_gave(run: RunData, line: Line) -> None:
    curve = next(c for c in threshold_curves([line]) if c.panel == "hotpotqa")
    point = curve.at(report_runs.THRESHOLD)
    assert point.em == pytest.approx(np.mean(list(from_documents(run, "dtr", "hotpotqa").values())))


@pytest.mark.parametrize("strategy", ["always", "dtr:gate=false", "dpr-ais"])
def test_gain_is_documents_minus_memory_in_bins_of_equal_size(run: RunData, line: Line, strategy: str) -> None:
    memory, documents = drafts(run, "hotpotqa"), from_documents(run, strategy, "hotpotqa")
    bins = [g for g in gain_by_uncertainty([line]) if (g.panel, g.documents) == ("hotpotqa", strategy)]
    assert [g.questions for g in bins] == [8, 8, 8, 8, 8]
    for gain in bins:
        inside = [q for q, (u, _) in memory.items() if gain.lowest <= u <= gain.highest]
        assert len(inside) == 8
        assert gain.em.mean == pytest.approx(np.mean([documents[q] - memory[q][1] for q in inside]))
        assert gain.em.low <= gain.em.mean <= gain.em.high


def selections(run: RunData, strategy: str) -> Iterator[tuple[str, list[Event], ChunksSelected]]:
    for set_name in ("hotpotqa", "popqa"):
        for question_id, events in traces(run, strategy, set_name).items():
            yield question_id, events, only(events, ChunksSelected)


def gold_document(question_id: str) -> str:
    set_name, number = question_id.rsplit("-", 1)
    return f"{set_name}/{number}/{int(number) % 12}"


def test_gold_chunks_stand_where_the_traces_say(run: RunData, line: Line) -> None:
    expected = set()
    for question_id, events, selection in selections(run, "dpr-ais"):
        ranks = {e.path: {c.chunk_id: c.rank for c in e.chunks} for e in events if isinstance(e, PathRetrieved)}
        for c in selection.candidates:
            if c.document == gold_document(question_id):
                by_query, by_pseudo = ranks["query"].get(c.chunk_id), ranks["pseudo_context"].get(c.chunk_id)
                expected.add((question_id, c.query_score, c.pseudo_context_score, by_query, by_pseudo, c.kept))
    found = gold_chunks([line])
    assert len(expected) > 40
    assert {
        (
            c.question_id,
            c.query_score,
            c.pseudo_context_score,
            c.query_rank,
            c.pseudo_context_rank,
            c.kept,
        )
        for c in found
    } == expected
    missed = next(s for s in rank_shares(found) if (s.path, s.rank) == ("query", None))
    assert missed.chunks == sum(1 for row in expected if row[3] is None)
    for to, column in (("question", 1), ("pseudo-context", 2)):
        for share in similarity_shares(found):
            if share.to == to:
                assert share.chunks == sum(1 for row in expected if share.low <= row[column] < share.high)


def test_alpha_is_what_the_angles_of_the_traces_say(run: RunData, line: Line) -> None:
    expected = {}
    for question_id, _, selection in selections(run, "dpr-ais"):
        for c in selection.candidates:
            if c.document == gold_document(question_id):
                alpha = c.pseudo_context_angle / (c.query_angle + c.pseudo_context_angle)
                expected[question_id] = (math.acos(selection.query_pseudo_similarity), alpha)
    points = weight_points([line])
    assert {p.question_id: pytest.approx((p.theta0, p.alpha)) for p in points} == expected
    slope, intercept = np.polyfit([p.theta0 for p in points], [p.alpha for p in points], 1)
    (fitted,) = weight_lines(points)
    assert (fitted.slope, fitted.intercept) == pytest.approx((slope, intercept))


def test_the_least_squares_line_of_four_points() -> None:
    # Mean (0.7, 0.495); sum dx dy = 0.014, sum dx^2 = 0.2.
    points = [
        WeightPoint(line="m", set="s", question_id=str(x), chunk_id="c", theta0=x, alpha=y)
        for x, y in [(0.4, 0.47), (0.6, 0.50), (0.8, 0.49), (1.0, 0.52)]
    ]
    (fitted,) = weight_lines(points)
    assert (fitted.slope, fitted.intercept) == pytest.approx((0.07, 0.446))
    assert weight_lines(points[:1]) == ()


def test_the_projection_keeps_the_two_directions_of_most_variance(run: RunData, line: Line) -> None:
    cache = EvaluationCache(Path(run.folder) / "cache.sqlite")
    projection = project_line(line, cache)
    assert projection is not None
    differences: dict[tuple[str, str], np.ndarray] = {}
    groups: set[tuple[str, str, str]] = set()
    for set_name in ("hotpotqa", "popqa"):
        for question_id, events in traces(run, "dpr-ais", set_name).items():
            query = cache.text_vector("minilm of this run", events[0].query)
            found = {e.path: [c.chunk_id for c in e.chunks] for e in events if isinstance(e, PathRetrieved)}
            gold = f"{gold_document(question_id)}#0"
            for group, chunk_ids in (
                ("query", found["query"]),
                ("pseudo-context", found["pseudo_context"]),
                ("gold", [gold]),
            ):
                for chunk_id in chunk_ids:
                    vector = cache.chunk_vector(f"index-{set_name}", chunk_id)
                    differences[(question_id, chunk_id)] = vector.astype(float) - query.astype(float)
                    groups.add((question_id, chunk_id, group))
    cache.close()
    assert {(c.question_id, c.chunk_id, c.group) for c in projection.chunks} == groups
    assert projection.questions == 80
    stacked = np.array(list(differences.values()))
    variances, directions = np.linalg.eigh(np.cov(stacked.T))
    assert projection.explained == pytest.approx(variances[-2:].sum() / variances.sum())
    expected = dict(zip(differences, np.abs(stacked @ directions[:, [-1, -2]]), strict=True))
    for c in projection.chunks:
        assert (abs(c.x), abs(c.y)) == pytest.approx(tuple(expected[(c.question_id, c.chunk_id)]), abs=1e-6)
        assert (c.radius * math.cos(math.radians(c.degrees)), c.radius * math.sin(math.radians(c.degrees))) == (
            pytest.approx((c.x, c.y), abs=1e-9)
        )


def test_gold_chunks_that_no_path_found_are_projected_too(run: RunData) -> None:
    first = next(r for r in run.results if r.strategy == "dpr-ais")
    found = {c.chunk_id for c in first.candidates}
    missed = next(f"{first.set}/0/{at}#0" for at in range(12) if f"{first.set}/0/{at}#0" not in found)
    changed = tuple(msgspec.structs.replace(r, gold_chunks=(missed,)) if r is first else r for r in run.results)
    cache = EvaluationCache(Path(run.folder) / "cache.sqlite")
    projection = project_line(lines_of([msgspec.structs.replace(run, results=changed)])[0], cache)
    cache.close()
    assert projection is not None
    own = [c for c in projection.chunks if c.question_id == first.question_id]
    assert [(c.chunk_id, c.group) for c in own if c.group == "gold" or c.chunk_id == missed] == [(missed, "gold")]
    assert {c.chunk_id for c in own} == found | {missed}


def test_principal_axes_of_points_on_a_line() -> None:
    axes, explained = principal_axes(np.array([[3.0, -4.0], [6.0, -8.0], [0.0, 0.0]]))
    assert explained == pytest.approx(1.0)
    assert axes[0] == pytest.approx([-0.6, 0.8])  # of both directions the one whose largest component is positive


@pytest.mark.parametrize(("gate", "forced"), [("pairs", "dpr-ais"), ("dtr", "dtr:gate=false")])
def test_the_three_groups_are_what_the_traces_say(run: RunData, line: Line, gate: str, forced: str) -> None:
    gated = traces(run, gate, "popqa")
    always = from_documents(run, forced, "popqa")
    right = {q: is_right(q, only(events, RunFinished).answer) for q, events in gated.items()}
    looked_up = {q for q, events in gated.items() if only(events, DecisionMade).retrieve}
    expected = {
        NOT_DIRECT: [right[q] for q in right if q in looked_up],
        DIRECT: [right[q] for q in right if q not in looked_up],
        FORCED: [always[q] for q in right if q not in looked_up],
    }
    scores = {s.group: s for s in group_scores([line]) if (s.panel, s.gate) == ("popqa", gate)}
    for group, values in expected.items():
        assert scores[group].questions == len(values) > 5
        assert scores[group].em.mean == pytest.approx(np.mean(values))


def test_costs_are_the_counts_of_the_traces(run: RunData, line: Line) -> None:
    point = next(p for p in cost_points([line]) if p.strategy == "pairs")
    ends = [only(e, RunFinished) for s in ("hotpotqa", "popqa") for e in traces(run, "pairs", s).values()]
    assert point.questions == 80
    assert point.llm_calls == pytest.approx(np.mean([end.counts.llm_calls for end in ends]))
    assert point.tokens == pytest.approx(35 * point.llm_calls)
    assert point.seconds == pytest.approx(np.mean([sum(t.ms for t in end.timings) / 1000 for end in ends]))


def test_the_pareto_front_of_five_points() -> None:
    def point(name: str, seconds: float, em: float) -> CostPoint:
        return CostPoint(line="m", strategy=name, questions=1, seconds=seconds, llm_calls=1, tokens=1, em=em, f1=em)

    points = [point("c", 3, 0.5), point("a", 1, 0.3), point("b", 2, 0.3), point("e", 3, 0.6), point("d", 4, 0.6)]
    assert [p.strategy for p in pareto_front(points, "seconds", "em")] == ["a", "e"]
    assert [p.strategy for p in pareto_front(points, "tokens", "em")] == ["e"]


def test_thresholds_and_strategies_compete_on_the_same_questions(run: RunData) -> None:
    """Without pairs' last answer, no point may know of that question."""
    missing = next(r for r in reversed(run.results) if r.strategy == "pairs")
    line = lines_of([msgspec.structs.replace(run, results=tuple(r for r in run.results if r is not missing))])[0]
    points = cost_points([line])
    assert {p.questions for p in points} == {79}
    swept = {p.threshold: p for p in points if p.threshold is not None}
    memory, documents, right = {}, {}, {}
    for set_name in ("hotpotqa", "popqa"):
        memory |= drafts(run, set_name)
        documents |= from_documents(run, "dtr:gate=false", set_name)
        right |= from_documents(run, "dtr", set_name)
    for of in (memory, documents, right):
        del of[missing.question_id]
    assert set(swept) == {0.0, *(u for u, _ in memory.values())}
    for threshold, point in swept.items():
        em = [is_right if u <= threshold else documents[q] for q, (u, is_right) in memory.items()]
        assert point.em == pytest.approx(np.mean(em))
        looked_up = np.mean([u > threshold for u, _ in memory.values()])
        assert point.seconds == pytest.approx(0.6 + 3.5 * looked_up)
        assert point.llm_calls == pytest.approx(1 + 2 * looked_up)
    as_run = next(p for p in points if p.strategy == "dtr")
    assert as_run.em == pytest.approx(np.mean(list(right.values())))
    same = swept[max(t for t in swept if t <= report_runs.THRESHOLD)]
    assert (same.em, same.llm_calls, same.tokens) == pytest.approx((as_run.em, as_run.llm_calls, as_run.tokens))


def test_a_threshold_may_stand_on_the_front(report: Report, line: Line) -> None:
    figure = next(f for f in report.figures if f.name == "cost-em")
    front = next(s for s in figure.series if s.name == "Pareto front")
    expected = pareto_front(cost_points([line]), "seconds", "em")
    assert list(front.words) == [p.strategy for p in expected]
    thresholds = [p.threshold for p in expected if p.threshold is not None]
    assert len(thresholds) > 1
    assert all(bool(label) == (p.threshold is None) for label, p in zip(front.labels, expected, strict=True))
    note = f"the front of seconds: {len(thresholds)} from {min(thresholds):.4g} to {max(thresholds):.4g}"
    assert note in figure.notes[0]
    assert {row[1] for row in figure.brief.rows} == set(report_runs.STRATEGIES)


def test_without_drafts_of_never_strategies_compete_alone(run: RunData) -> None:
    rest = tuple(r for r in run.results if r.strategy != "never")
    points = cost_points(lines_of([msgspec.structs.replace(run, results=rest)]))
    assert [p.threshold for p in points] == [None] * 5


def test_several_runs_are_drawn_together(run: RunData, other_run: RunData) -> None:
    made = build_report([run, other_run])
    assert [line.name for line in made.lines] == ["small-0.5b", "large-1.5b"]
    figure = next(f for f in made.figures if f.name == "looked-up")
    names = {s.name: s.colour for s in figure.series if s.name.endswith("EM")}
    assert names == {"small-0.5b: EM": 0, "large-1.5b: EM": 1}
    assert [line.name for line in lines_of([run, run])] == [f"{run.folder}: small-0.5b, base"] * 2


def test_runs_that_asked_other_questions_are_refused(run: RunData, tmp_path: Path) -> None:
    other = read_run(report_runs.write_run(tmp_path / "other", sets=(("hotpotqa", 5),), strategies=("never",)))
    with pytest.raises(ConfigError, match="ask other questions of hotpotqa"):
        build_report([run, other])


def test_a_figure_says_what_it_needs(tmp_path: Path) -> None:
    run = read_run(report_runs.write_run(tmp_path / "run", sets=(("popqa", 12),), strategies=("never",)))
    (tmp_path / "run" / "cache.sqlite").unlink()
    figures = {f.name: f for f in build_report([run]).figures}
    assert figures["threshold"].missing == figures["query-ratio"].missing == ""
    both = "needs never and dtr:gate=false (or dpr-ais, or always)"
    assert figures["looked-up"].missing == figures["gain"].missing == both
    assert figures["groups-em"].missing == "needs pairs and dpr-ais (or dtr and dtr:gate=false)"
    assert figures["projection"].missing.endswith("cache.sqlite is not there")
    assert not (tmp_path / "run" / "cache.sqlite").exists()
    page = report_page(build_report([run]))
    assert f": {both}." in page


def test_an_undefined_uncertainty_is_never_answered_from_memory(run: RunData) -> None:
    first = next(r for r in run.results if r.strategy == "never" and r.set == "popqa")
    changed = tuple(msgspec.structs.replace(r, uncertainty=None) if r is first else r for r in run.results)
    line = lines_of([RunData(folder=run.folder, manifest=run.manifest, results=changed)])[0]
    curve = next(c for c in threshold_curves([line]) if c.panel == "popqa")
    assert curve.points[-1].answered == 39
    gains = [g for g in gain_by_uncertainty([line]) if g.panel == "popqa"]
    assert math.isinf(gains[-1].highest)
    build = build_report([RunData(folder=run.folder, manifest=run.manifest, results=changed)])
    assert "Infinity" not in "".join(drawn(f) for f in build.figures if not f.missing)


def test_a_run_without_answers_is_told(run: RunData) -> None:
    with pytest.raises(ConfigError, match="holds no answer yet"):
        build_report([RunData(folder=run.folder, manifest=run.manifest, results=())])


def test_cases_are_the_questions_where_only_the_first_is_right(run: RunData) -> None:
    memory, documents = from_documents(run, "dtr", "hotpotqa"), from_documents(run, "always", "hotpotqa")
    found = [case for case in cases([run], "dtr", "always") if case.set == "hotpotqa"]
    assert {c.question_id for c in found} == {q for q in memory if memory[q] and not documents[q]}
    for case in found:
        path = case.right_command.removeprefix("adaptrag tui --trace ")
        assert only(list(read_trace(Path(path))), RunFinished).answer == case.right_answer
    with pytest.raises(UnknownName, match="did you mean 'always'"):
        cases([run], "dtr", "alway")


def test_cases_of_runs_that_asked_other_questions_are_refused(run: RunData, tmp_path: Path) -> None:
    other = read_run(report_runs.write_run(tmp_path / "other", sets=(("hotpotqa", 5),)))
    with pytest.raises(ConfigError, match="one and other ask other questions of hotpotqa"):
        cases([run, other], "dtr", "always")


@pytest.mark.parametrize(
    ("changes", "differing"),
    [
        ({"model": "large", "model_fingerprint": "sha256:large"}, r"model \(small-0.5b, large\)"),
        ({"encoder": "e5", "encoder_identity": "e5 of this run"}, r"encoder \(minilm, e5\)"),
        ({"indexes": {"hotpotqa": "index-hotpotqa", "popqa": "rebuilt"}}, "index of popqa"),
        ({"calibration_digest": "abc"}, "calibration"),
        (
            {"settings": {"dtr": (Setting(name="gate", value=False, origin="--strategies"),)}},
            r"gate of dtr \(True, False\)",
        ),
    ],
    ids=["model", "encoder", "index", "calibration", "setting"],
)
def test_cases_are_not_listed_together_of_what_was_asked_differently(
    run: RunData, changes: dict[str, object], differing: str
) -> None:
    other = msgspec.structs.replace(in_cell(run, **changes), folder="elsewhere/two")
    with pytest.raises(ConfigError, match=f"^one and two asked base with another {differing}$"):
        cases([run, other], "dtr", "always")


def test_what_neither_strategy_uses_does_not_part_cases(run: RunData) -> None:
    settings = run.manifest.cells[0].settings | {"pairs": (Setting(name="agreement", value="f1", origin="flag"),)}
    other = msgspec.structs.replace(in_cell(run, settings=settings), folder="elsewhere/two")
    alone = cases([run], "dtr", "always")
    both = cases([run, other], "dtr", "always")
    assert len(both) == 2 * len(alone)
    out = io.StringIO()
    print_cases(both, out)
    heads = [line for line in out.getvalue().splitlines() if line.startswith("elsewhere/two: ")]
    assert [head.split()[1] for head in heads] == ["hotpotqa:", "popqa:"]


class Elements(HTMLParser):
    """Start tags with their attributes, texts of scripts, and ids."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script" and data.strip():
            self.scripts.append((self.tags[-1][1], data))


@pytest.mark.parametrize("name", ["report", "hostile"])
def test_the_page_fetches_nothing_and_runs_only_its_own_scripts(name: str, request: pytest.FixtureRequest) -> None:
    made = request.getfixturevalue(name)
    page = Elements(report_page(made))
    assert not [attributes for _, attributes in page.tags if "src" in attributes or "srcset" in attributes]
    links = [a["href"] for tag, a in page.tags if tag in {"a", "link"}]
    assert links and all(link.startswith("#") for link in links)
    assert {link[1:] for link in links} <= {a["id"] for _, a in page.tags if "id" in a}
    assert {tag for tag, _ in page.tags} & {"img", "b", "i", "iframe", "link"} == set()
    policy = next(a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    code = [text for attributes, text in page.scripts if attributes.get("type") != "application/json"]
    assert len(code) == 2
    for text in code:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]


def test_every_figure_stands_on_the_page_with_its_data_and_a_table(report: Report) -> None:
    page = Elements(report_page(report))
    shown = [figure for figure in report.figures if not figure.missing]
    assert {f.name for f in report.figures} - {f.name for f in shown} == OF_STEPS
    assert len(shown) == 14
    data = {a["id"]: json.loads(text) for a, text in page.scripts if a.get("type") == "application/json"}
    for figure in shown:
        drawn_traces = data[f"data-plot-{figure.name}"]["data"]
        assert len(drawn_traces) == len(figure.series)
        for trace, series in zip(drawn_traces, figure.series, strict=True):
            x, y = ("theta", "r") if figure.is_polar else ("x", "y")
            assert (trace[x], trace[y]) == (list(series.x), list(series.y))
    labels = [a["aria-label"] for _, a in page.tags if a.get("role") == "img"]
    assert labels == [f"{figure.title}. {figure.reading}" for figure in shown]
    tables_of_three_panels = 3 * 4  # answers, cost, decisions, differences
    assert sum(tag == "caption" for tag, _ in page.tags) == 14 + tables_of_three_panels
    assert all(a.get("scope") == "col" for tag, a in page.tags if tag == "th")
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))


def test_texts_of_a_run_become_no_markup_in_a_figure(hostile: Report) -> None:
    for figure in hostile.figures:
        if not figure.missing:
            assert "<" not in drawn(figure)
            assert not re.search(r'"name":"[^"]*\\u003c', drawn(figure))


def test_series_colours_hold_on_light_and_dark_pages() -> None:
    for colour in SERIES_COLOURS:
        assert contrast(colour, "#ffffff") >= 3.0
        assert contrast(colour, DARK_PAGE) >= 3.0


@pytest.mark.parametrize("name", ["report", "hostile"])
def test_the_terminal_form_fits_eighty_columns_and_shows_no_control(name: str, request: pytest.FixtureRequest) -> None:
    out = io.StringIO()
    print_report(request.getfixturevalue(name), out)
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert not set(out.getvalue()) & {"\x1b", "\u202e"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def tables_at(run: RunData, columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    out = Terminal()
    print_tables(run, out)
    return out.getvalue().splitlines()


def test_tables_fit_their_terminal_and_use_it(run: RunData, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow, wide = (tables_at(run, columns, monkeypatch) for columns in (80, 100))
    assert max(map(len, narrow)) <= 80 < max(map(len, wide)) <= 100
    row = build_report([run]).tables[0].rows[2]
    assert row.strategy == "dtr"
    assert row.em is not None and row.f1 is not None and row.recall is not None and row.all_gold is not None
    assert row.decision is not None and row.em_difference is not None and row.trigger_ratio is not None

    def shown(value: float) -> str:
        return f"{100 * value:.1f}"

    def whole(value: Interval) -> list[str]:
        return f"{shown(value.mean)} [{shown(value.low)}, {shown(value.high)}]".split()

    for lines, graded in ((narrow, lambda value: [shown(value.mean)]), (wide, whole)):
        answers, cost, decisions, differences = [line.split() for line in lines if line.split()[:1] == ["dtr"]][:4]
        assert answers == [
            *("dtr", "80"),
            *whole(row.em),
            *graded(row.f1),
            shown(row.acc.mean),
            *graded(row.recall),
            shown(row.all_gold.mean),
        ]
        assert cost[1:] == [
            *whole(row.trigger_ratio),
            f"{row.searches:.2f}",
            f"{row.llm_calls:.2f}",
            f"{35 * row.llm_calls:.0f}",
            f"{row.seconds_median:.1f}",
            f"{row.seconds_p95:.1f}",
        ]
        assert decisions[1:4] == [
            shown(row.decision.answerable),
            shown(row.decision.f1),
            shown(row.decision.accuracy),
        ]
        assert differences[1:3] == [shown(row.chunks_differ), shown(row.answers_differ)]
        assert [str(row.em_difference.wins), str(row.em_difference.losses)] == differences[6:8]


def test_what_was_not_measured_has_no_column(run: RunData, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = tuple(msgspec.structs.replace(r, recall=None, all_gold=None) for r in run.results)
    lines = tables_at(msgspec.structs.replace(run, results=bare), 80, monkeypatch)
    assert lines[1].split() == ["strategy", "n", "EM", "F1", "ACC"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    folder = tmp_path_factory.mktemp("runs") / "small"
    return read_run(report_runs.write_run(folder, sets=(("popqa", 6),), strategies=("never",)))


def in_cell(run: RunData, **changes: object) -> RunData:
    cell = msgspec.structs.replace(run.manifest.cells[0], **changes)
    return msgspec.structs.replace(run, manifest=msgspec.structs.replace(run.manifest, cells=(cell,)))


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        (
            {"calibration": "popqa", "calibrated_on": 5, "lanes": 1},
            "Threshold and odds come from a calibration (popqa) that was fitted on 5 of these 6 questions: the numbers "
            "of what it set flatter.",
        ),
        (
            {"calibration": "squad", "lanes": 1},
            "Threshold and odds come from a calibration on other questions (squad).",
        ),
        (
            {"lanes": 2},
            "Up to 2 questions were decoded together, and seconds are each one's share of the batch: one question "
            "asked alone takes longer (measure it with --batch 1).",
        ),
        (
            {"lanes": 4, "is_bit_equal": False},
            "Up to 4 questions were decoded together, and seconds are each one's share of the batch: one question "
            "asked alone takes longer (measure it with --batch 1); batches of this size may change answers, too.",
        ),
        (
            {"lanes": 2, "model": "small + mine"},
            "With an adapter each question was decoded by itself, since a batch would change its numbers.",
        ),
    ],
    ids=["calibrated on these", "calibrated on others", "batched", "inexact", "adapted"],
)
def test_what_qualifies_numbers_is_told_in_terminal_and_page(
    small: RunData, changes: dict[str, object], note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = in_cell(small, **changes)
    assert line_notes(lines_of([changed])[0]) == (note,)
    assert note in " ".join(" ".join(tables_at(changed, 100, monkeypatch)).split())
    assert f'<p class="note">{note}</p>' in report_page(build_report([changed]))


def test_one_by_one_and_uncalibrated_needs_no_note(run: RunData) -> None:
    assert line_notes(lines_of([in_cell(run, lanes=1)])[0]) == ()


def test_what_is_only_drawn_is_told_on_the_page_alone(report: Report) -> None:
    out = io.StringIO()
    print_report(report, out)
    told = " ".join(out.getvalue().split())
    drawn = [note for figure in report.figures if not figure.missing for note in figure.drawing]
    assert drawn
    page = report_page(report)
    for note in drawn:
        assert note not in told
        assert note in page
    assert "ashed" not in told
    assert "otted" not in told


def test_the_page_tells_f1_against_the_first_gold(report: Report) -> None:
    table = answer_rows(report.tables[0].rows)
    at = table.columns.index("F1 first gold")
    row = report.tables[0].rows[0]
    assert row.f1_first_gold is not None
    assert table.rows[0][at] == interval(row.f1_first_gold)
    assert ">F1 first gold</th>" in report_page(report)


def test_a_sparkline_runs_from_the_lowest_to_the_highest_glyph() -> None:
    assert sparkline([0.0, 0.5, 1.0, 2.0, -1.0], low=0.0, high=1.0) == "▁▅██▁"
    assert sparkline([0.3, 0.3], low=0.3, high=0.3) == "▁▁"


def test_failed_runs_are_told_and_cost_nothing(run: RunData) -> None:
    failed = tuple(
        msgspec.structs.replace(r, failure="out of memory", em=0.0, llm_calls=0) if r.strategy == "never" else r
        for r in run.results
    )
    one_left = (run.results[0], *failed[1:])
    broken = msgspec.structs.replace(run, results=one_left)
    out = io.StringIO()
    print_report(build_report([broken]), out)
    assert "  never: 79 of 80 failed: out of memory" in out.getvalue().splitlines()
    assert build_report([broken]).tables[0].rows[0].llm_calls == 1.0


def test_auroc_is_told_of_strategies_with_an_uncertainty_of_their_own(report: Report) -> None:
    auroc = {r.strategy: r.decision.auroc for r in report.tables[0].rows if r.decision}
    assert auroc["always"] is auroc["dpr-ais"] is None
    assert auroc["dtr"] == auroc["never"] > 0.5
