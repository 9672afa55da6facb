"""Measure never, always and dtr on a question set: EM, F1, recall@k, trigger ratio.

One pass per question: the draft, the answer of `always`, and the answer of `dtr` with retrieval forced; draft and
pseudo-context are shared. Because decoding is greedy and bit-equal, `dtr` at any threshold is the draft where
u <= threshold and the forced answer elsewhere, so one pass gives the whole threshold curve. Seconds add up what a run
of its own would compute, less what the KV cache saves between two answers over the same leading chunks; compare them
between sets, not between strategies. Records are appended to RUN.jsonl and a second call continues where the first was
stopped.

    python tests/benchmarks/measure_questions.py run --questions Q.jsonl --index NAME --out RUN.jsonl --limit 100
    python tests/benchmarks/measure_questions.py table RUN.jsonl --threshold 0.3
    python tests/benchmarks/measure_questions.py threshold RUN.jsonl...      # the curve, and the best F1
    python tests/benchmarks/measure_questions.py evidence WITH_GOLD.jsonl... --without HIDDEN_GOLD.jsonl...
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, median

from adaptrag_cli import engine
from adaptrag_cli.config import load_settings
from adaptrag_cli.documents.base import Chunk
from adaptrag_cli.evaluation.metrics import exact_match, f1, recall_at_k
from adaptrag_cli.events import (
    ChunksSelected,
    DecisionMade,
    Event,
    EvidenceJudged,
    GenerationFinished,
    RunFailed,
    RunFinished,
    TokenGenerated,
    UncertaintyMeasured,
)
from adaptrag_cli.index.store import Store
from adaptrag_cli.models.base import Generation, Token
from adaptrag_cli.models.encoder import load_encoder
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.session.plan import models_dir_of
from adaptrag_cli.session.session import Session, open_session
from adaptrag_cli.strategies.base import Reuse, load_strategy
from adaptrag_cli.strategies.steps import write_pseudo_context

Record = dict[str, object]


class HidingStore:
    """A store from which the documents in `hidden` seem to be deleted."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.hidden: frozenset[str] = frozenset()

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def chunk(self, row: int) -> Chunk:
        chunk = self._store.chunk(row)
        return replace(chunk, source=TAKEN_OUT) if chunk.document in self.hidden else chunk


TAKEN_OUT = "(taken out)"


