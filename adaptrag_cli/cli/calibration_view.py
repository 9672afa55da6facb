"""Print what a calibration found: the curve, the choice, the odds, and what is used from now on."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec
import numpy as np

from adaptrag_cli.calibration import Calibrated, FittedOn, MeasuredWith
from adaptrag_cli.evaluation.alpha import AlphaFit
from adaptrag_cli.evaluation.calibrate import CHOSEN, CalibrationReport
from adaptrag_cli.evaluation.statistics import Interval
from adaptrag_cli.evaluation.thresholds import Curve
from adaptrag_cli.events import DraftOdds
from adaptrag_cli.terminal import is_plain, printable

if TYPE_CHECKING:
    from rich.console import Console

_CURVE_ROWS = 12
_BAR = 20


def print_calibration(report: CalibrationReport, path: Path, stream: TextIO) -> None:
    """Print the report in 80 columns."""
    console, lines = _console(stream)
    fitted = report.calibrated
    _head(console, f"{fitted.model}, calibrated on {fitted.source}")
    for note in report.notes:
        _say(console, f"Note: {note}.")
    _print_curve(console, report)
    _print_choice(console, report)
    _print_odds(console, fitted.odds)
    _print_scores(console, report)
    if report.alpha is not None:
        _print_alpha(console, report.alpha)
    _print_use(console, fitted, path)
    _flush(lines, stream)


def print_alpha_calibration(
    calibrated: Calibrated, alpha: AlphaFit, notes: Sequence[str], path: Path, stream: TextIO
) -> None:
    """Print what refitting the query weight alone found."""
    console, lines = _console(stream)
    for note in notes:
        _say(console, f"Note: {note}.")
    _print_alpha(console, alpha)
    _print_use(console, calibrated, path)
    _flush(lines, stream)


def as_document(report: CalibrationReport, path: Path) -> dict[str, Any]:
    """The report as plain values for `--json`."""
    return {
        "path": str(path),
        "target": report.target,
        "shipped_threshold": report.shipped,
        "notes": list(report.notes),
        "calibrated": msgspec.to_builtins(report.calibrated),
        "curve": [
            {"threshold": t, "score": s, "trigger_ratio": r}
            for t, s, r in zip(*(column.tolist() for column in _columns(report.curve)), strict=True)
        ],
        "scores": msgspec.to_builtins(report.scores),
        "alpha": _alpha_document(report.alpha) if report.alpha is not None else None,
    }


def alpha_as_document(calibrated: Calibrated, alpha: AlphaFit, notes: Sequence[str], path: Path) -> dict[str, Any]:
    """What refitting the query weight alone found, as plain values for `--json`."""
    return {
        "path": str(path),
        "notes": list(notes),
        "calibrated": msgspec.to_builtins(calibrated),
        "alpha": _alpha_document(alpha),
    }


def _alpha_document(alpha: AlphaFit) -> dict[str, Any]:
    return {
        "line": list(alpha.line),
        "pairs": alpha.pairs,
        "questions": alpha.questions,
        "kept": alpha.kept,
        "recalls": msgspec.to_builtins(alpha.recalls),
        "differences_to_cos": msgspec.to_builtins(alpha.differences),
    }


def _console(stream: TextIO) -> tuple[Console, io.StringIO]:
    from rich.console import Console

    plain = is_plain(stream)
    lines = io.StringIO()
    console = Console(
        file=lines,
        width=80,
        color_system=None if plain else "auto",
        force_terminal=not plain,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    return console, lines


def _flush(lines: io.StringIO, stream: TextIO) -> None:
    stream.writelines(f"{line.rstrip()}\n" for line in lines.getvalue().strip("\n").split("\n"))
    stream.flush()


def _columns(curve: Curve) -> tuple[Any, Any, Any]:
    return curve.thresholds, curve.scores, curve.trigger_ratios


def _print_curve(console: Console, report: CalibrationReport) -> None:
    """A few rows of the curve, evenly over the trigger ratio, with the best one among them."""
    curve, name = report.curve, report.target.upper()
    wanted = np.linspace(0, len(curve.thresholds) - 1, min(_CURVE_ROWS, len(curve.thresholds))).round().astype(int)
    rows_at = sorted({*wanted.tolist(), int(curve.scores.argmax())})
    _head(console, f"{name} at each threshold (the documents' answers on both paths beyond it)")
    best = float(curve.scores.max())
    rows = [
        (
            f"{curve.thresholds[i]:.3f}",
            f"{100 * curve.scores[i]:.1f}",
            f"{100 * curve.trigger_ratios[i]:.0f} %",
            "█" * round(_BAR * float(curve.scores[i]) / best) if best else "",
        )
        for i in rows_at
    ]
    _table(console, ("u up to", name, "looked up", ""), rows)


def _print_choice(console: Console, report: CalibrationReport) -> None:
    threshold = report.calibrated.threshold
    if threshold is None:
        return
    name = report.target.upper()
    gain, low, high = (100 * value for value in (threshold.gain, threshold.gain_low, threshold.gain_high))
    score, span = _shown(report.scores[CHOSEN])
    verdict = "a gain" if low > 0 else "a loss" if high < 0 else "inconclusive"
    _head(console, f"threshold {threshold.threshold:.3f} (95 % interval {threshold.low:.3f} to {threshold.high:.3f})")
    _say(
        console,
        f"Chosen for {threshold.target}. On held-out questions it scores {score} {name} ({span}). Against the shipped "
        f"{report.shipped:g}, which holds without a calibration of your own, that is {gain:+.1f} points ({low:+.1f} to "
        f"{high:+.1f}): {verdict}.",
    )


def _print_odds(console: Console, odds: Sequence[DraftOdds]) -> None:
    if not odds:
        return
    _head(console, "how often drafts were right")
    rows = [(_band(band), f"{band.right} of {band.drafts}", f"{100 * band.right / band.drafts:.0f} %") for band in odds]
    _table(console, ("uncertainty", "right", ""), rows)


def _band(band: DraftOdds) -> str:
    return f"above {band.above:.3f}" if band.up_to is None else f"{band.above:.3f} to {band.up_to:.3f}"


def _print_scores(console: Console, report: CalibrationReport) -> None:
    _head(console, f"{report.target.upper()} of these questions, with 95 % intervals")
    _table(console, ("", report.target.upper(), ""), [(name, *_shown(i)) for name, i in report.scores.items()])


def _print_alpha(console: Console, alpha: AlphaFit) -> None:
    slope, intercept = alpha.line
    _head(console, f"PAIRS' query weight: alpha = {slope:.3f} theta0 + {intercept:.3f} (the paper's: 0.058, 0.455)")
    rows = [
        (name, *_shown(interval), _points(alpha.differences[name]) if name in alpha.differences else "")
        for name, interval in alpha.recalls.items()
    ]
    _table(console, ("score", f"recall@{alpha.kept}", "", "against cos"), rows)
    matters = any(i.low > 0 or i.high < 0 for i in alpha.differences.values())
    _say(
        console,
        f"Share of the gold documents that either path found and the score keeps, over {alpha.questions} questions; "
        + ("the choice of score matters here." if matters else "no difference to cos is beyond chance."),
    )


def _print_use(console: Console, fitted: Calibrated, path: Path) -> None:
    _head(console, "from now on")
    _say(console, f"Stored in {path}")
    if fitted.threshold is not None:
        _say(
            console,
            f"ask and tui use threshold {fitted.threshold.threshold:.3f} ({fitted.source}) unless --threshold or "
            "a settings file says otherwise, and show the odds of a draft.",
        )
    if fitted.verifier is not None:
        paths = "the query path" if fitted.verifier.look_up == "query" else "both paths"
        _say(console, f"--strategy dtr+verify weighs with what was fitted on the same questions; it searches {paths}.")
    if fitted.alpha_line is not None:
        slope, intercept = fitted.alpha_line
        on = fitted.alpha_fitted_on
        source = on.source if isinstance(on, FittedOn) else fitted.source
        _say(console, f"--ais dynamic uses alpha = {slope:.3f} theta0 + {intercept:.3f} ({source}).")
    if isinstance(fitted.measured_with, MeasuredWith):
        used = fitted.measured_with
        _say(
            console,
            f"It is meant for --retriever {used.retriever} --top-n {used.top_n} --top-k {used.top_k} --ais {used.ais}.",
        )
    _say(console, "Forget it with: adaptrag calibrate --forget")


def _shown(interval: Interval) -> tuple[str, str]:
    low, mean, high = (100 * value for value in (interval.low, interval.mean, interval.high))
    return f"{mean:.1f}", f"{low:.1f} to {high:.1f}"


def _points(interval: Interval) -> str:
    low, mean, high = (100 * value for value in (interval.low, interval.mean, interval.high))
    return f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"


def _head(console: Console, text: str) -> None:
    from rich.text import Text

    console.print()
    console.print(Text(printable(text), style="bold"))


def _say(console: Console, text: str) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print(Padding(Text(printable(text)), (0, 0, 0, 2)))


def _table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=any(columns))
    for name in columns:
        table.add_column(name, justify="left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(Padding(table, (0, 0, 0, 2)))
