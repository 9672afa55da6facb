"""Hold the papers' claims against finished runs of `adaptrag eval`: pairs of strategies on the same questions.

    python tests/benchmarks/paper_claims.py RUN...

Each line names two strategies that differ in one thing, on how many questions they kept other chunks or gave another
answer, and their differences in EM, F1 and recall with 95 % intervals. Only questions that both have answered count.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from adaptrag_cli.evaluation.results import Result, RunData, read_run
from adaptrag_cli.evaluation.statistics import paired_test

CLAIMS: Sequence[tuple[str, str, str]] = (
    ("deciding costs nothing (DTR Tab. 3: w/o UGT)", "dtr", "dtr:gate=false"),
    ("two paths and AIS beat standard RAG (DTR Tab. 2)", "dtr:gate=false", "always"),
    ("AIS beats 1q+2p (DTR Tab. 3: w/o AIS)", "dtr:gate=false", "dtr:gate=false:selection=1q+2p"),
    ("AIS beats 2q+1p", "dtr:gate=false", "dtr:gate=false:selection=2q+1p"),
    ("both paths beat q alone (PAIRS: w/o DPR)", "dtr:gate=false", "dtr:gate=false:paths=query"),
    ("both paths beat p alone", "dtr:gate=false", "dtr:gate=false:paths=pseudo_context"),
    ("q alone beats p alone", "dtr:gate=false:paths=query", "dtr:gate=false:paths=pseudo_context"),
    ("Eq. 7 beats the sum (the released code)", "dtr:gate=false", "dtr:gate=false:ais=sum"),
    ("both paths beat q alone, PAIRS' prompts", "dpr-ais", "dpr-ais:paths=query"),
    ("both paths beat p alone, PAIRS' prompts", "dpr-ais", "dpr-ais:paths=pseudo_context"),
    ("dynamic weighting helps (PAIRS)", "dpr-ais:ais=dynamic", "dpr-ais"),
    ("PAIRS loses nothing against DPR-AIS (PAIRS Tab. 2)", "pairs", "dpr-ais"),
    ("DTR beats HyDE (DTR Tab. 2)", "dtr", "hyde"),
    ("DTR beats Query2doc", "dtr", "query2doc"),
    ("DTR beats CoT expansion", "dtr", "cot-expansion"),
    ("DTR beats the LLM judge", "dtr", "llm-judge"),
    ("dtr+verify is no worse than never", "dtr+verify", "never"),
    ("dtr+verify is no worse than always", "dtr+verify", "always"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    for run in map(read_run, parser.parse_args().runs):
        print(f"### {', '.join(sorted({cell.model for cell in run.manifest.cells}))}\n")
        print("| claim | n | other chunks | other answer | EM | F1 | recall | verdict |")
        print("|---|---|---|---|---|---|---|---|")
        answers = by_label(run)
        for claim, first, second in CLAIMS:
            pairs = in_common(answers.get(first, {}), answers.get(second, {}))
            if pairs:
                print(line(claim, pairs))
        print()


def by_label(run: RunData) -> Mapping[str, Mapping[tuple[str, str, str], Result]]:
    """Results by strategy, then by cell, set and question."""
    table: dict[str, dict[tuple[str, str, str], Result]] = {}
    for result in run.results:
        table.setdefault(result.strategy, {})[(result.cell, result.set, result.question_id)] = result
    return table


def in_common(
    first: Mapping[tuple[str, str, str], Result], second: Mapping[tuple[str, str, str], Result]
) -> Sequence[tuple[Result, Result]]:
    return [(first[key], second[key]) for key in first if key in second]


def line(claim: str, pairs: Sequence[tuple[Result, Result]]) -> str:
    em = paired_test([a.em for a, _ in pairs], [b.em for _, b in pairs])
    f1 = paired_test([a.f1 for a, _ in pairs], [b.f1 for _, b in pairs])
    told = [(a.recall, b.recall) for a, b in pairs if a.recall is not None and b.recall is not None]
    recall = paired_test([a for a, _ in told], [b for _, b in told])
    assert em is not None
    assert f1 is not None
    chunks = sum(kept(a) != kept(b) for a, b in pairs) / len(pairs)
    answers = sum(a.prediction != b.prediction for a, b in pairs) / len(pairs)
    verdict = "inconclusive" if f1.low <= 0 <= f1.high else "supported" if f1.low > 0 else "contradicted"
    cells = [
        claim,
        str(len(pairs)),
        f"{100 * chunks:.0f} %",
        f"{100 * answers:.0f} %",
        f"{100 * em.difference:+.1f} [{100 * em.low:+.1f}, {100 * em.high:+.1f}]",
        f"{100 * f1.difference:+.1f} [{100 * f1.low:+.1f}, {100 * f1.high:+.1f}]",
        f"{100 * recall.difference:+.1f} [{100 * recall.low:+.1f}, {100 * recall.high:+.1f}]" if recall else "",
        verdict,
    ]
    return f"| {' | '.join(cells)} |"


def kept(result: Result) -> frozenset[str]:
    return frozenset(chunk.chunk_id for chunk in result.candidates if chunk.kept)


if __name__ == "__main__":
    main()
