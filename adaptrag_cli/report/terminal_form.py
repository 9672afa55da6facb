"""The report in a terminal: the page's numbers as tables of 80 columns or more, and its curves as rows of glyphs."""

from __future__ import annotations

import io
import shutil
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TextIO

from adaptrag_cli.events import Scalar
from adaptrag_cli.report.build import Report
from adaptrag_cli.report.cases import Case
from adaptrag_cli.report.figure import Figure, Series, Table, missing_by_reason
from adaptrag_cli.report.lines import Line, lines_of
from adaptrag_cli.report.notes import INTERVALS, line_notes
from adaptrag_cli.report.rows import (
    brief_answer_rows,
    brief_cost_rows,
    brief_decision_rows,
    brief_difference_rows,
    decision_rows,
    difference_rows,
    reference_of,
    type_rows,
    verdict,
)
from adaptrag_cli.report.sections import Section
from adaptrag_cli.report.step_rows import STEPS_NOTE, SUB_QUERIES_NOTE, step_rows, sub_query_rows
from adaptrag_cli.report.strategies import StrategyTable, strategy_tables
from adaptrag_cli.report.timing_rows import TIMING_NOTE, brief_look_up_rows, timing_table, verdicts
from adaptrag_cli.terminal import is_plain, printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from adaptrag_cli.evaluation.results import RunData

_GLYPHS = "▁▂▃▄▅▆▇█"
_SPARK_WIDTH = 32
_LABEL_WIDTH = 19
_WIDE = 100
"""Columns from which on F1 and recall have their intervals, too."""


def print_report(report: Report, stream: TextIO) -> None:
    """Print the table of strategies of every line and set, then every figure."""
    text = io.StringIO()
    console = _console(text, stream)
    _print_tables(report.lines, report.tables, console)
    _print_figures(report.figures, console)
    _flush(text, stream)


def print_tables(run: RunData, stream: TextIO) -> None:
    """Print the tables of strategies alone: what an evaluation ends with."""
    text = io.StringIO()
    console = _console(text, stream)
    lines = lines_of([run])
    _print_tables(lines, strategy_tables(lines), console)
    _flush(text, stream)


def print_sections(title: str, parts: Sequence[Section], figures: Sequence[Figure], stream: TextIO) -> None:
    """Print tables with what is to be said of each, then figures."""
    text = io.StringIO()
    console = _console(text, stream)
    _say(console, title, style="bold")
    for part in parts:
        _head(console, part.title)
        _print_table(console, part.table)
        for note in part.notes:
            _say(console, note, indent=2)
    _print_figures(figures, console)
    _flush(text, stream)


def print_drawing(drawing: RenderableType, notes: Sequence[str], stream: TextIO) -> None:
    """Print what rich draws, and what is to be said of it."""
    text = io.StringIO()
    console = _console(text, stream)
    console.print(drawing)
    console.print()
    for note in notes:
        _say(console, note)
    _flush(text, stream)


def print_cases(cases: Sequence[Case], stream: TextIO) -> None:
    """Print each case: question, gold, both answers, and the commands that open both runs."""
    text = io.StringIO()
    console = _console(text, stream)
    where: tuple[str, str, str] | None = None
    names_run = len({case.run for case in cases}) > 1
    for case in cases:
        here = (case.run, case.cell, case.set)
        if here != where:
            count = sum(1 for other in cases if (other.run, other.cell, other.set) == here)
            place = f"{case.run}: {case.set}" if names_run else case.set
            named = place if case.cell == "base" else f"{place}, {case.cell}"
            _head(console, f"{named}: {count} where {case.right} is right (EM) and {case.wrong} is not")
            where = here
        _print_case(case, console)
    _flush(text, stream)


def sparkline(values: Sequence[float], *, low: float, high: float) -> str:
    """One glyph a value, from the lowest at `low` to the highest at `high`."""
    if high <= low:
        return _GLYPHS[0] * len(values)
    steps = len(_GLYPHS) - 1
    return "".join(_GLYPHS[round(min(max((value - low) / (high - low), 0.0), 1.0) * steps)] for value in values)


def width_of(stream: TextIO) -> int:
    """Columns of what is printed: the terminal's, and 80 at least."""
    return max(80, shutil.get_terminal_size().columns) if stream.isatty() else 80


