"""A chain of thought, or steps, on an exported page: where it was cut and looked up, and what for."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from adaptrag_cli.events import QueryBuilt, WordMeasured
from adaptrag_cli.html_figures import Child, element, note, table
from adaptrag_cli.html_tokens import Shades, scale, token_spans
from adaptrag_cli.look_ups import decision_of_step, query_method, round_title, shares, word_in_numbers
from adaptrag_cli.palette import ENTROPY_CEILING, shade
from adaptrag_cli.run_summary import ReasoningCall, Round, RunSummary, Step
from adaptrag_cli.tables import number


def chain_of_thought(run: RunSummary, shades: Shades) -> Iterator[Element]:
    """Show the whole text, discarded tokens struck through, with the number of each look-up where it was made."""
    yield note(
        "What the model wrote step by step. Background: entropy of each token, in nats; underlined: weak spans; struck "
        "through: discarded; numbers: look-ups. Point at a token to see its numbers."
    )
    yield scale(shades)
    parts: list[Element] = []
    for count, call in enumerate(run.reasoning_calls):
        parts += _marks(run, count)
        parts += _call(call, shades)
    parts += _marks(run, len(run.reasoning_calls))
    yield element("div", *parts, class_="tokens")
    words = [(count, word) for count, call in enumerate(run.reasoning_calls, start=1) for word in call.words]
    if words:
        yield element("details", element("summary", "every word that was watched"), _words(words))


def _marks(run: RunSummary, calls: int) -> Iterator[Element]:
    """The look-ups that were made after so many calls."""
    for count, each in enumerate(run.rounds, start=1):
        if each.query is not None and each.calls == calls:
            yield element("span", str(count), class_="mark", title=each.decision.reason)


def _call(call: ReasoningCall, shades: Shades) -> Iterator[Element]:
    yield from token_spans(call.kept_tokens, shades)
    if call.discarded:
        yield element("s", *token_spans(call.discarded_tokens, shades), title=call.cut_reason)


def _words(words: list[tuple[int, WordMeasured]]) -> Element:
    rows = [
        (
            str(count),
            word.text,
            f"{word.entropy:.3f}",
            number(word.first_difference, 3),
            number(word.second_difference, 3),
            number(word.attention, 3),
            number(word.value, 3),
            number(word.threshold, 2),
            "looked up" if word.fires else "",
        )
        for count, word in words
    ]
    columns = ("call", "word", "entropy", "1st difference", "2nd", "attention", "value", "threshold", "")
    return table(columns, rows, right=(0, 2, 3, 4, 5, 6, 7))


def steps(run: RunSummary) -> Iterator[Element]:
    """Show what was asked in each step, what was decided and read, and what it answered."""
    yield note(
        "What the model asked, one after the other. Log-odds: how much likelier it searches than that it answers from "
        "memory."
    )
    rows = [(str(number), *_step(run, step)) for number, step in enumerate(run.steps, start=1)]
    yield table(("", "asked", "decision", "read", "answered"), rows, right=(0,))


def _step(run: RunSummary, step: Step) -> tuple[str, str, str, str]:
    found, answered = run.round_of(step), step.answered
    candidates = found.selection.candidates if found and found.selection else ()
    places = [c.location for c in candidates if answered and c.chunk_id in answered.chunk_ids]
    return step.asked.text, decision_of_step(step), ", ".join(places), answered.text if answered else ""


def look_up_facts(run: RunSummary, count: int, each: Round, shades: Shades) -> Iterator[Element]:
    """Tell why it was looked up, what was cut off for it, and with which query."""
    yield element("h3", round_title(run, count, each).capitalize())
    if each.word:
        yield element("p", f'"{each.word.text}": {word_in_numbers(each.word)}')
    if each.discarded:
        yield element("p", "Discarded: ", element("s", each.discarded.strip()))
    if each.query:
        yield element("p", "Query: ", *_query(each.query, shades), f" ({query_method(each.query)})")


def _query(query: QueryBuilt, shades: Shades) -> Iterator[Child]:
    """The words of a query, the darker the more they weighed."""
    if not query.words:
        yield query.text
    for word, share in zip(query.words, shares(query), strict=True):
        colours = [shade(share * ENTROPY_CEILING, dark=dark) for dark in (False, True)]
        title = {} if word.weight is None else {"title": f"weight {word.weight:.3f}"}
        yield element("span", word.text, class_=f"word {shades.name(colours[0], colours[1])}", **title)
        yield " "
