"""What looking up gains over the draft, by the draft's uncertainty (DTR Fig. 5, 17, 18)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from adaptrag_cli.evaluation.statistics import Interval, mean_difference
from adaptrag_cli.report.lines import Line, panels_of
from adaptrag_cli.report.pairs import Pair, pairs_of

_BINS = 5
_FEWEST = 8
"""Questions in a bin; fewer say nothing."""


@dataclass(frozen=True, kw_only=True)
class GainBin:
    """Questions of about the same uncertainty, and documents' EM and F1 minus the drafts'."""

    line: str
    panel: str
    documents: str
    """Label of the strategy that looked up."""
    questions: int
    lowest: float
    highest: float
    """Least and greatest uncertainty in the bin; infinite where a draft has none."""
    middle: float
    """Median uncertainty."""
    em: Interval
    f1: Interval


def gain_by_uncertainty(lines: Sequence[Line], *, seed: int = 0) -> tuple[GainBin, ...]:
    """Bins of equal size for every line, panel and strategy that always looks up."""
    return tuple(
        gain
        for panel in panels_of(lines)
        for line in lines
        for label in line.answers
        if line.always_looks_up(label)
        for gain in _gains(line, panel, label, seed)
    )


def preferred(lines: Sequence[Line], gains: Sequence[GainBin]) -> tuple[GainBin, ...]:
    """Of each line, the gains of the strategy whose answers from documents count."""
    chosen = {line.name: line.looking_up() for line in lines}
    return tuple(gain for gain in gains if gain.documents == chosen[gain.line])


def _gains(line: Line, panel: str, label: str, seed: int) -> list[GainBin]:
    pairs = [pair for pair in pairs_of(line, panel, documents_label=label) if pair.documents is not None]
    gains = []
    for part in _quantile_bins(pairs):
        em = mean_difference([pair.documents.em - pair.draft_em for pair in part if pair.documents], seed=seed)
        f1 = mean_difference([pair.documents.f1 - pair.draft_f1 for pair in part if pair.documents], seed=seed)
        if em is not None and f1 is not None:
            gains.append(
                GainBin(
                    line=line.name,
                    panel=panel,
                    documents=label,
                    questions=len(part),
                    lowest=part[0].uncertainty,
                    highest=part[-1].uncertainty,
                    middle=part[len(part) // 2].uncertainty,
                    em=em,
                    f1=f1,
                )
            )
    return gains


def _quantile_bins(pairs: Sequence[Pair]) -> list[list[Pair]]:
    """Cut sorted pairs into at most five parts of about equal size; equal uncertainties stay together."""
    if not pairs:
        return []
    bins = max(1, min(_BINS, len(pairs) // _FEWEST))
    parts: list[list[Pair]] = [[]]
    for _, group in groupby(pairs, key=lambda pair: pair.uncertainty):
        taken = sum(map(len, parts))
        if parts[-1] and taken >= len(parts) * len(pairs) / bins:
            parts.append([])
        parts[-1].extend(group)
    return parts
