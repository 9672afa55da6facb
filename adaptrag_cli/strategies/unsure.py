"""Unsure sentences in what a model has just written, and the query that each becomes: FLARE, in both its modes."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import msgspec

from adaptrag_cli import prompts
from adaptrag_cli.events import Event, QueryBuilt, WarningRaised, WordMeasured
from adaptrag_cli.models.base import Generation
from adaptrag_cli.stepwise.confidence import (
    QUERY_TOKENS,
    doubt,
    first_doubtful_sentence,
    is_unsure,
    likely,
    masked_query,
    undoubted,
    unsure_terms,
)
from adaptrag_cli.stepwise.spans import Word, bare, find_sentences, find_words, pooled
from adaptrag_cli.strategies.base import Options, Resources
from adaptrag_cli.strategies.steps import generate

_LINE_END = ("\n",)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How an unsure sentence becomes a query."""

    query: QueryBuilt
    term: str = ""
    """What the model writes a question about; where there is nothing, `query` is searched for."""


@dataclass(frozen=True, kw_only=True)
class Unsure:
    """A sentence that is to be looked up: the tokens `first` to `end`, without `end`."""

    first: int
    end: int
    doubt: float
    """What was held against the threshold."""
    word: int
    """Number of its least likely word in the text."""
    reason: str
    plan: Plan | None
    """None where nothing is left to search for."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What was seen in a text that was just written."""

    words: tuple[Word, ...]
    entropies: tuple[float, ...]
    """Of each word, in nats: the greatest of its tokens'."""
    doubts: tuple[float, ...]
    """What is held against the threshold for each word: its own, or its sentence's."""
    unsure: Unsure | None

    @property
    def doubt(self) -> float:
        """The greatest."""
        return max(self.doubts)

    @property
    def is_searchable(self) -> bool:
        """Whether something is unsure and can be searched for."""
        return self.unsure is not None and self.unsure.plan is not None


def see_sentence(sentence: Generation, options: Options) -> Reading:
    """FLARE: a sentence is unsure if any of its tokens is; the doubt of a word is 1 - p of its least likely token."""
    texts, probabilities = _read(sentence)
    words = find_words(texts)
    doubts = _doubts(words, probabilities)
    unsure = None
    if is_unsure(probabilities, 1 - options.trigger):
        stays = likely(probabilities, options.mask_below)
        number = doubts.index(max(doubts))
        unsure = Unsure(
            first=0,
            end=len(texts),
            doubt=doubts[number],
            word=number,
            reason=f'"{_shown(words[number])}" is only {1 - doubts[number]:.0%} likely',
            plan=_plan(texts, probabilities, stays, options.mask_below, options),
        )
    return _reading(sentence, words, doubts, unsure)


def see_rest(rest: Generation, options: Options) -> Reading:
    """DRAGIN's FLARE: the first sentence with a mean 1 - p above the threshold is unsure."""
    texts, probabilities = _read(rest)
    words = find_words(texts)
    sentences = find_sentences(words)
    doubts = [doubt(probabilities[each.first : each.end]) for each in sentences]
    unsure = None
    found = first_doubtful_sentence(sentences, probabilities, options.trigger)
    if found is not None:
        sentence = sentences[found]
        tokens = slice(sentence.first, sentence.end)
        of_words = _doubts(words[sentence.first_word : sentence.end_word], probabilities)
        number = sentence.first_word + of_words.index(max(of_words))
        unsure = Unsure(
            first=sentence.first,
            end=sentence.end,
            doubt=doubts[found],
            word=number,
            reason=f'a sentence is doubted by {doubts[found]:.2f}, most of all "{_shown(words[number])}"',
            plan=_plan(
                texts[tokens],
                probabilities[tokens],
                undoubted(probabilities[tokens], options.trigger),
                1 - options.trigger,
                options,
            ),
        )
    return _reading(rest, words, [doubts[word.sentence] for word in words], unsure)


def tell_words(reading: Reading, threshold: float, *, fires: bool) -> Generator[Event, None, None]:
    """Tell the numbers of every word; `fires` says whether the unsure sentence is looked up."""
    for number, (word, entropy, value) in enumerate(zip(reading.words, reading.entropies, reading.doubts, strict=True)):
        if word.text.strip():
            yield WordMeasured(
                phase="reasoning",
                first_step=word.first,
                step=word.end - 1,
                text=word.text.strip(),
                entropy=entropy,
                value=value,
                threshold=threshold,
                fires=fires and reading.unsure is not None and number == reading.unsure.word,
            )


def write_query(use: Resources, query: str, written: str, unsure: Unsure) -> Generator[Event, None, QueryBuilt]:
    """Give the query of an unsure sentence, for which the model may have to write a question first.

    Args:
        written: The chain of thought up to and with the sentence.
    """
    assert unsure.plan is not None  # it is looked up only if something is left to search for
    if not unsure.plan.term:
        return unsure.plan.query
    prompt = use.model.build_prompt(prompts.question_about(query, written.strip(), unsure.plan.term))
    question = (yield from generate(use, "search_query", prompt, max_tokens=QUERY_TOKENS, stop=_LINE_END)).text.strip()
    if any(character.isalnum() for character in question):
        return QueryBuilt(method="written", text=question)
    yield WarningRaised(
        code="empty_query",
        message=f"the model wrote no question about {unsure.plan.term!r}: its sentence is searched for instead",
    )
    return unsure.plan.query


def _plan(
    tokens: Sequence[str], probabilities: Sequence[float], stays: Sequence[bool], beta: float, options: Options
) -> Plan | None:
    whole = _sentence_query(tokens)
    if options.query_form == "sentence":
        return Plan(query=whole) if whole is not None else None
    terms = unsure_terms(find_words(tokens), probabilities, beta) if options.query_form == "written" else ()
    if terms and whole is not None:
        unlikeliest = min(terms, key=lambda term: min(probabilities[term.first : term.end]))
        return Plan(query=whole, term=unlikeliest.text)
    masked = masked_query(tokens, stays)
    return Plan(query=masked) if masked is not None else None


def _sentence_query(tokens: Sequence[str]) -> QueryBuilt | None:
    built = masked_query(tokens, [True] * len(tokens))
    return msgspec.structs.replace(built, method="sentence") if built is not None else None


def _reading(written: Generation, words: tuple[Word, ...], doubts: Sequence[float], unsure: Unsure | None) -> Reading:
    entropies = pooled(words, [token.entropy for token in written.tokens], "max")
    return Reading(words=words, entropies=entropies, doubts=tuple(doubts), unsure=unsure)


def _read(written: Generation) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The texts of the tokens, and their probabilities."""
    return (
        tuple(token.text for token in written.tokens),
        tuple(math.exp(token.logprob) for token in written.tokens),
    )


def _doubts(words: Sequence[Word], probabilities: Sequence[float]) -> list[float]:
    """1 - p of the least likely token of each word."""
    return [1 - min(probabilities[word.first : word.end]) for word in words]


def _shown(word: Word) -> str:
    return bare(word.text) or word.text.strip()
