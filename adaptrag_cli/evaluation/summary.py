"""One row per strategy: every metric of METHODS 7 with its interval, and how it compares with a reference.

Everything is computed from results, so a table can be drawn again from a run's folder. Comparisons are paired by
question and only over questions that both strategies were asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from adaptrag_cli.evaluation.metrics import DecisionQuality, consistency, decision_quality
from adaptrag_cli.evaluation.results import Result, RunData
from adaptrag_cli.evaluation.retrieval_steps import RetrievalSteps, may_repeat, retrieval_steps
from adaptrag_cli.evaluation.retrieval_timing import timing_rows
from adaptrag_cli.evaluation.statistics import Interval, Paired, holm, mean_interval, median_and_p95, paired_test
from adaptrag_cli.events import Record

REFERENCE = "always"
"""Standard RAG: what every method is compared with unless another is named."""


class StrategyRow(Record, frozen=True, kw_only=True):
    """One strategy on one question set. Scores and shares are from 0 to 1."""

    cell: str
    set: str
    strategy: str
    n: int
    failures: int
    """Runs that ended without an answer; they count as wrong, and in no mean of costs."""
    failure: str = ""
    """Why the first of them did."""
    em: Interval | None
    f1: Interval | None
    f1_first_gold: Interval | None
    acc: Interval | None
    recall: Interval | None
    """Over questions that were looked up and have gold passages."""
    all_gold: Interval | None
    trigger_ratio: Interval | None
    searches: float
    llm_calls: float
    prompt_tokens: float
    reused_tokens: float
    generated_tokens: float
    seconds_median: float
    seconds_p95: float
    consistency: float | None
    """Of the questions whose draft was right: the share that the strategy answers right, too."""
    decision: DecisionQuality | None
    """Against "it was right without documents"."""
    judged_by: str = ""
    """Whose answer without documents `decision` is against: empty for the drafts, else a strategy that reasons."""
    retrieval: RetrievalSteps | None
    """How often questions were looked up; None of results from before this was counted."""
    against: str = ""
    """The reference of what follows."""
    em_difference: Paired | None = None
    f1_difference: Paired | None = None
    chunks_differ: float | None = None
    """Share of questions whose consulted chunks are not the reference's."""
    answers_differ: float | None = None


def summarise(
    run: RunData, *, cell: str, set: str, reference: str = REFERENCE, seed: int = 0
) -> tuple[StrategyRow, ...]:
    """Rows of one cell and set, in the order of the manifest; strategies without results are left out."""
    table = run.by_strategy(cell=cell, set=set)
    drafts = _Known(outcomes=_draft_outcomes(table))
    reasoned = _reasoned_outcomes(run, table)
    place = next(each for each in run.manifest.cells if each.name == cell)
    rows = tuple(
        _row(
            list(results.values()),
            drafts,
            _judge(results, drafts, reasoned),
            table.get(reference, {}),
            reference,
            may_repeat(place, label),
            seed,
        )
        for label, results in table.items()
        if results
    )
    return _with_holm(rows)


def by_type(run: RunData, *, cell: str, set: str, field: str, seed: int = 0) -> Mapping[str, tuple[StrategyRow, ...]]:
    """The same rows for each value of a field of `meta`, such as `type` or `hops`."""
    values = sorted({str(r.meta[field]) for r in run.results if r.set == set and r.cell == cell and field in r.meta})
    parts = {}
    for value in values:
        chosen = tuple(r for r in run.results if r.set == set and str(r.meta.get(field)) == value)
        part = RunData(folder=run.folder, manifest=run.manifest, results=chosen)
        parts[value] = summarise(part, cell=cell, set=set, seed=seed)
    return parts


def break_down_fields(run: RunData, *, cell: str, set: str, most: int = 12) -> tuple[str, ...]:
    """Fields of `meta` that sort the questions into a few kinds."""
    values: dict[str, dict[str, None]] = defaultdict(dict)
    counts: dict[str, int] = defaultdict(int)
    results = {r.question_id: r for r in run.results if r.cell == cell and r.set == set}
    for result in results.values():
        for name, value in result.meta.items():
            if isinstance(value, str | bool | int):
                values[name][str(value)] = None
                counts[name] += 1
    return tuple(name for name in values if 2 <= len(values[name]) <= most and counts[name] >= 2 * len(values[name]))


