"""The engine's process, seen from the screen's end of the pipe: scripted model, real index, real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from service_driver import ABORT, BREAK, HANG_IN_GENERATION, HANG_IN_PREFILL, PRINT

from adaptrag_cli.config import load_settings
from adaptrag_cli.errors import AdaptRAGError, ExitCode
from adaptrag_cli.events import (
    ChunksSelected,
    DecisionMade,
    Event,
    GenerationReused,
    PromptBuilt,
    RunFailed,
    RunFinished,
    RunStarted,
    TokenGenerated,
)
from adaptrag_cli.models.catalogue import find_entry
from adaptrag_cli.service.client import EngineProcess
from adaptrag_cli.service.protocol import (
    AnyReply,
    Ask,
    Cancel,
    Ended,
    Failed,
    LookUp,
    Noted,
    Prepare,
    Ready,
    Told,
    encode_message,
)
from adaptrag_cli.session.session import open_session
from lamp import ANGLES, DOCUMENTS, QUERY, unsure_model
from laws import check_laws
from plane import PlaneEncoder, plane_index

DRIVER = Path(__file__).with_name("service_driver.py")
ROOT = DRIVER.parents[2]
MODEL = "qwen2.5-coder-0.5b-instruct"
WATCHDOG_S = 120.0


class Talk:
    """A talk with a started engine: takes replies one by one and keeps them all."""

    def __init__(self, engine: EngineProcess) -> None:
        self.engine = engine
        self.replies: list[AnyReply] = []
        self._stream = (reply for batch in engine.batches(interval_s=0.0) for reply in batch)

    def until(self, is_last: Callable[[AnyReply], bool]) -> AnyReply:
        for reply in self._stream:
            self.replies.append(reply)
            if is_last(reply):
                return reply
        raise AssertionError(f"the engine ended: {self.engine.last_words()}")

    def until_over(self, job: int) -> Ended | Failed:
        return self.until(lambda reply: reply.job == job and isinstance(reply, Ended | Failed))

    def until_event(self, kind: type[Event]) -> None:
        self.until(lambda reply: isinstance(reply, Told) and isinstance(reply.event, kind))

    def until_it_ends(self) -> None:
        self.replies += list(self._stream)

    def events(self, job: int) -> list[Event]:
        return [reply.event for reply in self.replies if isinstance(reply, Told) and reply.job == job]

    def of(self, kind: type[AnyReply], job: int) -> list[AnyReply]:
        return [reply for reply in self.replies if isinstance(reply, kind) and reply.job == job]


@pytest.fixture
def flags(tmp_path: Path) -> dict[str, str | int | float | bool]:
    """Settings that name the tiny index and a file in the place of the 0.5B model."""
    (tmp_path / "models").mkdir()
    with (tmp_path / "models" / find_entry(MODEL).file).open("wb") as file:
        file.truncate(find_entry(MODEL).size_bytes or 0)  # a hole of the right size
    plane_index(tmp_path, DOCUMENTS, PlaneEncoder(tmp_path / "encoder", ANGLES))
    return {
        "models.answer": MODEL,
        "models.dir": str(tmp_path / "models"),
        "index.dir": str(tmp_path / "indexes"),
        "ask.threshold": 0.3,
        "ask.top_n": 2,
        "ask.top_k": 2,
    }


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "tests")]))
    return [sys.executable, str(DRIVER), str(tmp_path)]


@pytest.fixture
def engine(command: list[str]) -> Iterator[EngineProcess]:
    with EngineProcess(command) as engine:
        watchdog = threading.Timer(WATCHDOG_S, engine.close)  # a broken engine fails the test instead of hanging it
        watchdog.start()
        yield engine
        watchdog.cancel()


@pytest.fixture
def talk(engine: EngineProcess) -> Talk:
    return Talk(engine)


@pytest.fixture
def log(tmp_path: Path) -> Callable[[], list[str]]:
    path = tmp_path / "log.txt"
    return lambda: path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def timeless(events: list[Event]) -> list[Event]:
    """The events without what a clock says."""
    return [
        msgspec.structs.replace(event, elapsed_ms=0.0, **({"timings": ()} if isinstance(event, RunFinished) else {}))
        for event in events
    ]


# --- jobs


def test_the_events_are_those_of_a_run_in_this_process(talk: Talk, flags, monkeypatch, tmp_path):
    talk.engine.send(Ask(job=1, query=QUERY, flags=flags))
    assert talk.until_over(1) == Ended(job=1)
    monkeypatch.setattr("adaptrag_cli.models.llama.load_llama_lanes", lambda *_, **__: (unsure_model(),))
    monkeypatch.setattr(
        "adaptrag_cli.models.encoder.load_encoder", lambda *_, **__: PlaneEncoder(tmp_path / "encoder", ANGLES)
    )
    here = list(open_session(load_settings(flags=flags)).ask(QUERY))
    check_laws(talk.events(1))
    assert timeless(talk.events(1)) == timeless(here)
    assert isinstance(here[-1], RunFinished)


def test_what_is_loaded_is_told_before_the_first_event(talk: Talk, flags, tmp_path):
    talk.engine.send(Ask(job=1, query=QUERY, flags=flags))
    talk.until_over(1)
    kinds = list(dict.fromkeys(type(reply) for reply in talk.replies))
    assert kinds == [Noted, Ready, Told, Ended]
    assert talk.replies[0] == Noted(job=1, text=f"loading {MODEL}")
    (ready,) = talk.of(Ready, 1)
    assert isinstance(ready, Ready)
    assert (ready.strategy, ready.model, ready.model_path) == ("dtr", "scripted", "scripted.gguf")
    assert (ready.gpu_layers_requested, ready.gpu_layers_used, ready.threads) == ("auto", 0, 1)
    assert (ready.index, ready.index_path, ready.chunks) == ("plane", str(tmp_path / "corpus"), 4)
    assert (ready.is_fresh, ready.warnings, ready.context_length) == (True, (), 4096)
    assert (ready.defaults["threshold"], ready.defaults["ais"], ready.defaults["style"]) == (0.3, "cos", "short")
    started = talk.events(1)[0]
    assert isinstance(started, RunStarted)
    assert started.index_fingerprint == ready.index_fingerprint


def test_a_changed_threshold_or_strategy_loads_no_model_again(talk: Talk, flags, log):
    talk.engine.send(Prepare(job=1, flags=flags))
    talk.engine.send(Ask(job=2, query=QUERY, flags=flags))
    talk.engine.send(Ask(job=3, query=QUERY, flags={**flags, "ask.threshold": 0.9}))
    talk.engine.send(Ask(job=4, query=QUERY, flags={**flags, "ask.strategy": "always"}))
    assert talk.until_over(4) == Ended(job=4)
    assert [line for line in log() if line.startswith("load")] == ["load 4096"]
    assert [len(talk.of(Ready, job)) for job in (1, 2, 3, 4)] == [1, 1, 1, 1]
    assert [len(talk.of(Noted, job)) for job in (1, 2, 3, 4)] == [1, 0, 0, 0]
    assert talk.events(1) == []
    ends = [talk.events(job)[-1] for job in (2, 3, 4)]
    assert [(end.answer_source, end.counts.llm_calls) for end in ends] == [
        ("documents", 3),
        ("draft", 1),
        ("documents", 1),
    ]


def test_another_context_length_loads_anew_after_the_old_model_is_closed(talk: Talk, flags, log):
    talk.engine.send(Prepare(job=1, flags=flags))
    talk.engine.send(Prepare(job=2, flags={**flags, "models.context_length": 512}))
    assert talk.until_over(2) == Ended(job=2)
    assert log() == ["load 4096", "close", "load 512"]


def test_a_look_up_with_the_texts_of_a_run_calls_no_model(talk: Talk, flags, log):
    talk.engine.send(Ask(job=1, query=QUERY, flags=flags))
    talk.until_over(1)
    calls = log().count("call")
    run = talk.events(1)
    changed = {**flags, "ask.ais": "sum", "ask.top_k": 1}
    talk.engine.send(LookUp(job=2, query=QUERY, flags=changed, reuse=tuple(run)))
    assert talk.until_over(2) == Ended(job=2)
    assert (calls, log().count("call")) == (3, 3)
    found = talk.events(2)
    assert not [e for e in found if isinstance(e, PromptBuilt | DecisionMade | RunFinished)]
    assert [e.phase for e in found if isinstance(e, GenerationReused)] == ["pseudo_context"]
    (selected,) = [e for e in found if isinstance(e, ChunksSelected)]
    assert (selected.score_name, [c.kept for c in selected.candidates]) == ("sum", [True, False, False])


def test_the_other_branch_runs_with_the_draft_of_the_first(talk: Talk, flags, log):
    talk.engine.send(Ask(job=1, query=QUERY, flags={**flags, "ask.threshold": 0.9}))
    talk.until_over(1)
    talk.engine.send(Ask(job=2, query=QUERY, flags=flags, reuse=tuple(talk.events(1))))
    talk.until_over(2)
    assert log().count("call") == 1 + 2  # draft; pseudo-context and answer
    check_laws(talk.events(2))
    assert [e.phase for e in talk.events(2) if isinstance(e, GenerationReused)] == ["draft"]


@pytest.mark.parametrize(
    ("wrong", "error", "code"),
    [
        ({"ask.strategy": "allways"}, "UnknownName", ExitCode.USAGE),
        ({"ask.threshold": "much"}, "ConfigError", ExitCode.USAGE),
        ({"index.name": "elsewhere"}, "IndexNotFound", ExitCode.INDEX),
        ({"models.answer": "smollm2-135m-instruct"}, "ModelNotFound", ExitCode.MODEL),
    ],
)
def test_a_job_that_cannot_begin_says_why_and_the_next_one_runs(talk: Talk, flags, log, wrong, error, code):
    talk.engine.send(Prepare(job=1, flags=flags))
    talk.engine.send(Ask(job=2, query=QUERY, flags={**flags, **wrong}))
    talk.engine.send(Ask(job=3, query=QUERY, flags=flags))
    talk.until_over(3)
    (failure,) = talk.of(Failed, 2)
    assert isinstance(failure, Failed)
    assert (failure.error, failure.exit_code) == (error, code)
    assert failure.message and failure.hint
    assert not talk.of(Ended, 2)
    assert isinstance(talk.events(3)[-1], RunFinished)
    assert log().count("load 4096") == 1


def test_settings_come_from_the_named_file_too(talk: Talk, flags, tmp_path):
    (tmp_path / "mine.toml").write_text('[ask]\nstrategy = "always"\n', encoding="utf-8")
    talk.engine.send(Prepare(job=1, flags=flags, config_file=str(tmp_path / "mine.toml")))
    talk.engine.send(Prepare(job=2, flags=flags, config_file=str(tmp_path / "none.toml")))
    failure = talk.until_over(2)
    assert talk.of(Ready, 1)[0].strategy == "always"
    assert isinstance(failure, Failed)
    assert "none.toml" in failure.message


def test_a_run_that_fails_ends_its_job(talk: Talk, flags):
    talk.engine.send(Ask(job=1, query="  ", flags=flags))
    assert talk.until_over(1) == Ended(job=1)
    failure = talk.events(1)[-1]
    assert isinstance(failure, RunFailed)
    assert failure.message == "the question is empty"


# --- cancelling


@pytest.mark.parametrize(("query", "at"), [(HANG_IN_PREFILL, PromptBuilt), (HANG_IN_GENERATION, TokenGenerated)])
@pytest.mark.parametrize("kind", [Ask, LookUp])
def test_a_running_job_is_stopped(talk: Talk, flags, query, at, kind):
    talk.engine.send(kind(job=1, query=query, flags=flags))
    talk.until_event(at)
    talk.engine.send(Cancel(job=1))
    talk.engine.send(Cancel(job=1))  # an impatient person
    assert talk.until_over(1) == Ended(job=1)
    failure = talk.events(1)[-1]
    assert isinstance(failure, RunFailed)
    assert (failure.error, failure.exit_code) == ("RunCancelled", ExitCode.INTERRUPTED)
    talk.engine.send(Ask(job=2, query=QUERY, flags=flags))
    talk.until_over(2)
    assert isinstance(talk.events(2)[-1], RunFinished)


def test_a_waiting_job_is_dropped_while_another_runs(talk: Talk, flags, log):
    talk.engine.send(Ask(job=1, query=HANG_IN_PREFILL, flags=flags))
    talk.engine.send(Ask(job=2, query=QUERY, flags=flags))
    talk.until_event(PromptBuilt)
    talk.engine.send(Cancel(job=2))
    talk.engine.send(Cancel(job=2))
    failure = talk.until_over(2)
    assert isinstance(failure, Failed)
    assert (failure.error, failure.exit_code) == ("RunCancelled", ExitCode.INTERRUPTED)
    assert not talk.of(Ended, 1)
    talk.engine.send(Cancel(job=1))
    talk.engine.send(Ask(job=3, query=QUERY, flags=flags))
    talk.until_over(3)
    assert len([reply for reply in talk.replies if reply.job == 2]) == 1
    assert isinstance(talk.events(3)[-1], RunFinished)
    assert log().count("call") == 1 + 3


def test_a_job_that_is_cancelled_while_its_model_loads_calls_none(talk: Talk, flags, log, tmp_path):
    os.mkfifo(tmp_path / "gate")
    talk.engine.send(Ask(job=1, query=QUERY, flags=flags))
    talk.until(lambda reply: isinstance(reply, Noted))
    for request in (Cancel(job=1), Prepare(job=2, flags=flags), Cancel(job=2)):
        talk.engine.send(request)
    talk.until_over(2)  # so the first cancellation was heard, too
    (tmp_path / "gate").write_bytes(b"")
    assert talk.until_over(1) == Ended(job=1)
    assert [type(event) for event in talk.events(1)] == [RunStarted, RunFailed]
    assert talk.events(1)[-1].error == "RunCancelled"
    assert log() == ["load 4096"]


def test_a_cancellation_of_what_is_over_or_unknown_is_ignored(talk: Talk, flags):
    talk.engine.send(Ask(job=1, query=QUERY, flags=flags))
    talk.until_over(1)
    talk.engine.send(Cancel(job=1))
    talk.engine.send(Cancel(job=99))
    talk.engine.send(Ask(job=2, query=QUERY, flags=flags))
    assert talk.until_over(2) == Ended(job=2)
    assert isinstance(talk.events(2)[-1], RunFinished)
    assert not [reply for reply in talk.replies if reply.job == 99]


# --- the end of the process


def test_a_native_abort_ends_the_replies_and_is_told(talk: Talk, flags):
    talk.engine.send(Ask(job=1, query=ABORT, flags=flags))
    talk.until_it_ends()
    assert not talk.engine.is_running
    assert isinstance(talk.events(1)[-1], PromptBuilt)
    assert talk.engine.last_words().splitlines() == [
        "the engine's process was ended by SIGABRT",
        "GGML_ASSERT(false) failed: \\x1b[31mred",
    ]
    talk.engine.send(Ask(job=2, query=QUERY, flags=flags))  # into the void
    talk.until_it_ends()
    assert not talk.of(Ended, 2)


def test_a_programming_error_ends_the_process_with_its_traceback(talk: Talk, flags):
    talk.engine.send(Ask(job=1, query=BREAK, flags=flags))
    talk.until_it_ends()
    first, *_, last = talk.engine.last_words().splitlines()
    assert first == "the engine's process ended with exit code 1"
    assert last == "RuntimeError: a programming error"
    assert len(talk.engine.last_words().splitlines()) <= 11


def test_what_native_code_prints_does_not_spoil_the_replies(talk: Talk, flags):
    talk.engine.send(Ask(job=1, query=PRINT, flags={**flags, "ask.strategy": "never", "ask.peek": False}))
    assert talk.until_over(1) == Ended(job=1)
    check_laws(talk.events(1))
    talk.engine.close()
    assert talk.engine.last_words().splitlines()[1:] == [
        '{"kind":"ended","job":1}',
        "native garbageand some from Python",
    ]


def test_the_end_of_stdin_ends_the_process_at_once_whatever_it_does(command: list[str], flags):
    ask = encode_message(Ask(job=1, query=HANG_IN_PREFILL, flags=flags))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(ask)
        process.stdin.flush()
        while b'"prompt_built"' not in process.stdout.readline():
            pass
        process.stdin.close()
        assert process.wait(WATCHDOG_S) == 0


def test_half_a_request_is_the_end_too(command: list[str]):
    done = subprocess.run(command, input=b'{"kind":"ask","jo', capture_output=True, timeout=WATCHDOG_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_request_that_is_none_ends_the_process_with_a_traceback(command: list[str]):
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write(b'{"kind":"dance","job":1}\n')
        process.stdin.flush()
        assert process.wait(WATCHDOG_S) == 1
        assert b"ValidationError" in process.stderr.read()


def test_ctrl_c_in_the_terminal_is_not_for_the_engine(talk: Talk, flags, tmp_path):
    talk.engine.send(Prepare(job=1, flags=flags))
    talk.until_over(1)
    os.kill(pid_of(tmp_path), signal.SIGINT)
    talk.engine.send(Ask(job=2, query=QUERY, flags=flags))
    assert talk.until_over(2) == Ended(job=2)


# --- the client


def pid_of(folder: Path) -> int:
    return int((folder / "pid").read_text())


def test_closing_ends_a_process_that_computes_and_leaves_no_zombie(talk: Talk, flags, tmp_path):
    talk.engine.send(Ask(job=1, query=HANG_IN_PREFILL, flags=flags))
    talk.until_event(PromptBuilt)
    assert talk.engine.is_running
    talk.engine.close()
    talk.engine.close()
    assert not talk.engine.is_running
    assert talk.engine.last_words() == "the engine's process ended with exit code 0"
    with pytest.raises(ChildProcessError):
        os.waitpid(pid_of(tmp_path), os.WNOHANG)
    talk.until_it_ends()


def test_closing_kills_a_process_that_does_not_listen_even_while_a_request_is_stuck(talk: Talk, flags, tmp_path):
    talk.engine.send(Prepare(job=1, flags=flags))
    talk.until_over(1)
    os.kill(pid_of(tmp_path), signal.SIGSTOP)
    much = Ask(job=2, query="Who? " * 100_000, flags=flags)  # more than a pipe holds
    sender = threading.Thread(target=talk.engine.send, args=(much,))
    sender.start()
    talk.engine.close()
    sender.join()
    assert talk.engine.last_words() == "the engine's process was ended by SIGKILL"


def test_closing_from_another_thread_ends_the_batches(talk: Talk, flags):
    talk.engine.send(Prepare(job=1, flags=flags))
    talk.until_over(1)
    closer = threading.Thread(target=talk.engine.close)
    closer.start()
    talk.until_it_ends()
    closer.join()
    assert list(talk.engine.batches()) == []


def test_an_engine_that_was_never_started_closes_and_stays_closed(command: list[str], tmp_path, flags):
    engine = EngineProcess(command)
    assert not engine.is_running
    engine.close()
    assert list(engine.batches()) == []
    engine.send(Prepare(job=1, flags=flags))
    assert not engine.is_running
    assert not (tmp_path / "pid").exists()
    assert engine.last_words() == ""


def test_a_program_that_cannot_be_started_is_told(tmp_path):
    with EngineProcess([str(tmp_path / "none")]) as engine, pytest.raises(AdaptRAGError, match="cannot be started"):
        engine.send(Prepare(job=1, flags={}))


BURST = """
import sys
from adaptrag_cli.service.protocol import Noted, encode_message
for _ in sys.stdin.buffer:
    for number in range(3000):
        sys.stdout.buffer.write(encode_message(Noted(job=number, text="x")))
        sys.stdout.buffer.flush()
