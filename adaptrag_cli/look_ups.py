"""Look-ups of methods that write and search in turn, in words that the terminal, exports and panels share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from adaptrag_cli.events import (
    GenerationReused,
    ProbeMeasured,
    PromptBuilt,
    QueryBuilt,
    RankedChunk,
    StepDecided,
    WordMeasured,
)
from adaptrag_cli.run_summary import Round, RunSummary, Step

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
PROBE_COLUMNS = ("round", "layer", "retrieve", "stop", "")
"""What `probe_rows` tells."""
_SHOWN_REASONS = 3


def look_ups_in_words(run: RunSummary) -> str:
    """How often it was looked up, and why: `looked up 2 times while writing: at "Dyson" (1.62) and "1983" (1.20)`."""
    count = len(run.rounds)
    times = "once" if count == 1 else f"{count} times"
    is_used_up = any(warning.code == "look_ups_used_up" for warning in run.warnings)
    return f"looked up {times} while writing: {_reasons(run)}{'; then the look-ups were used up' if is_used_up else ''}"


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


def steps_in_words(run: RunSummary) -> str:
    """How much was asked, and how much of it was looked up; a step that only asked again is not counted."""
    return asked_in_words([step.decided for step in run.steps if step.decided])


def asked_in_words(decided: Sequence[StepDecided]) -> str:
    """How many steps there were, and how many were looked up: `asked 3 questions and looked up 2 of them`."""
    looked_up = sum(each.retrieve for each in decided)
    asked = f"asked {len(decided)} question{'' if len(decided) == 1 else 's'}"
    if not looked_up:
        return f"{asked} and answered from the model's memory"
    if len(decided) == 1:
        return f"{asked} and looked it up"
    if looked_up == len(decided):
        return f"{asked} and looked all of them up"
    return f"{asked} and looked up {looked_up} of them"


def decision_of_step(step: Step) -> str:
    """Why a step was looked up or not, and how sure that was: `the model searches (log-odds +1.25)`."""
    decided = step.decided
    if decided is None:
        return "asked before" if step.asked.is_repeated else "not decided"
    return reason_of_step(decided)


def reason_of_step(decided: StepDecided) -> str:
    """The reason of a decision, with how sure it was where that was measured."""
    odds = "" if decided.log_odds is None else f" (log-odds {decided.log_odds:+.2f})"
    return f"{decided.reason}{odds}"


def chunks_of_step(run: RunSummary, step: Step) -> Iterator[tuple[RankedChunk, bool]]:
    """What the look-up of a step found, and whether that was read."""
    looked_up = run.round_of(step)
    read = step.answered.chunk_ids if step.answered else ()
    for path in looked_up.paths.values() if looked_up else ():
        yield from ((chunk, chunk.chunk_id in read) for chunk in path.chunks)


def named_value(word: WordMeasured) -> str:
    """A word with what is held against the threshold: `"Dyson" (1.62)`."""
    return f'"{word.text}"' if word.value is None else f'"{word.text}" ({_held(word, word.value)})'


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
    return f"{_held(word, word.value)}{limit}; {told}"


def _held(word: WordMeasured, value: float) -> str:
    """A value, between strokes where a drop is held against the threshold by its size: `|-1.62|`."""
    return f"|{value:.2f}|" if word.is_absolute and value < 0 else f"{value:.2f}"


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


def probe_title(probe: ProbeMeasured) -> str:
    """What the rows of `probe_rows` are: `what the probers read (logits; theta 0.50)`."""
    theta = f"; theta {probe.theta:.2f}" if probe.theta else ""
    return f"what the probers read ({probe.rule} are added up{theta})"


def probe_rows(probes: Iterable[ProbeMeasured]) -> list[tuple[str, str, str, str, str]]:
    """Round, layer, both logits of each layer; then what was compared, and whether that looks up."""
    rows: list[tuple[str, str, str, str, str]] = []
    for probe in probes:
        number = str(probe.round)
        rows += [(number, str(layer.layer), _logit(layer.retrieve), _logit(layer.stop), "") for layer in probe.layers]
        outcome = "look it up" if probe.retrieve else "stop"
        rows.append((number, "sum", _logit(probe.retrieve_score), _logit(probe.stop_score), outcome))
    return rows


def _logit(value: float | None) -> str:
    return "no number" if value is None else f"{value:.3f}"


def is_conclusion(beginning: PromptBuilt | GenerationReused) -> bool:
    """Whether a prompt only asks for the answer that a chain of thought comes to, without documents."""
    return isinstance(beginning, PromptBuilt) and beginning.phase == "answer" and not beginning.chunk_ids