def _console(text: io.StringIO, stream: TextIO) -> Console:
    from rich.console import Console

    plain = is_plain(stream)
    return Console(
        file=text,
        width=width_of(stream),
        color_system=None if plain else "auto",
        force_terminal=not plain,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )


def _flush(text: io.StringIO, stream: TextIO) -> None:
    lines = text.getvalue().strip("\n").split("\n")
    stream.writelines(f"{line.rstrip()}\n" for line in lines)  # rich fills columns with spaces
    stream.flush()


def _print_tables(lines: Sequence[Line], tables: Sequence[StrategyTable], console: Console) -> None:
    for part in tables:
        _print_strategies(part, console, names_line=len(lines) > 1)
    _head(console, "How to read the tables")
    for note in (
        f"Scores and shares are in percent. {INTERVALS}. Recall and all gold count questions that were looked up: gold "
        "passages that the answer was read from or, where none are named, chunks that hold an answer.",
        "Decisions: not to look up, against whether the draft was right; where a strategy is named under right by, "
        "against whether that one was. Of several comparisons with one strategy, p is corrected (Holm).",
    ):
        _say(console, note, indent=2)
    if any(part.timing for part in tables):
        _say(console, TIMING_NOTE, indent=2)
    if any(step_rows(part.rows).rows for part in tables):
        _say(console, STEPS_NOTE, indent=2)
    if any(sub_query_rows(part.rows).rows for part in tables):
        _say(console, SUB_QUERIES_NOTE, indent=2)
    for line in lines:
        for note in line_notes(line):
            _say(console, f"{line.name}: {note}" if len(lines) > 1 else note, indent=2)


def _print_strategies(part: StrategyTable, console: Console, *, names_line: bool) -> None:
    _head(console, f"{part.panel}: {part.line}" if names_line else part.panel)
    is_wide = console.width >= _WIDE
    _print_table(console, brief_answer_rows(part.rows, is_wide=is_wide))
    for row in part.rows:
        if row.failures:
            _say(console, f"{row.strategy}: {row.failures} of {row.n} failed: {row.failure}", indent=2)
    compared = [row for row in part.rows if row.em_difference is not None]
    told = [row for row in compared if row.em_difference and row.em_difference.verdict != "inconclusive"]
    for row in told:
        _say(console, f"{row.strategy} against {row.against}: {verdict(row)} points EM", indent=2)
    if len(told) < len(compared):
        _say(console, f"inconclusive against {compared[0].against}: {len(compared) - len(told)}", indent=2)
    reference = reference_of(part.rows)
    more = [
        ("Cost of a question (means, but of seconds the median and the 95th percentile)", brief_cost_rows(part.rows)),
        (
            "Look-ups of a question (right, wrong: mean of those answered so, by EM)",
            step_rows(part.rows, is_wide=False),
        ),
        ("What was asked step by step", sub_query_rows(part.rows, is_wide=False)),
        (
            "Decisions against what the drafts were",
            decision_rows(part.rows) if is_wide else brief_decision_rows(part.rows),
        ),
        (
            f"Differences from {reference}, question by question",
            difference_rows(part.rows) if is_wide else brief_difference_rows(part.rows),
        ),
        *((f"EM by {name}", type_rows(kinds)) for name, kinds in part.types.items()),
        ("When look-ups came while the answer was being written", timing_table(part.timing, is_wide=is_wide)),
        ("How many there were", brief_look_up_rows(part.timing)),
    ]
    for caption, made in more:
        if made.rows:
            console.print()
            _say(console, f"{caption}:", indent=2)
            _print_table(console, made)
    for verdict_on_timing in verdicts(part.timing):
        _say(console, verdict_on_timing, indent=2)


def _print_figures(figures: Sequence[Figure], console: Console) -> None:
    """Those that there are, then the reasons of those that there are not."""
    for figure in figures:
        if not figure.missing:
            _print_figure(figure, console)
    missing = missing_by_reason(figures)
    if missing:
        _head(console, "Not here")
    for reason, titles in missing.items():
        _say(console, f"{'; '.join(titles)}:", indent=2)
        _say(console, reason, indent=4)