def read_jsonl(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def answer_once(
    session: Session, strategy_name: str, query: str, reuse: Reuse, threshold: float
) -> tuple[list[Event], float]:
    """Run one strategy without peek; working seconds come from the trace."""
    use = replace(
        session.resources, options=replace(session.options, threshold=threshold), reuse=reuse, evidence_rule=None
    )
    events = list(engine.answer(engine.Run(query=query, peek=False), load_strategy(strategy_name), use))
    last = events[-1]
    if isinstance(last, RunFailed):
        raise SystemExit(f"{query}: {last.message}")
    return events, last.elapsed_ms / 1000


def generation_of(events: Sequence[Event], phase: str) -> Generation:
    """The text of a phase, as a later run can reuse it."""
    tokens = tuple(
        Token(id=-1, text=e.text, logprob=e.logprob, entropy=e.entropy, alternatives=e.alternatives)
        for e in events
        if isinstance(e, TokenGenerated) and e.phase == phase
    )
    done = next(e for e in events if isinstance(e, GenerationFinished) and e.phase == phase)
    return Generation(
        text=done.text,
        tokens=tokens,
        stop_reason=done.stop_reason,
        prompt_tokens=done.prompt_tokens,
        reused_tokens=done.reused_tokens,
    )


def retrieved_part(events: Sequence[Event], gold: Sequence[str], golds: Sequence[str]) -> Record:
    selected = next(e for e in events if isinstance(e, ChunksSelected))
    kept = [c for c in selected.candidates if c.kept]
    judged = next(e for e in events if isinstance(e, EvidenceJudged))
    text = next((e.text for e in events if isinstance(e, GenerationFinished) and e.phase == "answer"), "").strip()
    return {
        "answer": text,
        "em": float(exact_match(text, golds)),
        "f1": f1(text, golds),
        "documents": [c.document for c in kept],
        "recall": recall_at_k([c.document for c in kept], gold),
        "answer_uncertainty": judged.answer_uncertainty,
        "best_query_score": judged.best_query_score,
        "best_ais_score": max((c.ais_score for c in kept if c.ais_score is not None), default=None),
        "source_without_rule": next(e.answer_source for e in events if isinstance(e, RunFinished)),
    }


def measure(session: Session, question: dict, parts: Sequence[str], skip_below: float) -> Record:
    query, golds, gold = question["question"], question["answers"], question.get("gold_passage_ids", [])
    draft_events, draft_seconds = answer_once(session, "never", query, Reuse(), 0.0)
    draft = generation_of(draft_events, "draft")
    u = next(e.value for e in draft_events if isinstance(e, UncertaintyMeasured))
    text = draft.text.strip()
    record: Record = {
        "id": question["id"],
        "question": query,
        "golds": golds,
        "gold_documents": gold,
        "draft": {
            "answer": text,
            "u": u,
            "em": float(exact_match(text, golds)),
            "f1": f1(text, golds),
            "seconds": draft_seconds,
        },
    }
    pseudo_context, pseudo_seconds = None, 0.0
    is_forced = "forced" in parts and (u is None or u > skip_below)
    if is_forced:  # before `always`, so that the two answers follow each other and share their leading chunks
        started = time.monotonic()
        pseudo_context = drain(write_pseudo_context(query, session.resources))
        pseudo_seconds = time.monotonic() - started
    if "always" in parts:
        always, seconds = answer_once(session, "always", query, Reuse(), 0.0)
        record["always"] = {**retrieved_part(always, gold, golds), "seconds": seconds}
    if is_forced:
        forced, seconds = answer_once(session, "dtr", query, Reuse(draft=draft, pseudo_context=pseudo_context), -1.0)
        assert next(e.retrieve for e in forced if isinstance(e, DecisionMade))
        record["forced"] = {**retrieved_part(forced, gold, golds), "seconds": seconds + draft_seconds + pseudo_seconds}
    return record


def drain(steps: Generator[Event, None, Generation]) -> Generation:
    """Run a step of a strategy to its end and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


def run(args: argparse.Namespace) -> None:
    questions = read_jsonl(args.questions)
    if args.seed is not None:
        random.Random(args.seed).shuffle(questions)
    questions = questions[args.skip : args.skip + args.limit]
    done = {row["id"] for row in read_jsonl(args.out)} if args.out.exists() else set()
    flags: dict[str, object] = {"models.answer": args.model, "index.name": args.index, "ask.strategy": "dtr"}
    if args.models_dir:
        flags["models.dir"] = args.models_dir
    if args.index_dir:
        flags["index.dir"] = args.index_dir
    settings = load_settings(flags=flags)
    session = open_session(settings)
    store = HidingStore(session.resources.require_retriever().store)
    made_with = store.encoder
    encoder = load_encoder(
        made_with.name,
        models_dir_of(settings),
        query_prefix=made_with.query_prefix,
        document_prefix=made_with.document_prefix,
    )
    retriever = Retriever(store, encoder, deleted={TAKEN_OUT})
    session = replace(session, resources=replace(session.resources, retriever=retriever))
    started = time.monotonic()
    with args.out.open("a", encoding="utf-8") as out:
        for count, question in enumerate((q for q in questions if q["id"] not in done), start=1):
            out.write(
                json.dumps(measure(session, question, args.parts.split(","), args.skip_below), ensure_ascii=False)
                + "\n"
            )
            out.flush()
            if count % 10 == 0:
                print(
                    f"{len(done) + count}/{len(questions)}  {(time.monotonic() - started) / count:.1f} s each",
                    flush=True,
                )
    session.close()


def composed(row: dict, threshold: float) -> dict:
    """What `dtr` answers at this threshold."""
    u = row["draft"]["u"]
    return row["draft"] if u is not None and u <= threshold else row["forced"]


def summary(rows: Sequence[dict], name: str, threshold: float) -> str:
    keys = {"never": "draft", "always": "always", "dpr-ais": "forced"}
    part = [row[keys[name]] if name in keys else composed(row, threshold) for row in rows]
    triggered = mean("documents" in p for p in part)
    recalls = [p["recall"] for p in part if p.get("recall") is not None]
    return (
        f"| {name} | {100 * mean(p['em'] for p in part):.1f} | {100 * mean(p['f1'] for p in part):.1f} "
        f"| {f'{100 * mean(recalls):.1f}' if recalls else '-'} | {100 * triggered:.0f} % "
        f"| {median(p['seconds'] for p in part):.1f} |"
    )


def table(args: argparse.Namespace) -> None:
    rows = [row for path in args.runs for row in read_jsonl(path)]
    print(f"{len(rows)} questions, threshold {args.threshold}\n")
    print("| strategy | EM | F1 | recall@k (retrieved) | trigger ratio | median s |\n|---|---|---|---|---|---|")
    for name in ("never", "always", "dtr", *(["dpr-ais"] if all("forced" in row for row in rows) else [])):
        print(summary(rows, name, args.threshold))


def threshold_curve(args: argparse.Namespace) -> None:
    rows = [row for path in args.runs for row in read_jsonl(path)]
    print(
        f"{len(rows)} questions\n| threshold | skipped | draft EM of skipped | dtr EM | dtr F1 |\n|---|---|---|---|---|"
    )
    best = (-1.0, 0.0)
    for tau in (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 3.0):
        skipped = [r["draft"] for r in rows if r["draft"]["u"] is not None and r["draft"]["u"] <= tau]
        answers = [composed(r, tau) for r in rows]
        score = mean(a["f1"] for a in answers)
        best = max(best, (score, tau))
        right = f"{100 * mean(d['em'] for d in skipped):.0f}" if skipped else "-"
        em = 100 * mean(a["em"] for a in answers)
        print(f"| {tau} | {100 * len(skipped) / len(rows):.0f} % | {right} | {em:.1f} | {100 * score:.1f} |")
    print(f"\nbest F1 {100 * best[0]:.1f} at {best[1]}")


def evidence(args: argparse.Namespace) -> None:
    """Precision and recall of "the documents do not tell" over a grid of limits.

    A positive is a question whose gold passages were taken out of the corpus; a right answer (F1 >= 0.5) over the whole
    corpus must not be called untold. `--half` keeps every second question for choosing the limits (fit) or for telling
    how well they do (report).
    """
    start = {"fit": 0, "report": 1}.get(args.half, 0)
    step = 1 if args.half == "all" else 2

    def answers(paths: Sequence[Path]) -> list[dict]:
        return [row[args.part] for path in paths for row in read_jsonl(path)[start::step] if args.part in row]

    absent, present = answers(args.without), answers(args.runs)
    told = [answer for answer in present if answer["f1"] >= 0.5]
    print(f"{len(absent)} without gold; {len(present)} with gold, {len(told)} of them answered right\n")
    print("| max u | min s1 | untold found (recall) | precision against right answers | wrong answers caught |")
    print("|---|---|---|---|---|")
    wrong = [answer for answer in present if answer["f1"] < 0.5]
    for limit_u in args.max_u:
        for limit_s in args.min_s:
            hits, lost, caught = (sum(_flag(a, limit_u, limit_s) for a in group) for group in (absent, told, wrong))
            precision = f"{100 * hits / (hits + lost):.0f} %" if hits + lost else "-"
            print(
                f"| {limit_u} | {limit_s} | {hits}/{len(absent)} ({100 * hits / max(1, len(absent)):.0f} %) "
                f"| {precision} ({lost} of {len(told)} lost) | {caught}/{len(wrong)} |"
            )


def _flag(part: dict, limit_u: float, limit_s: float) -> bool:
    u, score = part["answer_uncertainty"], part["best_query_score"]
    return u is None or u > limit_u or score is None or score < limit_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.add_argument("--questions", type=Path, required=True)
    running.add_argument("--index", required=True)
    running.add_argument("--out", type=Path, required=True)
    running.add_argument("--model", default="qwen2.5-coder-1.5b-instruct")
    running.add_argument("--models-dir", type=Path)
    running.add_argument("--index-dir", type=Path)
    running.add_argument("--limit", type=int, default=100)
    running.add_argument("--skip", type=int, default=0)
    running.add_argument("--seed", type=int, help="shuffle; without it the file's order")
    running.add_argument("--parts", default="always,forced", help="what to answer besides the draft")
    running.add_argument(
        "--skip-below", type=float, default=-1.0, help="do not force retrieval at u up to this (then read no lower tau)"
    )
    running.add_argument("--hide-gold", action="store_true", help="search as if the gold passages were not there")
    running.set_defaults(call=run)
    for name, call in (("table", table), ("threshold", threshold_curve), ("evidence", evidence)):
        reading = commands.add_parser(name)
        reading.add_argument("runs", type=Path, nargs="+")
        reading.set_defaults(call=call)
        if name == "table":
            reading.add_argument("--threshold", type=float, required=True)
        if name == "evidence":
            reading.add_argument("--without", type=Path, nargs="+", required=True)
            reading.add_argument("--part", choices=("always", "forced"), default="always")
            reading.add_argument("--half", choices=("all", "fit", "report"), default="all")
            reading.add_argument("--max-u", type=float, nargs="+", default=[0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 9.0])
            reading.add_argument("--min-s", type=float, nargs="+", default=[0.0, 0.3, 0.4, 0.5, 0.55, 0.6])
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
