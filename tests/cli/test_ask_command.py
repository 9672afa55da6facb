"""`adaptrag ask`: flags, streams, trace files, exit codes, Ctrl-C and closed pipes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import traces
from adaptrag_cli.errors import ConfigError, IndexNotFound, ModelNotFound
from adaptrag_cli.events import PromptBuilt, RunFailed
from adaptrag_cli.session.session import Session
from adaptrag_cli.strategies.base import Options, Resources, load_strategy
from adaptrag_cli.trace import read_trace
from fakes import ScriptedModel
from lamp import QUERY, READING, lamp_retriever, unsure_model
from laws import check_laws

ROOT = Path(__file__).parents[2]


def test_the_answer_alone_is_on_stdout(command_line):
    done = command_line("ask", "When is quiet time?")
    assert (done.exit_code, done.stdout) == (0, "10 pm\n")
    assert done.stderr.splitlines() == [
        "answered from the model's memory: u = 0.02 <= 0.30 (dtr) - 0.8 s",
        "not consulted: handbook.md:11-19 (s1 0.71); to consult it: --strategy always",
    ]
    assert command_line.session.queries == ["When is quiet time?"]
    assert command_line.session.is_closed


def test_an_answer_that_the_documents_do_not_tell_is_no_failure(command_line):
    command_line.session.events = traces.unanswered()
    done = command_line("ask", "q")
    assert (done.exit_code, done.stdout) == (0, "The documents do not tell.\n")


def test_every_typed_flag_becomes_a_setting_with_its_origin(command_line, tmp_path):
    words = {
        "--strategy": ("ask.strategy", "always"),
        "--threshold": ("ask.threshold", 0.25),
        "--retriever": ("ask.retriever", "hybrid"),
        "--ais": ("ask.ais", "sum"),
        "--top-n": ("ask.top_n", 7),
        "--top-k": ("ask.top_k", 2),
        "--style": ("ask.style", "cited"),
        "--index": ("index.name", "handbook"),
        "--index-dir": ("index.dir", tmp_path / "indexes"),
        "--model": ("models.answer", "smollm2-135m-instruct"),
        "--models-dir": ("models.dir", tmp_path / "models"),
        "--gpu-layers": ("models.gpu_layers", "12"),
        "--context-length": ("models.context_length", 2048),
    }
    typed = [word for flag, (_, value) in words.items() for word in (flag, str(value))]
    assert command_line("ask", "q", "--no-peek", *typed).exit_code == 0
    for flag, (name, value) in words.items():
        assert command_line.settings.value(name) == value
        assert command_line.settings.origin(name) == flag
    assert command_line.settings.ask.peek is False
    assert command_line.settings.origin("ask.peek") == "--no-peek"


def test_a_flag_that_was_not_typed_leaves_every_setting_alone(command_line):
    assert command_line("ask", "q").exit_code == 0
    assert command_line.settings.origins == {}


def test_the_named_settings_file_is_read(command_line, tmp_path):
    (tmp_path / "my.toml").write_text("[ask]\ntop_k = 4\n")
    assert command_line("ask", "q", "--config", "my.toml").exit_code == 0
    assert command_line.settings.ask.top_k == 4


@pytest.mark.parametrize(
    ("flag", "value", "told"),
    [
        ("--retriever", "magic", "--retriever: ask.retriever must be"),
        ("--top-k", "0", "--top-k: ask.top_k must be"),
        ("--gpu-layers", "many", "--gpu-layers: models.gpu_layers must be"),
        ("--threshold", "nan", "--threshold: ask.threshold must be"),
    ],
)
def test_a_wrong_value_is_told_in_one_line_before_anything_is_loaded(flag, value, told, command_line):
    done = command_line("ask", "q", flag, value)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"adaptrag: {told}")
    assert done.stderr.count("\n") == 1
    assert command_line.settings is None


@pytest.mark.parametrize("question", ["", "  \n\t "])
def test_a_blank_question_is_refused_before_anything_is_loaded(question, command_line):
    done = command_line("ask", question)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("adaptrag: the question is empty (")
    assert command_line.settings is None


def test_a_dash_reads_the_question_from_stdin(command_line):
    assert command_line("ask", "-", stdin=b"Wann ist Nachtruhe?\n").exit_code == 0
    assert command_line.session.queries == ["Wann ist Nachtruhe?"]


def test_what_is_not_unicode_in_the_question_is_replaced(command_line):
    assert command_line("ask", "caf\udce9 hours?").exit_code == 0
    assert command_line("ask", "-", stdin=b"caf\xe9 hours?").exit_code == 0
    assert command_line.session.queries == ["caf\ufffd hours?"] * 2


def test_json_is_exactly_one_document(command_line):
    command_line.session.events = traces.retrieved()
    done = command_line("ask", "q", "--json")
    assert json.loads(done.stdout)["decision"]["retrieve"] is True
    assert done.stderr == "warning: 1 file changed since indexing\n"


def test_verbose_adds_the_tables_to_stderr(command_line):
    done = command_line("ask", "q", "-v")
    assert done.stdout == "10 pm\n"
    assert "\ndraft (2 tokens, mean_nll u = 0.0200; entropy in nats)\n" in done.stderr


def test_a_run_that_fails_leaves_stdout_empty_and_returns_its_code(command_line):
    command_line.session.events = traces.failed()
    for options in ([], ["--json"], ["-v"]):
        done = command_line("ask", "q", *options)
        assert (done.exit_code, done.stdout) == (4, "")
        assert done.stderr == "adaptrag: the model broke (adaptrag doctor)\n"


@pytest.mark.parametrize(("code", "returned"), [(1, 1), (2, 2), (3, 3), (130, 130), (0, 1), (77, 1)])
def test_a_failed_run_returns_a_code_of_the_table(code, returned, command_line):
    command_line.session.events[-1] = msgspec.structs.replace(traces.failed()[-1], exit_code=code)
    assert command_line("ask", "q").exit_code == returned


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (ConfigError("wrong", "mend it"), 2),
        (IndexNotFound("no index", "adaptrag index FOLDER"), 3),
        (ModelNotFound("no model", "adaptrag models pull NAME"), 4),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_opened_is_told_with_its_remedy(failure, code, command_line):
    command_line.failure = failure
    done = command_line("ask", "q", "--trace", "run.jsonl")
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr == f"adaptrag: {failure.message} ({failure.hint})\n"
    assert not Path("run.jsonl").exists()


def test_a_trace_holds_every_event(command_line, tmp_path):
    command_line.session.events = traces.cited()
    assert command_line("ask", "q", "--trace", "run.jsonl").exit_code == 0
    assert list(read_trace(tmp_path / "run.jsonl")) == traces.cited()


def test_a_failed_run_leaves_its_trace(command_line, tmp_path):
    command_line.session.events = traces.failed()
    assert command_line("ask", "q", "--trace", "run.jsonl").exit_code == 4
    assert list(read_trace(tmp_path / "run.jsonl")) == traces.failed()


@pytest.mark.parametrize("place", [".", "missing/run.jsonl", "handbook.md"])
def test_a_trace_that_cannot_be_written_is_told_before_anything_is_loaded(place, command_line, tmp_path):
    (tmp_path / "handbook.md").write_text("# Handbook\n")
    done = command_line("ask", "q", "--trace", place)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert command_line.settings is None
    assert (tmp_path / "handbook.md").read_text() == "# Handbook\n"


def test_a_programming_error_keeps_its_traceback(command_line):
    command_line.session.events = [traces.skipped()[-1]]  # no run_started: the fold refuses it
    done = command_line("ask", "q")
    assert isinstance(done.exception, ValueError)
    assert command_line.session.is_closed


# --- the process: signals and pipes

PREPARE = """
import sys
sys.path[:0] = {paths!r}
import adaptrag_cli.session.session, traces
from recorded import CommandLine, RecordedSession
import adaptrag_cli.cli.app as app
"""
BLOCKED_IN_C = """
import ctypes
libc = ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(64)  # zeros: an unlocked pthread mutex
libc.pthread_mutex_lock(mutex)