def _print_figure(figure: Figure, console: Console) -> None:
    _head(console, f"{figure.title} ({figure.source})")
    _say(console, figure.reading, indent=2)
    for note in figure.notes:
        _say(console, note, indent=2)
    if not figure.is_polar:
        _print_sparks(figure, console)
        _print_table(console, _without_line(figure.brief))


def _print_sparks(figure: Figure, console: Console) -> None:
    """Curves of the first panel, evenly over their points."""
    curves = [s for s in figure.series if s.mark == "line" and s.panel == figure.panels[0] and len(s.y) > 2]
    if not curves or figure.name.startswith("cost"):
        return
    high = max(max(series.y) for series in curves)
    rows = tuple((series.name, sparkline(_sampled(series), low=0.0, high=high)) for series in curves)
    top = f"{100 * high:.0f} %" if figure.y.scale in {"percent", "gain"} else f"{high:.4g}"
    _print_table(console, Table(columns=("", f"from left to right, highest {top}"), rows=rows))


def _without_line(made: Table) -> Table:
    """The table without its first column, where that names the one line there is."""
    if made.columns[:1] != ("line",) or len({row[0] for row in made.rows}) > 1:
        return made
    return Table(columns=made.columns[1:], rows=tuple(row[1:] for row in made.rows))


def _sampled(series: Series) -> list[float]:
    count = min(len(series.y), _SPARK_WIDTH)
    return [series.y[round(at * (len(series.y) - 1) / (count - 1))] for at in range(count)]


def _print_case(case: Case, console: Console) -> None:
    console.print()
    _say(console, case.query, indent=2, style="bold")
    rows: list[tuple[Scalar, ...]] = [("gold", " | ".join(case.golds))]
    for label, answer, looked_up in (
        (case.right, case.right_answer, case.right_looked_up),
        (case.wrong, case.wrong_answer, case.wrong_looked_up),
    ):
        rows.append((label, f"{answer or '(none)'} ({'looked up' if looked_up else 'from memory'})"))
    _print_table(console, Table(columns=(), rows=tuple(rows)))
    for command in (case.right_command, case.wrong_command):
        _say(console, command, indent=4, style="dim", is_whole=True)


def _head(console: Console, text: str) -> None:
    console.print()
    _say(console, text, style="bold")


def _say(console: Console, text: str, *, indent: int = 0, style: str = "", is_whole: bool = False) -> None:
    """Print a paragraph; a whole one is left on its line, so that it can be copied."""
    from rich.padding import Padding
    from rich.text import Text

    shown = Text(printable(text), style=style)
    if is_whole:
        console.print(" " * indent, shown, sep="", soft_wrap=True)
    else:
        console.print(Padding(shown, (0, 0, 0, indent)))


def _print_table(console: Console, made: Table) -> None:
    """Print rows; when they are too wide, words fold and numbers stay whole."""
    from rich.padding import Padding
    from rich.table import Table as RichTable
    from rich.text import Text

    if not made.rows:
        return
    table = RichTable(box=None, show_header=any(made.columns), pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for at, name in enumerate(made.columns or ("",) * len(made.rows[0])):
        is_number = all(_is_number(row[at]) for row in made.rows)
        justify: Literal["left", "right"] = "right" if is_number else "left"
        header = _stacked(name, [row[at] for row in made.rows]) if is_number else name
        table.add_column(header, justify=justify, no_wrap=is_number, overflow="fold")
    for row in made.rows:
        table.add_row(*(Text(_broken("" if value is None else printable(str(value)))) for value in row))
    console.print(Padding(table, (0, 0, 0, 2)))


def _broken(text: str) -> str:
    """A long label in lines that end at its colons; what has spaces folds by itself."""
    if len(text) <= _LABEL_WIDTH or " " in text:
        return text
    lines = [""]
    for part in text.split(":"):
        piece = part if not any(lines) else f":{part}"
        if lines[-1] and len(lines[-1]) + len(piece) > _LABEL_WIDTH:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def _stacked(name: str, values: Sequence[Scalar]) -> str:
    """A header in as many lines as its words need to be no wider than its column."""
    widest = max(len("" if value is None else str(value)) for value in values)
    return textwrap.fill(name, max(widest, *map(len, name.split()))) if " " in name else name


def _is_number(value: Scalar) -> bool:
    return value is None or isinstance(value, int | float) or value == "" or value[:1].lstrip("-+").isdigit()
