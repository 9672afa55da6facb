"""Fit dtr+verify on some question sets and try it on the others, from finished runs and without a model.

    python tests/benchmarks/fit_verifier.py RUN...               # each set left out in turn, and folds of all
    python tests/benchmarks/fit_verifier.py RUN... --on RUN...   # fitted on the first, reported on the second
    python tests/benchmarks/fit_verifier.py RUN... --save FILE   # the verifier fitted on everything, as JSON

A run has to have asked never, always and dtr:gate=false. Questions of one text are taken once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from adaptrag_cli.calibration import FittedVerifier, Logistic, question_digest
from adaptrag_cli.evaluation.results import read_run
from adaptrag_cli.evaluation.statistics import mean_interval, paired_test
from adaptrag_cli.evaluation.verifier import (
    Example,
    Outcome,
    examples_of,
    fit_verifier,
    held_out_outcomes,
    verify_outcomes,
)

TARGETS = ("em", "f1")


def read_examples(folders: Sequence[Path]) -> list[Example]:
    """The questions of all runs and cells, each text once in a set."""
    found: dict[tuple[str, str], Example] = {}
    for folder in folders:
        for example in examples_of(read_run(folder)):
            found.setdefault((example.set, question_digest(example.query)), example)
    return list(found.values())


def table(title: str, examples: Sequence[Example], outcomes: Sequence[Outcome]) -> None:
    """Print never, always, both paths, dtr+verify and an oracle, with the difference to the better of the first two."""
    print(f"\n{title} (n = {len(examples)})")
    for target in TARGETS:
        scores: dict[str, list[float]] = {
            "never": [getattr(e, f"draft_{target}") for e in examples],
            "always": [getattr(e.documents["query"], target) for e in examples],
            "both paths": [getattr(e.documents["both"], target) for e in examples],
            "dtr+verify": [getattr(o, target) for o in outcomes],
        }
        scores["oracle"] = [max(a, b) for a, b in zip(scores["never"], scores["always"], strict=True)]
        shown = []
        for name, values in scores.items():
            interval = mean_interval(values)
            assert interval is not None
            shown.append(f"{name} {100 * interval.mean:.1f}")
        better = max(("never", "always"), key=lambda name: sum(scores[name]))
        test = paired_test(scores["dtr+verify"], scores[better])
        assert test is not None
        low, mean, high = (100 * value for value in (test.low, test.difference, test.high))
        print(f"  {target}: {', '.join(shown)}; verify - {better}: {mean:+.1f} ({low:+.1f} to {high:+.1f})")
    looked_up = sum(o.retrieved for o in outcomes) / len(outcomes)
    kept = sum(o.retrieved and o.source == "draft" for o in outcomes) / len(outcomes)
    calls = sum(o.llm_calls for o in outcomes) / len(outcomes)
    searches = sum(o.searches for o in outcomes) / len(outcomes)
    print(
        f"  looked up {100 * looked_up:.0f} %, draft given after all {100 * kept:.0f} %, "
        f"{calls:.2f} calls, {searches:.2f} searches"
    )


def describe(verifier: FittedVerifier) -> None:
    """Print paths, margins and weights."""
    print(f"\npaths: {verifier.look_up}, margins: skip {verifier.skip_margin:g}, keep {verifier.keep_margin:g}")
    models: dict[str, Logistic] = {
        name: getattr(verifier, name) for name in ("draft", "before", "after", "draft_after")
    }
    for name, model in models.items():
        weights = ", ".join(f"{f} {w:+.2f}" for f, w in zip(model.features, model.weights, strict=True))
        print(f"  {name}: {model.intercept:+.2f}, {weights}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--on", nargs="+", type=Path, default=[])
    parser.add_argument("--target", choices=TARGETS, default="em")
    parser.add_argument("--encoder", default="all-minilm-l6-v2")
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    examples = read_examples(args.runs)

    def fit(some: Sequence[Example]) -> FittedVerifier:
        return fit_verifier(some, encoder=args.encoder, target=args.target)

    others = read_examples(args.on)
    asked = {question_digest(e.query) for e in examples} & {question_digest(e.query) for e in others}
    if asked:
        raise SystemExit(f"{len(asked)} of the questions to report on were fitted on")
    verifier = fit(examples)
    describe(verifier)
    reported = others or examples
    if others:
        by_set("fitted on other questions: ", reported, verify_outcomes(others, verifier))
    else:
        by_set("folds: ", reported, held_out_outcomes(examples, target=args.target))
    by_set("fitted without this set: ", reported, left_out(examples, reported, fit))
    if args.save:
        args.save.write_bytes(msgspec.json.format(msgspec.json.encode(verifier), indent=2) + b"\n")


def left_out(
    examples: Sequence[Example], reported: Sequence[Example], fit: Callable[[Sequence[Example]], FittedVerifier]
) -> list[Outcome]:
    """Outcomes of each set with what was fitted on the others."""
    names = sorted({e.set for e in reported})
    fitted = {name: fit([e for e in examples if e.set != name]) for name in names}
    return [verify_outcomes([e], fitted[e.set])[0] for e in reported]


def by_set(title: str, examples: Sequence[Example], outcomes: Sequence[Outcome]) -> None:
    """Print a table for each set and one for all."""
    for name in sorted({e.set for e in examples}):
        rows = [i for i, e in enumerate(examples) if e.set == name]
        table(title + name, [examples[i] for i in rows], [outcomes[i] for i in rows])
    table(title + "all sets", examples, outcomes)


if __name__ == "__main__":
    main()
