"""`adaptrag demo` with recorded runs in place of a model: what is set up, what is told, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from typer.testing import CliRunner, Result

import traces
from adaptrag_cli.cli.app import app
from adaptrag_cli.config import Settings
from adaptrag_cli.demo.tour import CASES, OWN_FOLDER, Case, Row, tell
from adaptrag_cli.errors import DownloadError
from adaptrag_cli.events import Event, WarningRaised
from adaptrag_cli.models.catalogue import DEFAULT_ANSWER_MODEL, DEFAULT_ENCODER
from adaptrag_cli.run_summary import fold
from index_fakes import HashEncoder

RECORDED: Mapping[str, Callable[[], list[Event]]] = {
    "draft": traces.skipped,
    "documents": traces.retrieved,
    "none": traces.unanswered,
}


@dataclass
class DemoSession:
    """Answers each question of the tour with a run that ends as the default model's does."""

    runs: Mapping[str, list[Event]]
    queries: list[str] = field(default_factory=list)
    warnings: tuple[WarningRaised, ...] = ()
    is_closed: bool = False
    options: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(threshold=0.3))
    model: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(cancel=lambda: None, info=SimpleNamespace(name="recorded-model"))
    )

    def ask(self, query: str) -> Iterator[Event]:
        self.queries.append(query)
        yield from self.runs[query]

    def close(self) -> None:
        self.is_closed = True


@dataclass
class Demo:
    """The command with everything heavy replaced; the index is real."""

    session: DemoSession
    pulled: list[str] = field(default_factory=list)
    settings: Settings | None = None

    def __call__(self, *words: str) -> Result:
        return CliRunner().invoke(app, ["demo", *words])


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Demo:
    session = DemoSession({case.query: RECORDED[case.expected]() for case in CASES})
    line = Demo(session)

    def ensure_models(names, models_dir, on_progress):
        line.pulled += names

    def open_session(settings, *, on_note):
        line.settings = settings
        return session

    monkeypatch.setattr("adaptrag_cli.models.download.ensure_models", ensure_models)
    monkeypatch.setattr("adaptrag_cli.session.session.open_session", open_session)
    encoder = HashEncoder(tmp_path / "encoder", max_length=256)
    monkeypatch.setattr("adaptrag_cli.models.encoder.load_encoder", lambda name, models_dir, **prefixes: encoder)
    return line


def case_of(expected: str) -> Case:
    return next(case for case in CASES if case.expected == expected)


def test_it_fetches_both_models_indexes_asks_every_question_and_closes(demo: Demo, tmp_path: Path) -> None:
    result = demo("--index-dir", "ix")
    assert result.exit_code == 0
    assert demo.pulled == [DEFAULT_ENCODER, DEFAULT_ANSWER_MODEL]
    assert demo.session.queries == [case.query for case in CASES]
    assert demo.session.is_closed
    assert (tmp_path / "ix" / "demo" / "CURRENT").is_file()


def test_titles_and_answers_come_in_order_and_the_next_commands_last(demo: Demo) -> None:
    lines = demo("--index-dir", "ix").stdout.splitlines()
    titles = [line for line in lines if line[:1].isdigit() and line[1:3] == "  "]
    assert titles == [f"{number}  {case.title}" for number, case in enumerate(CASES, start=1)]
    answers = [line.split("Answer", 1)[1].strip() for line in lines if line.startswith("   Answer ")]
    assert answers == [
        "10 pm  (0.8 s)",
        "21:30  (2.3 s)",
        "21:30  (2.3 s)",
        "The documents do not tell.  (0.9 s)",
        "10 pm  (0.8 s)",
    ]
    assert lines[-4:] == ["Now your own folder", *(f"   {command}" for command in OWN_FOLDER)]


def test_it_says_what_is_indexed_and_who_answers(demo: Demo) -> None:
    demo.session.warnings = (WarningRaised(code="gpu_not_used", message="no GPU was found"),)
    text = " ".join(demo("--index-dir", "ix").stdout.split())
    assert text.startswith("23 documents of the Pellwether Observatory")
    assert "recorded-model first answers each question from memory." in text
    assert "Only above the threshold 0.3 are the documents looked up. warning: no GPU was found" in text


