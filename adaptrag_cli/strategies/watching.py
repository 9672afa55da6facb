"""Watch a chain of thought while it is written, and look up where a word fires: the loop that ETC and DRAGIN share.

Algorithm (METHODS 4.7, 5), from the empty text on:
1. probe = LLM(examples, question, text). An empty one ends the text.
2. The method measures the words of the probe. Where none fires, the probe is kept, and the text ends.
3. Where one fires, the probe is kept up to the method's cut; the method builds a query; D = top k for it.
4. The first sentence of LLM(examples, D, question, text) is kept, D is dropped (as the context policy says), on with 1.

The text ends as well when it has come to its answer, when the model ended it with the sentence of step 4, when that
sentence is empty (it would fire at the same place for ever), and when its tokens or its look-ups are used up.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from adaptrag_cli.events import DecisionMade, Event, QueryBuilt, WarningRaised, WordMeasured
from adaptrag_cli.models.base import Attention, Generation, LanguageModel, Prompt
from adaptrag_cli.stepwise.attended import Placed, content_words_query
from adaptrag_cli.stepwise.firing import Floats, Trigger, Watched
from adaptrag_cli.stepwise.spans import Word, WordRule, bare, find_words
from adaptrag_cli.strategies.base import Answer
from adaptrag_cli.strategies.reasoning import Thought, look_ups_used_up

WATCHING_USES = frozenset({"trigger", "mode", "query_words"})
"""Options of the methods that watch words."""


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """What a method saw in a probe."""

    words: tuple[Word, ...]
    """All words of the probe."""
    watched: tuple[Watched, ...]
    """The numbers of those that the method measures."""
    trigger: Trigger | None
    cut: int
    """The first token that is discarded when the trigger is followed."""
    decisive: float | None
    """The value that fires; without a trigger the one that came nearest to it. None where it is undefined."""


class Choose(Protocol):
    """`etc_query` or `dragin_query`."""

    def __call__(
        self,
        rows: Floats,
        first_row: int,
        before: Sequence[Placed],
        written: Placed,
        hits: Sequence[int],
        *,
        limit: int,
    ) -> QueryBuilt | None: ...


class Watcher(Protocol):
    """One method at work on one thought."""

    thought: Thought

    def measure(self, probe: Generation) -> Sighting:
        """Measure the words of a probe."""
        ...

    def why(self, sighting: Sighting, trigger: Trigger) -> str:
        """Say what fires and where."""
        ...

    def build_query(self, probe: Generation, sighting: Sighting) -> QueryBuilt | None:
        """Put a query together of what the firing words attend to; None where there is nothing to choose from."""
        ...


def watch(watcher: Watcher) -> Generator[Event, None, Answer]:
    """Write the chain of thought and conclude it."""
    thought = watcher.thought
    threshold = thought.use.options.trigger
    if not gives_attention(thought.use.model):
        yield WarningRaised(
            code="no_attention",
            message=f"model {thought.use.model.info.name!r} gives no attention: queries are the content words of the "
            "question and of the last sentence",
        )
    while thought.tokens_left and not thought.is_concluded:
        probe = yield from thought.think(thought.tokens_left)
        if not probe.text.strip():
            yield DecisionMade(retrieve=False, uncertainty=None, threshold=threshold, reason="the text has ended")
            break
        sighting = watcher.measure(probe)
        trigger = sighting.trigger if thought.may_look_up else None
        yield from _tell_words(sighting, trigger, threshold)
        if trigger is None:
            yield from _let_stand(watcher, probe, sighting)
            break
        reason = watcher.why(sighting, trigger)
        yield from thought.keep(probe, until=sighting.cut, reason=reason)
        yield DecisionMade(retrieve=True, uncertainty=sighting.decisive, threshold=threshold, reason=reason)
        if not any(word.is_content for word in sighting.words[: trigger.word]) and not thought.text.strip():
            yield WarningRaised(
                code="first_word_fired",
                message="the first word fires: only the question is there to make a query of",
            )
        query = yield from _choose_query(watcher, probe, sighting)
        yield from thought.look_up(query)
        if not (yield from thought.write(thought.tokens_left, max_sentences=1)):
            break
    return (yield from thought.conclude())


def gives_attention(model: LanguageModel) -> bool:
    """Whether the model tells what its tokens attend to."""
    return "attention" in model.info.capabilities


def query_by_attention(
    choose: Choose, rule: WordRule, thought: Thought, probe: Generation, sighting: Sighting, attention: Attention | None
) -> QueryBuilt | None:
    """Put a query together by a method's rule of choice; the attention is read where it is not known yet."""
    if sighting.trigger is None:
        return None
    attention = attention or attend_in_context(thought, probe)
    before, written = place_words(thought, probe, sighting, rule)
    limit = thought.use.options.query_words
    return choose(attention.rows, attention.first_row, before, written, sighting.trigger.hits, limit=limit)


