"""DRAGIN: look up where a word is uncertain and the rest of the text leans on it (ETC's and others' baseline).

Algorithm (METHODS 5). H_i is the entropy of word i, the mean of its tokens' (nats); the text is cut and goes on as
`watching.py` says.
- RIND, `--mode code` (default): a_i = the greatest attention that the word receives in the last layer, its own row
  included, over the text alone, divided by the mean of its sentence. The first sentence with a word of H_i a_i > theta
  (`trigger`) is dropped as a whole.
- RIND, `--mode paper`: S_i = H_i a_max(i) s_i > theta, where a_max(i) is the greatest attention from a later token and
  s_i is 0 for function words. The text is cut before the first such word.
- QFS: for each content word that fires in the sentence, the attention of the tokens that chose it, over the question
  and the text before it; the `query_words` content words that receive most are the query.

Differs from the paper:
- The code's form is the default, because the thresholds that were published (0.6 to 1.5) belong to it: a_max is not
  normalised in the paper's form, and its scores stay far below them.
- Function words may stop a sentence without a content word that fires (the code then divides by zero): the query is
  then made of what the tokens before those function words attend to.
- The attention for the query is read where the text was written, examples included; the code reads it once more over
  question and text alone. Only the question and the text are candidates in both.
- A query is not cut to its last 64 tokens (as in the code): the `query_words` words that it has at most are few enough.
- Content words are told apart by a list of function words, as the paper words it, not by parts of speech.
- At most `max_retrievals` look-ups; all calls together write `reasoning_tokens` tokens (the code gives each as many).
- The examples are ours, and they stand before the passages, so that the KV cache keeps them. What follows them, the
  question and the text, is evaluated anew when passages come before it, and again when they are gone.
- No "Answer:" ends the prompt, as it does there: after one, small models rather answer than reason.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

from adaptrag_cli.events import Candidate, Event, QueryBuilt
from adaptrag_cli.models.base import Attention, Generation
from adaptrag_cli.stepwise.attended import dragin_query
from adaptrag_cli.stepwise.firing import Trigger, first_trigger
from adaptrag_cli.stepwise.rind import watch_rind
from adaptrag_cli.stepwise.spans import Word, find_sentences, find_words
from adaptrag_cli.strategies.base import Answer, Options, Resources
from adaptrag_cli.strategies.reasoning import (
    REASONING_USES,
    RETRIEVING_USES,
    Thought,
    cut_before,
    look_up_question,
)
from adaptrag_cli.strategies.watching import (
    WATCHING_USES,
    Sighting,
    attend_alone,
    attend_in_context,
    named,
    nearest,
    query_by_attention,
    watch,
)


class Dragin:
    """Reason, and look up where an uncertain word matters to what follows."""

    name: ClassVar[str] = "dragin"
    paper: ClassVar[str] = "DRAGIN (Su et al., 2024): RIND and QFS"
    summary: ClassVar[str] = "think step by step, and look up where an unsure word is leaned on"
    requires: ClassVar[frozenset[str]] = frozenset({"logprobs", "entropy", "attention"})
    uses: ClassVar[frozenset[str]] = REASONING_USES | RETRIEVING_USES | WATCHING_USES
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = Options(trigger=1.0, mode="code", retriever="sparse")

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """R look-ups cost 2 R + 1 calls, fewer where a look-up ends the text, and one more to conclude."""
        return (yield from watch(_RindWatcher(thought=Thought(query=query, use=use))))

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Search for the question: the queries of a run are made of a text that is not written yet."""
        return (yield from look_up_question(query, use))


@dataclass(kw_only=True)
class _RindWatcher:
    thought: Thought
    in_context: Attention | None = None
    """Of the last probe, once it is read."""

    def measure(self, probe: Generation) -> Sighting:
        options = self.thought.use.options
        words = find_words([token.text for token in probe.tokens], rule="dragin")
        if options.mode == "code":
            self.in_context, received = None, attend_alone(self.thought, probe).received
        else:
            self.in_context = attend_in_context(self.thought, probe)
            received = self.in_context.received_later[1:]  # the first row is the prompt's
        entropies = [token.entropy for token in probe.tokens]
        watched = watch_rind(words, entropies, received.tolist(), options.trigger, mode=options.mode)
        trigger = first_trigger(watched)
        counted = watched if trigger is None else [each for each in watched if each.word == trigger.word]
        return Sighting(
            words=words,
            watched=watched,
            trigger=trigger,
            cut=cut_before(probe, self._first_dropped(words, trigger)) if trigger else len(probe.tokens),
            decisive=nearest([each.value for each in counted]),
        )

    def why(self, sighting: Sighting, trigger: Trigger) -> str:
        return f"unsure at {named(sighting, trigger)}"

    def build_query(self, probe: Generation, sighting: Sighting) -> QueryBuilt | None:
        return query_by_attention(dragin_query, "dragin", self.thought, probe, sighting, self.in_context)

    def _first_dropped(self, words: tuple[Word, ...], trigger: Trigger) -> int:
        if self.thought.use.options.mode == "code":
            return find_sentences(words)[trigger.sentence].first
        return words[trigger.word].first
