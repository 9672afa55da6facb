"""Complete, law-abiding traces made by hand, one for each way a run can go. No model and no index is needed.

A step of the clock is 100 ms, so the time of a run is its number of events less one, in tenths of a second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from adaptrag_cli.events import (
    AgreementMeasured,
    Alternative,
    AnswersWeighed,
    Candidate,
    ChunkPeeked,
    ChunksReranked,
    ChunksSelected,
    Counts,
    DecisionMade,
    Event,
    EvidenceJudged,
    GenerationFinished,
    LayerLogits,
    PathRetrieved,
    ProbeMeasured,
    PromptBuilt,
    PseudoContextWritten,
    QueryBuilt,
    RankedChunk,
    RunFailed,
    RunFinished,
    RunStarted,
    SentenceCited,
    Setting,
    StageTime,
    StepAnswered,
    StepDecided,
    SubQueryAsked,
    TokenGenerated,
    TokensDiscarded,
    UncertaintyMeasured,
    WarningRaised,
    WeightedWord,
    WordMeasured,
)
from laws import check_laws

STEP_MS = 100.0
TRIGGER = 1.0
NOT_TOLD = "The documents do not tell."


def stamped(events: Sequence[Event]) -> list[Event]:
    """Number the events, put them 100 ms apart, and hold them to the laws of the stream."""
    stream = [
        msgspec.structs.replace(event, seq=number, elapsed_ms=number * STEP_MS) for number, event in enumerate(events)
    ]
    check_laws(stream)
    return stream


def started(strategy: str = "dtr", *, style: str = "short", query: str = "When is quiet time?") -> RunStarted:
    return RunStarted(
        query=query,
        strategy=strategy,
        settings=_settings(strategy, style),
        model="qwen2.5-coder-0.5b-instruct",
        model_fingerprint="sha256:0123456789ab",
        index="handbook",
        index_fingerprint="g1:0123456789ab",
        gpu_layers_requested="auto",
        gpu_layers_used=0,
        gpu_reason="this build of llama.cpp cannot offload",
        threads=2,
        context_length=4096,
        entropy_support="full",
        adaptrag_version="0.1.0",
    )


def _settings(strategy: str, style: str) -> tuple[Setting, ...]:
    """Some of those that the strategy uses."""
    own = f"default of {strategy}"
    if strategy == "never":
        return (Setting(name="draft_tokens", value=32, origin=own),)
    rows = [Setting(name="style", value=style, origin="--style" if style == "cited" else own)]
    if strategy in {"dtr", "pairs"}:
        rows.append(Setting(name="paths", value="both", origin=own))
    if strategy == "dtr+verify":
        rows.append(Setting(name="top_n", value=5, origin=own))
    if strategy == "etc":
        return (Setting(name="trigger", value=TRIGGER, origin=own), Setting(name="top_k", value=2, origin=own))
    if strategy == "dtr":
        rows.insert(0, Setting(name="threshold", value=0.3, origin="measured for this model"))
    return tuple(rows)


def written(phase: str, *texts: str, logprob: float = -0.5, prompt_tokens: int = 20, chunk_ids: tuple[str, ...] = ()):
    """Prompt, tokens and end of one LLM call; each token has the same log-probability."""
    alternatives = (
        Alternative(text="At", logprob=-1.0),
        Alternative(text="\n", logprob=math.log(0.125)),
    )
    return [
        PromptBuilt(phase=phase, text=f"prompt of {phase}", tokens=prompt_tokens, chunk_ids=chunk_ids),
        *(
            TokenGenerated(phase=phase, step=step, text=text, logprob=logprob, entropy=1.25, alternatives=alternatives)
            for step, text in enumerate(texts)
        ),
        GenerationFinished(
            phase=phase,
            text="".join(texts),
            stop_reason="end",
            prompt_tokens=prompt_tokens,
            reused_tokens=4,
            generated_tokens=len(texts),
        ),
    ]


def ranked(number: int, rank: int, score: float) -> RankedChunk:
    return RankedChunk(
        chunk_id=f"handbook.md#{number}",
        document="handbook.md",
        location=f"handbook.md:{10 * number + 1}-{10 * number + 9}",
        title="Handbook > House rules",
        text=f"Text of chunk {number}: quiet time starts at {20 + number}:30.",
        rank=rank,
        score=score,
    )


def scored(number: int, rank: int, s1: float, s2: float | None, *, kept: bool, paths=("query",)) -> Candidate:
    chunk = ranked(number, rank, s1)
    score = None if s2 is None else math.cos(math.acos(s1) + math.acos(s2))
    return Candidate(
        chunk_id=chunk.chunk_id,
        document=chunk.document,
        location=chunk.location,
        title=chunk.title,
        text=chunk.text,
        paths=paths,
        query_score=s1,
        pseudo_context_score=s2,
        query_angle=math.acos(s1),
        pseudo_context_angle=None if s2 is None else math.acos(s2),
        ais_score=score,
        rank=rank,
        kept=kept,
    )


def finished(answer: str, source: str, chunk_ids: tuple[str, ...] = (), **counts: int) -> RunFinished:
    extraction = {"draft": "draft", "documents": "whole", "none": "none"}[source]
    return RunFinished(
        answer=answer,
        answer_source=source,
        extraction=extraction,
        chunk_ids=chunk_ids,
        counts=Counts(**counts),
        timings=(StageTime(stage="setup", ms=1.5), StageTime(stage="draft", ms=300.0)),
    )


def drafted(u: float | None, *, retrieve: bool, reason: str = "the draft is uncertain") -> list[Event]:
    """A draft of two tokens, its uncertainty against the threshold 0.3, and the decision."""
    tokens = written("draft", "10", " pm", logprob=-u) if u is not None else written("draft")
    why = "" if u is not None else "the draft is empty"
    return [
        *tokens,
        UncertaintyMeasured(name="mean_nll", value=u, reason=why),
        DecisionMade(retrieve=retrieve, uncertainty=u, threshold=0.3, reason=reason),
    ]


KEPT = ("handbook.md#1", "handbook.md#2")


def two_paths() -> list[Event]:
    """Pseudo-context, both searches, and a ranking that keeps two of three chunks."""
    return [
        *written("pseudo_context", "Quiet", " time", " is", " late."),
        PseudoContextWritten(text="Quiet time is late."),
        PathRetrieved(path="query", retriever="dense", query_text="q", chunks=(ranked(1, 1, 0.8), ranked(3, 2, 0.6))),
        PathRetrieved(path="pseudo_context", retriever="dense", query_text="p", chunks=(ranked(2, 1, 0.96),)),
        ChunksSelected(
            score_name="cos",
            query_pseudo_similarity=0.6,
            candidates=(
                scored(1, 1, 0.8, 0.96, kept=True, paths=("query", "pseudo_context")),
                scored(2, 2, 0.6, 1.0, kept=True, paths=("pseudo_context",)),
                scored(3, 3, 0.6, 0.8, kept=False),
            ),
        ),
    ]


def skipped() -> list[Event]:
    """The draft was certain; the best chunk was peeked at."""
    return stamped(
        [
            started(),
            *drafted(0.02, retrieve=False, reason="the draft is certain enough"),
            ChunkPeeked(chunk=ranked(1, 1, 0.71)),
            finished("10 pm", "draft", llm_calls=1, prompt_tokens=20, reused_tokens=4, generated_tokens=2),
        ]
    )


def retrieved() -> list[Event]:
    """The draft was uncertain; DTR looked it up on both paths. A file had changed since indexing."""
    return stamped(
        [
            started(),
            WarningRaised(code="index_not_fresh", message="1 file changed since indexing"),
            *drafted(0.57, retrieve=True),
            *two_paths(),
            *written("answer", "21", ":30", chunk_ids=KEPT, prompt_tokens=60),
            EvidenceJudged(supported=True, answer_uncertainty=0.5, best_query_score=0.8, reason="best s1 = 0.80"),
            finished("21:30", "documents", KEPT, llm_calls=3, searches=2, prompt_tokens=100, generated_tokens=8),
        ]
    )


def always(*, supported: bool = True) -> list[Event]:
    """Standard RAG: one search, plain top k."""
    reason = "best s1 = 0.80" if supported else "the answer is a guess: u = 1.20 > 0.80"
    answer = ("21:30", "documents") if supported else (NOT_TOLD, "none")
    return stamped(
        [
            started("always"),
            DecisionMade(retrieve=True, uncertainty=None, threshold=None, reason="every question is looked up"),
            PathRetrieved(path="query", retriever="sparse", query_text="q", chunks=(ranked(1, 1, 7.5),)),
            ChunksSelected(score_name="query", candidates=(scored(1, 1, 0.8, None, kept=True),)),
            *written("answer", "21", ":30", chunk_ids=KEPT[:1]),
            EvidenceJudged(supported=supported, answer_uncertainty=1.2, best_query_score=0.8, reason=reason),
            finished(*answer, KEPT[:1], llm_calls=1, searches=1, prompt_tokens=20, generated_tokens=2),
        ]
    )


def unanswered() -> list[Event]:
    """The documents were consulted and do not tell."""
    return always(supported=False)


def never() -> list[Event]:
    """The model's memory alone, without an index."""
    return stamped(
        [
            msgspec.structs.replace(started("never"), index="", index_fingerprint=""),
            *written("draft", "10", " pm", logprob=-0.5),
            UncertaintyMeasured(name="mean_nll", value=0.5),
            DecisionMade(retrieve=False, uncertainty=0.5, threshold=None, reason="this strategy never looks up"),
            finished("10 pm", "draft", llm_calls=1, prompt_tokens=20, generated_tokens=2),
        ]
    )


