"""Figures of methods that ask step by step: how much they ask and look up, and in which words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from adaptrag_cli.evaluation.results import Result
from adaptrag_cli.report.figure import Axis, Figure, Series, Table, absent, ordinals, percent
from adaptrag_cli.report.lines import Line
from adaptrag_cli.stepwise.word_classes import CLASSES, WordClass, mean_word_classes

_MOST = 8
"""From here on counts share a bar."""
NEEDS_STEPS = "needs a method that asks step by step: deeprag, iterdrag, auto-rag or search-o1"
_CLASS_NAMES: dict[WordClass, str] = {"wh": "WH-words", "noun": "nouns", "verb": "verbs", "conjunction": "conjunctions"}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What one strategy of one line asked step by step, over its finished runs."""

    line: Line
    strategy: str
    results: tuple[Result, ...]


def step_figures(lines: Sequence[Line]) -> tuple[Figure, ...]:
    """All of them; one that cannot be drawn says why."""
    asked = asked_in_steps(lines)
    return (
        _counts(
            asked,
            "sub-query-counts",
            "How many sub-queries a question is taken apart into",
            "DeepRAG Fig. 7 (a)",
            "sub-queries of a question",
            lambda result: result.sub_queries,
        ),
        _counts(
            asked,
            "step-look-ups",
            "How many steps of a question are looked up",
            "DeepRAG Fig. 7 (b)",
            "look-ups of a question",
            lambda result: result.look_ups,
        ),
        _words(asked),
    )


def asked_in_steps(lines: Sequence[Line]) -> tuple[Asked, ...]:
    """Every strategy of every line that asks step by step."""
    found = []
    for line in lines:
        for label, answers in line.answers.items():
            results = tuple(r for r in answers.values() if r.sub_queries is not None and not r.failure)
            if results:
                found.append(Asked(line=line, strategy=label, results=results))
    return tuple(found)


def _counts(
    asked: Sequence[Asked], name: str, title: str, source: str, axis: str, count_of: Callable[[Result], int | None]
) -> Figure:
    if not asked:
        return absent(name, title, source, NEEDS_STEPS)
    counted = [(each, [n for result in each.results if (n := count_of(result)) is not None]) for each in asked]
    top = min(_MOST, max(max(counts, default=0) for _, counts in counted))
    names = [*map(str, range(top)), f"{top} or more" if top == _MOST else str(top)]
    colours = ordinals([each.strategy for each in asked])
    series, rows = [], []
    for each, counts in counted:
        tally = Counter(min(count, top) for count in counts)
        shares = [tally[at] / len(counts) if counts else 0.0 for at in range(top + 1)]
        words = tuple(f"{tally[at]} of {len(counts)} questions" for at in range(top + 1))
        series.append(
            Series(
                panel=each.line.name,
                name=each.strategy,
                x=tuple(names),
                y=tuple(shares),
                mark="bars",
                colour=colours[each.strategy],
                words=words,
            )
        )
        rows += [(each.line.name, each.strategy, names[at], tally[at], shares[at]) for at in range(top + 1)]
    return Figure(
        name=name,
        title=title,
        source=source,
        reading="A method that knows what to ask keeps to few steps, and one that knows what it knows looks up fewer "
        "of them.",
        x=Axis(title=axis, scale="category"),
        y=Axis(title="share of questions", scale="percent"),
        panels=tuple(dict.fromkeys(each.line.name for each in asked)),
        series=tuple(series),
        data=Table(columns=("line", "strategy", axis, "questions", "share"), rows=tuple(rows)),
        brief=Table(
            columns=("line", "strategy", "questions", *names),
            rows=tuple(
                (made.panel, made.name, len(counts), *map(percent, made.y))
                for made, (_, counts) in zip(series, counted, strict=True)
            ),
        ),
    )


def _words(asked: Sequence[Asked]) -> Figure:
    name, title, source = "sub-query-words", "Words of a sub-query", "DeepRAG Fig. 8"
    means = [(each, mean_word_classes(text for result in each.results for text in result.asked)) for each in asked]
    means = [(each, classes) for each, classes in means if classes]
    if not means:
        return absent(name, title, source, NEEDS_STEPS)
    colours = ordinals([each.strategy for each, _ in means])
    names = tuple(_CLASS_NAMES[each] for each in CLASSES)
    return Figure(
        name=name,
        title=title,
        source=source,
        reading="An atomic sub-query asks for one thing: few conjunctions, and few nouns.",
        notes=("Counted by lists and endings, without a tagger: they compare methods, and are rough.",),
        x=Axis(title="", scale="category"),
        y=Axis(title="words of a sub-query"),
        panels=tuple(dict.fromkeys(each.line.name for each, _ in means)),
        series=tuple(
            Series(
                panel=each.line.name,
                name=each.strategy,
                x=names,
                y=tuple(classes[at] for at in CLASSES),
                mark="bars",
                colour=colours[each.strategy],
            )
            for each, classes in means
        ),
        data=Table(
            columns=("line", "strategy", "words", "mean"),
            rows=tuple(
                (each.line.name, each.strategy, _CLASS_NAMES[at], classes[at])
                for each, classes in means
                for at in CLASSES
            ),
        ),
        brief=Table(
            columns=("line", "strategy", *names),
            rows=tuple(
                (each.line.name, each.strategy, *(f"{classes[name]:.2f}" for name in CLASSES))
                for each, classes in means
            ),
        ),
    )
