"""What is to be measured: strategies with options, question sets with corpora, and the cells of a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from adaptrag_cli.config import Settings, setting_names, with_overrides
from adaptrag_cli.errors import ConfigError, UnknownName
from adaptrag_cli.evaluation.questions import QuestionSet
from adaptrag_cli.evaluation.results import StrategySpec
from adaptrag_cli.events import Scalar
from adaptrag_cli.models.lanes import MAX_EQUAL_LANES
from adaptrag_cli.session.plan import plan_session
from adaptrag_cli.strategies.base import load_strategy, probed_states
from adaptrag_cli.strategies.table import strategy_names

_FIXED = frozenset({"ask.strategy", "ask.peek", "index.name", "index.dir", "models.dir"})
"""What a grid cannot vary: the names of things, not how they work."""
_VARIED = {name.partition(".")[2]: name for name in setting_names() if name not in _FIXED} | {"model": "models.answer"}
"""Settings by the short name that `--vary` uses."""
_OPTIONS = {short: name for short, name in _VARIED.items() if name.startswith("ask.")}
"""Those that follow a strategy in `--strategies`."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One evaluation."""

    settings: Settings
    sets: tuple[QuestionSet, ...]
    """Already sampled."""
    strategies: tuple[StrategySpec, ...]
    cells: tuple[CellPlan, ...]
    out: Path
    cache: Path
    seed: int
    limit: int | None
    lanes: int = MAX_EQUAL_LANES
    corpus: Path | None = None
    """One corpus for all sets."""
    build_indexes: bool = True


@dataclass(frozen=True, kw_only=True)
class CellPlan:
    """One combination of varied settings."""

    name: str
    overrides: Mapping[str, str] = field(default_factory=dict)

    def settings(self, base: Settings) -> Settings:
        """The base settings with this cell's values."""
        return with_overrides(base, {name: (value, "--vary") for name, value in self.overrides.items()})


def parse_strategies(text: str) -> tuple[StrategySpec, ...]:
    """Read `never,always,dpr-ais:paths=query:ais=sum`; an option follows its strategy after a colon.

    Raises:
        ConfigError: a name, an option or a value is wrong, or a label stands twice.
    """
    specs = [_spec(part.strip()) for part in text.split(",") if part.strip()]
    if not specs:
        raise ConfigError("--strategies names none", f"known: {', '.join(strategy_names())}")
    labels = [spec.label for spec in specs]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise ConfigError(f"--strategies names {twice!r} twice", "name each once")
    return tuple(specs)


def all_strategies(settings: Settings, sets: Sequence[QuestionSet]) -> tuple[tuple[StrategySpec, ...], tuple[str, ...]]:
    """Every strategy that can be asked, with its defaults; and why the others cannot."""
    specs = [StrategySpec(label=name, strategy=name) for name in strategy_names()]
    reasons = {spec.label: lack_of(spec, settings, sets) for spec in specs}
    missing = tuple(f"{label} is left out: {reason}" for label, reason in reasons.items() if reason)
    return tuple(spec for spec in specs if not reasons[spec.label]), missing


def require_askable(plan: Plan) -> None:
    """Refuse before anything is loaded what every question would fail with.

    Raises:
        ConfigError: a strategy lacks labels, a calibration or facts, or a grid varies what a named index has fixed.
    """
    for cell in plan.cells:
        settings = cell.settings(plan.settings)
        fixed = [name for name in cell.overrides if name == "models.encoder" or name.startswith("index.")]
        if fixed and settings.index.name is not None:
            raise ConfigError(
                f"--vary {_short(fixed[0])} changes nothing about index {settings.index.name!r}, which is there",
                "give --corpus FILE instead of --index, so that indexes are built",
            )
        for spec in plan.strategies:
            reason = lack_of(spec, settings, plan.sets)
            if reason:
                raise ConfigError(f"{spec.label} cannot be asked: {reason}", "leave it out of --strategies")


