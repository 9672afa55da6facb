"""What is drawn with one colour, what gets a panel of its own, and which strategy's numbers a figure takes.

A line is one cell of one run: another model, another encoder or another run is another line. A panel is a question set.
Figures need drafts and answers from documents of the same question; whichever strategies of a run wrote them will do,
so one pass of `never` and one that always looks up give every curve.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from adaptrag_cli.evaluation.results import Cell, Result, RunData, StrategySpec
from adaptrag_cli.evaluation.retrieval_timing import setting_of
from adaptrag_cli.events import Scalar

ALL_SETS = "all sets"

QuestionKey = tuple[str, str]
"""Question set and question id."""
Answers = Mapping[QuestionKey, Result]

_ALWAYS_LOOKING_UP = frozenset({"always", "rerank", "hyde", "query2doc", "cot-expansion", "dpr-ais"})
_DUAL_PATH = frozenset({"dtr", "dpr-ais", "pairs", "dtr+verify"})


@dataclass(frozen=True)
class Line:
    """One cell of one run."""

    name: str
    run: RunData
    cell: Cell

    @cached_property
    def sets(self) -> tuple[str, ...]:
        """Names of the question sets with answers, in the manifest's order."""
        answered = {result.set for result in self.run.results if result.cell == self.cell.name}
        return tuple(info.name for info in self.run.manifest.sets if info.name in answered)

    @cached_property
    def answers(self) -> Mapping[str, Answers]:
        """Results by strategy label; strategies without any are left out."""
        table: dict[str, dict[QuestionKey, Result]] = {spec.label: {} for spec in self.run.manifest.strategies}
        for result in self.run.results:
            if result.cell == self.cell.name:
                table.setdefault(result.strategy, {})[(result.set, result.question_id)] = result
        return {label: answers for label, answers in table.items() if answers}

    def spec(self, label: str) -> StrategySpec:
        """What stands behind a label."""
        return next(spec for spec in self.run.manifest.strategies if spec.label == label)

    def always_looks_up(self, label: str) -> bool:
        """Whether a strategy looks every question up, so that its answers are those from documents."""
        spec = self.spec(label)
        return spec.strategy in _ALWAYS_LOOKING_UP or (spec.strategy == "dtr" and not self.has_gate(label))

    def has_gate(self, label: str) -> bool:
        """Whether a strategy was left to decide (`gate=false` is the papers' "w/o UGT")."""
        return self.setting(label, "gate") is not False

    def setting(self, label: str, name: str) -> Scalar:
        """The value of a setting under which a strategy ran; None where it has none of that name."""
        return setting_of(self.cell, label, name)

    def drafting(self) -> str | None:
        """The strategy whose drafts count: `never`, else dtr, which asks the same."""
        return self._first(lambda s: s.strategy == "never") or self._first(
            lambda s: s.strategy in {"dtr", "dtr+verify"} and self.has_gate(s.label)
        )

    def looking_up(self) -> str | None:
        """The strategy whose answers from documents count: dtr without its gate, else `dpr-ais`, else `always`."""
        return (
            self._first(lambda s: s.strategy == "dtr" and not self.has_gate(s.label))
            or self._first(lambda s: s.strategy == "dpr-ais")
            or self._first(lambda s: s.strategy == "always")
        )

    def on_two_paths(self) -> str | None:
        """The strategy whose searches count where both paths are compared: the one that looked most up."""
        found = [
            spec
            for spec in self.run.manifest.strategies
            if spec.strategy in _DUAL_PATH
            and self.setting(spec.label, "paths") in {None, "both"}
            and any(r.query_pseudo_similarity is not None for r in self.answers.get(spec.label, {}).values())
        ]
        looked_up = {
            spec.label: sum(r.query_pseudo_similarity is not None for r in self.answers[spec.label].values())
            for spec in found
        }
        best = sorted(found, key=lambda spec: (-looked_up[spec.label], len(spec.overrides)))
        return best[0].label if best else None

    def plain(self, strategy: str) -> str | None:
        """The label of a strategy in its plainest form."""
        return self._first(lambda s: s.strategy == strategy)

    def is_plainest(self, label: str) -> bool:
        """Whether a strategy that always looks up has the fewest options of its kind."""
        kind = self.spec(label).strategy
        return label == self._first(lambda s: s.strategy == kind and self.always_looks_up(s.label))

    def _first(self, is_wanted: Callable[[StrategySpec], bool]) -> str | None:
        """Of the strategies that were asked and are wanted, the one with the fewest options."""
        found = [s for s in self.run.manifest.strategies if s.label in self.answers and is_wanted(s)]
        return min(found, key=lambda spec: len(spec.overrides)).label if found else None


def lines_of(runs: Sequence[RunData]) -> tuple[Line, ...]:
    """Every cell of every run, named by what tells it apart: the model, else the cell, else the run."""
    pairs = [(run, cell) for run in runs for cell in run.manifest.cells]
    namings: tuple[Callable[[RunData, Cell], str], ...] = (
        lambda run, cell: _short(cell.model),
        lambda run, cell: f"{_short(cell.model)}, {cell.name}",
        lambda run, cell: f"{run.name}: {_short(cell.model)}, {cell.name}",
        lambda run, cell: f"{run.folder}: {_short(cell.model)}, {cell.name}",
    )
    names = [[naming(run, cell) for run, cell in pairs] for naming in namings]
    chosen = next((candidate for candidate in names if len(set(candidate)) == len(candidate)), names[-1])
    return tuple(Line(name, run, cell) for name, (run, cell) in zip(chosen, pairs, strict=True))


def _short(model: str) -> str:
    return PurePath(model).name.removesuffix(".gguf")


def panels_of(lines: Sequence[Line]) -> tuple[str, ...]:
    """The question sets, and where there are several, all of them together first."""
    sets = tuple(dict.fromkeys(name for line in lines for name in line.sets))
    return (ALL_SETS, *sets) if len(sets) > 1 else sets


def in_panel(answers: Answers, panel: str) -> dict[QuestionKey, Result]:
    """The answers to the questions of a panel."""
    return {key: result for key, result in answers.items() if panel in {ALL_SETS, key[0]}}