"""


def test_replies_come_in_order_and_at_most_one_batch_an_interval(command: list[str]):
    interval_s = 0.1
    with EngineProcess([sys.executable, "-c", BURST]) as engine:
        engine.send(Cancel(job=0))
        jobs: list[int] = []
        batches = 0
        started = time.monotonic()
        for batch in engine.batches(interval_s):
            batches += 1
            jobs += [reply.job for reply in batch]
            if len(jobs) == 3000:
                break
    assert jobs == list(range(3000))
    # All of them together: this process may be kept waiting before it sees one, and then sees the next one soon.
    assert time.monotonic() - started >= (batches - 1) * interval_s * 0.99


def test_the_last_reply_of_a_process_that_died_in_the_middle_of_a_line_is_dropped():
    script = 'import os; os.write(1, b\'{"kind":"ended","job":1}\\n{"kind":"ended","jo\'); os.kill(os.getpid(), 9)'
    with EngineProcess([sys.executable, "-c", script]) as engine:
        engine.send(Cancel(job=1))
        assert [reply for batch in engine.batches() for reply in batch] == [Ended(job=1)]
        assert engine.last_words() == "the engine's process was ended by SIGKILL"


@pytest.mark.parametrize("command", [None, [sys.executable, "-m", "adaptrag_cli.service"]], ids=["default", "module"])
def test_the_real_program_starts_and_answers(command, tmp_path, monkeypatch):
    if command is None:  # the working folder may be a stranger's
        monkeypatch.delenv("PYTHONPATH", raising=False)
        (tmp_path / "msgspec.py").write_text("raise SystemExit('hijacked')")
    else:
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with EngineProcess(command) as engine:
        talk = Talk(engine)
        engine.send(Prepare(job=1, flags={"ask.strategy": "allways"}))
        failure = talk.until_over(1)
    assert isinstance(failure, Failed)
    assert failure.message == "unknown strategy 'allways'; did you mean 'always'?"


def test_the_process_loads_no_front_end_and_nothing_heavy_to_start():
    code = (
        "import sys, adaptrag_cli.service.child, adaptrag_cli.service.client\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (
        set(done.stdout.split()) & {"textual", "rich", "typer", "torch", "llama_cpp", "faiss", "onnxruntime"} == set()
    )
