"""FLARE: look ahead one sentence; where it is unsure, look up what it says and write it again.

Algorithm (Jiang et al., 2023, FLARE-direct, sections 3.2.1 to 3.2.3; METHODS 6.1):
1. D = top k for the question.
2. sentence = LLM(examples, D, question, text). Where all its tokens have p > theta it is kept; on with 2.
3. Else the query is the sentence without its tokens of p <= beta (`masked`); or a question to which its least likely
   part is the answer, which the model writes (`--query-form written`); or the whole sentence (`sentence`). Where that
   leaves nothing to search for, the sentence is kept; on with 2.
4. D = top k for the query; the sentence is written again and kept as it comes; on with 2.
The text ends where the model ends it, and where its tokens are used up. When the look-ups are used up, an unsure
sentence stands, and the rest is written in one call. `--trigger` is 1 - theta, so that, as with the other methods, more
is looked up below it; 0 looks up every sentence.

`--mode code` is what stands for FLARE in the tables of DRAGIN and ETC (METHODS 5):
1. rest = LLM(examples, D, question, text); D is empty at first.
2. The first sentence with mean(1 - p) > trigger is cut off, with what follows it. Where there is none, the rest is kept
   and the text ends.
3. The query is that sentence without its tokens of 1 - p > trigger.
4. D = top k for the query; all of LLM(examples, D, question, text) is kept; on with 1.
It is DRAGIN's trigger with the rest as in FLARE here: k is 2, and chunks are read until the next look-up. In the tables
they serve that one call and are 3, which is `--context-policy discard --top-k 3`.

Differs from the paper:
- A sure sentence is kept as it was written. The released code writes it again, which gives the same text for one more
  call.
- The model stops after one sentence of at most 64 tokens; there it writes 64 tokens, whose first sentence is kept.
- `written` asks one question, about the least likely part, and searches once. The paper asks one about each unsure part
  and merges what is found: as many calls and searches more.
- A line break ends the text (there a blank line does), and a sentence may be of any length (there a first sentence has
  5 characters at least).
- No "Answer:" ends the prompt: after one, small models rather answer than reason.
- A query is cut to the last 64 tokens of its sentence (as in the released code).
- The text ends after 128 tokens, and 5 look-ups are the most (the paper: 256 tokens, and as many as it takes).
- DRAGIN tunes the trigger of `--mode code` between 0.06 and 0.4 for each model; both modes begin with 0.2 here.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import ClassVar

from adaptrag_cli.events import Candidate, DecisionMade, Event, QueryBuilt, WarningRaised
from adaptrag_cli.models.base import Generation
from adaptrag_cli.strategies.base import Answer, Options, Resources
from adaptrag_cli.strategies.reasoning import (
    REASONING_USES,
    RETRIEVING_USES,
    Thought,
    cut_before,
    look_up_question,
    look_ups_used_up,
)
from adaptrag_cli.strategies.unsure import Reading, Unsure, see_rest, see_sentence, tell_words, write_query


class FLARE:
    """Look up when the next sentence holds an unlikely word."""

    name: ClassVar[str] = "flare"
    paper: ClassVar[str] = "FLARE (Jiang et al., 2023), FLARE-direct"
    summary: ClassVar[str] = "think step by step; look up each sentence with an unlikely word, and write it again"
    requires: ClassVar[frozenset[str]] = frozenset({"logprobs"})
    uses: ClassVar[frozenset[str]] = (
        REASONING_USES | RETRIEVING_USES | {"trigger", "mode", "query_form", "mask_below", "look_ahead_tokens"}
    )
    needs_index: ClassVar[bool] = True
    highest_trigger: ClassVar[float] = 1.0
    defaults: ClassVar[Options] = Options(trigger=0.2, retriever="sparse", top_k=2, context_policy="replace")

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Write the chain of thought in the chosen mode, and conclude it."""
        thought = Thought(query=query, use=use)
        if use.options.mode == "paper":
            yield DecisionMade(
                retrieve=True, uncertainty=None, threshold=None, reason="the question, before anything is written"
            )
            yield from thought.look_up(QueryBuilt(method="question", text=query), path="query")
        yield from _write(thought)
        return (yield from thought.conclude())

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Search for the question: what is looked up before anything is written."""
        return (yield from look_up_question(query, use))


def _write(thought: Thought) -> Generator[Event, None, None]:
    options = thought.use.options
    standing: list[Reading] = []  # what was kept as it was written, since the last look-up
    goes_on = True
    while goes_on and thought.tokens_left:
        probe = yield from thought.think(_length(thought), max_sentences=_sentences(options))
        if not probe.text.strip():
            if not standing:
                yield DecisionMade(
                    retrieve=False, uncertainty=None, threshold=options.trigger, reason="the text has ended"
                )
            break
        reading = see_sentence(probe, options) if options.mode == "paper" else see_rest(probe, options)
        looks_up = reading.is_searchable and thought.may_look_up
        yield from tell_words(reading, options.trigger, fires=looks_up)
        if reading.unsure is not None and looks_up:
            yield from _look_up_instead(thought, probe, reading.unsure)
            goes_on = yield from thought.write(_length(thought), max_sentences=_sentences(options))
            standing = []
        else:
            goes_on = yield from _let_stand(thought, probe, reading)
            standing.append(reading)
    if standing:
        yield DecisionMade(
            retrieve=False,
            uncertainty=max(reading.doubt for reading in standing),
            threshold=options.trigger,
            reason=_reason_to_stand(standing),
        )


def _length(thought: Thought) -> int:
    """How many tokens the next call may write."""
    options = thought.use.options
    return min(options.look_ahead_tokens, thought.tokens_left) if options.mode == "paper" else thought.tokens_left


def _sentences(options: Options) -> int:
    return 1 if options.mode == "paper" else 0


def _look_up_instead(thought: Thought, probe: Generation, unsure: Unsure) -> Generator[Event, None, None]:
    """Discard the unsure sentence and what follows it, and search for what it said."""
    written = thought.text + "".join(token.text for token in probe.tokens[: unsure.end])
    yield from thought.keep(probe, until=cut_before(probe, unsure.first), reason=unsure.reason)
    yield DecisionMade(
        retrieve=True, uncertainty=unsure.doubt, threshold=thought.use.options.trigger, reason=unsure.reason
    )
    query = yield from write_query(thought.use, thought.query, written, unsure)
    yield from thought.look_up(query)


def _let_stand(thought: Thought, probe: Generation, reading: Reading) -> Generator[Event, None, bool]:
    """Keep what was written; say whether the text goes on after it."""
    options = thought.use.options
    yield from thought.keep(probe)
    thought.forget_chunks()
    goes_on = options.mode == "paper" and thought.goes_on_after(probe)
    if reading.is_searchable:
        yield look_ups_used_up(options)
        if goes_on and thought.tokens_left:
            yield from thought.keep((yield from thought.think(thought.tokens_left)))
        return False
    if reading.unsure is not None:
        yield WarningRaised(
            code="empty_query", message="an unsure sentence stands as it is: it holds nothing that can be searched for"
        )
    return goes_on


def _reason_to_stand(standing: Sequence[Reading]) -> str:
    if standing[-1].is_searchable:
        return "the look-ups are used up"
    if any(reading.unsure is not None for reading in standing):
        return "what is unsure holds nothing that can be searched for"
    return "no sentence is unsure"