def blank_draft() -> list[Event]:
    """A draft without tokens has no uncertainty, so the question is looked up."""
    return stamped(
        [
            started(),
            *drafted(None, retrieve=True, reason="uncertainty is undefined: the draft is empty"),
            *two_paths(),
            *written("answer", "21", ":30", chunk_ids=KEPT),
            finished("21:30", "documents", KEPT, llm_calls=3, searches=2),
        ]
    )


def judged(said: str, *, retrieve: bool) -> list[Event]:
    """A judge's verdict, and the decision that follows it."""
    verdict = said.partition(",")[0]
    return [
        *written("judge", *said.partition(",")),
        DecisionMade(retrieve=retrieve, uncertainty=None, threshold=None, reason=f"the judge says {verdict}"),
    ]


def judge() -> list[Event]:
    """The judge wants documents; one search, plain top k."""
    return stamped(
        [
            started("llm-judge"),
            *judged("Yes, look it up", retrieve=True),
            PathRetrieved(path="query", retriever="dense", query_text="q", chunks=(ranked(1, 1, 0.8),)),
            ChunksSelected(score_name="query", candidates=(scored(1, 1, 0.8, None, kept=True),)),
            *written("answer", "21", ":30", chunk_ids=KEPT[:1]),
            finished("21:30", "documents", KEPT[:1], llm_calls=2, searches=1),
        ]
    )


