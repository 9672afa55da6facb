"""The narrative of a question that is answered step by step, some steps with documents: DeepRAG (METHODS 9.1).

    Follow up: <sub-query>
    Let's search the question in Wikipedia.
    Context:
    [1] <passage>
    Intermediate answer: <answer>
    Follow up: <sub-query>
    Intermediate answer: <answer>
    So the final answer is: <answer>

A marker counts where a line begins with it, and nowhere else: the paper's code looks for `Let` anywhere, which also
stands in sub-queries about "Let It Be" or Letterman.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from adaptrag_cli.answers import FINAL_ANSWER_IS, normalise_answer
from adaptrag_cli.demonstrations import FOLLOW_UPS

FOLLOW_UP = "Follow up:"
SEARCH = "Let's search the question in Wikipedia."
CONTEXT = "Context:"
INTERMEDIATE_ANSWER = "Intermediate answer:"

PieceKind = Literal["follow_up", "search", "context", "answer", "final"]
_BEGINNINGS: tuple[tuple[PieceKind, re.Pattern[str]], ...] = (
    ("follow_up", re.compile(r"\s*follow[ -]?up\s*:\s*", re.IGNORECASE)),
    ("search", re.compile(r"\s*let['\u2019]s search\b.*", re.IGNORECASE)),
    ("context", re.compile(r"\s*context\s*:\s*", re.IGNORECASE)),
    ("answer", re.compile(r"\s*intermediate answer\s*:\s*", re.IGNORECASE)),
    ("final", re.compile(r"\s*so the final answer is\b\s*:?\s*", re.IGNORECASE)),
)
_QUESTION = re.compile(r"\s*question\s*:", re.IGNORECASE)
_NUMBERED = re.compile(r"\s*\[\d+\]\s*")
_MARKERS: dict[PieceKind, str] = {
    "follow_up": FOLLOW_UP,
    "search": SEARCH,
    "context": CONTEXT,
    "answer": INTERMEDIATE_ANSWER,
    "final": FINAL_ANSWER_IS,
}


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A marker and what stands behind it."""

    kind: PieceKind
    text: str = ""
    """Without the marker, on one line; of a context its numbered passages, a line each."""

    def __str__(self) -> str:
        between = "\n" if self.kind == "context" else " "
        return f"{_MARKERS[self.kind]}{between}{self.text}".rstrip()


@dataclass(frozen=True, kw_only=True)
class NarrativeStep:
    """A sub-query, whether it was looked up, what was found, and its answer."""

    sub_query: str
    retrieve: bool = False
    passages: tuple[str, ...] = ()
    answer: str = ""


