"""The same question answered from memory and from documents: what curves of a threshold are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass

from adaptrag_cli.evaluation.results import Result
from adaptrag_cli.report.lines import Line, QuestionKey, in_panel


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One question. `documents` is None where no strategy of the run looked it up unasked."""

    key: QuestionKey
    uncertainty: float
    """Of the draft; infinite where it is undefined, since such a draft is always looked up."""
    memory: Result
    documents: Result | None

    @property
    def draft_em(self) -> float:
        return self.memory.draft_em or 0.0

    @property
    def draft_f1(self) -> float:
        return self.memory.draft_f1 or 0.0


def pairs_of(line: Line, panel: str, *, documents_label: str | None) -> tuple[Pair, ...]:
    """The questions of a panel that have a draft, least uncertain first.

    Where the strategy of `documents_label` answered some of them, the others are left out: a curve is about one set of
    questions.
    """
    label = line.drafting()
    if label is None:
        return ()
    documents = in_panel(line.answers.get(documents_label, {}), panel) if documents_label else {}
    pairs = [
        Pair(
            key=key,
            uncertainty=math.inf if result.uncertainty is None else result.uncertainty,
            memory=result,
            documents=documents.get(key),
        )
        for key, result in in_panel(line.answers[label], panel).items()
        if result.draft is not None and (not documents or key in documents)
    ]
    return tuple(sorted(pairs, key=lambda pair: (pair.uncertainty, pair.key)))