def judge_skips() -> list[Event]:
    """The judge wants none, so the draft comes after the decision."""
    return stamped(
        [
            started("llm-judge"),
            *judged("No, it is known", retrieve=False),
            *written("draft", "10", " pm"),
            finished("10 pm", "draft", llm_calls=2),
        ]
    )


def pairs(*, agree: bool = False) -> list[Event]:
    """Two answers from memory, tagged; where they differ, both paths are searched with the passage that is there."""
    second = "10 pm" if agree else "21:00"
    imagining, after = two_paths()[:7], two_paths()[7:]
    begun = [
        started("pairs"),
        *written("draft", "<answer>", "10 pm", "</answer>"),
        *imagining,
        *written("second_draft", "<answer>", second, "</answer>"),
        AgreementMeasured(rule="exact", first="10 pm", second=second, value=float(agree), limit=1.0, agree=agree),
        DecisionMade(
            retrieve=not agree,
            uncertainty=None,
            threshold=None,
            reason="both answers agree" if agree else "the answers differ",
        ),
    ]
    tagged = msgspec.structs.replace
    if agree:
        return stamped([*begun, tagged(finished("10 pm", "draft", llm_calls=3), extraction="tagged")])
    answer = tagged(finished("21:30", "documents", KEPT, llm_calls=4, searches=2), extraction="tagged")
    return stamped([*begun, *after, *written("answer", "<answer>", "21:30", "</answer>", chunk_ids=KEPT), answer])