@dataclass(frozen=True, kw_only=True)
class Narrative:
    """The steps to an answer, and the answer."""

    steps: tuple[NarrativeStep, ...] = ()
    final: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether it has its final answer, and every step its sub-query and answer."""
        return bool(self.final) and all(step.sub_query and step.answer for step in self.steps)

    @property
    def retrievals(self) -> int:
        """How many steps were looked up."""
        return sum(step.retrieve for step in self.steps)


def read_line(line: str) -> Piece | None:
    """The piece that begins with a line; None where it begins none."""
    for kind, beginning in _BEGINNINGS:
        found = beginning.match(line)
        if found:
            return Piece(kind=kind, text=line[found.end() :].strip())
    return None


def read_pieces(text: str) -> tuple[Piece, ...]:
    """Take a text apart at the markers, up to the final answer, or to a further question that the model makes up.

    A line without a marker belongs to the piece before it; what stands before the first piece is left out.
    """
    pieces: list[Piece] = []
    for line in text.split("\n"):
        piece = read_line(line)
        if piece is not None:
            pieces.append(piece)
        elif pieces and (pieces[-1].kind == "final" or _QUESTION.match(line)):
            break
        elif pieces and line.strip():
            pieces[-1] = _continued(pieces[-1], line.strip())
    ends = [number for number, piece in enumerate(pieces) if piece.kind == "final"]
    return tuple(pieces[: ends[0] + 1] if ends else pieces)


def parse(text: str) -> Narrative:
    """Read a whole narrative; what stands in no step is left out."""
    steps: list[NarrativeStep] = []
    final = ""
    for piece in read_pieces(text):
        if piece.kind == "follow_up":
            steps.append(NarrativeStep(sub_query=piece.text))
        elif piece.kind == "final":
            final = piece.text
        elif steps:
            steps[-1] = _told(steps[-1], piece)
    return Narrative(steps=tuple(steps), final=final)


def pieces_of(narrative: Narrative) -> tuple[Piece, ...]:
    """Take a narrative apart; one without a final answer ends with its last step."""
    pieces: list[Piece] = []
    for step in narrative.steps:
        pieces.append(Piece(kind="follow_up", text=on_one_line(step.sub_query)))
        if step.retrieve:
            pieces += [Piece(kind="search"), Piece(kind="context", text=numbered(step.passages))]
        pieces.append(Piece(kind="answer", text=on_one_line(step.answer)))
    return (*pieces, Piece(kind="final", text=on_one_line(narrative.final))) if narrative.final else tuple(pieces)


def render(narrative: Narrative) -> str:
    """The text of a narrative, which `parse` reads back."""
    return "\n".join(str(piece) for piece in pieces_of(narrative))


def numbered(passages: Sequence[str]) -> str:
    """Passages as a context shows them: numbered, a line each, so that no line of theirs can begin with a marker."""
    return "\n".join(f"[{number}] {on_one_line(passage)}" for number, passage in enumerate(passages, start=1))


def passage(title: str, text: str) -> str:
    """A chunk as a context shows it."""
    return f"{title}: {text}" if title else text


def on_one_line(text: str) -> str:
    """A text with single spaces."""
    return " ".join(text.split())


def asked_as(sub_query: str) -> str:
    """What tells sub-queries apart: those that give the same ask the same."""
    return normalise_answer(sub_query) or on_one_line(sub_query)


def worked_examples(count: int, *, from_memory: bool = True, from_documents: bool = True) -> tuple[str, ...]:
    """Worked narratives that look up what they should; or, without one of the sources, all steps or none of them."""
    return tuple(
        f"Question: {example.question}\n"
        + render(
            Narrative(
                steps=tuple(
                    NarrativeStep(
                        sub_query=step.question,
                        retrieve=from_documents and (step.is_looked_up or not from_memory),
                        passages=(step.passage,),
                        answer=step.answer,
                    )
                    for step in example.steps
                ),
                final=example.answer,
            )
        )
        for example in FOLLOW_UPS[:count]
    )


def listed(steps: Sequence[NarrativeStep]) -> str:
    """Sub-queries and answers as a numbered list, for a teacher that takes questions apart; it ends with its line."""
    return "".join(
        f"{number}. {on_one_line(step.sub_query)}\nAnswer: {on_one_line(step.answer)}\n"
        for number, step in enumerate(steps, start=1)
    )


def listed_examples() -> tuple[str, ...]:
    """Worked questions that are taken apart in such a list, with their final answer."""
    return tuple(
        f"Question: {example.question}\n"
        + listed([NarrativeStep(sub_query=step.question, answer=step.answer) for step in example.steps])
        + f"{FINAL_ANSWER_IS} {example.answer}"
        for example in FOLLOW_UPS
    )


def _continued(piece: Piece, line: str) -> Piece:
    if piece.kind == "search":
        return piece
    begins_passage = piece.kind == "context" and _NUMBERED.match(line)
    return replace(piece, text=f"{piece.text}{chr(10) if begins_passage else ' '}{line}".strip())


def _told(step: NarrativeStep, piece: Piece) -> NarrativeStep:
    match piece.kind:
        case "search":
            return replace(step, retrieve=True)
        case "context":
            passages = (_NUMBERED.sub("", line, count=1).strip() for line in piece.text.split("\n"))
            return replace(step, passages=tuple(filter(None, passages)))
        case _:
            return replace(step, answer=piece.text)
