"""Measure how often a marker of `--style cited` is wrong.

Each question is answered from its gold chunk and the two nearest others, in an order drawn by the seed. Two things can
be wrong with a marker. It is unfounded when the cited chunk does not tell the sentence: fewer than four fifths of the
sentence's content words stand in it. It is beside the point when the chunk is not of a gold document: the sentence may
stand in it, but it is no answer. Also told: sentences without a marker, and how often the chunk that shares the most
words with a sentence is not gold.

    python tests/benchmarks/measure_citations.py --questions squad.questions.jsonl --index squad --limit 50
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from measure_questions import read_jsonl

from adaptrag_cli.config import load_settings
from adaptrag_cli.events import Candidate, SentenceCited
from adaptrag_cli.retrieval import FoundChunk
from adaptrag_cli.selection import angles
from adaptrag_cli.session.session import Session, open_session
from adaptrag_cli.strategies.answering import answer_from_chunks
from adaptrag_cli.strategies.steps import candidate
from adaptrag_cli.words import STOP_WORDS, folded, words


def passages(session: Session, question: dict, rng: random.Random) -> list[Candidate] | None:
    """The gold chunk and the two nearest others; None when search does not bring the gold one at all."""
    found = session.resources.require_retriever().search(question["question"], retriever="dense", n=50)
    gold = [f for f in found if f.chunk.document in question["gold_passage_ids"]][:1]
    others = [f for f in found if f.chunk.document not in question["gold_passage_ids"]][:2]
    if not gold:
        return None
    shown = [*gold, *others]
    rng.shuffle(shown)
    return [_candidate(item, rank) for rank, item in enumerate(shown, start=1)]


def _candidate(item: FoundChunk, rank: int) -> Candidate:
    angle = float(angles(item.score))
    return candidate(item, paths=("query",), query_score=item.score, query_angle=angle, rank=rank, kept=True)


def nearest_by_words(sentence: str, shown: Sequence[Candidate]) -> int:
    """The baseline: position of the chunk that shares the most content words."""
    content = {folded(word) for word in words(sentence)} - STOP_WORDS
    return max(range(len(shown)), key=lambda i: len(content & {folded(word) for word in words(shown[i].text)}))


def is_founded(sentence: str, chunk: Candidate) -> bool:
    """Whether at least four fifths of the sentence's content words stand in the chunk."""
    content = {folded(word) for word in words(sentence)} - STOP_WORDS
    held = {folded(word) for word in words(f"{chunk.title} {chunk.text}")}
    return len(content & held) >= 0.8 * len(content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--index", required=True)
    parser.add_argument("--model", default="qwen2.5-coder-1.5b-instruct")
    parser.add_argument("--limit", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    session = open_session(load_settings(flags={"models.answer": args.model, "index.name": args.index}))
    use = replace(session.resources, options=replace(session.options, style="cited"), evidence_rule=None)
    rng = random.Random(args.seed)
    sentences = markers = unfounded = beside = unmarked = baseline_beside = questions = 0
    for question in read_jsonl(args.questions):
        shown = passages(session, question, rng)
        if shown is None:
            continue
        is_gold = [c.document in question["gold_passage_ids"] for c in shown]
        for event in answer_from_chunks(question["question"], shown, use):
            if isinstance(event, SentenceCited):
                sentences += 1
                markers += len(event.markers)
                unmarked += not event.markers
                baseline_beside += not is_gold[nearest_by_words(event.text, shown)]
                beside += sum(1 for m in event.markers if not is_gold[m - 1])
                bad = [m for m in event.markers if not is_founded(event.text, shown[m - 1])]
                unfounded += len(bad)
                if bad:
                    print(f"unfounded: {question['question']!r} -> {event.text!r} cites {bad}", flush=True)
        questions += 1
        if questions == args.limit:
            break
    session.close()
    print(f"{questions} questions, {sentences} sentences, {unmarked} without a marker, {markers} markers")
    print(f"unfounded: {unfounded} markers ({100 * unfounded / max(1, markers):.1f} %)")
    print(f"beside the point: {beside} markers ({100 * beside / max(1, markers):.1f} %)")
    print(f"chunks most similar to a sentence that are beside the point: {baseline_beside} of {sentences}")


if __name__ == "__main__":
    main()
