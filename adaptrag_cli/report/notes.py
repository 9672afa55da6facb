"""What must be known of a line before its numbers are read: calibration, and what its seconds are."""

from __future__ import annotations

from adaptrag_cli.evaluation.results import Cell
from adaptrag_cli.identity import parted
from adaptrag_cli.report.lines import Line

INTERVALS = "95 % intervals: Wilson's where every score is 0 or 1 (EM, ACC, shares), else bootstraps over questions"
"""How the intervals of all tables were made."""


def line_notes(line: Line) -> tuple[str, ...]:
    """Sentences about one line, those that qualify its scores first."""
    return (*_unfinished(line), *_calibration(line), *_seconds(line))


def decodes_apart(cell: Cell) -> bool:
    """Whether questions were decoded one by one though more might be: an adapter's numbers change in a batch."""
    return cell.lanes > 1 and cell.is_bit_equal and bool(parted(cell.model)[1])


def _unfinished(line: Line) -> tuple[str, ...]:
    manifest = line.run.manifest
    wanted = sum(len(info.questions) for info in manifest.sets) * len(manifest.strategies)
    answers = sum(1 for result in line.run.results if result.cell == line.cell.name)
    if answers >= wanted:
        return ()
    return (
        f"Not finished: {answers} of {wanted} answers are there, so strategies were asked different questions (n); "
        "only the differences compare the same ones. Go on with --resume.",
    )


def _calibration(line: Line) -> tuple[str, ...]:
    cell = line.cell
    if cell.calibrated_on > 0:
        asked = sum(len(info.questions) for info in line.run.manifest.sets)
        return (
            f"Threshold and odds come from a calibration ({cell.calibration}) that was fitted on {cell.calibrated_on} "
            f"of these {asked} questions: the numbers of what it set flatter.",
        )
    if cell.calibration:
        return (f"Threshold and odds come from a calibration on other questions ({cell.calibration}).",)
    return ()


def _seconds(line: Line) -> tuple[str, ...]:
    lanes = line.cell.lanes
    if lanes == 1:
        return ()
    if decodes_apart(line.cell):
        return ("With an adapter each question was decoded by itself, since a batch would change its numbers.",)
    equal = "" if line.cell.is_bit_equal else "; batches of this size may change answers, too"
    return (
        f"Up to {lanes} questions were decoded together, and seconds are each one's share of the batch: one question "
        f"asked alone takes longer (measure it with --batch 1){equal}.",
    )
