"""Trajectories on disk: what a model is to write, one JSON line each, every piece marked as learned or only read.

    {"messages": [user, assistant], "segments": [{"text": ..., "train": true}], "path": "DR", "retrievals": 1}

Segments joined are the assistant's turn. All is learned but the passages: the markers are, for they are the decisions.

Differs from the paper: its starred baselines learn answers alone behind the prompts of `cot` and `cot-retrieve`
(METHODS 12b). `answer_only` learns them behind the narrative, for a trajectory has neither such a chain of thought nor
what a search for the whole question finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from adaptrag_cli.disk import replace_durably
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.stepwise.narrative import Narrative, parse, read_line, render

_SHOWN = 80


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A turn of a chat."""

    role: Literal["user", "assistant"]
    content: str


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the assistant's turn."""

    text: str
    train: bool


class Trajectory(msgspec.Struct, frozen=True, kw_only=True):
    """A question and the narrative that answers it."""

    messages: Annotated[tuple[Message, ...], msgspec.Meta(min_length=2, max_length=2)]
    segments: Annotated[tuple[Segment, ...], msgspec.Meta(min_length=1)]
    path: Annotated[str, msgspec.Meta(pattern=r"^[DR]*\Z")]
    retrievals: Annotated[int, msgspec.Meta(ge=0)]
    question_id: str = ""

    @property
    def user_text(self) -> str:
        return self.messages[0].content

    @property
    def written(self) -> str:
        """The assistant's turn."""
        return self.messages[1].content


def make_trajectory(user_text: str, narrative: Narrative, *, question_id: str = "") -> Trajectory:
    """Put a finished narrative behind a user turn.

    Raises:
        ValueError: the narrative lacks its final answer, or a step's sub-query or answer.
    """
    if not narrative.is_complete:
        raise ValueError("only a complete narrative can be learned")
    written = render(narrative)
    return Trajectory(
        messages=(Message(role="user", content=user_text), Message(role="assistant", content=written)),
        segments=segments_of(written),
        path="".join("R" if step.retrieve else "D" for step in narrative.steps),
        retrievals=narrative.retrievals,
        question_id=question_id,
    )


def segments_of(text: str) -> tuple[Segment, ...]:
    """Cut a narrative, or whole lines of one, into what is learned and the blocks of passages.

    Passages stand from the line of their marker up to the next marker.
    """
    parts: list[Segment] = []
    is_learned = True
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        piece = read_line(line)
        is_learned = is_learned if piece is None else piece.kind != "context"
        before = parts.pop().text if parts and parts[-1].train is is_learned else ""
        parts.append(Segment(text=before + line, train=is_learned))
    return tuple(parts)


def answer_only(trajectory: Trajectory) -> Trajectory:
    """Learn nothing but the last line, the final answer; the narrative before it is only read."""
    written = trajectory.written
    cut = written.rfind("\n") + 1
    parts = ((written[:cut], False), (written[cut:], True))
    return msgspec.structs.replace(
        trajectory, segments=tuple(Segment(text=text, train=trained) for text, trained in parts if text)
    )


def write_trajectories(path: Path, trajectories: Iterable[Trajectory]) -> None:
    """Write them whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_durably(path, b"".join(msgspec.json.encode(each) + b"\n" for each in trajectories))


def read_trajectories(path: Path) -> tuple[Trajectory, ...]:
    """Read and check a file of trajectories.

    Raises:
        ConfigError: it is not there, holds none, or a line contradicts itself; says which.
    """
    hint = "make one with: adaptrag deeprag synthesize"
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", hint) from error
    found = [_read_line(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not found:
        raise ConfigError(f"{path} holds no trajectory: nothing was solved", "more questions, or a better --teacher")
    return tuple(found)


def _read_line(path: Path, number: int, line: bytes) -> Trajectory:
    try:
        trajectory = msgspec.json.decode(line, type=Trajectory)
        _check(trajectory)
    except (msgspec.DecodeError, ValueError) as error:
        reason = " ".join(str(error).split())[:_SHOWN]
        raise ConfigError(f"{path}, line {number} is no trajectory: {reason}", "delete the line") from error
    return trajectory


def _check(trajectory: Trajectory) -> None:
    if [message.role for message in trajectory.messages] != ["user", "assistant"]:
        raise ValueError("a user's turn comes first, and then the assistant's")
    if "".join(segment.text for segment in trajectory.segments) != trajectory.written:
        raise ValueError("its segments are not the assistant's turn")
    if trajectory.retrievals != trajectory.path.count("R"):
        raise ValueError(f"path {trajectory.path!r} has not {trajectory.retrievals} retrievals")
    narrative = parse(trajectory.written)
    told = "".join("R" if step.retrieve else "D" for step in narrative.steps)
    if told != trajectory.path:
        raise ValueError(f"its text tells path {told!r}, not {trajectory.path!r}")
    if not narrative.is_complete:
        raise ValueError("its narrative has no end, or a step without an answer")
    both = zip(_marks(trajectory.segments), _marks(segments_of(trajectory.written)), strict=True)
    if any(is_learned and not may_be for is_learned, may_be in both):
        raise ValueError("its passages are marked as learned")


def _marks(segments: Iterable[Segment]) -> list[bool]:
    """Of each letter: whether it is learned."""
    return [segment.train for segment in segments for _ in segment.text]