def _row(
    results: Sequence[Result],
    drafts: _Known,
    known: _Known,
    reference: Mapping[str, Result],
    reference_name: str,
    repeats: bool,
    seed: int,
) -> StrategyRow:
    first = results[0]
    done = [r for r in results if not r.failure]
    median, p95 = median_and_p95([r.seconds for r in done])
    drafted = [r for r in results if r.question_id in drafts.outcomes]
    judged = [r for r in results if r.question_id in known.outcomes]
    shared = [(r, reference[r.question_id]) for r in results if r.question_id in reference]
    is_other = first.strategy != reference_name and bool(shared)
    return StrategyRow(
        cell=first.cell,
        set=first.set,
        strategy=first.strategy,
        n=len(results),
        failures=sum(1 for r in results if r.failure),
        failure=next((r.failure for r in results if r.failure), ""),
        em=mean_interval([r.em for r in results], seed=seed),
        f1=mean_interval([r.f1 for r in results], seed=seed),
        f1_first_gold=mean_interval([r.f1_first_gold for r in results], seed=seed),
        acc=mean_interval([r.acc for r in results], seed=seed),
        recall=mean_interval([r.recall for r in results if r.recall is not None], seed=seed),
        all_gold=mean_interval([float(r.all_gold) for r in results if r.all_gold is not None], seed=seed),
        trigger_ratio=mean_interval([float(r.retrieved) for r in results], seed=seed),
        searches=_mean([r.searches for r in done]),
        llm_calls=_mean([r.llm_calls for r in done]),
        prompt_tokens=_mean([r.prompt_tokens for r in done]),
        reused_tokens=_mean([r.reused_tokens for r in done]),
        generated_tokens=_mean([r.generated_tokens for r in done]),
        seconds_median=median,
        seconds_p95=p95,
        consistency=consistency([drafts.outcomes[r.question_id] > 0 for r in drafted], [r.em > 0 for r in drafted]),
        decision=decision_quality(
            answerable=[known.outcomes[r.question_id] > 0 for r in judged],
            retrieved=[r.retrieved for r in judged],
            uncertainty=[r.uncertainty for r in judged],
            seed=seed,
        ),
        judged_by=known.by if judged else "",
        retrieval=retrieval_steps(results, may_repeat=repeats, seed=seed),
        against=reference_name if is_other else "",
        em_difference=paired_test([r.em for r, _ in shared], [o.em for _, o in shared], seed=seed)
        if is_other
        else None,
        f1_difference=paired_test([r.f1 for r, _ in shared], [o.f1 for _, o in shared], seed=seed)
        if is_other
        else None,
        chunks_differ=_mean([float(_chunks(r) != _chunks(o)) for r, o in shared]) if is_other else None,
        answers_differ=_mean([float(r.prediction != o.prediction) for r, o in shared]) if is_other else None,
    )


@dataclass(frozen=True, kw_only=True)
class _Known:
    """Whether questions were answered right (EM) without documents, by question."""

    outcomes: Mapping[str, float]
    by: str = ""
    """The strategy that answered them; empty for drafts."""


def _judge(results: Mapping[str, Result], drafts: _Known, reasoned: _Known) -> _Known:
    """What decisions are held against: of methods that ask in steps, answers that were reasoned, too (METHODS 9.7)."""
    asks_in_steps = any(result.sub_queries is not None for result in results.values())
    return reasoned if reasoned.outcomes and (asks_in_steps or not drafts.outcomes) else drafts


def _reasoned_outcomes(run: RunData, table: Mapping[str, Mapping[str, Result]]) -> _Known:
    """Answers of a chain of thought without documents, else of steps without documents."""
    specs = [spec for spec in run.manifest.strategies if table.get(spec.label)]
    chains = [spec.label for spec in specs if spec.strategy == "cot"]
    steps = [spec.label for spec in specs if spec.overrides.get("ask.sources") == "memory"]
    label = next(iter(chains + steps), "")
    found = {question: result.em for question, result in table.get(label, {}).items() if not result.failure}
    return _Known(outcomes=found, by=label)


def _draft_outcomes(table: Mapping[str, Mapping[str, Result]]) -> dict[str, float]:
    """Whether the draft alone was right (EM), by question: from `never`, else from any draft."""
    outcomes: dict[str, float] = {}
    for label in sorted(table, key=lambda name: name != "never"):
        for question_id, result in table[label].items():
            if result.draft_em is not None:
                outcomes.setdefault(question_id, result.draft_em)
    return outcomes


def _chunks(result: Result) -> frozenset[str]:
    return frozenset(chunk.chunk_id for chunk in result.candidates if chunk.kept)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _with_holm(rows: tuple[StrategyRow, ...]) -> tuple[StrategyRow, ...]:
    """Correct for the number of strategies that are compared with the one reference."""
    em = holm([row.em_difference for row in rows])
    f1 = holm([row.f1_difference for row in rows])
    return tuple(
        msgspec.structs.replace(row, em_difference=e, f1_difference=f) for row, e, f in zip(rows, em, f1, strict=True)
    )


def as_document(run: RunData) -> dict[str, object]:
    """The run as `--json` prints it: what was measured, and every row."""
    parts = [(cell.name, info.name) for cell in run.manifest.cells for info in run.manifest.sets]
    rows = [row for cell, name in parts for row in summarise(run, cell=cell, set=name)]
    timing = [row for cell, name in parts for row in timing_rows(run, cell=cell, set=name)]
    return {
        "run": run.folder,
        "manifest": msgspec.to_builtins(run.manifest),
        "rows": msgspec.to_builtins(rows),
        "timing": msgspec.to_builtins(timing),
    }