def pairs_agree() -> list[Event]:
    """Two answers from memory that say the same."""
    return pairs(agree=True)


def hyde() -> list[Event]:
    """One search for the question widened by an imagined passage."""
    return stamped(
        [
            started("hyde"),
            DecisionMade(retrieve=True, uncertainty=None, threshold=None, reason="every question is looked up"),
            *written("pseudo_context", "Quiet", " time", " is", " late."),
            PseudoContextWritten(text="Quiet time is late."),
            PathRetrieved(
                path="expanded",
                retriever="dense",
                query_text="When is quiet time? Quiet time is late.",
                chunks=(ranked(2, 1, 0.9), ranked(1, 2, 0.85)),
            ),
            ChunksSelected(
                score_name="expanded",
                candidates=(
                    scored(2, 1, 0.6, None, kept=True, paths=("expanded",)),
                    scored(1, 2, 0.8, None, kept=False, paths=("expanded",)),
                ),
            ),
            *written("answer", "22", ":30", chunk_ids=KEPT[1:]),
            finished("22:30", "documents", KEPT[1:], llm_calls=2, searches=1),
        ]
    )


def thinking_aloud() -> list[Event]:
    """One search for the question widened by a chain of thought."""
    return stamped(
        [
            started("cot-expansion"),
            DecisionMade(retrieve=True, uncertainty=None, threshold=None, reason="every question is looked up"),
            *written("rationale", "Quiet", " time", " is", " at night."),
            PathRetrieved(
                path="expanded",
                retriever="dense",
                query_text="When is quiet time? When is quiet time? Quiet time is at night.",
                chunks=(ranked(1, 1, 0.9),),
            ),
            ChunksSelected(
                score_name="expanded", candidates=(scored(1, 1, 0.8, None, kept=True, paths=("expanded",)),)
            ),
            *written("answer", "21", ":30", chunk_ids=KEPT[:1]),
            finished("21:30", "documents", KEPT[:1], llm_calls=2, searches=1),
        ]
    )


def rerank() -> list[Event]:
    """One search, read again by the answer model: the second chunk becomes the first."""
    chunks = (ranked(1, 1, 0.8), ranked(2, 2, 0.6))
    best, other = scored(2, 1, 0.6, None, kept=True), scored(1, 2, 0.8, None, kept=False)
    return stamped(
        [
            started("rerank"),
            DecisionMade(retrieve=True, uncertainty=None, threshold=None, reason="every question is looked up"),
            PathRetrieved(path="query", retriever="dense", query_text="q", chunks=chunks),
            ChunksReranked(
                reranker="qwen2.5-coder-0.5b-instruct",
                path="query",
                chunk_ids=KEPT,
                scores=(-1.5, 2.25),
                llm_calls=2,
                prompt_tokens=120,
                reused_tokens=40,
            ),
            ChunksSelected(
                score_name="rerank",
                candidates=(
                    msgspec.structs.replace(best, ais_score=2.25),
                    msgspec.structs.replace(other, ais_score=-1.5),
                ),
            ),
            *written("answer", "22", ":30", chunk_ids=KEPT[1:]),
            finished("22:30", "documents", KEPT[1:], llm_calls=3, searches=1),
        ]
    )


