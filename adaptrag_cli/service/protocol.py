"""What crosses the pipe: requests to the engine's process and its replies, one JSON line each.

Every request has a job number, given by the caller and rising; every reply to it carries the same number. A job ends
with exactly one `Ended` or `Failed`. Jobs run one after another; `Cancel` is heard at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from adaptrag_cli.errors import AdaptRAGError
from adaptrag_cli.events import AnyEvent, WarningRaised


def _kind(class_name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).lower()


class Request(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=_kind):
    """Something the engine is asked to do."""

    job: int


class Prepare(Request, frozen=True, kw_only=True):
    """Load what the settings name, or as much of it as is not loaded yet."""

    flags: Mapping[str, str | int | float | bool]
    """Dotted settings that were typed or chosen (`ask.threshold`); files and variables are read beside them."""
    config_file: str | None = None


class Ask(Request, frozen=True, kw_only=True):
    """Run one question; its events come as they happen."""

    query: str
    flags: Mapping[str, str | int | float | bool]
    config_file: str | None = None
    reuse: tuple[AnyEvent, ...] = ()
    """Events of an earlier run whose draft and pseudo-context stand for this one's."""


class LookUp(Request, frozen=True, kw_only=True):
    """Search and select as the strategy would, and answer nothing."""

    query: str
    flags: Mapping[str, str | int | float | bool]
    config_file: str | None = None
    reuse: tuple[AnyEvent, ...] = ()


class Cancel(Request, frozen=True, kw_only=True):
    """Stop this job, whether it runs or waits."""


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=_kind):
    """Something the engine says of a job."""

    job: int


class Noted(Reply, frozen=True, kw_only=True):
    """What is being done that takes time: `loading qwen2.5-coder-1.5b-instruct`."""

    text: str


class Ready(Reply, frozen=True, kw_only=True):
    """What is loaded now. Comes before the first event of every job."""

    strategy: str
    model: str
    model_path: str
    gpu_layers_requested: str
    gpu_layers_used: int
    gpu_reason: str
    threads: int
    context_length: int
    index: str
    """Empty when no index is open."""
    index_path: str
    """The folder or file that was indexed."""
    index_fingerprint: str
    chunks: int
    is_fresh: bool
    warnings: tuple[WarningRaised, ...]
    defaults: Mapping[str, str | int | float | bool | None]
    """Every option of the strategy as it now stands (`threshold`, `top_k` ...)."""


class Told(Reply, frozen=True, kw_only=True):
    """One event of the job."""

    event: AnyEvent


class Ended(Reply, frozen=True, kw_only=True):
    """The job is over. A run that failed ends so too: its last event says why."""


class Failed(Reply, frozen=True, kw_only=True):
    """The job could not be begun: no index, no model, an unknown name."""

    error: str
    message: str
    hint: str
    exit_code: int


AnyRequest = Prepare | Ask | LookUp | Cancel
AnyReply = Noted | Ready | Told | Ended | Failed

_requests: msgspec.json.Decoder[AnyRequest] = msgspec.json.Decoder(AnyRequest)
_replies: msgspec.json.Decoder[AnyReply] = msgspec.json.Decoder(AnyReply)
_encoder = msgspec.json.Encoder()


def encode_message(message: Request | Reply) -> bytes:
    """One line, newline included."""
    return _encoder.encode(message) + b"\n"


def decode_request(line: bytes) -> AnyRequest:
    """Read what `encode_message` wrote; only our own process writes here, so an error is a programming error."""
    return _requests.decode(line)


def decode_reply(line: bytes) -> AnyReply:
    """Read what `encode_message` wrote."""
    return _replies.decode(line)


def failed(job: int, error: AdaptRAGError) -> Failed:
    """An expected failure as it crosses the pipe."""
    return Failed(
        job=job,
        error=type(error).__name__,
        message=error.message,
        hint=error.hint,
        exit_code=int(error.exit_code),
    )
