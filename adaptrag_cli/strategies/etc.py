"""ETC, entropy-trend constraint: look up where the entropies of the words that are being written turn sharply.

Algorithm (Sec. 3; METHODS 4). H_1..H_m are the entropies of the content words of one call, each the greatest of its
tokens' (nats):
- dH_i = H_{i+1} - H_i (Eq. 6), d2H_i = H_{i+2} - 2 H_{i+1} + H_i (Eq. 9), known with word i + 2;
- E_t = mean(d2H_1..d2H_t) (Eq. 11), w_t = |d2H_{t-1} - E_t| / (|d2H_t - E_t| + |d2H_{t-1} - E_t|) (Eq. 10);
- m_t = (.9 + .1 w_t) d2H_t + (.1 - .1 w_t) d2H_{t-1} (smoothing `code`);
- the first word with |m_t| >= alpha (`trigger`) fires. The text is cut before it, and goes on as `watching.py` says.
The query is made of the content words of the question and of the kept text: the `query_words` of them to which the
firing words of the sentence attend most in the last layer (Sec. 3.3).

`--mode code`: a_t m_t > alpha with its sign, where a_t is the word's greatest attention to a word of the text, divided
by the mean of its sentence. `--difference first` watches dH, `--smoothing fixed|none` are the ablations of Tab. 4.

Differs from the paper:
- m_t is smoothed as in the released code. Eq. 12 as printed (`literal`) has weights that do not sum to 1, and with
  weights that do (`normalised`) m_t is E_t whenever the differences lie on both sides of it: turns disappear.
- Content words are told apart by a list of function words (the paper's wording), not by parts of speech (its code).
- A model without attention still runs: queries are the content words of the question and of the last sentence.
- At most `max_retrievals` look-ups; all calls together write `reasoning_tokens` tokens (the code gives each as many).
- The text ends once it has come to its answer: what the code lets the model add would only stand behind that.
- The examples are ours, and they stand before the passages, so that the KV cache keeps them. What follows them, the
  question and the text, is evaluated anew when passages come before it, and again when they are gone.
- No "Answer:" ends the prompt, as it does there: after one, small models rather answer than reason.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

from adaptrag_cli.errors import MissingCapability
from adaptrag_cli.events import Candidate, Event, QueryBuilt
from adaptrag_cli.models.base import Generation
from adaptrag_cli.stepwise.attended import etc_query
from adaptrag_cli.stepwise.firing import Trigger, attention_paid, first_trigger
from adaptrag_cli.stepwise.spans import find_words
from adaptrag_cli.stepwise.trend import watch_trend
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
    gives_attention,
    named,
    nearest,
    query_by_attention,
    watch,
)


class EntropyTrend:
    """Reason, and look up where the entropy of the words turns."""

    name: ClassVar[str] = "etc"
    paper: ClassVar[str] = "ETC: Entropy-Trend Constraint (second difference of word entropies)"
    summary: ClassVar[str] = "think step by step, and look up where the entropy of the words turns sharply"
    requires: ClassVar[frozenset[str]] = frozenset({"logprobs", "entropy"})
    wants: ClassVar[frozenset[str]] = frozenset({"attention"})
    uses: ClassVar[frozenset[str]] = REASONING_USES | RETRIEVING_USES | WATCHING_USES | {"smoothing", "difference"}
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = Options(trigger=1.0, retriever="sparse")

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """R look-ups cost 2 R + 1 calls, fewer where a look-up ends the text, and one more to conclude."""
        if use.options.mode == "code" and not gives_attention(use.model):
            raise MissingCapability(
                f"strategy 'etc' with mode 'code' needs attention, which model {use.model.info.name!r} does not give",
                "use --mode paper, or choose another model with --model",
            )
        return (yield from watch(_TrendWatcher(thought=Thought(query=query, use=use))))

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Search for the question: the queries of a run are made of a text that is not written yet."""
        return (yield from look_up_question(query, use))


@dataclass(kw_only=True)
class _TrendWatcher:
    thought: Thought

    def measure(self, probe: Generation) -> Sighting:
        options = self.thought.use.options
        words = find_words([token.text for token in probe.tokens], rule="etc")
        paid: tuple[float, ...] = ()
        if options.mode == "code":
            attention = attend_alone(self.thought, probe)
            paid = attention_paid(attention.rows, attention.first_row, words, 0)
        watched = watch_trend(
            words,
            [token.entropy for token in probe.tokens],
            options.trigger,
            smoothing=options.smoothing,
            difference=options.difference,
            mode=options.mode,
            attention=paid,
        )
        trigger = first_trigger(watched)
        counted = watched if trigger is None else [each for each in watched if each.word == trigger.word]
        return Sighting(
            words=words,
            watched=watched,
            trigger=trigger,
            cut=cut_before(probe, words[trigger.word].first) if trigger else len(probe.tokens),
            decisive=nearest([self._weight_of(each.value) for each in counted]),
        )

    def why(self, sighting: Sighting, trigger: Trigger) -> str:
        value = next(each.value for each in sighting.watched if each.word == trigger.word)
        change = "turns" if self.thought.use.options.difference == "second" else "changes"
        direction = "" if value is None else " upwards" if value >= 0 else " downwards"
        return f"entropy {change} sharply{direction} at {named(sighting, trigger)}"

    def build_query(self, probe: Generation, sighting: Sighting) -> QueryBuilt | None:
        return query_by_attention(etc_query, "etc", self.thought, probe, sighting, None)

    def _weight_of(self, value: float | None) -> float | None:
        """The paper fires on sharp drops too."""
        return abs(value) if value is not None and self.thought.use.options.mode == "paper" else value
