"""What crosses the pipe: every message and every event, there and back."""

from __future__ import annotations

import pytest

import traces
from adaptrag_cli.errors import ExitCode, IndexStale
from adaptrag_cli.events import WarningRaised
from adaptrag_cli.service.protocol import (
    AnyReply,
    AnyRequest,
    Ask,
    Cancel,
    Ended,
    Failed,
    LookUp,
    Noted,
    Prepare,
    Ready,
    Reply,
    Request,
    Told,
    decode_reply,
    decode_request,
    encode_message,
    failed,
)

FLAGS = {"ask.threshold": 0.3, "ask.top_k": 2, "ask.peek": False, "models.answer": "m.gguf"}
HOSTILE = 'Who?\r\n\u2028\u2029\x1b[31m\x00{"kind":"ended"}\\'
REQUESTS = [
    Prepare(job=1, flags=FLAGS),
    Ask(job=2, query=HOSTILE, flags=FLAGS, config_file="a b.toml", reuse=tuple(traces.retrieved())),
    LookUp(job=3, query=HOSTILE, flags={}, reuse=tuple(traces.skipped())),
    Cancel(job=2),
]
REPLIES = [
    Noted(job=1, text=HOSTILE),
    Ready(
        job=1,
        strategy="dtr",
        model="m",
        model_path="/m.gguf",
        gpu_layers_requested="auto",
        gpu_layers_used=0,
        gpu_reason="none was found",
        threads=2,
        context_length=4096,
        index="handbook",
        index_path="/docs",
        index_fingerprint="g1:0123",
        chunks=12,
        is_fresh=False,
        warnings=(WarningRaised(code="index_not_fresh", message="1 file changed"),),
        defaults={"threshold": 0.3, "top_k": 3, "style": "short"},
    ),
    Ended(job=2),
    Failed(job=3, error="IndexStale", message=HOSTILE, hint="adaptrag index", exit_code=3),
]


def test_every_message_is_tried_here() -> None:
    assert {type(request) for request in REQUESTS} == set(Request.__subclasses__())
    assert {type(reply) for reply in REPLIES} | {Told} == set(Reply.__subclasses__())


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_a_request_arrives_as_it_was_sent(request_: AnyRequest) -> None:
    line = encode_message(request_)
    assert line.endswith(b"\n")
    assert len(line.splitlines()) == 1
    assert decode_request(line) == request_


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: type(reply).__name__)
def test_a_reply_arrives_as_it_was_sent(reply: AnyReply) -> None:
    line = encode_message(reply)
    assert line.endswith(b"\n")
    assert len(line.splitlines()) == 1
    assert decode_reply(line) == reply


@pytest.mark.parametrize("name", traces.ALL)
def test_every_event_arrives_as_it_was_told(name: str) -> None:
    told = [Told(job=7, event=event) for event in traces.ALL[name]()]  # type: ignore[arg-type]
    assert [decode_reply(encode_message(reply)) for reply in told] == told


def test_a_failure_keeps_its_name_message_hint_and_exit_code() -> None:
    assert failed(4, IndexStale("index 'x' is stale", "adaptrag index docs")) == Failed(
        job=4,
        error="IndexStale",
        message="index 'x' is stale",
        hint="adaptrag index docs",
        exit_code=ExitCode.INDEX,
    )