def test_the_tour_is_about_deciding_whatever_the_users_own_settings_say(demo: Demo, tmp_path: Path) -> None:
    (tmp_path / "adaptrag.toml").write_text('[ask]\nstrategy = "always"\nstyle = "cited"\npeek = false\n')
    assert demo("--index-dir", "ix", "--model", "qwen2.5-coder-0.5b-instruct").exit_code == 0
    assert demo.settings is not None
    assert (demo.settings.ask.strategy, demo.settings.ask.style, demo.settings.ask.peek) == ("dtr", "short", True)
    assert demo.settings.index.name == "demo"
    assert demo.pulled == [DEFAULT_ENCODER, "qwen2.5-coder-0.5b-instruct"]


def test_a_model_given_by_path_is_not_fetched(demo: Demo) -> None:
    assert demo("--index-dir", "ix", "--model", "./own.gguf").exit_code == 0
    assert demo.pulled == [DEFAULT_ENCODER]


def test_a_run_that_fails_ends_the_tour_with_its_own_code(demo: Demo) -> None:
    first, second, *_ = CASES
    demo.session.runs = {first.query: traces.skipped(), second.query: traces.failed()}
    result = demo("--index-dir", "ix")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (4, "adaptrag: the model broke (adaptrag doctor)")
    assert demo.session.is_closed


def test_a_failure_whose_code_no_table_holds_is_a_failed_run(demo: Demo) -> None:
    *events, failure = traces.failed()
    demo.session.runs = {CASES[0].query: [*events, msgspec.structs.replace(failure, exit_code=77)]}
    result = demo("--index-dir", "ix")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (1, "adaptrag: the model broke (adaptrag doctor)")


def test_a_failed_download_is_one_line(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(names, models_dir, on_progress):
        raise DownloadError("no source delivered the model", "try again")

    monkeypatch.setattr("adaptrag_cli.models.download.ensure_models", refuse)
    result = demo("--index-dir", "ix")
    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr == "adaptrag: no source delivered the model (try again)\n"


def test_a_skipped_run_is_told() -> None:
    case = case_of("draft")
    assert tell(case, fold(traces.skipped())) == (
        Row(label="Question", text=case.query),
        Row(
            label="Decision",
            text='From memory the model says "10 pm", with uncertainty u = 0.02: not above the threshold 0.30. '
            "So nothing was looked up.",
        ),
        Row(label="Answer", text="10 pm  (0.8 s)"),
        Row(label="Not read", text="handbook.md:11-19  (the closest chunk, s1 0.71)"),
        Row(label="Why", text=case.lesson),
    )


def test_a_retrieved_run_is_told_with_its_sources() -> None:
    case = case_of("documents")
    rows = tell(case, fold(traces.retrieved()))
    assert rows[1].text == (
        'From memory the model says "10 pm", with uncertainty u = 0.57: above the threshold 0.30. '
        "So the documents were looked up: 2 of 3 chunks found were read."
    )
    assert rows[3:-1] == (
        Row(label="Sources", text="[1] handbook.md:11-19  (s1 0.80, s2 0.96, AIS 0.60)"),
        Row(label="", text="[2] handbook.md:21-29  (s1 0.60, s2 1.00, AIS 0.60)"),
    )


def test_an_unanswered_run_says_why_and_what_was_looked_at() -> None:
    rows = tell(case_of("none"), fold(traces.unanswered()))
    assert rows[2:-1] == (
        Row(label="Answer", text="The documents do not tell.  (0.9 s)"),
        Row(label="Because", text="the answer is a guess: u = 1.20 > 0.80"),
        Row(label="Looked at", text="[1] handbook.md:11-19  (s1 0.80)"),
    )


def test_a_blank_draft_is_told_without_a_number() -> None:
    rows = tell(case_of("documents"), fold(traces.blank_draft()))
    assert rows[1].text.startswith(
        "The model has no answer from memory: uncertainty is undefined: the draft is empty. So"
    )


def test_a_model_that_decides_otherwise_is_told_truly() -> None:
    rows = tell(case_of("draft"), fold(traces.retrieved()))
    assert rows[-2] == Row(
        label="Note",
        text="answered from the documents, where the default model with its measured threshold answers from its memory",
    )
