"""When methods that look up while they write do so: in vain, late, or not at all (ETC Tab. 5 and 6, 6.2 to 6.5).

The answer without documents is that of `cot` in the same run, which reasons as they do, else that of `never`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adaptrag_cli.evaluation.results import Cell, Result, RunData
from adaptrag_cli.evaluation.statistics import Interval, mean_difference, mean_interval
from adaptrag_cli.events import Record, Scalar
from adaptrag_cli.stepwise.timing import TimedRun, delay_of, is_delayed, is_missing, is_redundant

FEWEST = 0.05
MOST = 0.95
_WITHOUT_DOCUMENTS = ("cot", "never")


class TimingRow(Record, frozen=True, kw_only=True):
    """How one strategy timed its look-ups on one question set. Shares are from 0 to 1."""

    cell: str
    set: str
    strategy: str
    n: int
    """Finished runs."""
    look_ups: Interval | None
    """Of a question."""
    fired: Interval | None
    """Share of the questions that were looked up because something did not keep to the threshold; None for a strategy
    that has none."""
    degenerate: str
    """`almost never` or `almost always`, where it fires on under 5 or over 95 % of the questions."""
    without: str
    """The strategy whose answers are those without documents; empty where the run has none, as all that needs them."""
    redundant: Interval | None
    """Of the questions that were looked up: those whose answer without documents was right."""
    redundant_at_first_token: Interval | None
    """The same of those that were looked up at the first token."""
    delayed: Interval | None
    """Of the questions that were looked up: those whose text held a wrong answer already."""
    missing: Interval | None
    """Share of the questions that were not looked up and answered wrongly."""
    after: str
    """The strategy that `delay` counts from: the plainest `etc`."""
    delay: Interval | None
    """Tokens by which the first look-up came after that of `after` on the same text."""


def timing_rows(run: RunData, *, cell: str, set: str, seed: int = 0) -> tuple[TimingRow, ...]:
    """Rows of one cell and set, in the order of the manifest; empty where no strategy looks up while it writes."""
    table = {label: _finished(results) for label, results in run.by_strategy(cell=cell, set=set).items()}
    place = next(each for each in run.manifest.cells if each.name == cell)
    without = _plainest(run, table, _WITHOUT_DOCUMENTS)
    after = _plainest(run, table, ("etc",))
    return tuple(
        _row(place, list(counted.values()), without, table.get(without, {}), after, table.get(after, {}), seed)
        for label, results in table.items()
        if setting_of(place, label, "max_retrievals") is not None
        and (counted := {key: result for key, result in results.items() if result.look_ups is not None})
    )


def setting_of(cell: Cell, label: str, name: str) -> Scalar:
    """The value of a setting under which a strategy ran; None where it has none of that name."""
    return next((setting.value for setting in cell.settings.get(label, ()) if setting.name == name), None)


def fired_share(results: Sequence[Result], *, seed: int = 0) -> Interval | None:
    """Share of the questions that a threshold had looked up."""
    return mean_interval([float(result.triggers > 0) for result in results], seed=seed)


def degenerate(fired: Interval | None) -> str:
    """Say of a method that decides next to nothing what it does instead; empty of others."""
    if fired is None or FEWEST <= fired.mean <= MOST:
        return ""
    return "almost never" if fired.mean < FEWEST else "almost always"


def degenerate_in_words(label: str, fired: Interval | None) -> str:
    """The verdict on a degenerate method as a sentence; empty of others."""
    if fired is None or not (verdict := degenerate(fired)):
        return ""
    limit = f"under {100 * FEWEST:.0f} %" if verdict == "almost never" else f"over {100 * MOST:.0f} %"
    return f"{label} is degenerate: it {verdict} fires, on {100 * fired.mean:.1f} % of {fired.n} questions ({limit})"


def _row(
    cell: Cell,
    results: Sequence[Result],
    without: str,
    without_documents: Mapping[str, Result],
    after: str,
    reference: Mapping[str, Result],
    seed: int,
) -> TimingRow:
    first = results[0]
    runs = [_timed(result, without_documents.get(result.question_id)) for result in results]
    judged = [run for run, result in zip(runs, results, strict=True) if result.question_id in without_documents]
    looked_up = [run for run in judged if run.first_trigger is not None]
    at_once = [run for run in looked_up if run.first_trigger is not None and run.first_trigger.token == 0]
    has_threshold = setting_of(cell, first.strategy, "trigger") is not None
    fired = fired_share(results, seed=seed) if has_threshold else None
    is_other = bool(after) and first.strategy != after
    delays = [
        delay
        for result in results
        if is_other
        and (other := reference.get(result.question_id)) is not None
        and (delay := delay_of(result.first_trigger, other.first_trigger)) is not None
    ]
    return TimingRow(
        cell=cell.name,
        set=first.set,
        strategy=first.strategy,
        n=len(results),
        look_ups=mean_difference([float(result.look_ups or 0) for result in results], seed=seed),
        fired=fired,
        degenerate=degenerate(fired),
        without=without,
        redundant=mean_interval([float(is_redundant(run)) for run in looked_up], seed=seed),
        redundant_at_first_token=mean_interval([float(is_redundant(run)) for run in at_once], seed=seed),
        delayed=mean_interval([float(is_delayed(run)) for run in looked_up], seed=seed),
        missing=mean_interval([float(is_missing(run)) for run in runs], seed=seed),
        after=after if is_other else "",
        delay=mean_difference([float(delay) for delay in delays], seed=seed),
    )


def _timed(result: Result, without: Result | None) -> TimedRun:
    return TimedRun(
        question=result.query,
        golds=result.golds,
        answer_without=without.prediction if without else "",
        right=result.em > 0,
        right_without=without is not None and without.em > 0,
        first_trigger=result.first_trigger,
    )


def _finished(results: Mapping[str, Result]) -> dict[str, Result]:
    return {key: result for key, result in results.items() if not result.failure}


def _plainest(run: RunData, table: Mapping[str, Mapping[str, Result]], strategies: Sequence[str]) -> str:
    """The label of the first of the strategies that was asked, with the fewest options; empty where none was."""
    for name in strategies:
        found = [spec for spec in run.manifest.strategies if spec.strategy == name and table.get(spec.label)]
        if found:
            return min(found, key=lambda spec: len(spec.overrides)).label
    return ""
