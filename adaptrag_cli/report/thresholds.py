"""What DTR would do at every threshold (DTR Fig. 3 and 16), from one pass of drafts and one of answers from documents.

At threshold t a draft with u <= t is the answer, and any other question is answered from documents. A question is
charged for its draft always, and for its lookup when it is looked up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from adaptrag_cli.evaluation.results import Result
from adaptrag_cli.report.lines import ALL_SETS, Line, QuestionKey, panels_of
from adaptrag_cli.report.pairs import Pair, pairs_of


@dataclass(frozen=True, kw_only=True)
class ThresholdPoint:
    """All questions at one threshold. Shares and scores are from 0 to 1."""

    threshold: float
    answered: int
    """Questions answered from memory: u <= threshold."""
    coverage: float
    """Their share (the papers' query ratio)."""
    memory_em: float | None
    """Of those alone; None where there is none."""
    memory_f1: float | None
    em: float | None
    """Of all questions, the rest answered from documents; None without such answers."""
    f1: float | None
    seconds: float | None
    """Means over all questions; None where drafts come from a strategy that did more than draft."""
    llm_calls: float | None
    tokens: float | None

    @property
    def looked_up(self) -> float:
        """Share of questions that are looked up."""
        return 1.0 - self.coverage


@dataclass(frozen=True, kw_only=True)
class ThresholdCurve:
    """A line in a panel. Points go from looking everything up to looking nothing up."""

    line: str
    panel: str
    memory: str
    """Labels of the strategies that drafts and answers from documents were taken from."""
    documents: str | None
    questions: int
    points: tuple[ThresholdPoint, ...]

    def at(self, threshold: float) -> ThresholdPoint:
        """What a threshold does: the last point that it reaches."""
        return next((p for p in reversed(self.points) if p.threshold <= threshold), self.points[0])


def tokens_of(result: Result) -> int:
    """Tokens that the model worked through: those of prompts that were not reused, and what it wrote."""
    return result.prompt_tokens - result.reused_tokens + result.generated_tokens


def threshold_curves(lines: Sequence[Line]) -> tuple[ThresholdCurve, ...]:
    """A curve for each line in each panel that has drafts."""
    curves = []
    for panel in panels_of(lines):
        for line in lines:
            documents = line.looking_up()
            pairs = pairs_of(line, panel, documents_label=documents)
            if pairs:
                has_documents = all(pair.documents is not None for pair in pairs)
                curves.append(
                    ThresholdCurve(
                        line=line.name,
                        panel=panel,
                        memory=str(line.drafting()),
                        documents=documents if has_documents else None,
                        questions=len(pairs),
                        points=_points(pairs, has_costs=_tells_costs(line)),
                    )
                )
    return tuple(curves)


def priced_points(line: Line, among: Set[QuestionKey]) -> tuple[frozenset[QuestionKey], tuple[ThresholdPoint, ...]]:
    """What every threshold costs and gives on some questions, and on which of them: those with draft and documents.

    Both are empty where the line has none, or drafts that come from a strategy that did more than draft.
    """
    if line.drafting() is None or not _tells_costs(line):
        return frozenset(), ()
    found = pairs_of(line, ALL_SETS, documents_label=line.looking_up())
    pairs = [pair for pair in found if pair.key in among and pair.documents is not None]
    points = _points(pairs, has_costs=True) if pairs else ()
    return frozenset(pair.key for pair in pairs), points


def _tells_costs(line: Line) -> bool:
    return line.spec(str(line.drafting())).strategy == "never"


def _points(pairs: Sequence[Pair], *, has_costs: bool) -> tuple[ThresholdPoint, ...]:
    """One point before the first draft is taken, and one wherever another draft is."""
    ends = [0]
    for number, pair in enumerate(pairs, start=1):
        is_last_of_ties = number == len(pairs) or pairs[number].uncertainty > pair.uncertainty
        if is_last_of_ties and math.isfinite(pair.uncertainty):
            ends.append(number)
    return tuple(_point(pairs, answered, has_costs=has_costs) for answered in ends)


def _point(pairs: Sequence[Pair], answered: int, *, has_costs: bool) -> ThresholdPoint:
    memory = pairs[:answered]
    rest = [pair.documents for pair in pairs[answered:]]
    looked_up = [result for result in rest if result is not None]
    is_whole = all(pair.documents is not None for pair in pairs)
    drafts = [pair.memory for pair in pairs]
    count = len(pairs)

    def mean_of_all(of_memory: float, of_documents: float) -> float | None:
        return (of_memory + of_documents) / count if is_whole else None

    def cost(of: Callable[[Result], float]) -> float | None:
        return mean_of_all(sum(map(of, drafts)), sum(map(of, looked_up))) if has_costs else None

    return ThresholdPoint(
        threshold=memory[-1].uncertainty if memory else 0.0,
        answered=answered,
        coverage=answered / count,
        memory_em=sum(p.draft_em for p in memory) / answered if answered else None,
        memory_f1=sum(p.draft_f1 for p in memory) / answered if answered else None,
        em=mean_of_all(sum(p.draft_em for p in memory), sum(r.em for r in looked_up)),
        f1=mean_of_all(sum(p.draft_f1 for p in memory), sum(r.f1 for r in looked_up)),
        seconds=cost(lambda result: result.seconds),
        llm_calls=cost(lambda result: result.llm_calls),
        tokens=cost(tokens_of),
    )