def nearest(values: Sequence[float | None]) -> float | None:
    """The greatest of the values that are defined."""
    return max((value for value in values if value is not None), default=None)


def named(sighting: Sighting, trigger: Trigger) -> str:
    """The word that fires, between quotation marks."""
    return f'"{bare(sighting.words[trigger.word].text)}"'


def _tell_words(sighting: Sighting, trigger: Trigger | None, threshold: float) -> Generator[Event, None, None]:
    """Tell the content words, and the function words that have a value or stop the text."""
    for each in sighting.watched:
        if not (each.is_content or each.value or each.fires):
            continue
        word = sighting.words[each.word]
        yield WordMeasured(
            phase="reasoning",
            first_step=word.first,
            step=word.end - 1,
            text=word.text.strip(),
            entropy=each.entropy,
            first_difference=each.first_difference,
            second_difference=each.second_difference,
            attention=each.attention,
            value=each.value,
            threshold=threshold,
            is_absolute=each.is_absolute,
            fires=trigger is not None and each.word == trigger.word,
        )


def _let_stand(watcher: Watcher, probe: Generation, sighting: Sighting) -> Generator[Event, None, None]:
    thought = watcher.thought
    options = thought.use.options
    yield from thought.keep(probe)
    reason = "no word fires"
    if sighting.trigger is not None:
        reason = f"{watcher.why(sighting, sighting.trigger)}, but the look-ups are used up"
        yield look_ups_used_up(options)
    yield DecisionMade(retrieve=False, uncertainty=sighting.decisive, threshold=options.trigger, reason=reason)


def _choose_query(watcher: Watcher, probe: Generation, sighting: Sighting) -> Generator[Event, None, QueryBuilt]:
    """The method's query; else the content words; else the question as it stands (METHODS 4.8, 13.11)."""
    thought = watcher.thought
    if gives_attention(thought.use.model):
        built = watcher.build_query(probe, sighting)
        if built is not None:
            return built
        yield WarningRaised(
            code="empty_query", message="attention chooses no word for the query: content words are searched for"
        )
    built = content_words_query(thought.query, thought.text, limit=thought.use.options.query_words)
    return built or QueryBuilt(method="question", text=thought.query)


def attend_alone(thought: Thought, probe: Generation) -> Attention:
    """Read what the tokens of a probe attend to when nothing stands before them, as the released codes do."""
    return thought.use.model.attend(Prompt(text="", token_ids=()), [token.id for token in probe.tokens])


def attend_in_context(thought: Thought, probe: Generation) -> Attention:
    """Read what the tokens of a probe attend to where they were written.

    The first row is that of the prompt's last token: the one that chose the first token of the probe.
    """
    prompt = _prompt(thought)
    before = Prompt(text=prompt.text, token_ids=prompt.token_ids[:-1])
    return thought.use.model.attend(before, [prompt.token_ids[-1], *(token.id for token in probe.tokens)])


def place_words(thought: Thought, probe: Generation, sighting: Sighting, rule: WordRule) -> tuple[list[Placed], Placed]:
    """Find the words of the question and of the text before the probe, and those of the probe, among the keys."""
    token_ids = _prompt(thought).token_ids
    tokens = thought.use.model.token_texts(token_ids)
    text = "".join(tokens)
    kept = "".join(token.text for token in probe.tokens[: sighting.cut])
    earlier = thought.text.removesuffix(kept)
    end = text.rfind(earlier) if earlier else len(text)
    places = ((text.rfind(thought.query, 0, max(end, 0)), thought.query), (end, earlier))
    before = [_place(tokens, start, start + len(each), rule) for start, each in places if start >= 0 and each]
    return before, Placed(words=sighting.words, at=len(token_ids))


def _place(tokens: Sequence[str], start: int, end: int, rule: WordRule) -> Placed:
    """The words of the tokens that hold the characters from `start` to `end`."""
    ends = list(accumulate(len(token) for token in tokens))
    first, last = bisect_right(ends, start), bisect_left(ends, end)
    return Placed(words=find_words(tokens[first : last + 1], rule=rule), at=first)


def _prompt(thought: Thought) -> Prompt:
    assert thought.prompt is not None, "a probe was written from a prompt"
    return thought.prompt