def verify(*, chosen: str = "documents") -> list[Event]:
    """One chunk is looked at before the decision; draft and answer are weighed after it."""
    answers = {
        "draft": finished("10 pm", "draft", llm_calls=3, searches=3),
        "documents": finished("21:30", "documents", KEPT, llm_calls=3, searches=3),
    }
    chances = {"draft": (0.61, 0.34), "documents": (0.34, 0.61)}[chosen]
    weighed = AnswersWeighed(draft_chance=chances[0], documents_chance=chances[1], floor=0.0, chosen=chosen)
    return stamped(
        [
            started("dtr+verify"),
            *written("draft", "10", " pm"),
            UncertaintyMeasured(name="mean_nll", value=0.5),
            PathRetrieved(
                path="query", retriever="dense", query_text="q", chunks=(ranked(1, 1, 0.8),), before_decision=True
            ),
            DecisionMade(
                retrieve=True,
                uncertainty=0.5,
                threshold=None,
                reason="the documents are likelier right than the draft",
            ),
            *two_paths(),
            *written("answer", "21", ":30", chunk_ids=KEPT),
            weighed,
            answers[chosen],
        ]
    )


def verify_keeps_the_draft() -> list[Event]:
    """Looked up, and the draft is given all the same."""
    return verify(chosen="draft")


def reasoned(*tokens: tuple[str, float], chunk_ids: tuple[str, ...] = ()) -> list[Event]:
    """A call that writes a part of a chain of thought; each token has its own entropy."""
    return [
        msgspec.structs.replace(event, entropy=tokens[event.step][1]) if isinstance(event, TokenGenerated) else event
        for event in written("reasoning", *(text for text, _ in tokens), chunk_ids=chunk_ids, prompt_tokens=90)
    ]


def watched(*words: tuple[int, str, float, float | None, float | None, float | None]) -> list[Event]:
    """Words of one token: its step, the word, H, dH, d2H and the smoothed value."""
    return [
        WordMeasured(
            phase="reasoning",
            first_step=step,
            step=step,
            text=text,
            entropy=entropy,
            first_difference=first,
            second_difference=second,
            value=value,
            threshold=TRIGGER,
            fires=value is not None and value >= TRIGGER,
        )
        for step, text, entropy, first, second, value in words
    ]


def looked_up_at(word: str, value: float, cut: int, discarded: str, *query: tuple[str, float], found) -> list[Event]:
    """The end of a call is discarded, attention builds a query, and what it finds is kept."""
    reason = f'entropy turns sharply upwards at "{word}"'
    return [
        TokensDiscarded(phase="reasoning", from_step=cut, text=discarded, reason=reason),
        DecisionMade(retrieve=True, uncertainty=value, threshold=TRIGGER, reason=reason),
        QueryBuilt(
            method="attention",
            text=" ".join(text for text, _ in query),
            words=tuple(WeightedWord(text=text, weight=weight) for text, weight in query),
        ),
        PathRetrieved(
            path="reasoning",
            retriever="sparse",
            query_text=" ".join(text for text, _ in query),
            chunks=tuple(ranked(number, rank, score) for rank, (number, score) in enumerate(found, start=1)),
        ),
        ChunksSelected(
            score_name="reasoning",
            candidates=tuple(
                scored(number, rank, 0.8 - 0.1 * rank, None, kept=True, paths=("reasoning",))
                for rank, (number, _) in enumerate(found, start=1)
            ),
        ),
    ]


