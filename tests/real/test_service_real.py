"""The engine's process with the 0.5B model, MiniLM and a real index: the same numbers, and stopped in its prefill."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from adaptrag_cli.config import load_settings
from adaptrag_cli.errors import ExitCode
from adaptrag_cli.events import Event, PromptBuilt, RunFailed, RunFinished
from adaptrag_cli.index.build import BuildOptions, build_index
from adaptrag_cli.models.encoder import load_encoder
from adaptrag_cli.service.client import EngineProcess
from adaptrag_cli.service.protocol import AnyReply, Ask, Cancel, Ended, Told
from adaptrag_cli.session.session import open_session
from laws import check_laws

pytestmark = pytest.mark.small_model

PRIVATE = "Who lit the harbour lamp at Skarvik?"
LONG = "Who lit the harbour lamp? " * 500
"""3,000 tokens and more: seconds of prefill."""
DOCUMENTS = {
    "fees.md": "# Fees\n\nThe mooring fee at Skarvik is 1,473 crowns a season.\n",
    "lamp.txt": "The harbour lamp at Skarvik burns whale-green and was lit in 1887 by Ottilie Brandt.\n",
}
Flags = dict[str, str | int | float | bool]


@pytest.fixture(scope="module")
def flags(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Flags:
    folder = tmp_path_factory.mktemp("real")
    (folder / "notes").mkdir()
    for name, text in DOCUMENTS.items():
        (folder / "notes" / name).write_text(text, encoding="utf-8")
    encoder = load_encoder("all-minilm-l6-v2", models_dir)
    build_index(folder / "notes", name="notes", index_dir=folder / "ix", encoder=encoder, options=BuildOptions())
    return {
        "models.dir": str(models_dir),
        "models.answer": "qwen2.5-coder-0.5b-instruct",
        "index.dir": str(folder / "ix"),
        "ask.threshold": 0.3,
        "ask.top_k": 2,
    }


@pytest.fixture
def engine() -> Iterator[EngineProcess]:
    with EngineProcess() as engine:
        watchdog = threading.Timer(300.0, engine.close)  # a broken engine fails the test instead of hanging it
        watchdog.start()
        yield engine
        watchdog.cancel()


def timeless(events: list[Event]) -> list[Event]:
    """The events without what a clock says."""
    return [
        msgspec.structs.replace(event, elapsed_ms=0.0, **({"timings": ()} if isinstance(event, RunFinished) else {}))
        for event in events
    ]


def take(replies: Iterator[AnyReply], job: int) -> list[Event]:
    """The events of a job, to its end."""
    events: list[Event] = []
    for reply in replies:
        if isinstance(reply, Told):
            events.append(reply.event)
        elif reply == Ended(job=job):
            return events
    raise AssertionError(f"no end; the events: {events}")


def test_a_question_gives_the_same_trace_as_in_this_process(engine: EngineProcess, flags: Flags):
    engine.send(Ask(job=1, query=PRIVATE, flags=flags))
    there = take((reply for batch in engine.batches() for reply in batch), 1)
    engine.close()
    with closing(open_session(load_settings(flags=flags))) as session:
        here = list(session.ask(PRIVATE))
    check_laws(there)
    assert isinstance(there[-1], RunFinished)
    assert "Brandt" in there[-1].answer
    assert timeless(there) == timeless(here)  # every token, log-probability, entropy and score


def test_a_prefill_is_stopped_and_the_next_question_is_answered(engine: EngineProcess, flags: Flags):
    replies = (reply for batch in engine.batches(interval_s=0.0) for reply in batch)
    engine.send(Ask(job=1, query=LONG, flags=flags))
    prompt = next(reply.event for reply in replies if isinstance(reply, Told) and isinstance(reply.event, PromptBuilt))
    assert prompt.tokens > 3000
    engine.send(Cancel(job=1))
    (failed,) = take(replies, 1)
    assert isinstance(failed, RunFailed)
    assert (failed.error, failed.exit_code) == ("RunCancelled", ExitCode.INTERRUPTED)
    engine.send(Ask(job=2, query=PRIVATE, flags=flags))
    end = take(replies, 2)[-1]
    assert isinstance(end, RunFinished)
    assert "Brandt" in end.answer
