"""Runs that look up while they write, made from rules by the number of the question: all can be counted by hand.

Every method goes on from the same text: `cot` writes all of it and is right on even questions. What is written with
documents is right on those that 3 does not divide.

- `etc` fires where the number modulo 4 reaches its trigger (1 unless told), at token 3; on question 11 once more.
- `dragin` always fires: at token 0 where 4 divides the number, at token 1 where 3 is left, else at token 6.
- `ralm` looks up before it writes.
"""

from __future__ import annotations

from adaptrag_cli.events import (
    Candidate,
    ChunksSelected,
    DecisionMade,
    Event,
    GenerationFinished,
    PathRetrieved,
    PromptBuilt,
    QueryBuilt,
    RankedChunk,
    Setting,
    TokenGenerated,
    TokensDiscarded,
    WordMeasured,
)

WRITING = frozenset({"cot", "etc", "dragin", "ralm"})
TEXT = ("The", " lamp", " was", " lit", " by")
ENTROPIES = (0.2, 0.4, 0.1, 0.9, 0.3, 2.0, 0.1, 0.5)
_TRIGGER = 1.0


def settings_of(label: str) -> tuple[Setting, ...]:
    """What a cell tells of such a strategy."""
    strategy = label.split(":")[0]
    rows = [Setting(name="max_retrievals", value=5, origin="default")] if strategy in {"etc", "dragin", "ralm"} else []
    if strategy in {"etc", "dragin"}:
        rows.append(Setting(name="trigger", value=_trigger(label), origin="--strategies"))
    return tuple(rows)


def reasoned(number: int, gold: str, label: str, chunk_id: str, document: str) -> tuple[list[Event], str, int]:
    """What happens between the beginning and the end of a run, its answer, and how often it looked up."""
    wrong = f"keeper {number}"
    from_memory = gold if number % 2 == 0 else wrong
    written = [*TEXT, f" {from_memory}", ".", f" So the answer is {from_memory}."]
    fires_at = _fires_at(number, label)
    if fires_at is None:
        stop = DecisionMade(retrieve=False, uncertainty=None, threshold=None, reason="no word fires")
        return [*_call(written), stop], from_memory, 0
    answer = gold if number % 3 else wrong
    events: list[Event] = []
    threshold = None if label == "ralm" else _trigger(label)
    if threshold is not None:
        events += _call(written)
        events.append(_fired(fires_at, written[fires_at], threshold))
        events.append(
            TokensDiscarded(phase="reasoning", from_step=fires_at, text="".join(written[fires_at:]), reason="unsure")
        )
    look_ups = 2 if number == 11 and label.startswith("etc") else 1
    for _ in range(look_ups):
        events.append(DecisionMade(retrieve=True, uncertainty=2.0, threshold=threshold, reason="unsure"))
        events += _searched(chunk_id, document)
    return [*events, *_call([f" So the answer is {answer}."])], answer, look_ups


def _trigger(label: str) -> float:
    return float(label.partition("trigger=")[2] or _TRIGGER)


def _fires_at(number: int, label: str) -> int | None:
    rest = number % 4
    if label.startswith("etc"):
        return 3 if rest >= _trigger(label) else None
    return {"cot": None, "ralm": 0, "dragin": {0: 0, 3: 1}.get(rest, 6)}[label]


def _call(texts: list[str]) -> list[Event]:
    return [
        PromptBuilt(phase="reasoning", text="a prompt", tokens=40),
        *(
            TokenGenerated(phase="reasoning", step=step, text=text, logprob=-0.1, entropy=entropy)
            for step, (text, entropy) in enumerate(zip(texts, ENTROPIES, strict=False))
        ),
        GenerationFinished(
            phase="reasoning",
            text="".join(texts),
            stop_reason="end",
            prompt_tokens=40,
            reused_tokens=10,
            generated_tokens=len(texts),
        ),
    ]


def _fired(step: int, text: str, threshold: float) -> WordMeasured:
    return WordMeasured(
        phase="reasoning",
        first_step=step,
        step=step,
        text=text.strip(),
        entropy=ENTROPIES[step],
        value=2.0,
        threshold=threshold,
        fires=True,
    )


def _searched(chunk_id: str, document: str) -> list[Event]:
    place = {"chunk_id": chunk_id, "document": document, "location": "a place", "title": "", "text": "a text"}
    return [
        QueryBuilt(method="attention", text="lamp"),
        PathRetrieved(
            path="reasoning",
            retriever="sparse",
            query_text="lamp",
            chunks=(RankedChunk(**place, rank=1, score=1.0),),
        ),
        ChunksSelected(
            score_name="query",
            query_pseudo_similarity=None,
            candidates=(
                Candidate(
                    **place,
                    paths=("reasoning",),
                    query_score=1.0,
                    pseudo_context_score=None,
                    query_angle=None,
                    pseudo_context_angle=None,
                    ais_score=None,
                    rank=1,
                    kept=True,
                ),
            ),
        ),
    ]