def looked_up_twice() -> list[Event]:
    """ETC: the trend of two words stops the chain of thought; what was found goes on with it, and it is concluded.

    d2H of "22:00" is 1.9 - 0.2 = 1.7, smoothed .95 x 1.7 + .05 x .1 = 1.62; that of "6:00" is 2.1 - 0.1 = 2.
    """
    first, second = (("handbook.md#1", "handbook.md#3"), ("handbook.md#2", "handbook.md#1"))
    return stamped(
        [
            started("etc", query="How long does quiet time last?"),
            *reasoned(("Quiet", 0.1), (" time", 0.2), (" starts", 0.4), (" at", 0.3), (" 22:00", 2.3), (".", 0.1)),
            *watched(
                (0, "Quiet", 0.1, None, None, None),
                (1, "time", 0.2, 0.1, None, None),
                (2, "starts", 0.4, 0.2, 0.1, 0.1),
                (4, "22:00", 2.3, 1.9, 1.7, 1.62),
            ),
            *looked_up_at(
                "22:00",
                1.62,
                4,
                " 22:00.",
                ("quiet", 0.41),
                ("time", 0.35),
                ("starts", 0.12),
                found=((1, 9.5), (3, 7.25)),
            ),
            *reasoned((" 21", 0.2), (":30", 0.1), (".", 0.1), chunk_ids=first),
            *reasoned(
                *((" The", 0.2), (" quiet", 0.2), (" ends", 0.3), (" at", 0.2), (" 6:00", 2.4), (", before", 1.5)),
                *((" breakfast", 1.1), (".", 0.1)),
            ),
            *watched(
                (1, "quiet", 0.2, None, None, None),
                (2, "ends", 0.3, 0.1, None, None),
                (4, "6:00", 2.4, 2.1, 2.0, 2.0),
                (6, "breakfast", 1.1, -1.3, -3.4, -2.86),
            ),
            *looked_up_at(
                "6:00", 2.0, 4, " 6:00, before breakfast.", ("quiet", 0.22), ("ends", 0.5), found=((2, 8.0), (1, 4.5))
            ),
            *reasoned((" 7", 0.3), (":00", 0.1), (".", 0.1), chunk_ids=second),
            *reasoned((" That", 0.3), (" is", 0.1), (" nine", 0.2), (" and", 0.1), (" a half", 0.1), (" hours", 0.1)),
            *watched(
                (2, "nine", 0.2, None, None, None),
                (4, "half", 0.1, -0.1, None, None),
                (5, "hours", 0.1, 0.0, 0.1, 0.1),
            ),
            DecisionMade(retrieve=False, uncertainty=0.1, threshold=TRIGGER, reason="no word fires"),
            *written("answer", "9.5", " hours", prompt_tokens=110),
            msgspec.structs.replace(
                finished(
                    "9.5 hours",
                    "documents",
                    ("handbook.md#1", "handbook.md#3", "handbook.md#2"),
                    llm_calls=6,
                    searches=2,
                    prompt_tokens=560,
                    reused_tokens=24,
                    generated_tokens=28,
                ),
                extraction="reasoned",
                timings=(
                    StageTime(stage="setup", ms=1.5),
                    StageTime(stage="reasoning", ms=4000.0),
                    StageTime(stage="decide", ms=40.0),
                    StageTime(stage="build_query", ms=20.0),
                    StageTime(stage="search_reasoning", ms=400.0),
                    StageTime(stage="select", ms=200.0),
                    StageTime(stage="answer", ms=400.0),
                ),
            ),
        ]
    )


def certain_while_writing() -> list[Event]:
    """ETC: no word fires, so that the chain of thought is of the model's memory alone; it names its answer itself."""
    return stamped(
        [
            started("etc", query="How long does quiet time last?"),
            *reasoned(
                ("So", 0.1), (" the", 0.1), (" answer", 0.1), (" is", 0.1), (" nine", 0.4), (" hours", 0.2), (".", 0.1)
            ),
            *watched((4, "nine", 0.4, None, None, None), (5, "hours", 0.2, -0.2, None, None)),
            DecisionMade(retrieve=False, uncertainty=None, threshold=TRIGGER, reason="no word fires"),
            msgspec.structs.replace(
                finished("nine hours", "draft", llm_calls=1, prompt_tokens=90, reused_tokens=4, generated_tokens=7),
                extraction="reasoned",
                timings=(StageTime(stage="setup", ms=1.5), StageTime(stage="reasoning", ms=900.0)),
            ),
        ]
    )