def lack_of(spec: StrategySpec, settings: Settings, sets: Sequence[QuestionSet]) -> str:
    """What a strategy needs and does not have, in words; empty when nothing is missing."""
    try:
        plan = plan_session(settings_of(spec, settings))
    except ConfigError as error:
        if probed_states(load_strategy(spec.strategy)) is None:
            raise
        return f"{error.message}: {error.hint}"
    if "labels" in plan.strategy.uses and settings.ask.labels is None:
        return "it needs --labels RUN"
    if spec.strategy == "dtr+verify" and plan.verifier is None:
        return "it needs adaptrag calibrate"
    if spec.strategy == "popularity":
        without = [s.name for s in sets if any("s_pop" not in question.meta for question in s.questions)]
        if without:
            return f"{without[0]} does not tell popularity"
    return ""


def settings_of(spec: StrategySpec, base: Settings) -> Settings:
    """The settings under which a strategy runs."""
    values: dict[str, tuple[object, str]] = {"ask.strategy": (spec.strategy, "--strategies")}
    values |= {name: (value, "--strategies") for name, value in spec.overrides.items()}
    return with_overrides(base, values)


def parse_grid(varied: Sequence[str]) -> tuple[CellPlan, ...]:
    """Read `top_k=3,5` and `encoder=a,b` into all their combinations; none gives the one cell `base`.

    Raises:
        ConfigError: a name or value is wrong.
    """
    axes: list[list[tuple[str, str]]] = []
    for text in varied:
        name, sign, values = text.partition("=")
        if not sign or not values.strip(","):
            raise ConfigError(f"--vary {text!r} names no values", "write it as --vary top_k=3,5")
        dotted = _dotted(name.strip(), "--vary", _VARIED)
        if any(dotted == axis[0][0] for axis in axes):
            raise ConfigError(f"--vary names {name.strip()} twice", f"write --vary {name.strip()}=A,B")
        distinct = dict.fromkeys(value.strip() for value in values.split(",") if value.strip())
        axes.append([(dotted, value) for value in distinct])
    if not axes:
        return (CellPlan(name="base"),)
    return tuple(
        CellPlan(name=",".join(f"{_short(name)}={value}" for name, value in combination), overrides=dict(combination))
        for combination in product(*axes)
    )


def _spec(text: str) -> StrategySpec:
    name, *options = text.split(":")
    strategy = load_strategy(name)
    overrides: dict[str, Scalar] = {}
    for option in options:
        key, sign, value = option.partition("=")
        if not sign:
            raise ConfigError(f"--strategies {text!r}: {option!r} has no value", "write it as NAME:option=value")
        dotted = _dotted(key, "--strategies", _OPTIONS)
        if dotted.partition(".")[2] not in strategy.uses:
            uses = sorted(strategy.uses & _OPTIONS.keys())
            raise ConfigError(
                f"--strategies {text!r}: {key!r} changes nothing with {name}",
                f"it uses: {', '.join(uses)}" if uses else f"{name} has no options",
            )
        if dotted in overrides:
            raise ConfigError(f"--strategies {text!r}: {key!r} stands twice", "give it once")
        overrides[dotted] = value
    return StrategySpec(label=text, strategy=name, overrides=overrides)


def _dotted(name: str, flag: str, known: Mapping[str, str]) -> str:
    if name not in known:
        raise UnknownName(f"setting of {flag}", name, known)
    return known[name]


def _short(dotted: str) -> str:
    return "model" if dotted == "models.answer" else dotted.partition(".")[2]


def sampled(question_set: QuestionSet, limit: int | None, seed: int) -> QuestionSet:
    """The questions that are asked."""
    return question_set if limit is None else question_set.sample(limit, seed)


def with_unique_names(sets: Sequence[QuestionSet]) -> tuple[QuestionSet, ...]:
    """Sets of the same name are told apart by number."""
    names: dict[str, int] = {}
    result = []
    for question_set in sets:
        count = names[question_set.name] = names.get(question_set.name, 0) + 1
        result.append(question_set if count == 1 else replace(question_set, name=f"{question_set.name}-{count}"))
    return tuple(result)