class Session(RecordedSession):
    is_cancelled = False
    def ask(self, query):
        yield from traces.failed()[:{events}]
        print("ready", file=sys.stderr, flush=True)
        libc.pthread_mutex_lock(mutex)  # like llama_decode: no Python handler can run before it returns
        yield {last}

    def cancel(self):
        if not self.is_cancelled:
            self.is_cancelled = True
            libc.pthread_mutex_unlock(mutex)

session = Session([])
session.model = session
"""


def start(code: str, *words: str, **options: object) -> subprocess.Popen[str]:
    paths = [str(ROOT), str(ROOT / "tests")]
    run = (
        "adaptrag_cli.session.session.open_session = CommandLine(session).open_session\n"
        f"sys.argv = {['adaptrag', *words]!r}\n"
        "app.main()\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", PREPARE.format(paths=paths) + code + run],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="blocks in a pthread mutex of glibc")
def test_ctrl_c_stops_a_model_that_is_busy_in_c(tmp_path):
    """The model ends its call and the run ends with run_failed, which the trace keeps."""
    last = "__import__('msgspec').structs.replace(traces.failed()[-1], message='stopped', hint='', exit_code=130)"
    process = start(BLOCKED_IN_C.format(events=3, last=last), "ask", "q", "--trace", "run.jsonl")
    with process:
        assert process.stderr.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "adaptrag: stopped\n")
    assert list(read_trace(tmp_path / "run.jsonl"))[-1].exit_code == 130


@pytest.mark.skipif(sys.platform != "linux", reason="blocks in a pthread mutex of glibc")
def test_ctrl_c_stops_a_run_whose_model_took_no_notice():
    last = "traces.failed()[2]"
    with start(BLOCKED_IN_C.format(events=2, last=last), "ask", "q") as process:
        assert process.stderr.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "adaptrag: stopped\n")


class InterruptedModel(ScriptedModel):
    """The person presses Ctrl-C while the last prompt is written, when no model computes."""

    def build_prompt(self, user_text, *, written=""):
        if READING in user_text:
            signal.raise_signal(signal.SIGINT)
        return super().build_prompt(user_text, written=written)


def test_ctrl_c_between_two_calls_leaves_a_trace_that_ends_properly(command_line, tmp_path):
    model = unsure_model(InterruptedModel())
    use = Resources(model=model, retriever=lamp_retriever(tmp_path), options=Options(threshold=0.3))
    command_line.session = Session(strategy=load_strategy("dtr"), resources=use, settings=(), warnings=(), peek=True)
    stopped = command_line("ask", QUERY, "--trace", "run.jsonl")
    assert (stopped.exit_code, stopped.stdout, stopped.stderr) == (130, "", "adaptrag: stopped\n")
    events = list(read_trace(tmp_path / "run.jsonl"))
    check_laws(events)
    assert [type(event) for event in events[-2:]] == [PromptBuilt, RunFailed]
    assert len(model.calls) == 2  # draft and pseudo-context: the answer was never begun
    again = command_line("replay", "run.jsonl")
    assert (again.exit_code, again.stdout, again.stderr) == (130, "", "adaptrag: stopped\n")


def test_handlers_are_restored_after_a_run(command_line):
    before = signal.getsignal(signal.SIGINT)
    assert command_line("ask", "q").exit_code == 0
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.set_wakeup_fd(-1) == -1
    assert command_line.session.model.cancelled == 0


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["answer", "json"])
@pytest.mark.parametrize("name", ["retrieved", "cited"])
def test_a_reader_that_goes_away_causes_no_traceback(name, options):
    with start(f"session = RecordedSession(traces.{name}())\n", "ask", "q", *options) as process:
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode == 1
    assert "Traceback" not in err
    assert "Exception ignored" not in err


def test_a_narrow_encoding_escapes_what_it_cannot_write(monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    code = (
        "import msgspec\nevents = traces.skipped()\n"
        "events[-1] = msgspec.structs.replace(events[-1], answer='caf\\u00e9')\nsession = RecordedSession(events)\n"
    )
    with start(code, "ask", "q") as process:
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "caf\\xe9\n")