def probed(number: int, *layers: tuple[float, float]) -> ProbeMeasured:
    """The logits (retrieve, stop) of layers 8, 10, ... while round `number` was written."""
    retrieve, stop = (sum(logits[i] for logits in layers) for i in (0, 1))
    return ProbeMeasured(
        round=number,
        layers=tuple(LayerLogits(layer=8 + 2 * i, retrieve=r, stop=s) for i, (r, s) in enumerate(layers)),
        retrieve_score=retrieve,
        stop_score=stop,
        theta=0.0,
        rule="logits",
        retrieve=retrieve > stop,
    )


def probed_twice() -> list[Event]:
    """Probing-RAG: the states of the first rationale ask for a look-up, those of the second one do not."""
    rationale = " It is late.\nAnswer: 22:00"
    query = "When is quiet time? It is late. 22:00"
    return stamped(
        [
            started("probing"),
            *written("reasoning", " It is late.", "\nAnswer:", " 22:00", prompt_tokens=120),
            probed(0, (1.5, 0.5), (0.25, 0.5)),  # 1.75 > 1
            DecisionMade(
                retrieve=True, uncertainty=None, threshold=None, reason="the probers say look it up: 1.75 > 1.00"
            ),
            QueryBuilt(method="rationale", text=query),
            PathRetrieved(
                path="reasoning",
                retriever="sparse",
                query_text=query,
                chunks=(ranked(1, 1, 9.5), ranked(3, 2, 7.25)),
            ),
            ChunksSelected(
                score_name="reasoning",
                candidates=tuple(
                    scored(number, rank, 0.8 - 0.1 * rank, None, kept=True, paths=("reasoning",))
                    for rank, number in enumerate((1, 3), start=1)
                ),
            ),
            TokensDiscarded(phase="reasoning", from_step=0, text=rationale, reason="written anew with what was found"),
            *written(
                *("reasoning", " It starts at 21:30.", "\nAnswer:", " 21:30"),
                chunk_ids=("handbook.md#1", "handbook.md#3"),
                prompt_tokens=260,
            ),
            probed(1, (0.5, 1.25), (0.0, 0.5)),  # 0.5 < 1.75
            DecisionMade(retrieve=False, uncertainty=None, threshold=None, reason="the probers say stop: 0.50 <= 1.75"),
            msgspec.structs.replace(
                finished("21:30", "documents", ("handbook.md#1", "handbook.md#3"), llm_calls=2, searches=1),
                extraction="marked",
            ),
        ]
    )


