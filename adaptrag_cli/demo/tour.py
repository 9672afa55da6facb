"""The questions of the tour, and a finished run told in words.

What is told comes from the run and not from the script, so another model that decides otherwise is told truly.
"""

from __future__ import annotations

from dataclasses import dataclass

from adaptrag_cli.events import AnswerSource, DecisionMade
from adaptrag_cli.render import numbers_apart, seconds, source_line
from adaptrag_cli.run_summary import RunSummary


@dataclass(frozen=True, kw_only=True)
class Case:
    """A question that shows one thing."""

    title: str
    query: str
    expected: AnswerSource
    """Where the default model takes the answer from."""
    lesson: str
    """Why this case matters, in a sentence."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A labelled line of the story."""

    label: str
    text: str


CASES: tuple[Case, ...] = (
    Case(
        title="The model knows",
        query="Which is the largest planet in the solar system?",
        expected="draft",
        lesson="Looking up what is known costs time, and a chunk that only sounds right can spoil a right answer.",
    ),
    Case(
        title="Only the documents know",
        query="At how many knots of wind must the East Dome be closed?",
        expected="documents",
        lesson="The draft was a guess, and its uncertainty gave it away before anybody could believe it.",
    ),
    Case(
        title="Two documents are needed",
        query="Where did the man who ground the mirror of Long Bess learn his trade?",
        expected="documents",
        lesson="A manual tells who ground the mirror, a history where he learned his trade: neither is enough alone.",
    ),
    Case(
        title="Nobody knows",
        query="Which football team does the mayor of Corrowby support?",
        expected="none",
        lesson="The chunks that were found do not tell, and saying so is better than dressing up a guess.",
    ),
    Case(
        title="A trap: the model is sure, and the documents disagree",
        query="How many rolls are there in a dozen?",
        expected="draft",
        lesson="On this island a dozen rolls means thirteen. A confident model does not look, so the chunk that it did "
        "not read is named; where local rules count, ask with --strategy always.",
    ),
)

OWN_FOLDER: tuple[str, ...] = (
    "adaptrag index ~/Documents --name mine",
    'adaptrag ask "When does the contract end?" --index mine',
    'adaptrag ask "When does the contract end?" --index mine --strategy always -v',
)
"""The next three commands, for the user's own folder."""

SCORES = (
    "s1: similarity of a chunk to the question; s2: to the passage that the model imagined as a second search key; "
    "AIS: both angles added up, by which the chunks are ranked. Higher is better."
)

_SOURCE_WORDS: dict[AnswerSource, str] = {
    "draft": "from its memory",
    "documents": "from the documents",
    "none": "by saying that the documents do not tell",
}


def tell(case: Case, run: RunSummary) -> tuple[Row, ...]:
    """What was asked, decided, answered and read, and why it matters.

    Raises:
        ValueError: the run has no answer.
    """
    if run.finished is None:
        raise ValueError("only a finished run can be told")
    rows = [Row(label="Question", text=case.query), Row(label="Decision", text=_decision(run))]
    rows.append(Row(label="Answer", text=f"{run.finished.answer}  ({seconds(run.total_ms)})"))
    if run.evidence and not run.evidence.supported:
        rows.append(Row(label="Because", text=run.evidence.reason))
    label = "Looked at" if run.finished.answer_source == "none" else "Sources"
    for number, chunk in enumerate(run.sources, start=1):
        rows.append(Row(label=label if number == 1 else "", text=source_line(number, chunk)))
    if run.peek:
        rows.append(Row(label="Not read", text=f"{run.peek.location}  (the closest chunk, s1 {run.peek.score:.2f})"))
    if run.finished.answer_source != case.expected:
        rows.append(Row(label="Note", text=_otherwise(case, run.finished.answer_source)))
    rows.append(Row(label="Why", text=case.lesson))
    return tuple(rows)


def _decision(run: RunSummary) -> str:
    decision = run.decision
    if decision is None:
        return "none was made"
    return f"{_comparison(run, decision)} {_consequence(run, decision)}"


def _comparison(run: RunSummary, decision: DecisionMade) -> str:
    draft = run.writings.get("draft")
    if draft is None or decision.uncertainty is None or decision.threshold is None:
        return f"The model has no answer from memory: {decision.reason}."
    uncertainty, threshold = numbers_apart(decision.uncertainty, decision.threshold)
    relation = "above" if decision.uncertainty > decision.threshold else "not above"
    return (
        f'From memory the model says "{draft.text.strip()}", with uncertainty u = {uncertainty}: '
        f"{relation} the threshold {threshold}."
    )


def _consequence(run: RunSummary, decision: DecisionMade) -> str:
    if not decision.retrieve:
        return "So nothing was looked up."
    return f"So the documents were looked up: {len(run.sources)} of {len(run.candidates)} chunks found were read."


def _otherwise(case: Case, source: AnswerSource) -> str:
    return (
        f"answered {_SOURCE_WORDS[source]}, where the default model with its measured threshold answers "
        f"{_SOURCE_WORDS[case.expected]}"
    )
