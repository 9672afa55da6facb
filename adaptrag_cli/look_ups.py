"""Look-ups of methods that write and search in turn, in words that the terminal, exports and panels share."""

from __future__ import annotations

from collections.abc import Mapping

from adaptrag_cli.events import GenerationReused, PromptBuilt, QueryBuilt, WordMeasured
from adaptrag_cli.run_summary import Round, RunSummary

QUERY_METHODS: Mapping[str, str] = {
    "attention": "words chosen by attention",
    "content_words": "content words, without attention",
    "masked": "the sentence without its unlikely words",
    "written": "written by the model",
    "sentence": "the sentence as it stood",
    "tail": "the end of the text",
    "question": "the question",
    "sub_query": "what the step asks",
    "rationale": "question, rationale and answer",
    "rationale_passages": "question, rationale, answer and what was read",
}
"""How a query was made."""
_SHOWN_REASONS = 3


def look_ups_in_words(run: RunSummary) -> str:
    """How often it was looked up, and why: `looked up 2 times while writing: at "Dyson" (1.62) and "1983" (1.20)`."""
    count = len(run.rounds)
    times = "once" if count == 1 else f"{count} times"
    return f"looked up {times} while writing: {_reasons(run)}"


def _reasons(run: RunSummary) -> str:
    fired = {each.calls: each.word for each in run.rounds if each.word}  # one word may ask for several
    others = list(dict.fromkeys(each.decision.reason for each in run.rounds if each.word is None))
    parts = others[:_SHOWN_REASONS]
    if fired:
        words = list(fired.values())
        shown = [named_value(word) for word in words[:_SHOWN_REASONS]]
        more = len(words) - len(shown)
        *before, last = [*shown, *([f"{more} more"] if more else [])]
        at = f"{', '.join(before)} and {last}" if before else last
        limit = words[0].threshold
        parts.append(f"at {at}" + ("" if limit is None else f", threshold {limit:.2f}"))
    return "; ".join(parts)


def named_value(word: WordMeasured) -> str:
    """A word with what is held against the threshold: `"Dyson" (1.62)`."""
    return f'"{word.text}"' if word.value is None else f'"{word.text}" ({word.value:.2f})'


def word_in_numbers(word: WordMeasured) -> str:
    """All that was measured of a word: `1.62 against 1.00; entropy 2.30, first difference 1.90, ...`."""
    numbers = [
        ("entropy", word.entropy),
        ("first difference", word.first_difference),
        ("second", word.second_difference),
        ("attention", word.attention),
    ]
    told = ", ".join(f"{name} {value:.2f}" for name, value in numbers if value is not None)
    if word.value is None:
        return told
    limit = "" if word.threshold is None else f" against {word.threshold:.2f}"
    return f"{word.value:.2f}{limit}; {told}"


def query_method(query: QueryBuilt) -> str:
    """How a query was made."""
    return QUERY_METHODS.get(query.method, query.method)


def query_in_words(query: QueryBuilt) -> str:
    """A query, its words with their weights where they have some: `quiet 0.41, time 0.35`."""
    if any(word.weight is not None for word in query.words):
        return ", ".join(f"{word.text}{_weight(word.weight)}" for word in query.words)
    return query.text


def _weight(weight: float | None) -> str:
    return "" if weight is None else f" {weight:#.2g}"


def shares(query: QueryBuilt) -> list[float]:
    """The weight of each word as a share of the greatest, from 0 to 1; 0 where it has none."""
    weights = [max(word.weight or 0.0, 0.0) for word in query.words]
    greatest = max(weights, default=0.0)
    return [weight / greatest if greatest else 0.0 for weight in weights]


def round_title(run: RunSummary, number: int, each: Round) -> str:
    """Which look-up it is, and why it was made: `look-up 1 of 2: unsure at "Dyson"`."""
    return f"look-up {number} of {len(run.rounds)}: {each.decision.reason}"


def is_conclusion(beginning: PromptBuilt | GenerationReused) -> bool:
    """Whether a prompt only asks for the answer that a chain of thought comes to, without documents."""
    return isinstance(beginning, PromptBuilt) and beginning.phase == "answer" and not beginning.chunk_ids