def asked_in_steps() -> list[Event]:
    """DeepRAG: the first step searches, the second answers from memory, the third asks the first one again."""
    found = ("handbook.md#1", "handbook.md#3")
    return stamped(
        [
            started("deeprag"),
            *written("sub_query", "Follow up:", " When is quiet time?", prompt_tokens=300),
            SubQueryAsked(step=0, text="When is quiet time?"),
            StepDecided(
                step=0,
                retrieve=True,
                reason="the model searches",
                answer_logprob=-1.5,
                search_logprob=-0.25,
                prompt_tokens=310,
                reused_tokens=308,
            ),
            DecisionMade(retrieve=True, uncertainty=None, threshold=None, reason="the model searches"),
            QueryBuilt(method="sub_query", text="When is quiet time?"),
            PathRetrieved(
                path="reasoning",
                retriever="sparse",
                query_text="When is quiet time?",
                chunks=(ranked(1, 1, 9.5), ranked(3, 2, 7.25)),
            ),
            ChunksSelected(
                score_name="reasoning",
                candidates=tuple(
                    scored(number, rank, 0.8 - 0.1 * rank, None, kept=True, paths=("reasoning",))
                    for rank, number in enumerate((1, 3), start=1)
                ),
            ),
            *written("intermediate_answer", " 21", ":30", chunk_ids=found, prompt_tokens=420),
            StepAnswered(step=0, text="21:30", chunk_ids=found, retrieved=True),
            *written("sub_query", "Follow up:", " Who wakes us?", chunk_ids=found, prompt_tokens=424),
            SubQueryAsked(step=1, text="Who wakes us?"),
            StepDecided(
                step=1,
                retrieve=False,
                reason="the model answers from memory",
                answer_logprob=-0.25,
                search_logprob=-2.25,
                prompt_tokens=430,
                reused_tokens=428,
            ),
            DecisionMade(retrieve=False, uncertainty=None, threshold=None, reason="the model answers from memory"),
            *written("intermediate_answer", " the", " rooster", chunk_ids=found, prompt_tokens=434),
            StepAnswered(step=1, text="the rooster", retrieved=False),
            *written("sub_query", "Follow up:", " when is quiet time", chunk_ids=found, prompt_tokens=440),
            SubQueryAsked(step=2, text="when is quiet time", is_repeated=True),
            WarningRaised(code="repeated_sub_query", message="step 3 asks again what step 1 asked: the steps end here"),
            *written("answer", " 8", " hours", chunk_ids=found, prompt_tokens=450),
            msgspec.structs.replace(
                finished("8 hours", "documents", found, llm_calls=8, searches=1), extraction="final"
            ),
        ]
    )


def failed() -> list[Event]:
    """The model gave up in the middle of its draft."""
    return stamped(
        [
            started(),
            *written("draft", "10", " pm")[:2],
            RunFailed(error="ModelError", message="the model broke", hint="adaptrag doctor", exit_code=4),
        ]
    )


def cited(*sentences: tuple[str, tuple[int, ...]], supported: bool = True) -> list[Event]:
    """Sentences of two tokens, each with its markers; they come before the first token of the next sentence."""
    sentences = sentences or (("Quiet time is 21:30.", (1,)), ("It ends at 7.", ()))
    texts = [part for text, _ in sentences for part in (f" {text.split()[0]}", text.removeprefix(text.split()[0]))]
    prompt, *tokens, done = written("answer", *texts, chunk_ids=KEPT)
    generating: list[Event] = [prompt]
    for number, (text, markers) in enumerate(sentences):
        generating += tokens[2 * number : 2 * number + 2]
        if number == len(sentences) - 1:
            generating.append(done)
        chunk_ids = tuple(KEPT[marker - 1] for marker in markers)
        generating.append(SentenceCited(text=text, end_step=2 * number + 2, chunk_ids=chunk_ids, markers=markers))
    marked = " ".join(text + "".join(f" [{marker}]" for marker in markers) for text, markers in sentences)
    answer = finished(*((marked, "documents") if supported else (NOT_TOLD, "none")), KEPT, llm_calls=3, searches=2)
    return stamped(
        [
            started(style="cited"),
            *drafted(0.57, retrieve=True),
            *two_paths(),
            *generating,
            EvidenceJudged(supported=supported, answer_uncertainty=0.5, best_query_score=0.8, reason="as judged"),
            msgspec.structs.replace(answer, extraction="cited") if supported else answer,
        ]
    )


ALL = {
    "skipped": skipped,
    "retrieved": retrieved,
    "always": always,
    "unanswered": unanswered,
    "never": never,
    "blank_draft": blank_draft,
    "failed": failed,
    "cited": cited,
    "judge": judge,
    "judge_skips": judge_skips,
    "pairs": pairs,
    "pairs_agree": pairs_agree,
    "hyde": hyde,
    "thinking_aloud": thinking_aloud,
    "rerank": rerank,
    "verify": verify,
    "verify_keeps_the_draft": verify_keeps_the_draft,
    "looked_up_twice": looked_up_twice,
    "certain_while_writing": certain_while_writing,
    "probed_twice": probed_twice,
    "asked_in_steps": asked_in_steps,
}
