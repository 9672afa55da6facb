"""The state of the session, without a screen: choices, history, and which job belongs to which run.

The screen asks the desk for requests to send, and hands it every reply; the desk says what the panels are to be fed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from adaptrag_cli.events import AnyEvent, RunFailed
from adaptrag_cli.service.protocol import AnyReply, Ask, Cancel, Ended, Failed, LookUp, Prepare, Ready, Told
from adaptrag_cli.tui.record import Flags, Record

Purpose = Literal["run", "unconsulted", "what_if"]


@dataclass(frozen=True, kw_only=True)
class Feed:
    """Events for the panels, all of one job."""

    record: Record
    purpose: Purpose
    events: tuple[AnyEvent, ...]
    is_over: bool


@dataclass(kw_only=True)
class _Job:
    record: Record
    purpose: Purpose
    events: list[AnyEvent] = field(default_factory=list)


class Desk:
    """What was chosen, what was asked, what is running."""

    def __init__(self, flags: Flags, config_file: str | None = None) -> None:
        self.choices: dict[str, str | int | float | bool] = dict(flags)
        self.records: list[Record] = []
        self.current: Record | None = None
        self.ready: Ready | None = None
        """What the engine has loaded; None until it is."""
        self._config_file = config_file
        self._jobs: dict[int, _Job] = {}
        self._next_job = 0

    @property
    def running(self) -> Record | None:
        """The run that is being answered."""
        return next((job.record for job in self._jobs.values() if job.purpose == "run"), None)

    @property
    def is_busy(self) -> bool:
        return bool(self._jobs)

    def prepare(self) -> Prepare:
        """Ask for what is chosen to be loaded."""
        return Prepare(job=self._number(), flags=dict(self.choices), config_file=self._config_file)

    def ask(self, query: str, *, flags: Flags | None = None, reuse: Sequence[AnyEvent] = ()) -> Ask:
        """Begin a run, as chosen or with the flags of an earlier one; it becomes the last record of the history."""
        flags = dict(self.choices if flags is None else flags)
        record = self.add(Record(number=len(self.records) + 1, query=query, flags=flags))
        job = self._number()
        self._jobs[job] = _Job(record=record, purpose="run")
        return Ask(job=job, query=query, flags=flags, config_file=self._config_file, reuse=tuple(reuse))

    def look_up(
        self, record: Record, purpose: Literal["unconsulted", "what_if"], changes: Flags | None = None
    ) -> LookUp:
        """Begin a search and selection for a run that is over."""
        job = self._number()
        self._jobs[job] = _Job(record=record, purpose=purpose)
        return LookUp(
            job=job,
            query=record.query,
            flags={**record.flags, **(changes or {})},
            config_file=self._config_file,
            reuse=record.reusable,
        )

    def answered(self, like: Record, strategy: str) -> Record | None:
        """A run that has answered the same question, with the same flags, by this strategy."""
        for record in self.records:
            is_alike = record.query == like.query and _other_flags(record) == _other_flags(like)
            if is_alike and record.strategy == strategy and record.summary and record.summary.finished:
                return record
        return None

    def cancel(self) -> tuple[Cancel, ...]:
        """Stop everything that was begun."""
        return tuple(Cancel(job=job) for job in self._jobs)

    def add(self, record: Record) -> Record:
        """Put a run into the history and make it the current one."""
        self.records.append(record)
        self.current = record
        return record

    def take(self, replies: Sequence[AnyReply]) -> list[Feed]:
        """Keep what the replies say; returns the new events by job, in order."""
        told: dict[int, list[AnyEvent]] = {}
        over: set[int] = set()
        for reply in replies:
            match reply:
                case Ready():
                    self.ready = reply
                case Told() if reply.job in self._jobs:
                    told.setdefault(reply.job, []).append(reply.event)
                case Ended() | Failed() if reply.job in self._jobs:
                    told.setdefault(reply.job, [])
                    over.add(reply.job)
        return [self._feed(number, events, is_over=number in over) for number, events in told.items()]

    def fail_all(self, failure: RunFailed) -> list[Feed]:
        """End every job, because the engine is gone."""
        self.ready = None
        feeds = []
        for number in list(self._jobs):
            job = self._jobs.pop(number)
            events = (job.record.fail(failure),) if job.purpose == "run" and job.record.events else ()
            self._forget_if_empty(job)
            feeds.append(Feed(record=job.record, purpose=job.purpose, events=events, is_over=True))
        return feeds

    def _feed(self, number: int, events: list[AnyEvent], *, is_over: bool) -> Feed:
        job = self._jobs.pop(number) if is_over else self._jobs[number]
        if job.purpose == "run":
            job.record.events += events
        else:
            job.events += events
        if is_over and job.purpose == "unconsulted" and not any(isinstance(e, RunFailed) for e in job.events):
            job.record.unconsulted = job.events  # what failed or was stopped can be tried again
        if is_over:
            self._forget_if_empty(job)
        return Feed(record=job.record, purpose=job.purpose, events=tuple(events), is_over=is_over)

    def _forget_if_empty(self, job: _Job) -> None:
        """A run that could not begin leaves no trace in the history."""
        if job.purpose == "run" and not job.record.events:
            self.records.remove(job.record)
            if self.current is job.record:
                self.current = self.records[-1] if self.records else None

    def _number(self) -> int:
        self._next_job += 1
        return self._next_job


def _other_flags(record: Record) -> Flags:
    return {name: value for name, value in record.flags.items() if name != "ask.strategy"}
