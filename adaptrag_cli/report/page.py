"""The report as one HTML page that holds its scripts, its data and its tables, and fetches nothing.

The page's policy lets only the two scripts run that are named by their digest, so no text of a run can become one.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from xml.etree.ElementTree import Element, tostring

from adaptrag_cli.events import Scalar
from adaptrag_cli.html_figures import Child, element, table
from adaptrag_cli.pages import GENERATOR
from adaptrag_cli.report.build import Report
from adaptrag_cli.report.drawing import drawn
from adaptrag_cli.report.figure import Figure, Table, missing_by_reason
from adaptrag_cli.report.lines import Line
from adaptrag_cli.report.notes import INTERVALS, decodes_apart, line_notes
from adaptrag_cli.report.rows import answer_rows, cost_rows, decision_rows, difference_rows, reference_of, type_rows
from adaptrag_cli.report.step_rows import STEPS_NOTE, SUB_QUERIES_NOTE, step_rows, sub_query_rows
from adaptrag_cli.report.strategies import StrategyTable
from adaptrag_cli.report.timing_rows import TIMING_NOTE, look_up_rows, timing_table, verdicts

_MOST_ROWS = 400
"""Of a figure's table on the page; the figure's own data is whole."""


def report_page(report: Report) -> str:
    """Return the page."""
    title = f"Retrieval strategies on {_enumerated([name for line in report.lines for name in line.sets])}"
    main = element(
        "main",
        element("h1", title),
        element("p", _summary(report), class_="quiet"),
        contents([("measured", "What was measured"), ("strategies", "Strategies")], report.figures),
        section("measured", "What was measured", *_measured(report)),
        section("strategies", "Strategies", *_strategies(report)),
        figures_section(report.figures),
    )
    versions = ", ".join(dict.fromkeys(run.manifest.adaptrag_version for run in report.runs))
    return standalone_page(title, main, f"Made from runs of adaptrag-cli {versions}.")


def standalone_page(title: str, main: Element, footer: str) -> str:
    """Return a page with the scripts that draw its figures."""
    import plotly.offline

    library = plotly.offline.get_plotlyjs()
    script = _resource("report/report.js")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="generator", content=GENERATOR),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(library, script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", _resource("html_page.css") + _resource("report/report.css")),
    )
    body = element("body", main, element("footer", footer))
    # Not through `element`: a script is code, and nothing in it may be changed.
    for code in (library, script):
        tag = Element("script")
        tag.text = code
        body.append(tag)
    page = element("html", head, body, lang="en")
    return f"<!doctype html>\n{tostring(page, encoding='unicode', method='html')}\n"


def _resource(name: str) -> str:
    return files("adaptrag_cli").joinpath(name).read_text("utf-8")


def _policy(*scripts: str) -> str:
    digests = (base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
        "form-action 'none'"
    )


def _enumerated(names: list[str]) -> str:
    unique = list(dict.fromkeys(names))
    return unique[0] if len(unique) == 1 else f"{', '.join(unique[:-1])} and {unique[-1]}"


def _summary(report: Report) -> str:
    labels = dict.fromkeys(label for line in report.lines for label in line.answers)
    answers = sum(len(run.results) for run in report.runs)
    models = dict.fromkeys(line.cell.model for line in report.lines)
    return f"{len(labels)} strategies, {answers:,} answers, model {_enumerated(list(models))}"


def contents(sections: Sequence[tuple[str, str]], figures: Sequence[Figure]) -> Element:
    """Links to sections, by name and title, and to every figure that is there."""
    links = [*sections, *((figure.name, figure.title) for figure in figures if not figure.missing)]
    items = (element("li", element("a", text, href=f"#{name}")) for name, text in links)
    return element("nav", element("ul", *items), aria_label="Contents")


def section(name: str, title: str, *content: Child) -> Element:
    """A part of a page that can be linked to."""
    return element("section", element("h2", title), *content, id=name)


def _measured(report: Report) -> Iterator[Element]:
    for run in report.runs:
        manifest = run.manifest
        sets = "; ".join(f"{info.name} ({info.format}, {len(info.questions)} questions)" for info in manifest.sets)
        facts: list[tuple[Child, ...]] = [
            ("run", f"{run.folder}, begun {manifest.created}"),
            ("question sets", sets),
            ("sample", f"{_limit(manifest.limit)}, seed {manifest.seed}"),
            ("strategies", ", ".join(spec.label for spec in manifest.strategies)),
            ("machine", manifest.machine),
            ("versions", ", ".join(f"{name} {number}" for name, number in manifest.versions.items())),
        ]
        yield element("div", table(("", ""), facts), class_="facts")
    for line in report.lines:
        yield element("details", element("summary", f"Models and indexes: {line.name}"), _cell_facts(line))


def _limit(limit: int | None) -> str:
    return "all questions" if limit is None else f"at most {limit} questions of each set"


def _cell_facts(line: Line) -> Element:
    cell = line.cell
    equal = "the numbers of one-by-one" if cell.is_bit_equal else "numbers may differ from one-by-one"
    is_single = cell.lanes == 1 or decodes_apart(cell)
    batch = "1 question at a time" if is_single else f"{cell.lanes} questions decoded together, {equal}"
    facts: list[tuple[Child, ...]] = [
        ("model", f"{cell.model} ({cell.model_fingerprint})"),
        ("encoder", cell.encoder),
        *((f"index of {name}", fingerprint or "none") for name, fingerprint in cell.indexes.items()),
        ("batch", batch),
        ("varied", ", ".join(f"{name}={value}" for name, value in cell.overrides.items()) or "nothing"),
        ("calibration", _calibration(line)),
    ]
    return element("div", table(("", ""), facts), class_="facts")


def _calibration(line: Line) -> str:
    cell = line.cell
    if not cell.calibration:
        return "none"
    warning = f"; {cell.calibrated_on} of these questions were fitted on, which flatters" if cell.calibrated_on else ""
    return cell.calibration + warning


def _strategies(report: Report) -> Iterator[Element]:
    yield element(
        "p",
        f"Shares and scores in percent. {INTERVALS}. Recall and all gold count questions that were looked up; F1 first "
        "gold knows the first gold answer alone, as PAIRS' figures. A verdict compares EM with always on the same "
        "questions.",
        class_="note",
    )
    if any(part.timing for part in report.tables):
        yield element("p", TIMING_NOTE, class_="note")
    if any(step_rows(part.rows).rows for part in report.tables):
        yield element("p", STEPS_NOTE, class_="note")
    if any(sub_query_rows(part.rows).rows for part in report.tables):
        yield element("p", SUB_QUERIES_NOTE, class_="note")
    for line in report.lines:
        for note in line_notes(line):
            yield element("p", f"{line.name}: {note}" if len(report.lines) > 1 else note, class_="note")
    panels = dict.fromkeys(part.panel for part in report.tables)
    for number, panel in enumerate(panels):
        parts = [part for part in report.tables if part.panel == panel]
        content = [element("summary", element("strong", panel)), *(t for part in parts for t in _tables(part, report))]
        is_open = {"open": "open"} if number == 0 else {}
        yield element("details", *content, class_="sets", **is_open)


def _tables(part: StrategyTable, report: Report) -> Iterator[Element]:
    of = f" of {part.line}" if len(report.lines) > 1 else ""
    parts = ((f"Answers{of}", answer_rows(part.rows)), (f"Cost{of}, means a question", cost_rows(part.rows)))
    for caption, made in parts:
        yield captioned(caption, made)
    steps = step_rows(part.rows)
    if steps.rows:
        yield captioned(f"Look-ups{of} of a question", steps)
    asked = sub_query_rows(part.rows)
    if asked.rows:
        yield captioned(f"What was asked step by step{of}", asked)
    yield from _timing(part, of)
    more = [(f"Decisions{of} against what the drafts were", decision_rows(part.rows))]
    more.append((f"Differences{of} from {reference_of(part.rows)}, question by question", difference_rows(part.rows)))
    more += [(f"EM{of} by {name}", type_rows(kinds)) for name, kinds in part.types.items()]
    for caption, made in more:
        if made.rows:
            yield element("details", element("summary", caption), captioned(caption, made))


def _timing(part: StrategyTable, of: str) -> Iterator[Element]:
    if not part.timing:
        return
    yield captioned(f"Look-ups{of} while the answer was being written", look_up_rows(part.timing))
    for verdict in verdicts(part.timing):
        yield element("p", verdict, class_="note")
    when = timing_table(part.timing)
    if when.rows:
        yield captioned(f"When they came{of}", when)


def captioned(caption: str, made: Table) -> Element:
    """A table with its caption and with headers that a screen reader can tell."""
    numbers = [at for at in range(len(made.columns)) if any(_is_number(row[at]) for row in made.rows)]
    wide = table(made.columns, [[_cell(value) for value in row] for row in made.rows], right=numbers)
    inner = wide[0]
    inner.insert(0, element("caption", caption))
    for header in inner.iter("th"):
        header.set("scope", "col")
    wide.set("tabindex", "0")  # it scrolls, so a keyboard must reach it
    wide.set("role", "region")
    wide.set("aria-label", caption)
    return wide


def _is_number(value: Scalar) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and value[:1].lstrip("-+").isdigit())


def _cell(value: Scalar) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def figures_section(figures: Sequence[Figure]) -> Element:
    """The figures that there are, then the reasons of those that there are not."""
    drawn_ones = (part for figure in figures if not figure.missing for part in _figure_parts(figure))
    missing = [
        element("p", f"{'; '.join(titles)}: {reason}.", class_="missing")
        for reason, titles in missing_by_reason(figures).items()
    ]
    return section("figures", "Figures", *drawn_ones, *((element("h3", "Not here"), *missing) if missing else ()))


def _figure_parts(figure: Figure) -> Iterator[Element]:
    """A figure with its caption, its data and its table."""
    heading = element("h3", figure.title, " ", element("span", f"({figure.source})", class_="note"))
    caption = element(
        "figcaption",
        element("p", figure.reading),
        *(element("p", note, class_="note") for note in (*figure.notes, *figure.drawing)),
    )
    data = Element("script", {"type": "application/json", "id": f"data-plot-{figure.name}"})
    data.text = drawn(figure)
    yield element(
        "figure",
        heading,
        caption,
        element(
            "div", id=f"plot-{figure.name}", class_="plot", role="img", aria_label=f"{figure.title}. {figure.reading}"
        ),
        element("noscript", element("p", "The picture needs JavaScript; the table holds its numbers.", class_="note")),
        data,
        _numbers(figure),
        id=figure.name,
    )


def _numbers(figure: Figure) -> Element:
    rows = figure.data.rows
    step = -(-len(rows) // _MOST_ROWS)
    shown = Table(columns=figure.data.columns, rows=rows[:: max(step, 1)])
    thinned = f"; every {step}. of {len(rows):,} rows, all are in the page's data" if step > 1 else ""
    summary = element("summary", f"Numbers of this figure ({len(shown.rows)} rows{thinned})")
    return element("details", summary, captioned(figure.title, shown))
